"""ORed logistic regression as printed (Pham, Raich and Fern 2014)."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bagwise._common.types import Floats
from bagwise.annotation import ORedLogisticRegression
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.published._functions import function_of

__all__ = ["orlr"]


@with_parameters
class PublishedORLR(ORedLogisticRegression):
    r"""ORed logistic regression (ORLR) by generalised EM, as printed by Pham et al. 2014.

    An instance has label c with probability :math:`p(c | x) \propto e^{w_c \cdot x}` (Eq. 1); the
    label set Y of a bag is the union of the labels of its instances (Eq. 2). An iteration is

    - E-step: :math:`p(y_i = c | Y, X, w)` of each instance, exactly, by the recursion over label
      subsets (Eqs. 8, 11 and 12);
    - M-step: :math:`w_c \leftarrow w_c + \delta \sum_i [p(y_i = c | Y, X, w) - p(c | x_i, w)] x_i`
      (Eqs. 13 and 14), with :math:`\delta` by backtracking, so that the auxiliary function g (Eq.
      7) does not fall.

    The fit starts at w = 0. The paper does not print the backtracking: here :math:`\delta` starts
    at four times the last one (first at 4 / n, for n instances), and is halved until g gains at
    least :math:`\delta / 2` times the squared norm of the gradient.

    Parameters
    ----------
    max_iter : int, default=100
        Number of steps. The paper does not say how many: its results on birds and photos are those
        of 100 steps, those on letters of 10 to 20.
    tol : float, default=0.0
        Largest entry of the gradient, divided by the number of instances, at which to stop. The
        paper stops where the gradient is zero.
    random_state : int, RandomState or None, default=None
        Not used: nothing is random.

    Returns
    -------
    estimator
        With ``annotate`` (Eq. 16), ``annotate_proba``, ``predict_instances`` (Eq. 15), ``coef_``
        of shape (n_classes, n_features) and ``intercept_``, which is 0.

    Notes
    -----
    Our default, :class:`bagwise.annotation.ORedLogisticRegression`, differs in three ways:

    - a penalty :math:`\tfrac{\lambda}{2} |W|^2`: without it the likelihood may have no maximum, and
      the result depends on the number of steps;
    - a bias, without which the classes need a constant feature to differ in frequency;
    - L-BFGS on the likelihood, which reaches the maximum in far fewer passes over the bags.

    Eq. 7 prints w' in the logarithm, where w is meant; Eq. 14 has the derivative of w.

    References
    ----------
    Pham, Raich, Fern. Efficient instance annotation in multi-instance learning. IEEE SSP 2014.

    Examples
    --------
    >>> from bagwise.published import orlr
    >>> bags = [[[-1.6], [1.5]], [[-1.4], [-1.5]], [[1.3], [-1.5], [1.4]], [[1.6]]]
    >>> label_sets = [{"wren", "robin"}, {"wren"}, {"robin", "wren"}, {"robin"}]
    >>> model = orlr(tol=1e-2).fit(bags, label_sets)
    >>> model.annotate([[[-1.6], [0.1]]], [{"robin", "wren"}])
    array(['wren', 'robin'], dtype='<U5')
    """

    _declared: Any = ({}, {})  # none of the parameters of our default
    reg, kernel, missing, spurious, background = 0.0, "linear", 0.0, 0.0, False
    max_operations, checkpoint = np.inf, None  # always the exact posterior

    _parameter_constraints = {"tol": [NOT_NEGATIVE]}
    _advice = "raise max_iter; the likelihood without a penalty may have no maximum"

    max_iter: int = 100
    _: KW_ONLY
    tol: float = 0.0
    random_state: Any = None

    def _options(self, weight: Floats) -> dict[str, Any]:
        return super()._options(weight) | {"solver": "gem", "fit_intercept": False}


orlr = function_of(PublishedORLR, "orlr")

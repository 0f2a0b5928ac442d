"""pdMISVM as printed (Brand et al. 2021)."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base._parameters import with_parameters
from bagwise.classification import PrimalDualMISVM
from bagwise.compute import Parts
from bagwise.labels import Labels
from bagwise.published._functions import function_of
from bagwise.solvers import SolverResult
from bagwise.solvers.margin.primal_dual import LinearSpace, primal_dual

__all__ = ["pdmisvm"]


class _AllFeatures(LinearSpace):
    """W with weights of all features, constant ones too."""

    def used_features(self, parts: Parts) -> Any:
        """1 for each feature."""
        return 0 * super().used_features(parts) + 1


@with_parameters
class PublishedMISVM(PrimalDualMISVM):
    r"""Primal-dual multi-instance SVM (pdMISVM), Algorithm 1 as printed by Brand et al. 2021.

    The ADMM minimises, with :math:`y_i^m = 1` if bag i is of class m, else -1 (Eq. 6),

    .. math:: \tfrac12 \sum_m |w_m|^2 + C \sum_{i, m} \bigl(1 - [\max_j(w_m x_{ij} + b_m) -
        \max_j(w_{y_i} x_{ij} + b_{y_i})] y_i^m\bigr)_+

    on copies T and U of the scores, their maxima Q and R, and the slack E (Eq. 7). An iteration
    updates W (Eq. 10, or the line search of Eq. 25), b (Eq. 11), E (Eq. 13), Q (Eq. 15), R (Eq.
    16), T and U (Eqs. 19 and 20), the multipliers (lines 16 and 17), and :math:`\mu \leftarrow \rho
    \mu`. It starts at ``W = 1e-3 * check_random_state(random_state).standard_normal((K, d))``, b =
    0, copies that equal the scores, and multipliers that are 0.

    Parameters
    ----------
    C : float, default=0.01
        Cost of a margin error.
    mu : float, default=1e-3
        First penalty of the constraints.
    rho : float, default=1.2
        Growth of the penalty per iteration.
    solver : {"exact", "inexact"}, default="exact"
        Update of W: Eq. 10 or Eq. 25.
    max_iter : int, default=500
        Maximum number of iterations.
    tol : float, default=1e-4
        Violation of the constraints at which to stop, relative to the maxima. The paper has a
        tolerance on the total difference, and does not print its value.
    random_state : int, RandomState or None, default=None
        For the start of W, whose distribution the paper does not print.

    Returns
    -------
    estimator
        With ``coef_`` of shape (n_classes, n_features) and ``intercept_`` of shape (n_classes,),
        also for two classes: the last iterate.

    Notes
    -----
    Eq. 11 is misprinted: its divisor is the number of instances, n + K n_m, as in the authors'
    program, not of bags. With the number of bags b diverges.

    Our default, :class:`bagwise.classification.PrimalDualMISVM`, has the same problem (the term m =
    y_i is constant) and differs in two ways:

    - the costs of m = y_i are left out of the ADMM: there they are not inert, and the objective
      usually ends lower without them;
    - features that are constant in the training bags get no weight: the bias has their place.

    References
    ----------
    Brand, Baker, Ellefsen, Sargent, Wang. A linear primal-dual multi-instance SVM for big data
    classifications. ICDM 2021.

    Examples
    --------
    >>> from bagwise.published import pdmisvm
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = pdmisvm(C=1, random_state=0).fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    """

    _declared: Any = ({}, {})  # none of the parameters of our default
    assumption, pos_label, kernel = "classes", None, "linear"
    _parameter_constraints = {"solver": [StrOptions({"exact", "inexact"})]}

    C: float = 0.01
    mu: float = 1e-3
    rho: float = 1.2
    solver: str = "exact"
    _: KW_ONLY
    max_iter: int = 500
    tol: float = 1e-4
    random_state: Any = None

    def _solve(self, bags: Bags, labels: Labels, weight: Array, rng: Any) -> list[SolverResult]:
        result = primal_dual(
            _AllFeatures(bags),
            labels.codes,
            len(labels.classes),
            weights=weight,
            rng=rng,
            mask_own_class=False,
            C=self.C,
            mu=self.mu,
            rho=self.rho,
            largest_mu=np.inf,
            max_iter=self.max_iter,
            tol=self.tol,
            exact=self.solver == "exact",
            track=partial(self._track, task="iteration", total=self.max_iter),
        )
        (self.coef_, self.intercept_), self.residuals_ = result.solution, result.residuals
        return [result]


pdmisvm = function_of(PublishedMISVM, "pdmisvm")

"""DiverseDensity (DD): a point near an instance of every positive bag, far from negative bags."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise.base._parameters import with_parameters
from bagwise.classification._point_concept import PointConceptClassifier
from bagwise.solvers.likelihood.diverse_density import diverse_density
from bagwise.solvers.result import SolverResult


@with_parameters
class DiverseDensity(PointConceptClassifier):
    r"""The most likely point concept under noisy-or (DD, Maron and Lozano-Pérez 1998).

    An instance x is positive with probability :math:`p(x) = \exp(-\sum_k w_k (x_k - t_k)^2)`, and
    a bag is positive if one of its instances is. The point t and the weights w minimise

    .. math:: -\sum_{B\,\text{positive}} \log\Bigl(1 - \prod_{x \in B} (1 - p(x))\Bigr)
        - \sum_{B\,\text{negative}} \sum_{x \in B} \log (1 - p(x))

    by L-BFGS from every instance of every positive bag. More than two classes are handled
    one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    n_start_bags : int or None, default=None
        Number of positive bags, drawn at random, whose instances are starting points; all by
        default.
    gamma : {"scale", "auto"} or float, default="scale"
        The weight of each feature at the start; "scale" is ``1 / (n_features * variance of the
        instances)``, "auto" ``1 / n_features``.
    max_iter : int, default=200
        Maximum number of steps from each starting point.
    tol : float, default=1e-4
        A descent stops when a step lowers the objective by less than this fraction.
    {pos_label}
    random_state : int, RandomState or None, default=None
        For drawing bags to start from.
    {verbose}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    concepts_ : ndarray of shape (n_concepts, n_features)
        The points; one for two classes, else one each.
    weights_ : ndarray of shape (n_concepts, n_features)
        The weights of the features.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each step of the best descent, summed over the concepts.
    n_iter_ : int
        Number of steps of the best descent; the largest number over all concepts.
    {n_features_in_}

    See Also
    --------
    EMDD : Only the nearest instance of a bag counts; usually faster.

    Notes
    -----
    Scores are log-odds and pool by noisy-or: a bag is positive with probability
    :math:`1 - \prod (1 - p)`. Descents run in parallel on all cores. Cost: starts x steps x
    instances x features. Memory: one copy of the instances, and two of the starting points.

    References
    ----------
    Maron, Lozano-Pérez. A framework for multiple-instance learning. NIPS 1997 (1998).

    Examples
    --------
    >>> from bagwise.classification import DiverseDensity
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = DiverseDensity().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "noisy-or"
    keeps = "one concept"

    n_start_bags: int | None = None
    _: KW_ONLY
    gamma: Any = "scale"
    max_iter: int = 200
    tol: float = 1e-4
    pos_label: Any = None
    random_state: Any = None
    verbose: int = 0

    def _separate(self, *problem: Any) -> SolverResult:
        return diverse_density(*problem, max_iter=self.max_iter, tol=self.tol)

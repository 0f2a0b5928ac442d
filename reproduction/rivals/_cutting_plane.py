"""CuttingPlaneMMC (CPMMC): maximum margin clustering into two clusters, by cutting planes."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise._common.sklearn import StrOptions
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from reproduction.rivals._row_clusterer import TwoWayClusterer
from reproduction.rivals.solvers.cutting_plane_mmc import cutting_plane_mmc


@with_parameters
class CuttingPlaneMMC(TwoWayClusterer):
    r"""Two clusters with a wide margin, by cutting planes (CPMMC, Zhao 2008).

    .. math:: \min_{w, b} \tfrac12 |w|^2 + C \sum_i (1 - |f_i|)_+ \quad\text{s.t.}\quad
        |\tfrac1n \sum_i f_i| \le l, \qquad f_i = w \cdot \phi(x_i) + b

    It is solved by the concave-convex procedure. The convex problem of each iteration has one slack
    variable and few cutting planes, so the cost is linear in the number of rows.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a row inside the margin; in the paper, C is the cost of all rows together.
    balance : float, default=0.3
        l: the largest mean score.
    {kernel}
    {gamma}
    {degree}
    {coef0}
    init : {"kmeans", "alignment"}, default="kmeans"
        The first labels: those of (kernel) k-means, or the best aligned with the kernel of twenty
        random balanced labelings.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-4
        Largest excess of the mean slack over that of the cuts, and relative decrease of the
        objective at which to stop.
    random_state : int, RandomState or None, default=None
        For the first labels.
    {verbose}

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        The cluster of each training row, 0 or 1.
    coef_ : ndarray of shape (n_machines, n_features)
        The weights of the features (linear kernel); n_machines is 1.
    support_ : ndarray of shape (n_support,)
        Positions of the training rows with non-zero weight (nonlinear kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those rows.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        The weights of the support vectors.
    {gamma_}
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each round.
    n_iter_ : int
        Number of rounds.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first.

    The outcome is a local minimum that depends on the first labels. Cost: one product with the rows
    (with their kernel matrix) per cut. The kernel needs no decomposition: solutions are weighted
    sums of rows.

    References
    ----------
    Zhao, Wang, Zhang. Efficient maximum margin clustering via cutting plane algorithm. SDM 2008.

    Examples
    --------
    >>> from reproduction.rivals import CuttingPlaneMMC
    >>> X = [[0.0], [0.3], [0.6], [2.0], [2.3], [2.6]]
    >>> labels = CuttingPlaneMMC(random_state=0).fit_predict(X)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False, False]
    """

    _parameter_constraints = {
        "balance": [NOT_NEGATIVE],
        "init": [StrOptions({"kmeans", "alignment"})],
    }

    C: float = 1.0
    _: KW_ONLY
    balance: float = 0.3
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    init: str = "kmeans"
    max_iter: int = 100
    tol: float = 1e-4
    random_state: Any = None
    verbose: int = 0

    def _solve(self, space: FeatureSpace, rows: Any) -> SolverResult:
        return self._improve(cutting_plane_mmc, space, rows)

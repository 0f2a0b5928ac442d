"""IterativeSVR (IterSVR): maximum margin clustering into two, by support vector regression."""

from dataclasses import KW_ONLY
from numbers import Real
from typing import Any

from bagwise._common.sklearn import Interval, StrOptions
from bagwise.base._parameters import with_parameters
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from reproduction.rivals._row_clusterer import TwoWayClusterer, check_number_of_rows
from reproduction.rivals.solvers.iterative_svr import iterative_svr


@with_parameters
class IterativeSVR(TwoWayClusterer):
    r"""Two clusters with a wide margin, by support vector regression (IterSVR, Zhang 2007).

    .. math:: \min_{y, w, b} \tfrac12 |w|^2 + C \sum_i |y_i - (w \cdot \phi(x_i) + b)|

    over labels 1 and -1 in about equal numbers. Each iteration is a regression on the labels of the
    previous one, followed by the best threshold that the balance allows.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a deviation from the label, per row.
    balance : float, default=0.3
        How much the clusters may differ in size, as a share of the rows.
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
        Tolerance of the regression.
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
        The objective after each round; the best round is kept.
    n_iter_ : int
        Number of rounds.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first.

    The outcome depends on the first labels. Cost: a regression (LIBSVM) per round; a kernel matrix
    is kept in memory.

    References
    ----------
    Zhang, Tsang, Kwok. Maximum margin clustering made practical. ICML 2007.

    Examples
    --------
    >>> from reproduction.rivals import IterativeSVR
    >>> X = [[0.0], [0.3], [0.6], [2.0], [2.3], [2.6]]
    >>> labels = IterativeSVR(random_state=0).fit_predict(X)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False, False]
    """

    _parameter_constraints = {
        "balance": [Interval(Real, 0, 1, closed="both")],
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
        check_number_of_rows("IterativeSVR", rows.shape[0])  # LIBSVM even if linear
        return self._improve(iterative_svr, space, rows)

"""GeneralizedMMC (GMMC): maximum margin clustering into two, by a semi-definite program."""

from dataclasses import KW_ONLY
from typing import Any

from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.exceptions import InputError
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from reproduction.rivals._row_clusterer import TwoWayClusterer
from reproduction.rivals.solvers.generalized_mmc import generalized_mmc

MAX_ROWS = 4000


@with_parameters
class GeneralizedMMC(TwoWayClusterer):
    r"""Two clusters with a wide margin, by a convex relaxation (GMMC, Valizadegan and Jin 2006).

    .. math:: \min_{g, b} \tfrac12 (g - b)' (K + I/C)^{-1} (g - b) + \tfrac{e}{2 n} (1' g)^2
        \quad\text{s.t.}\quad g_i^2 \ge 1

    is max-margin clustering with squared slacks and a cost e of unequal clusters. Its Lagrange
    dual, a semi-definite program with one variable per row, bounds it from below; the relaxed
    scores are rounded by their signs. It needs no initial labels and has no local minima; use it
    for small data only.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a squared slack, per row.
    balance : float, default=1.0
        e: cost of a mean score that is not zero, in units of the cost of all rows together.
    {kernel}
    {gamma}
    {degree}
    {coef0}
    max_iter : int, default=300
        Maximum number of Newton steps.
    tol : float, default=1e-4
        Relative duality gap of the semi-definite program.
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
    lower_bound_ : float
        Lower bound on the objective of any two clusters.
    objective_curve_ : ndarray of shape (n_iterations,)
        The lower bound before each Newton step.
    n_iter_ : int
        Number of Newton steps.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first.

    The semi-definite program is solved by a built-in interior point method. Its variables form a
    diagonal matrix, so a Newton step is a few factorisations of n_rows x n_rows matrices. Cost:
    about fifty such steps; more than 4,000 rows are rejected.

    References
    ----------
    Valizadegan, Jin. Generalized maximum margin clustering and unsupervised kernel learning. NIPS
    2006.

    Examples
    --------
    >>> from reproduction.rivals import GeneralizedMMC
    >>> X = [[0.0], [0.3], [0.6], [2.0], [2.3], [2.6]]
    >>> labels = GeneralizedMMC().fit_predict(X)
    >>> (labels == labels[0]).tolist()
    [True, True, True, False, False, False]
    """

    _parameter_constraints = {"balance": [POSITIVE]}

    C: float = 1.0
    _: KW_ONLY
    balance: float = 1.0
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    max_iter: int = 300
    tol: float = 1e-4
    verbose: int = 0

    def _solve(self, space: FeatureSpace, rows: Any) -> SolverResult:
        n_rows = rows.shape[0]
        if n_rows > MAX_ROWS:
            gigabytes = 8 * 8 * n_rows**2 / 2**30
            raise InputError(
                f"X has {n_rows} rows, and GeneralizedMMC is for {MAX_ROWS} at most: each of some "
                f"fifty steps would factorise matrices of {n_rows} rows ({gigabytes:.0f} GB in "
                "all). Take part of the rows and predict the others, or use CuttingPlaneMMC."
            )
        result = generalized_mmc(
            space,
            C=self.C,
            balance=self.balance,
            tol=self.tol,
            steps=self._track(range(self.max_iter), "step"),
        )
        self.lower_bound_ = float(result.objective_curve[-1])
        return result

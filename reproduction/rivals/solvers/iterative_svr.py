r"""IterSVR (Zhang 2007): max-margin clustering by support vector regression on current labels.

.. math:: \min_{y, w, b} \tfrac12 |w|^2 + C \sum_i |y_i - (w \cdot \phi_i + b)|

over balanced labels 1 and -1. The hinge loss of an SVM would keep the labels it is trained on; the
absolute loss also penalises scores beyond the margin, so labels near the boundary change. Each
round fits the regression to the labels, then chooses the intercept, and with it the labels, of
least loss within the balance constraint.
"""

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from sklearn.svm import SVR

from bagwise import loops
from bagwise._common.types import Floats, Ints
from bagwise.solvers.bag_tables import fit_libsvm
from bagwise.solvers.margin.feature_space import FeatureSpace, LinearFeatures
from bagwise.solvers.result import SolverResult
from reproduction.rivals.solvers.linear_algebra import dense_gram


def best_threshold(scores: Floats, balance: float) -> tuple[float, float]:
    """Find the intercept of least loss sum_i |1 - |s_i + b||, midway between adjacent scores.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        s: scores without intercept.
    balance : float
        How much the clusters may differ in size, as a share of n.

    Returns
    -------
    intercept : float
    loss : float
    """
    s = np.sort(scores)
    n = len(s)
    fewest = max(1, int(np.ceil((1 - balance) * n / 2 - 1e-9)))
    counts = np.arange(min(fewest, n // 2), max(n - fewest, n - n // 2) + 1)  # negative rows
    counts = counts[(counts >= 1) & (counts < n)]
    apart = s[counts] > s[counts - 1]
    counts = counts[apart] if apart.any() else counts
    b = -0.5 * (s[counts - 1] + s[counts])
    sums = np.concatenate([[0.0], np.cumsum(s)])

    def distance(centre: Floats, start: Ints, stop: Ints) -> Floats:
        """Sum of |s - centre| over s[start:stop], from cumulative sums of the sorted scores."""
        middle = np.clip(np.searchsorted(s, centre), start, stop)
        below = centre * (middle - start) - (sums[middle] - sums[start])
        return below + (sums[stop] - sums[middle]) - centre * (stop - middle)

    zeros = np.zeros_like(counts)
    loss = distance(-1 - b, zeros, counts) + distance(1 - b, counts, zeros + n)
    best = int(np.argmin(loops.ties.settled(loss)))
    return float(b[best]), float(loss[best])


def iterative_svr(
    space: FeatureSpace, labels: Ints, *, C: float, balance: float, tol: float, steps: Iterable[int]
) -> SolverResult:
    """Cluster by rounds of regression until labels repeat; keep the best round.

    Parameters
    ----------
    space : LinearFeatures or KernelFeatures
        The rows.
    labels : ndarray of shape (n_rows,)
        Initial labels, 1 and -1; both occur.
    C : float
        Cost of a deviation from the label.
    balance : float
        How much the clusters may differ in size, as a share of the rows.
    tol : float
        Tolerance of the regression.
    steps : iterable
        One item per allowed round.

    Returns
    -------
    SolverResult
        ``solution`` is (coef of rows, intercept); the curve is the objective after each round.
    """
    is_linear = isinstance(space, LinearFeatures)
    table = space.rows if isinstance(space, LinearFeatures) else dense_gram(space)
    model = SVR(kernel="linear" if is_linear else "precomputed", C=C, epsilon=0.0, tol=tol)
    seen: set[bytes] = set()
    curve: list[float] = []
    settled = False
    for _ in steps:
        seen.add(labels.tobytes())
        solved = fit_libsvm(model, table, labels)
        coef = np.zeros(len(labels))
        weights = model.dual_coef_
        coef[model.support_] = (weights.toarray() if sparse.issparse(weights) else weights)[0]
        plain = space.scores(coef)
        intercept, loss = best_threshold(plain, balance)
        objective = 0.5 * float(coef @ plain) + C * loss
        if not curve or objective < min(curve):
            solution = coef, np.array(intercept)
        curve.append(objective)
        labels = np.where(plain + intercept > 0, 1, -1)
        settled = solved and labels.tobytes() in seen
        if settled or not solved:
            break
    return SolverResult(solution, curve, settled)

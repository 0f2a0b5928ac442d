r"""IterSVR (Zhang 2007): max-margin clustering by support vector regression on its own labels.

.. math:: \min_{y, w, b} \tfrac12 |w|^2 + C \sum_i |y_i - (w \cdot \phi_i + b)|

over labels of 1 and -1 that are not too unequal in number. The hinge of an SVM would keep the
labels it is trained on; the absolute loss also pulls back what lies too far out, so labels near the
border change. Each round: the regression on the labels, then the intercept, and with it the labels,
of least loss among those the balance allows.
"""

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from sklearn.svm import SVR

from bagwise import compiled
from bagwise._types import Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace, LinearFeatures, dense_gram
from bagwise.solvers.margin.libsvm import fit_libsvm
from bagwise.solvers.result import SolverResult


def best_threshold(scores: Floats, balance: float) -> tuple[float, float]:
    """The intercept of least loss sum_i |1 - |s_i + b||, midway between neighbouring scores.

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
    counts = np.arange(min(fewest, n // 2), max(n - fewest, n - n // 2) + 1)  # of negative rows
    counts = counts[(counts >= 1) & (counts < n)]
    apart = s[counts] > s[counts - 1]
    counts = counts[apart] if apart.any() else counts
    b = -0.5 * (s[counts - 1] + s[counts])
    sums = np.concatenate([[0.0], np.cumsum(s)])

    def distance(centre: Floats, start: Ints, stop: Ints) -> Floats:
        """Sum of |s - centre| over s[start:stop], by sums of sorted values."""
        middle = np.clip(np.searchsorted(s, centre), start, stop)
        below = centre * (middle - start) - (sums[middle] - sums[start])
        return below + (sums[stop] - sums[middle]) - centre * (stop - middle)

    zeros = np.zeros_like(counts)
    loss = distance(-1 - b, zeros, counts) + distance(1 - b, counts, zeros + n)
    best = int(np.argmin(compiled.ties.settled(loss)))
    return float(b[best]), float(loss[best])


def iterative_svr(
    space: FeatureSpace, labels: Ints, *, C: float, balance: float, tol: float, steps: Iterable[int]
) -> SolverResult:
    """Cluster by rounds of regression, until labels come back; keep the best.

    Parameters
    ----------
    space : LinearFeatures or KernelFeatures
        The rows.
    labels : ndarray of shape (n_rows,)
        1 and -1 to begin with; both occur.
    C : float
        Cost of a deviation from the label.
    balance : float
        How much the clusters may differ in size, as a share of the rows.
    tol : float
        Tolerance of the regression.
    steps : iterable
        One item per round allowed.

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

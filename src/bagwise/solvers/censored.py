"""Numbers known to lie in intervals: their distribution, and regression by Buckley and James.

Turnbull's estimator is the nonparametric likelihood estimator of a distribution from intervals; for
numbers that are exact or censored on the right it is that of Kaplan and Meier.
"""

from collections.abc import Callable

import numpy as np

from bagwise._common.types import Array, Floats, Ints
from bagwise.solvers.result import SolverResult

TINY = np.finfo(np.float64).tiny
EM_STEPS = 2000
EM_TOL = 1e-9  # change of a probability at which the distribution is stable


def turnbull(lower: Floats, upper: Floats) -> tuple[Floats, Floats, Ints, Ints]:
    """Estimate a distribution from intervals, by the EM algorithm of Turnbull (1976).

    Its mass is on the innermost intervals: a lower end that is followed by an upper one. It is put
    at their midpoints, or at the end that is finite (Efron's rule for the largest censored number).

    Parameters
    ----------
    lower, upper : ndarray of shape (n,)
        Ends of the intervals, which they include.

    Returns
    -------
    points, masses : ndarray of shape (n_points,)
        The distribution, the points sorted.
    start, stop : ndarray of shape (n,)
        The points ``start[i] : stop[i]`` are those in interval `i`.
    """
    ends, is_upper = np.concatenate([lower, upper]), np.repeat([0, 1], len(lower))
    order = np.lexsort((is_upper, ends))  # the ends are included: lower ones come first
    innermost = np.flatnonzero(np.diff(is_upper[order]) == 1)
    low, high = ends[order[innermost]], ends[order[innermost + 1]]
    with np.errstate(invalid="ignore"):
        points = np.where(np.isinf(low), high, np.where(np.isinf(high), low, (low + high) / 2))
    start, stop = np.searchsorted(low, lower), np.searchsorted(high, upper, side="right")
    masses = np.full(len(points), 1 / len(points))
    for _ in range(EM_STEPS):
        shares = 1 / np.maximum(_sums(masses, start, stop), TINY)
        jumps = np.zeros(len(points) + 1)
        np.add.at(jumps, start, shares)
        np.subtract.at(jumps, stop, shares)
        before, masses = masses, masses * np.cumsum(jumps)[:-1].clip(min=0) / len(lower)
        masses = masses / masses.sum()
        if np.abs(masses - before).max() < EM_TOL:
            break
    return points, masses, start, stop


def _sums(values: Floats, start: Ints, stop: Ints) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(values)])
    return total[stop] - total[start]


def expected_numbers(lower: Floats, upper: Floats, predicted: Floats) -> Floats:
    """Expectations of numbers in intervals, given predictions and the distribution of residuals.

    Parameters
    ----------
    lower, upper : ndarray of shape (n,)
        Ends of the intervals.
    predicted : ndarray of shape (n,)
        The predictions.

    Returns
    -------
    ndarray of shape (n,)
        Numbers inside their intervals; exact ones are unchanged.
    """
    points, masses, start, stop = turnbull(lower - predicted, upper - predicted)
    inside = _sums(masses, start, stop)
    mean = _sums(masses * points, start, stop) / np.maximum(inside, TINY)
    return np.clip(predicted + np.where(inside > EM_TOL, mean, 0.0), lower, upper)


def buckley_james(
    predict: Callable[[Floats], Floats], lower: Floats, upper: Floats, *, max_iter: int, tol: float
) -> SolverResult:
    """Replace censored numbers by their expectations until these are stable.

    The iteration may oscillate between several solutions. Its step is therefore halved whenever the
    numbers would change more than before, so that it ends between these solutions.

    Parameters
    ----------
    predict : callable
        Fits a model to numbers of shape (n,) and returns its predictions for the same bags.
    lower, upper : ndarray of shape (n,)
        Ends of the intervals.
    max_iter : int
        Maximum number of fits.
    tol : float
        Largest change, in standard deviations of the numbers, that counts as stable.

    Returns
    -------
    SolverResult
        The solution are the numbers, the curve the largest change in each iteration.
    """
    numbers = expected_numbers(lower, upper, np.zeros(len(lower)))
    scale, step, curve = float(numbers.std()) or 1.0, 1.0, [np.inf]
    while len(curve) <= max_iter and curve[-1] > tol:
        change = expected_numbers(lower, upper, predict(numbers)) - numbers
        largest = float(np.abs(change).max()) / scale
        step /= 2 if step * largest > curve[-1] else 1
        numbers = numbers + step * change
        curve.append(step * largest)
    return SolverResult((numbers,), curve[1:], curve[-1] <= tol)


def concordance(lower: Floats, upper: Floats, predicted: Array) -> float:
    """Share of the pairs with disjoint intervals that predictions rank correctly (Harrell's C).

    Parameters
    ----------
    lower, upper : ndarray of shape (n,)
        Ends of the intervals.
    predicted : ndarray of shape (n,)
        The predictions; equal ones count one half.

    Returns
    -------
    float
        NaN if no two intervals are disjoint.
    """
    right = pairs = 0.0
    for top, value in zip(upper, predicted, strict=True):
        above = predicted[lower > top]
        pairs += len(above)
        right += (above > value).sum() + (above == value).sum() / 2
    return right / pairs if pairs else float("nan")

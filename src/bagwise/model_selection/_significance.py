"""Tests for the difference between two models, from their scores in the same folds.

Training parts of different folds overlap, so the scores of folds are correlated and the usual
t-test finds differences where there are none. Both functions use the variance of the mean
difference that Nadeau and Bengio derived for resampling: (1/J + n_test/n_train) s^2, for J folds
whose differences have the variance s^2.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bagwise._common.types import Floats
from bagwise.exceptions import InputError


class TTestResult(NamedTuple):
    """The result of `corrected_t_test`."""

    mean: float
    lower: float
    upper: float
    p_value: float


class Probabilities(NamedTuple):
    """The result of `probability_of_difference`: three probabilities with sum 1."""

    worse: float
    equal: float
    better: float


def corrected_t_test(
    differences: ArrayLike, *, test_ratio: float, confidence: float = 0.95
) -> TTestResult:
    """Test whether a mean difference between two models is zero: the corrected resampled t-test.

    Parameters
    ----------
    differences : array-like of shape (n_folds,)
        The score of one model minus that of the other, fold by fold.
    test_ratio : float
        The number of test bags divided by that of training bags: 1/4 for five folds.
    confidence : float, default=0.95
        The confidence of the interval.

    Returns
    -------
    TTestResult
        Mean, lower and upper end of its interval, and two-sided p-value. If all differences are
        zero, the interval has width zero and the p-value is 1. The interval and the p-value are NaN
        if they cannot be estimated: one fold, or the same difference in all folds.

    References
    ----------
    Nadeau, Bengio. Inference for the generalization error. Machine Learning 52, 2003.

    Examples
    --------
    >>> from bagwise.model_selection import corrected_t_test
    >>> result = corrected_t_test([0.02, 0.05, -0.01, 0.03, 0.01], test_ratio=0.25)
    >>> round(result.mean, 3), round(result.p_value, 3)
    (0.02, 0.253)
    """
    values = _checked(differences, test_ratio)
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}: expected a number between 0 and 1.")
    mean = float(values.mean())
    if not values.any():
        return TTestResult(0.0, 0.0, 0.0, 1.0)
    if (posterior := _student(values, test_ratio)) is None:
        return TTestResult(mean, np.nan, np.nan, np.nan)
    lower, upper = posterior.interval(confidence)
    return TTestResult(mean, float(lower), float(upper), 2 * _tail(posterior))


def probability_of_difference(
    differences: ArrayLike, *, test_ratio: float, rope: float = 0.01
) -> Probabilities:
    """Compute the probability that a model is better, by the Bayesian correlated t-test.

    Parameters
    ----------
    differences : array-like of shape (n_folds,)
        The score of one model minus that of the other, fold by fold.
    test_ratio : float
        The number of test bags divided by that of training bags: 1/4 for five folds.
    rope : float, default=0.01
        The region of practical equivalence: a difference of at most this counts as equal.

    Returns
    -------
    Probabilities
        Probabilities that the mean difference is below -`rope`, between -`rope` and `rope`, and
        above `rope`. NaN if they cannot be estimated: one fold, or the same difference other than
        zero in all folds.

    References
    ----------
    Benavoli, Corani, Demšar, Zaffalon. Time for a change: a tutorial for comparing multiple
    classifiers through Bayesian analysis. JMLR 18, 2017.

    Examples
    --------
    >>> from bagwise.model_selection import probability_of_difference
    >>> found = probability_of_difference([0.02, 0.05, -0.01, 0.03, 0.01], test_ratio=0.25)
    >>> [round(probability, 2) for probability in found]
    [0.06, 0.21, 0.73]
    """
    values = _checked(differences, test_ratio)
    if not (np.isfinite(rope) and rope >= 0):
        raise InputError(f"rope is {rope}: expected a number of at least 0, such as 0.01.")
    if not values.any():
        return Probabilities(0.0, 1.0, 0.0)
    if (posterior := _student(values, test_ratio)) is None:
        return Probabilities(np.nan, np.nan, np.nan)
    worse, better = float(posterior.cdf(-rope)), float(posterior.sf(rope))
    return Probabilities(worse, max(0.0, 1 - worse - better), better)


def _student(values: Floats, test_ratio: float) -> Any:
    """Posterior t distribution of the mean difference; None if the folds do not vary."""
    n_folds, mean = len(values), values.mean()
    if n_folds < 2 or np.ptp(values) <= 1e-9 * np.abs(values).max():
        return None
    scale = np.sqrt((1 / n_folds + test_ratio) * values.var(ddof=1))
    return stats.t(n_folds - 1, loc=mean, scale=scale)


def _tail(posterior: Any) -> float:
    return float(min(posterior.cdf(0), posterior.sf(0)))


def _checked(differences: ArrayLike, test_ratio: float) -> Floats:
    values = np.asarray(differences, dtype=float)
    if values.ndim != 1 or not len(values) or not (np.abs(values) < 1e100).all():
        raise InputError(
            f"differences have the shape {values.shape}: expected one finite number per fold."
        )
    if not (np.isfinite(test_ratio) and test_ratio > 0):
        raise InputError(
            f"test_ratio is {test_ratio}: expected the number of test bags divided by that of "
            "training bags, such as 0.25 for five folds."
        )
    return np.where(np.abs(values) < 1e-12, 0.0, values)  # smaller values are rounding errors

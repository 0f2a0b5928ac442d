"""A test for the difference between two models, from their scores in the same folds.

Training parts of different folds overlap, so the scores of folds are correlated and the usual
t-test finds differences where there are none. The corrected one uses the variance of the mean
difference that Nadeau and Bengio derived for resampling: (1/J + n_test/n_train) s^2, for J folds
whose differences have the variance s^2.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bagwise.exceptions import InputError


class TTest(NamedTuple):
    """The result of `corrected_t_test`; NaN for what cannot be estimated.

    Attributes
    ----------
    mean, lower, upper : float
        The mean difference, and the ends of its interval.
    p_value : float
        The two-sided p-value.
    worse, equal, better : float
        The probabilities that the mean difference is below -`rope`, between -`rope` and `rope`, and
        above `rope`.
    """

    mean: float
    lower: float
    upper: float
    p_value: float
    worse: float
    equal: float
    better: float


def corrected_t_test(
    differences: ArrayLike, *, test_ratio: float, confidence: float = 0.95, rope: float = 0.01
) -> TTest:
    """Test a mean difference between two models: the corrected resampled t-test.

    Its distribution is also the posterior of the Bayesian correlated t-test, which gives the
    probabilities that one model is better than, equal to or worse than the other.

    Parameters
    ----------
    differences : array-like of shape (n_folds,)
        The score of one model minus that of the other, fold by fold.
    test_ratio : float
        The number of test bags divided by that of training bags: 1/4 for five folds.
    confidence : float, default=0.95
        The confidence of the interval.
    rope : float, default=0.01
        The region of practical equivalence: a difference of at most this counts as equal.

    Returns
    -------
    TTest
        If all differences are zero, the interval has width zero and the p-value is 1. Everything
        but the mean is NaN for one fold, or the same difference other than zero in all folds.

    References
    ----------
    Nadeau, Bengio. Inference for the generalization error. Machine Learning 52, 2003.

    Benavoli, Corani, Demšar, Zaffalon. Time for a change: a tutorial for comparing multiple
    classifiers through Bayesian analysis. JMLR 18, 2017.

    Examples
    --------
    >>> from bagwise.evaluate import corrected_t_test
    >>> result = corrected_t_test([0.02, 0.05, -0.01, 0.03, 0.01], test_ratio=0.25)
    >>> round(result.mean, 3), round(result.p_value, 3), round(result.better, 2)
    (0.02, 0.253, 0.73)
    """
    values = np.asarray(differences, dtype=float)
    if values.ndim != 1 or not len(values) or not (np.abs(values) < 1e100).all():
        raise InputError(
            f"differences have the shape {values.shape}: expected one finite number per fold."
        )
    if not (0 < test_ratio < np.inf and 0 < confidence < 1 and 0 <= rope < np.inf):
        raise InputError(
            f"test_ratio is {test_ratio}, confidence {confidence} and rope {rope}: expected the "
            "number of test bags divided by that of training bags (0.25 for five folds), a number "
            "between 0 and 1, and one of at least 0."
        )
    values = np.where(np.abs(values) < 1e-12, 0.0, values)  # smaller values are rounding errors
    n_folds, mean = len(values), float(values.mean())
    if not values.any():
        return TTest(0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0)
    if n_folds < 2 or np.ptp(values) <= 1e-9 * np.abs(values).max():  # the folds do not vary
        return TTest(mean, *[float("nan")] * 6)
    scale = np.sqrt((1 / n_folds + test_ratio) * values.var(ddof=1))
    posterior = stats.t(n_folds - 1, loc=mean, scale=scale)
    lower, upper = map(float, posterior.interval(confidence))
    p_value = 2 * float(min(posterior.cdf(0), posterior.sf(0)))
    worse, better = float(posterior.cdf(-rope)), float(posterior.sf(rope))
    return TTest(mean, lower, upper, p_value, worse, max(0.0, 1 - worse - better), better)

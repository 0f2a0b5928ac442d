"""Metrics for times to an event."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length

from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.solvers.survival import censoring_weights, concordance
from bagwise.validation import check_times


def concordance_index(y: Any, risk: ArrayLike, *, censoring: Any = None) -> float:
    """Share of the comparable pairs of bags whose risks are in the right order.

    A pair is comparable if the event of one bag was observed while the other was still without it;
    equal risks count 1/2. This is Harrell's C, which depends on how many bags are censored, and
    when. Uno's C weights pairs by the inverse probability of not being censored.

    Parameters
    ----------
    y : structured array of shape (n_bags,)
        Whether the event was observed, and its time or that of censoring.
    risk : array-like of shape (n_bags,)
        Predicted risks; higher means earlier.
    censoring : structured array, default=None
        Times like `y`, such as those of the training bags, that give the distribution of
        censoring for Uno's C; by default Harrell's C is computed.

    Returns
    -------
    float
        1 is best, 1/2 random; NaN if no pair is comparable.

    References
    ----------
    Harrell, Califf, Pryor, Lee, Rosati. Evaluating the yield of medical tests. JAMA 1982.
    Uno, Cai, Pencina, D'Agostino, Wei. On the C-statistics for evaluating overall adequacy of risk
    prediction procedures with censored survival data. Statistics in Medicine 30, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.metrics import concordance_index
    >>> times = [(True, 1.0), (True, 2.0), (False, 3.0)]
    >>> y = np.array(times, dtype=[("event", bool), ("time", float)])
    >>> concordance_index(y, [0.9, 0.1, 0.4]).__round__(2)
    0.67
    """
    y = _times(y)
    risks = check_array(risk, ensure_2d=False, dtype=np.float64, input_name="risk")
    check_consistent_length(y, risks)
    weight = None
    if censoring is not None:
        weight = censoring_weights(_times(censoring), y["time"]) ** 2
    return concordance(y["event"], y["time"], risks, weight)


def integrated_brier_score(
    y: Any, survival: ArrayLike, times: ArrayLike, *, censoring: Any = None
) -> float:
    """Mean squared error of predicted survival probabilities, averaged over time.

    Bags that were censored before a time are left out at that time, and the others weighted by the
    inverse probability of not being censored.

    Parameters
    ----------
    y : structured array of shape (n_bags,)
        Whether the event was observed, and its time or that of censoring.
    survival : array-like of shape (n_bags, n_times)
        Predicted probabilities that the event has not happened by each time.
    times : array-like of shape (n_times,)
        At least two times, increasing.
    censoring : structured array, default=None
        Times like `y` that give the distribution of censoring; `y` by default.

    Returns
    -------
    float
        0 is best; a constant prediction of 1/2 has 1/4 without censoring.

    References
    ----------
    Graf, Schmoor, Sauerbrei, Schumacher. Assessment and comparison of prognostic classification
    schemes for survival data. Statistics in Medicine 18, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.metrics import integrated_brier_score
    >>> y = np.array([(True, 1.0), (True, 9.0)], dtype=[("event", bool), ("time", float)])
    >>> integrated_brier_score(y, [[0.5, 0.5], [0.5, 0.5]], [2.0, 8.0])
    0.25
    """
    y = _times(y)
    predicted = check_array(survival, dtype=np.float64, input_name="survival")
    grid = np.asarray(times, dtype=np.float64)
    if grid.shape != predicted.shape[1:] or len(grid) < 2 or not (np.diff(grid) > 0).all():
        raise InputError(
            f"times have the shape {grid.shape} for {predicted.shape[1]} columns of survival: "
            "expected at least two times, increasing, one per column."
        )
    check_consistent_length(y, predicted)
    known = y if censoring is None else _times(censoring)
    own, at_grid = (censoring_weights(known, each) for each in (y["time"], grid))
    alive = y["time"][:, None] > grid
    dead = y["event"][:, None] & ~alive
    errors = predicted**2 * dead * own[:, None] + (1 - predicted) ** 2 * alive * at_grid
    return float(np.trapezoid(errors.mean(axis=0), grid) / (grid[-1] - grid[0]))


def _times(y: Any) -> Array:
    """Check times without bags, which errors call by their number."""
    n_bags = len(y) if hasattr(y, "__len__") else 0
    return check_times(y, Bags(np.zeros((n_bags, 0)), np.arange(n_bags + 1)), need_event=False)

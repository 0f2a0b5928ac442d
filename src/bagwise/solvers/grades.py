"""Ordered classes from the questions "higher than this grade?" (Frank and Hall 2001)."""

import numpy as np

from bagwise._common.types import Array, Floats


def non_increasing(values: Array) -> Floats:
    """Project each row onto the non-increasing sequences (isotonic regression).

    Parameters
    ----------
    values : ndarray of shape (n, n_thresholds)
        Scores or probabilities of the answer yes, for rising grades.

    Returns
    -------
    ndarray of shape (n, n_thresholds)
    """
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    columns = range(values.shape[1])

    def largest_mean(first: int, k: int) -> Floats:
        ends = columns[k:]
        return np.max([(sums[:, j + 1] - sums[:, first]) / (j + 1 - first) for j in ends], axis=0)

    return np.column_stack(
        [np.min([largest_mean(i, k) for i in columns[: k + 1]], axis=0) for k in columns]
    )


def margins(scores: Array) -> Array:
    """Score each grade by the smaller of two scores: above the grade below, and not above it.

    Parameters
    ----------
    scores : ndarray of shape (n, n_thresholds)
        Non-increasing scores of the answer yes, positive for yes.

    Returns
    -------
    ndarray of shape (n, n_thresholds + 1)
        The largest is that of the grade at which the answers change from yes to no.
    """
    below, above = scores[:, :1], -scores[:, -1:]
    inner = np.minimum(scores[:, :-1], -scores[:, 1:])
    return np.column_stack([-below, inner, -above])


def grade_probabilities(cumulative: Array) -> Array:
    """Probability of each grade, from non-increasing probabilities of the answer yes."""
    n_rows = len(cumulative)
    return -np.diff(np.column_stack([np.ones(n_rows), cumulative, np.zeros(n_rows)]), axis=1)

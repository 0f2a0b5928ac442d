"""Summaries over all data sets of a table: averages, win/tie/loss by paired t-tests, ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["paired_summary"]

LEVEL = 0.05


def paired_summary(
    numbers: Mapping[str, Mapping[str, Sequence[float]]], *, lower_is_better: bool = False
) -> dict[str, list[str]]:
    """Compare methods over data sets; the first method is the reference.

    Parameters
    ----------
    numbers : dict of dict of sequence of float
        ``numbers[data][method]``: one number per repetition, the same repetitions for all methods.
    lower_is_better : bool, default=False
        Whether the numbers are errors.

    Returns
    -------
    dict of list of str
        Columns: method, average, win/tie/loss (paired t-test, 95 %) against the first method, mean
        rank (ties share the average rank).

    Examples
    --------
    >>> from reproduction._summary import paired_summary
    >>> paired_summary({"a": {"svm": [0.8, 0.7, 0.8], "other": [0.9, 0.8, 0.95]}})["mean rank"]
    ['2.00', '1.00']
    """
    sets = list(numbers.values())
    methods = [name for name in next(iter(sets), {}) if all(name in cells for cells in sets)]
    sign = -1.0 if lower_is_better else 1.0
    means = np.array([[np.mean(cells[name]) for name in methods] for cells in sets])
    ranks = stats.rankdata(-sign * means.round(10), axis=1)
    columns: dict[str, list[str]] = {
        "method": list(methods),
        "average": [f"{mean:.3f}" for mean in means.mean(axis=0)],
        "win/tie/loss": [""],
        "mean rank": [f"{rank:.2f}" for rank in ranks.mean(axis=0)],
    }
    for name in methods[1:]:
        words = [_verdict(sign * _difference(cells[name], cells[methods[0]])) for cells in sets]
        columns["win/tie/loss"].append("/".join(str(words.count(k)) for k in (1, 0, -1)))
    return columns


def _difference(ours: Sequence[float], others: Sequence[float]) -> NDArray[np.float64]:
    n = min(len(ours), len(others))
    return np.asarray(ours[:n], dtype=float) - np.asarray(others[:n], dtype=float)


def _verdict(differences: NDArray[np.float64]) -> int:
    """Sign of the mean if a paired t-test finds it different from 0, else 0."""
    if len(differences) < 2:
        return 0
    if np.ptp(differences) <= 1e-9:  # constant differences: a t-test would divide by 0
        return int(np.sign(differences[0].round(9)))
    return int(stats.ttest_1samp(differences, 0.0).pvalue < LEVEL) * int(
        np.sign(differences.mean())
    )

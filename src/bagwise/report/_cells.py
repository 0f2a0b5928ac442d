"""Format the cells of tables for readers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

LEADERBOARD_CAPTION = "Scores of held-out bags ± standard error, and weights in the ensemble"


def cell_text(value: Any) -> str:
    """Format a value: three decimals; "yes" or empty; empty for a missing value.

    Parameters
    ----------
    value : object
        A cell of a table.

    Returns
    -------
    str

    Examples
    --------
    >>> from bagwise.report._cells import cell_text
    >>> [cell_text(value) for value in (0.12345, 7, True, None, "slide")]
    ['0.123', '7', 'yes', '', 'slide']
    """
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else ""
    if isinstance(value, float | np.floating):
        number = float(value)
        if np.isnan(number):
            return ""
        return f"{number:.3f}" if number == 0 or 1e-3 <= abs(number) < 1e6 else f"{number:.3g}"
    return str(value)


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether a column has only numbers (or missing values), which are right-aligned.

    Parameters
    ----------
    values : iterable
        The cells of a column.

    Returns
    -------
    bool
    """
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and all(
        issubclass(kind, int | float | np.number) and kind is not bool for kind in kinds
    )


def leaderboard_columns(leaderboard: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Score, weight and time of each method of an ensemble, and why methods were skipped, if any.

    Parameters
    ----------
    leaderboard : mapping of str to sequence
        The ``leaderboard_`` of an AutoBagClassifier or AutoBagRegressor.

    Returns
    -------
    dict of str to list of str
    """
    method, metric = list(leaderboard)[:2]
    scores = zip(leaderboard[metric], leaderboard["standard error"], strict=True)
    columns = {
        method: list(leaderboard[method]),
        metric.replace("_", " "): [
            "" if math.isnan(score) else f"{score:.3f} ± {error:.3f}" for score, error in scores
        ],
        "weight": [f"{weight:.2f}" for weight in leaderboard["weight"]],
        "time": [f"{seconds:.1f} s" for seconds in leaderboard["seconds"]],
    }
    skipped = {"skipped": list(leaderboard["skipped"])} if any(leaderboard["skipped"]) else {}
    return columns | skipped

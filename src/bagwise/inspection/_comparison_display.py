"""ComparisonDisplay: methods side by side, fold by fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from bagwise.extras import import_extra

__all__ = ["ComparisonDisplay"]


class ComparisonDisplay:
    """Show the scores of several methods: a dot per fold, and their mean with one deviation.

    Make one with `from_scores`.

    Parameters
    ----------
    scores : mapping of str to sequence of float
        The scores of each method, one per fold.
    score_name : str, default="accuracy"
        What a score is, for the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure with the axes.

    Examples
    --------
    >>> from bagwise.inspection import ComparisonDisplay
    >>> display = ComparisonDisplay({"nsk": [0.9, 0.88], "majority class": [0.51, 0.5]})
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self, scores: Mapping[str, Sequence[float]], *, score_name: str = "accuracy"
    ) -> None:
        self.scores = scores
        self.score_name = score_name

    @classmethod
    def from_scores(
        cls,
        scores: Mapping[str, Sequence[float]],
        *,
        score_name: str = "accuracy",
        ax: Any = None,
    ) -> Self:
        """Plot the scores of several methods, the first on top.

        Parameters
        ----------
        scores : mapping of str to sequence of float
            The scores of each method, one per fold.
        score_name : str, default="accuracy"
            What a score is, for the axis.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ComparisonDisplay
        """
        return cls(scores, score_name=score_name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        ComparisonDisplay
        """
        if ax is None:
            pyplot = import_extra("matplotlib.pyplot", extra="plot")
            height = 1.0 + 0.42 * len(self.scores)
            _, ax = pyplot.subplots(figsize=(6.4, height), layout="constrained")
        for place, values in enumerate(self.scores.values()):
            folds = np.full(len(values), place)
            ax.plot(values, folds, "o", color="#4a90d0", alpha=0.7, markersize=5, mew=0)
            mean, deviation = np.mean(values), np.std(values)
            ax.errorbar(
                mean,
                place,
                xerr=deviation,
                fmt="D",
                color="#d9762b",
                markersize=6,
                capsize=4,
                linewidth=1.6,
            )
        ax.set_yticks(range(len(self.scores)), list(self.scores), parse_math=False)
        ax.set_ylim(len(self.scores) - 0.5, -0.5)
        ax.set_xlabel(f"{self.score_name} (dots: folds; diamond: mean and one deviation)")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="x", color="0.5", alpha=0.3, linewidth=0.6)
        self.ax_, self.figure_ = ax, ax.figure
        return self

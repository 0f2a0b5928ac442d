"""ComparisonDisplay: methods side by side, fold by fold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bagwise.inspection._axes import new_axes, plain_frame


@dataclass(eq=False)
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

    scores: Mapping[str, Sequence[float]]
    score_name: str = field(default="accuracy", kw_only=True)

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
        ax = new_axes(ax, 6.4, 1.0 + 0.42 * len(self.scores))
        for place, values in enumerate(self.scores.values()):
            folds = np.full(len(values), place)
            ax.plot(values, folds, "o", color="#4a90d0", alpha=0.7, markersize=5, mew=0)
            style = {
                "fmt": "D",
                "color": "#d9762b",
                "markersize": 6,
                "capsize": 4,
                "linewidth": 1.6,
            }
            ax.errorbar(np.mean(values), place, xerr=np.std(values), **style)
        ax.set_yticks(range(len(self.scores)), list(self.scores), parse_math=False)
        ax.set_ylim(len(self.scores) - 0.5, -0.5)
        ax.set_xlabel(f"{self.score_name} (dots: folds; diamond: mean and one deviation)")
        plain_frame(ax, grid="x")
        self.ax_, self.figure_ = ax, ax.figure
        return self

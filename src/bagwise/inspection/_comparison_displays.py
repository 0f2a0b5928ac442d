"""Displays of comparisons: differences with their intervals, and ranks over several data sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bagwise.exceptions import InputError
from bagwise.inspection._axes import AxesDisplay, plain_frame
from bagwise.model_selection import Comparison, Difference, Ranks

_DOT, _GROUP = "#d9762b", "#4a90d0"


@dataclass(eq=False)
class DifferenceDisplay(AxesDisplay):
    """Show how much better or worse models are than a reference: the mean and its interval.

    The grey band is the region of practical equivalence. Create it with `from_comparison`.

    Parameters
    ----------
    differences : sequence of Difference
        The result of `Comparison.differences`, at least one.

    Attributes
    ----------
    {plot_}

    Examples
    --------
    >>> from bagwise.inspection import DifferenceDisplay
    >>> from bagwise.model_selection import Comparison, Evaluation
    >>> nsk = Evaluation("nsk", {"AUC": [0.91, 0.94, 0.92]}, [0.1, 0.1, 0.1])
    >>> sil = Evaluation("sil", {"AUC": [0.84, 0.81, 0.86]}, [0.1, 0.1, 0.1])
    >>> DifferenceDisplay.from_comparison(Comparison([nsk, sil], 0.5))  # doctest: +SKIP
    """

    differences: Sequence[Difference]

    @classmethod
    def from_comparison(
        cls,
        comparison: Comparison,
        *,
        measure: str | None = None,
        reference: str | None = None,
        rope: float = 0.01,
        confidence: float = 0.95,
        ax: Any = None,
    ) -> Self:
        """Plot the differences of a comparison, the first model on top.

        Parameters
        ----------
        comparison : Comparison
            The result of `bagwise.model_selection.compare`, with at least two models.
        measure, reference, rope, confidence
            As for `Comparison.differences`.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        DifferenceDisplay
        """
        found = comparison.differences(
            measure, reference=reference, rope=rope, confidence=confidence
        )
        if not found:
            raise InputError("the comparison has one model: expected at least two.")
        return cls(found).plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 6.4, 1.1 + 0.42 * len(self.differences)

    def _draw(self, ax: Any) -> None:
        first = self.differences[0]
        ax.axvspan(-first.rope, first.rope, color="0.5", alpha=0.2, linewidth=0)
        ax.axvline(0, color="0.4", linewidth=1)
        for place, found in enumerate(self.differences):
            reach = np.array([[found.mean - found.lower], [found.upper - found.mean]])
            ax.errorbar(
                found.mean, place, xerr=None if np.isnan(reach).any() else reach,
                fmt="D", color=_DOT, markersize=6, capsize=4, linewidth=1.6,
            )  # fmt: skip
        names = [found.name for found in self.differences]
        ax.set_yticks(range(len(names)), names, parse_math=False)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlabel(
            f"{first.measure}: better than {first.reference} by\n({100 * first.confidence:g}% "
            f"intervals; grey: equal within {first.rope:g})",
            parse_math=False,
        )
        plain_frame(ax, grid="x")


@dataclass(eq=False)
class RankDisplay(AxesDisplay):
    """Show the mean ranks of models over several data sets: a critical-difference diagram.

    A bar joins models that do not differ significantly (Nemenyi test). Create it with `from_ranks`.

    Parameters
    ----------
    ranks : Ranks
        The result of `bagwise.model_selection.ranks`.

    Attributes
    ----------
    {plot_}

    Examples
    --------
    >>> from bagwise.inspection import RankDisplay
    >>> from bagwise.model_selection import ranks
    >>> found = ranks({"Musk1": {"nsk": 0.9, "sil": 0.8}, "Fox": {"nsk": 0.6, "sil": 0.5}})
    >>> RankDisplay.from_ranks(found)  # doctest: +SKIP
    """

    ranks: Ranks

    @classmethod
    def from_ranks(cls, ranks: Ranks, *, ax: Any = None) -> Self:
        """Plot mean ranks, the best model on top.

        Parameters
        ----------
        ranks : Ranks
            The result of `bagwise.model_selection.ranks`.
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        RankDisplay
        """
        return cls(ranks).plot(ax=ax)

    def _size(self) -> tuple[float, float]:
        return 6.4, 1.3 + 0.3 * len(self.ranks.models)

    def _draw(self, ax: Any) -> None:
        means = self.ranks.mean_ranks
        order = np.argsort(means, kind="stable")
        names = [self.ranks.models[k] for k in order]
        ax.plot(means[order], range(len(names)), "D", color=_DOT, markersize=6)
        for number, group in enumerate(self.ranks.groups()):  # to the right of the frame
            rows = [names.index(group[0]) - 0.2, names.index(group[-1]) + 0.2]
            ax.plot(
                [1.02 + 0.025 * number] * 2, rows, transform=ax.get_yaxis_transform(),
                color=_GROUP, linewidth=4, solid_capstyle="butt", clip_on=False,
            )  # fmt: skip
        ax.set_yticks(range(len(names)), names, parse_math=False)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlim(0.9, len(names) + 0.1)
        ax.set_xlabel(
            f"mean rank on {len(self.ranks.data_sets)} data sets, 1 is the best\n(a bar joins "
            f"models closer than the critical difference, {self.ranks.critical_difference:.2f})"
        )
        plain_frame(ax, grid="x")

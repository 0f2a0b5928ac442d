"""What all displays share: a figure of their own or given axes, frames, legends, rows of dots."""

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from bagwise._common.extras import import_extra
from bagwise._common.types import Array
from bagwise.base._parameters import describe

DOTS, MARK = "#4a90d0", "#d9762b"  # values, and what is marked among them
DIAMOND = {"fmt": "D", "color": MARK, "markersize": 6, "capsize": 4, "linewidth": 1.6}


class Display(ABC):
    """A plot of given values: `plot` makes axes and names rows; a subclass draws.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure with the axes.
    """

    n_panels = 1
    names: Any  # of the rows from the top, if the display has rows
    ax_: Any
    figure_: Any

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        describe(cls, cls)

    @classmethod
    def plotted(cls, *values: Any, ax: Any = None, **settings: Any) -> Self:
        """Make a display of these values, and plot it on `ax`."""
        return cls(*values, **settings).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot (for a display of several panels a sequence of Axes); a new figure by
            default.

        Returns
        -------
        self
        """
        if ax is None:
            pyplot = import_extra("matplotlib.pyplot", extra="plot")
            _, ax = pyplot.subplots(
                self.n_panels, sharex=True, figsize=self._size(), layout="constrained"
            )
        self._draw(ax)
        if hasattr(self, "names"):
            name_rows(ax, self.names)
        self.ax_, self.figure_ = ax, np.ravel(ax)[0].figure
        return self

    def figure(self, size: tuple[float, float] | None = None) -> Any:
        """Draw the display on a figure that pyplot does not keep."""
        figures = import_extra("matplotlib.figure", extra="plot")
        figure = figures.Figure(figsize=size or self._size(), layout="constrained")
        return self.plot(ax=figure.subplots(self.n_panels, sharex=True)).figure_

    def png(self, dpi: int) -> bytes:
        """The content of a PNG file with the figure."""
        buffer = io.BytesIO()
        self.figure().savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
        return buffer.getvalue()

    def _size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.4, 1.2 + 0.3 * len(self.names) if hasattr(self, "names") else 5.6

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw on these axes."""


def plain_frame(ax: Any, *, grid: str | None = None) -> None:
    """Hide the upper and right edges of the frame; draw a light grid along one axis or both."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        ax.grid(axis=grid, color="0.5", alpha=0.3, linewidth=0.6)


def plain_legend(ax: Any, **settings: Any) -> None:
    """Draw a legend without a frame; labels such as "$x" are not parsed as formulas."""
    for text in ax.legend(frameon=False, **settings).get_texts():
        text.set_parse_math(False)


def name_rows(ax: Any, names: Sequence[str]) -> None:
    """Name the rows of a plot from the top; a bag may be called "$x", which is not a formula."""
    ax.set_yticks(range(len(names)), [str(name) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)


def rows_of_dots(ax: Any, values: Sequence[Array], keys: Any, labels: tuple[str, str]) -> None:
    """Draw a row of dots for each part of the values, with its key as a diamond."""
    places = np.repeat(np.arange(len(values)), [len(part) for part in values])
    ax.axvline(0, color="0.5", linewidth=0.8, linestyle=":", zorder=0)
    dots = {"color": DOTS, "alpha": 0.75, "ms": 5, "mew": 0}
    ax.plot(np.concatenate(values), places, "o", label=labels[0], **dots)
    ax.plot(keys, range(len(values)), "D", color=MARK, ms=6, label=labels[1])
    plain_frame(ax)
    plain_legend(ax, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)

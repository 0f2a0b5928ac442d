"""Base class of displays on one pair of axes; a plain frame and a plain legend."""

from abc import ABC, abstractmethod
from typing import Any, Self

from bagwise.base._parameters import describe
from bagwise.extras import import_extra


class AxesDisplay(ABC):
    """A display on one pair of axes; subclasses define its size and draw it."""

    ax_: Any
    figure_: Any

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        describe(cls, cls)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to plot; a new figure by default.

        Returns
        -------
        self
        """
        if ax is None:
            pyplot = import_extra("matplotlib.pyplot", extra="plot")
            _, ax = pyplot.subplots(figsize=self._size(), layout="constrained")
        self._draw(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @abstractmethod
    def _size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""

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

"""What all displays share: new axes in a figure of their own, and a plain frame."""

from typing import Any

from bagwise.extras import import_extra


def new_axes(ax: Any, width: float, height: float) -> Any:
    """Return `ax`, or axes in a new figure of this size in inches where it is None."""
    if ax is not None:
        return ax
    pyplot = import_extra("matplotlib.pyplot", extra="plot")
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def plain_frame(ax: Any, *, grid: str | None = None) -> None:
    """Leave the lower and the left edge of the frame; draw a light grid along an axis or both."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        ax.grid(axis=grid, color="0.5", alpha=0.3, linewidth=0.6)

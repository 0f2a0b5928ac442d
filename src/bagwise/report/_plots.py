"""The plots of a report that are no Displays: axes in its size, points that link to their bags."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.displays._base import DOTS, plain_frame
from bagwise.extras import import_extra
from bagwise.report._page import Figure

SIZE = (4.4, 3.3)  # inches


def axes(x_label: str, y_label: str, *, diagonal: bool = False) -> Any:
    """Make axes with labels; `diagonal` is a dashed line of equal values."""
    figures = import_extra("matplotlib.figure", extra="report")
    ax = figures.Figure(SIZE, layout="constrained").subplots()
    ax.set_xlabel(x_label, parse_math=False)
    ax.set_ylabel(y_label, parse_math=False)
    plain_frame(ax, grid="both")
    if diagonal:
        ax.axline((0, 0), slope=1, color="0.5", linestyle="--", linewidth=1)
    return ax


def link_points(points: Any, bags: Sequence[int]) -> None:
    """Let each point of a scatter plot link to a bag of the page."""
    points.set_urls([f"#bag-{i}" for i in bags])


def histogram(sizes: Any, x_label: str, y_label: str, caption: str) -> Figure:
    """Draw a histogram of whole numbers, of at most 24 bars with whole edges."""
    low, high = int(sizes.min()), int(sizes.max())
    step = max(1, -(-(high - low + 1) // 24))
    ax = axes(x_label, y_label)
    ax.hist(sizes, np.arange(low, high + step + 1, step), rwidth=0.94, align="left", color=DOTS)
    alt = f"Histogram: {caption} From {low} to {high}, median {np.median(sizes):g}."
    return Figure(ax.figure, alt, caption)

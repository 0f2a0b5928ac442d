"""The plots of a report: lines, histograms, and points that link to their bags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bagwise.displays._base import DOTS, Display, plain_frame, plain_legend
from bagwise.report._page import Figure


@dataclass(eq=False)
class LineDisplay(Display):
    """Lines on one pair of axes; `diagonal` is a guide on the unit square, or on the data."""

    lines: Mapping[str, tuple[Any, Any]]
    x_label: str
    y_label: str
    style: dict[str, Any] = field(default_factory=dict)
    diagonal: bool = False

    def _size(self) -> tuple[float, float]:
        return 4.4, 3.3

    def _draw(self, ax: Any) -> None:
        for name, (x, y) in self.lines.items():
            ax.plot(x, y, label=name, **self.style)
        if self.diagonal:
            ax.axline((0, 0), slope=1, color="0.5", linestyle="--", linewidth=1)
        ax.set_xlabel(self.x_label, parse_math=False)
        ax.set_ylabel(self.y_label, parse_math=False)
        plain_frame(ax, grid="both")
        if len(self.lines) > 1:
            plain_legend(ax, fontsize="small")


@dataclass(eq=False)
class PointDisplay(LineDisplay):
    """A point per bag, which links to it."""

    links: Sequence[int] = ()

    def _draw(self, ax: Any) -> None:
        ((x, y),) = self.lines.values()
        link_points(ax.scatter(x, y, c=[DOTS] * len(x), s=16, linewidths=0), self.links)
        LineDisplay({}, self.x_label, self.y_label, diagonal=self.diagonal)._draw(ax)


def link_points(points: Any, bags: Sequence[int]) -> None:
    """Let each point of a scatter plot link to a bag of the page."""
    points.set_urls([f"#bag-{i}" for i in bags])


def histogram(sizes: Any, x_label: str, y_label: str, caption: str) -> Figure:
    """Draw a histogram of whole numbers."""
    low, high = int(sizes.min()), int(sizes.max())
    step = max(1, -(-(high - low + 1) // 24))  # at most 24 bars, with whole edges
    edges = np.arange(low, high + step + 1, step)
    counts, _ = np.histogram(sizes, edges)
    figure = LineDisplay({}, x_label, y_label).figure()
    figure.axes[0].bar(edges[:-1], counts, width=0.94 * step, align="edge", color=DOTS)
    alt = f"Histogram: {caption} From {low} to {high}, median {np.median(sizes):g}."
    return Figure(figure, alt, caption)

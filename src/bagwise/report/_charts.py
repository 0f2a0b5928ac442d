"""Small plots in the colours of the page: histogram, curves, scatter plot, map."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bagwise._common.types import Array
from bagwise.labels import Labels
from bagwise.report._page import Drawing

WIDTH, HEIGHT = 340, 250  # fits the screen of a phone
RIGHT, TOP, BOTTOM = 12, 10, 40
N_HUES = 12

Mark = tuple[str, dict[str, Any], str]


@dataclass(frozen=True)
class Curve:
    """One line of a plot.

    Attributes
    ----------
    name : str
        Name in the legend; empty if the caption names the line.
    x, y : sequence of float
        Coordinates of the points.
    dots : bool
        Whether the points are marked.
    """

    name: str
    x: Sequence[float] | Array
    y: Sequence[float] | Array
    dots: bool = False


@dataclass
class _Axes:
    """A pair of axes that converts values to pixels and collects SVG marks."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    marks: list[Mark] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Left margin, which fits the longest number of the scale."""
        return 28 + 7 * max(len(f"{value:g}") for value in _ticks(*self.y_range))

    def x(self, value: float) -> float:
        low, high = self.x_range
        return round(self.left + (value - low) / (high - low) * (WIDTH - self.left - RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    def line(self, style: str, x1: float, y1: float, x2: float, y2: float) -> None:
        place = {"x1": self.x(x1), "y1": self.y(y1), "x2": self.x(x2), "y2": self.y(y2)}
        self.marks.append(("line", {"class": style} | place, ""))

    def text(self, text: str, anchor: str = "middle", **place: Any) -> None:
        self.marks.append(("text", place | {"text-anchor": anchor}, text))

    def scales(self, x_label: str, y_label: str) -> None:
        for value in _ticks(*self.y_range):
            self.line("grid", self.x_range[0], value, self.x_range[1], value)
            self.text(f"{value:g}", "end", x=self.left - 7, y=self.y(value) + 4)
        for value in _ticks(*self.x_range):
            self.text(f"{value:g}", x=self.x(value), y=HEIGHT - BOTTOM + 16)
        self.text(x_label, x=(self.left + WIDTH - RIGHT) / 2, y=HEIGHT - 6)
        middle = (TOP + HEIGHT - BOTTOM) / 2
        self.text(y_label, transform=f"translate(11 {middle}) rotate(-90)")

    def curve(self, curve: Curve, style: str) -> None:
        placed = [(self.x(x), self.y(y)) for x, y in zip(curve.x, curve.y, strict=True)]
        points = " ".join(f"{x},{y}" for x, y in placed)
        self.marks.append(("polyline", {"class": style, "points": points}, ""))
        for x, y in placed if curve.dots or len(placed) == 1 else ():
            self.marks.append(("circle", {"class": "dot", "cx": x, "cy": y, "r": 3.5}, ""))


def histogram(values: Array, x_label: str, y_label: str, caption: str) -> Drawing:
    """Draw a histogram of integers.

    Parameters
    ----------
    values : ndarray of int
        The integers.
    x_label, y_label, caption : str
        Labels of the axes, and the caption.

    Returns
    -------
    Drawing
    """
    low, high = int(values.min()), int(values.max())
    step = max(1, -(-(high - low + 1) // 24))  # at most 24 bars, with integer edges
    edges = np.arange(low, high + step + 1, step)
    counts, _ = np.histogram(values, edges)
    axes = _Axes((low - 0.5, edges[-1] - 0.5), (0, float(counts.max())))
    axes.scales(x_label, y_label)
    for start, count in zip(edges[:-1].tolist(), counts.tolist(), strict=True):
        left, right = axes.x(start - 0.5), axes.x(start + step - 0.5)
        place = {"x": left + 0.5, "width": round(max(right - left - 1, 0.5), 1)}
        place |= {"y": axes.y(count), "height": round(axes.y(0) - axes.y(count), 1)}
        axes.marks.append(("rect", {"class": "bar"} | place, ""))
    alt = f"Histogram: {caption} From {low} to {high}, median {np.median(values):g}."
    return Drawing(WIDTH, HEIGHT, axes.marks, alt, caption)


def curves(
    lines: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    caption: str,
    alt: str,
    unit_square: bool = False,
) -> Drawing:
    """Draw lines; one is in the accent colour, several have colours and a legend.

    Parameters
    ----------
    lines : sequence of Curve
        The lines.
    x_label, y_label, caption, alt : str
        Labels of the axes, the caption, and a description for screen readers.
    unit_square : bool, default=False
        Whether both axes go from 0 to 1, with the diagonal as a guide.

    Returns
    -------
    Drawing
    """
    if unit_square:
        axes = _Axes((0.0, 1.0), (0.0, 1.0))
    else:
        xs = np.concatenate([np.asarray(line.x, dtype=float) for line in lines])
        ys = np.concatenate([np.asarray(line.y, dtype=float) for line in lines])
        axes = _Axes(_padded(xs, 0.0), _padded(ys, 0.05))
    axes.scales(x_label, y_label)
    if unit_square:
        axes.line("guide", 0, 0, 1, 1)
    several = len(lines) > 1
    for k, line in enumerate(lines):
        axes.curve(line, f"curve coloured thin {_hue(k)}" if several else "curve")
    legend = [(_hue(k), line.name) for k, line in enumerate(lines)] if several else []
    return Drawing(WIDTH, HEIGHT, axes.marks, alt, caption, legend)


def scatter(
    x: Array,
    y: Array,
    bags: list[int],
    titles: list[str],
    *,
    x_label: str,
    y_label: str,
    caption: str,
    alt: str,
) -> Drawing:
    """Draw a point per bag, which links to the bag, and the diagonal.

    Parameters
    ----------
    x, y : ndarray of shape (n_points,)
        Two numbers of each bag.
    bags : list of int
        The position of the bag of each point.
    titles : list of str
        Tooltip of each point.
    x_label, y_label, caption, alt : str
        Labels of the axes, the caption, and a description for screen readers.

    Returns
    -------
    Drawing
    """
    ends = _padded(np.concatenate([x, y]).astype(float), 0.05)
    axes = _Axes(ends, ends)
    axes.scales(x_label, y_label)
    axes.line("guide", ends[0], ends[0], ends[1], ends[1])
    for a, b, bag, title in zip(x.tolist(), y.tolist(), bags, titles, strict=True):
        place = {"class": "map hue-0", "cx": axes.x(a), "cy": axes.y(b), "r": 3.5}
        axes.marks.append(("circle", place | {"data-bag": bag, "data-title": title}, ""))
    return Drawing(WIDTH, HEIGHT, axes.marks, alt, caption)


def point_map(
    points: Array, labels: Labels, bags: list[int], titles: list[str], caption: str, alt: str
) -> Drawing:
    """Draw points of the plane, coloured by label, which link to their bags.

    Parameters
    ----------
    points : ndarray of shape (n_points, 2)
        Coordinates of the points.
    labels : Labels
        The label of each point; it may be unknown.
    bags : list of int
        The position of the bag of each point.
    titles : list of str
        Tooltip of each point.
    caption, alt : str
        The caption, and a description for screen readers.

    Returns
    -------
    Drawing
    """
    width, height, edge = 560, 430, 14
    low, high = points.min(axis=0), points.max(axis=0)
    spread = np.where(high > low, high - low, 1.0)
    placed = (points - low) / spread * [width - 2 * edge, height - 2 * edge] + edge
    groups, names = labels.codes, labels.names
    marks: list[Mark] = []
    for (x, y), group, bag, title in zip(
        placed.round(1).tolist(), groups.tolist(), bags, titles, strict=True
    ):
        place = {"class": f"map {_hue(group)}", "cx": x, "cy": y, "r": 3.5}
        marks.append(("circle", place | {"data-bag": bag, "data-title": title}, ""))
    shown = np.unique(groups[groups >= 0]).tolist()
    for group in shown:
        x, y = np.median(placed[groups == group], axis=0).tolist()
        x = min(max(x, 30), width - 30)
        place = {"x": round(x, 1), "y": round(y + 4, 1), "text-anchor": "middle"}
        name = names[group] if len(names[group]) <= 16 else names[group][:15] + "…"
        marks.append(("text", {"class": "name"} | place, name))
    legend = [(_hue(group), names[group]) for group in shown] if len(shown) <= N_HUES else []
    return Drawing(width, height, marks, alt, caption, legend)


def _hue(group: int) -> str:
    return "hue-none" if group < 0 else f"hue-{group % N_HUES}"


def _padded(values: Array, share: float) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low - 0.5, high + 0.5
    margin = share * (high - low)
    return low - margin, high + margin


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends, with a step of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [round(float(k * step), 12) + 0.0 for k in np.arange(first, last + 1)]

"""Heat maps: scores of instances at their positions, such as the patches of a slide."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.extras import import_extra
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.displays._base import Display
from bagwise.exceptions import InputError
from bagwise.predictions import Predictions
from bagwise.validation import check_bags

MOST_EXTREME = 0.005  # share of values beyond the ends of the colour scale
MAP_INCHES = 6.0  # longer side of a map
OVER_IMAGE = 0.5  # opacity of squares over a picture


def check_coords(coords: ArrayLike, bags: Bags) -> Array:
    """Check that coordinates are two finite numbers per instance."""
    places = np.asarray(coords)
    is_number = places.dtype.kind in "fiu"
    if places.shape != (bags.n_instances, 2) or not is_number or not np.isfinite(places).all():
        raise InputError(
            f"coords have shape {places.shape} and type {places.dtype} for "
            f"{bags.n_instances} instances: expected the finite position (x, y) of each."
        )
    return places


def patch_edges(sizes: ArrayLike | None, bags: Bags, coords: Array) -> Floats:
    """The edge of the patches of each bag: as given, or the spacing of its grid.

    That is the smallest distance between columns or rows; if all patches of a bag are at one
    position, the usual edge of the other bags.
    """
    given = np.asarray(np.nan if sizes is None else sizes, dtype=float)
    if given.shape not in ((), (len(bags),)) or (given <= 0).any() or np.isinf(given).any():
        raise InputError(f"patch_size is {sizes!r}: expected a positive number, or one per slide.")
    edges = np.full(len(bags), given)
    for i in np.flatnonzero(np.isnan(edges)):
        part = coords[bags.offsets[i] : bags.offsets[i + 1]]
        steps = np.concatenate([np.diff(np.unique(part[:, axis])) for axis in (0, 1)])
        edges[i] = steps.min() if len(steps) else np.nan
    usual = np.nanmedian(edges) if not np.isnan(edges).all() else 1.0
    return np.where(np.isnan(edges), usual, edges)


def squares(coords: Array, edge: float) -> Floats:
    """The corners of the squares of patches, the first one repeated: (n_instances, 5, 2)."""
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) * edge
    return np.asarray(coords)[:, None, :] + corners


def colour_limits(values: Floats) -> tuple[float, float]:
    """Ends of a colour scale: symmetric about 0 if there are values below.

    So a slide with only negative scores is blue; alone it would have the brightest colours, too.
    A few extreme values are beyond the ends.
    """
    low, high = np.quantile(values, [MOST_EXTREME, 1 - MOST_EXTREME])
    if low < 0:
        low, high = -max(-low, high), max(-low, high)
    return (float(low), float(high)) if high > low else (float(low) - 0.5, float(low) + 0.5)


def colours(values: Floats, limits: tuple[float, float]) -> Ints:
    """The colours of values on a scale, as red, green and blue from 0 to 255."""
    matplotlib = import_extra("matplotlib", extra="plot")
    low, high = limits
    shares = np.clip((values - low) / (high - low), 0, 1)
    return matplotlib.colormaps[_scale(limits)](shares, bytes=True)[:, :3].astype(np.int64)


def _scale(limits: tuple[float, float]) -> str:
    return "coolwarm" if limits[0] < 0 < limits[1] else "viridis"


@dataclass(eq=False)
class HeatMapDisplay(Display):
    """Show the scores of the instances of a bag at their positions: a heat map of a slide.

    Create it with `from_estimator` or `from_predictions`. If squares overlap, the higher score is
    on top.

    Parameters
    ----------
    values : ndarray of shape (n_instances,)
        The score of each instance.
    coords : ndarray of shape (n_instances, 2)
        The upper left corner of each instance; y grows downwards, as in an image.
    patch_size : float
        Edge of the square that an instance covers.
    value_name : str, default="score"
        Name of the score, for the colour bar.
    limits : tuple (float, float), default=None
        Ends of the colour scale; by default from the values.
    top : int, default=0
        Number of the highest scores that are framed.
    image : ndarray of shape (height, width, 3), default=None
        A picture of the whole slide, which is drawn below the squares.
    image_size : tuple (float, float), default=None
        Width and height of the slide, in the unit of `coords`; needed for `image`.

    Attributes
    ----------
    {ax_}
    {figure_}

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.displays import HeatMapDisplay
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> places = [[0, 0], [256, 0]]
    >>> display = HeatMapDisplay.from_estimator(model, bags[2], places)  # doctest: +SKIP
    """

    values: Array
    coords: Array
    patch_size: float
    value_name: str = field(default="score", kw_only=True)
    limits: tuple[float, float] | None = field(default=None, kw_only=True)
    top: int = field(default=0, kw_only=True)
    image: Array | None = field(default=None, kw_only=True)
    image_size: tuple[float, float] | None = field(default=None, kw_only=True)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        coords: ArrayLike,
        *,
        label: Any = None,
        method: str | None = None,
        random_state: Any = 0,
        **settings: Any,
    ) -> Self:
        """Score the instances of one bag and plot them at their positions.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier of bags.
        X : array-like of shape (n_instances, n_features)
            The instances of the bag.
        coords : array-like of shape (n_instances, 2)
            The upper left corner of each instance.
        label : object, default=None
            The class; by default the last of two, else the class predicted for the bag.
        method : {"score", "single", "one_removed", "sampled"}, default=None
            As in `instance_attributions`. By default "score" if the model's own scores of
            instances pool to the score of the bag, else "sampled", for large bags "single".
        random_state : int, RandomState instance or None, default=0
            Seed of random subsets.
        **settings : object
            `patch_size`, `limits`, `top`, `image`, `image_size` and `ax`, as for
            `from_predictions`.

        Returns
        -------
        HeatMapDisplay
        """
        predictions = Predictions(estimator, check_bags(None, [X], reset=True, allow_nan=True))
        found = predictions.contributions(label, method=method, random_state=random_state)
        return cls.from_predictions(found.values, coords, value_name=found.value_name, **settings)

    @classmethod
    def from_predictions(
        cls, values: ArrayLike, coords: ArrayLike, *, patch_size: Any = None, **settings: Any
    ) -> Self:
        """Plot given scores.

        Parameters
        ----------
        values : array-like of shape (n_instances,)
            The score of each instance.
        coords : array-like of shape (n_instances, 2)
            The upper left corner of each instance.
        patch_size : float, default=None
            Edge of the square that an instance covers; by default the spacing of the grid.
        **settings : object
            `value_name`, `limits`, `top`, `image` and `image_size`, as for the class, and `ax`, the
            matplotlib Axes where to plot.

        Returns
        -------
        HeatMapDisplay
        """
        scores = np.asarray(values, dtype=float)
        if scores.ndim != 1 or not len(scores) or not np.isfinite(scores).all():
            raise InputError(
                f"values have shape {scores.shape}: expected a finite number for each instance."
            )
        bags = Bags(scores[:, None], [0, len(scores)])
        places = check_coords(coords, bags)
        (edge,) = patch_edges(patch_size, bags, places).tolist()
        if settings.get("image") is not None and np.shape(settings.get("image_size", ())) != (2,):
            raise InputError("image= needs image_size=, the width and height of the slide.")
        return cls.plotted(scores, places, edge, **settings)

    def _size(self) -> tuple[float, float]:
        extent = np.ptp(self.coords, axis=0) + self.patch_size
        width, height = MAP_INCHES * np.maximum(extent / extent.max(), 0.2)
        return float(width) + 1.4, float(height) + 0.4  # the colour bar, a margin

    def _draw(self, ax: Any) -> None:
        collections = import_extra("matplotlib.collections", extra="plot")
        limits = colour_limits(self.values) if self.limits is None else self.limits
        order = np.argsort(self.values, kind="stable")
        # Without antialiasing there are no seams between neighbours.
        style: Any = {
            "cmap": _scale(limits),
            "clim": limits,
            "linewidths": 0,
            "antialiaseds": False,
        }
        style |= {} if self.image is None else {"alpha": OVER_IMAGE}
        corners = squares(self.coords, self.patch_size)[order]
        cells = collections.PolyCollection(corners, array=self.values[order], **style)
        if self.image is not None and self.image_size is not None:
            width, height = self.image_size
            ax.imshow(self.image, extent=(0, width, height, 0), interpolation="antialiased")
        ax.add_collection(cells)
        if self.top > 0:
            frame: Any = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.2}
            ax.add_collection(collections.PolyCollection(corners[-self.top :], **frame))
        low, high = self.coords.min(axis=0), self.coords.max(axis=0) + self.patch_size
        margin = 0.02 * (high - low).max()
        ax.set(xlim=(low[0] - margin, high[0] + margin), aspect="equal")
        ax.set_ylim(high[1] + margin, low[1] - margin)  # y grows downwards
        ax.set_axis_off()
        beyond = self.values.min() < limits[0], self.values.max() > limits[1]
        extend = {(True, True): "both", (True, False): "min", (False, True): "max"}
        bar = ax.figure.colorbar(cells, ax=ax, extend=extend.get(beyond, "neither"), shrink=0.8)
        bar.set_label(self.value_name, parse_math=False)
        bar.outline.set_visible(False)

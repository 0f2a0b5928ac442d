"""Heat maps of bags for a report: one picture of each bag, a pixel per cell of its grid."""

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.inspection._heat_maps import colour_limits, colours, patch_edge
from bagwise.report._media import png
from bagwise.report._subject import Subject

MOST_CELLS = 512  # along an edge of a map; finer grids get larger cells
N_COLOURS = 64  # of the scale; fewer colours make smaller files
BUDGET = 20_000_000  # bytes of all maps
EMPTY = 232  # grey of cells without an instance


def place_maps(
    subject: Subject, coords: ArrayLike | None, patch_size: ArrayLike | None
) -> tuple[dict[str, Any] | None, str]:
    """Draw the scores of the instances of each bag at their positions.

    Parameters
    ----------
    subject : Subject
        The bags and the scores of their instances.
    coords : array-like of shape (n_instances, 2) or None
        The upper left corner of each instance.
    patch_size : float, array-like of shape (n_bags,) or None
        Edge of the squares; by default the spacing of the grid.

    Returns
    -------
    maps : dict or None
        For each bag the picture, its size, and the cells of the key instances; None without
        coordinates or scores.
    note : str
        A sentence for readers, empty if there is none.
    """
    bags, scores = subject.bags, subject.instance_scores
    if coords is None:
        return None, ""
    places = check_coords(coords, bags)
    edges = patch_edges(patch_size, bags, places)
    if scores is None:
        return None, "There is no heat map, because the model has no scores of instances."
    limits = colour_limits(scores)
    is_key = np.zeros(bags.n_instances, dtype=bool)
    is_key[list(subject.keys)] = True
    maps: dict[str, Any] = {"picture": [], "size": [], "keys": []}
    left = BUDGET
    for i, (start, stop) in enumerate(zip(bags.offsets[:-1], bags.offsets[1:], strict=True)):
        part = slice(start, stop)
        cells, shape = grid_cells(places[part], edges[i])
        data = png(_drawn(cells, shape, scores[part], limits))
        left -= len(data)
        address = f"data:image/png;base64,{base64.b64encode(data).decode()}" if left >= 0 else None
        maps["picture"].append(address)
        maps["size"].append([shape[1], shape[0]])
        maps["keys"].append(cells[is_key[part]].tolist())
    signed = limits[0] < 0 < limits[1]
    colour = "red is high, blue is low" if signed else "yellow is high, dark blue is low"
    maps["caption"] = (
        f"Each instance at its position, coloured by its {subject.instance_score_name}: {colour}. "
        f"The scale, from {limits[0]:.3g} to {limits[1]:.3g}, is the same for all {subject.unit}s. "
        "Key instances are framed."
    )
    n_absent = maps["picture"].count(None)
    note = f"{n_absent} heat maps exceed the size limit of the page." if n_absent else ""
    return maps, note


def grid_cells(coords: Array, edge: float) -> tuple[Ints, tuple[int, int]]:
    """The column and the row of each instance on a grid, and the size (rows, columns) of the grid.

    Cells have the size of a patch, or are larger if there would be too many.

    Parameters
    ----------
    coords : ndarray of shape (n_instances, 2)
        Upper left corners.
    edge : float
        Length of an edge.

    Returns
    -------
    cells : ndarray of shape (n_instances, 2)
        Column and row.
    shape : tuple (int, int)
        Rows and columns of the grid.
    """
    offset = np.asarray(coords, dtype=float)
    offset = offset - offset.min(axis=0)
    cell = max(edge, float(offset.max()) / (MOST_CELLS - 1))
    cells = np.floor(offset / cell + 0.5).astype(np.int64)  # to the nearest corner of the grid
    n_columns, n_rows = (cells.max(axis=0) + 1).tolist()
    return cells, (n_rows, n_columns)


def _drawn(cells: Ints, shape: tuple[int, int], values: Floats, limits: Any) -> Array:
    low, high = limits
    step = (high - low) / (N_COLOURS - 1)
    levels = low + np.rint((np.clip(values, low, high) - low) / step) * step
    image = np.full((*shape, 3), EMPTY, dtype=np.uint8)
    order = np.argsort(values, kind="stable")  # the highest is drawn last
    column, row = cells[order].T
    image[row, column] = colours(levels[order], limits)
    return image


def check_coords(coords: ArrayLike, bags: Bags) -> Array:
    """Check that coordinates are two finite numbers per instance."""
    places = np.asarray(coords)
    if places.shape != (bags.n_instances, 2) or places.dtype.kind not in "fiu":
        raise InputError(
            f"coords have shape {places.shape} and type {places.dtype} for "
            f"{bags.n_instances} instances: expected the position (x, y) of each."
        )
    if not np.isfinite(places).all():
        raise InputError("coords must be finite numbers: leave the other instances out.")
    return places


def patch_edges(sizes: ArrayLike | None, bags: Bags, coords: Array) -> Floats:
    """The edge of the patches of each bag: as given, or the spacing of its grid."""
    try:
        given = np.array(np.nan if sizes is None else sizes, dtype=float)
        edges = np.array(np.broadcast_to(given, len(bags)))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"patch_size is {sizes!r}: expected a number, or one per slide."
        ) from error
    if (edges <= 0).any() or np.isinf(edges).any():
        raise InputError(f"patch_size is {sizes!r}: expected positive numbers.")
    for i in np.flatnonzero(np.isnan(edges)):
        edges[i] = patch_edge(coords[bags.offsets[i] : bags.offsets[i + 1]])
    usual = np.nanmedian(edges) if not np.isnan(edges).all() else 1.0
    return np.where(np.isnan(edges), usual, edges)

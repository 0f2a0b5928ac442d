"""The list of all bags in a report, with their instances, media and heat maps."""

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import offsets_of
from bagwise.displays._heat_maps import check_coords, colour_limits, colours, patch_edges
from bagwise.labels import Labels
from bagwise.model_selection import HeldOut
from bagwise.predictions import Predictions
from bagwise.predictions._ranking import of_labels
from bagwise.report._evaluation import as_numbers
from bagwise.report._media import Media, embed, png
from bagwise.report._page import Explorer, Section

MOST_INSTANCES = 400_000  # maximum number on a page
LEAST_PER_BAG = 20
MOST_CELLS = 512  # along an edge of a map; finer grids get larger cells
N_COLOURS = 64  # of the scale; fewer colours make smaller files
MAP_BUDGET = 20_000_000  # bytes of all maps
EMPTY = 232  # grey of cells without an instance


def explorer_section(
    subject: Predictions,
    media: Media | None,
    held_out: HeldOut | None,
    coords: ArrayLike | None,
    patch_size: ArrayLike | None,
) -> Section:
    """List all bags, with their instances in the order of scores, and media.

    Parameters
    ----------
    subject : Predictions
        The model, the bags and the predictions.
    media : Media or None
        Images, sounds and texts of the instances.
    held_out : HeldOut or None
        Predictions by models that were not fitted on the bags.
    coords, patch_size : array-like or None
        Positions and sizes of the instances, for heat maps.

    Returns
    -------
    Section
    """
    ranking, unit = subject.ranking, subject.unit
    rows, ranks, offsets = _ranked(subject)
    embedded, media_note = embed(media, rows, ranks)
    maps, map_note = _place_maps(subject, coords, patch_size)
    data = {
        "unit": unit,
        "bags": _bag_columns(subject, held_out),
        "offsets": offsets.tolist(),
        "instances": _instance_columns(subject, rows) | embedded.columns,
        "labels": [] if ranking.labels is None else ranking.labels.names,
        "media": embedded.files,
        "maps": maps,
        "heads": {
            "score": ranking.score_name,
            "label": ranking.heading,
            "probability": "probability",
            "bagScore": subject.bag_scores[1],
            **({"truth": "observed"} if subject.is_regressor else {}),
        },
        "numbers": subject.is_regressor,
    }
    if unit == "bag" and ranking.scores is not None:
        order = f"Instances are in the order of their scores. {ranking.explanation}"
    else:
        order = "The key instance of a bag is marked." if ranking.keys else ranking.explanation
    texts = [text for text in (order, media_note, map_note) if text]
    return Section(f"All {unit}s", *texts, Explorer(data))


def _bag_columns(subject: Predictions, held_out: HeldOut | None) -> dict[str, Any]:
    """The values that the page lists for each bag; held-out predictions decide which are wrong."""
    columns = {
        "id": subject.bag_names,
        "size": subject.bags.sizes.tolist(),
        "score": _numbers(subject.bag_scores[0]),
        "certainty": _numbers(subject.certainty),
    }
    if subject.numbers is not None:
        found = None if held_out is None else as_numbers(held_out.predicted)
        truth, predicted = subject.known_numbers, subject.numbers
        error = None if truth is None else np.abs((predicted if found is None else found) - truth)
        texts = {"truth": truth, "predicted": predicted, "heldOut": found}
        columns |= {name: _number_texts(values) for name, values in texts.items()}
        return columns | {"error": _numbers(error)}
    known, own, proba = subject.known, subject.predicted, subject.call("predict_proba")
    other = None if held_out is None else subject.labels(held_out.predicted)
    if proba is not None:
        proba = None if own is None or own.has_sets else of_labels(proba, own)
    return columns | {
        "truth": None if known is None else known.texts,
        "predicted": _texts(own),
        "heldOut": _texts(other),
        "probability": _numbers(proba),
        "wrong": _wrong(known, own if other is None else other),
    }


def _instance_columns(subject: Predictions, rows: Ints) -> dict[str, Any]:
    """The values that the page lists for each instance in `rows`, without media."""
    bags, ranking = subject.bags, subject.ranking
    place = {int(row): j for j, row in enumerate(rows)}
    return {
        "row": (rows - bags.offsets[bags.bag_index[rows]]).tolist(),
        "score": _numbers(ranking.scores, rows),
        "label": None if ranking.labels is None else ranking.labels.codes[rows].tolist(),
        "probability": _numbers(ranking.proba, rows),
        "keys": [[place[row], text] for row, text in ranking.keys.items() if row in place],
        **dict.fromkeys(("image", "audio", "text", "source", "box")),
    }


def _number_texts(values: Floats | None) -> list[str | None] | None:
    if values is None:
        return None
    return [f"{value:.4g}" if np.isfinite(value) else None for value in values.tolist()]


def _texts(labels: Labels | None) -> list[str] | None:
    return None if labels is None else [text or "" for text in labels.texts]


def _ranked(subject: Predictions) -> tuple[Ints, Ints, Ints]:
    """The instances that the page lists, best first in each bag; only the best of large bags."""
    bags, scores, index = subject.bags, subject.ranking.scores, subject.bags.bag_index
    key = np.ones(bags.n_instances)
    key[list(subject.ranking.keys)] = 0
    order = np.lexsort((key, index) if scores is None else (key, -scores, index))
    ranks = np.arange(bags.n_instances) - bags.offsets[index]
    most = max(LEAST_PER_BAG, MOST_INSTANCES // len(bags))
    kept = ranks < most
    return order[kept], ranks[kept], offsets_of(np.minimum(bags.sizes, most))


def _wrong(known: Labels | None, predicted: Labels | None) -> list[int | None] | None:
    """1 if the prediction differs from the label, 0 if not, None for an unknown label."""
    if known is None or predicted is None:
        return None
    if predicted.has_sets:
        more = len(known.classes) - len(predicted.classes)  # labels that the model does not know
        padded = np.pad(predicted.indicator, ((0, 0), (0, more)))
        wrong = (padded != known.indicator).any(axis=1)
    else:
        wrong = predicted.codes != known.codes
    return [int(w) if given else None for w, given in zip(wrong, known.known, strict=True)]


def _numbers(values: Array | None, rows: Ints | None = None) -> list[float | None] | None:
    """Numbers rounded to four digits; None for NaN and infinity."""
    if values is None:
        return None
    chosen = np.asarray(values if rows is None else values[rows], dtype=float)
    return [float(f"{v:.4g}") if abs(v) < 1e300 else None for v in chosen.tolist()]


def _place_maps(
    subject: Predictions, coords: ArrayLike | None, patch_size: ArrayLike | None
) -> tuple[dict[str, Any] | None, str]:
    """For each bag a picture with a pixel per cell of its grid, and the cells of key instances.

    None without coordinates or scores; and a sentence for readers, empty if there is none.
    """
    bags, ranking = subject.bags, subject.ranking
    if coords is None:
        return None, ""
    places = check_coords(coords, bags)
    edges = patch_edges(patch_size, bags, places)
    if ranking.scores is None:
        return None, "There is no heat map, because the model has no scores of instances."
    limits, left = colour_limits(ranking.scores), MAP_BUDGET
    is_key = np.zeros(bags.n_instances, dtype=bool)
    is_key[list(ranking.keys)] = True
    maps: dict[str, Any] = {"picture": [], "size": [], "keys": []}
    parts = (bags.split(values) for values in (places, ranking.scores, is_key))
    for edge, own, values, keys in zip(edges, *parts, strict=True):
        cells, shape = grid_cells(own, edge)
        data = png(grid_picture(cells, shape, values, limits))
        left -= len(data)
        address = f"data:image/png;base64,{base64.b64encode(data).decode()}" if left >= 0 else None
        maps["picture"].append(address)
        maps["size"].append([shape[1], shape[0]])
        maps["keys"].append(cells[keys].tolist())
    signed = limits[0] < 0 < limits[1]
    colour = "red is high, blue is low" if signed else "yellow is high, dark blue is low"
    maps["caption"] = (
        f"Each instance at its position, coloured by its {ranking.score_name}: {colour}. "
        f"The scale, from {limits[0]:.3g} to {limits[1]:.3g}, is the same for all {subject.unit}s. "
        "Key instances are framed."
    )
    n_absent = maps["picture"].count(None)
    return maps, f"{n_absent} heat maps exceed the size limit of the page." if n_absent else ""


def grid_cells(coords: Array, edge: float) -> tuple[Ints, tuple[int, int]]:
    """The column and the row of each instance on a grid, and the size (rows, columns) of the grid.

    Cells have the size of a patch, or are larger if there would be too many.
    """
    offset = np.asarray(coords, dtype=float)
    offset = offset - offset.min(axis=0)
    cell = max(edge, float(offset.max()) / (MOST_CELLS - 1))
    cells = np.floor(offset / cell + 0.5).astype(np.int64)  # to the nearest corner of the grid
    n_columns, n_rows = (cells.max(axis=0) + 1).tolist()
    return cells, (n_rows, n_columns)


def grid_picture(cells: Ints, shape: tuple[int, int], values: Floats, limits: Any) -> Array:
    """The colours of the cells, of shape (rows, columns, 3); the highest value is on top."""
    low, high = limits
    step = (high - low) / (N_COLOURS - 1)
    levels = low + np.rint((np.clip(values, low, high) - low) / step) * step
    image = np.full((*shape, 3), EMPTY, dtype=np.uint8)
    order = np.argsort(values, kind="stable")
    column, row = cells[order].T
    image[row, column] = colours(levels[order], limits)
    return image

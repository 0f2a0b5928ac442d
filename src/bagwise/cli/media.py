"""From columns of a table to the pictures, sounds and texts of its instances."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.cli.output import note
from bagwise.exceptions import InputError
from bagwise.report import Media
from bagwise.review.card import ServedMedia


def check_box(box: str | None, source: str | None) -> list[str]:
    """Split the option ``--box`` into its four columns; none without it."""
    edges = [] if box is None else [name.strip() for name in box.split(",")]
    if edges and (len(edges) != 4 or source is None):
        raise InputError(
            f"--box {box}: expected four columns as x,y,width,height, and --source for the image "
            "they lie in."
        )
    return edges


def make_media(
    path: Path,
    columns: Mapping[str, list[Any]],
    named: Mapping[str, str | None],
    edges: list[str],
    *,
    per_bag: int = 6,
    budget: int = 20_000_000,
) -> Media | None:
    """Bring columns of a table together that name what instances look or sound like.

    Parameters
    ----------
    path : Path
        The table; the files named in it are found from its folder.
    columns : mapping of str to list
        Its columns as they are written, in the order of the instances.
    named : mapping of {"images", "audio", "texts", "sources"} to str or None
        The column of each kind.
    edges : list of str
        Four columns, x, y, width and height in the source image; or none.
    per_bag, budget : int
        How many instances of a bag are shown, and how many bytes at most.

    Returns
    -------
    Media or None
        None where no column was named.
    """
    if not any(named.values()):
        return None
    lists: dict[str, Any] = {}
    for kind, column in named.items():
        if column is not None:
            values = columns[column]
            lists[kind] = values if kind == "texts" else [_beside(path, value) for value in values]
    if edges:
        lists["boxes"] = np.column_stack([_numbers(columns[name], name) for name in edges])
    return Media(**lists, per_bag=per_bag, budget=budget)


def make_served(path: Path, kind: str, written: list[Any]) -> ServedMedia:
    """Bring a column of images, sounds or texts together for a page of `bagwise review`.

    Parameters
    ----------
    path : Path
        The table; the files named in it are found from its folder.
    kind : {"image", "audio", "text"}
        What the column holds.
    written : list
        The column as it is written, in the order of the instances.

    Returns
    -------
    ServedMedia
    """
    values = [None if v is None else str(v) for v in written]
    folder = path.parent.resolve()
    names = {} if kind == "text" else dict.fromkeys(v for v in values if v is not None)
    outside = [v for v in names if not Path(os.path.normpath(folder / v)).is_relative_to(folder)]
    if outside:
        note(
            f"{len(outside)} files are outside of {folder} and are not shown, {outside[0]!r} among "
            "them: copy them into that folder, and name them from there."
        )
    return ServedMedia(kind, values, path.parent)


def _beside(path: Path, value: Any) -> Path | None:
    return None if value is None or not str(value).strip() else path.parent / str(value)


def _numbers(values: list[Any], name: str) -> Any:
    try:
        return np.array([np.nan if value is None else float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise InputError(f"the column {name!r} (asked for with --box) holds no numbers.") from error

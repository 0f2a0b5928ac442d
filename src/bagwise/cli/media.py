"""From columns of a table to the pictures, sounds and texts of its instances."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.cli.output import note
from bagwise.cli.reading import as_written, open_columns
from bagwise.exceptions import InputError
from bagwise.io.columns import Request, find_roles
from bagwise.io.files import reading
from bagwise.io.labels import group
from bagwise.report import Media
from bagwise.review.card import ServedMedia

__all__ = ["read_media", "read_served"]


def read_media(
    path: Path,
    bag: str | None,
    *,
    image: str | None = None,
    audio: str | None = None,
    text: str | None = None,
    source: str | None = None,
    box: str | None = None,
    per_bag: int = 6,
    budget: int = 20_000_000,
) -> Media | None:
    """Read the columns that name what instances look or sound like.

    Parameters
    ----------
    path : Path
        A table with one row per instance; the files named in it are found from its folder.
    bag : str or None
        The column that names the bag, ``bag`` by default.
    image, audio, text, source : str or None
        Columns of files and texts.
    box : str or None
        Four columns, separated by commas: x, y, width and height in the source image.
    per_bag, budget : int
        How many instances of a bag are shown, and how many bytes at most.

    Returns
    -------
    Media or None
        Aligned with the instances as `read_bags` orders them; None where no column was named.
    """
    named = {"images": image, "audio": audio, "texts": text, "sources": source}
    edges = [] if box is None else [name.strip() for name in box.split(",")]
    if not any(named.values()) and not edges:
        return None
    if edges and (len(edges) != 4 or source is None):
        raise InputError(
            f"--box {box}: expected four columns as x,y,width,height, and --source for the image "
            "they lie in."
        )
    wanted = [name for name in [*named.values(), *edges] if name is not None]
    columns = _read_columns(path, bag, wanted)
    lists: dict[str, Any] = {}
    for kind, column in named.items():
        if column is not None:
            values = columns[column]
            lists[kind] = values if kind == "texts" else [_beside(path, value) for value in values]
    if edges:
        lists["boxes"] = np.column_stack([_numbers(columns[name], name) for name in edges])
    return Media(**lists, per_bag=per_bag, budget=budget)


def read_served(
    path: Path, bag: str | None, columns: Mapping[str, str | None]
) -> ServedMedia | None:
    """Read the one column of images, sounds or texts that a page of `bagwise review` shows.

    Parameters
    ----------
    path : Path
        A table with one row per instance; the files named in it are found from its folder.
    bag : str or None
        The column that names the bag, ``bag`` by default.
    columns : mapping of {"image", "audio", "text"} to str or None
        The column of each kind; one of them at most.

    Returns
    -------
    ServedMedia or None
        Aligned with the instances as `read_bags` orders them; None where no column was named.
    """
    given = [(kind, column) for kind, column in columns.items() if column is not None]
    if len(given) > 1:
        raise InputError("--image, --audio and --text exclude each other: show one of them.")
    if not given:
        return None
    ((kind, column),) = given
    values = [None if v is None else str(v) for v in _read_columns(path, bag, [column])[column]]
    folder = path.parent.resolve()
    names = {} if kind == "text" else dict.fromkeys(v for v in values if v is not None)
    outside = [v for v in names if not Path(os.path.normpath(folder / v)).is_relative_to(folder)]
    if outside:
        note(
            f"{len(outside)} files are outside of {folder} and are not shown, {outside[0]!r} among "
            "them: copy them into that folder, and name them from there."
        )
    return ServedMedia(kind, values, path.parent)


def _read_columns(path: Path, bag: str | None, wanted: list[str]) -> dict[str, list[Any]]:
    """Columns as they are written, in the order of the instances."""
    with reading(path):
        table = open_columns(path, wanted, also=[bag or "bag"])
        columns = {name: as_written(table, name) for name in wanted}
        chosen = find_roles(table, Request({"bag": bag}), ("bag",))["bag"]
        if chosen is None:
            raise InputError(f"which column of {path.name} says the bag of a row? Name it: --bag.")
        order = group(table.column(chosen, "bag"), chosen).order
    return {name: [values[i] for i in order] for name, values in columns.items()}


def _beside(path: Path, value: Any) -> Path | None:
    return None if value is None or not str(value).strip() else path.parent / str(value)


def _numbers(values: list[Any], name: str) -> Any:
    try:
        return np.array([np.nan if value is None else float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise InputError(f"the column {name!r} (asked for with --box) holds no numbers.") from error

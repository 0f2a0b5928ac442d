"""From columns of a table to the pictures, sounds and texts of its instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import InputError
from bagwise.inspection import Media
from bagwise.io.columns import listed
from bagwise.io.files import format_of, reading
from bagwise.io.labels import group
from bagwise.io.sources import CsvSource, ParquetSource, Source

__all__ = ["read_media"]


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
    with reading(path):
        table = _open(path, [bag or "bag", *wanted])
        chosen = bag or str(table.notes.get("bag", "bag"))
        for name in [chosen, *wanted]:
            if name not in table.names:
                raise InputError(
                    f"there is no column {name!r}: the columns are {listed(table.names)}."
                )
        rows = group(table.column(chosen, "bag"), chosen)
        columns = {name: _column(table, name, rows.order) for name in wanted}
    lists: dict[str, Any] = {}
    for kind, column in named.items():
        if column is not None:
            values = columns[column]
            lists[kind] = values if kind == "texts" else [_beside(path, value) for value in values]
    if edges:
        lists["boxes"] = np.column_stack([_numbers(columns[name], name) for name in edges])
    return Media(**lists, per_bag=per_bag, budget=budget)


def _open(path: Path, texts: list[str]) -> Source:
    format = format_of(path, None)
    if format == "parquet":
        return ParquetSource(path)
    if format in ("csv", "tsv"):
        return CsvSource(path, delimiter="\t" if format == "tsv" else ",", texts=texts, dtype=None)
    raise InputError(
        f"{path.name} has no columns of images, sounds or texts: they are read from CSV, TSV and "
        "Parquet tables with one row per instance."
    )


def _column(table: Source, name: str, order: Any) -> list[Any]:
    if "list" in table.kind(name) or table.kind(name) in ("numbers", "vectors"):
        raise InputError(
            f"the column {name!r} holds lists: images, sounds and texts are read from tables with "
            "one row per instance."
        )
    column = table.column(name, "label_set")  # as it is written
    values = [*column.values, None]  # code -1, a gap, is the last
    return [values[code] for code in column.codes[order]]


def _beside(path: Path, value: Any) -> Path | None:
    return None if value is None or not str(value).strip() else path.parent / str(value)


def _numbers(values: list[Any], name: str) -> Any:
    try:
        return np.array([np.nan if value is None else float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise InputError(f"the column {name!r} (asked for with --box) holds no numbers.") from error

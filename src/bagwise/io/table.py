"""Tables of instances: data frames, CSV and Parquet files.

There are two layouts. In the first, a row is an instance, and a column has its bag id. In the
second (Parquet and nested frames), a row is a bag: each feature is a list of numbers, one per
instance, or one column has a list of vectors.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.exceptions import FileFormatError, InputError
from bagwise.extras import import_extra
from bagwise.io.columns import (
    ROLES,
    Layout,
    Request,
    find_columns,
    label_bags,
    listed,
    require_column,
    written_values,
)
from bagwise.io.contents import Contents
from bagwise.io.doubts import ValueCheck
from bagwise.io.files import format_of, reading
from bagwise.io.labels import Column, group
from bagwise.io.lists import read_lists
from bagwise.io.memory import Workspace
from bagwise.io.sources import CsvSource, FrameSource, ParquetSource, Source, TableSource
from bagwise.io.workers import Cluster


def open_table(path: Path, format: str, request: Request) -> Source:
    """Open a CSV or Parquet file as a source of columns."""
    if format == "parquet":
        return ParquetSource(path)
    # Columns that are not features are read as strings.
    texts = [*(request.roles.get(role) or role for role in ROLES), *request.beside]
    return CsvSource(
        path,
        delimiter="\t" if format == "tsv" else ",",
        texts=[name for name in dict.fromkeys(texts) if name not in (request.features or ())],
        dtype=request.dtype,
    )


def read_written(
    path: Path, names: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Read columns of a CSV or Parquet file as strings; some may be absent."""
    with reading(path):
        source = open_table(path, format_of(path, None), Request({}, columns=(*names, *optional)))
        for name in names:
            require_column(source, name, f" in {path.name}")
        found = [name for name in (*names, *optional) if name in source.names]
        return {name: written_values(source, name) for name in found}


def open_frame(frame: Any) -> Source:
    """Wrap a data frame as a source of columns; one with lists is converted by pyarrow."""
    import narwhals.stable.v2 as nw

    try:
        table: Any = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(
            f"cannot read bags from {type(frame).__name__}: expected a path, or a data frame of "
            "pandas, polars or pyarrow (collect a lazy one first)."
        ) from error
    except nw.exceptions.NarwhalsError as error:
        raise InputError(f"the data frame cannot be read: {error}") from error
    if any(_is_nested(table.get_column(name)) for name in table.columns):
        pa = import_extra("pyarrow", extra="io")
        try:
            arrow = table.to_arrow()
        except pa.ArrowException as error:
            raise InputError(f"the lists in the data frame cannot be read: {error}") from error
        return TableSource(arrow.schema, arrow, where="the data frame")
    return FrameSource(table)


def read_table(
    source: Source, request: Request, workspace: Workspace, cluster: Cluster | None = None
) -> Contents:
    """Read bags and labels from a table in either layout."""
    layout = find_columns(source, request)
    kinds = {name: source.kind(name) for name in layout.features}
    single = [name for name, kind in kinds.items() if kind in ("number", "vector")]
    if len(single) == len(kinds):
        return _read_rows(source, request, layout, workspace, cluster)
    if single:
        several = next(name for name in kinds if name not in single)
        raise FileFormatError(
            f"the column {single[0]!r} has one value per row, while {several!r} is a list per row: "
            "in a table of lists a row is a bag, and every feature is a list. Select the feature "
            "columns with features=[...] or leave some out with exclude=[...]."
        )
    if not isinstance(source, TableSource):
        raise InputError(f"the column {layout.features[0]!r} holds lists, which cannot be read.")
    return read_lists(source, request, layout, workspace)


def _read_rows(
    source: Source,
    request: Request,
    layout: Layout,
    workspace: Workspace,
    cluster: Cluster | None,
) -> Contents:
    """Read a table with one row per instance, rows in any order."""
    bag = layout.roles["bag"]
    if bag is None:
        raise InputError(
            f"the bag column is unknown. Name it with bag=: the columns are {listed(source.names)}."
        )
    column = source.column(bag, "bag")
    if len(column) == 0:
        raise FileFormatError("the table has no rows: there is nothing to make bags of.")
    rows = group(column, bag)
    features = layout.features
    dtype = request.dtype or source.dtype(features)
    n_features = sum(map(source.width, features))
    names = _row_names(source, features)
    ids = None if source.notes.get("ids") is False else rows.ids
    in_order = bool(np.all(np.diff(rows.order) == 1))
    if (
        cluster is not None
        and isinstance(source, ParquetSource)
        and in_order
        and cluster.sees(source.path)
    ):
        dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
        load = partial(_read_some, source.path.resolve(), features, dtype, rows.offsets, names)
        from bagwise.engines.dask import load_on_workers

        bags: Bags = load_on_workers(*cluster, load, rows.offsets, (n_features, dtype), ids, names)
    else:
        instances = workspace.empty((len(column), n_features), dtype)
        check = ValueCheck(n_features)
        _scatter(source.blocks(features, dtype), instances, rows.positions, check)
        shown = names or [f"x{j}" for j in range(n_features)]
        check.report(shown, request.features or (), rows)
        bags = Bags(instances, rows.offsets, ids, feature_names=names)
    labels = None
    if (name := layout.roles["instance_label"]) is not None:
        labels = source.column(name, "instance_label")
        labels = Column(labels.codes[rows.order], labels.values)
    return label_bags(bags, source, request, layout, rows, labels)


def _scatter(
    blocks: Iterable[NDArray[Any]],
    instances: NDArray[Any],
    positions: NDArray[np.int64],
    check: ValueCheck | None = None,
) -> None:
    """Write the rows of blocks to their positions."""
    start = 0
    for block in blocks:
        if check is not None:
            check.add(block)
        instances[positions[start : start + len(block)]] = block
        start += len(block)
    if start != len(positions):
        raise FileFormatError(f"the columns have different lengths: {start} and {len(positions)}.")


def _read_some(
    path: Path,
    features: list[str],
    dtype: np.dtype[Any],
    offsets: NDArray[np.int64],
    names: list[str] | None,
    first: int,
    last: int,
    ids: NDArray[Any] | None,
) -> Bags:
    """Some bags of a Parquet file with rows grouped by bag, from their row groups."""
    with reading(path):
        source = ParquetSource(path, rows=(int(offsets[first]), int(offsets[last])))
        offsets = offsets[first : last + 1] - offsets[first]
        instances = np.empty((int(offsets[-1]), sum(map(source.width, features))), dtype)
        _scatter(source.blocks(features, dtype), instances, np.arange(len(instances)))
    return Bags(instances, offsets, ids, feature_names=names)


def _row_names(source: Source, features: list[str]) -> list[str] | None:
    if source.notes.get("feature_names", features) is None:
        return None
    return [
        name if source.kind(name) == "number" else f"{name}_{j}"
        for name in features
        for j in range(source.width(name))
    ]


def _is_nested(series: Any) -> bool:
    """Whether a column contains lists: by its type, or in pandas by its first value."""
    import narwhals.stable.v2 as nw

    if series.dtype != nw.Object:
        return bool(series.dtype.is_nested())
    known = series.drop_nulls()
    return len(known) > 0 and isinstance(known[0], list | tuple | np.ndarray)

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

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compute.mapped import release_pages
from bagwise.exceptions import FileFormatError, InputError
from bagwise.extras import import_extra
from bagwise.io._columns import (
    Request,
    bag_columns,
    column_values,
    find_columns,
    id_columns,
    label_bags,
    listed,
    read_clips,
    require_column,
)
from bagwise.io._contents import Contents
from bagwise.io._data_warnings import ValueCheck, find_suspects
from bagwise.io._files import format_errors, format_of
from bagwise.io._labels import Column, Grouping, group
from bagwise.io._memory import Workspace, assign
from bagwise.io._sources import CsvSource, FrameSource, ParquetSource, Source, TableSource


def open_table(path: Path, format: str, request: Request) -> Source:
    """Open a CSV or Parquet file as a source of columns."""
    if format == "parquet":
        return ParquetSource(path)
    # Columns that are not features are read as strings.
    texts = [*(name or role for role, name in request.roles.items()), *request.beside]
    return CsvSource(
        path,
        delimiter="\t" if format == "tsv" else ",",
        texts=[name for name in texts if name not in (request.features or ())],
        dtype=request.dtype,
        lists=request.features or (),
    )


def read_written(
    path: Path, names: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Read columns of a CSV or Parquet file as strings; some may be absent."""
    with format_errors(path):
        request = Request(extra_columns=[*names, *optional])
        source = open_table(path, format_of(path, None), request)
        for name in names:
            require_column(source, name, f" in {path.name}")
        found = [name for name in (*names, *optional) if name in source.names]
        return {name: column_values(source, name, "none") for name in found}


def open_frame(frame: Any) -> Source:
    """Wrap a data frame as a source of columns; pyarrow reads its own tables, and lists."""
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
    is_arrow = nw.get_native_namespace(table).__name__ == "pyarrow"
    if is_arrow or any(_is_nested(table.get_column(name)) for name in table.columns):
        pa = import_extra("pyarrow", extra="io")
        try:
            arrow = table.to_arrow()
        except pa.ArrowException as error:
            raise InputError(f"the lists in the data frame cannot be read: {error}") from error
        return TableSource(arrow.schema, "the data frame", arrow)
    return FrameSource(table)


def _is_nested(series: Any) -> bool:
    """Whether a column contains lists: by its type, or in pandas by its first value."""
    import narwhals.stable.v2 as nw

    if series.dtype != nw.Object:
        return bool(series.dtype.is_nested())
    known = series.drop_nulls()
    return len(known) > 0 and isinstance(known[0], list | tuple | np.ndarray)


def read_table(source: Source, request: Request, workspace: Workspace) -> Contents:
    """Read bags and labels from a table in either layout."""
    chosen = request.features or ()
    request = find_columns(source, request)
    features = list(request.features or ())
    left_out: list[str] = []
    single = [name for name in features if source.kind(name) in ("number", "vector")]
    if len(single) == len(features):
        bags, rows, instance_labels, left_out = _read_rows(source, request, workspace, chosen)
    elif single or isinstance(source, FrameSource):
        several = next(name for name in features if name not in single)
        raise FileFormatError(
            f"the column {several!r} is a list per row"
            + (f", while {single[0]!r} has one value per row" if single else "")
            + ": in a table of lists a row is a bag, and every feature is a list. Select the "
            "feature columns with features=[...] or leave some out with exclude=[...]."
        )
    else:
        bags, rows, instance_labels = _read_lists(source, request, workspace)
    contents = Contents(bags, classes=source.notes.get("classes"))
    label_bags(contents, bag_columns(source, request, rows), request, instance_labels)
    contents.clips = read_clips(source, request, rows)
    contents.left_out = [*(request.clips or ())[1:], *left_out]
    if not chosen:
        find_suspects(contents, source.names)
    n_times = 1 if single else bags.sizes  # in a table of lists a row is a bag
    for name in request.keep:
        values = column_values(source, name, "all", rows.order)
        contents.columns[name] = np.repeat(np.array([*values, None])[:-1], n_times).tolist()
    for name in request.extra_columns:
        contents.columns[name] = column_values(source, name, "none", rows.order)
    return contents


# One row per instance


def _read_rows(
    source: Source, request: Request, workspace: Workspace, chosen: Sequence[str]
) -> tuple[Bags, Grouping, Column | None, list[str]]:
    """Read bags from rows in any order; leave out columns of ids unless features were `chosen`."""
    if request.bag is None:
        raise InputError(
            f"the bag column is unknown. Name it with bag=: the columns are {listed(source.names)}."
        )
    column = source.column(request.bag, convert="integers")
    if len(column.codes) == 0:
        raise FileFormatError("the table has no rows, so there are no bags.")
    rows = group(column, request.bag)
    features, cluster = list(request.features or ()), request.cluster
    left_out = [] if chosen or source.notes else id_columns(source, features, rows)
    features = [name for name in features if name not in left_out] or features
    dtype = request.dtype or source.dtype(features)
    n_features = sum(map(source.width, features))
    names = _row_names(source, features)
    ids = None if source.notes.get("ids") is False else rows.ids
    in_file = isinstance(source, ParquetSource) and bool(np.all(np.diff(rows.order) == 1))
    if cluster is not None and in_file and cluster.sees(source.path):  # type: ignore[union-attr]
        from bagwise.compute.dask import load_on_workers

        dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
        path = source.path.resolve()  # type: ignore[union-attr]
        load = partial(_read_some, path, features, dtype, rows.offsets, names)
        bags: Bags = load_on_workers(*cluster, load, rows.offsets, (n_features, dtype), ids, names)
    else:
        instances = workspace.empty((len(rows.codes), n_features), dtype)
        check = ValueCheck(n_features)
        _scatter(source.blocks(features, dtype), instances, rows.positions, check)
        check.report(names or [f"x{j}" for j in range(n_features)], chosen, rows)
        bags = Bags(instances, rows.offsets, ids, feature_names=names)
    labels = None
    if request.instance_label is not None:
        labels = source.column(request.instance_label).take(rows.order)
    return bags, rows, labels, [name for name in left_out if name not in features]


def _scatter(
    blocks: Iterable[Array], instances: Array, positions: Ints, check: ValueCheck | None = None
) -> None:
    """Write the rows of blocks to their positions."""
    start = 0
    for block in blocks:
        if check is not None:
            check.add(block)
        instances[positions[start : start + len(block)]] = block
        release_pages(instances)
        start += len(block)
    if start != len(positions):
        raise FileFormatError(f"the columns have different lengths: {start} and {len(positions)}.")


def _read_some(
    path: Path,
    features: list[str],
    dtype: np.dtype[Any],
    offsets: Ints,
    names: list[str] | None,
    first: int,
    last: int,
    ids: Array | None,
) -> Bags:
    """Read some bags of a Parquet file whose rows are grouped by bag, on a Dask worker."""
    with format_errors(path):
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


# One row per bag


def _read_lists(
    source: TableSource, request: Request, workspace: Workspace
) -> tuple[Bags, Grouping, Column | None]:
    """Read bags from lists of numbers, one column per feature, or from one list of vectors."""
    features = list(request.features or ())
    vectors = source.kind(features[0]) == "vectors"
    if len(features) > 1 and any(source.kind(name) == "vectors" for name in features):
        raise FileFormatError(
            f"the columns {listed(features)} must be lists of numbers, one per feature, or one "
            "list of vectors: select them with features=[...]."
        )
    n_rows = source.rows_per_batch()
    sizes = np.zeros(0, np.int64)
    for batch in source.batches(features[:1], n_rows):
        sizes = np.append(sizes, _lengths(batch.column(0), features[0], len(sizes)))
    if not len(sizes):
        raise FileFormatError("the table has no rows, so there are no bags.")
    rows = _one_row_per_bag(source, request.bag, len(sizes))
    offsets = offsets_of(sizes)
    width = _vector_width(source, features[0]) if vectors else len(features)
    instances = workspace.empty((int(offsets[-1]), width), request.dtype or source.dtype(features))
    start = 0
    for batch in source.batches(features, n_rows):
        part = instances[offsets[start] : offsets[start + batch.num_rows]]
        for j, name in enumerate(features):
            lists = batch.column(name)
            _check_sizes(lists, sizes, rows, start, name)
            values = lists.flatten()
            if not vectors:
                assign(part[:, j], source.numbers(values))
                continue
            if np.any(_lengths(values, name) != width):
                raise InputError(
                    f"the vectors in the column {name!r} have different lengths: expected {width} "
                    "numbers for every instance."
                )
            assign(part, source.numbers(values.flatten()).reshape(part.shape))
        start += batch.num_rows
    ids = rows.ids if request.bag is not None and source.notes.get("ids", True) else None
    names: list[str] | None = features
    if vectors:
        columns = [f"{features[0]}_{j}" for j in range(width)]
        names = source.notes.get("feature_names", columns)
    bags = Bags(instances, offsets, ids, feature_names=names)
    return bags, rows, _instance_labels(source, request.instance_label, sizes, rows)


def _one_row_per_bag(source: TableSource, name: str | None, n_bags: int) -> Grouping:
    """One group per row, named by the bag column if there is one."""
    if name is None:
        rows = np.arange(n_bags)
        return Grouping(rows, rows, np.arange(n_bags + 1), rows)
    grouped = group(source.column(name, convert="integers"), name)
    for bag in np.flatnonzero(np.diff(grouped.offsets) > 1)[:1]:
        first, second = grouped.order[grouped.offsets[bag] :][:2]
        raise InputError(
            f"the bag {grouped.ids.tolist()[bag]!r} is in rows {first} and {second}: in a "
            "table of lists a row is a bag. If a row is an instance with a vector of features, "
            "make the column a list of fixed size."
        )
    return grouped


def _lengths(lists: Any, name: str, start: int = 0) -> Ints:
    if lists.null_count:
        row = start + int(np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"row {row} has nothing in the column {name!r}: expected a list, which may be empty."
        )
    compute = import_extra("pyarrow.compute", extra="io")
    lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, dtype=np.int64)


def _check_sizes(lists: Any, sizes: Ints, rows: Grouping, start: int, name: str) -> None:
    lengths = _lengths(lists, name, start)
    for i in np.flatnonzero(lengths != sizes[start : start + len(lengths)])[:1]:
        raise InputError(
            f"{rows.name_of(start + i)} has lists of different lengths: {lengths[i]} values in the "
            f"column {name!r}, but others have {sizes[start + i]}."
        )


def _vector_width(source: TableSource, name: str) -> int:
    inner = source.type_of(name).value_type
    if hasattr(inner, "list_size"):
        return int(inner.list_size)
    for batch in source.batches([name], 1):
        lengths = _lengths(batch.column(name).flatten(), name)
        if len(lengths):
            return int(lengths[0])
    raise FileFormatError(f"every list in the column {name!r} is empty: there are no instances.")


def _instance_labels(
    source: TableSource, name: str | None, sizes: Ints, rows: Grouping
) -> Column | None:
    if name is None:
        return None
    lists = source.read([name]).column(0).combine_chunks()
    if not hasattr(lists.type, "value_type") or not hasattr(lists, "flatten"):
        raise InputError(f"the column {name!r} must hold a list of instance labels for each bag.")
    _check_sizes(lists, sizes, rows, 0, name)
    return source.coded(lists.flatten())

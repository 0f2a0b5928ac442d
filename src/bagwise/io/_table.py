"""Tables of instances: data frames, CSV and Parquet files.

There are two layouts. In the first, a row is an instance, and a column has its bag id. In the
second (Parquet and nested frames), a row is a bag: each feature is a list of numbers, one per
instance, or one column has a list of vectors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
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
    find_columns,
    id_columns,
    label_bags,
    read_clips,
    read_column,
    require_column,
)
from bagwise.io._contents import Contents
from bagwise.io._data_warnings import find_suspects
from bagwise.io._files import format_errors, format_of, listed
from bagwise.io._labels import Column, Grouping, group
from bagwise.io._memory import Workspace
from bagwise.io._sources import CsvSource, FrameSource, ParquetSource, Source, TableSource


def open_table(path: Path, format: str, request: Request) -> Source:
    """Open a CSV or Parquet file as a source of columns."""
    if format == "parquet":
        return ParquetSource(path)
    # Columns that are not features are read as strings.
    lists = request.features or ()
    texts = [*(name or role for role, name in request.roles.items()), *request.beside]
    texts = [name for name in texts if name not in lists]
    delimiter = "\t" if format == "tsv" else ","
    return CsvSource(path, delimiter=delimiter, texts=texts, dtype=request.dtype, lists=lists)


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
        return {name: read_column(source, name, "none").tolist() for name in found}


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
    if not is_arrow and not any(map(_is_nested, table.iter_columns())):
        return FrameSource(table)
    pa = import_extra("pyarrow", extra="io")
    try:
        arrow = table.to_arrow()
    except pa.ArrowException as error:
        raise InputError(f"the lists in the data frame cannot be read: {error}") from error
    return TableSource(arrow.schema, "the data frame", arrow)


def _is_nested(series: Any) -> bool:
    """Whether a column contains lists: by its type, or in pandas by its first value."""
    import narwhals.stable.v2 as nw

    if series.dtype != nw.Object:
        return bool(series.dtype.is_nested())
    return isinstance(next(iter(series.drop_nulls()), None), list | tuple | np.ndarray)


def read_table(source: Source, request: Request, workspace: Workspace) -> Contents:
    """Read bags and labels from a table in either layout."""
    chosen = request.features or ()
    request = find_columns(source, request)
    features = list(request.features or ())
    sizes = _sizes_of_lists(source, features)
    rows = _rows_of_bags(source, request, sizes)
    left_out = [] if chosen or source.notes else id_columns(source, features, rows)
    features = [name for name in features if name not in left_out] or features
    bags = _read_bags(source, replace(request, features=features), workspace, rows, sizes)
    instance_labels = None
    if request.instance_label is not None:
        if sizes is None:
            instance_labels = source.column(request.instance_label).take(rows.order)
        else:
            instance_labels = source.inner_column(request.instance_label, sizes)
    contents = Contents(bags, classes=source.notes.get("classes"))
    label_bags(contents, bag_columns(source, request, rows), request, instance_labels)
    contents.clips = read_clips(source, request, rows)
    contents.left_out = [
        *(request.clips or ())[1:],
        *(name for name in left_out if name not in features),
    ]
    if not chosen:
        find_suspects(contents, source.names)
    for names, convert in ((request.keep, "all"), (request.extra_columns, "none")):
        for name in names:
            column = read_column(source, name, convert)
            which = rows.order if sizes is None else np.repeat(rows.order, sizes)
            contents.columns[name] = column.tolist(which)
    return contents


def _sizes_of_lists(source: Source, features: list[str]) -> Ints | None:
    """The size of each bag if a row is a bag; None if a row is an instance."""
    nested = [name for name in features if source.kind(name) in ("numbers", "vectors")]
    if not nested or isinstance(source, FrameSource):
        return None
    has_vectors = any(source.kind(name) == "vectors" for name in nested)
    if len(nested) < len(features) or (has_vectors and len(nested) > 1):
        raise FileFormatError(
            f"the column {nested[0]!r} is a list per row: in a table of lists a row is a bag, and "
            "the features are lists of numbers, or one list of vectors. Select them with "
            "features=[...] or leave columns out with exclude=[...]."
        )
    return source.sizes(nested[0])


def _rows_of_bags(source: Source, request: Request, sizes: Ints | None) -> Grouping:
    """The rows of each bag; one row per bag if there are lists of known sizes."""
    if request.bag is None and sizes is None:
        raise InputError(
            f"the bag column is unknown. Name it with bag=: the columns are {listed(source.names)}."
        )
    if request.bag is None and sizes is not None:
        names = Column(np.arange(len(sizes)), list(range(len(sizes))))
    else:
        names = source.column(str(request.bag), convert="integers")
    if not len(names.codes):
        raise FileFormatError("the table has no rows, so there are no bags.")
    rows = group(names, str(request.bag))
    if sizes is not None and len(rows.ids) < len(sizes):
        twice = rows.ids.tolist()[int(np.argmax(np.diff(rows.offsets) > 1))]
        raise InputError(
            f"the bag {twice!r} has several rows: in a table of lists a row is a bag. If a row is "
            "an instance with a vector of features, make the column a list of fixed size."
        )
    return rows


def _read_bags(
    source: Source, request: Request, workspace: Workspace, rows: Grouping, sizes: Ints | None
) -> Bags:
    """Read the features in this process, or on the workers of a cluster."""
    features, cluster = list(request.features or ()), request.cluster
    dtype = request.dtype or source.dtype(features)
    width = sum(map(source.width, features))
    names = source.notes.get("feature_names", _feature_names(source, features))
    has_ids = request.bag is not None and source.notes.get("ids", True)
    ids = rows.ids if has_ids else None
    positions, offsets = rows.positions, rows.offsets
    blocks: Any = source.blocks
    if sizes is not None:
        offsets = offsets_of(sizes)
        positions, blocks = np.arange(offsets[-1]), partial(source.blocks, sizes=sizes)
    elif (
        cluster is not None
        and isinstance(source, ParquetSource)
        and (np.diff(rows.order) == 1).all()
        and cluster.sees(source.path)
    ):
        from bagwise.compute.dask import load_on_workers

        dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
        load = partial(_read_some, source.path.resolve(), features, dtype, offsets, names)
        return load_on_workers(*cluster, load, offsets, (width, dtype), ids, names)
    instances = workspace.empty((int(offsets[-1]), width), dtype)
    _scatter(blocks(features, dtype), instances, positions)
    return Bags(instances, offsets, ids, feature_names=names)


def _feature_names(source: Source, features: list[str]) -> list[str]:
    names: list[str] = []
    for name in features:
        is_vector = source.kind(name) in ("vector", "vectors")
        names += [f"{name}_{j}" for j in range(source.width(name))] if is_vector else [name]
    return names


def _scatter(blocks: Iterable[Array], instances: Array, positions: Ints) -> None:
    """Write the rows of blocks to their positions."""
    start = 0
    for block in blocks:
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

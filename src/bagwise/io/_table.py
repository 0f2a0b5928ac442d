"""Tables of instances: data frames, CSV and Parquet files.

There are two layouts. In the first, a row is an instance, and a column has its bag id. In the
second (Parquet and nested frames), a row is a bag: each feature is a list of numbers, one per
instance, or one column has a list of vectors.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.tables import StreamedTable, float_type
from bagwise._common.types import Array, Floats, Ints
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags, offsets_of
from bagwise.compute.mapped import release_pages
from bagwise.exceptions import DataWarning, FileFormatError, InputError
from bagwise.extras import import_extra
from bagwise.io._clips import ClipColumns, Clips, clip_columns
from bagwise.io._contents import ROLES, Contents, Request
from bagwise.io._data_warnings import are_ids, find_suspects, is_id_name
from bagwise.io._files import format_errors, format_of, listed
from bagwise.io._labels import (
    Column,
    Grouping,
    bag_labels,
    constant_in_bags,
    encode_columns,
    group,
)
from bagwise.io._memory import Workspace
from bagwise.io._sources import (
    Conversion,
    CsvSource,
    FrameSource,
    ParquetSource,
    Source,
    TableSource,
)
from bagwise.labels import plain_array

_NUMERIC = ("number", "vector", "numbers", "vectors")
_CONVERSIONS: dict[str, Conversion]
_CONVERSIONS = {"label": "all", "label_set": "none", "group": "all", "merge": "integers"}


def open_table(path: Path, format: str, request: Request) -> Source:
    """Open a CSV or Parquet file as a source of columns."""
    if format == "parquet":
        return ParquetSource(path)
    return CsvSource(path, "\t" if format == "tsv" else ",", request)


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
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        raise InputError(
            f"cannot read bags from {type(frame).__name__}: expected a path, or a data frame of "
            f"pandas, polars or pyarrow with distinct column names (collect a lazy one): {error}"
        ) from error
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
        if sizes is None or isinstance(source, FrameSource):
            instance_labels = source.column(request.instance_label).take(rows.order)
        else:
            instance_labels = source.inner_column(request.instance_label, sizes)
    contents = Contents(bags, classes=source.notes.get("classes"))
    label_bags(contents, bag_columns(source, request, rows), request, instance_labels)
    contents.clips = read_clips(source, request, rows)
    times = (request.clips or ())[1:]
    contents.left_out = [*times, *(name for name in left_out if name not in features)]
    if not chosen:
        find_suspects(contents, source.names)
    which = rows.order if sizes is None else np.repeat(rows.order, sizes)
    for name in request.keep:
        contents.columns[name] = read_column(source, name, "all").tolist(which)
    for name in request.extra_columns:
        contents.columns[name] = read_column(source, name, "none").tolist(which)
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
    offsets = rows.offsets if sizes is None else offsets_of(sizes)
    blocks: Any = source.blocks
    blocks = blocks if sizes is None else partial(blocks, sizes=sizes)
    if sizes is None and cluster is not None and isinstance(source, ParquetSource):
        in_order = bool((np.diff(rows.order) == 1).all())
        if in_order and cluster.sees(source.path):
            table = ParquetTable(source.path.resolve(), features, (len(rows.order), width), dtype)
            return cluster.load(table, offsets, ids, names)
    instances = workspace.empty((int(offsets[-1]), width), dtype)
    _scatter(blocks(features, dtype), instances, rows.positions if sizes is None else None)
    return Bags(instances, offsets, ids, feature_names=names)


def _feature_names(source: Source, features: list[str]) -> list[str]:
    names: list[str] = []
    for name in features:
        is_vector = source.kind(name) in ("vector", "vectors")
        names += [f"{name}_{j}" for j in range(source.width(name))] if is_vector else [name]
    return names


def _scatter(blocks: Iterable[Array], instances: Array, positions: Ints | None = None) -> None:
    """Write the rows of blocks to their positions, by default one after the other."""
    start = 0
    for block in blocks:
        rows: Any = slice(start, start + len(block))
        instances[rows if positions is None else positions[rows]] = block
        release_pages(instances)
        start += len(block)
    if start != len(instances):
        raise FileFormatError(f"the columns have different lengths: {start} and {len(instances)}.")


class ParquetTable(StreamedTable):
    """Columns of a Parquet file, whose rows are read when they are used.

    Parameters
    ----------
    path : Path
        The file.
    features : list of str
        The columns.
    shape : tuple (n_rows, n_columns)
        The shape of the table.
    dtype : dtype
        The type of the values that are returned; whole numbers become floats.
    """

    def __init__(self, path: Path, features: list[str], shape: tuple[int, int], dtype: Any) -> None:
        super().__init__(shape, dtype if dtype.kind == "f" else float_type(dtype))
        self._path, self._features = path, features

    def read(self, start: int, stop: int) -> Array:
        """Read the rows start:stop."""
        out = np.empty((stop - start, self.shape[1]), self.dtype)
        with format_errors(self._path):
            blocks = ParquetSource(self._path, (start, stop)).blocks(self._features, self.dtype)
            _scatter(blocks, out)
        return out


# Columns


def find_columns(source: Source, request: Request) -> Request:
    """Complete a request: find the column of each role, the clips and the features."""
    if request.labels is not None:  # that table may have the other columns
        request = replace(request, keep=[name for name in request.keep if name in source.names])
    for name in [*request.exclude, *(request.features or ()), *request.beside]:
        require_column(source, name)
    found = find_roles(source, request)
    found = replace(found, clips=_clips(source, found))
    return replace(found, features=_features(source, found))


def id_columns(source: Source, names: Iterable[str], rows: Grouping) -> list[str]:
    """The columns that hold ids, by their names and values."""
    candidates = [name for name in names if is_id_name(name) and source.kind(name) == "number"]
    bags = rows.codes[rows.order]
    return [name for name in candidates if are_ids(_numbers(source, [name])[rows.order, 0], bags)]


def _numbers(source: Source, names: Sequence[str]) -> Floats:
    return np.concatenate([np.empty((0, len(names))), *source.blocks(names, np.dtype(np.float64))])


def _clips(source: Source, request: Request) -> ClipColumns | None:
    """The columns of the times of clips, unless they are requested as something else."""
    taken = {*request.roles.values(), *request.exclude, *(request.features or ())}
    clips = clip_columns(name for name in source.names if name not in taken - {request.bag})
    if clips is None or any(source.kind(name) != "number" for name in clips[1:]):
        return None
    return clips._replace(file=None) if clips.file == request.bag else clips


def find_roles(source: Source, request: Request, among: Sequence[str] = ROLES) -> Request:
    """Find the bag and label columns: as requested, as noted in the file, or by usual names."""
    taken = {*request.exclude, *request.beside, *(request.features or ()), *request.roles.values()}
    roles: dict[str, Any] = {}
    for role in among:
        name = getattr(request, role)
        if name is not None:
            require_column(source, name, f" for {role}=")
        else:
            usual = source.notes.get(role, role)
            name = usual if usual in source.names and usual not in taken else None
            if role == "bag" and name is None:
                clips = clip_columns(name for name in source.names if name not in taken)
                name = None if clips is None else clips.file
        roles[role] = name
    given = [name for name in roles.values() if name is not None]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"the column {twice!r} cannot be two of {', '.join(roles)} at once.")
    return replace(request, separator=source.notes.get("separator", request.separator), **roles)


def bag_columns(source: Source, request: Request, rows: Grouping) -> dict[str, Column]:
    """Read the label, label set and group of each bag, and the merged bag it becomes part of."""
    return {
        role: constant_in_bags(source.column(name, convert=convert), rows, name)
        for role, convert in _CONVERSIONS.items()
        if (name := getattr(request, role)) is not None
    }


def label_bags(
    contents: Contents, columns: dict[str, Column], request: Request, instances: Column | None
) -> None:
    """Add labels, label sets, instance labels, groups and merged bags to the contents."""
    label = columns.get("label")
    found: dict[str, Any]
    sets, instance_labels, classes = encode_columns(
        columns.get("label_set"),
        instances,
        bag_values=[] if label is None else label.values,
        classes=contents.classes if request.classes is None else request.classes,
        separator=request.separator,
    )
    found = {"label_sets": sets, "instance_labels": instance_labels, "classes": classes}
    if label is not None:
        found["labels"] = bag_labels(label, request.label or "labels")
    for role, name in (("group", "groups"), ("merge", "wholes")):
        if role in columns:
            found[name] = _complete(columns[role], contents.bags, getattr(request, role))
    for name, value in found.items():
        if value is not None:
            setattr(contents, name, value)


def _complete(column: Column, bags: Bags, name: str | None) -> Array:
    """The values of a column; an error if a bag has none."""
    for i in np.flatnonzero(column.codes < 0)[:1]:
        raise InputError(f"{bags.name_of(int(i))} has no value in the column {name!r}.")
    return plain_array(column.values)[column.codes]


def read_clips(source: Source, request: Request, rows: Grouping) -> Clips | None:
    """Read the file, start and end of each instance, if the table has them."""
    if request.clips is None:
        return None
    file, *times = request.clips
    start, end = _numbers(source, times)[rows.order].T
    files = None if file is None else read_column(source, file, "none").tolist(rows.order)
    return Clips(start, end, files)


def read_column(source: Source, name: str, convert: Conversion) -> Column:
    """A column of single values."""
    if source.kind(name) in _NUMERIC[1:] or "list" in source.kind(name):
        raise InputError(f"the column {name!r} has lists: only columns of single values are kept.")
    return source.column(name, convert=convert)


def require_column(source: Source, name: str, detail: str = "") -> None:
    """Raise an error if a table has no column of this name."""
    if name not in source.names:
        raise InputError(
            f"there is no column {name!r}{detail}: the columns are {listed(source.names)}."
        )


def _features(source: Source, request: Request) -> list[str]:
    taken = {name for name in request.roles.values() if name is not None}
    left = list(request.features or ())
    if request.features is None:
        out = {*taken, *request.exclude, *request.beside, *source.not_features}
        left = [name for name in source.names if name not in out | {*(request.clips or ())}]
        if "" in left:  # the index of pandas, or the end of rows that end with a separator
            left.remove("")
            warn_user("a column without a name is left out: name it to use it.", DataWarning)
    for name, count in Counter(left).items():
        if count > 1 or name in taken:
            raise InputError(f"the column {name!r} cannot be a feature twice, or also a label.")
    odd = [f"{name!r} ({source.kind(name)})" for name in left if source.kind(name) not in _NUMERIC]
    if odd:
        raise InputError(
            f"these columns are not numbers: {', '.join(odd[:10])}. Name the feature columns with "
            "features=[...], leave these out with exclude=[...], keep them beside the results with "
            "meta=[...], or declare them with bag=, label= or label_set=."
        )
    if not left:
        raise InputError(f"no feature column is left of {listed(source.names)}.")
    return left

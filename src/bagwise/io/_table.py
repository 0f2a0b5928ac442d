"""Tables of instances: data frames, CSV and Parquet files.

There are two layouts. In the first, a row is an instance, and a column has its bag id. In the
second (Parquet and nested frames), a row is a bag: each feature is a list of numbers, one per
instance, or one column has a list of vectors.

A source lists its columns and their kinds, returns a column as codes into its distinct values, and
yields the features block by block, so that a table need not fit into memory. pyarrow reads the
files; narwhals wraps the frames.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from bagwise._common.extras import import_extra
from bagwise._common.tables import StreamedTable, float_type, is_range
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compute.mapped import release_pages
from bagwise.exceptions import DataWarning, FileFormatError, InputError, warn_user
from bagwise.io._contents import (
    Clips,
    Column,
    Contents,
    Grouping,
    are_ids,
    bag_labels,
    clip_columns,
    constant_in_bags,
    encode_columns,
    find_suspects,
    group,
    is_id_name,
    only_looked_for,
    read_counts,
    typed_texts,
)
from bagwise.io._files import (
    ROLES,
    TABLES,
    Request,
    Workspace,
    assign,
    format_errors,
    format_of,
    listed,
    unescaped,
)
from bagwise.labels import plain_array

METADATA = b"bagwise"  # key of bagwise's metadata in the schema of a Parquet file
BLOCK_VALUES = 2**22  # values in one block of features
_GROUP = "group"  # the column with the group of the bag, by default
_LISTS = ("embedding", "embeddings", "features", "vector")  # CSV columns with lists as strings
_BETWEEN_NUMBERS = str.maketrans(dict.fromkeys("[](){},;", " "))
_BLOCK_BYTES = 2**25
_HEAD_BYTES = 2**18
_CSV_BLOCK, _CSV_LARGE = 2**22, 2**27  # bytes; the second if the header is longer than the head

Conversion = Literal["all", "integers", "none"]  # which strings of a CSV file become numbers
_NUMERIC = ("number", "vector", "numbers", "vectors")
_CONVERSIONS: dict[str, Conversion]
_CONVERSIONS = {"label": "all", "label_set": "none", "group": "all", "merge": "integers"}
_CONVERSIONS["looked_for"] = "none"


class FrameSource:
    """A data frame in memory (pandas, polars), through narwhals."""

    not_features: tuple[str, ...] = ()

    def __init__(self, table: Any) -> None:
        self.names = [str(name) for name in table.columns]
        self.notes: dict[str, Any] = {}
        _refuse_duplicates(self.names, "the data frame")
        self._series = dict(zip(self.names, table.iter_columns(), strict=True))

    def kind(self, name: str) -> str:
        """The kind of a column: 'number', or the name of another type."""
        dtype = self._series[name].dtype
        return "number" if dtype.is_numeric() or str(dtype) == "Boolean" else str(dtype)

    def width(self, name: str) -> int:
        """Always 1: a column is a feature."""
        return 1

    def column(self, name: str, *, convert: Conversion = "all") -> Column:
        """A whole column as codes into its distinct values."""
        return Column.of(self._series[name].to_list())

    def dtype(self, names: Sequence[str]) -> np.dtype[Any]:
        """The common type of the columns; float if integers have missing values."""
        return np.result_type(*(self._numbers(name) for name in names))

    def blocks(self, names: Sequence[str], dtype: np.dtype[Any]) -> Iterator[Array]:
        """The columns side by side, some rows at a time."""
        columns = [self._numbers(name) for name in names]
        step = max(1, BLOCK_VALUES // len(names))
        for start in range(0, len(columns[0]), step):
            block = np.empty((min(step, len(columns[0]) - start), len(names)), dtype)
            for j, column in enumerate(columns):
                assign(block[:, j], column[start : start + step])
            yield block

    def _numbers(self, name: str) -> Array:
        """A column as an array, with NaN for missing values."""
        import narwhals.stable.v2 as nw

        series = self._series[name]
        gaps = not series.dtype.is_float() and series.null_count() > 0
        if gaps or series.dtype.is_decimal():
            series = series.cast(nw.Float64)
        return np.asarray(series.to_numpy())


class TableSource:
    """A pyarrow table in memory; base class of the sources that make record batches.

    A row is an instance with numbers or vectors of fixed size, or a bag with lists of them.
    """

    def __init__(
        self, schema: Any, where: str, *, n_rows: int = 0, n_bytes: int = 0, table: Any = None
    ) -> None:
        self._pa = import_extra("pyarrow", extra="io")
        self._schema, self._table = schema, table
        self._n_lists = max(1, _BLOCK_BYTES * n_rows // max(n_bytes, 1))  # rows in a block of lists
        self.names = list(schema.names)
        _refuse_duplicates(self.names, where)
        self.notes = json.loads((schema.metadata or {}).get(METADATA, "{}"))
        self.not_features = tuple(self.notes.get("not_features", ()))  # unless requested

    def kind(self, name: str) -> str:
        """'number', 'vector' (per row), 'numbers' or 'vectors' (per bag), or another type name."""
        kind = self.type_of(name)
        item, depth = _item_type(kind)
        if depth > 2 or not _is_number(self._pa.types, item):
            return str(kind)
        if depth == 1 and self._pa.types.is_fixed_size_list(kind):
            return "vector"
        return ("number", "numbers", "vectors")[depth]

    def width(self, name: str) -> int:
        """The length of vectors, else one."""
        kind = self.kind(name)
        if kind not in ("vector", "vectors"):
            return 1
        inner = self.type_of(name) if kind == "vector" else self.type_of(name).value_type
        if hasattr(inner, "list_size"):
            return int(inner.list_size)
        for batch in self.batches([name], 1):
            for length in self._lengths(batch.column(0).flatten(), name)[:1].tolist():
                return int(length)
        raise FileFormatError(f"every list in the column {name!r} is empty: no instances.")

    def column(self, name: str, *, convert: Conversion = "all") -> Column:
        """A whole column as codes into its distinct values; NaN is missing, as in a data frame."""
        return self._coded(self._read(name))

    def inner_column(self, name: str, sizes: Ints) -> Column:
        """The values in a column of lists, one list per bag, whose sizes are known."""
        lists = self._read(name)
        if not self._pa.types.is_nested(lists.type):
            raise InputError(f"the column {name!r} must have a list of values for each bag.")
        self._check_sizes(lists, name, sizes, 0)
        return self._coded(lists.flatten())

    def sizes(self, name: str) -> Ints:
        """The lengths of the lists in a column."""
        parts, start = [np.zeros(0, np.int64)], 0
        for batch in self.batches([name], self._n_lists):
            parts.append(self._lengths(batch.column(0), name, start))
            start += batch.num_rows
        return np.concatenate(parts)

    def dtype(self, names: Sequence[str]) -> np.dtype[Any]:
        """The common type of the columns; float if integers have missing values."""
        kinds = {self.type_of(name) for name in names}  # few distinct types, even for many columns
        plain = np.result_type(*map(self._plain_type, kinds))
        if plain.kind == "f" or any(self.kind(name) != "number" for name in names):
            return plain
        batches = self.batches(names, max(1, BLOCK_VALUES // len(names)))
        gaps = any(column.null_count for batch in batches for column in batch.columns)
        return np.dtype(np.float64) if gaps else plain

    def blocks(
        self, names: Sequence[str], dtype: np.dtype[Any], sizes: Ints | None = None
    ) -> Iterator[Array]:
        """The columns side by side, some rows at a time; with `sizes`, the items of their lists."""
        ends = np.cumsum([0, *map(self.width, names)]).tolist()
        n_rows = max(1, BLOCK_VALUES // ends[-1]) if sizes is None else self._n_lists
        start = 0
        for batch in self.batches(names, n_rows):
            n = batch.num_rows if sizes is None else int(sizes[start:][: batch.num_rows].sum())
            block = np.empty((n, ends[-1]), dtype)
            for i, name in enumerate(names):
                values = batch.column(name)
                if sizes is not None:
                    self._check_sizes(values, name, sizes, start)
                    values = values.flatten()
                part = block[:, ends[i] : ends[i + 1]]
                assign(part, self._numbers(values, name, part.shape[1]).reshape(part.shape))
            start += batch.num_rows
            yield block

    def type_of(self, name: str) -> Any:
        """The Arrow type of a column."""
        return self._schema.field(name).type

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches of at most `n_rows` rows."""
        return self._table.select(list(names)).to_batches(max_chunksize=n_rows)

    def _read(self, name: str) -> Any:
        """A column as one Arrow array."""
        schema = self._pa.schema([self._schema.field(name)])
        batches = [batch.select([name]) for batch in self.batches([name], BLOCK_VALUES)]
        return self._pa.Table.from_batches(batches, schema).column(0).combine_chunks()

    def _coded(self, values: Any) -> Column:
        types = self._pa.types
        if types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if types.is_null(values.type) or types.is_nested(values.type):
            return Column.of(values.to_pylist())
        coded = values.dictionary_encode(null_encoding="encode")
        codes = np.from_dlpack(coded.indices).astype(np.int64)
        return Column.of(coded.dictionary.to_pylist()).take(codes)

    def _numbers(self, values: Any, name: str, width: int) -> Array:
        """An Arrow array of numbers or vectors as a flat array, with NaN for missing values."""
        if self._pa.types.is_nested(values.type):
            self._check_sizes(values, name, np.full(len(values), width), 0)
            values = values.flatten()
        whole = not self._pa.types.is_floating(values.type)
        if whole and (values.null_count or self._pa.types.is_decimal(values.type)):
            values = values.cast(self._pa.float64())
        if values.null_count or self._pa.types.is_boolean(values.type):
            return np.asarray(values.to_numpy(zero_copy_only=False))
        return np.from_dlpack(values)  # to_numpy imports pandas

    def _lengths(self, lists: Any, name: str, start: int = 0) -> Ints:
        if lists.null_count:
            row = start + int(np.argmax(lists.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(f"row {row} has nothing in the column {name!r}: expected a list.")
        compute = import_extra("pyarrow.compute", extra="io")
        lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
        return np.asarray(lengths, dtype=np.int64)

    def _check_sizes(self, lists: Any, name: str, sizes: Ints, start: int) -> None:
        lengths = self._lengths(lists, name, start)
        for i in np.flatnonzero(lengths != sizes[start:][: len(lengths)])[:1]:
            raise InputError(
                f"row {start + i} has lists of different lengths: {lengths[i]} values in the "
                f"column {name!r}, but others have {sizes[start + i]}."
            )

    def _plain_type(self, kind: Any) -> Any:
        kind, _ = _item_type(kind)
        if self._pa.types.is_decimal(kind) or self._pa.types.is_null(kind):
            return np.float64
        return np.dtype({"float": "f4", "halffloat": "f2"}.get(str(kind), str(kind)))


class ParquetSource(TableSource):
    """A Parquet file, or some rows of one, read column by column and some rows at a time."""

    def __init__(self, path: Path, rows: tuple[int, int] | None = None) -> None:
        self.path, self._rows = path, rows
        parquet = import_extra("pyarrow.parquet", extra="io")
        self._file = parquet.ParquetFile(path, pre_buffer=False)  # True would read the whole file
        metadata = self._file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        n_bytes = sum(group.total_byte_size for group in groups)
        self._sizes = np.array([group.num_rows for group in groups], dtype=np.int64)
        n_rows = metadata.num_rows
        super().__init__(self._file.schema_arrow, str(path), n_rows=n_rows, n_bytes=n_bytes)

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches, read when needed."""
        counts, ends = self._sizes, np.cumsum(self._sizes)
        first, last = self._rows or (0, self._file.metadata.num_rows)
        groups = np.flatnonzero((ends > first) & (ends - counts < last))
        at = int((ends - counts)[groups[0]]) if len(groups) else 0
        for batch in self._file.iter_batches(n_rows, groups.tolist(), list(names)):
            skipped = max(first - at, 0)
            wanted = min(last - at, batch.num_rows) - skipped
            if wanted > 0:
                yield batch.slice(skipped, wanted)
            at += batch.num_rows


class CsvSource(TableSource):
    """A CSV file: bags and labels are read first, as strings, and the features when needed.

    An unquoted empty field (or NA, null, ...) is missing, while ``""`` is an empty string. Features
    are 64-bit floats unless another type is requested. A column named ``embedding`` or the like,
    and those requested as features, may have lists of numbers as strings: ``"0.1,0.2"`` or
    ``"[0.1, 0.2]"``. Spaces around column names are removed.
    """

    def __init__(self, path: Path, delimiter: str, request: Request) -> None:
        self._pa = pa = import_extra("pyarrow", extra="io")
        self._csv = import_extra("pyarrow.csv", extra="io")
        self._path, self._types, self._vectors = path, {}, {}
        self._parse = self._csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        with pa.input_stream(str(path)) as stream:
            head = stream.read(_HEAD_BYTES)
        header, end, _ = head.partition(b"\n")
        if delimiter.encode() not in header and (b";" in header or b"\t" in header):
            raise FileFormatError(
                f"{path}: the columns are not separated by {delimiter!r}. Read it with pandas: "
                "read_bags(pandas.read_csv(path, sep=..., decimal=...))."
            )
        self._options = self._csv.ReadOptions(block_size=_CSV_BLOCK if end else _CSV_LARGE)
        found = self._open([]).schema  # inferred from the first block
        names = [unescaped(name.strip()) for name in found.names]
        _refuse_duplicates(names, str(path))
        self._options.column_names, self._options.skip_rows_after_names = names, 1
        types = [_csv_type(pa, kind, request.dtype) for kind in found.types]
        self._types = dict(zip(names, types, strict=True))
        # Columns that are not features are read as strings.
        lists, clips = request.features or (), clip_columns(names)
        texts = [*(name or role for role, name in request.roles.items()), *request.beside]
        if clips and clips[0]:
            texts.append(clips[0])
        self._texts = [n for n in dict.fromkeys(texts) if n in names and n not in lists]
        self._types |= dict.fromkeys(self._texts, pa.string())
        number = pa.float32() if request.dtype == np.float32 else pa.float64()
        for name in names:
            is_text = pa.types.is_string(self._types[name]) and name not in self._texts
            if is_text and (name in lists or name.lower() in _LISTS):
                first = next((batch.column(0)[0].as_py() for batch in self._open([name])), None)
                n_numbers = len(_numbers_of(first) or ())
                if n_numbers > 1:
                    self._vectors[name] = pa.list_(number, n_numbers)
        super().__init__(pa.schema(list((self._types | self._vectors).items())), str(path))

    def column(self, name: str, *, convert: Conversion = "all") -> Column:
        """A whole column; if all its strings are numbers, it becomes a column of numbers."""
        coded = super().column(name)
        column = Column.of(map(unescaped, coded.values)).take(coded.codes)
        if convert == "none":
            return column
        return Column(column.codes, typed_texts(column.values, integers_only=convert == "integers"))

    def _read(self, name: str) -> Any:
        """A column of strings; all of them are parsed at once."""
        if self._table is None:
            self._table = self._open(self._texts).read_all()
        return self._table.column(name).combine_chunks()

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches, parsed when needed."""
        n_done = 0
        for batch in self._open(names):
            for name in self._vectors.keys() & set(names):
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, name, self._parsed(batch, name, n_done))
            yield from (batch.slice(at, n_rows) for at in range(0, batch.num_rows, n_rows))
            n_done += batch.num_rows

    def _parsed(self, batch: Any, name: str, first: int) -> Any:
        """Parse strings such as ``"0.1,0.2"`` as lists of numbers of equal length."""
        kind = self._vectors[name]
        values = np.empty((batch.num_rows, kind.list_size), kind.value_type.to_pandas_dtype())
        for i, text in enumerate(batch.column(name).to_pylist()):
            numbers = _numbers_of(text)
            if numbers is None or len(numbers) != kind.list_size:
                raise InputError(
                    f"row {first + i} has {text!r:.80} in the column {name!r}: expected a list of "
                    f"{kind.list_size} numbers, as in the first row."
                )
            values[i] = numbers
        flat = self._pa.array(values.reshape(-1))
        return self._pa.FixedSizeListArray.from_arrays(flat, kind.list_size)

    def _open(self, names: Sequence[str]) -> Any:
        """A stream of blocks of the given columns."""
        convert = self._csv.ConvertOptions(
            column_types={name: self._types[name] for name in names},
            include_columns=list(names),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return self._csv.open_csv(self._path, self._options, self._parse, convert)


Source: TypeAlias = FrameSource | TableSource


def _numbers_of(text: str | None) -> list[float] | None:
    """The numbers in a string with a list of them; None if it has anything else."""
    try:
        return [float(number) for number in (text or "").translate(_BETWEEN_NUMBERS).split()]
    except ValueError:
        return None


def _csv_type(pa: Any, inferred: Any, dtype: np.dtype[Any] | None) -> Any:
    """The type for reading a column whose type in the first block is `inferred`."""
    if not _is_number(pa.types, inferred) or pa.types.is_boolean(inferred):
        return inferred
    if dtype is not None and dtype.kind in "iu" and pa.types.is_integer(inferred):
        return pa.uint64() if dtype.kind == "u" else pa.int64()
    # A float32 in its shortest form is exact only if it is read as float32, and a column of
    # integers may contain 0.5 after the first block.
    return pa.float32() if dtype == np.float32 else pa.float64()


def _item_type(kind: Any) -> tuple[Any, int]:
    """The type of the items of nested lists, and how deep they are nested."""
    depth = 0
    while hasattr(kind, "value_type"):
        kind, depth = kind.value_type, depth + 1
    return kind, depth


def _is_number(types: Any, kind: Any) -> bool:
    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
    return any(test(kind) for test in tests)  # null: a column without values


def _refuse_duplicates(names: Sequence[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FileFormatError(f"{where} has several columns named {twice[0]!r}: rename them.")


# From a source to bags


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
            require_column(source, name, f" in {path.name}, which needs {', '.join(names)}")
        found = [name for name in (*names, *optional) if name in source.names]
        return {name: read_column(source, name, "none").tolist() for name in found}


def read_all(path: Path) -> dict[str, list[Any]]:
    """Read all columns of a CSV or Parquet file; strings that are all numbers become numbers."""
    with format_errors(path):
        format = format_of(path, None)
        if format not in TABLES:
            raise InputError(f"{path} is not a CSV or Parquet table.")
        names = open_table(path, format, Request()).names
        source = open_table(path, format, Request(extra_columns=names))
        return {name: read_column(source, name, "all").tolist() for name in names}


def open_frame(frame: Any) -> Source:
    """Wrap a data frame as a source of columns; pyarrow reads its own tables, and lists."""
    import narwhals.stable.v2 as nw

    try:
        table: Any = nw.from_native(frame, eager_only=True)
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        raise InputError(
            f"cannot read bags from {type(frame).__name__}: expected a path, or a data frame of "
            "pandas, polars or pyarrow with distinct column names (collect a lazy one; give Bags "
            f"to an estimator): {error}"
        ) from error
    is_arrow = nw.get_native_namespace(table).__name__ == "pyarrow"
    if not is_arrow and not any(map(_is_nested, table.iter_columns())):
        return FrameSource(table)
    pa = import_extra("pyarrow", extra="io")
    try:
        arrow = table.to_arrow()
    except pa.ArrowException as error:
        raise InputError(f"the lists in the data frame cannot be read: {error}") from error
    size = {"n_rows": arrow.num_rows, "n_bytes": arrow.nbytes}
    return TableSource(arrow.schema, "the data frame", **size, table=arrow)


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
        if isinstance(source, TableSource) and sizes is not None:
            instance_labels = source.inner_column(request.instance_label, sizes)
        else:
            instance_labels = source.column(request.instance_label).take(rows.order)
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
        raise InputError(f"name the bag column with bag=, one of {listed(source.names)}.")
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
    scatter(blocks(features, dtype), instances, rows.positions if sizes is None else None)
    bags = Bags(instances, offsets, ids, feature_names=names)
    return bags if sizes is not None or is_range(rows.order) else bags.ordered_by(rows.order)


def _feature_names(source: Source, features: list[str]) -> list[str]:
    names: list[str] = []
    for name in features:
        is_vector = source.kind(name) in ("vector", "vectors")
        names += [f"{name}_{j}" for j in range(source.width(name))] if is_vector else [name]
    return names


def scatter(blocks: Iterable[Array], instances: Array, positions: Ints | None = None) -> None:
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
            scatter(blocks, out)
        return out


# Columns


def find_columns(source: Source, request: Request) -> Request:
    """Complete a request: find the column of each role, the clips and the features."""
    if request.labels is not None:  # that table may have the other columns
        request = replace(request, keep=[name for name in request.keep if name in source.names])
    if not request.bag_columns:
        request = replace(request, bag_columns=source.notes.get("bag_columns", ()))
    if request.group is None:
        request = replace(request, group=source.notes.get("group"))
    for name in [*request.exclude, *(request.features or ()), *request.beside]:
        require_column(source, name)
    if request.group is None and _GROUP in source.names:
        taken = {*request.exclude, *(request.features or ()), *request.beside}
        if _GROUP not in taken | {*request.roles.values()}:
            request = replace(request, group=_GROUP)
    found = find_roles(source, request)
    found = replace(found, clips=_clips(source, found))
    return replace(found, features=_features(source, found))


def id_columns(source: Source, names: Iterable[str], rows: Grouping) -> list[str]:
    """The columns that contain ids, by their names and values."""
    candidates = [name for name in names if is_id_name(name) and source.kind(name) == "number"]
    bags = rows.codes[rows.order]
    return [name for name in candidates if are_ids(_numbers(source, [name])[rows.order, 0], bags)]


def _numbers(source: Source, names: Sequence[str]) -> Floats:
    return np.concatenate([np.empty((0, len(names))), *source.blocks(names, np.dtype(np.float64))])


def _clips(source: Source, request: Request) -> tuple[str | None, str, str] | None:
    """The columns of the times of clips, unless they are requested as something else."""
    taken = {*request.roles.values(), *request.exclude, *(request.features or ())}
    free = [name for name in source.names if name not in taken - {request.bag}]
    file, start, _ = clip_columns([*free, "end"]) or (None, "", "")
    clips = clip_columns(free)
    if clips is None and file and request.features is None and start not in request.beside:
        raise InputError(
            f"the clips of {file!r} have a {start!r} and no end: add a column end, in seconds, or "
            f"leave {start!r} out with exclude=[...]."
        )
    if clips is None or any(source.kind(name) != "number" for name in clips[1:]):
        return None
    return (None, *clips[1:]) if clips[0] == request.bag else clips


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
                name = None if clips is None else clips[0]
        roles[role] = name
    given = [name for name in roles.values() if name is not None]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"the column {twice!r} cannot be two of {', '.join(roles)} at once.")
    return replace(request, separator=source.notes.get("separator", request.separator), **roles)


def bag_columns(source: Source, request: Request, rows: Grouping) -> dict[str, Column]:
    """Read what a table has of each bag: by role, and further columns as "column NAME".

    Columns of one label each are "label NAME".
    """
    wanted = [(role, getattr(request, role), how) for role, how in _CONVERSIONS.items()]
    wanted += [(f"label {name}", name, "none") for name in request.label_columns]
    found = {
        role: constant_in_bags(source.column(name, convert=convert), rows, name)
        for role, name, convert in wanted
        if name is not None
    }
    for name in request.bag_columns:
        values = read_column(source, name, "all")
        found[f"column {name}"] = constant_in_bags(values, rows, name)
    return found


def label_bags(
    contents: Contents, columns: dict[str, Column], request: Request, instances: Column | None
) -> None:
    """Add labels, label sets, instance labels, columns of bags and merged bags to the contents."""
    label, wide = columns.get("label"), request.label_columns
    found: dict[str, Any]
    known = contents.classes if request.classes is None else request.classes
    sets, instance_labels, classes = encode_columns(
        columns.get("label_set"),
        instances,
        bag_values=[] if label is None else label.values,
        classes=wide or known,
        separator=request.separator,
    )
    if wide:
        sets = read_counts([columns[f"label {name}"] for name in wide], wide, contents.bags)
    elif "looked_for" in columns:
        if sets is None:
            raise InputError("looked_for= needs a column of label sets: name it with label_set=.")
        sets = only_looked_for(sets, columns["looked_for"], request.separator)
    found = {"label_sets": sets, "instance_labels": instance_labels, "classes": classes}
    if label is not None:
        found["labels"] = bag_labels(label, request.label or "labels")
    if "merge" in columns:
        found["wholes"] = _complete(columns["merge"], contents.bags, request.merge)
    named = {name: columns.get(f"column {name}") for name in request.bag_columns}
    own = {name: column.array() for name, column in named.items() if column is not None}
    bags, group = contents.bags, contents.bags.group_name
    if request.group is not None and "group" in columns:
        group = request.group
        own[group] = _complete(columns["group"], bags, group)
    if own:
        contents.bags = bags.with_columns({**bags.columns, **own}, groups=group)
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
        raise InputError(f"no column {name!r}{detail}: the columns are {listed(source.names)}.")


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
            f"these columns are not numbers: {', '.join(odd[:10])}. Name features by features=, "
            "or these: exclude=, meta= (copied to the results), bag=, label=, label_set=."
        )
    if not left:
        raise InputError(f"no feature column is left of {listed(source.names)}.")
    return left

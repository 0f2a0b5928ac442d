"""A common interface to tables: data frames in memory, CSV and Parquet files.

A source lists its columns and their kinds, returns a column as codes into its distinct values, and
yields the features block by block, so that a table need not fit into memory. pyarrow reads the
files; narwhals wraps the frames.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from bagwise._common.types import Array, Ints
from bagwise.exceptions import FileFormatError, InputError
from bagwise.extras import import_extra
from bagwise.io._clips import clip_columns
from bagwise.io._contents import Request
from bagwise.io._files import unescaped
from bagwise.io._labels import Column, typed_texts
from bagwise.io._memory import assign

METADATA = b"bagwise"  # key of bagwise's metadata in the schema of a Parquet file
BLOCK_VALUES = 2**22  # values in one block of features
_LISTS = ("embedding", "embeddings", "features", "vector")  # CSV columns with lists as strings
_BETWEEN_NUMBERS = str.maketrans(dict.fromkeys("[](){},;", " "))
_BLOCK_BYTES = 2**25
_HEAD_BYTES = 2**18
_CSV_BLOCK, _CSV_LARGE = 2**22, 2**27  # bytes; the second if the header is longer than the head

Conversion = Literal["all", "integers", "none"]  # which strings of a CSV file become numbers


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
            parts = [column[start : start + step] for column in columns]
            block = np.empty((len(parts[0]), len(names)), dtype)
            for j, part in enumerate(parts):
                assign(block[:, j], part)
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

    def __init__(self, schema: Any, where: str, table: Any = None) -> None:
        self._pa = import_extra("pyarrow", extra="io")
        self._schema, self._table = schema, table
        self.names = list(schema.names)
        _refuse_duplicates(self.names, where)
        self.notes = json.loads((schema.metadata or {}).get(METADATA, "{}"))
        if not isinstance(self.notes, dict):
            raise FileFormatError("the metadata of bagwise in the file are damaged.")
        self.not_features = tuple(self.notes.get("not_features", ()))  # unless requested

    def kind(self, name: str) -> str:
        """'number', 'vector' (per row), 'numbers' or 'vectors' (per bag), or another type name."""
        kind = inner = self.type_of(name)
        depth = 0
        while self._pa.types.is_nested(inner) and hasattr(inner, "value_type"):
            inner, depth = inner.value_type, depth + 1
        if depth > 2 or not _is_number(self._pa.types, inner):
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
        for batch in self.batches([name], self._rows_per_batch()):
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
        n_rows = max(1, BLOCK_VALUES // ends[-1]) if sizes is None else self._rows_per_batch()
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

    def _extent(self) -> tuple[int, int]:
        """Number of rows and of bytes."""
        return self._table.num_rows, self._table.nbytes

    def _rows_per_batch(self) -> int:
        """Number of rows of list columns in a block of moderate size."""
        n_rows, n_bytes = self._extent()
        return max(1, _BLOCK_BYTES * n_rows // max(n_bytes, 1))

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
        coded = values.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return Column.of(coded.dictionary.to_pylist()).take(codes)

    def _numbers(self, values: Any, name: str, width: int) -> Array:
        """An Arrow array of numbers or vectors as a flat array, with NaN for missing values."""
        if self._pa.types.is_nested(values.type):
            if np.any(self._lengths(values, name) != width):
                raise InputError(
                    f"the vectors in the column {name!r} have different lengths: expected {width}."
                )
            values = values.flatten()
        whole = not self._pa.types.is_floating(values.type)
        if whole and (values.null_count or self._pa.types.is_decimal(values.type)):
            values = values.cast(self._pa.float64())
        return np.asarray(values.to_numpy(zero_copy_only=False))

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
        while hasattr(kind, "value_type"):
            kind = kind.value_type
        if self._pa.types.is_decimal(kind) or self._pa.types.is_null(kind):
            return np.float64
        return kind.to_pandas_dtype()


class ParquetSource(TableSource):
    """A Parquet file, or some rows of one, read column by column and some rows at a time."""

    def __init__(self, path: Path, rows: tuple[int, int] | None = None) -> None:
        self.path, self._rows = path, rows
        parquet = import_extra("pyarrow.parquet", extra="io")
        self._file = parquet.ParquetFile(path, pre_buffer=False)  # True would read the whole file
        super().__init__(self._file.schema_arrow, str(path))

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches, read when needed."""
        counts = np.array([group.num_rows for group in self._groups()], dtype=np.int64)
        ends = np.cumsum(counts)
        first, last = self._rows or (0, self._file.metadata.num_rows)
        groups = np.flatnonzero((ends > first) & (ends - counts < last))
        at = int((ends - counts)[groups[0]]) if len(groups) else 0
        for batch in self._file.iter_batches(n_rows, groups.tolist(), list(names)):
            skipped = max(first - at, 0)
            wanted = min(last - at, batch.num_rows) - skipped
            if wanted > 0:
                yield batch.slice(skipped, wanted)
            at += batch.num_rows

    def _groups(self) -> list[Any]:
        metadata = self._file.metadata
        return [metadata.row_group(i) for i in range(metadata.num_row_groups)]

    def _extent(self) -> tuple[int, int]:
        n_bytes = sum(group.total_byte_size for group in self._groups())
        return self._file.metadata.num_rows, n_bytes


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
        self._options.column_names, self._options.skip_rows_after_names = names, 1
        types = [_csv_type(pa, kind, request.dtype) for kind in found.types]
        self._types = dict(zip(names, types, strict=True))
        # Columns that are not features are read as strings.
        lists, clips = request.features or (), clip_columns(names)
        texts = [*(name or role for role, name in request.roles.items()), *request.beside]
        if clips and clips.file:
            texts.append(clips.file)
        self._texts = [n for n in dict.fromkeys(texts) if n in names and n not in lists]
        self._types |= dict.fromkeys(self._texts, pa.string())
        super().__init__(pa.schema(list(zip(names, types, strict=True))), str(path))
        number = pa.float32() if request.dtype == np.float32 else pa.float64()
        for name in names:
            is_text = pa.types.is_string(self._types[name]) and name not in self._texts
            if is_text and (name in lists or name.lower() in _LISTS):
                first = next((batch.column(0)[0].as_py() for batch in self._open([name])), None)
                n_numbers = len(_numbers_of(first) or ())
                if n_numbers > 1:
                    self._vectors[name] = pa.list_(number, n_numbers)
        self._schema = pa.schema(list((self._types | self._vectors).items()))

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


def _is_number(types: Any, kind: Any) -> bool:
    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
    return any(test(kind) for test in tests)  # null: a column without values


def _refuse_duplicates(names: Sequence[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FileFormatError(f"{where} has several columns named {twice[0]!r}: rename them.")

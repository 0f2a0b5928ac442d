"""A common interface to tables: data frames in memory, CSV and Parquet files.

A source lists its columns and their kinds, returns a column as codes into its distinct values, and
yields the features block by block, so that a table need not fit into memory. pyarrow reads the
files; narwhals wraps the frames.
"""

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from bagwise._common.types import Array
from bagwise.exceptions import FileFormatError, InputError
from bagwise.extras import import_extra
from bagwise.io._clips import clip_columns
from bagwise.io._files import unescaped
from bagwise.io._labels import Column, typed_texts
from bagwise.io._memory import assign

METADATA = b"bagwise"  # key of bagwise's metadata in the schema of a Parquet file
BLOCK_VALUES = 2**22  # values in one block of features
LISTS = ("embedding", "embeddings", "features", "vector")  # CSV columns with lists as strings
_BETWEEN_NUMBERS = str.maketrans(dict.fromkeys("[](){},;", " "))
_BLOCK_BYTES = 2**25
_CSV_BLOCK, _CSV_LARGEST = 2**22, 2**25  # bytes; the second if a row does not fit into the first
_HEAD_BYTES = 2**18  # in which quotes are looked for

Conversion = Literal["all", "integers", "none"]  # which strings of a CSV file become numbers


class FrameSource:
    """A data frame in memory (pandas, polars, pyarrow), through narwhals."""

    metadata: tuple[str, ...] = ()

    def __init__(self, table: Any) -> None:
        self._table = table
        self.names = [str(name) for name in table.columns]
        self.notes: dict[str, Any] = {}
        self._own_names = dict(zip(self.names, table.columns, strict=True))
        _refuse_duplicates(self.names, "the data frame")

    def kind(self, name: str) -> str:
        """The kind of a column: 'number', or the name of another type."""
        dtype = self._series(name).dtype
        return "number" if dtype.is_numeric() or str(dtype) == "Boolean" else str(dtype)

    def width(self, name: str) -> int:
        """Always 1: a column is a feature."""
        return 1

    def column(self, name: str, *, convert: Conversion = "all") -> Column:
        """A whole column as codes into its distinct values."""
        return Column.of(self._series(name).to_list())

    def dtype(self, names: Sequence[str]) -> np.dtype[Any]:
        """The common type of the columns; float if integers have missing values."""
        return np.result_type(*(self._numbers(self._series(name)[:0], name) for name in names))

    def blocks(self, names: Sequence[str], dtype: np.dtype[Any]) -> Iterator[Array]:
        """The columns side by side, some rows at a time."""
        n_rows = len(self._table)
        step = max(1, BLOCK_VALUES // len(names))
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            block = np.empty((stop - start, len(names)), dtype)
            for j, name in enumerate(names):
                assign(block[:, j], self._numbers(self._series(name)[start:stop], name))
            yield block

    def _series(self, name: str) -> Any:
        return self._table.get_column(self._own_names[name])

    def _numbers(self, part: Any, name: str) -> Array:
        # Whether NaN is needed depends on the whole column, not on the requested part.
        import narwhals.stable.v2 as nw

        whole = self._series(name)
        gaps = not whole.dtype.is_float() and whole.null_count() > 0
        if gaps or whole.dtype.is_decimal():
            part = part.cast(nw.Float64)
        return np.asarray(part.to_numpy())


class TableSource:
    """A pyarrow table in memory; base class of the sources that make record batches."""

    metadata: tuple[str, ...] = ()  # columns that are features only if requested

    def __init__(self, schema: Any, where: str, table: Any = None) -> None:
        self._pa = import_extra("pyarrow", extra="io")
        self._schema, self._table = schema, table
        self.names = list(schema.names)
        self.notes = _notes(schema)
        self.metadata = tuple(self.notes.get("not_features", ()))
        _refuse_duplicates(self.names, where)

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
        """The length of vectors of fixed size, else one."""
        return int(getattr(self.type_of(name), "list_size", 1))

    def column(self, name: str, *, convert: Conversion = "all") -> Column:
        """A whole column as codes into its distinct values."""
        return self.coded(self.read([name]).column(0).combine_chunks())

    def coded(self, values: Any) -> Column:
        """An Arrow array as codes into its distinct values; NaN is missing, as in a data frame."""
        types = self._pa.types
        if types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if types.is_null(values.type) or types.is_nested(values.type):
            return Column.of(values.to_pylist())
        coded = values.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        distinct = [*coded.dictionary.to_pylist(), None]
        if types.is_floating(values.type):
            return Column.of(distinct[code] for code in codes)
        return Column(codes, distinct[:-1])

    def dtype(self, names: Sequence[str]) -> np.dtype[Any]:
        """The common type of the columns; float if integers have missing values."""
        kinds = {self.type_of(name) for name in names}  # few distinct types, even for many columns
        plain = np.result_type(*map(self._plain_type, kinds))
        whole = [n for n in names if np.dtype(self._plain_type(self.type_of(n))).kind in "iub"]
        if plain == np.float64 or not whole:
            return plain
        batches = self.batches(whole, max(1, BLOCK_VALUES // len(whole)))
        gaps = any(column.null_count for batch in batches for column in batch.columns)
        return np.dtype(np.float64) if gaps else plain

    def blocks(self, names: Sequence[str], dtype: np.dtype[Any]) -> Iterator[Array]:
        """The columns side by side, some rows at a time."""
        ends = np.cumsum([0, *map(self.width, names)]).tolist()
        for batch in self.batches(names, max(1, BLOCK_VALUES // ends[-1])):
            block = np.empty((batch.num_rows, ends[-1]), dtype)
            for i, name in enumerate(names):
                values = batch.column(name)
                if self._pa.types.is_fixed_size_list(values.type):
                    if values.null_count:
                        raise InputError(f"the column {name!r} has rows without a vector.")
                    values = values.flatten()
                part = block[:, ends[i] : ends[i + 1]]
                assign(part, self.numbers(values).reshape(part.shape))
            yield block

    def type_of(self, name: str) -> Any:
        """The Arrow type of a column."""
        return self._schema.field(name).type

    def read(self, names: Sequence[str]) -> Any:
        """The given columns as one pyarrow table."""
        schema = self._pa.schema([self._schema.field(name) for name in names])
        return self._pa.Table.from_batches(
            [batch.select(list(names)) for batch in self.batches(names, BLOCK_VALUES)], schema
        )

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches of at most `n_rows` rows."""
        return self._table.select(list(names)).to_batches(max_chunksize=n_rows)

    def rows_per_batch(self) -> int:
        """Number of rows of list columns in a block of moderate size."""
        return 1024

    def numbers(self, values: Any) -> Array:
        """An Arrow array of numbers as a NumPy array, with NaN for missing values."""
        whole = not self._pa.types.is_floating(values.type)
        if whole and (values.null_count or self._pa.types.is_decimal(values.type)):
            values = values.cast(self._pa.float64())
        return np.asarray(values.to_numpy(zero_copy_only=False))

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
        metadata = self._file.metadata
        counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        ends = np.cumsum(counts)
        first, last = (0, metadata.num_rows) if self._rows is None else self._rows
        groups = np.flatnonzero((ends > first) & (ends - counts < last)).tolist()
        at = int(ends[groups[0]]) - counts[groups[0]] if groups else 0
        for batch in self._file.iter_batches(n_rows, row_groups=groups, columns=list(names)):
            skipped = max(first - at, 0)
            wanted = min(last - at, batch.num_rows) - skipped
            if wanted > 0:
                yield batch.slice(skipped, wanted)
            at += batch.num_rows

    def rows_per_batch(self) -> int:
        """Number of rows, from the size in the metadata."""
        metadata = self._file.metadata
        groups = (metadata.row_group(g) for g in range(metadata.num_row_groups))
        n_bytes = sum(group.total_byte_size for group in groups)
        return max(1, _BLOCK_BYTES * metadata.num_rows // max(n_bytes, 1))


class CsvSource(TableSource):
    """A CSV file: bags and labels are read first, as strings, and the features when needed.

    A quoted ``"12"`` is a string, an unquoted 12 a number. An unquoted empty field (or NA, null,
    ...) is missing, while ``""`` is an empty string. Features are 64-bit floats unless another type
    is requested. A column named ``embedding`` or the like, and one of `lists`, may have lists of
    numbers as strings: ``"0.1,0.2"`` or ``"[0.1, 0.2]"``. Spaces around column names without quotes
    are removed.
    """

    def __init__(
        self,
        path: Path,
        *,
        delimiter: str,
        texts: Sequence[str],
        dtype: Any,
        lists: Sequence[str] = (),
    ) -> None:
        self._pa = pa = import_extra("pyarrow", extra="io")
        self._csv = import_extra("pyarrow.csv", extra="io")
        self._path = path
        self._parse = self._csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        self._types: dict[str, Any] = {}
        self._header: list[str] = []
        with pa.input_stream(str(path)) as stream:
            head = stream.read(_HEAD_BYTES)
        _check_dialect(path, head, delimiter)
        self._block = _CSV_BLOCK
        found = self._enlarging(lambda: self._open([]).schema)  # inferred from the first block
        fields = list(_rows_of_fields(head, delimiter))
        bare = [not text.startswith(b'"') for text in fields[0]]
        bare += [False] * (len(found.names) - len(bare))  # names beyond the head
        names = [n.strip() if strip else n for n, strip in zip(found.names, bare, strict=True)]
        self._header = [unescaped(name) for name in names]
        _refuse_duplicates(self._header, str(path))
        self._types = dict(
            zip(self._header, (_csv_type(pa, kind, dtype) for kind in found.types), strict=True)
        )
        super().__init__(pa.schema(list(self._types.items())), str(path))
        clips = clip_columns(self.names)
        file = clips.file if clips and clips.file not in lists else None
        self._texts = [
            n for n in dict.fromkeys([*texts, file]) if n is not None and n in self.names
        ]
        self._types |= dict.fromkeys(self._texts, pa.string())
        self._quoted = self._quoted_columns(fields[1:])
        number = pa.float32() if dtype == np.float32 else pa.float64()
        self._lists = {}
        for name in self.names:
            may_be = name not in self._texts and (name in lists or name.lower() in LISTS)
            if may_be and pa.types.is_string(self._types[name]):
                first = next((batch.column(0)[0].as_py() for batch in self._rows([name])), None)
                values = numbers_of(first or "")
                if len(values) > 1 and all(map(_is_float, values)):
                    self._lists[name] = pa.list_(number, len(values))
        self._schema = pa.schema(list((self._types | self._lists).items()))

    def column(self, name: str, *, convert: Conversion = "all") -> Column:
        """A whole column; unquoted strings are converted to the type they represent."""
        coded = super().column(name)
        distinct = Column.of(unescaped(text) for text in coded.values)
        codes, texts = np.append(distinct.codes, -1)[coded.codes], distinct.values
        if convert == "none" or name in self._quoted:
            return Column(codes, texts)
        return Column(codes, typed_texts(texts, integers_only=convert == "integers"))

    def read(self, names: Sequence[str]) -> Any:
        """The given columns as strings in one pyarrow table; all are parsed at once."""
        if self._table is None:
            self._table = self._enlarging(lambda: TableSource.read(self, self._texts))
        return self._table.select(list(names))

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches, parsed when needed."""
        n_done = 0
        for batch in self._rows(names):
            for start in range(0, batch.num_rows, n_rows):
                part = batch.slice(start, n_rows)
                for name in self._lists.keys() & set(names):
                    place = part.schema.get_field_index(name)
                    vectors = self._vectors(part.column(place), name, n_done + start)
                    part = part.set_column(place, name, vectors)
                yield part
            n_done += batch.num_rows

    def _vectors(self, texts: Any, name: str, first: int) -> Any:
        """Parse strings such as ``"0.1,0.2"`` as lists of numbers of equal length."""
        kind = self._lists[name]
        values = np.empty((len(texts), kind.list_size), kind.value_type.to_pandas_dtype())
        for i, text in enumerate(texts.to_pylist()):
            numbers = numbers_of(text or "")
            if len(numbers) != kind.list_size or not all(map(_is_float, numbers)):
                raise InputError(
                    f"row {first + i} has {text!r:.80} in the column {name!r}: expected a list of "
                    f"{kind.list_size} numbers, as in the first row."
                )
            values[i] = numbers
        return self._pa.FixedSizeListArray.from_arrays(
            self._pa.array(values.reshape(-1)), kind.list_size
        )

    def _rows(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield blocks of the given columns."""
        with self._open(names) as stream:
            yield from stream

    def _open(self, names: Sequence[str]) -> Any:
        read = self._csv.ReadOptions(block_size=self._block)
        if self._header:
            read.column_names, read.skip_rows_after_names = self._header, 1
        convert = self._csv.ConvertOptions(
            column_types={name: self._types[name] for name in names},
            include_columns=list(names),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return self._csv.open_csv(self._path, read, self._parse, convert)

    def _enlarging(self, read: Callable[[], Any]) -> Any:
        """Read something; if a row or the header is longer than a block, with larger blocks."""
        try:
            return read()
        except self._pa.ArrowInvalid as error:
            cut = "straddl" in str(error) or "file or block" in str(error)
            if not cut or self._path.stat().st_size <= self._block:
                raise
            if self._block == _CSV_LARGEST:
                raise FileFormatError(
                    f"{self._path} has a row, or a header, of more than {self._block} bytes: is a "
                    "quote left open?"
                ) from error
        self._block = _CSV_LARGEST
        return self._enlarging(read)

    def _quoted_columns(self, rows: list[list[bytes]]) -> set[str]:
        """String columns whose first value is quoted, which pyarrow does not report.

        None if every value of the first row is quoted: such a file quotes numbers too.
        """
        gaps = {text.encode() for text in self._csv.ConvertOptions().null_values}
        quoted: dict[str, bool] = {}
        for number, row in enumerate(rows):
            given = {n: t for n, t in zip(self._header, row, strict=False) if t not in gaps}
            in_quotes = {name: text.startswith(b'"') for name, text in given.items()}
            if number == 0 and all(in_quotes.values()):
                return set()
            quoted = in_quotes | quoted
        return {name for name in self._texts if quoted.get(name)}


Source: TypeAlias = FrameSource | TableSource


def numbers_of(text: str) -> list[str]:
    """Split a string with a list of numbers into the strings of the numbers.

    Examples
    --------
    >>> from bagwise.io._sources import numbers_of
    >>> numbers_of("[0.5, -1e-3]"), numbers_of("0.5;2 3"), numbers_of("")
    (['0.5', '-1e-3'], ['0.5', '2', '3'], [])
    """
    return text.translate(_BETWEEN_NUMBERS).split()


def _rows_of_fields(head: bytes, delimiter: str) -> Iterator[list[bytes]]:
    """Cut the beginning of a file into rows of fields; quoted fields keep their quotes."""
    # A quoted string, in which a doubled quote is a quote and which the end of the bytes may cut
    # off; then anything up to the end of the field.
    d = re.escape(delimiter.encode())
    field = re.compile(rb'((?:"[^"]*(?:""[^"]*)*(?:"|\Z))?[^%b\r\n]*)(%b|[\r\n]|\Z)' % (d, d))
    row: list[bytes] = []
    for text, end in (found.groups() for found in field.finditer(head)):
        if row or text or end == delimiter.encode():  # else an empty line
            row.append(text)
            if end != delimiter.encode():
                yield row
                row = []


def _check_dialect(path: Path, head: bytes, delimiter: str) -> None:
    """Refuse the encodings and separators of spreadsheets that are not read."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FileFormatError(f"{path} is encoded as UTF-16: save it as UTF-8.")
    header = head.partition(b"\n")[0]
    others = [other for other in ",;\t" if other.encode() in header]
    if others and delimiter not in others:
        raise FileFormatError(
            f"{path}: the columns are separated by {others[0]!r}, expected {delimiter!r}. Read it "
            f"with pandas first: read_bags(pandas.read_csv(path, sep={others[0]!r})). If numbers "
            "have decimal commas, add decimal=','."
        )


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv_type(pa: Any, inferred: Any, dtype: np.dtype[Any] | None) -> Any:
    """The type for reading a column whose type in the first block is `inferred`."""
    if not _is_number(pa.types, inferred) or pa.types.is_boolean(inferred):
        return inferred
    if dtype is not None and dtype.kind in "iu" and pa.types.is_integer(inferred):
        return pa.uint64() if dtype.kind == "u" else pa.int64()
    # A float32 in its shortest form is exact only if it is read as float32, and a column of
    # integers may contain 0.5 after the first block.
    return pa.float32() if dtype == np.float32 else pa.float64()


def _notes(schema: Any) -> dict[str, Any]:
    notes = json.loads((schema.metadata or {}).get(METADATA, "{}"))
    if not isinstance(notes, dict):
        raise FileFormatError("the metadata of bagwise in the file are damaged.")
    return notes


def _is_number(types: Any, kind: Any) -> bool:
    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
    return any(test(kind) for test in tests)  # null: a column without values


def _refuse_duplicates(names: Sequence[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FileFormatError(f"{where} has several columns named {twice[0]!r}: rename them.")

"""A common interface to tables: data frames in memory, CSV and Parquet files.

A source lists its columns and their kinds, returns a column as codes into its distinct values, and
yields the features block by block, so that a table need not fit into memory.
"""

import codecs
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from bagwise._common.types import Array
from bagwise.exceptions import FileFormatError, InputError
from bagwise.extras import import_extra
from bagwise.io.clips import clip_columns
from bagwise.io.formulas import unescaped
from bagwise.io.labels import Column, typed_texts
from bagwise.io.memory import assign
from bagwise.io.quotes import quoted_columns

METADATA = b"bagwise"  # key of bagwise's metadata in the schema of a Parquet file
BLOCK_VALUES = 2**22  # values in one block of features
LISTS = ("embedding", "embeddings", "features", "vector")  # CSV columns with lists as strings
_BETWEEN_NUMBERS = str.maketrans(dict.fromkeys("[](){},;", " "))
_BLOCK_BYTES = 2**25
_CSV_BLOCK = 2**22  # bytes; enlarged if a row does not fit
_CSV_LARGEST_BLOCK = 2**30

Conversion = Literal["all", "integers", "none"]  # which strings of a CSV file become numbers


class FrameSource:
    """A data frame in memory (pandas, polars, pyarrow), through narwhals."""

    metadata: tuple[str, ...] = ()

    def __init__(self, table: Any) -> None:
        import narwhals.stable.v2 as nw

        self._table = table
        self._boolean = nw.Boolean
        self.names = [str(name) for name in table.columns]
        self.notes: dict[str, Any] = {}
        self._own_names = dict(zip(self.names, table.columns, strict=True))
        _refuse_duplicates(self.names, "the data frame")

    def kind(self, name: str) -> str:
        """The kind of a column: 'number', or the name of another type."""
        dtype = self._series(name).dtype
        return "number" if dtype.is_numeric() or dtype == self._boolean else str(dtype)

    def width(self, name: str) -> int:
        """Always 1: a column is a feature."""
        return 1

    def is_empty(self, name: str) -> bool:
        """Whether every value is missing."""
        return bool(self._series(name).null_count() == len(self._table))

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
    """A pyarrow table in memory; base class of the Arrow sources."""

    metadata: tuple[str, ...] = ()  # columns that are features only if requested

    def __init__(self, schema: Any, where: str, table: Any = None) -> None:
        self._pa = import_extra("pyarrow", extra="io")
        self._schema = schema
        self._table = table
        self._empty = {field.name for field in schema if self._pa.types.is_null(field.type)}
        self.names = list(schema.names)
        self.notes = _notes(schema)
        self.metadata = tuple(self.notes.get("not_features", ()))
        _refuse_duplicates(self.names, where)

    def kind(self, name: str) -> str:
        """'number', 'vector' (per row), 'numbers' or 'vectors' (per bag), or another type name."""
        types = self._pa.types
        kind = inner = self.type_of(name)
        depth = 0
        while _is_list(types, inner):
            inner, depth = inner.value_type, depth + 1
        if depth > 2 or not _is_number(types, inner):
            return str(kind)
        if depth == 1 and types.is_fixed_size_list(kind):
            return "vector"
        return ("number", "numbers", "vectors")[depth]

    def width(self, name: str) -> int:
        """The length of vectors of fixed size, else one."""
        kind = self.type_of(name)
        return int(kind.list_size) if self._pa.types.is_fixed_size_list(kind) else 1

    def is_empty(self, name: str) -> bool:
        """Whether the column has no values; in a CSV file, in the first block."""
        return name in self._empty

    def column(self, name: str, *, convert: Conversion = "all") -> Column:
        """A whole column as codes into its distinct values."""
        return self.coded(self.read([name]).column(0).combine_chunks())

    def coded(self, values: Any) -> Column:
        """An Arrow array as codes into its distinct values."""
        types = self._pa.types
        if types.is_null(values.type):
            return Column(np.full(len(values), -1), [])
        if types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if types.is_nested(values.type):
            return Column.of(values.to_pylist())
        coded = values.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        distinct = coded.dictionary.to_pylist()
        if types.is_floating(values.type):  # NaN is a missing value, as in a data frame
            values = [*distinct, None]
            return Column.of(values[code] for code in codes)
        return Column(codes, distinct)

    def dtype(self, names: Sequence[str]) -> np.dtype[Any]:
        """The common type of the columns; float if integers have missing values."""
        kinds = {self.type_of(name) for name in names}  # few distinct types, even for many columns
        plain = np.result_type(*map(self._plain_type, kinds))
        types = self._pa.types
        whole = [
            name
            for name in names
            if types.is_integer(self.type_of(name)) or types.is_boolean(self.type_of(name))
        ]
        if plain == np.float64 or not whole:
            return plain
        batches = self.batches(whole, max(1, BLOCK_VALUES // len(whole)))
        gaps = any(column.null_count for batch in batches for column in batch.columns)
        return np.dtype(np.float64) if gaps else plain

    def blocks(self, names: Sequence[str], dtype: np.dtype[Any]) -> Iterator[Array]:
        """The columns side by side, some rows at a time."""
        widths = [self.width(name) for name in names]
        kinds = {self.type_of(name) for name in names}
        for batch in self.batches(names, max(1, BLOCK_VALUES // sum(widths))):
            place = {name: j for j, name in enumerate(batch.schema.names)}
            order = [place[name] for name in names]
            block = np.empty((batch.num_rows, sum(widths)), dtype)
            if len(kinds) == 1 and (table := self._alike(batch, order, *kinds)) is not None:
                assign(block, table)
                yield block
                continue
            start = 0
            for name, j, width in zip(names, order, widths, strict=True):
                values = batch.column(j)
                if self._pa.types.is_fixed_size_list(values.type):
                    if values.null_count:
                        raise InputError(f"the column {name!r} has rows without a vector.")
                    values = values.flatten()
                numbers = self.numbers(values).reshape(-1, width)
                assign(block[:, start : start + width], numbers)
                start += width
            yield block

    def type_of(self, name: str) -> Any:
        """The Arrow type of a column."""
        return self._schema.field(name).type

    def read(self, names: Sequence[str]) -> Any:
        """The given columns as one pyarrow table."""
        return self._table.select(list(names))

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches of at most `n_rows` rows."""
        return self._table.select(list(names)).to_batches(max_chunksize=n_rows)

    def rows_per_batch(self) -> int:
        """Number of rows of list columns in a block of moderate size."""
        return 1024

    def _alike(self, batch: Any, order: Sequence[int], kind: Any) -> Array | None:
        """Columns of one type as one 2-D array if pyarrow supports it, else None."""
        types = self._pa.types
        floating = types.is_float32(kind) or types.is_float64(kind)
        whole = types.is_integer(kind) and not any(batch.column(j).null_count for j in order)
        if not batch.num_rows or not (floating or whole):
            return None
        tensor = batch.select(order).to_tensor(null_to_nan=floating)
        return np.asarray(tensor.to_numpy())

    def _plain_type(self, kind: Any) -> Any:
        while hasattr(kind, "value_type"):
            kind = kind.value_type
        if self._pa.types.is_decimal(kind) or self._pa.types.is_null(kind):
            return np.float64
        return kind.to_pandas_dtype()

    def numbers(self, values: Any) -> Array:
        """An Arrow array of numbers as a NumPy array, with NaN for missing values."""
        types = self._pa.types
        if not types.is_floating(values.type) and (
            types.is_decimal(values.type) or values.null_count
        ):
            values = values.cast(self._pa.float64())
        return np.asarray(values.to_numpy(zero_copy_only=False))


class ParquetSource(TableSource):
    """A Parquet file, or some rows of one, read column by column and some rows at a time."""

    def __init__(self, path: Path, rows: tuple[int, int] | None = None) -> None:
        self.path, self._rows = path, rows
        parquet = import_extra("pyarrow.parquet", extra="io")
        self._file = parquet.ParquetFile(path, pre_buffer=False)  # True would read the whole file
        super().__init__(self._file.schema_arrow, str(path))

    def read(self, names: Sequence[str]) -> Any:
        """The given columns as one pyarrow table."""
        return self._file.read(columns=list(names)).select(list(names))

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
        # The metadata of single columns are not used: pyarrow aborts the process if those of a
        # damaged file contradict its schema.
        metadata = self._file.metadata
        groups = (metadata.row_group(g) for g in range(metadata.num_row_groups))
        n_bytes = sum(group.total_byte_size for group in groups)
        return max(1, _BLOCK_BYTES * metadata.num_rows // max(n_bytes, 1))


class CsvSource(TableSource):
    """A CSV file, parsed twice: first its strings, then its numbers in blocks of rows.

    Bags and labels are read as strings and converted afterwards: a quoted ``"12"`` is a string, an
    unquoted 12 a number. An unquoted empty field (or NA, null, ...) is missing, while ``""`` is an
    empty string. Features are 64-bit floats unless another type is requested. A column named
    ``embedding`` or the like, and one of `lists`, may hold lists of numbers as strings:
    ``"0.1,0.2"`` or ``"[0.1, 0.2]"``.
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
        self._block = _CSV_BLOCK
        self._check_dialect()
        self._renamed: list[str] = []
        inferred = self._inferred()
        if any(unescaped(name) != name for name in inferred.names):
            self._renamed = [unescaped(name) for name in inferred.names]
            _refuse_duplicates(self._renamed, str(path))
            inferred = self._inferred()
        super().__init__(inferred, str(path))
        self._texts = [name for name in texts if name in self.names]
        clips = clip_columns(self.names)
        if clips and clips.file and clips.file not in {*self._texts, *lists}:
            self._texts.append(clips.file)
        self._types = {field.name: _csv_type(pa, field.type, dtype) for field in inferred}
        self._types |= dict.fromkeys(self._texts, pa.string())
        number = pa.float32() if dtype == np.float32 else pa.float64()
        self._lists = {
            field.name: pa.list_(number, size)
            for field in inferred
            if field.name not in self._texts
            and pa.types.is_string(field.type)
            and (field.name in lists or field.name.lower() in LISTS)
            and (size := self._list_size(field.name)) > 1
        }
        self._schema = pa.schema(list((self._types | self._lists).items()))
        self._quoted = self._quoted_columns()

    def column(self, name: str, *, convert: Conversion = "all") -> Column:
        """A whole column; unquoted strings are converted to the type they represent."""
        coded = super().column(name)
        if any(unescaped(text) != text for text in coded.values):
            places = Column.of(map(unescaped, coded.values))
            coded = Column(np.append(places.codes, -1)[coded.codes], places.values)
        if convert == "none" or name in self._quoted:
            return coded
        return Column(coded.codes, typed_texts(coded.values, integers_only=convert == "integers"))

    def read(self, names: Sequence[str]) -> Any:
        """The given columns as strings in one pyarrow table; all are parsed at once."""
        if self._table is None:
            schema = self._pa.schema([(name, self._types[name]) for name in self._texts])
            batches = list(self._parsed(self._texts))
            self._table = self._pa.Table.from_batches(batches, schema)
        return super().read(names)

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches, parsed when needed."""
        n_done = 0
        for batch in self._parsed(names):
            for start in range(0, batch.num_rows, n_rows):
                part = batch.slice(start, n_rows)
                for name, kind in self._lists.items():
                    if name in names:
                        place = part.schema.get_field_index(name)
                        lists = self._list_array(part.column(place), kind, name, n_done + start)
                        part = part.set_column(place, name, lists)
                yield part
            n_done += batch.num_rows

    def _list_size(self, name: str) -> int:
        """The length of the lists of numbers in a column, by its first row; 0 for other strings."""
        for batch in self._parsed([name]):
            numbers = numbers_of(batch.column(0)[0].as_py() or "")
            return len(numbers) if all(map(_is_float, numbers)) else 0
        return 0

    def _list_array(self, texts: Any, kind: Any, name: str, first: int) -> Any:
        """Parse strings such as ``"0.1,0.2"`` as lists of numbers of equal length."""
        values = np.empty((len(texts), kind.list_size), kind.value_type.to_pandas_dtype())
        for i, text in enumerate(texts.to_pylist()):
            numbers = numbers_of(text or "")
            if len(numbers) != values.shape[1]:
                raise InputError(
                    f"row {first + i} has {len(numbers)} numbers in the column {name!r}, but the "
                    f"first row has {values.shape[1]}: expected lists of equal length."
                )
            try:
                values[i] = numbers
            except ValueError as error:
                raise InputError(
                    f"row {first + i} has values that are not numbers in the column {name!r}: "
                    f"{error}."
                ) from error
        return self._pa.FixedSizeListArray.from_arrays(
            self._pa.array(values.reshape(-1)), kind.list_size
        )

    def _parsed(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield blocks of the given columns; blocks are enlarged if a row does not fit."""
        n_done = 0
        while True:
            skipped = 0  # number of rows already yielded from smaller blocks
            try:
                with self._open(self._types, names) as stream:
                    for batch in stream:
                        again = min(n_done - skipped, batch.num_rows)
                        skipped += again
                        if again < batch.num_rows:
                            skipped = n_done = n_done + batch.num_rows - again
                            yield batch.slice(again)
                return
            except self._pa.ArrowInvalid as error:
                self._enlarge_blocks(error)

    def _inferred(self) -> Any:
        """Names and types of the columns, inferred from the first block of the file."""
        while True:
            try:
                with self._open() as stream:
                    return stream.schema
            except self._pa.ArrowInvalid as error:
                self._enlarge_blocks(error)

    def _enlarge_blocks(self, error: Exception) -> None:
        """Enlarge blocks if the error of pyarrow is a row that does not fit, else raise it."""
        if "straddl" not in str(error):
            raise error
        if self._block >= _CSV_LARGEST_BLOCK:
            raise FileFormatError(
                f"{self._path} has a row of more than {_CSV_LARGEST_BLOCK} bytes: is a quote left "
                "open?"
            ) from error
        self._block *= 16

    def _open(self, types: Any = None, names: Sequence[str] = ()) -> Any:
        read = self._csv.ReadOptions(block_size=self._block)
        if self._renamed:
            read.column_names, read.skip_rows_after_names = self._renamed, 1
        convert = self._csv.ConvertOptions(
            column_types={name: types[name] for name in names} if types else {},
            include_columns=list(names),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return self._csv.open_csv(self._path, read, self._parse, convert)

    def _quoted_columns(self) -> set[str]:
        """String columns that are quoted in the beginning of the file."""
        if not self._texts:
            return set()
        missing = self._csv.ConvertOptions().null_values
        places = [self.names.index(name) for name in self._texts]
        found = quoted_columns(self._head(), self._parse.delimiter, places, missing)
        return {self.names[place] for place in found}

    def _head(self) -> bytes:
        with self._pa.input_stream(str(self._path)) as stream:
            return stream.read(_CSV_BLOCK)

    def _check_dialect(self) -> None:
        """Refuse the encodings and separators of spreadsheets that are not read."""
        head = self._head()
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise FileFormatError(f"{self._path} is encoded as UTF-16: save it as UTF-8.")
        heading, delimiter = head.split(b"\n", 1)[0], self._parse.delimiter
        others = [other for other in ",;\t" if other != delimiter and other.encode() in heading]
        if others and delimiter.encode() not in heading:
            raise FileFormatError(
                f"{self._path}: the columns are separated by {others[0]!r}, expected "
                f"{delimiter!r}. Save it with {delimiter!r}, or in Python read it with pandas "
                f"first: read_bags(pandas.read_csv(path, sep={others[0]!r})). If numbers have "
                "decimal commas, add decimal=','."
            )


Source: TypeAlias = FrameSource | TableSource


def numbers_of(text: str) -> list[str]:
    """Split a string with a list of numbers into the strings of the numbers.

    Examples
    --------
    >>> from bagwise.io.sources import numbers_of
    >>> numbers_of("[0.5, -1e-3]"), numbers_of("0.5;2 3"), numbers_of("")
    (['0.5', '-1e-3'], ['0.5', '2', '3'], [])
    """
    return text.translate(_BETWEEN_NUMBERS).split()


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
    text = (schema.metadata or {}).get(METADATA)
    notes = {} if text is None else json.loads(text)
    if not isinstance(notes, dict):
        raise FileFormatError("the metadata of bagwise in the file are damaged.")
    return notes


def _is_number(types: Any, kind: Any) -> bool:
    return bool(
        types.is_integer(kind)
        or types.is_null(kind)  # a column without values
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    )


def _is_list(types: Any, kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _refuse_duplicates(names: Sequence[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FileFormatError(f"{where} has several columns named {twice[0]!r}: rename them.")

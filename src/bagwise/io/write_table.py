"""Bags written as CSV or Parquet: a row per instance, or in Parquet a row per bag."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise.exceptions import InputError, LabelError, SparseInputError
from bagwise.extras import import_extra
from bagwise.io.contents import Contents
from bagwise.io.formulas import escape_array, escaped
from bagwise.io.sources import BLOCK_VALUES, METADATA

__all__ = ["TableNames", "write_csv", "write_parquet"]


@dataclass(frozen=True)
class TableNames:
    """How the columns beside the features are called, and what stands between labels of a set."""

    bag: str = "bag"
    label: str = "label"
    label_set: str = "label_set"
    instance_label: str = "instance_label"
    separator: str = ";"


def write_csv(
    path: Path, contents: Contents, names: TableNames, *, delimiter: str, zipped: bool
) -> None:
    """Write one row per instance as text: texts in quotes, numbers in their shortest exact form."""
    pa = import_extra("pyarrow", extra="io")
    columns = _Columns(pa, contents, names)
    columns.refuse_empty_bags("Write .npz, HDF5, or Parquet with layout='bags'.")
    with _stream(path, zipped) as file:
        header = [_quoted_name(escaped(name), delimiter) for name in columns.schema().names]
        file.write((delimiter.join(header) + "\n").encode())
        for start, stop in columns.row_blocks():
            file.write(_csv_lines(pa, columns.rows(start, stop), delimiter))


def write_parquet(
    path: Path, contents: Contents, names: TableNames, *, layout: str, compress: bool
) -> None:
    """Write one row per instance (``"rows"``) or one row per bag (``"bags"``)."""
    pa = import_extra("pyarrow", extra="io")
    parquet = import_extra("pyarrow.parquet", extra="io")
    columns = _Columns(pa, contents, names)
    by_bag = layout == "bags"
    if not by_bag:
        columns.refuse_empty_bags("Use layout='bags', .npz or HDF5.")
    make: Callable[[int, int], Any] = columns.bags if by_bag else columns.rows
    schema = columns.schema(by_bag=by_bag).with_metadata(
        {METADATA: json.dumps(columns.notes(by_bag=by_bag)).encode()}
    )
    codec = "zstd" if compress else "none"
    with parquet.ParquetWriter(path, schema, compression=codec) as writer:
        for start, stop in columns.bag_blocks() if by_bag else columns.row_blocks():
            writer.write_table(make(start, stop).replace_schema_metadata(schema.metadata))


class _Columns:
    """The columns of a table of bags, made a block of rows at a time."""

    def __init__(self, pa: Any, contents: Contents, names: TableNames) -> None:
        self._pa, self._contents, self._names = pa, contents, names
        bags = contents.bags
        if sparse.issparse(bags.instances):
            raise SparseInputError(
                "a table holds dense columns and these bags are sparse: write .npz, which keeps "
                "them as they are."
            )
        if contents.coords is not None or contents.extras:
            raise InputError("a table has no place for coords or extras: write .npz or HDF5.")
        if bags.n_features == 0:
            raise InputError("these bags have no features: a table needs at least one column.")
        self._features = bags.feature_names or [f"x{j}" for j in range(bags.n_features)]
        self._number = _number_type(pa, bags.dtype)
        self._ids = self._array(bags.names, "ids")
        self._labels = (
            None if contents.labels is None else self._array(contents.labels.tolist(), "y")
        )
        self._sets = (
            None if contents.label_sets is None else pa.array(self._set_texts(), pa.string())
        )
        self._instance_labels = self._instance_label_array()
        self._refuse_collisions()

    def notes(self, *, by_bag: bool) -> dict[str, Any]:
        """What the columns alone do not show, for the reader."""
        bags, classes = self._contents.bags, self._contents.classes
        notes: dict[str, Any] = {role: name for role, name in self._roles().items() if name}
        notes["separator"] = self._names.separator
        if bags.ids is None:
            notes["ids"] = False
        if by_bag or bags.feature_names is None:
            notes["feature_names"] = bags.feature_names
        if classes is None and self._contents.label_sets is not None:
            classes = self._contents.label_sets.classes  # a class may have no bag to show it
        if classes is not None:
            notes["classes"] = classes.tolist()
        return notes

    def schema(self, *, by_bag: bool = False) -> Any:
        """Names and types of the columns."""
        return (self.bags(0, 0) if by_bag else self.rows(0, 0)).schema

    def rows(self, start: int, stop: int) -> Any:
        """The instances from start to stop as a table, one row each."""
        bags = self._contents.bags
        bag = self._pa.array(self._bag_index(start, stop))
        columns = self._bag_columns(lambda values: values.take(bag))
        if self._instance_labels is not None:
            columns[self._names.instance_label] = self._instance_labels[start:stop]
        block = np.asfortranarray(bags.instances[start:stop])
        for j, name in enumerate(self._features):
            columns[name] = self._pa.array(block[:, j].astype(self._number, copy=False))
        return self._pa.table(columns)

    def bags(self, start: int, stop: int) -> Any:
        """The bags from start to stop as a table, one row each, with a list of vectors."""
        pa, bags = self._pa, self._contents.bags
        first, last = bags.offsets[start], bags.offsets[stop]
        offsets = pa.array(bags.offsets[start : stop + 1] - first, pa.int32())
        columns = self._bag_columns(lambda values: values[start:stop])
        if self._instance_labels is not None:
            labels = self._instance_labels[first:last]
            columns[self._names.instance_label] = pa.ListArray.from_arrays(offsets, labels)
        values = np.ascontiguousarray(bags.instances[first:last], dtype=self._number).reshape(-1)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), bags.n_features)
        columns["instances"] = pa.ListArray.from_arrays(offsets, vectors)
        return pa.table(columns)

    def row_blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of instances of a moderate number of values."""
        bags = self._contents.bags
        step = max(1, BLOCK_VALUES // bags.n_features)
        for start in range(0, bags.n_instances, step):
            yield start, min(start + step, bags.n_instances)

    def bag_blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of bags of a moderate number of values, at least one bag each."""
        bags = self._contents.bags
        size = max(1, BLOCK_VALUES // bags.n_features)
        start = 0
        while start < len(bags):
            limit = bags.offsets[start] + size
            stop = max(start + 1, int(np.searchsorted(bags.offsets, limit, side="right")) - 1)
            yield start, min(stop, len(bags))
            start = stop

    def refuse_empty_bags(self, remedy: str) -> None:
        """A row per instance does not show a bag without instances."""
        empty = np.flatnonzero(self._contents.bags.sizes == 0)
        if len(empty):
            raise InputError(
                f"{self._contents.bags.name_of(int(empty[0]))} is empty, and a table with one row "
                f"per instance cannot show it. {remedy}"
            )

    def _bag_columns(self, pick: Callable[[Any], Any]) -> dict[str, Any]:
        columns = {self._names.bag: pick(self._ids)}
        if self._labels is not None:
            columns[self._names.label] = pick(self._labels)
        if self._sets is not None:
            columns[self._names.label_set] = pick(self._sets)
        return columns

    def _bag_index(self, start: int, stop: int) -> NDArray[np.int64]:
        rows = np.arange(start, stop)
        return np.searchsorted(self._contents.bags.offsets, rows, side="right") - 1

    def _roles(self) -> dict[str, str | None]:
        names = self._names
        return {
            "bag": names.bag,
            "label": None if self._labels is None else names.label,
            "label_set": None if self._sets is None else names.label_set,
            "instance_label": None if self._instance_labels is None else names.instance_label,
        }

    def _refuse_collisions(self) -> None:
        taken = [name for name in self._roles().values() if name]
        every = [*taken, *self._features]
        twice = [name for name, count in Counter(every).items() if count > 1]
        if twice:
            raise InputError(
                f"two columns would be called {twice[0]!r}: rename a feature, or choose other "
                "names with bag=, label=, label_set= or instance_label=."
            )

    def _array(self, values: Any, what: str) -> Any:
        pa = self._pa
        try:
            return pa.array(values.tolist() if isinstance(values, np.ndarray) else values)
        except (pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError) as error:
            raise InputError(
                f"{what} cannot be one column of a table ({error}): use integers only, or texts "
                "only."
            ) from error

    def _set_texts(self) -> list[str | None]:
        sets = self._contents.label_sets
        assert sets is not None
        separator = self._names.separator
        odd = [t for t in sets.names if not t or t != t.strip() or separator in t]
        if odd:
            raise LabelError(
                f"the label {odd[0]!r} cannot stand in a text of labels separated by "
                f"{separator!r}: choose another separator=, or write .npz."
            )
        return [None if labels is None else separator.join(labels) for labels in sets.name_lists]

    def _instance_label_array(self) -> Any:
        labels, classes = self._contents.instance_labels, self._contents.classes
        if labels is None:
            return None
        if classes is None:
            return self._pa.array(labels)
        named = self._array(classes, "classes")
        return named.take(self._pa.array(labels, mask=labels < 0))


def _number_type(pa: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    native = dtype.newbyteorder("=")
    try:
        pa.from_numpy_dtype(native)
    except pa.ArrowException as error:
        raise InputError(f"a table cannot hold {dtype}: convert the instances first.") from error
    return native


# CSV text


def _stream(path: Path, zipped: bool) -> BinaryIO:
    return gzip.open(path, "wb") if zipped else open(path, "wb")  # type: ignore[return-value]


def _quoted_name(name: str, delimiter: str) -> str:
    plain = name and name.isprintable() and not set(name) & {delimiter, '"'}
    return name if plain else '"' + name.replace('"', '""') + '"'


def _csv_lines(pa: Any, table: Any, delimiter: str) -> bytes:
    compute = import_extra("pyarrow.compute", extra="io")
    texts = [_csv_texts(pa, compute, column.combine_chunks()) for column in table.columns]
    lines = compute.binary_join_element_wise(*texts, delimiter)
    return ("\n".join(lines.to_pylist()) + "\n").encode()


def _csv_texts(pa: Any, compute: Any, values: Any) -> Any:
    """A column as texts: 1.0 keeps its point, texts get quotes, gaps are empty."""
    texts = values.cast(pa.string())
    if pa.types.is_string(values.type):
        texts = compute.replace_substring(escape_array(compute, texts), '"', '""')
        texts = compute.binary_join_element_wise('"', texts, '"', "")
    elif pa.types.is_floating(values.type):
        whole = compute.invert(compute.match_substring_regex(texts, "[.ein]"))
        pointed = compute.binary_join_element_wise(texts, ".0", "")
        texts = compute.if_else(whole, pointed, texts)
    return compute.fill_null(texts, "")

"""Write bags as CSV or Parquet, a row per instance or per bag, and tables of results."""

import csv
import gzip
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.extras import import_extra
from bagwise._common.files import replacing
from bagwise.exceptions import FileFormatError, InputError, LabelError, SparseInputError
from bagwise.io._contents import Contents
from bagwise.io._files import escaped
from bagwise.io._table import BLOCK_VALUES, METADATA
from bagwise.labels import Labels

_PER_INSTANCE = "instance_label"  # the role whose column has a value per instance
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_INSTANCES = "instances"  # the column with the vectors of a bag


def write_csv(path: Path, table: "BagTable", *, delimiter: str, zipped: bool) -> None:
    """Write one row per instance: strings in quotes, numbers in their shortest exact form."""
    writer = import_extra("pyarrow.csv", extra="io")
    options = writer.WriteOptions(delimiter=delimiter)
    with (
        gzip.open(path, "wb") if zipped else open(path, "wb") as file,
        writer.CSVWriter(file, table.rows(0, 0).schema, write_options=options) as rows,
    ):
        for block in table.blocks():
            rows.write_table(block)


def write_parquet(path: Path, table: "BagTable", *, compress: bool) -> None:
    """Write a row per instance or per bag, and metadata that the columns do not contain."""
    parquet = import_extra("pyarrow.parquet", extra="io")
    metadata = {METADATA: json.dumps(table.notes()).encode()}
    schema = table.rows(0, 0).schema.with_metadata(metadata)
    codec = "zstd" if compress else "none"
    with parquet.ParquetWriter(path, schema, compression=codec) as writer:
        for block in table.blocks():
            writer.write_table(block.replace_schema_metadata(metadata))


class BagTable:
    """Bags as a table, generated in blocks; a row is an instance or a bag.

    Parameters
    ----------
    contents : Contents
        The bags and their labels.
    names : dict of str to str
        The name of the column of each role.
    separator : str
        Separator of the labels of a set.
    by_bag : bool, default=False
        Whether a row is a bag.
    as_text : bool, default=False
        Whether the table becomes text, in which formulas are escaped.
    """

    def __init__(
        self,
        contents: Contents,
        names: dict[str, str],
        separator: str,
        *,
        by_bag: bool = False,
        as_text: bool = False,
    ) -> None:
        self._pa = import_extra("pyarrow", extra="io")
        bags = contents.bags
        self._contents, self._separator = contents, separator
        self._names = names | {f"column {name}": name for name in bags.columns}
        self._by_bag, self._as_text = by_bag, as_text
        _refuse_losses(contents, by_bag=by_bag)
        self._features = bags.feature_names or [f"x{j}" for j in range(bags.n_features)]
        self._columns = self._columns_by_role()
        if as_text:
            self._features = [escaped(name) for name in self._features]
            self._names = {role: escaped(name) for role, name in self._names.items()}
        used = [self._names[role] for role in self._columns]
        used += [_INSTANCES] if by_bag else self._features
        twice = [name for name, count in Counter(used).items() if count > 1]
        if twice:
            raise InputError(
                f"two columns would be called {twice[0]!r}: rename a feature or a column of bags, "
                "or choose other names with bag=, label=, label_set= or instance_label=."
            )

    def notes(self) -> dict[str, Any]:
        """Metadata for the reader that the columns do not contain."""
        contents, bags = self._contents, self._contents.bags
        roles = [role for role in self._columns if not role.startswith("column ")]
        notes: dict[str, Any] = {role: self._names[role] for role in roles}
        if bags.columns:
            notes["bag_columns"] = notes["not_features"] = [*bags.columns]
            notes["group"] = bags.group_name
        notes["separator"] = self._separator
        if bags.ids is None:
            notes["ids"] = False
        if self._by_bag or bags.feature_names is None:
            notes["feature_names"] = bags.feature_names
        classes = contents.classes
        if classes is None and contents.label_sets is not None:
            classes = contents.label_sets.classes  # includes classes without bags
        if classes is not None:
            notes["classes"] = classes.tolist()
        return notes

    def blocks(self) -> Iterator[Any]:
        """The rows as pyarrow tables of a moderate number of values, each of at least one row."""
        bags = self._contents.bags
        size = max(1, BLOCK_VALUES // bags.n_features)  # instances
        n_rows = len(bags) if self._by_bag else bags.n_instances
        start = 0
        while start < n_rows:
            stop = start + size
            if self._by_bag:
                limit = bags.offsets[start] + size
                stop = max(start + 1, int(np.searchsorted(bags.offsets, limit, side="right")) - 1)
            yield self.rows(start, min(stop, n_rows))
            start = stop

    def rows(self, start: int, stop: int) -> Any:
        """The instances from start to stop, or the bags, each with a list of vectors."""
        pa, bags = self._pa, self._contents.bags
        offsets = bags.offsets[start : stop + 1]
        first, last = (offsets[0], offsets[-1]) if self._by_bag else (start, stop)
        block = bags.instances[first:last].astype(bags.dtype.newbyteorder("="), copy=False)
        bag = np.searchsorted(bags.offsets, np.arange(start, stop), side="right") - 1
        lengths = pa.array(offsets - first, pa.int32())
        columns = {}
        for role, values in self._columns.items():
            if role == _PER_INSTANCE:
                own = values[first:last]
                own = pa.ListArray.from_arrays(lengths, own) if self._by_bag else own
            else:
                own = values[start:stop] if self._by_bag else values.take(pa.array(bag))
            columns[self._names[role]] = own
        if self._by_bag:
            flat = pa.array(np.ascontiguousarray(block).reshape(-1))
            vectors = pa.FixedSizeListArray.from_arrays(flat, bags.n_features)
            columns[_INSTANCES] = pa.ListArray.from_arrays(lengths, vectors)
        else:
            by_feature = np.ascontiguousarray(block.T)
            columns |= dict(zip(self._features, map(pa.array, by_feature), strict=True))
        return pa.table(columns)

    def _columns_by_role(self) -> dict[str, Any]:
        """Arrow arrays of the columns other than features: a value per bag, or per instance."""
        pa, contents = self._pa, self._contents
        columns = {"bag": self._array(contents.bags.names.tolist(), "ids")}
        for name, values in contents.bags.columns.items():
            columns[f"column {name}"] = self._array(values.tolist(), f"the column {name!r}")
        if contents.labels is not None:
            columns["label"] = self._array(contents.labels.tolist(), "y")
        if contents.label_sets is not None:
            texts = _set_texts(contents.label_sets, self._separator)
            columns["label_set"] = self._array(texts, "label_sets").cast(pa.string())
        if contents.instance_labels is not None:
            columns[_PER_INSTANCE] = pa.array(contents.instance_labels)
            if contents.classes is not None:
                codes = pa.array(contents.instance_labels, mask=contents.instance_labels < 0)
                classes = self._array(contents.classes.tolist(), "classes")
                columns[_PER_INSTANCE] = classes.take(codes)
        return columns

    def _array(self, values: list[Any], what: str) -> Any:
        pa = self._pa
        if self._as_text:
            values = [escaped(v) if isinstance(v, str) else v for v in values]
        try:
            return pa.array(values)
        except (pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError) as error:
            raise InputError(
                f"{what} cannot be a column of a table ({error}): use only integers or strings."
            ) from error


def _refuse_losses(contents: Contents, *, by_bag: bool) -> None:
    """Refuse data that a table cannot represent."""
    bags = contents.bags
    if sparse.issparse(bags.instances):
        raise SparseInputError("a table is dense, but these bags are sparse: write .npz.")
    if contents.coords is not None or contents.extras:
        raise InputError("coords and extras cannot be stored in CSV or Parquet: write .npz.")
    if bags.n_features == 0 or bags.dtype.itemsize > 8:
        raise InputError(f"{bags.n_features} features of {bags.dtype} fit no table: write .npz.")
    empty = np.flatnonzero(bags.sizes == 0)
    if len(empty) and not by_bag:
        raise InputError(
            f"{bags.name_of(int(empty[0]))} is empty, and a table with one row per instance cannot "
            "show it. Write .npz, HDF5, or Parquet with layout='bags'."
        )


def _set_texts(sets: Labels, separator: str) -> list[str | None]:
    odd = [t for t in sets.names if not t or t != t.strip() or separator in t]
    if odd:
        raise LabelError(
            f"the label {odd[0]!r} cannot be written in a list of labels separated by "
            f"{separator!r}: choose another separator=, or write .npz."
        )
    return [None if labels is None else separator.join(labels) for labels in sets.name_lists]


# Tables of results


def file_beside(path: Path, kind: str) -> Path:
    """The path of a second table of results: ``out.instances.parquet`` for ``out.parquet``.

    Parameters
    ----------
    path : Path
        The first table.
    kind : str
        What the second table contains, such as "instances" or "review".

    Returns
    -------
    Path
    """
    if path.suffix.lower() not in (*_DELIMITERS, *_PARQUET):
        endings = ", ".join((*_DELIMITERS, *_PARQUET))
        raise FileFormatError(f"{path.name!r} has an unknown suffix: expected one of {endings}.")
    return path.with_name(f"{path.stem}.{kind}{path.suffix}")


def write_columns(
    path: Path, columns: Mapping[str, Any], *, force: bool, notes: Mapping[str, Any] | None = None
) -> None:
    """Write columns of equal length as CSV, TSV or Parquet, completely or not at all.

    In CSV and TSV a string that a spreadsheet would run as a formula gets a leading apostrophe,
    which bagwise removes when reading.

    Parameters
    ----------
    path : Path
        The file; its suffix determines the format.
    columns : mapping of str to ndarray
        The columns.
    force : bool
        Whether a file may be overwritten.
    notes : mapping, default=None
        What a Parquet file says of its columns to those who read bags from it.
    """
    with replacing(path, force=force) as temporary:
        if path.suffix.lower() in _PARQUET:
            pa = import_extra("pyarrow", extra="io")
            table = pa.table({name: values.tolist() for name, values in columns.items()})
            if notes is not None:
                table = table.replace_schema_metadata({METADATA: json.dumps(notes)})
            import_extra("pyarrow.parquet", extra="io").write_table(table, temporary)
            return
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=_DELIMITERS[path.suffix.lower()])
            rows = zip(*(values.tolist() for values in columns.values()), strict=True)
            for row in itertools.chain([columns], rows):
                writer.writerow([escaped(v) if isinstance(v, str) else v for v in row])

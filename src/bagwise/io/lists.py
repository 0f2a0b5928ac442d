"""Tables with one row per bag, whose features are lists over the instances of the bag."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags, offsets_of
from bagwise.exceptions import FileFormatError, InputError
from bagwise.extras import import_extra
from bagwise.io.columns import Layout, Request, label_bags, listed
from bagwise.io.contents import Contents
from bagwise.io.labels import Column, Grouping
from bagwise.io.memory import Workspace, assign
from bagwise.io.sources import TableSource
from bagwise.labels import plain_array


def read_lists(
    source: TableSource, request: Request, layout: Layout, workspace: Workspace
) -> Contents:
    """Read bags from lists of numbers, one column per feature, or from one list of vectors."""
    features = layout.features
    vectors = source.kind(features[0]) == "vectors"
    if (vectors and len(features) > 1) or any(source.kind(n) == "vectors" for n in features[1:]):
        raise FileFormatError(
            f"the columns {listed(features)} must be lists of numbers, one per feature, or one "
            "list of vectors: select them with features=[...]."
        )
    sizes = np.concatenate(
        [_lengths(lists, features[0], start) for start, lists in _batches(source, features[0])]
    )
    rows = _one_row_per_bag(source, layout.roles["bag"], len(sizes))
    offsets = offsets_of(sizes)
    width = _vector_width(source, features[0]) if vectors else len(features)
    dtype = request.dtype or source.dtype(features)
    instances = workspace.empty((int(offsets[-1]), width), dtype)
    for j, name in enumerate(features):
        for start, lists in _batches(source, name):
            stop = start + len(lists)
            part = instances[offsets[start] : offsets[stop]]
            _check_sizes(lists, sizes[start:stop], rows, start, name)
            if vectors:
                assign(part, _matrix(source, lists, part.shape, name))
            else:
                assign(part[:, j], source.numbers(lists.flatten()))
    ids = rows.ids if layout.roles["bag"] is not None and source.notes.get("ids", True) else None
    names = _feature_names(source, features, width if vectors else None)
    bags = Bags(instances, offsets, ids, feature_names=names)
    labels = _instance_labels(source, layout.roles["instance_label"], sizes, rows)
    return label_bags(bags, source, request, layout, rows, labels)


def _batches(source: TableSource, name: str) -> Iterator[tuple[int, Any]]:
    """Yield blocks of bags of a list column, with the first bag of each block."""
    start = 0
    for batch in source.batches([name], source.rows_per_batch()):
        yield start, batch.column(name)
        start += batch.num_rows
    if start == 0:
        raise FileFormatError("the table has no rows: there is nothing to make bags of.")


def _one_row_per_bag(source: TableSource, name: str | None, n_bags: int) -> Grouping:
    """One group per row, named by the bag column if there is one."""
    ids = np.arange(n_bags)
    if name is not None:
        column = source.column(name, "bag")
        if (column.codes < 0).any():
            row = np.flatnonzero(column.codes < 0)[0]
            raise InputError(f"row {row} has no bag: the bag column {name!r} is empty there.")
        if len(column.values) < n_bags:
            twice = int(np.flatnonzero(np.bincount(column.codes) > 1)[0])
            first, second = np.flatnonzero(column.codes == twice)[:2]
            raise InputError(
                f"the bag {column.values[twice]!r} stands in rows {first} and {second}: in a table "
                "of lists a row is a bag. If a row is an instance with a vector of features, make "
                "the column a list of fixed size."
            )
        ids = plain_array(column.values)
    rows = np.arange(n_bags)
    return Grouping(rows, rows, np.arange(n_bags + 1), ids)


def _lengths(lists: Any, name: str, start: int = 0) -> NDArray[np.int64]:
    if lists.null_count:
        row = start + int(np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"row {row} has nothing in the column {name!r}: expected a list, empty for an empty "
            "bag."
        )
    compute = import_extra("pyarrow.compute", extra="io")
    lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, dtype=np.int64)


def _check_sizes(
    lists: Any, sizes: NDArray[np.int64], rows: Grouping, start: int, name: str
) -> None:
    lengths = _lengths(lists, name, start)
    odd = np.flatnonzero(lengths != sizes)
    if len(odd):
        i = int(odd[0])
        raise InputError(
            f"{rows.name_of(start + i)} has lists of different lengths: {lengths[i]} values in the "
            f"column {name!r}, where others have {sizes[i]}."
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


def _matrix(source: TableSource, lists: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    vectors = lists.flatten()
    if np.any(_lengths(vectors, name) != shape[1]):
        raise InputError(
            f"the vectors in the column {name!r} have different lengths: expected {shape[1]} "
            "numbers for every instance."
        )
    return source.numbers(vectors.flatten()).reshape(shape)


def _feature_names(source: TableSource, features: list[str], width: int | None) -> list[str] | None:
    if width is None:
        return features
    if "feature_names" in source.notes:
        names: list[str] | None = source.notes["feature_names"]
        return names
    return [f"{features[0]}_{j}" for j in range(width)]


def _instance_labels(
    source: TableSource, name: str | None, sizes: NDArray[np.int64], rows: Grouping
) -> Column | None:
    if name is None:
        return None
    lists = source.read([name]).column(0).combine_chunks()
    if not hasattr(lists.type, "value_type") or not hasattr(lists, "flatten"):
        raise InputError(f"the column {name!r} must hold a list of instance labels for each bag.")
    _check_sizes(lists, sizes, rows, 0, name)
    return source.coded(lists.flatten())

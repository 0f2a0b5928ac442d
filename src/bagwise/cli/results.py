"""Columns that a command copies from the file to its results: positions, and those of --keep."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bagwise.exceptions import InputError
from bagwise.io._contents import Contents
from bagwise.labels import plain_array


def with_places(table: Mapping[str, Any], data: Contents) -> dict[str, Any]:
    """Add the positions of instances to a table: coordinates, the slide, the times of a clip.

    Parameters
    ----------
    table : mapping of str to ndarray
        Columns with a value per instance; the first two are the bag and the row.
    data : Contents
        The contents of the file.

    Returns
    -------
    dict of str to ndarray
    """
    places = _kept(table, data)
    if data.clips is not None:
        files = {} if data.clips.file is None else {"file": np.array(data.clips.file)}
        places |= {**files, "start": data.clips.start, "end": data.clips.end}
    if data.coords is not None:
        flat = data.coords.reshape(len(data.coords), -1)
        n_axes = flat.shape[1]
        axes = "xyz"[:n_axes] if n_axes <= 3 else [f"coord_{j}" for j in range(n_axes)]
        places |= dict(zip(axes, flat.T, strict=True))
    (bag, ids), (row, rows), *others = table.items()
    return {bag: ids, row: rows} | places | dict(others)


def kept_of_bags(table: Mapping[str, Any], data: Contents) -> dict[str, Any]:
    """Add the columns to keep to the results of bags, after their ids.

    A column that varies inside a bag shows the value of the key instance, as ``key_<name>``, if
    the results name one; otherwise it is only in the results of instances.

    Parameters
    ----------
    table : mapping of str to ndarray
        The results, a row per bag.
    data : Contents
        The contents of the file.

    Returns
    -------
    dict of str to ndarray
    """
    kept, bags, first = _kept(table, data), data.bags, data.bags.offsets[:-1]
    if not (bags.sizes > 0).all():
        return dict(table)
    found: dict[str, Any] = {}
    for name, column in kept.items():
        per_bag = column[first]
        if (column == per_bag[bags.bag_index]).all():
            found[name] = per_bag
        elif "key_instance" in table and f"key_{name}" not in table:
            found[f"key_{name}"] = column[first + table["key_instance"]]
    (bag, ids), *others = table.items()
    return {bag: ids} | found | dict(others)


def _kept(table: Mapping[str, Any], data: Contents) -> dict[str, Any]:
    """The columns to keep; an error if the results already use one of their names."""
    for name in data.columns:
        if name in table:
            raise InputError(
                f"the column {name!r} cannot be kept: the results have a column of that name. "
                "Rename it in the file."
            )
    return {name: plain_array(values) for name, values in data.columns.items()}

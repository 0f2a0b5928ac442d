"""NumPy archives (npz), the format of the shipped data sets.

Keys: ``X`` (instances x features) or the parts of a sparse matrix (``X_data``, ``X_indices``,
``X_indptr``, ``X_shape``); ``bag`` (bag of each instance) and/or ``offsets``, neither if every
row is a bag; ``y`` or ``Y`` (bags x classes, 0/1, -1 if unknown; the bounds of counts are an array
of bags x classes x 2);
``instance_labels``, ``classes``, ``ids``, ``feature_names``, ``coords``; ``bag_columns`` (the
names of the columns of bags), ``bag_column_0``, ... (their values) and ``group_name`` (the name of
the one with the groups). Any other key goes to `extras`. Nothing is unpickled.
"""

import math
import os
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.memory import require_memory
from bagwise._common.tables import is_range
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags, group_rows, offsets_of
from bagwise.exceptions import FileFormatError, InputError
from bagwise.io._contents import Contents, check_contents, find_suspects
from bagwise.io._files import Request, Workspace, listed
from bagwise.labels import plain_array

_KEYS = {"bag": "bag", "label": "y", "label_set": "Y", "instance_label": "instance_labels"}
_PARTS = ("X_data", "X_indices", "X_indptr", "X_shape")
_OTHERS = ("offsets", "ids", "feature_names", "coords", "classes", "y_unknown", "bag_columns")
_OURS = {"X", *_PARTS, *_OTHERS}


def read_npz(path: Path, request: Request, workspace: Workspace) -> Contents:
    """Read bags from a NumPy archive; large arrays are memory-mapped."""
    # numpy.load leaves a damaged file open if it opened it.
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        read = partial(_array, path, archive, workspace.limit)
        for role, key in request.roles.items():
            if key is not None and key not in archive.files:
                raise InputError(
                    f"{path} has no array {key!r} for {role}=: there are {listed(archive.files)}."
                )
        keys = {usual: request.roles.get(role) or usual for role, usual in _KEYS.items()}
        known = {name: read(keys.get(name, name)) for name in (*keys, *_OTHERS)}
        ours = {*_OURS, *keys.values()}
        columns = {}
        if known["bag_columns"] is not None:
            ours |= {"group_name", *(f"bag_column_{j}" for j in range(len(known["bag_columns"])))}
            for j, name in enumerate(known["bag_columns"].tolist()):
                columns[name] = read(f"bag_column_{j}")
        group = read("group_name") if columns else None
        extras = {name: read(name) for name in archive.files if name not in ours}
        instances = _instances(read, archive.files)
    names = known["feature_names"]
    features = None if names is None else [str(name) for name in names]
    offsets, ids, rows = _bags_of(known, instances.shape[0])
    instances, features = _select(instances, features, rows, request, workspace)
    if rows is not None:
        known |= _reordered({name: known[name] for name in ("instance_labels", "coords")}, rows)
        extras = _reordered(extras, rows)
    y, unknown = known["y"], known["y_unknown"]
    if y is not None and unknown is not None:
        y = y.astype(object)
        y[unknown.astype(bool)] = None
    bags = Bags(instances, offsets, ids, feature_names=features)
    contents = check_contents(
        bags if rows is None else bags.ordered_by(rows),
        y=y,
        label_sets=known["Y"],
        instance_labels=known["instance_labels"],
        classes=known["classes"] if request.classes is None else request.classes,
        coords=known["coords"],
        extras=extras,
    )
    if request.features is None:
        find_suspects(contents, features or ())
    n_bags, named = len(contents.bags), [request.group] if request.group else []
    for name in {*request.bag_columns, *named} - columns.keys():
        if name not in extras or extras[name].shape != (n_bags,):
            raise InputError(f"{path} has no array {name!r} with a value per bag: use labels=.")
        columns[name] = extras[name]
    if columns:
        group = request.group or (None if group is None else str(group))
        contents.bags = contents.bags.with_columns(columns, groups=group)
    return contents


def write_npz(path: Path, contents: Contents, *, compress: bool) -> None:
    """Write bags as a NumPy archive that `numpy.load` opens without pickle."""
    bags, labels = contents.bags, contents.labels
    arrays: dict[str, Any] = dict(contents.extras)
    clash = sorted(arrays.keys() & {*_OURS, *_KEYS.values()})
    if clash:
        raise InputError(f"the extra array {clash[0]!r} has a name bagwise uses: rename it.")
    if sparse.issparse(bags.instances):
        matrix = bags.instances
        parts = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape))
        arrays |= dict(zip(_PARTS, parts, strict=True))
    else:
        arrays["X"] = bags.instances
    arrays |= {"bag": bags.bag_index, "offsets": bags.offsets, "ids": bags.ids}
    arrays["feature_names"] = bags.feature_names
    if bags.columns:
        arrays |= {"bag_columns": [*bags.columns], "group_name": bags.group_name}
        arrays |= {f"bag_column_{j}": v for j, v in enumerate(bags.columns.values())}
    if labels is not None:
        arrays["y"], unknown = labels.values, ~labels.known
        if unknown.any() and unknown.all():
            arrays["y"] = np.full(len(labels), np.nan)
        elif unknown.any() and labels.classes.dtype.kind != "f":  # else they are NaN
            arrays["y"] = labels.classes[np.maximum(labels.codes, 0)]
            arrays["y_unknown"] = unknown
    sets = contents.label_sets
    known = contents.to_bunch().label_sets if sets is None or sets.kind == "sets" else sets.bounds
    arrays |= {"Y": known, "instance_labels": contents.instance_labels}
    arrays |= {"classes": contents.classes, "coords": contents.coords}
    storable = {name: _storable(name, v) for name, v in arrays.items() if v is not None}
    save = np.savez_compressed if compress else np.savez
    with open(path, "wb") as file:
        save(file, allow_pickle=False, **storable)


def _array(path: Path, archive: Any, limit: int, name: str) -> Any:
    """An array of an archive, mapped if it is uncompressed and large; None if it is absent."""
    if name not in archive.files:
        return None
    info = archive.zip.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
        remedy = "write the file uncompressed (compress=False)"
        require_memory(info.file_size, purpose=f"the array {name!r} of {path}", remedy=remedy)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size <= limit:
        return archive[name]
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)  # of the lengths of the name and of an extra field
        file.seek(int(np.frombuffer(file.read(4), "<u2").sum(dtype=np.int64)), os.SEEK_CUR)
        start = file.tell()
        is_first = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0
        read = read if is_first else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        end = file.tell() + dtype.itemsize * math.prod(shape)
        if dtype.hasobject or end - start != info.file_size:
            raise FileFormatError(f"{path}: {name!r} is damaged, or an array of Python objects.")
        return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def _instances(read: Callable[[str], Any], names: list[str]) -> Any:
    if "X" in names:
        return read("X")
    parts = list(map(read, _PARTS))
    if any(part is None for part in parts):
        raise FileFormatError(
            f"no instances: expected an array X, or {', '.join(_PARTS)}; there are {listed(names)}."
        )
    *arrays, shape = parts
    matrix = sparse.csr_array(tuple(arrays), shape=tuple(shape.tolist()))
    matrix.check_format(full_check=True)
    return matrix


def _bags_of(
    known: dict[str, Array | None], n_instances: int
) -> tuple[Array, Array | None, Ints | None]:
    """Offsets, ids, and the order that groups the rows by bag (None if they are grouped)."""
    bag, offsets, ids = known["bag"], known["offsets"], known["ids"]
    if offsets is not None:
        return offsets, ids, None
    if bag is None:
        return np.arange(n_instances + 1), ids, None
    if bag.shape != (n_instances,):
        raise FileFormatError(f"bag has shape {bag.shape} for {n_instances} instances.")
    counts = [len(v) for v in (ids, known["y"], known["Y"]) if v is not None and v.ndim]
    n_bags = counts[0] if counts else len(np.unique(bag))
    if bag.dtype.kind in "iu" and bag.size and bag.min() >= 0 and bag.max() < n_bags:
        order = np.argsort(bag, kind="stable")  # positions of bags, some perhaps empty
        offsets = offsets_of(np.bincount(bag, minlength=n_bags))
    else:
        order, offsets, ids = group_rows(bag)
    if len(offsets) != n_bags + 1:
        raise FileFormatError(
            f"bag names {len(offsets) - 1} bags, while there are labels or ids for {n_bags}."
        )
    return offsets, ids, None if is_range(order) else order


def _select(
    instances: Any, names: list[str] | None, rows: Ints | None, request: Request, space: Workspace
) -> tuple[Any, list[str] | None]:
    """The instances with the requested rows, columns and type; a copy only if needed."""
    columns = None
    if request.features is not None or request.exclude:
        if names is None:
            raise InputError("the file has no feature_names for features= and exclude=.")
        wanted = list(names if request.features is None else request.features)
        for odd in [name for name in [*wanted, *request.exclude] if name not in names][:1]:
            raise InputError(f"there is no feature {odd!r}: the features are {listed(names)}.")
        place = {name: j for j, name in enumerate(names)}
        columns = np.array([place[n] for n in wanted if n not in request.exclude], dtype=np.int64)
        names = [names[j] for j in columns]
    if rows is None and columns is None and request.dtype in (None, instances.dtype):
        return instances, names
    if instances.ndim != 2:
        raise FileFormatError(f"X has shape {instances.shape}: expected instances x features.")
    return space.copy(instances, rows=rows, columns=columns, dtype=request.dtype), names


def _reordered(arrays: dict[str, Array | None], rows: Ints) -> dict[str, Any]:
    """Reorder values per instance with their rows; return others unchanged."""
    return {
        name: values[rows] if values is not None and values.shape[:1] == rows.shape else values
        for name, values in arrays.items()
    }


def _storable(name: str, values: Any) -> Array:
    array = plain_array(values if isinstance(values, list) else np.asarray(values))
    if array.dtype.kind not in "biufcUSmM":
        raise InputError(
            f"{name} mixes types ({array[:3].tolist()} ...): use only integers, or only strings."
        )
    return array

"""NumPy archives (npz), the format of the shipped data sets.

Keys: ``X`` (instances x features) or the parts of a sparse matrix (``X_data``, ``X_indices``,
``X_indptr``, ``X_shape``); ``bag`` (bag of each instance) and/or ``offsets``, neither if every
row is a bag; ``y`` or ``Y`` (bags x classes, 0/1, a row of -1 if unknown);
``instance_labels``, ``classes``, ``ids``, ``feature_names``, ``coords``. Any other key goes
to `extras`. Nothing is unpickled.
"""

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from bagwise._common.files import npy_header
from bagwise._common.types import Array, Bools, Ints
from bagwise.bags import Bags, group_rows, offsets_of
from bagwise.compute.mapped import release_pages
from bagwise.exceptions import FileFormatError, InputError
from bagwise.io._columns import Request
from bagwise.io._contents import Contents, check_contents
from bagwise.io._data_warnings import find_suspects
from bagwise.io._files import listed
from bagwise.io._memory import Workspace
from bagwise.labels import Labels, plain_array

_KEYS = {"bag": "bag", "label": "y", "label_set": "Y", "instance_label": "instance_labels"}
_PARTS = ("X_data", "X_indices", "X_indptr", "X_shape")
_OURS = {"X", *_PARTS, "offsets", "ids", "feature_names", "coords", "classes", "y_unknown"}
_CHUNK = 2**24


def read_npz(path: Path, request: Request, workspace: Workspace) -> Contents:
    """Read bags from a NumPy archive; large arrays are memory-mapped."""
    with zipfile.ZipFile(path) as archive:
        members = _Members(path, archive, workspace)
        keys = {usual: request.roles.get(role) or usual for role, usual in _KEYS.items()}
        for role, key in request.roles.items():
            if key is not None and key not in members.names:
                raise InputError(
                    f"{path} has no array {key!r} for {role}=: there are {listed(members.names)}."
                )
        known = {usual: members.get(key) for usual, key in keys.items()}
        known |= {key: members.get(key) for key in ("ids", "offsets", "coords", "y_unknown")}
        others = [n for n in members.names if n not in _OURS and n not in keys.values()]
        extras = {name: members[name] for name in others}
        instances = _instances(members)
        classes = members.get("classes") if request.classes is None else request.classes
        names = members.get("feature_names")
    features = None if names is None else [str(name) for name in names]
    offsets, ids, rows = _bags_of(known, instances.shape[0])
    instances, features = _select(instances, features, rows, request, workspace)
    if rows is not None:
        known["instance_labels"] = _reordered(known["instance_labels"], rows)
        known["coords"] = _reordered(known["coords"], rows)
        extras = {name: _reordered(values, rows) for name, values in extras.items()}
    contents = check_contents(
        Bags(instances, offsets, ids, feature_names=features),
        y=_with_unknown(known["y"], known["y_unknown"]),
        label_sets=known["Y"],
        instance_labels=known["instance_labels"],
        classes=classes,
        coords=known["coords"],
        extras=extras,
    )
    if request.features is None:
        find_suspects(contents, features or ())
    if request.group is not None:
        contents.groups = extras.get(request.group)
        if contents.groups is None or contents.groups.shape != (len(contents.bags),):
            raise InputError(
                f"{path} has no array {request.group!r} with a value per bag: give a table of bags "
                "and groups with labels=."
            )
    return contents


def write_npz(path: Path, contents: Contents, *, compress: bool) -> None:
    """Write bags as a NumPy archive that `numpy.load` opens without pickle."""
    bags = contents.bags
    arrays: dict[str, Any] = dict(contents.extras)
    clash = sorted(set(arrays) & (_OURS | set(_KEYS.values())))
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
    arrays["y"], arrays["y_unknown"] = _without_unknown(contents.labels)
    arrays |= {"Y": contents.to_bunch().label_sets, "instance_labels": contents.instance_labels}
    arrays |= {"classes": contents.classes, "coords": contents.coords}
    storable = {name: _storable(name, v) for name, v in arrays.items() if v is not None}
    save = np.savez_compressed if compress else np.savez
    with open(path, "wb") as file:
        save(file, allow_pickle=False, **storable)


class _Members:
    """The arrays of an archive, checked before they are read, and mapped if large."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, workspace: Workspace) -> None:
        self._path, self._archive, self._workspace = path, archive, workspace
        self._infos = {
            info.filename.removesuffix(".npy"): info
            for info in archive.infolist()
            if info.filename.endswith(".npy")
        }
        self.names = list(self._infos)

    def get(self, name: str) -> Array | None:
        """The array with this name, or None."""
        return self[name] if name in self._infos else None

    def __getitem__(self, name: str) -> Array:
        info = self._infos[name]
        with self._archive.open(info) as file:
            shape, fortran, dtype = npy_header(file)
            n_bytes = dtype.itemsize * int(np.prod(shape, dtype=object))
            start = file.tell()
            if dtype.hasobject:
                raise FileFormatError(
                    f"{self._path}: the array {name!r} holds Python objects, which are never "
                    "loaded. Save texts as a unicode array."
                )
            if start + n_bytes != info.file_size:
                raise FileFormatError(f"{self._path}: the array {name!r} is damaged.")
            if n_bytes > self._workspace.limit and info.compress_type == zipfile.ZIP_STORED:
                offset = _data_offset(self._path, info) + start
                order: Any = "F" if fortran else "C"
                return np.memmap(self._path, dtype, "r", offset, shape, order)
            return self._filled(file, shape[::-1] if fortran else shape, dtype, fortran)

    def _filled(
        self, file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], fortran: bool
    ) -> Array:
        array = self._workspace.empty(shape, dtype)
        flat = array.reshape(-1)
        step = max(1, _CHUNK // max(dtype.itemsize, 1))
        for start in range(0, flat.size, step):
            part = flat[start : start + step]
            data = file.read(part.nbytes)
            part[...] = np.frombuffer(data, dtype, count=part.size)
            release_pages(array)
        file.read()  # zipfile verifies the checksum at the end
        return array.T if fortran else array


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Position of the bytes of a stored member: after its local header, name and extra field."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)
        name_and_extra = np.frombuffer(file.read(4), "<u2")
    return info.header_offset + 30 + int(name_and_extra.sum(dtype=np.int64))


def _instances(members: _Members) -> Any:
    if "X" in members.names:
        return members["X"]
    if all(name in members.names for name in _PARTS):
        data, indices, indptr, shape = (members[name] for name in _PARTS)
        matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
        return matrix
    raise FileFormatError(
        f"no instances: expected an array X (instances x features), or {', '.join(_PARTS)}; there "
        f"are {listed(members.names)}."
    )


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
    is_index = bag.dtype.kind in "iu" and bag.size and bag.min() >= 0 and bag.max() < n_bags
    if not is_index:
        order, offsets, ids = group_rows(bag)
        if len(ids) != n_bags:
            raise FileFormatError(
                f"bag names {len(ids)} bags, while there are labels or ids for {n_bags}."
            )
        return offsets, ids, order
    offsets = offsets_of(np.bincount(bag, minlength=n_bags))
    together = bool(np.all(bag[:-1] <= bag[1:]))
    return offsets, ids, None if together else np.argsort(bag, kind="stable")


def _select(
    instances: Any, names: list[str] | None, rows: Ints | None, request: Request, space: Workspace
) -> tuple[Any, list[str] | None]:
    """The instances with the requested rows, columns and type; a copy only if needed."""
    columns = None
    if request.features is not None or request.exclude:
        if names is None:
            raise InputError("the file has no feature_names for features= and exclude=.")
        wanted = list(names if request.features is None else request.features)
        odd = [name for name in [*wanted, *request.exclude] if name not in names]
        if odd:
            raise InputError(f"there is no feature {odd[0]!r}: the features are {listed(names)}.")
        place = {name: j for j, name in enumerate(names)}
        columns = np.array([place[n] for n in wanted if n not in request.exclude], dtype=np.int64)
        names = [names[j] for j in columns]
    if rows is None and columns is None and request.dtype in (None, instances.dtype):
        return instances, names
    if instances.ndim != 2:
        raise FileFormatError(f"X has shape {instances.shape}: expected instances x features.")
    if not sparse.issparse(instances):
        return space.copy(instances, dtype=request.dtype, rows=rows, columns=columns), names
    instances = instances if rows is None else instances[rows]
    instances = instances if columns is None else instances[:, columns]
    return instances.astype(request.dtype or instances.dtype), names


def _reordered(values: Array | None, rows: Ints) -> Any:
    """Reorder per-instance values with their rows; return others unchanged."""
    return values[rows] if values is not None and values.shape[:1] == rows.shape else values


def _without_unknown(labels: Labels | None) -> tuple[Array | None, Bools | None]:
    """The labels as an array, and a mask of the unknown ones; NaN needs no mask."""
    if labels is None:
        return None, None
    if labels.classes.dtype.kind == "f" or labels.known.all():
        return labels.values, None
    if not labels.known.any():
        return np.full(len(labels), np.nan), None
    return labels.classes[np.maximum(labels.codes, 0)], ~labels.known


def _with_unknown(y: Array | None, unknown: Array | None) -> Array | None:
    if y is None or unknown is None:
        return y
    labels = y.astype(object)
    labels[unknown.astype(bool)] = None
    return labels


def _storable(name: str, values: Any) -> Array:
    array = plain_array(values if isinstance(values, list) else np.asarray(values))
    if array.dtype.kind not in "biufcUSmM":
        raise InputError(
            f"{name} mixes types or holds Python objects ({array[:3].tolist()} ...), which an npz "
            "file cannot store without pickle: use only integers, or only texts."
        )
    return array

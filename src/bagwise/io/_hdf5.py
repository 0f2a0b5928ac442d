"""Folders of HDF5 files, one per bag, as TRIDENT and CLAM write them.

A file contains ``features`` (instances x features, or 1 x instances x features) and optionally
``coords``, with the size of the patches as an attribute; its name without the suffix is the id of
the bag. If bagwise wrote the folder, ``bags.json`` contains the rest: labels, the order and the
type of the ids, the names of classes and features.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.files import check_place, temporary_beside
from bagwise._common.tables import StreamedTable, float_type
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InputError,
    OutputExistsError,
    SparseInputError,
)
from bagwise.extras import import_extra
from bagwise.io._columns import Request, listed
from bagwise.io._contents import Contents, check_contents
from bagwise.io._data_warnings import find_suspects
from bagwise.io._files import FORMATS, format_errors
from bagwise.io._memory import Workspace, assign
from bagwise.labels import Labels, plain_array

_SIDECAR = "bags.json"
_VERSION = 1
_BESIDE = ("coords", "instance_labels")  # optional datasets of a file


@dataclass(frozen=True)
class _BagFile:
    """The file of a bag: shape and type of its datasets, and the sizes of patches and slide."""

    path: Path
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype[Any]]
    patch_size: float
    slide_size: tuple[float, float]


def read_hdf5(path: Path, request: Request, workspace: Workspace) -> Contents:
    """Read a folder of HDF5 files, or one of them, as bags.

    Shapes are read first, to check them, and values later. Features above the memory limit stay in
    the files and are read each time they are used; they are copied only if the user gives a folder
    (`scratch`).
    """
    if request.exclude or (request.features is not None and len(request.features) != 1):
        raise InputError(
            "in HDF5 files features= names the one dataset, and exclude= has no meaning."
        )
    named = {**request.roles, "group": request.group, "merge": request.merge}
    for role in [role for role, name in named.items() if name][:1]:
        raise InputError(
            f"{role}= names a column, but HDF5 files have none: give the labels as a dict or a "
            "table with labels=."
        )
    notes = _read_notes(path)
    reader = _Reader((request.features or ["features"])[0], request.allow_external)
    files = [reader.inspect(file) for file in _bag_paths(path, notes)]
    _check_same_shapes(files)
    offsets = _offsets(files)
    names = notes["ids"] if notes else [file.path.stem for file in files]
    ids = None if names is None else plain_array(names)
    columns = notes.get("feature_names")
    dtype = request.dtype or np.result_type(*(f.dtypes["features"] for f in files))
    shape = int(offsets[-1]), files[0].shapes["features"][1]
    tables = _tables_beside_features(files, shape[0])
    in_files = request.cluster is not None or workspace.streams(shape, dtype)
    if not in_files:
        tables["features"] = workspace.empty(shape, dtype)
    for file, start in zip(files if tables else (), offsets.tolist(), strict=False):
        _fill(tables, reader, file, start)
    if request.cluster is not None:
        from bagwise.compute.dask import load_on_workers

        dtype = float_type(dtype)
        load = partial(_read_some, files, reader, dtype, columns)
        features = shape[1], dtype
        bags: Bags = load_on_workers(*request.cluster, load, offsets, features, ids, columns)
    else:
        table = Hdf5Table(files, reader, dtype) if in_files else tables["features"]
        bags = Bags(table, offsets, ids, feature_names=columns)
    contents = check_contents(
        bags,
        y=None if notes.get("y") is None else plain_array(notes["y"]),
        label_sets=_sets(notes, bags),
        instance_labels=tables.get("instance_labels"),
        classes=notes.get("classes") if request.classes is None else request.classes,
        coords=tables.get("coords"),
    )
    if contents.coords is not None:
        contents.patch_sizes = np.array([file.patch_size for file in files])
        contents.slide_sizes = np.array([file.slide_size for file in files])
    find_suspects(contents, ())
    return contents


def _read_notes(path: Path) -> dict[str, Any]:
    sidecar = path / _SIDECAR
    if not sidecar.is_file():
        return {}
    notes = json.loads(sidecar.read_text(encoding="utf-8"))
    if not isinstance(notes, dict) or notes.get("bagwise") != _VERSION:
        raise FileFormatError(f"{sidecar} was not written by this version of bagwise.")
    return notes


def _bag_paths(path: Path, notes: dict[str, Any]) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(p for p in path.iterdir() if _is_hdf5(p))
    if not found:
        deeper = (p for depth in ("*/*", "*/*/*") for p in path.glob(depth))
        inner = sorted({str(p.parent.relative_to(path)) for p in deeper if _is_hdf5(p)})
        hint = ""
        if inner:
            hint = f" These folders in it do: {listed(inner, 5)}. Read the one with the features."
        elif any(path.glob("*.pt")):
            hint = " Its .pt files cannot be read: CLAM writes the same features to h5_files."
        raise DataNotFoundError(f"the folder {str(path)!r} has no .h5 or .hdf5 file.{hint}")
    if not notes:
        for p, other in pairwise(sorted(found, key=lambda file: file.stem)):
            if p.stem == other.stem:
                raise FileFormatError(
                    f"{p} and {other.name} would both be the bag {p.stem!r}: rename or remove one."
                )
        return found
    expected = [path / name for name in notes["files"]]
    for odd in sorted(set(expected) ^ set(found))[:1]:
        raise FileFormatError(
            f"{path / _SIDECAR} and the folder disagree about {odd.name!r}: restore the file, or "
            f"remove {_SIDECAR} to read all files, without labels."
        )
    return expected


def _is_hdf5(path: Path) -> bool:
    return path.name.lower().endswith(FORMATS["hdf5"]) and not path.name.startswith(".")


@dataclass(frozen=True)
class _Reader:
    """Opens the file of a bag, checks its content, and reads the values.

    HDF5 can refer to other files: by an external link, external storage, or a virtual dataset. An
    untrusted file could thus copy any file of the user into the features. Such references are
    rejected before anything is read from them, unless external data are allowed.
    """

    dataset: str
    allow_external: bool

    def inspect(self, path: Path) -> _BagFile:
        """Read shapes and types of a file; a leading axis of length 1 is dropped."""
        h5py = import_extra("h5py", extra="io")
        with format_errors(path), h5py.File(path, "r") as file:
            found = {name: self._found(file, name, path) for name in ("features", *_BESIDE)}
            parts = {name: part for name, part in found.items() if part is not None}
            if "features" not in parts:
                raise FileFormatError(
                    f"{path} has no dataset {self.dataset!r}: there are {listed(file.keys())}. "
                    "Name the one with the features with features=."
                )
            shapes = {name: _shape(part) for name, part in parts.items()}
            if len(shapes["features"]) != 2:
                raise FileFormatError(
                    f"{path}: {self.dataset!r} has shape {parts['features'].shape}: expected "
                    "instances x features."
                )
            if parts["features"].dtype.kind not in "fiub":
                raise FileFormatError(
                    f"{path}: {self.dataset!r} contains {parts['features'].dtype}, not numbers."
                )
            n_instances = shapes["features"][0]
            for name, shape in shapes.items():
                if shape[:1] != (n_instances,):
                    raise FileFormatError(
                        f"{path}: {name} has shape {shape} for {n_instances} instances."
                    )
            dtypes = {name: part.dtype for name, part in parts.items()}
            return _BagFile(path, shapes, dtypes, *_sizes(found["coords"]))

    def values(
        self, bag: _BagFile, names: Iterable[str], rows: slice = slice(None)
    ) -> dict[str, Array]:
        """Read rows of some datasets; raise an error if a shape has changed since `inspect`."""
        h5py = import_extra("h5py", extra="io")
        read = {}
        with format_errors(bag.path), h5py.File(bag.path, "r") as file:
            for name in names:
                part = self._found(file, name, bag.path)
                if part is None or _shape(part) != bag.shapes[name]:
                    raise FileFormatError(
                        f"{bag.path} has changed: {name!r} had shape {bag.shapes[name]}. Read the "
                        "bags again."
                    )
                whole = part.ndim == len(bag.shapes[name])
                read[name] = part[rows] if whole else part[0, rows]
        return read

    def _found(self, file: Any, name: str, path: Path) -> Any:
        """The dataset with this name, or None; rejects data in other files unless allowed."""
        h5py = import_extra("h5py", extra="io")
        name = self.dataset if name == "features" else name
        elsewhere = isinstance(file.get(name, getlink=True), h5py.ExternalLink)
        values = None if elsewhere and not self.allow_external else file.get(name)
        if isinstance(values, h5py.Dataset):
            created = values.id.get_create_plist()
            elsewhere = (
                values.file.filename != file.filename  # through an external link
                or created.get_layout() == h5py.h5d.VIRTUAL
                or created.get_external_count()
            )
        if elsewhere and not self.allow_external:
            raise FileFormatError(
                f"{path}: {name!r} is stored in another file, by a link, external storage or a "
                "virtual dataset. An untrusted file could thus read any file of yours. If you "
                "trust it, call read_bags with allow_external=True, or copy the data into one file "
                "(h5repack)."
            )
        return values if isinstance(values, h5py.Dataset) else None


class Hdf5Table(StreamedTable):
    """The features of all files, one file after the other; read when they are used.

    Parameters
    ----------
    files : list of _BagFile
        The files.
    reader : _Reader
        Opens the files.
    dtype : dtype
        The type of the values that are returned.
    """

    def __init__(self, files: list[_BagFile], reader: _Reader, dtype: np.dtype[Any]) -> None:
        self._files, self._reader, self._offsets = files, reader, _offsets(files)
        super().__init__((int(self._offsets[-1]), files[0].shapes["features"][1]), dtype)

    def read(self, start: int, stop: int) -> Array:
        """Read the rows start:stop."""
        out = np.empty((max(0, stop - start), self.shape[1]), self.dtype)
        i = int(np.searchsorted(self._offsets, start, side="right")) - 1
        at = start
        while at < stop:
            first, last = self._offsets[i : i + 2].tolist()
            end = min(stop, last)
            if end > at:
                rows = slice(at - first, end - first)
                values = self._reader.values(self._files[i], ["features"], rows)["features"]
                assign(out[at - start : end - start], values)
            at, i = end, i + 1
        return out


def _shape(part: Any) -> tuple[int, ...]:
    """The shape of a dataset, without a leading axis of length 1."""
    return part.shape[1:] if part.ndim == 3 and part.shape[0] == 1 else part.shape


def _sizes(coords: Any) -> tuple[float, tuple[float, float]]:
    """Edge of a patch, width and height of a slide in pixels of level 0; NaN if unknown.

    TRIDENT stores them as attributes of its coords; CLAM the sizes at a level, ``patch_size`` and
    ``level_dim``, and its ``downsample``, one number or one per axis.
    """
    attributes = {} if coords is None else coords.attrs

    def number(name: str, place: int = 0) -> float:
        try:
            return float(np.ravel(attributes[name])[place])
        except (KeyError, TypeError, ValueError, IndexError):
            return math.nan

    edge = number("patch_size_level0")
    if "patch_size_level0" not in attributes:
        edge = number("patch_size") * number("downsample")
    sides = number("level0_width"), number("level0_height")
    if math.isnan(sides[0]):
        scale = number("downsample"), number("downsample", -1)
        sides = number("level_dim") * scale[0], number("level_dim", 1) * scale[1]
    known = all(0 < side < math.inf for side in sides)
    return edge if 0 < edge < math.inf else math.nan, sides if known else (math.nan, math.nan)


def _check_same_shapes(files: Sequence[_BagFile]) -> None:
    first = files[0]
    for file in files:
        width, expected = file.shapes["features"][1], first.shapes["features"][1]
        if width != expected:
            raise FileFormatError(
                f"{file.path.name} has {width} features, while {first.path.name} has {expected}: "
                "all bags need the same columns."
            )
        coords, expected_coords = (f.shapes.get("coords", (0, None))[1:] for f in (file, first))
        if coords != expected_coords:
            raise FileFormatError(
                f"{file.path.name} has coords of shape {coords} per instance, while "
                f"{first.path.name} has {expected_coords}."
            )


def _tables_beside_features(files: Sequence[_BagFile], n_instances: int) -> dict[str, Array]:
    """Arrays for the coords and labels of all instances; a file may have no labels."""
    tables = {}
    if "coords" in files[0].shapes:
        dtype = np.result_type(*(f.dtypes["coords"] for f in files))
        tables["coords"] = np.zeros((n_instances, *files[0].shapes["coords"][1:]), dtype)
    if any("instance_labels" in f.shapes for f in files):
        tables["instance_labels"] = np.full(n_instances, -1)
    return tables


def _fill(tables: dict[str, Array], reader: _Reader, file: _BagFile, start: int) -> None:
    """Read the values of a bag into its rows of the tables."""
    with format_errors(file.path):
        for name, values in reader.values(file, tables.keys() & file.shapes.keys()).items():
            assign(tables[name][start : start + len(values)], values)


def _offsets(files: Sequence[_BagFile]) -> Ints:
    return offsets_of([f.shapes["features"][0] for f in files])


def _read_some(
    files: list[_BagFile],
    reader: _Reader,
    dtype: np.dtype[Any],
    columns: list[str] | None,
    first: int,
    last: int,
    ids: Array | None,
) -> Bags:
    """Read the files of some bags, on a Dask worker."""
    table = Hdf5Table(files[first:last], reader, dtype)
    return Bags(table[:], _offsets(files[first:last]), ids, feature_names=columns)


def _sets(notes: dict[str, Any], bags: Bags) -> Array | None:
    """The 0/1 array of sets stored as class indices; null is "unknown"."""
    if notes.get("label_sets") is None:
        return None
    columns = np.arange(notes["n_classes"])
    return Labels.from_sets(notes["label_sets"], columns, name_of=bags.name_of).indicator


# Writing


def write_hdf5(path: Path, contents: Contents, *, compress: bool, force: bool) -> None:
    """Write a folder with one HDF5 file per bag and ``bags.json``, completely or not at all."""
    bags = contents.bags
    if sparse.issparse(bags.instances):
        raise SparseInputError(
            "HDF5 files are dense, but these bags are sparse: write .npz, which keeps them sparse."
        )
    if contents.extras:
        raise InputError("extras cannot be stored in HDF5 files: write .npz.")
    if path.suffix.lower() in FORMATS["hdf5"]:
        raise InputError(
            f"HDF5 is written as a folder with one file per bag, and {path.name!r} is the name of "
            "a file: give the name of a folder, ending in '/'."
        )
    path = Path(os.path.realpath(path))  # write through a link
    _check_folder(path, force=force)
    h5py = import_extra("h5py", extra="io")
    names = _file_names(bags)
    found = {"features": bags.instances, **{name: getattr(contents, name) for name in _BESIDE}}
    datasets = {name: values for name, values in found.items() if values is not None}
    temporary = temporary_beside(path)
    temporary.mkdir()
    if path.exists():  # keep its mode: it may be private
        shutil.copymode(path, temporary)
    try:
        for i, name in enumerate(names):
            with h5py.File(temporary / name, "w") as file:
                for dataset, values in datasets.items():
                    part = values[bags.offsets[i] : bags.offsets[i + 1]]
                    codec = "gzip" if compress and part.size else None  # empty: no chunks
                    file.create_dataset(dataset, data=part, compression=codec)
        notes = json.dumps(_notes(contents, names), indent=1)
        (temporary / _SIDECAR).write_text(notes, encoding="utf-8")
        _move_into_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _notes(contents: Contents, names: list[str]) -> dict[str, Any]:
    bags, sets = contents.bags, contents.label_sets
    notes: dict[str, Any] = {
        "bagwise": _VERSION,
        "files": names,
        "ids": _json_list(bags.ids, "ids"),
        "feature_names": bags.feature_names,
        "classes": _json_list(contents.classes, "classes"),
        "y": None if contents.labels is None else _json_labels(contents.labels),
    }
    if sets is not None:
        notes["n_classes"] = len(sets.classes)
        notes["label_sets"] = [
            np.flatnonzero(row).tolist() if known else None
            for row, known in zip(sets.indicator, sets.known, strict=True)
        ]
    return notes


def _json_labels(labels: Labels) -> list[Any]:
    """The label of each bag; null if it is unknown."""
    names = [*(_json_list(labels.classes, "y") or []), None]  # code -1 selects the last
    return [names[code] for code in labels.codes]


def _json_list(values: Array | None, what: str) -> list[Any] | None:
    if values is None:
        return None
    items = plain_array(values).tolist()
    odd = [v for v in items if not isinstance(v, str | int | float)]
    if odd:
        raise InputError(f"{what} holds {odd[0]!r}: only texts and numbers can be written.")
    return items


def _file_names(bags: Bags) -> list[str]:
    """File name of each bag: its id if that is a safe name, else its position."""
    if bags.ids is not None:
        stems = [str(v) for v in bags.ids.tolist()]
        safe = all(
            re.fullmatch(r"\w[\w .+=-]{0,199}", s, re.ASCII) and s.strip() == s for s in stems
        )
        if safe and len({s.lower() for s in stems}) == len(stems):
            return [f"{s}.h5" for s in stems]
    digits = len(str(max(len(bags) - 1, 0)))
    return [f"bag_{i:0{digits}d}.h5" for i in range(len(bags))]


def _check_folder(path: Path, *, force: bool) -> None:
    exists = path.exists() and not (path.is_dir() and not any(path.iterdir()))
    check_place(path, exists=exists, force=force)
    if not exists:
        return
    if not path.is_dir():
        raise OutputExistsError(f"{path} is a file: remove it, or give another folder.")
    with format_errors(path):
        ours = {_SIDECAR, *_read_notes(path).get("files", ())}
    foreign = sorted(p.name for p in path.iterdir() if p.name not in ours)
    if foreign:
        raise OutputExistsError(
            f"{path} contains files that bagwise did not write and will not delete "
            f"({listed(foreign, 3)}): give another folder."
        )


def _move_into_place(temporary: Path, path: Path) -> None:
    """Rename a finished folder to `path`; delete an older folder only afterwards."""
    if not path.exists():
        os.rename(temporary, path)
        return
    aside = temporary_beside(path, ".old")
    os.rename(path, aside)
    try:
        os.rename(temporary, path)
    except OSError:
        os.rename(aside, path)
        raise
    shutil.rmtree(aside)

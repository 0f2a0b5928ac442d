"""Folders of HDF5 files (or .pt files), one per bag, as TRIDENT and CLAM write them.

A file contains ``features`` (instances x features, or 1 x instances x features) and optionally
``coords``, with the size of the patches as an attribute; its name without the suffix is the id of
the bag. If bagwise wrote the folder, ``bags.json`` contains the rest: labels, the order and the
type of the ids, the names of classes and features.
"""

import contextlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.extras import import_extra
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
from bagwise.io._contents import Contents, check_contents, find_suspects
from bagwise.io._files import FORMATS, Request, Workspace, assign, format_errors, listed
from bagwise.labels import Labels, plain_array

_JOIN = " Join other files, such as a CSV of each recording, to one table: docs/data.md#recordings."
_SIDECAR = "bags.json"
_VERSION = 1
_BESIDE = ("coords", "instance_labels")  # optional datasets of a file


class _BagFile:
    """The file of a bag: shapes and types of its datasets, and the sizes of patches and slide.

    HDF5 can refer to other files: by an external link, external storage, or a virtual dataset. An
    untrusted file could thus copy any file of the user into the features. Such references are
    rejected before anything is read from them, unless external data are allowed.
    A leading axis of length 1 is dropped. `dataset` is the name of the features.
    """

    def __init__(self, path: Path, dataset: str, allow_external: bool) -> None:
        self.path, self.dataset, self.allow_external = path, dataset, allow_external
        with self.open(("features", *_BESIDE)) as parts:
            self.shapes = {name: _shape(part) for name, part in parts.items()}
            self.dtypes = {name: part.dtype for name, part in parts.items()}
            features, dtype = self.shapes["features"], self.dtypes["features"]
            if len(features) != 2 or dtype.kind not in "fiub":
                raise FileFormatError(
                    f"{path}: {dataset!r} has the shape {features} and the type {dtype}: "
                    "expected numbers, instances x features."
                )
            for name, shape in self.shapes.items():
                if shape[:1] != features[:1]:
                    shapes = f"{name} has shape {shape} for {features[0]} instances"
                    raise FileFormatError(f"{path}: {shapes}.")
            attributes = getattr(parts.get("coords"), "attrs", {})
            self.patch_size, self.slide_size = _sizes(attributes)
        self._changed = path.stat().st_mtime_ns

    @contextlib.contextmanager
    def open(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Those of the datasets "features", "coords" and "instance_labels" that exist."""
        with format_errors(self.path), self._file() as file:
            keys = {name: self.dataset if name == "features" else name for name in names}
            found = {name: self._find(file, key) for name, key in keys.items()}
            if "features" in found and found["features"] is None:
                raise FileFormatError(
                    f"{self.path} has no dataset {self.dataset!r}: there are "
                    f"{listed(file.keys())}. Name the one with the features with features=."
                )
            yield {name: part for name, part in found.items() if part is not None}

    def read(self, rows: slice, targets: Mapping[str, Array]) -> None:
        """Read rows of some datasets into arrays."""
        with self.open(targets.keys() & self.shapes.keys()) as parts:
            if self.path.stat().st_mtime_ns != self._changed:
                raise FileFormatError(f"{self.path} has changed: read the bags again.")
            for name, part in parts.items():
                values = part[rows] if part.ndim == len(self.shapes[name]) else part[0, rows]
                assign(targets[name], values)

    def _file(self) -> Any:
        """A context with the datasets of the file by name."""
        return import_extra("h5py", extra="io").File(self.path, "r")

    def _find(self, file: Any, name: str) -> Any:
        """The dataset with this name, or None; rejects data in other files unless allowed."""
        h5py = import_extra("h5py", extra="io")
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
                f"{self.path}: {name!r} is stored in another file, by a link, external storage or "
                "a virtual dataset, which could be any file of yours. If you trust it, call "
                "read_bags with allow_external=True, or copy the data into one file (h5repack)."
            )
        return values if isinstance(values, h5py.Dataset) else None


class _TensorFile(_BagFile):
    """A .pt file with a tensor of features, or a dict of tensors with one of their name.

    Only tensors are read, which runs no code of the file. They are mapped, not read, until used.
    """

    @contextlib.contextmanager
    def _file(self) -> Iterator[dict[str, Array]]:
        torch = import_extra("torch", extra="torch")
        how: Any = {"map_location": "cpu", "weights_only": True}
        try:
            content = torch.load(self.path, mmap=True, **how)
        except RuntimeError:  # of an old version of torch
            content = torch.load(self.path, **how)
        parts = content if isinstance(content, dict) else {self.dataset: content}
        parts = {name: p.detach() for name, p in parts.items() if isinstance(p, torch.Tensor)}
        exact = (p.float() if p.dtype == torch.bfloat16 else p for p in parts.values())
        yield {name: part.numpy() for name, part in zip(parts, exact, strict=True)}

    def _find(self, file: Any, name: str) -> Any:
        return file.get(name)


class Hdf5Table(StreamedTable):
    """The features of all files, one file after the other; read when they are used.

    Parameters
    ----------
    files : list of _BagFile
        The files.
    dtype : dtype
        The type of the values that are returned.
    """

    def __init__(self, files: list[_BagFile], dtype: np.dtype[Any]) -> None:
        self._files, self._offsets = files, _offsets(files)
        super().__init__((int(self._offsets[-1]), files[0].shapes["features"][1]), dtype)

    def read(self, start: int, stop: int) -> Array:
        """Read the rows start:stop."""
        out = np.empty((max(0, stop - start), self.shape[1]), self.dtype)
        first = int(np.searchsorted(self._offsets, start, side="right")) - 1
        last = int(np.searchsorted(self._offsets, stop, side="left"))
        for k in range(first, last):
            begin, end = self._offsets[k : k + 2]
            low, high = max(start, begin), min(stop, end)
            rows, target = slice(low - begin, high - begin), out[low - start : high - start]
            self._files[k].read(rows, {"features": target})
        return out


def read_hdf5(path: Path, request: Request, workspace: Workspace) -> Contents:
    """Read a folder of HDF5 files, or one of them, as bags.

    Shapes are read first, to check them, and values later. Features above the memory limit stay in
    the files and are read each time they are used; they are copied only if the user gives a folder
    (`scratch`).
    """
    if request.exclude or (request.features is not None and len(request.features) != 1):
        raise InputError("in HDF5, features= names the one dataset, and exclude= has no meaning.")
    notes = _read_notes(path)
    columns: dict[str, Any] = notes.get("bag_columns", {})
    given = [("group", request.group), *(("bag_columns", name) for name in request.bag_columns)]
    named = [*request.roles.items(), *((role, n) for role, n in given if n not in columns)]
    named.append(("merge", request.merge))
    for role in [role for role, name in named if name][:1]:
        raise InputError(
            f"{role}= names a column, but HDF5 files have none, each is one bag: give a table to "
            "labels=, and name its columns (in Python also a dict)."
        )
    dataset, external = (request.features or ["features"])[0], request.allow_external
    paths = _bag_paths(path, notes)
    kind = _TensorFile if _is_tensors(paths[0]) else _BagFile
    files = [kind(file, dataset, external) for file in paths]
    _check_same_shapes(files)
    bags, tables = _read_files(files, notes, request, workspace)
    sets = notes.get("label_sets")
    if sets is not None:  # as positions of classes; null is unknown
        sets = Labels.from_sets(sets, range(notes["n_classes"]), name_of=bags.name_of).indicator
    contents = check_contents(
        bags,
        y=None if notes.get("y") is None else plain_array(notes["y"]),
        label_sets=sets,
        classes=notes.get("classes") if request.classes is None else request.classes,
        coords=tables.get("coords"),
        instance_labels=tables.get("instance_labels"),
    )
    if contents.coords is not None:
        contents.patch_sizes = np.array([file.patch_size for file in files])
        contents.slide_sizes = np.array([file.slide_size for file in files])
    find_suspects(contents, ())
    if columns:
        values = {name: plain_array(column) for name, column in columns.items()}
        group = request.group or notes.get("group")
        contents.bags = contents.bags.with_columns(values, groups=group)
    return contents


def _read_files(
    files: list[_BagFile], notes: dict[str, Any], request: Request, workspace: Workspace
) -> tuple[Bags, dict[str, Array]]:
    """The bags, with the coords and labels of their instances if there are any."""
    offsets, width = _offsets(files), files[0].shapes["features"][1]
    names = notes["ids"] if notes else [file.path.stem for file in files]
    ids, columns = None if names is None else plain_array(names), notes.get("feature_names")
    dtype = request.dtype or np.result_type(*(file.dtypes["features"] for file in files))
    tables: dict[str, Array] = {}
    if "coords" in files[0].shapes:
        shape = int(offsets[-1]), *files[0].shapes["coords"][1:]
        tables["coords"] = np.empty(shape, np.result_type(*(f.dtypes["coords"] for f in files)))
    if any("instance_labels" in file.shapes for file in files):
        tables["instance_labels"] = np.full(offsets[-1], -1)  # a file may be without
    if request.cluster is not None:
        bags = request.cluster.load(Hdf5Table(files, float_type(dtype)), offsets, ids, columns)
    else:
        table: Any = Hdf5Table(files, dtype)
        if not workspace.streams(table.shape, dtype):
            table = tables["features"] = workspace.empty((table.shape[0], width), dtype)
        bags = Bags(table, offsets, ids, feature_names=columns)
    if tables:
        for file, (start, stop) in zip(files, pairwise(offsets.tolist()), strict=True):
            file.read(slice(None), {name: part[start:stop] for name, part in tables.items()})
    return bags, tables


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
    found = _of_one_kind(path)
    if not found:
        inner = sorted({p.parent for p in path.glob("*/**/*") if _is_hdf5(p)})
        # TRIDENT and CLAM write features beside masks and coordinates, which are HDF5, too.
        with_features = [p for p in inner if p.name.startswith("features") or p.name == "h5_files"]
        with_features = with_features or [p for p in inner if p.name == "pt_files"]
        if len(with_features) == 1:
            return _of_one_kind(with_features[0])
        shown = [str(p.relative_to(path)) for p in with_features or inner]
        hint = f" These folders in it do, give one: {listed(shown, 5)}." if shown else _JOIN
        raise DataNotFoundError(f"the folder {str(path)!r} has no .h5, .hdf5 or .pt file.{hint}")
    expected = [path / name for name in notes["files"]] if notes else found
    for odd in sorted(set(expected) ^ set(found))[:1]:
        raise FileFormatError(
            f"{path / _SIDECAR} and the folder disagree about {odd.name!r}: restore the file, or "
            f"remove {_SIDECAR} to read all files, without labels."
        )
    return expected


def _of_one_kind(folder: Path) -> list[Path]:
    """The files of bags in a folder; HDF5 files if it has both kinds."""
    found = sorted(p for p in folder.iterdir() if _is_hdf5(p))
    return [p for p in found if not _is_tensors(p)] or found


def _is_tensors(path: Path) -> bool:
    return path.name.lower().endswith(".pt")


def _is_hdf5(path: Path) -> bool:
    return path.name.lower().endswith(FORMATS["hdf5"]) and not path.name.startswith(".")


def _shape(part: Any) -> tuple[int, ...]:
    """The shape of a dataset, without a leading axis of length 1."""
    return part.shape[1:] if part.ndim == 3 and part.shape[0] == 1 else part.shape


def _sizes(attributes: Mapping[str, Any]) -> tuple[float, tuple[float, float]]:
    """Edge of a patch, width and height of a slide in pixels of level 0; NaN if unknown.

    TRIDENT stores them as attributes of its coords; CLAM the sizes at a level, ``patch_size`` and
    ``level_dim``, and its ``downsample``, one number or one per axis.
    """

    def number(name: str, place: int = 0) -> float:
        try:
            return float(np.ravel(attributes[name])[place])
        except (KeyError, TypeError, ValueError, IndexError):
            return math.nan

    edge, sides = number("patch_size_level0"), (number("level0_width"), number("level0_height"))
    scales = number("downsample"), number("downsample", -1)
    if "patch_size_level0" not in attributes:
        edge = number("patch_size") * scales[0]
    if math.isnan(sides[0]):
        sides = number("level_dim") * scales[0], number("level_dim", 1) * scales[1]
    known = all(0 < side < math.inf for side in sides)
    return edge if 0 < edge < math.inf else math.nan, sides if known else (math.nan, math.nan)


def _check_same_shapes(files: Sequence[_BagFile]) -> None:
    """Require the same features, and coords of the same shape in all files or in none."""
    first, *others = (
        {name: shape[1:] for name, shape in file.shapes.items() if name != "instance_labels"}
        for file in files
    )
    for file, shapes in zip(files[1:], others, strict=True):
        if shapes != first:
            raise FileFormatError(
                f"{file.path.name} has instances of other shapes than {files[0].path.name}: "
                f"{shapes} and {first}. All bags need the same features and coords."
            )


def _offsets(files: Sequence[_BagFile]) -> Ints:
    return offsets_of([file.shapes["features"][0] for file in files])


# Writing


def write_hdf5(path: Path, contents: Contents, *, compress: bool, force: bool) -> None:
    """Write a folder with one HDF5 file per bag and ``bags.json``, completely or not at all."""
    bags = contents.bags
    if sparse.issparse(bags.instances):
        raise SparseInputError("HDF5 files are dense, but these bags are sparse: write .npz.")
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
    notes = _notes(contents)
    found = {"features": bags.instances, **{name: getattr(contents, name) for name in _BESIDE}}
    datasets = {name: values for name, values in found.items() if values is not None}
    temporary = temporary_beside(path)
    temporary.mkdir()
    if path.exists():  # keep its mode: it may be private
        shutil.copymode(path, temporary)
    try:
        for name, (start, stop) in zip(notes["files"], pairwise(bags.offsets), strict=True):
            with h5py.File(temporary / name, "w") as file:
                for dataset, values in datasets.items():
                    part = values[start:stop]
                    codec = "gzip" if compress and part.size else None  # empty: no chunks
                    file.create_dataset(dataset, data=part, compression=codec)
        (temporary / _SIDECAR).write_text(json.dumps(notes, indent=1), encoding="utf-8")
        _move_into_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _notes(contents: Contents) -> dict[str, Any]:
    """What the files do not contain."""
    bags, labels, sets = contents.bags, contents.labels, contents.label_sets
    lists = {"ids": bags.ids, "classes": contents.classes}
    notes = {name: None if v is None else plain_array(v).tolist() for name, v in lists.items()}
    notes["y"] = None if labels is None else labels.tolist()
    columns = {name: values.tolist() for name, values in bags.columns.items()}
    for name, values in (notes | columns).items():
        for odd in [v for v in values or () if not isinstance(v, str | int | float | None)][:1]:
            raise InputError(f"{name} has {odd!r}: only strings and numbers can be written.")
    if columns:
        notes |= {"bag_columns": columns, "group": bags.group_name}
    notes |= {"bagwise": _VERSION, "files": _file_names(bags), "feature_names": bags.feature_names}
    if sets is not None:
        positions = Labels("sets", np.arange(len(sets.classes)), indicator=sets.indicator)
        notes["n_classes"] = len(sets.classes)
        notes["label_sets"] = [own if own is None else sorted(own) for own in positions.tolist()]
    return notes


def _file_names(bags: Bags) -> list[str]:
    """File name of each bag: its id if that is a safe name, else its position."""
    stems = [str(name) for name in bags.names.tolist()]
    safe = re.compile(r"\w[\w .+=-]{0,198}[\w.+=-]?", re.ASCII)
    distinct = len({stem.lower() for stem in stems}) == len(stems)
    if bags.ids is None or not distinct or not all(map(safe.fullmatch, stems)):
        digits = len(str(max(len(bags) - 1, 0)))
        stems = [f"bag_{i:0{digits}d}" for i in range(len(bags))]
    return [f"{stem}.h5" for stem in stems]


def _check_folder(path: Path, *, force: bool) -> None:
    """Refuse to replace anything but a folder that bagwise wrote, and that only if `force`."""
    if path.exists() and not path.is_dir():
        raise OutputExistsError(f"{path} is a file: remove it, or give another folder.")
    inside = {p.name for p in path.iterdir()} if path.exists() else set()
    check_place(path, exists=bool(inside), force=force)
    if inside:
        with format_errors(path):
            inside -= {_SIDECAR, *_read_notes(path).get("files", ())}
    if inside:
        raise OutputExistsError(
            f"{path} contains files that bagwise did not write and will not delete "
            f"({listed(sorted(inside), 3)}): give another folder."
        )


def _move_into_place(temporary: Path, path: Path) -> None:
    """Rename a finished folder to `path`; delete an older folder only afterwards."""
    aside, is_new = temporary_beside(path, ".old"), not path.exists()
    if not is_new:
        os.rename(path, aside)
    try:
        os.rename(temporary, path)
    except OSError:
        if not is_new:
            os.rename(aside, path)
        raise
    if not is_new:
        shutil.rmtree(aside)

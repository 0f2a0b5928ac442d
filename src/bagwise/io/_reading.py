"""``read_bags`` and ``write_bags``, for every format."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from bagwise._common.files import replacing
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.exceptions import DataWarning, InputError, LabelError, warn_user
from bagwise.io import _files
from bagwise.io._anndata import is_anndata, read_anndata, read_h5ad
from bagwise.io._contents import (
    Column,
    Contents,
    check_contents,
    constant_in_bags,
    group,
    is_id_name,
    merge_contents,
    suspicion,
    warn_of_labels,
)
from bagwise.io._hdf5 import read_hdf5, write_hdf5
from bagwise.io._npz import read_npz, write_npz
from bagwise.io._table import (
    Source,
    bag_columns,
    find_roles,
    label_bags,
    open_frame,
    open_table,
    read_column,
    read_table,
    require_column,
)
from bagwise.io._write_table import BagTable, write_csv, write_parquet

if TYPE_CHECKING:
    from sklearn.utils import Bunch

_CHANGED = {"features", "exclude", "keep", "dtype", "cluster", "bag_columns"}
_ARGUMENTS = {*_files.Request.__dataclass_fields__} - _CHANGED
_MISSING = ("unlabelled", "drop", "error")
_USUAL_IDS = ("bag", "slide_id", "file", "file_path", "filename", "recording")  # in labels=
_SUFFIXES = {  # of slides and recordings
    *("h5", "hdf5", "pt", "svs", "tif", "tiff", "ndpi", "mrxs", "scn", "vms", "vmu", "svslide"),
    *("bif", "czi", "dcm", "vsi", "isyntax", "sdpc", "zarr", "png", "jpg", "jpeg"),
    *("wav", "flac", "mp3", "ogg", "opus", "m4a", "aac", "aif", "aiff", "wma"),
}


def read_bags(
    source: Any,
    *,
    bag: str | None = None,
    label: str | None = None,
    label_set: str | Sequence[str] | None = None,
    instance_label: str | None = None,
    looked_for: str | None = None,
    features: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
    meta: str | Sequence[str] = (),
    bag_columns: str | Sequence[str] = (),
    groups: str | None = None,
    labels: Any = None,
    missing: str = "unlabelled",
    id_column: str | None = None,
    classes: Sequence[Any] | Array | None = None,
    separator: str = ";",
    dtype: DTypeLike | None = None,
    format: str | None = None,
    memory_limit: int | float | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    client: Any = None,
    npartitions: int | None = None,
    allow_external: bool = False,
    use_rep: str | None = None,
) -> Bunch:
    """Read bags and their labels from a file, a folder or a data frame.

    Parameters
    ----------
    source : path, data frame or AnnData
        - ``.csv``, ``.tsv`` (also ``.gz``), or a data frame of pandas, polars or pyarrow: one row
          per instance, in any order, with a column of bag ids.
        - ``.parquet``: the same; or one row per bag, where each feature is a list of numbers, or
          one column has a list of vectors. A column of vectors of fixed size in a table with one
          row per instance is read as several features.
        - ``.npz``: arrays ``X``, ``bag``, ``y`` or ``Y``, ``instance_labels``, ``classes``; sparse
          instances as ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape``.
        - a folder of ``.h5`` files (or one of them), one per bag, as TRIDENT and CLAM write:
          ``features`` and optionally ``coords``; the file name is the id of the bag. Also the
          folder of a TRIDENT job, if it has the features of one encoder, and ``.pt`` files with a
          tensor, or a dict of tensors.
        - an AnnData object or ``.h5ad`` file: the columns are those of ``obs``, and the features a
          table of ``obsm``, or ``X`` (see `use_rep`).
        - files of BirdNET-Analyzer and Perch-Hoplite become a table by
          `bagwise.apps.audio.read_recordings`: a recording is a bag, and its clips are the
          instances.
    bag, label, label_set, instance_label : str, default=None
        The columns (npz: arrays) with the bag of a row, the label of its bag, the label set of its
        bag (``"a;b;c"``; an empty string is the empty set, a missing value is an unknown set: in a
        CSV file ``""`` and an empty field) and the label of the row itself. By default the columns
        of these names, if they exist (npz: ``bag``, ``y``, ``Y``, ``instance_labels``). A list of
        names as `label_set` are columns with what is known of one label each: ``1``, ``yes`` or
        ``present``; ``0``, ``no`` or ``absent``; empty if unknown; or the number of its instances,
        ``3``, ``3+``, ``2-5`` or ``40%``.
    looked_for : str, default=None
        The column with the labels that were looked for in a bag, written as in `label_set`. Other
        labels are unknown if they are not in the label set. Empty: all were looked for.
    features : str or sequence of str, default=None
        The feature columns, in this order. By default all remaining columns that are not excluded;
        all must be numeric. Ids (``patch_id``, ``index``) and times of clips (``start``, ``end``)
        are recognised by their names and values and are left out. In HDF5 the name of the dataset.
    exclude : str or sequence of str, default=()
        Columns to leave out.
    meta : str or sequence of str, default=()
        Columns to keep besides the instances, such as the patient or a file name: they are never
        features. Those that the table does not have are taken from the table `labels`.
    bag_columns : str or sequence of str, default=()
        Columns with one value per bag, such as age and site, which become ``bags.columns``: never
        features. They may be in the table `labels`. What `write_bags` stored is read by default,
        except from CSV.
    groups : str, default=None
        The column with the group of each bag, such as its patient, which becomes ``bags.groups``:
        folds keep groups together. It may be in the table `labels`.
    labels : dict, path or data frame, default=None
        Labels from another source: ``{bag id: label}``, or a table with a bag column and a label or
        label-set column. Bags are matched by their ids as strings; ``slide_08.svs`` is also the bag
        ``slide_08``. None is an unknown label.
    missing : {"unlabelled", "drop", "error"}, default="unlabelled"
        What to do with bags without an entry in `labels`: read them as unlabelled, with a warning;
        leave them out; raise an error. It is always an error if `labels` has no entry for any bag.
    id_column : str, default=None
        The column of the table `labels` with the ids of the bags. By default `bag`, or a column
        called ``bag`` or ``slide_id``.
    classes : sequence, default=None
        The classes, if not all of them occur in the label sets or instance labels.
    separator : str, default=";"
        Separator of the labels of a set.
    dtype : dtype, default=None
        The type of the instances. By default the type of the file; in CSV files 64-bit floats.
    format : {"csv", "tsv", "parquet", "npz", "hdf5"}, default=None
        The format, if the suffix does not determine it.
    memory_limit : int or str, default=None
        Instances larger than this (bytes, or ``"2GB"``) are streamed into a memory-mapped file; an
        uncompressed npz is mapped in place (a compressed one must fit into memory), and HDF5 files
        are read each time they are used, unless `scratch` is given. Half of the available memory by
        default.
    scratch : path, default=None
        The folder for memory-mapped files, which are then kept. By default they are temporary and
        deleted with the last array that refers to them.
    client : distributed.Client, default=None
        Client of the Dask workers that get the bags. The workers read HDF5 files, Parquet files in
        which the rows of a bag are contiguous, and memory-mapped files, if they can access them
        (use a `scratch` on a shared file system). Other data are sent to them.
    npartitions : int, default=None
        Number of partitions; one per worker by default.
    allow_external : bool, default=False
        Whether an HDF5 file may include data of other files, by external links, external storage
        or virtual datasets. Allow it only for files that you trust: they can refer to any file that
        you can read.
    use_rep : str, default=None
        The features of an AnnData object: a key of ``obsm``, or "X". By default ``X_pca`` if it
        exists, else ``X``.

    Returns
    -------
    Bunch
        ``bags`` (`Bags`), ``y`` (a label per bag; missing ones are None, or NaN among numbers),
        ``label_sets`` (0/1 array, bags x classes, -1 where unknown; `bagwise.labels.LabelCounts` if
        numbers of instances are known), ``instance_labels``
        (indices into ``classes``, or the integers of the file when there are no classes; -1
        unknown), ``classes``, ``feature_names``, ``coords``, ``patch_sizes`` and ``slide_sizes``
        (of each HDF5 file, in the unit of ``coords``; NaN unknown), ``meta`` (a dict with the
        columns of `meta`, a value per instance), ``extras`` (other arrays of an npz file) and
        ``clips`` (``start``, ``end`` and ``file`` of each instance, if a table has such columns:
        they are not features); None if absent.

    Raises
    ------
    DataNotFoundError
        If there is no such file.
    FileFormatError
        If the file is damaged or has another format.
    InputError
        If a column is missing, ambiguous or not numeric.
    LabelError
        If labels contradict each other inside a bag, or do not match the classes.

    Warns
    -----
    DataWarning
        About probable mistakes: features that have one value in every bag, as labels have; a column
        without a name, labels that differ only by case or spaces, bags without a label.

    See Also
    --------
    write_bags : Write bags to a file.
    bagwise.Bags.from_frame : Bags alone, from a data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from bagwise.io import read_bags
    >>> frame = pd.DataFrame(
    ...     {"slide": ["s1", "s2", "s1"], "tumour": [True, False, True], "red": [0.1, 0.2, 0.3]}
    ... )
    >>> data = read_bags(frame, bag="slide", label="tumour")
    >>> data.bags
    Bags(n_bags=2, n_instances=3, n_features=1, dtype=float64)
    >>> data.bags.ids.tolist(), data.y.tolist(), data.feature_names
    (['s1', 's2'], [True, False], ['red'])
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if name in _ARGUMENTS}
    given["features"] = None if features is None else _names(features)
    if label_set is not None and not isinstance(label_set, str):
        given |= {"label_set": None, "label_columns": _names(label_set)}
    given |= {"exclude": _names(exclude), "keep": _names(meta), "dtype": _number_type(dtype)}
    given |= {"bag_columns": _names(bag_columns), "group": groups}
    cluster = None if client is None else _files.Cluster(client, npartitions)
    request = _files.Request(**given, cluster=cluster)
    contents = read_contents(source, request)
    ids = [name for name in contents.left_out if is_id_name(name)]
    if ids:
        warn_user(
            f"{_files.listed(ids)}: left out, because these are ids and not features. Name the "
            "feature columns with features=[...] to use them, or leave these out with exclude=.",
            DataWarning,
        )
    if contents.suspects:
        warn_user(suspicion(contents.suspects), DataWarning)
    if contents.absent and missing == "unlabelled":
        n, some = len(contents.absent), _files.listed(contents.absent, 5)
        others = (
            f" Entries of no bag: {_files.listed(contents.others, 5)}." if contents.others else ""
        )
        warn_user(
            f"labels= has no entry for {n} of {len(contents.bags)} bags, such as {some}: they "
            f"are unlabelled. Leave them out with missing='drop'.{others}",
            DataWarning,
        )
    if client is not None and type(contents.bags) is Bags:
        contents.bags = contents.bags.distribute(client, npartitions=npartitions)
    return contents.to_bunch()


def read_contents(source: Any, request: _files.Request) -> Contents:
    """Read bags, labels, groups and further columns of a file in one pass."""
    if request.missing not in _MISSING:
        raise InputError(f"missing={request.missing!r}: expected one of {', '.join(_MISSING)}.")
    workspace = _files.make_workspace(request.memory_limit, request.scratch)
    table = None if request.labels is None else _open_labels(request)
    if request.id_column is not None and (table is None or isinstance(table, Mapping)):
        raise InputError("id_column= names a column of the table labels=: give that table.")
    inside = request
    if table is not None:  # what it has is not looked for in the file
        names = () if isinstance(table, Mapping) else table.names
        group, merge = (None if n in names else n for n in (request.group, request.merge))
        nothing: Any = {"label": None, "label_set": None, "label_columns": (), "looked_for": None}
        inside = replace(request, **nothing, group=group, merge=merge)
        inside = replace(inside, bag_columns=[n for n in request.bag_columns if n not in names])
    if isinstance(source, str | os.PathLike):
        contents = _read_file(Path(source), inside, workspace)
    else:
        is_cells = is_anndata(source)
        read, opened = (read_anndata, source) if is_cells else (read_table, open_frame(source))
        contents = read(opened, inside, workspace)
    if table is not None:
        contents = _relabel(contents, request, table)
    if request.merge is not None:
        if contents.wholes is None:
            raise InputError(f"merge= needs a table with the column {request.merge!r} in labels=.")
        # The ids before merging keep the name of their column if it is known.
        named = request.labels is None and request.bag != "bag"
        part = request.bag if named else None
        contents = merge_contents(contents, contents.wholes, request.merge, part)
    warn_of_labels(contents)
    workspace.keep()
    return contents


def write_bags(
    path: str | os.PathLike[str],
    bags: Any,
    *,
    y: ArrayLike | None = None,
    label_sets: Any = None,
    instance_labels: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    coords: ArrayLike | None = None,
    extras: Mapping[str, ArrayLike] | None = None,
    bag: str = "bag",
    label: str = "label",
    label_set: str = "label_set",
    instance_label: str = "instance_label",
    separator: str = ";",
    layout: str = "rows",
    compress: bool = True,
    format: str | None = None,
    force: bool = False,
) -> None:
    """Write bags and their labels to a file or a folder for `read_bags`.

    The file appears only when it is complete: after a crash there is no file, or the old one. Data
    that a format cannot represent are an error, with these exceptions in CSV: bags without ids are
    read with their positions as ids, features without names as ``x0``, ``x1``, ..., values as
    64-bit floats (use ``dtype=``), ids and labels that are strings of digits as integers, labels
    that are whole floats as integers, and ids that are neither strings nor integers as strings.
    Parquet preserves everything except dates and times.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv`` (also ``.gz``), ``.parquet``, ``.npz``, or a folder for HDF5 files, one
        per bag: an existing one, or a name that ends in ``/``. Sparse instances need ``.npz``.
    bags : Bags or sequence of 2-D arrays
        The bags.
    y : array-like of shape (n_bags,), default=None
        A label per bag; None or NaN if it is unknown.
    label_sets : array-like of shape (n_bags, n_classes), list of sets or LabelCounts, default=None
        The labels of each bag; a row of -1 or None where unknown. Single labels that are unknown
        (-1), and counts, need ``.npz``; shares are stored as counts.
    instance_labels : array-like of shape (n_instances,), default=None
        Indices into `classes`, -1 where unknown. A table contains the classes themselves.
    classes : array-like of shape (n_classes,), default=None
        The classes.
    coords : array-like of shape (n_instances, ...), default=None
        Position of each instance in its bag (npz and HDF5).
    extras : dict of arrays, default=None
        Additional arrays (npz).
    bag, label, label_set, instance_label : str
        Names of the columns of a table.
    separator : str, default=";"
        Separator of the labels of a set in a table.
    layout : {"rows", "bags"}, default="rows"
        Parquet: one row per instance, or one row per bag with a list of vectors. Only the second
        can represent empty bags.
    compress : bool, default=True
        Whether to compress (npz, Parquet, HDF5). An uncompressed npz can be read memory-mapped.
    format : {"csv", "tsv", "parquet", "npz", "hdf5"}, default=None
        The format, if the suffix does not determine it.
    force : bool, default=False
        Whether to replace an existing file, or a folder written by bagwise.

    Raises
    ------
    OutputExistsError
        If the path exists and `force` is False.
    InputError
        If the format cannot represent the bags, or the labels do not match them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.io import read_bags, write_bags
    >>> bags = Bags(np.eye(3), [0, 2, 3], ids=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "bags.npz"
    ...     write_bags(path, bags, label_sets=[{"cat", "dog"}, set()])
    ...     data = read_bags(path)
    >>> data.bags.ids.tolist(), data.classes.tolist(), data.label_sets.tolist()
    (['a', 'b'], ['cat', 'dog'], [[1, 1], [0, 0]])
    """
    contents = check_contents(
        bags,
        y=y,
        label_sets=label_sets,
        instance_labels=instance_labels,
        classes=classes,
        coords=coords,
        extras=extras,
    )
    target = Path(path)
    if format is None and os.fspath(path).endswith(("/", os.sep)):
        format = "hdf5"
    format = _files.format_of(target, format, writing=True)
    sets = contents.label_sets
    partly = sets is not None and (sets.kind == "counts" or not sets.whole.all())
    if partly and format != "npz":
        raise InputError(
            "counts and unknown labels (-1) can be written to npz only. Or write a table with a "
            "column per label (3+, 1, 0 or empty), and read it with labels= and label_set=[...]."
        )
    if layout not in ("rows", "bags") or (layout == "bags" and format != "parquet"):
        raise InputError(f"layout={layout!r} for {format}: expected 'rows', or 'bags' (Parquet).")
    if format == "hdf5":
        write_hdf5(target, contents, compress=compress, force=force)
        return
    columns = dict(zip(_files.ROLES, (bag, label, label_set, instance_label), strict=True))
    with replacing(target, force=force) as temporary:
        if format == "npz":
            write_npz(temporary, contents, compress=compress)
            return
        as_text = format != "parquet"
        table = BagTable(contents, columns, separator, by_bag=layout == "bags", as_text=as_text)
        if not as_text:
            write_parquet(temporary, table, compress=compress)
        else:
            delimiter = "\t" if format == "tsv" else ","
            write_csv(temporary, table, delimiter=delimiter, zipped=target.suffix.lower() == ".gz")


def _read_file(path: Path, request: _files.Request, workspace: _files.Workspace) -> Contents:
    with _files.format_errors(path):
        format = _files.format_of(path, request.format)
        if path.is_dir() and format != "hdf5":
            raise InputError(f"{path} is a folder, which is read as HDF5 files only.")
        if format == "h5ad":
            return read_h5ad(path, request, workspace)
        if request.use_rep is not None:
            raise InputError("use_rep= is for AnnData: name the columns with features=.")
        if format in _files.TABLES:
            return read_table(open_table(path, format, request), request, workspace)
        if request.labels is not None:  # that table has the columns of bags
            request = replace(request, bag=None, group=None, merge=None, keep=(), bag_columns=())
        for name in request.beside:
            if name not in (request.group, request.merge, *request.bag_columns):
                raise InputError(
                    f"{path.name} has no column {name!r}: give a table of the bags with labels=."
                )
        read = read_hdf5 if format == "hdf5" else read_npz
        return read(path, request, workspace)


# Labels from another source


def _open_labels(request: _files.Request) -> Any:
    """The argument `labels`: a dict, or a table as a source."""
    labels = request.labels
    if isinstance(labels, Mapping):
        return labels
    if not isinstance(labels, str | os.PathLike):
        return open_frame(labels)
    path = Path(labels)
    with _files.format_errors(path):
        format = _files.format_of(path, None)
        if format not in _files.TABLES:
            raise InputError(f"labels={str(path)!r} is not a CSV or Parquet table.")
        ids = [*_USUAL_IDS, request.id_column or "bag"]  # read as strings
        return open_table(path, format, replace(request, features=None, extra_columns=ids))


def _relabel(contents: Contents, request: _files.Request, table: Any) -> Contents:
    """Replace the labels of bags by those in a dict or a table, matched by the ids as strings."""
    bags = contents.bags
    kept: dict[str, Column] = {}
    if isinstance(table, Mapping):
        if not set(request.keep) <= contents.columns.keys():
            raise InputError("labels= is a dict: columns to keep come from a table.")
        names, columns = list(map(str, table)), _mapped_labels(table)
    else:
        path = Path(request.labels) if isinstance(request.labels, str | os.PathLike) else None
        with contextlib.nullcontext() if path is None else _files.format_errors(path):
            names, columns, kept, request = _tabled_labels(table, request, contents)
    rows = _entries(bags, names)
    columns = {role: column.take(rows) for role, column in columns.items()}
    for name, column in kept.items():
        contents.columns[name] = column.take(rows).tolist(bags.bag_index)
    contents.absent = [str(name) for name in bags.names[rows < 0].tolist()]
    contents.others = np.delete(np.array(names, dtype=object), rows[rows >= 0]).tolist()
    named = request.group or request.merge
    if contents.absent and request.missing == "drop":
        present = np.flatnonzero(rows >= 0)
        contents = contents.take(present)
        columns = {role: column.take(present) for role, column in columns.items()}
    elif contents.absent and (request.missing == "error" or named):
        unknown = f", so their {named} is unknown" if named and request.missing != "error" else ""
        raise LabelError(
            f"labels= has no entry for {len(contents.absent)} of {len(bags)} bags, such as "
            f"{contents.absent[0]!r}{unknown}: add them, or leave them out with missing='drop'."
        )
    label_bags(contents, columns, request, instances=None)
    return contents


def _mapped_labels(labels: Mapping[Any, Any]) -> dict[str, Column]:
    twice = [name for name, n in Counter(map(str, labels)).items() if n > 1]
    if twice:
        raise LabelError(f"labels= has several keys that are {twice[0]!r} as strings: keep one.")
    has_sets = any(isinstance(v, set | frozenset | list | tuple) for v in labels.values())
    return {"label_set" if has_sets else "label": Column.of(labels.values())}


def _tabled_labels(
    table: Source, request: _files.Request, contents: Contents
) -> tuple[list[str], dict[str, Column], dict[str, Column], _files.Request]:
    """The ids in a table, its columns by role, those to keep, and the request with its names."""
    others = [name for name in request.keep if name not in contents.columns]
    request = replace(  # already read if the file has them
        request,
        group=request.group if request.group not in contents.bags.columns else None,
        bag_columns=[n for n in request.bag_columns if n not in contents.bags.columns],
        merge=request.merge if contents.wholes is None else None,
        bag=request.id_column or request.bag,
    )
    if request.id_column is None and request.bag not in table.names:
        usual = (name for name in _USUAL_IDS if name in table.names)
        request = replace(request, bag=next(usual, None))
    for role in ("id_column", "group", "merge"):
        if getattr(request, role) is not None:
            require_column(table, getattr(request, role), f" for {role}=")
    for name in others:
        require_column(table, name, " to keep")
    for name in request.bag_columns:
        require_column(table, name, " for bag_columns=")
    for name in [*request.label_columns, *filter(None, [request.looked_for])]:
        require_column(table, name)
    request = find_roles(table, request, ("bag", "label", "label_set"))
    named = (request.label, request.label_set, request.group, request.merge)
    has_labels = any((*named, *others, *request.bag_columns, *request.label_columns))
    if request.bag is None or not has_labels:
        ids = "the column of its bag ids with id_column=" if request.bag is None else ""
        label = "" if has_labels else "the column of its labels with label= or label_set="
        raise InputError(
            f"labels= is a table: name {' and '.join(filter(None, (ids, label)))}. Its columns are "
            f"{_files.listed(table.names)}."
        )
    rows = group(table.column(request.bag, convert="integers"), request.bag)
    kept = {n: constant_in_bags(read_column(table, n, "all"), rows, n) for n in others}
    names = [str(name) for name in rows.ids.tolist()]
    return names, bag_columns(table, request, rows), kept, request


def _without_suffix(name: str) -> str:
    """A name without the suffix of a slide, of its features, or of a recording."""
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and suffix.lower() in _SUFFIXES else name


def _file_name(name: str) -> str:
    """A name without folders and suffix: BirdNET and others write whole paths of recordings."""
    return _without_suffix(name.replace("\\", "/").rpartition("/")[2])


def _entries(bags: Bags, known: Sequence[str]) -> Ints:
    """The entry of each bag by its id, or its id without suffix, or also without folders; or -1."""
    place = {name: row for row, name in enumerate(known)}
    names = [str(name) for name in bags.names.tolist()]
    rows = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    for fold in (_without_suffix, _file_name):
        folded: dict[str, list[int]] = {}
        for row, name in enumerate(known if (rows < 0).any() else ()):
            folded.setdefault(fold(name), []).append(row)
        for i in np.flatnonzero(rows < 0):
            found = folded.get(fold(names[i]), [-1])
            if len(found) > 1:
                one, other = known[found[0]], known[found[1]]
                raise LabelError(
                    f"labels= has {one!r} and {other!r}, both of the bag {fold(one)!r}: keep one."
                )
            rows[i] = found[0]
    if len(rows) and (rows < 0).all():
        raise LabelError(
            f"no bag id is in labels=. Bags: {names[0]!r}, ... ({len(names)}); labels: "
            f"{list(known)[:3]} ... Set id_column= to the column of the bag ids."
        )
    return rows


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(str(name) for name in names)


def _number_type(dtype: DTypeLike | None) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    try:
        number = np.dtype(dtype)
    except TypeError:  # not a type at all
        number = np.dtype(object)
    if number.kind not in "fiub":
        raise InputError(f"dtype={dtype!r} is not a type of numbers: try 'float32'.")
    return number

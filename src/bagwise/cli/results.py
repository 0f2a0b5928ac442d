"""What a command adds to its results: kept columns, positions, label files for recordings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.base._pipelines import final_estimator, held_out_note
from bagwise.cli.options import LabelFiles
from bagwise.cli.output import note, print_table, refuse_existing, warning
from bagwise.exceptions import InputError
from bagwise.io._contents import Contents
from bagwise.io._files import listed
from bagwise.labels import plain_array
from bagwise.predictions import Predictions


def say_held_out(model: Any) -> dict[str, Any]:
    """Print what the fit of a model found on held-out bags; a warning if it learned nothing."""
    found = held_out_note(model)
    if found is None:
        return {}
    (warning if found[1] else note)(found[0])
    last = final_estimator(model)
    return {"held_out": {"loss": last.held_out_loss_, "chance": last.chance_loss_}}


def places(data: Contents, axes: list[str], file: Path) -> Any:
    """The position of each instance, from two columns of a table or from the file."""
    if axes:
        try:
            columns = [[np.nan if v is None else float(v) for v in data.columns[n]] for n in axes]
        except (TypeError, ValueError) as error:
            raise InputError(f"the columns {', '.join(axes)} must be numbers.") from error
        return np.array(columns).T
    if data.coords is None:
        raise InputError(f"{file} has no coords: use the HDF5 files (a table: --coords X,Y).")
    return data.coords


def clip_sounds(
    data: Contents, folder: Path, column: str | None, *, inside: bool = False
) -> list[str | None] | None:
    """The sound file of each clip in a folder; None if there are none, or others are named.

    Parameters
    ----------
    data : Contents
        The contents of the file.
    folder : Path
        The folder of the recordings.
    column : str or None
        The column of --audio; it may name files that are already cut.
    inside : bool, default=False
        Whether files outside of the folder are ignored, with a note.

    Returns
    -------
    list of str or None
        Paths relative to the folder; None for a recording that is not there.
    """
    from bagwise.apps.audio._recordings import find_recording, recordings

    files = [] if data.clips is None else recordings(data)
    if not files or (column is not None and data.columns[column] != files):
        return None
    found = {name: find_recording(folder, name, inside=inside) for name in dict.fromkeys(files)}
    missing = [name for name, path in found.items() if path is None]
    if missing and inside:
        note(
            f"{len(missing)} of {len(found)} recordings are not in {folder.resolve()}, "
            f"{missing[0]} among them: name their folder with --media-folder."
        )
    return None if len(missing) == len(found) else [found[name] for name in files]


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
        flat = data.coords.reshape(len(data.coords), -1).T
        axes = "xyz" if len(flat) <= 3 else [f"coord_{j}" for j in range(len(flat))]
        places |= dict(zip(axes, flat, strict=False))
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
    bags, first, found = data.bags, data.bags.offsets[:-1], {}
    for name, column in _kept(table, data).items():
        per_bag = column[first]
        if (column == per_bag[bags.bag_index]).all():
            found[name] = per_bag
        elif "key_instance" in table and f"key_{name}" not in table:
            found[f"key_{name}"] = column[first + table["key_instance"]]
    (bag, ids), *others = table.items()
    return {bag: ids} | found | dict(others)


def _kept(table: Mapping[str, Any], data: Contents) -> dict[str, Any]:
    """The columns to keep; an error if the results already use one of their names."""
    used = [name for name in data.columns if name in table]
    if used:
        raise InputError(f"the column {used[0]!r} cannot be kept: the results have one, rename it.")
    return {name: plain_array(values) for name, values in data.columns.items()}


def checked_threshold(
    path: Path, found: Predictions, data: Contents, proba: Any
) -> dict[str, float]:
    """Choose the threshold of background by checked instances, and print what it gets right.

    Parameters
    ----------
    path : Path
        The labels of these instances, as for ``--corrections``.
    found : Predictions
        The model and the bags.
    data : Contents
        The contents of the file of the bags.
    proba : ndarray of shape (n_instances, n_labels + 1) or None
        Probabilities of labels and background; None for a model without.

    Returns
    -------
    dict of str to float
        ``background_above``, the threshold, and ``temperature``, which calibrates probabilities;
        `found` has it from now on.
    """
    from bagwise.apps.review._known import read_known
    from bagwise.apps.review._queue import match_corrections
    from bagwise.predictions import _predictions as tools

    if proba is None or found.background_name is None:
        raise InputError("--check chooses the threshold of background: add -m orlr --background.")
    known = read_known(path, note)
    known.locate(data)
    labels, n = match_corrections(known.corrections, found.bags, {})
    rows = [i for i, label in enumerate(labels) if label is not None]
    if not rows:
        raise InputError(f"{path.name} has no label of an instance of these bags.")
    nothing = {"background", str(found.background_name)}
    own = [{name.strip() for name in str(labels[i]).split(";")} for i in rows]  # several, perhaps
    if strange := sorted(set().union(*own) - nothing - {*found.names}):
        names = listed([*found.names, "background"])
        raise InputError(f"{path.name} has the labels {listed(strange, 5)}: expected {names}.")
    truth = np.array([[*(n in each for n in found.names), bool(nothing & each)] for each in own])
    if not truth[:, -1].any():
        warning(f"{path.name} has no instance of background, so that the threshold is too high.")
    found.temperature = tools.fit_temperature(proba[rows], truth)
    calibrated = tools.tempered(proba[rows], found.temperature)
    limit, table = tools.check_background(calibrated, len(found.names), truth)
    print_table(table, title=f"{n} checked instances, by the threshold of background")
    note(f"--background-above {limit:.4g} is right most often, and is used")
    note("The threshold was chosen on these instances; either of several labels counts as right.")
    right = truth[np.arange(len(rows)), calibrated.argmax(axis=1)].mean()
    before, after = (p.max(axis=1).mean() for p in (proba[rows], calibrated))
    note(
        f"temperature {found.temperature:.3g}: {right:.3f} of the most probable labels are right; "
        f"their mean probability was {before:.3f}, and is {after:.3f}"
    )
    return {"background_above": limit, "temperature": found.temperature}


def check_folders(chosen: LabelFiles, data: Contents, *, force: bool) -> dict[str, Path]:
    """The folder of each program; an error if clips have no times, or files would be overwritten.

    Parameters
    ----------
    chosen : LabelFiles
        The options.
    data : Contents
        The contents of the file.
    force : bool
        Whether files may be overwritten.

    Returns
    -------
    dict of str to Path
    """
    from bagwise.apps.audio._recordings import recordings
    from bagwise.apps.audio._selections import file_names

    folders = {program: folder for program, folder in vars(chosen).items() if folder is not None}
    if folders and data.clips is None:
        raise InputError("--raven and --audacity need the times of clips: columns start and end.")
    for folder in folders.values():
        if folder.is_file():
            raise InputError(f"{folder} is a file: expected a folder.")
        names = file_names(recordings(data)).values() if folder.exists() else ()
        refuse_existing([folder / f"{name}.txt" for name in names], force=force)
    return folders


def write_folders(
    folders: Mapping[str, Path],
    data: Contents,
    table: Mapping[str, Any],
    *,
    background: Any,
    force: bool,
) -> None:
    """Write the labels of clips for the requested programs.

    Parameters
    ----------
    folders : mapping of str to Path
        Result of `check_folders`.
    data : Contents
        The contents of the file.
    table : mapping of str to ndarray
        ``start``, ``end``, ``label`` and ``probability`` of each instance.
    background : object
        The label that is left out; None if there is none.
    force : bool
        Whether files may be overwritten.
    """
    from bagwise.apps.audio._recordings import recordings
    from bagwise.apps.audio._selections import write_selections

    if "audacity" in folders and data.columns:
        note(f"Label files for Audacity cannot contain these columns: {', '.join(data.columns)}.")
    how: dict[str, Any] = {"kept": data.columns, "background": background, "force": force}
    for program, folder in folders.items():
        write_selections(folder, program, recordings(data), table, **how)
        note(f"labels for {program.capitalize()}, one file per recording: {folder}")

"""Recordings on the command line: their files, and label files for Raven and Audacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bagwise.cli.options import LabelFiles
from bagwise.cli.output import note, refuse_existing
from bagwise.exceptions import InputError

if TYPE_CHECKING:
    from bagwise.io._contents import Contents


def find_recordings(folder: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Find the files of recordings inside a folder, and note how many are missing."""
    from bagwise.apps.audio._recordings import find_recording

    found = {name: find_recording(folder, name, inside=True) for name in dict.fromkeys(names)}
    missing = [name for name, place in found.items() if place is None]
    if missing:
        note(
            f"{len(missing)} of {len(found)} recordings are not in {folder.resolve()}, "
            f"{missing[0]} among them: name their folder with --media-folder to listen to the "
            "clips."
        )
    return found


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
        raise InputError(
            "--raven and --audacity need the times of clips: expected columns file, start and end."
        )
    for folder in folders.values():
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: expected a folder for the labels of recordings.")
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
    """Write the labels of clips for the programs that were asked for.

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

"""Files of BirdNET and Perch-Hoplite as tables, and the sound files of recordings."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bagwise.apps.audio._birdnet import SUFFIXES, detection_columns, read_birdnet
from bagwise.apps.audio._hoplite import DATABASE, read_hoplite
from bagwise.exceptions import DataNotFoundError
from bagwise.io._contents import Contents
from bagwise.io._files import format_errors

_SOUNDS = ("", ".wav", ".WAV", ".flac", ".mp3", ".ogg")


def read_recordings(path: str | os.PathLike[str], *, species: Sequence[str] = ()) -> Any:
    r"""Read embeddings or detections of BirdNET-Analyzer or Perch-Hoplite.

    Parameters
    ----------
    path : path
        A file of BirdNET-Analyzer (embeddings, detections as CSV or as a selection table) or a
        folder of them; a table of detections of Perch-Hoplite; or the folder or the .sqlite file
        of a Perch-Hoplite database.
    species : sequence of str, default=()
        Species that get a column even if they were not detected.

    Returns
    -------
    pyarrow.Table
        A row per clip: the columns ``file``, ``start`` and ``end``, and either ``embedding`` or a
        column per species. `bagwise.io.read_bags` reads it: a recording is a bag.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bagwise.apps.audio import read_recordings
    >>> from bagwise.io import read_bags
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "a.BirdNET.results.csv"
    >>> _ = path.write_text("Start (s),End (s),Common name,Confidence\n0,3,wren,0.5\n")
    >>> read_bags(read_recordings(path)).bags
    Bags(n_bags=1, n_instances=1, n_features=1, dtype=float64)
    >>> folder.cleanup()
    """
    path = Path(path)
    if not path.exists():
        raise DataNotFoundError(f"no file or folder {str(path)!r}.")
    with format_errors(path):
        return read_hoplite(path) if _is_database(path) else read_birdnet(path, species)


def are_recordings(path: Path) -> bool:
    """Whether `read_recordings`, and not `bagwise.io.read_bags`, reads this file or folder."""
    name = path.name.lower()
    if path.is_dir():
        has_hdf5 = any(each.suffix.lower() in (".h5", ".hdf5") for each in path.iterdir())
        names = (each.name.lower() for each in path.rglob("*.*"))
        return _is_database(path) or (not has_hdf5 and any(n.endswith(SUFFIXES) for n in names))
    if not path.is_file() or not name.endswith((".csv", ".tsv")) or name.endswith(SUFFIXES):
        return path.is_file() and name.endswith((".txt", ".sqlite", *SUFFIXES))
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        head = file.readline(2**20)
    delimiter = "\t" if "\t" in head else ","
    return detection_columns(next(csv.reader([head], delimiter=delimiter), [])) is not None


def _is_database(path: Path) -> bool:
    return path.suffix.lower() == ".sqlite" or (path / DATABASE).is_file()


def recordings(data: Contents) -> list[str]:
    """The recording of each instance: its file, or its bag."""
    if data.clips is not None and data.clips.file is not None:
        return [str(name) for name in data.clips.file]
    return [str(name) for name in data.bags.names[data.bags.bag_index].tolist()]


def find_recording(folder: Path, name: str, *, inside: bool = False) -> str | None:
    """Find the file of a recording: by its name, by the end of its path, or with a usual suffix.

    A table may have paths of another machine: ``/x/june/a.wav`` may be ``june/a.wav`` or ``a.wav``.

    Parameters
    ----------
    folder : Path
        The folder to search.
    name : str
        The recording, as a table names it.
    inside : bool, default=False
        Whether files outside the folder are ignored, such as one named by its absolute path.

    Returns
    -------
    str or None
        The path relative to the folder; None if there is no such file.
    """
    root = os.path.realpath(folder)
    parts = name.replace("\\", "/").split("/")
    tails = ("/".join(parts[i:]) for i in range(len(parts)))
    for place in dict.fromkeys((name, *tails)):
        for ending in _SOUNDS:
            path = os.path.join(folder, f"{place}{ending}")
            if not os.path.isfile(path):
                continue
            if not inside or Path(os.path.realpath(path)).is_relative_to(root):
                return f"{place}{ending}"
    return None

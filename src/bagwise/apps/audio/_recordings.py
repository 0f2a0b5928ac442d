"""Read recordings: embeddings and detections of BirdNET-Analyzer and Perch, and find sound files.

BirdNET-Analyzer. Embeddings (version 1) are text files, one per recording, with a line per clip:
its start, its end and its embedding. Version 2 writes one CSV file
(``file_path,start,end,embedding``), which `read_bags` reads. A table of detections, as CSV or as a
selection table for Raven, has a row per clip and species; here a clip becomes one row, and each
species a column with its confidence, 0 if it was not reported. Perch-Hoplite writes logits of its
classifiers in such a table.

Perch-Hoplite. The windows are in ``hoplite.sqlite`` (deployments, recordings, windows), their
embeddings, 16-bit floats, in ``usearch.index``, by the id of the window. Nothing is written. Needs
usearch, but not Perch-Hoplite, which installs notebooks and cloud clients. Databases of versions
before 1.0 have other tables; Perch-Hoplite migrates them.
"""

import csv
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from bagwise._common.extras import import_extra
from bagwise._common.types import Array
from bagwise.exceptions import FileFormatError
from bagwise.io._contents import Contents, clip_columns
from bagwise.io._files import format_errors

_SOUNDS = ("", ".wav", ".WAV", ".flac", ".mp3", ".ogg")
_TIMES = ("file", "start", "end")
# Suffixes that BirdNET-Analyzer adds to the name of a recording.
_SUFFIXES = (
    ".birdnet.embeddings.txt",
    ".birdnet.results.csv",
    ".birdnet.results.txt",
    ".birdnet.selection.table.txt",
)
_SPECIES = ("Common name", "Common Name", "Scientific name", "Species Code")
_PERCH_TIMES = (("filename", "window_start", "window_end"), ("source_id", "offset", None))
_PERCH_LENGTH = 5.0  # length of a window in seconds, if it is not stored
_NOTHING = "nocall"  # the "species" of a recording without detections
_DATABASE, _INDEX = "hoplite.sqlite", "usearch.index"
_PLACES = ("deployment", "project", "latitude", "longitude", "datetime")
_WINDOWS = """
    SELECT windows.id, recordings.filename, windows.offsets, deployments.name, deployments.project,
           deployments.latitude, deployments.longitude, recordings.datetime
    FROM windows JOIN recordings ON windows.recording_id = recordings.id
    LEFT JOIN deployments ON recordings.deployment_id = deployments.id ORDER BY windows.id
"""


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
    with format_errors(path):
        return _read_hoplite(path) if _is_database(path) else _read_birdnet(path, species)


def are_recordings(path: Path) -> bool:
    """Whether `read_recordings`, and not `bagwise.io.read_bags`, reads this file or folder."""
    name = path.name.lower()
    if path.is_dir():
        has_hdf5 = any(each.suffix.lower() in (".h5", ".hdf5") for each in path.iterdir())
        names = (each.name.lower() for each in path.rglob("*.*"))
        return _is_database(path) or (not has_hdf5 and any(n.endswith(_SUFFIXES) for n in names))
    if not path.is_file() or not name.endswith((".csv", ".tsv")) or name.endswith(_SUFFIXES):
        return path.is_file() and name.endswith((".txt", ".sqlite", *_SUFFIXES))
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        head = file.readline(2**20)
    delimiter = "\t" if "\t" in head else ","
    return _detection_columns(next(csv.reader([head], delimiter=delimiter), [])) is not None


def _is_database(path: Path) -> bool:
    return path.suffix.lower() == ".sqlite" or (path / _DATABASE).is_file()


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


# BirdNET-Analyzer


def _read_birdnet(path: Path, species: Sequence[str]) -> Any:
    """Read a file of BirdNET-Analyzer, a folder of them, or detections of Perch-Hoplite."""
    paths = [path]
    if path.is_dir():
        paths = sorted(p for p in path.rglob("*") if p.name.lower().endswith(_SUFFIXES))
    embeddings = [p for p in paths if p.name.lower().endswith(_SUFFIXES[0])]
    return _embeddings(embeddings, path) if embeddings else _detections(paths, path, species)


def _detection_columns(names: Iterable[str]) -> tuple[Any, ...] | None:
    """The columns of file, start, end, species and confidence; None for other tables.

    Without a column of files the table is about one recording; the end may be unknown too.

    Examples
    --------
    >>> from bagwise.apps.audio._recordings import _detection_columns
    >>> _detection_columns(["Start (s)", "End (s)", "Scientific name", "Confidence"]) is None
    False
    >>> _detection_columns(["start", "end", "Confidence"]) is None
    True
    """
    names = list(names)
    for file, start, end in _PERCH_TIMES:
        if {file, start, end or start, "label", "logits"} <= set(names):
            return file, start, end, "label", "logits"
    clips = clip_columns(names)
    species = next((name for name in _SPECIES if name in names), None)
    if clips is None or species is None or "Confidence" not in names:
        return None
    return *clips, species, "Confidence"


def _embeddings(paths: Sequence[Path], root: Path) -> Any:
    """A table of embedding files with a line per clip: start, tab, end, tab, numbers."""
    clips: list[tuple[str, float, float]] = []
    vectors: list[Array] = []
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            values = line.replace(",", " ").split()
            if not values:
                continue
            vectors.append(np.array(values[2:], dtype=np.float32))
            if not 0 < len(vectors[-1]) == len(vectors[0]):
                raise FileFormatError(
                    f"line {number} of {path} has {len(values)} numbers: expected a start, an end "
                    f"and an embedding of {len(vectors[0]) or 'some'} numbers."
                )
            clips.append((_recording(path, root), float(values[0]), float(values[1])))
    if not clips:
        raise FileFormatError(f"{root} contains no embeddings: every file is empty.")
    return _as_table(dict(zip(_TIMES, zip(*clips, strict=True), strict=True)), np.stack(vectors))


def _detections(paths: Sequence[Path], root: Path, features: Sequence[str]) -> Any:
    """Tables of detections as one table: a row per clip, a column per species."""
    rows = [row for path in paths for row in _rows(path, root)]
    clips = {clip: i for i, clip in enumerate(dict.fromkeys(row[:3] for row in rows))}
    names = sorted({*features, *(row[3] for row in rows)} - {_NOTHING, *_TIMES})
    if not clips or not names:
        raise FileFormatError(f"{root} lists no detection of a species.")
    table = np.zeros((len(names), len(clips)))
    place = {name: k for k, name in enumerate(names)}
    for *clip, name, confidence in rows:
        if name in place:
            cell = place[name], clips[tuple(clip)]
            table[cell] = max(table[cell], confidence)
    times = dict(zip(_TIMES, zip(*clips, strict=True), strict=True))
    return _as_table(times | dict(zip(names, table, strict=True)))


def _rows(path: Path, root: Path) -> Iterator[tuple[Any, ...]]:
    """File, start, end, species and confidence of each detection."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        delimiter = "\t" if "\t" in file.readline() else ","
        file.seek(0)
        reader = csv.DictReader(file, delimiter=delimiter)
        columns = _detection_columns(reader.fieldnames or ())
        if columns is None:
            raise FileFormatError(
                f"{path} is not a table of BirdNET-Analyzer: expected the columns Start (s), End "
                f"(s), Common name and Confidence; it has {list(reader.fieldnames or ())[:10]}."
            )
        file_name, first, last, species, score = columns
        for row in reader:
            try:
                start, confidence = float(row[first]), float(row[score])
                end = start + _PERCH_LENGTH if last is None else float(row[last])
                # In a table of several recordings the times accumulate; the offset does not.
                begin = float(row.get("File Offset (s)") or start)
            except (TypeError, ValueError) as error:
                raise FileFormatError(
                    f"line {reader.line_num} of {path} lacks a start, an end or a confidence."
                ) from error
            if score == "logits":
                confidence = float(expit(confidence))
            name = (file_name and row[file_name]) or _recording(path, root)
            yield name, begin, begin + end - start, row[species], confidence


def _recording(path: Path, root: Path) -> str:
    """The recording that a file describes: the file name without the suffix of BirdNET."""
    name = (path.relative_to(root) if root.is_dir() else Path(path.name)).as_posix()
    ending = next((e for e in _SUFFIXES if name.lower().endswith(e)), path.suffix)
    return name[: len(name) - len(ending)]


# Perch-Hoplite


def _read_hoplite(path: Path) -> Any:
    """Read the windows of a database, in the order of their ids, with their embeddings.

    The table also has the columns ``deployment``, ``project``, ``latitude``, ``longitude`` and
    ``datetime``, if they have values.
    """
    database = path / _DATABASE if path.is_dir() else path
    log = database.with_name(f"{database.name}-wal")
    # Without a log nothing else writes: SQLite then needs no file of locks in the folder.
    how = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    address = f"{database.resolve().as_uri()}?{how}"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        try:
            rows = connection.execute(_WINDOWS).fetchall()
        except sqlite3.OperationalError as error:
            raise FileFormatError(
                f"{database} is not a database of Perch-Hoplite 1.0 or later: {error}. Perch-"
                "Hoplite migrates older ones (99_migrate_db.ipynb)."
            ) from error
    if not rows:
        raise FileFormatError(f"{database} contains no windows.")
    ids, files, offsets, *values = zip(*rows, strict=True)
    times = [np.frombuffer(each, "<f8").tolist() for each in offsets]
    pairs = list(zip(files, values[0], strict=True))
    if len(set(pairs)) > len(set(files)):  # files of several deployments have the same name
        files = tuple(file if place is None else f"{place}/{file}" for file, place in pairs)
    columns: dict[str, Any] = {
        "file": list(map(str, files)),
        "start": [time[0] for time in times],
        "end": [time[1] if len(time) > 1 else time[0] + _PERCH_LENGTH for time in times],
    }
    known = {n: v for n, v in zip(_PLACES, values, strict=True) if set(v) != {None}}
    return _as_table(columns | known, _from_index(database.with_name(_INDEX), ids), list(known))


def _from_index(path: Path, ids: tuple[int, ...]) -> Array:
    """The embeddings of windows in a USearch index."""
    if not path.is_file():
        raise FileFormatError(f"there is no {path}: give the whole folder of the database.")
    index: Any = import_extra("usearch.index", extra="audio")
    keys = np.array(ids, np.uint64)
    try:
        vectors = index.Index.restore(str(path), view=True)
        found = vectors.contains(keys)
    except (RuntimeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{path} is not a USearch index, or it is damaged.") from error
    if not found.all():
        raise FileFormatError(
            f"window {ids[int(found.argmin())]} has no embedding in {path}: commit the database."
        )
    return np.asarray(vectors.get(keys, dtype="f32"))


def _as_table(
    columns: Mapping[str, Any], vectors: Array | None = None, not_features: Sequence[str] = ()
) -> Any:
    """Columns of clips, and embeddings of shape (n_clips, n_features), as a pyarrow table.

    Its bags are the files. `not_features` are features only if named.
    """
    pa: Any = import_extra("pyarrow", extra="io")
    table = pa.table(dict(columns))
    if vectors is not None:
        flat = pa.array(vectors.reshape(-1))
        lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        table = table.append_column("embedding", lists)
    notes = {"bag": "file", "not_features": list(not_features)}
    return table.replace_schema_metadata({b"bagwise": json.dumps(notes).encode()})

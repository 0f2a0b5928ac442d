"""Read the output of BirdNET-Analyzer and Perch: embeddings of clips, and tables of detections.

Embeddings (version 1) are text files, one per recording, with a line per clip: its start, its end
and its embedding. Version 2 writes one CSV file (``file_path,start,end,embedding``), which
`read_bags` reads. A table of detections, as CSV or as a selection table for Raven, has a row per
clip and species; here a clip becomes one row, and each species a column with its confidence, 0
if it was not reported. Perch-Hoplite writes logits of its classifiers in such a table.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from bagwise._common.types import Array
from bagwise.apps.audio._tables import TIMES, as_table
from bagwise.exceptions import FileFormatError
from bagwise.io._clips import clip_columns

# Suffixes that BirdNET-Analyzer adds to the name of a recording.
SUFFIXES = (
    ".birdnet.embeddings.txt",
    ".birdnet.results.csv",
    ".birdnet.results.txt",
    ".birdnet.selection.table.txt",
)
_SPECIES = ("Common name", "Common Name", "Scientific name", "Species Code")
_PERCH_TIMES = (("filename", "window_start", "window_end"), ("source_id", "offset", None))
_PERCH_LENGTH = 5.0  # length of a window in seconds, if the table has no end
_NOTHING = "nocall"  # the "species" of a recording without detections


class _Columns(NamedTuple):
    """The columns of a table of detections; without a file, the table is about one recording."""

    file: str | None
    start: str
    end: str | None
    species: str
    confidence: str


def read_birdnet(path: Path, species: Sequence[str] = ()) -> Any:
    """Read a file of BirdNET-Analyzer, a folder of them, or detections of Perch-Hoplite.

    Parameters
    ----------
    path : Path
        The file or folder.
    species : sequence of str, default=()
        Species that get a column even if they were not detected.

    Returns
    -------
    pyarrow.Table
        See `read_recordings`.
    """
    paths = [path]
    if path.is_dir():
        paths = sorted(p for p in path.rglob("*") if p.name.lower().endswith(SUFFIXES))
    embeddings = [p for p in paths if p.name.lower().endswith(SUFFIXES[0])]
    return _embeddings(embeddings, path) if embeddings else _detections(paths, path, species)


def detection_columns(names: Iterable[str]) -> _Columns | None:
    """Find the columns of a table of detections; None for other tables.

    Examples
    --------
    >>> from bagwise.apps.audio._birdnet import detection_columns
    >>> detection_columns(["Start (s)", "End (s)", "Scientific name", "Confidence"]) is None
    False
    >>> detection_columns(["start", "end", "Confidence"]) is None
    True
    """
    names = list(names)
    for file, start, end in _PERCH_TIMES:
        if {file, start, end or start, "label", "logits"} <= set(names):
            return _Columns(file, start, end, "label", "logits")
    clips = clip_columns(names)
    species = next((name for name in _SPECIES if name in names), None)
    if clips is None or species is None or "Confidence" not in names:
        return None
    return _Columns(*clips, species, "Confidence")


def _embeddings(paths: Sequence[Path], root: Path) -> Any:
    """A table of embedding files with a line per clip: start, tab, end, tab, numbers."""
    clips: list[tuple[str, float, float]] = []
    vectors: list[Array] = []
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                start, end, numbers = line.split("\t")
                vectors.append(np.array(numbers.replace(",", " ").split(), dtype=np.float32))
                clips.append((_recording(path, root), float(start), float(end)))
            except ValueError as error:
                raise FileFormatError(
                    f"line {number} of {path} is {line[:40]!r}: expected a start, an end and "
                    "numbers, separated by tabs."
                ) from error
            if not 0 < len(vectors[-1]) == len(vectors[0]):
                raise FileFormatError(
                    f"line {number} of {path} has {len(vectors[-1])} numbers, the first line of "
                    f"all has {len(vectors[0])}."
                )
    if not clips:
        raise FileFormatError(f"{root} contains no embeddings: every file is empty.")
    return as_table(dict(zip(TIMES, zip(*clips, strict=True), strict=True)), np.stack(vectors))


def _detections(paths: Sequence[Path], root: Path, features: Sequence[str]) -> Any:
    """Tables of detections as one table: a row per clip, a column per species."""
    clips: dict[tuple[str, float, float], int] = {}
    confidences: dict[str, dict[int, float]] = {name: {} for name in features}
    for path in paths:
        for *times, name, confidence in _rows(path, root):
            clip = clips.setdefault(tuple(times), len(clips))
            if name != _NOTHING:
                own = confidences.setdefault(name, {})
                own[clip] = max(own.get(clip, 0.0), confidence)
    names = sorted(confidences.keys() - set(TIMES))
    if not clips or not names:
        raise FileFormatError(f"{root} lists no detection of a species.")
    columns: dict[str, Any] = dict(zip(TIMES, zip(*clips, strict=True), strict=True))
    for name in names:
        columns[name] = np.zeros(len(clips))
        columns[name][list(confidences[name])] = list(confidences[name].values())
    return as_table(columns)


def _rows(path: Path, root: Path) -> Iterator[tuple[Any, ...]]:
    """File, start, end, species and confidence of each detection."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        delimiter = "\t" if "\t" in file.readline() else ","
        file.seek(0)
        reader = csv.DictReader(file, delimiter=delimiter)
        columns = detection_columns(reader.fieldnames or ())
        if columns is None:
            raise FileFormatError(
                f"{path} is not a table of BirdNET-Analyzer: expected the columns Start (s), End "
                "(s), Common name and Confidence, or those of a selection table; it has "
                f"{list(reader.fieldnames or ())[:10]}."
            )
        for row in reader:
            try:
                start, confidence = float(row[columns.start]), float(row[columns.confidence])
                end = start + _PERCH_LENGTH if columns.end is None else float(row[columns.end])
                # In a table of several recordings the times accumulate; the offset does not.
                begin = float(row.get("File Offset (s)") or start)
            except (TypeError, ValueError) as error:
                raise FileFormatError(
                    f"line {reader.line_num} of {path} lacks a start, an end or a confidence."
                ) from error
            if columns.confidence == "logits":
                confidence = float(expit(confidence))
            name = (columns.file and row[columns.file]) or _recording(path, root)
            yield name, begin, begin + end - start, row[columns.species], confidence


def _recording(path: Path, root: Path) -> str:
    """The recording that a file describes: the file name without the suffix of BirdNET."""
    name = (path.relative_to(root) if root.is_dir() else Path(path.name)).as_posix()
    ending = next((e for e in SUFFIXES if name.lower().endswith(e)), path.suffix)
    return name[: len(name) - len(ending)]

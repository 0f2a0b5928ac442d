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
from typing import Any

import numpy as np
from scipy.special import expit

from bagwise._common.memory import require_memory
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
_PERCH = ("label", "logits")
_PERCH_TIMES = (("filename", "window_start", "window_end"), ("source_id", "offset", None))
_PERCH_LENGTH = 5.0  # length of a window in seconds, if the table has no end
_NOTHING = "nocall"  # the "species" of a recording without detections


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


def are_detections(names: Iterable[str]) -> bool:
    """Whether a table with these columns contains detections.

    Examples
    --------
    >>> from bagwise.apps.audio._birdnet import are_detections
    >>> are_detections(["Start (s)", "End (s)", "Scientific name", "Confidence"])
    True
    >>> are_detections(["start", "end", "Confidence"])
    False
    """
    names = list(names)
    has_species = "Confidence" in names and any(name in names for name in _SPECIES)
    return (has_species and clip_columns(names) is not None) or _perch_columns(names) is not None


def _perch_columns(names: Sequence[str]) -> tuple[str, str, str | None] | None:
    """The columns of the file, start and end in a table of Perch-Hoplite; None for others."""
    for file, start, end in _PERCH_TIMES:
        if {*_PERCH, file, start, end or start} <= set(names):
            return file, start, end
    return None


def _embeddings(paths: Sequence[Path], root: Path) -> Any:
    """A table of embedding files with a line per clip: start, tab, end, tab, numbers."""
    clips: list[tuple[str, float, float]] = []
    vectors: list[Array] = []
    for path in paths:
        name = _recording(path, root)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                start, end, numbers = line.split("\t")
                vector = np.array(numbers.replace(",", " ").split(), dtype=np.float32)
                clips.append((name, float(start), float(end)))
            except ValueError as error:
                raise FileFormatError(
                    f"line {number} of {path} is {line[:40]!r}: expected a start, an end and "
                    "numbers, separated by tabs."
                ) from error
            if not len(vector) or (vectors and len(vector) != len(vectors[0])):
                raise FileFormatError(
                    f"line {number} of {path} has {len(vector)} numbers, but others have "
                    f"{len(vectors[0]) if vectors else 'some'}."
                )
            vectors.append(vector)
    if not clips:
        raise FileFormatError(f"{root} contains no embeddings: every file is empty.")
    return as_table(dict(zip(TIMES, zip(*clips, strict=True), strict=True)), np.stack(vectors))


def _detections(paths: Sequence[Path], root: Path, features: Sequence[str]) -> Any:
    """Tables of detections as one table: a row per clip, a column per species."""
    clips: dict[tuple[str, float, float], int] = {}
    confidences: dict[str, dict[int, float]] = {name: {} for name in features}
    for path in paths:
        for file, start, end, name, confidence in _rows(path, root):
            clip = clips.setdefault((file, start, end), len(clips))
            if name != _NOTHING:
                own = confidences.setdefault(name, {})
                own[clip] = max(own.get(clip, 0.0), confidence)
    names = sorted(confidences.keys() - set(TIMES))
    if not clips or not names:
        raise FileFormatError(f"{root} lists no detection of a species.")
    require_memory(
        8 * len(clips) * len(names),
        purpose=f"a table of {len(clips):,} clips and {len(names):,} species",
        remedy="raise the minimum confidence of BirdNET, or read fewer recordings",
    )
    columns: dict[str, Any] = dict(zip(TIMES, zip(*clips, strict=True), strict=True))
    for name in names:
        columns[name] = np.zeros(len(clips))
        columns[name][list(confidences[name])] = list(confidences[name].values())
    return as_table(columns)


def _rows(path: Path, root: Path) -> Iterator[tuple[str, float, float, str, float]]:
    """File, start, end, species and confidence of each detection."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        delimiter = "\t" if "\t" in file.readline() else ","
        file.seek(0)
        reader = csv.DictReader(file, delimiter=delimiter)
        names = list(reader.fieldnames or ())
        if not are_detections(names):
            raise FileFormatError(
                f"{path} is not a table of BirdNET-Analyzer: expected the columns Start (s), End "
                "(s), Common name and Confidence, or those of a selection table; it has "
                f"{names[:10]}."
            )
        read = _perch_reader(names) or _birdnet_reader(names, _recording(path, root))
        for row in reader:
            try:
                yield read(row)
            except (TypeError, ValueError) as error:
                raise FileFormatError(
                    f"line {reader.line_num} of {path} lacks a start, an end or a confidence."
                ) from error


def _birdnet_reader(names: Sequence[str], recording: str) -> Any:
    """A function from a row of BirdNET to a detection."""
    clips = clip_columns(names)
    assert clips is not None  # checked by `are_detections`
    species = next(name for name in _SPECIES if name in names)

    def read(row: dict[str, Any]) -> tuple[str, float, float, str, float]:
        start, end = float(row[clips.start]), float(row[clips.end])
        # In a table of several recordings the times accumulate; the offset does not.
        begin = float(row.get("File Offset (s)") or start)
        name = (row[clips.file] if clips.file else None) or recording
        return name, begin, begin + end - start, row[species], float(row["Confidence"])

    return read


def _perch_reader(names: Sequence[str]) -> Any:
    """A function from a row of Perch-Hoplite to a detection, with the logit as a probability."""
    found = _perch_columns(names)
    if found is None:
        return None
    file, first, last = found

    def read(row: dict[str, Any]) -> tuple[str, float, float, str, float]:
        start = float(row[first])
        end = start + _PERCH_LENGTH if last is None else float(row[last])
        return row[file], start, end, row["label"], float(expit(float(row["logits"])))

    return read


def _recording(path: Path, root: Path) -> str:
    """The recording that a file describes: the file name without the suffix of BirdNET."""
    name = (path.relative_to(root) if root.is_dir() else Path(path.name)).as_posix()
    ending = next((e for e in SUFFIXES if name.lower().endswith(e)), path.suffix)
    return name[: len(name) - len(ending)]

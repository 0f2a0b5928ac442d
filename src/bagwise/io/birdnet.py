"""Read the output of BirdNET-Analyzer and Perch: embeddings of clips, and tables of detections.

Embeddings (version 1) are text files, one per recording, with a line per clip: its start, its end
and its embedding. Version 2 writes one CSV file (``file_path,start,end,embedding``), which
`CsvSource` reads. A table of detections, as CSV or as a selection table for Raven, has a row per
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
from bagwise.exceptions import FileFormatError
from bagwise.extras import import_extra
from bagwise.io.clips import clip_columns
from bagwise.io.files import BIRDNET
from bagwise.io.sources import TableSource, numbers_of

_EMBEDDINGS = ".birdnet.embeddings.txt"
_CLIP = ("file", "start", "end")
_SPECIES = ("Common name", "Common Name", "Scientific name", "Species Code")
_CONFIDENCE = "Confidence"
_PERCH = ("label", "logits")
_PERCH_TIMES = (("filename", "window_start", "window_end"), ("source_id", "offset", None))
_PERCH_LENGTH = 5.0  # length of a window in seconds, if the table has no end
_NOTHING = "nocall"  # the "species" of a recording without detections


def open_birdnet(path: Path, features: Sequence[str] = ()) -> TableSource:
    """Open a file of BirdNET-Analyzer, or a folder of them.

    Parameters
    ----------
    path : Path
        The file or folder.
    features : sequence of str, default=()
        Species that get a column even if they were not detected.

    Returns
    -------
    TableSource
        With the columns ``file``, ``start``, ``end``, and those of the features.
    """
    paths = [path]
    if path.is_dir():
        found = (p for p in path.rglob("*") if p.name.lower().endswith(BIRDNET) and p.is_file())
        paths = sorted(found)
    embeddings = [p for p in paths if p.name.lower().endswith(_EMBEDDINGS)]
    if embeddings:
        source: TableSource = EmbeddingSource(embeddings, path)
    else:
        source = TableSource(*_detections(paths, path, features))
    source.notes = {"bag": "file"}
    return source


def is_result(names: Iterable[str]) -> bool:
    """Whether a table with these columns contains detections.

    Examples
    --------
    >>> from bagwise.io.birdnet import is_result
    >>> is_result(["Start (s)", "End (s)", "Scientific name", "Common name", "Confidence"])
    True
    >>> is_result(["start", "end", "Confidence"])
    False
    """
    names = list(names)
    has_species = any(name in names for name in _SPECIES)
    is_birdnet = has_species and _CONFIDENCE in names and clip_columns(names) is not None
    return is_birdnet or _perch_columns(names) is not None


def _perch_columns(names: Sequence[str]) -> tuple[str, str, str | None] | None:
    """The columns of the file, start and end in a table of Perch-Hoplite; None for others."""
    for file, start, end in _PERCH_TIMES:
        if {*_PERCH, file, start, end or start} <= set(names):
            return file, start, end
    return None


class EmbeddingSource(TableSource):
    """Embedding files with a line per clip: start, tab, end, tab, numbers."""

    def __init__(self, paths: Sequence[Path], root: Path) -> None:
        self._pa = pa = import_extra("pyarrow", extra="io")
        self._paths, self._root = paths, root
        width = next((len(numbers) for *_, numbers in self._lines(paths)), 0)
        if width == 0:
            raise FileFormatError(f"{root} holds no embeddings: every file is empty.")
        kinds = (pa.string(), pa.float64(), pa.float64(), pa.list_(pa.float32(), width))
        names = (*_CLIP, "embedding")
        super().__init__(pa.schema(list(zip(names, kinds, strict=True))), str(root))

    def read(self, names: Sequence[str]) -> Any:
        """The given columns as one pyarrow table."""
        schema = self._pa.schema([self._schema.field(name) for name in names])
        return self._pa.Table.from_batches(list(self.batches(names, 1024)), schema)

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches, parsed when needed."""
        schema = self._pa.schema([self._schema.field(name) for name in names])
        for path in self._paths:
            lines = list(self._lines([path]))
            for start in range(0, len(lines), n_rows):
                file, begin, end, numbers = zip(*lines[start : start + n_rows], strict=True)
                columns = {"file": file, "start": begin, "end": end}
                if "embedding" in names:
                    columns["embedding"] = self._vectors(path, start, numbers)
                yield self._pa.record_batch([self._array(columns[n], n) for n in names], schema)

    def _lines(self, paths: Iterable[Path]) -> Iterator[tuple[str, float, float, list[str]]]:
        for path in paths:
            name = _recording(path, self._root)
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file):
                    if line.strip():
                        try:
                            start, end, numbers = line.split("\t")
                            yield name, float(start), float(end), numbers_of(numbers)
                        except ValueError as error:
                            raise FileFormatError(
                                f"line {number + 1} of {path} is {line[:40]!r}: expected a start, "
                                "an end and numbers, separated by tabs."
                            ) from error

    def _vectors(self, path: Path, first: int, rows: Sequence[list[str]]) -> Any:
        width = self.width("embedding")
        odd = [i for i, row in enumerate(rows) if len(row) != width]
        if odd:
            raise FileFormatError(
                f"clip {first + odd[0]} of {path} has {len(rows[odd[0]])} numbers, but others "
                f"have {width}."
            )
        return np.array(rows, dtype=np.float32)

    def _array(self, values: Any, name: str) -> Any:
        if name != "embedding":
            return self._pa.array(values, self.type_of(name))
        flat = self._pa.array(values.reshape(-1))
        return self._pa.FixedSizeListArray.from_arrays(flat, self.width(name))


def _detections(paths: Sequence[Path], root: Path, features: Sequence[str]) -> tuple[Any, str, Any]:
    """Tables of detections as one table: a row per clip, a column per species."""
    pa = import_extra("pyarrow", extra="io")
    clips: dict[tuple[str, float, float], int] = {}
    species: dict[str, int] = {}
    found: list[tuple[int, int, float]] = []
    for path in paths:
        for file, start, end, name, confidence in _rows(path, root):
            clip = clips.setdefault((file, start, end), len(clips))
            if name != _NOTHING:
                found.append((clip, species.setdefault(name, len(species)), confidence))
    names = sorted({*species, *features} - {*_CLIP})
    if not clips or not names:
        raise FileFormatError(f"{root} lists no detection of a species.")
    require_memory(
        8 * len(clips) * len(names),
        purpose=f"a table of {len(clips):,} clips and {len(names):,} species",
        remedy="raise the minimum confidence of BirdNET, or read fewer recordings",
    )
    place = {name: j for j, name in enumerate(names)}
    columns = np.array([place[name] for name in species], dtype=np.int64)
    values = np.zeros((len(clips), len(names)))
    for clip, which, confidence in found:
        j = columns[which]
        values[clip, j] = max(values[clip, j], confidence)
    times = dict(zip(_CLIP, zip(*clips, strict=True), strict=True))
    table = pa.table(times | {name: values[:, j] for j, name in enumerate(names)})
    return table.schema, str(root), table


def _rows(path: Path, root: Path) -> Iterator[tuple[str, float, float, str, float]]:
    """File, start, end, species and confidence of each detection."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        delimiter = "\t" if "\t" in file.readline() else ","
        file.seek(0)
        reader = csv.DictReader(file, delimiter=delimiter)
        names = list(reader.fieldnames or ())
        clips, perch = clip_columns(names), _perch_columns(names)
        if not is_result(names):
            raise FileFormatError(
                f"{path} is not a table of BirdNET-Analyzer: expected the columns Start (s), End "
                "(s), Common name and Confidence, or those of a selection table; it has "
                f"{names[:10]}."
            )
        species = next((name for name in _SPECIES if name in names), "")
        for row in reader:
            try:
                if perch is not None:
                    yield _perch_row(row, perch)
                    continue
                assert clips is not None
                start, end = float(row[clips.start]), float(row[clips.end])
                # In a table of several recordings the times accumulate; the offset does not.
                begin = float(row.get("File Offset (s)") or start)
                recording = (row[clips.file] if clips.file else None) or _recording(path, root)
                confidence = float(row[_CONFIDENCE])
                yield recording, begin, begin + end - start, row[species], confidence
            except (TypeError, ValueError) as error:
                raise FileFormatError(
                    f"line {reader.line_num} of {path} lacks a start, an end or a confidence."
                ) from error


def _perch_row(
    row: dict[str, str], columns: tuple[str, str, str | None]
) -> tuple[str, float, float, str, float]:
    """A detection of Perch-Hoplite, with the logit converted to a probability."""
    file, first, last = columns
    start = float(row[first])
    end = start + _PERCH_LENGTH if last is None else float(row[last])
    return row[file], start, end, row["label"], float(expit(float(row["logits"])))


def _recording(path: Path, root: Path) -> str:
    """The recording that a file describes: the file name without the suffix of BirdNET."""
    name = (path.relative_to(root) if root.is_dir() else Path(path.name)).as_posix()
    ending = next((e for e in BIRDNET if name.lower().endswith(e)), path.suffix)
    return name[: len(name) - len(ending)]

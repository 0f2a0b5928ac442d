"""Write labels of clips for Raven and Audacity, a file per recording, and read corrections.

Raven (Pro or Lite) opens selection tables: tab-separated text with a heading and a row per box.
Audacity imports labels: start, end and text, separated by tabs, without a heading. A
prediction that nobody reviewed is recognised in Raven by the columns ``Predicted`` and ``Checked``,
in Audacity by the probability after the label (``wren? 62 %``). Strings that a spreadsheet would
run are escaped, as in CSV files. crowsetta, which reads both formats, requires pandas and pandera.
"""

from __future__ import annotations

import csv
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bagwise._common.files import replacing
from bagwise._common.types import Array, Floats, Ints
from bagwise._common.warnings import warn_user
from bagwise.exceptions import DataWarning, FileFormatError, InputError
from bagwise.io._clips import clip_columns
from bagwise.io._files import escaped, unescaped

LABEL, GUESS, CHECKED = "Annotation", "Predicted", "Checked"
_LABELS = (LABEL, "annotation", "Label", "label", "Species", "species", "Common Name")
_HEADING = (
    "Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)",
    "High Freq (Hz)", LABEL, "Score", GUESS, CHECKED, "Begin File",
)  # fmt: skip
_PATH = "Begin Path"
_UNSEEN = re.compile(r"\? \d+ %$")  # a prediction that nobody reviewed
_AUDIO = re.compile(r"\.(wav|flac|mp3|ogg|opus|m4a|aac|aiff?|wma)$", re.IGNORECASE)
_SAME = 0.005  # seconds; times may be rounded to two decimals


class Selection(NamedTuple):
    """A labelled part of a recording.

    `recording` is the ``Begin File`` of the row, or else the name of the table; `is_guess` is True
    for a prediction of bagwise that nobody changed or confirmed.
    """

    recording: str
    start: float
    end: float
    label: str
    path: Path
    is_guess: bool = False


def file_names(recordings: Iterable[str]) -> dict[str, str]:
    """Choose a file name for each recording: its name without suffix, with folders if they differ.

    Parameters
    ----------
    recordings : iterable of str
        Paths, or other ids.

    Returns
    -------
    dict of str to str
        By recording; the names are distinct and contain no separator.

    Examples
    --------
    >>> from bagwise.apps.audio._selections import file_names
    >>> file_names(["data/a.wav", "data/b.wav", "data/night/b.wav"])
    {'data/a.wav': 'a', 'data/b.wav': 'b', 'data/night/b.wav': 'night_b'}
    """
    paths = {name: name.replace("\\", "/") for name in dict.fromkeys(recordings)}
    common = ""
    if len({path.startswith("/") for path in paths.values()}) == 1:
        common = posixpath.commonpath([posixpath.dirname(path) for path in paths.values()])
    inside = {name: path.removeprefix(common) for name, path in paths.items()}
    stems = Counter(_plain(_AUDIO.sub("", path)).lower() for path in inside.values())
    found: dict[str, str] = {}
    taken: set[str] = set()  # in lower case: some file systems ignore case
    for name, path in inside.items():
        own = _plain(_AUDIO.sub("", path))
        own = own if stems[own.lower()] == 1 else _plain(path)
        while own.lower() in taken:
            own = f"{own}_{len(taken)}"
        taken.add(own.lower())
        found[name] = own
    return found


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).strip("._") or "recording"


def write_selections(
    folder: Path,
    program: str,
    recordings: Sequence[str],
    table: Mapping[str, Array],
    *,
    kept: Mapping[str, Sequence[Any]] | None = None,
    background: Any = None,
    force: bool,
) -> list[Path]:
    """Write the labels of clips, a file per recording.

    Parameters
    ----------
    folder : Path
        The folder; created if it does not exist.
    program : {"raven", "audacity"}
        The program that reads the files.
    recordings : sequence of str
        The recording of each instance.
    table : mapping of str to ndarray
        ``start``, ``end``, ``label`` and ``probability`` of each instance.
    kept : mapping of str to sequence, default=None
        Further columns, a value per instance; not written for Audacity.
    background : object, default=None
        The label of clips that are left out.
    force : bool
        Whether files may be overwritten.

    Returns
    -------
    list of Path
    """
    start, end = (np.asarray(table[name], dtype=np.float64) for name in ("start", "end"))
    odd = np.flatnonzero(~(np.isfinite(start) & (start <= end) & np.isfinite(end)))
    if len(odd):
        i = int(odd[0])
        raise InputError(
            f"a clip of {recordings[i]!r} goes from {start[i]} to {end[i]} seconds: expected two "
            "times in order."
        )
    rows: dict[str, list[int]] = {name: [] for name in recordings}
    labels = table["label"].tolist()
    for i in np.lexsort((end, start)).tolist():
        if background is None or labels[i] != background:
            rows[recordings[i]].append(i)
    further = {_heading(name): values for name, values in (kept or {}).items()}
    folder.mkdir(parents=True, exist_ok=True)
    names = file_names(rows)
    written = []
    for recording, chosen in rows.items():
        path = folder / f"{names[recording]}.txt"
        lines = [[*_HEADING, *further]] if program == "raven" else []
        for number, i in enumerate(chosen, 1):
            times = f"{start[i]:.6f}", f"{end[i]:.6f}"
            label, chance = _cell(labels[i]), float(table["probability"][i])
            if program == "raven":
                name = _cell(recording.replace("\\", "/").rpartition("/")[2])
                box = "0.0", "10000.0"  # Hz; clips have no frequency range
                guess = label, f"{chance:.4f}", label, "", name
                cells = (_cell(values[i]) for values in further.values())
                lines.append([str(number), "Spectrogram 1", "1", *times, *box, *guess, *cells])
            else:
                lines.append([*times, f"{label}? {100 * chance:.0f} %"])
        with replacing(path, force=force) as temporary:
            text = "".join("\t".join(line) + "\n" for line in lines)
            temporary.write_text(text, encoding="utf-8", newline="")
        written.append(path)
    return written


def _heading(name: str) -> str:
    """The heading of a further column, distinct from those of Raven."""
    text = _cell(name)
    return f"{text} (kept)" if text in {*_HEADING, *_LABELS, _PATH} else text


def _cell(value: Any) -> str:
    return "" if value is None else escaped(" ".join(str(value).split()))


def read_selections(path: Path) -> list[Selection]:
    """Read labels from Raven or Audacity; predictions that nobody reviewed are marked as guesses.

    Parameters
    ----------
    path : Path
        A .txt file, or a folder of them.

    Returns
    -------
    list of Selection

    Raises
    ------
    FileFormatError
        When a file is neither a selection table nor a file of labels.
    """
    paths = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    if not paths:
        raise InputError(f"{path} has no .txt files of Raven or Audacity.")
    found: dict[Selection, None] = {}  # Raven writes a selection once for each of its views
    for each in paths:
        try:
            with open(each, encoding="utf-8-sig", newline="") as file:
                is_raven = "Begin Time (s)" in file.readline()
                file.seek(0)
                rows = _read_raven(file, each) if is_raven else _read_audacity(file, each)
                found |= dict.fromkeys(rows)
        except (UnicodeDecodeError, csv.Error) as error:
            raise FileFormatError(f"{each} is not a text file of Raven or Audacity.") from error
    return list(found)


def _read_raven(file: Any, path: Path) -> Iterator[Selection]:
    reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    names = list(reader.fieldnames or ())
    # Only columns of Raven: a further column may be called file, start, ...
    clips = clip_columns(name for name in names if name in (*_HEADING, _PATH))
    label = next((name for name in _LABELS if name in names), names[7] if len(names) > 7 else None)
    if clips is None or label is None:
        raise FileFormatError(
            f"{path} has the columns {names[:10]}: expected those of a selection table, and one "
            f"with labels, called {LABEL}."
        )
    for row in reader:
        text = (row[label] or "").strip()
        is_guess = text == row.get(GUESS) and not (row.get(CHECKED) or "").strip()
        where = unescaped((row[clips.file] if clips.file else None) or path.name)
        times = row[clips.start], row[clips.end]
        yield from _selection(where, *times, text, path, reader.line_num, is_guess)


def _read_audacity(file: Any, path: Path) -> Iterator[Selection]:
    for number, line in enumerate(file, start=1):
        if not line.strip() or line.startswith("\\"):  # a line with a frequency range
            continue
        start, end, *rest = [*line.rstrip("\r\n").split("\t", 2), "", ""][:3]
        text = rest[0].partition("\t")[0].strip()
        is_guess = _UNSEEN.search(text) is not None
        yield from _selection(path.name, start, end, text, path, number, is_guess)


def _selection(
    recording: str,
    start: str | None,
    end: str | None,
    label: str,
    path: Path,
    line: int,
    is_guess: bool,
) -> Iterator[Selection]:
    """The selection of a line; none if it has no label."""
    try:
        # Audacity writes a decimal comma in some locales.
        begin, stop = (float((text or "").replace(",", ".")) for text in (start, end))
    except ValueError as error:
        raise FileFormatError(
            f"line {line} of {path} begins with {start!r} and {end!r}: expected two times in "
            "seconds, as Raven and Audacity write them."
        ) from error
    if label:
        yield Selection(recording, begin, stop, unescaped(label), path, is_guess)


def match_selections(
    selections: Iterable[Selection], recordings: Sequence[str], start: Floats, end: Floats
) -> dict[int, str]:
    """Find the clips that selections label.

    A selection with the times of a clip labels that clip. Any other selection labels the clips that
    overlap with it by at least half of the shorter of the two.

    Parameters
    ----------
    selections : iterable of Selection
        The labelled parts of recordings.
    recordings : sequence of str
        The recording of each instance.
    start, end : ndarray of shape (n_instances,)
        The times of each instance.

    Returns
    -------
    dict of int to str
        The label of each instance that is known.

    Raises
    ------
    InputError
        When there is no such recording or clip.

    Warns
    -----
    DataWarning
        When a clip has several labels; it is left out.
    """
    names = file_names(recordings)
    rows: dict[str, list[int]] = {}
    for i, name in enumerate(recordings):
        rows.setdefault(name, []).append(i)
    clips_of: dict[tuple[str, Path], Ints] = {}
    known: dict[int, str] = {}
    several: dict[int, str] = {}  # clips with contradictory labels, and a message about each
    for selection in selections:
        place = selection.recording, selection.path
        if place not in clips_of:
            clips_of[place] = np.array(rows[_recording_of(selection, names)], dtype=np.int64)
        own = clips_of[place]
        chosen = _clips_of(selection, start[own], end[own])
        if not len(chosen):
            raise InputError(
                f"{selection.path} labels {selection.start:g} to {selection.end:g} s as "
                f"{selection.label!r}, where {selection.recording!r} has no clip."
            )
        for i in own[chosen].tolist():
            if known.setdefault(i, selection.label) != selection.label:
                several[i] = (
                    f"{selection.path} labels the clip from {start[i]:g} to {end[i]:g} s as "
                    f"{known[i]!r} and {selection.label!r}"
                )
    if several:
        warn_user(
            f"{len(several)} clips have several labels and are ignored, because the model gives a "
            f"clip one label: {next(iter(several.values()))}.",
            DataWarning,
        )
    return {i: label for i, label in known.items() if i not in several}


def _recording_of(selection: Selection, names: Mapping[str, str]) -> str:
    """The recording of a selection: by its path, by its file name, or by the name of the table."""
    if selection.recording in names:
        return selection.recording
    last = selection.recording.replace("\\", "/").rpartition("/")[2]
    same = [name for name in names if name.replace("\\", "/").rpartition("/")[2] == last]
    if len(same) == 1:
        return same[0]
    # Raven saves a.txt as a.Table.1.selections.txt; the longest name wins.
    table = selection.path.name
    fitting = [name for name, own in names.items() if table.startswith(f"{own}.")]
    if not fitting:
        example = next(iter(names.items()), ("", ""))
        raise InputError(
            f"{selection.path} is about {selection.recording!r}, and there is no such recording: "
            f"call it {example[1]}.txt if it is about {example[0]!r}."
        )
    return max(fitting, key=lambda name: len(names[name]))


def _clips_of(selection: Selection, start: Floats, end: Floats) -> Ints:
    exact = (abs(start - selection.start) < _SAME) & (abs(end - selection.end) < _SAME)
    if exact.any():
        return np.flatnonzero(exact)
    shared = np.minimum(end, selection.end) - np.maximum(start, selection.start)
    shorter = np.minimum(end - start, selection.end - selection.start)
    return np.flatnonzero((shared > 0) & (shared >= 0.5 * shorter))

"""Write labels of clips for Raven and Audacity, a file per recording, and read corrections.

Raven (Pro or Lite) opens selection tables: tab-separated text with a heading and a row per box.
Audacity imports labels: start, end and text, separated by tabs, without a heading. A
prediction that nobody reviewed is recognised in Raven by the columns ``Predicted`` and ``Checked``,
in Audacity by the probability after the label (``wren? 62 %``). Strings that a spreadsheet would
run are escaped, as in CSV files. crowsetta, which reads both formats, requires pandas and pandera.
"""

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from bagwise._common.files import distinct_names, write_file
from bagwise._common.types import Array, Bools, Floats
from bagwise.exceptions import FileFormatError, InputError
from bagwise.io._contents import clip_columns
from bagwise.io._files import escaped, unescaped

LABEL, GUESS, CHECKED = "Annotation", "Predicted", "Checked"
# The usual names of the column with the label
HEADS = (LABEL, "annotation", "Label", "label", "Species", "species", "Common Name")
_BOX = ("Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)")
_OURS = (LABEL, "Score", GUESS, CHECKED, "Begin File")
_HEADING = ("Selection", "View", "Channel", *_BOX, *_OURS)
_PATH = "Begin Path"
_UNSEEN = re.compile(r"\? \d+ %$")  # a prediction that nobody reviewed
_AUDIO = re.compile(r"\.(wav|flac|mp3|ogg|opus|m4a|aac|aiff?|wma)$", re.IGNORECASE)
_SAME = 0.005  # seconds; times may be rounded to two decimals


class Selection(NamedTuple):
    """A labelled part of a recording.

    `recording` is the ``Begin File`` of the row, or else the name of the table; `end` is NaN if it
    is not known; `is_guess` is True for a prediction of bagwise that nobody changed or confirmed.
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
    names = list(dict.fromkeys(recordings))
    paths = [_AUDIO.sub("", name.replace("\\", "/")) for name in names]
    start = os.path.commonprefix(paths).rfind("/") + 1  # noqa: RUF071 - cut at a separator
    return dict(zip(names, distinct_names([path[start:] for path in paths]), strict=True))


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
        The label of clips that are left out, besides the empty one.
    force : bool
        Whether files may be overwritten.

    Returns
    -------
    list of Path
    """
    start, end = (np.asarray(table[name], dtype=np.float64) for name in ("start", "end"))
    for i in np.flatnonzero(~(start <= end))[:1]:
        raise InputError(f"a clip of {recordings[i]!r} is from {start[i]} to {end[i]} seconds.")
    rows: dict[str, list[int]] = {name: [] for name in recordings}
    labels = table["label"].tolist()
    for i in np.lexsort((end, start)).tolist():
        if labels[i] not in ("", background):
            rows[recordings[i]].append(i)
    # A further column must not have the name of one that `read_selections` reads.
    further = {
        f"{_cell(name)} (kept)" if name in {*_HEADING, *HEADS, _PATH} else _cell(name): values
        for name, values in (kept or {}).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for recording, own_name in file_names(rows).items():
        lines = [[*_HEADING, *further]] if program == "raven" else []
        file = _cell(_last(recording))
        for number, i in enumerate(rows[recording], 1):
            times = f"{start[i]:.6f}", f"{end[i]:.6f}"
            label, chance = _cell(labels[i]), float(table["probability"][i])
            if program == "raven":
                box = *times, "0.0", "10000.0"  # Hz; clips have no frequency range
                cells = (_cell(values[i]) for values in further.values())
                own = label, f"{chance:.4f}", label, "", file
                lines.append([str(number), "Spectrogram 1", "1", *box, *own, *cells])
            else:
                lines.append([*times, f"{label}? {100 * chance:.0f} %"])
        written.append(folder / f"{own_name}.txt")
        write_file(written[-1], "".join("\t".join(line) + "\n" for line in lines), force=force)
    return written


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
        with open(each, encoding="utf-8-sig", newline="") as file:
            is_raven = "Begin Time (s)" in file.readline()
            file.seek(0)
            for line, where, *times, label, is_guess in (_raven if is_raven else _audacity)(file):
                try:
                    # Audacity writes a decimal comma in some locales.
                    start, end = (float(time.replace(",", ".")) for time in times)
                except ValueError as error:
                    raise FileFormatError(
                        f"line {line} of {each} begins with {times}: expected two times in "
                        "seconds, as Raven and Audacity write them."
                    ) from error
                if label:
                    own = unescaped(where or each.name), start, end, unescaped(label)
                    found[Selection(*own, each, is_guess)] = None
    return list(found)


def _raven(file: TextIO) -> Iterator[tuple[Any, ...]]:
    """Line, recording, start, end, label of each selection, and whether it is a prediction."""
    reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE, restval="")
    names = list(reader.fieldnames or ())
    # Only columns of Raven: a further column may be called file, start, ...
    clips = clip_columns(name for name in names if name in (*_HEADING, _PATH))
    label = next((name for name in HEADS if name in names), names[7] if len(names) > 7 else None)
    if clips is None or label is None:
        raise FileFormatError(
            f"{file.name} has the columns {names[:10]}: expected a selection table with {LABEL}."
        )
    recording, start, end = clips
    for row in reader:
        text = row[label].strip()
        is_guess = text == row.get(GUESS) and not row.get(CHECKED, "").strip()
        where = row[recording] if recording else ""
        yield reader.line_num, where, row[start], row[end], text, is_guess


def _audacity(file: TextIO) -> Iterator[tuple[Any, ...]]:
    """The same of each label; the recording is the name of the file."""
    for number, line in enumerate(file, start=1):
        if line.strip() and not line.startswith("\\"):  # a line with a frequency range
            start, end, text, *_ = [*line.rstrip("\r\n").split("\t"), "", ""]
            yield number, "", start, end, text.strip(), bool(_UNSEEN.search(text.strip()))


def match_selections(
    selections: Iterable[Selection], recordings: Sequence[str], start: Floats, end: Floats
) -> dict[int, str]:
    """Find the clips that selections label.

    A selection with the times of a clip labels that clip (with its start, if no end is known). Any
    other selection labels the clips that overlap with it by at least half of the shorter of the
    two.

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
        The label of each instance that is known; several as ``owl;wren``.

    Raises
    ------
    InputError
        When there is no such recording or clip.
    """
    names = file_names(recordings)
    rows: dict[str, list[int]] = {name: [] for name in names}
    for i, name in enumerate(recordings):
        rows[name].append(i)
    known: dict[int, dict[str, None]] = {}
    for selection in selections:
        own = np.array(rows[_recording_of(selection, names)])
        chosen = own[_covered(selection, start[own], end[own])]
        if not len(chosen):
            raise InputError(
                f"{selection.path} labels {selection.label!r} from {selection.start:g} s, where "
                f"{selection.recording!r} has no clip."
            )
        for i in chosen.tolist():
            known.setdefault(i, {})[selection.label] = None
    return {i: ";".join(labels) for i, labels in known.items()}


def _recording_of(selection: Selection, names: Mapping[str, str]) -> str:
    """The recording of a selection: by its path, by its file name, or by the name of the table."""
    if selection.recording in names:
        return selection.recording
    last = _last(selection.recording)
    same = [name for name in names if _last(name) == last]
    same = same or [name for name in names if stem(name) == stem(last)]
    # Raven saves a.txt as a.Table.1.selections.txt; the longest name wins.
    table = selection.path.name
    fitting = [name for name, own in names.items() if table.startswith(f"{own}.")]
    if len(same) != 1 and not fitting:
        raise InputError(
            f"{selection.path} is about {selection.recording!r}, and there is no such recording: "
            f"name the file after its recording, such as {next(iter(names.values()), 'a')}.txt."
        )
    return same[0] if len(same) == 1 else max(fitting, key=lambda name: len(names[name]))


def _last(path: str) -> str:
    """The name of a file, without folders of any system."""
    return path.replace("\\", "/").rpartition("/")[2]


def stem(path: str) -> str:
    """The name of a recording, without folders and suffix."""
    return _AUDIO.sub("", _last(path))


def _covered(selection: Selection, start: Floats, end: Floats) -> Bools:
    """Which clips a selection labels."""
    exact = (abs(start - selection.start) < _SAME) & ~(abs(end - selection.end) >= _SAME)
    if exact.any():
        return exact
    shared = np.minimum(end, selection.end) - np.maximum(start, selection.start)
    shorter = np.minimum(end - start, selection.end - selection.start)
    return (shared > 0) & (shared >= 0.5 * shorter)

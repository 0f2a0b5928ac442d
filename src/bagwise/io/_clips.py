"""Clips of recordings: the columns of a table with the file, start and end of each clip.

Tables of sound embeddings (BirdNET, Perch, OpenSoundscape) have a row per clip with its file, its
start and its end in seconds. A clip is an instance, its recording the bag; the times are kept
beside the instances and are never features.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from bagwise._common.types import Floats, Ints

_STARTS = ("start", "start_time", "begin", "begin_time", "onset")
_ENDS = ("end", "end_time", "stop", "stop_time")
_SECONDS = re.compile(r" ?[([]s[)\]]$|[ _](s|sec|seconds)$")
_FILES = (
    "file_path", "filepath", "file", "filename", "file_name", "recording", "audio_file",
    "begin_path", "begin_file", "in_file", "source_id", "source_file", "source", "path",
)  # fmt: skip


class ClipColumns(NamedTuple):
    """The names of the columns with the file, the start and the end of a clip."""

    file: str | None
    start: str
    end: str


@dataclass(frozen=True)
class Clips:
    """Position of each instance in its recording.

    Attributes
    ----------
    start, end : ndarray of shape (n_instances,)
        In seconds.
    file : list of str, or None
        The file of each instance; None if the bag is the file.
    """

    start: Floats
    end: Floats
    file: list[str | None] | None = None

    def __getitem__(self, rows: Ints) -> Clips:
        files = None if self.file is None else [self.file[row] for row in rows]
        return Clips(self.start[rows], self.end[rows], files)


def clip_columns(names: Iterable[str]) -> ClipColumns | None:
    """Find the columns of the start and the end of clips, and of their file.

    Parameters
    ----------
    names : iterable of str
        The columns of a table.

    Returns
    -------
    ClipColumns or None
        None if the table has no start or no end.

    Examples
    --------
    >>> from bagwise.io._clips import clip_columns
    >>> clip_columns(["Start (s)", "End (s)", "Common name", "Confidence", "File"])
    ClipColumns(file='File', start='Start (s)', end='End (s)')
    >>> clip_columns(["start", "label"]) is None
    True
    """
    # Names are compared in lower case, with underscores and without the unit.
    plain = {
        _SECONDS.sub("", name.strip().lower()).replace(" ", "_"): name
        for name in reversed(list(names))
    }
    file, start, end = (
        next((plain[name] for name in known if name in plain), None)
        for known in (_FILES, _STARTS, _ENDS)
    )
    return None if start is None or end is None else ClipColumns(file, start, end)


def clip_texts(clips: Clips) -> list[str]:
    """Start and end of each clip as text.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.io._clips import Clips, clip_texts
    >>> clip_texts(Clips(np.array([1.5, 60.0]), np.array([4.5, 63.0])))
    ['1.5 to 4.5 s', '60 to 63 s']
    """
    times = zip(clips.start.tolist(), clips.end.tolist(), strict=True)
    return [f"{start:.7g} to {end:.7g} s" for start, end in times]

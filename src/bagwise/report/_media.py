"""Embed images, sounds and texts of instances in a page, up to a size limit."""

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.sounds import read_sound
from bagwise._common.types import Array, Ints
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags
from bagwise.exceptions import DataNotFoundError, InputError

IMAGES = {".png": "image/png", ".jpg": "image/jpeg"} | {
    f".{kind}": f"image/{kind}" for kind in ("jpeg", "gif", "webp", "bmp")
}
SOUNDS = {
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
}
LONGEST_TEXT = 1000


@dataclass(frozen=True)
class Media:
    """Images, sounds and texts of the instances, for a :class:`Report`.

    Every list has one entry per instance, aligned with ``bags.instances``; None if there is none.
    The files of the first instances of each bag are embedded in the page, up to the budget; the
    others are shown by name.

    Parameters
    ----------
    images : sequence, default=None
        Image files (PNG, JPEG, GIF, WebP, BMP), or arrays of shape (height, width) or
        (height, width, 3): bytes, or floats from 0 (black) to 1 (white).
    audio : sequence of path, default=None
        Sound files (WAV, MP3, Ogg, FLAC, M4A).
    clips : array-like of shape (n_instances, 2), default=None
        Start and end of each instance in its `audio`, in seconds; only this part is embedded. For
        WAV files only.
    texts : sequence of str, default=None
        A text for each instance.
    sources : sequence, default=None
        The image each instance was cut from: an image file or array, as in `images`.
    boxes : array-like of shape (n_instances, 4), default=None
        Position of each instance in its source: x, y (from the upper left), width, height in
        pixels; NaN if unknown.
    per_bag : int, default=6
        Number of instances of a bag that are shown with image and sound.
    budget : int, default=20_000_000
        Maximum number of bytes of embedded files.

    Examples
    --------
    >>> from bagwise.report import Media
    >>> Media(texts=["a cough", "silence"]).per_bag
    6
    """

    images: Sequence[Any] | None = None
    audio: Sequence[Any] | None = None
    clips: ArrayLike | None = None
    texts: Sequence[str | None] | None = None
    sources: Sequence[Any] | None = None
    boxes: ArrayLike | None = None
    per_bag: int = 6
    budget: int = 20_000_000

    def check(self, bags: Bags) -> None:
        """Check that every list has one entry per instance."""
        for name in ("images", "audio", "clips", "texts", "sources", "boxes"):
            values = getattr(self, name)
            if values is not None and len(values) != bags.n_instances:
                raise InputError(
                    f"media.{name} has {len(values)} entries for {bags.n_instances} instances: "
                    "give one each, None if there is none."
                )
        if self.clips is not None and (self.audio is None or np.shape(self.clips)[1:] != (2,)):
            raise InputError(
                "media.clips needs media.audio, and the start and end of each instance in seconds."
            )
        if self.boxes is not None:
            shape = np.shape(self.boxes)
            if len(shape) != 2 or shape[1] != 4:
                raise InputError(
                    f"media.boxes has shape {shape}: expected x, y, width and height of each "
                    "instance."
                )
            if self.sources is None:
                raise InputError("media.boxes needs media.sources: the images they lie in.")


@dataclass(frozen=True)
class Clip:
    """A part of a recording, from `start` to `end` in seconds."""

    path: Path
    start: float
    end: float

    @property
    def name(self) -> str:
        """The file and the part of it."""
        return f"{self.path.name}, {self.start:g} to {self.end:g} s"

    def cut(self) -> bytes:
        """The part as a WAV file; empty if it cannot be cut out."""
        with self.path.open("rb") as file:
            sound = read_sound(file, self.start, self.end)
        return b"" if sound is None else sound.to_wav()


class EmbeddedMedia:
    """The embedded media of the shown instances: each file once, up to the budget.

    Parameters
    ----------
    media : Media or None
        The media of all instances.
    rows : ndarray of int
        The instances that the page shows.
    ranks : ndarray of int
        The rank of each of them in its bag; files of the first ranks are embedded first.

    Attributes
    ----------
    files : list of str
        Data URLs with the contents of the files.
    columns : dict
        For ``image``, ``audio`` and ``source``: the index into `files` of each shown instance (-1:
        not embedded) and its name; for ``text`` the texts; for ``box`` the boxes.
    note : str
        A sentence about files that were left out.
    """

    def __init__(self, media: Media | None, rows: Ints, ranks: Ints) -> None:
        self.files: list[str] = []
        self.columns: dict[str, Any] = {}
        self.note = ""
        self._places: dict[Any, int] = {}
        self._too_much = self._uncut = 0
        self._missing: list[str] = []
        if media is None:
            return
        self._left = media.budget
        if media.texts is not None:
            self.columns["text"] = [_text(media.texts[i]) for i in rows]
        first = np.argsort(ranks, kind="stable")
        if media.sources is not None:
            self.columns["source"] = self._put_all(
                media.sources, rows, first, IMAGES, "source image"
            )
            boxes = np.full((len(rows), 4), np.nan)
            if media.boxes is not None:
                boxes = np.asarray(media.boxes, dtype=float)[rows]
            self.columns["box"] = [
                box.round(2).tolist() if np.isfinite(box).all() else None for box in boxes
            ]
        shown = first[ranks[first] < media.per_bag]
        sounds = media.audio
        if sounds is not None and media.clips is not None:
            times = np.asarray(media.clips, dtype=float).tolist()
            sounds = [
                None if path is None else Clip(Path(path), *part)
                for path, part in zip(sounds, times, strict=True)
            ]
        for kind, items, endings in (
            ("image", media.images, IMAGES),
            ("audio", sounds, SOUNDS),
        ):
            if items is not None:
                places = self._put_all(items, rows, shown, endings, kind)
                names = [_name(items[i]) for i in rows]
                self.columns[kind] = {"place": places, "name": names}
        self._report_gaps(media.per_bag)

    def _put_all(
        self, items: Any, rows: Any, order: Any, endings: dict[str, str], kind: str
    ) -> list[int]:
        """The index of the file of each row; -1 for rows that are not in `order`."""
        places = np.full(len(rows), -1)
        for j in order:
            item = items[rows[j]]
            if item is not None:
                key = item.tobytes() if isinstance(item, np.ndarray) else str(item)
                if key not in self._places:
                    self._places[key] = self._put(item, endings, kind)
                places[j] = self._places[key]
        return places.tolist()

    def _put(self, item: Any, endings: dict[str, str], kind: str) -> int:
        """Embed a file and return its index; -1 if it is missing or exceeds the budget."""
        if isinstance(item, np.ndarray):
            data, mime = png(item), "image/png"
            size = len(data)
        else:
            path = item.path if isinstance(item, Clip) else Path(item)
            mime = endings.get(path.suffix.lower(), "")
            if not mime:
                known = ", ".join(endings)
                raise InputError(
                    f"{path.name!r} is not a file that a page can show as {kind}: expected {known}."
                )
            if not path.is_file():
                self._missing.append(str(item))
                return -1
            if isinstance(item, Clip):
                data, mime = item.cut(), "audio/wav"
                if not data:
                    self._uncut += 1
                    return -1
                size = len(data)
            else:
                size = path.stat().st_size
                data = path.read_bytes() if size <= self._left else b""
        if size > self._left:
            self._too_much += 1
            return -1
        self._left -= size
        self.files.append(f"data:{mime};base64,{base64.b64encode(data).decode()}")
        return len(self.files) - 1

    def _report_gaps(self, per_bag: int) -> None:
        """Write the note for readers of the page, and warn the user about missing files."""
        if self._missing:
            if not self.files:
                raise DataNotFoundError(f"no file {self._missing[0]!r}, and no other media file.")
            warn_user(
                f"{len(self._missing)} media files were not found, {self._missing[0]!r} among "
                "them: they are shown by name."
            )
        if self.files or self._too_much or self._uncut:
            self.note = f"Images and sounds are shown for the first {per_bag} instances of a bag."
        if self._too_much:
            self.note += (
                f" {self._too_much} files exceed the size limit of the page and are shown by name."
            )
        if self._uncut:
            self.note += (
                f" {self._uncut} clips are shown by name: only WAV files can be cut into clips."
            )


def png(image: Array) -> bytes:
    """Write an array as a PNG file.

    Parameters
    ----------
    image : ndarray of shape (height, width) or (height, width, 3)
        Bytes, or floats from 0 (black) to 1 (white).

    Returns
    -------
    bytes

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.report._media import png
    >>> png(np.zeros((8, 8)))[1:4]
    b'PNG'
    """
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3) or 0 in image.shape:
        raise InputError(
            f"an image of shape {image.shape}: expected (height, width) or (height, width, 3)."
        )
    if image.dtype != np.uint8:
        image = (np.clip(np.nan_to_num(image.astype(float)), 0, 1) * 255).round().astype(np.uint8)
    height, width = image.shape[:2]
    # Each line of pixels begins with its filter type: 0, no filter.
    lines = np.column_stack([np.zeros(height, np.uint8), image.reshape(height, -1)]).tobytes()
    kind = 0 if image.ndim == 2 else 2
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def _text(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _name(item: Any) -> str:
    if item is None or isinstance(item, np.ndarray):
        return ""
    return item.name if isinstance(item, Clip) else Path(item).name

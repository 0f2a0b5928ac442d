"""Images, sounds and texts of instances: read, and embedded in a page up to a size limit."""

import importlib
import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.extras import import_extra
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.exceptions import DataNotFoundError, InputError, warn_user
from bagwise.report._page import data_url, shorten

# The files that a page shows, by their suffix.
_IMAGES = ("avif", "bmp", "gif", "jpeg", "png", "webp")
_SOUNDS = ("aac", "aiff", "flac", "ogg", "wav")
FILES = {f".{kind}": f"image/{kind}" for kind in _IMAGES}
FILES |= {f".{kind}": f"audio/{kind}" for kind in _SOUNDS}
FILES |= {".jpg": "image/jpeg", ".svg": "image/svg+xml", ".aif": "audio/aiff"}
FILES |= {".m4a": "audio/mp4", ".mp3": "audio/mpeg", ".oga": "audio/ogg", ".opus": "audio/ogg"}
LONGEST_TEXT = 1000
LARGEST_CLIP = 2**25  # samples


@dataclass(frozen=True)
class Media:
    """Images, sounds and texts of the instances, for a :class:`Report`.

    Every list has one entry per instance, aligned with ``bags.instances``; None if there is none.
    The files of the first instances of each bag are embedded in the page, up to the budget; the
    others are shown by name.

    Parameters
    ----------
    images : sequence, default=None
        Image files (PNG, JPEG, GIF, WebP, ...), or arrays of shape (height, width) or
        (height, width, 3): bytes, or floats from 0 (black) to 1 (white).
    audio : sequence of path, default=None
        Sound files (WAV, MP3, Ogg, FLAC, M4A, ...).
    clips : array-like of shape (n_instances, 2), default=None
        Start and end of each instance in its `audio`, in seconds; only this part is embedded.
        Needs ``pip install "bagwise[audio]"``.
    texts : sequence of str, default=None
        A string for each instance.
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
            values, n = getattr(self, name), bags.n_instances
            if values is not None and len(values) != n:
                raise InputError(
                    f"media.{name} has {len(values)} entries for {n} instances: give one each."
                )


class _Embedder:
    """Embeds files as data URLs, each once, up to a budget of bytes."""

    def __init__(self, budget: int) -> None:
        self.left, self.n_left_out = budget, 0
        self.files: list[str] = []
        self.missing: list[str] = []
        self._places: dict[Any, int] = {}

    def places(self, items: Any, rows: Ints, order: Ints, kind: str) -> list[int]:
        """The index in `files` of the file of each row; -1 for rows that are not in `order`."""
        places = np.full(len(rows), -1)
        for j in order:
            item = items[rows[j]]
            if item is not None:
                key = item.tobytes() if isinstance(item, np.ndarray) else str(item)
                if key not in self._places:
                    self._places[key] = self._embed(*self._read(item, kind))
                places[j] = self._places[key]
        return places.tolist()

    def _embed(self, content: bytes | None, kind: str) -> int:
        if content is None or len(content) > self.left:
            self.n_left_out += 1
            return -1
        self.left -= len(content)
        self.files.append(data_url(content, kind))
        return len(self.files) - 1

    def _read(self, item: Any, kind: str) -> tuple[bytes | None, str]:
        """The content and the type of an array, a file, or a part of a sound; None if missing."""
        if isinstance(item, np.ndarray):
            return png(item), "image/png"
        path, *times = item if isinstance(item, tuple) else (Path(item),)
        type_ = FILES.get(path.suffix.lower(), "")
        if not type_.startswith(kind):
            known = ", ".join(ending for ending, each in FILES.items() if each.startswith(kind))
            raise InputError(
                f"{path.name!r} is not a file that a page can show as {kind}: expected {known}."
            )
        if not path.is_file():
            self.missing.append(str(path))
            return None, type_
        with path.open("rb") as file:
            if not times:
                return file.read(self.left + 1), type_
            sound = read_sound(file, *times)
        return None if sound is None else sound.to_wav(), "audio/wav"

    def note(self, per_bag: int) -> str:
        """Write the note for readers of the page, and warn the user about missing files."""
        if self.missing and not self.files:
            raise DataNotFoundError(f"no file {self.missing[0]!r}, and no other media file.")
        left_out = (
            f"{self.n_left_out} files are shown by name: they are missing, exceed the size limit "
            'of the page, or are clips that cannot be cut out (pip install "bagwise[audio]").'
        )
        if self.missing:
            warn_user(f"{left_out} {self.missing[0]!r} was not found.")
        shown = f"Images and sounds are shown for the first {per_bag} instances of a bag."
        return " ".join([shown] * bool(self.files) + [left_out] * bool(self.n_left_out))


def embed(media: Media | None, rows: Ints, ranks: Ints) -> tuple[list[str], dict[str, Any], str]:
    """Embed the media of instances, the first ranks of each bag first.

    Parameters
    ----------
    media : Media or None
        The media of all instances.
    rows : ndarray of int
        The instances that the page shows.
    ranks : ndarray of int
        The rank of each of them in its bag.

    Returns
    -------
    files : list of str
        Data URLs with the contents of the files.
    columns : dict
        For ``image``, ``audio`` and ``source``: the index into `files` of each shown instance (-1:
        not embedded) and its name; for ``text`` the strings; for ``box`` the boxes.
    note : str
        A sentence about files that were left out.
    """
    columns: dict[str, Any] = dict.fromkeys(("image", "audio", "source", "text", "box"))
    if media is None:
        return [], columns, ""
    if media.texts is not None:
        columns["text"] = [shorten(str(media.texts[i] or ""), LONGEST_TEXT) for i in rows]
    if media.boxes is not None:
        boxes = np.asarray(media.boxes, dtype=float)[rows].round(2)
        columns["box"] = [box.tolist() if np.isfinite(box).all() else None for box in boxes]
    sounds = media.audio
    if sounds is not None and media.clips is not None:
        times = np.asarray(media.clips, dtype=float).tolist()
        sounds = [p and (Path(p), *part) for p, part in zip(sounds, times, strict=True)]
    found, first = _Embedder(media.budget), np.argsort(ranks, kind="stable")
    kinds = (("source", media.sources), ("image", media.images), ("audio", sounds))
    for kind, items in kinds:
        if items is not None:
            shown = first if kind == "source" else first[ranks[first] < media.per_bag]
            places = found.places(items, rows, shown, "audio" if kind == "audio" else "image")
            columns[kind] = {"place": places, "name": [_name(items[i]) for i in rows]}
    return found.files, columns, found.note(media.per_bag)


def png(image: Array) -> bytes:
    """Write an array of bytes, or of floats from 0 (black) to 1 (white), as a PNG file.

    Parameters
    ----------
    image : ndarray of shape (height, width) or (height, width, 3)
        The picture.

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
    buffer = io.BytesIO()
    import_extra("PIL.Image", extra="report").fromarray(image).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _name(item: Any) -> str:
    if item is None or isinstance(item, np.ndarray):
        return ""
    if isinstance(item, tuple):
        return f"{item[0].name}, {item[1]:g} to {item[2]:g} s"
    return Path(item).name


# Clips of sound files (WAV, FLAC, Ogg, MP3), cut out for playback


class Sound(NamedTuple):
    """A clip as 16-bit samples, which every browser plays, of shape (n_frames, n_channels)."""

    rate: int
    samples: Array

    @property
    def seconds(self) -> float:
        """Duration of the clip."""
        return len(self.samples) / self.rate

    def to_wav(self) -> bytes:
        """Encode the clip as a WAV file."""
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setparams((self.samples.shape[1], 2, self.rate, 0, "NONE", ""))
            file.writeframes(self.samples.tobytes())
        return buffer.getvalue()


def read_sound(file: IO[bytes], start: float = 0.0, end: float = np.inf) -> Sound | None:
    """Read a part of a sound file, and only this part: recordings are long.

    Parameters
    ----------
    file : binary file
        The open file.
    start, end : float
        Start and end of the part, in seconds.

    Returns
    -------
    Sound or None
        None if libsndfile cannot read the file or is not installed (the extra ``audio``), if the
        file has no samples in this part, or if the part has more than 2^25 samples.
    """
    try:
        soundfile: Any = importlib.import_module("soundfile")
    except ImportError:
        return None
    try:
        with soundfile.SoundFile(file) as sound:
            rate, n_channels = sound.samplerate, sound.channels
            if not 0 <= start < min(end, len(sound) / rate):
                return None
            first, last = round(start * rate), round(min(end * rate, len(sound)))
            if (last - first) * n_channels > LARGEST_CLIP:
                return None
            sound.seek(first)
            values = sound.read(last - first, dtype="float64", always_2d=True)
    except soundfile.LibsndfileError:  # truncated, damaged or of another kind
        return None
    values = np.nan_to_num(2**15 * values, posinf=2**15, neginf=-(2**15))
    samples = np.clip(np.floor(values), -(2**15), 2**15 - 1).astype("<i2")
    return Sound(rate, samples) if len(samples) else None

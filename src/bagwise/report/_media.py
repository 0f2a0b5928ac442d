"""Embed images, sounds and texts of instances in a page, up to a size limit."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.sounds import read_sound
from bagwise._common.types import Array, Ints
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags
from bagwise.exceptions import DataNotFoundError, InputError
from bagwise.extras import import_extra
from bagwise.report._page import data_url, shorten

IMAGES = {f".{kind}": f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "bmp")}
IMAGES[".jpg"] = "image/jpeg"
SOUNDS = {".wav": "audio/wav", ".mp3": "audio/mpeg", ".flac": "audio/flac", ".m4a": "audio/mp4"}
SOUNDS |= dict.fromkeys((".ogg", ".oga", ".opus"), "audio/ogg")
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
        Start and end of each instance in its `audio`, in seconds; only this part is embedded.
        Needs ``pip install "bagwise[audio]"``.
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
        needs = (("clips", "audio", ("start", "end")), ("boxes", "sources", ("x", "y", "w", "h")))
        for name, needed, columns in needs:
            values = getattr(self, name)
            if values is None:
                continue
            if getattr(self, needed) is None:
                raise InputError(f"media.{name} needs media.{needed}: they are parts of these.")
            if np.shape(values)[1:] != (len(columns),):
                raise InputError(
                    f"media.{name} has shape {np.shape(values)}: expected {', '.join(columns)} of "
                    "each instance."
                )


@dataclass
class EmbeddedMedia:
    """The embedded media of the shown instances: each file once, up to the budget.

    Attributes
    ----------
    files : list of str
        Data URLs with the contents of the files.
    columns : dict
        For ``image``, ``audio`` and ``source``: the index into `files` of each shown instance (-1:
        not embedded) and its name; for ``text`` the texts; for ``box`` the boxes.
    """

    left: int
    files: list[str] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)
    places: dict[Any, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    n_large: int = 0
    n_uncut: int = 0

    def put_all(self, items: Any, rows: Ints, order: Ints, kinds: dict[str, str]) -> list[int]:
        """The index of the file of each row; -1 for rows that are not in `order`."""
        places = np.full(len(rows), -1)
        for j in order:
            item = items[rows[j]]
            if item is not None:
                key = item.tobytes() if isinstance(item, np.ndarray) else str(item)
                if key not in self.places:
                    self.places[key] = self._put(item, kinds)
                places[j] = self.places[key]
        return places.tolist()

    def _put(self, item: Any, kinds: dict[str, str]) -> int:
        """Embed a file and return its index; -1 if it is missing or exceeds the budget."""
        if isinstance(item, np.ndarray):
            data, mime = png(item), "image/png"
        else:
            path, *part = item if isinstance(item, tuple) else (Path(item),)
            mime = kinds.get(path.suffix.lower(), "")
            if not mime:
                raise InputError(
                    f"{path.name!r} is not a file that a page can show as "
                    f"{'image' if kinds is IMAGES else 'audio'}: expected {', '.join(kinds)}."
                )
            if not path.is_file():
                self.missing.append(str(path))
                return -1
            with path.open("rb") as file:
                sound = read_sound(file, *part) if part else None
                if part and sound is None:
                    self.n_uncut += 1
                    return -1
                data = file.read(self.left + 1) if sound is None else sound.to_wav()
            mime = "audio/wav" if part else mime
        if len(data) > self.left:
            self.n_large += 1
            return -1
        self.left -= len(data)
        self.files.append(data_url(data, mime))
        return len(self.files) - 1

    def note(self, per_bag: int) -> str:
        """Write the note for readers of the page, and warn the user about missing files."""
        if self.missing:
            if not self.files:
                raise DataNotFoundError(f"no file {self.missing[0]!r}, and no other media file.")
            warn_user(
                f"{len(self.missing)} media files were not found, {self.missing[0]!r} among "
                "them: they are shown by name."
            )
        if not (self.files or self.n_large or self.n_uncut):
            return ""
        text = f"Images and sounds are shown for the first {per_bag} instances of a bag."
        if left := self.n_large + self.n_uncut:
            text += (
                f" {left} files are shown by name: they exceed the size limit of the page, or are "
                'clips that cannot be cut out (pip install "bagwise[audio]").'
            )
        return text


def embed(media: Media | None, rows: Ints, ranks: Ints) -> tuple[EmbeddedMedia, str]:
    """Embed the media of instances, those of the first ranks in their bags first.

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
    EmbeddedMedia
        The files.
    str
        A sentence about files that were left out.
    """
    if media is None:
        return EmbeddedMedia(0), ""
    found = EmbeddedMedia(media.budget)
    if media.texts is not None:
        texts = ("" if media.texts[i] is None else str(media.texts[i]) for i in rows)
        found.columns["text"] = [shorten(text, LONGEST_TEXT) for text in texts]
    first = np.argsort(ranks, kind="stable")
    if media.sources is not None:
        found.columns["source"] = found.put_all(media.sources, rows, first, IMAGES)
        boxes = np.full((len(rows), 4), np.nan)
        if media.boxes is not None:
            boxes = np.asarray(media.boxes, dtype=float)[rows]
        found.columns["box"] = [
            box.round(2).tolist() if np.isfinite(box).all() else None for box in boxes
        ]
    shown, sounds = first[ranks[first] < media.per_bag], media.audio
    if sounds is not None and media.clips is not None:
        times = np.asarray(media.clips, dtype=float).tolist()
        sounds = [p and (Path(p), *part) for p, part in zip(sounds, times, strict=True)]
    for kind, items, kinds in (("image", media.images, IMAGES), ("audio", sounds, SOUNDS)):
        if items is not None:
            places = found.put_all(items, rows, shown, kinds)
            found.columns[kind] = {"place": places, "name": [_name(items[i]) for i in rows]}
    return found, found.note(media.per_bag)


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

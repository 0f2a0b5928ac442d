"""The data of an instance on the review page: plain values that are sent as JSON."""

import mimetypes
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from scipy import sparse

from bagwise._common.sounds import Sound, read_sound
from bagwise._common.types import Floats
from bagwise.apps.audio._spectrogram import can_draw, draw_spectrogram
from bagwise.bags import Bags
from bagwise.review.queue import DECIDED, ReviewQueue

MOST_NEIGHBOURS = 60
MOST_BARS = 128
MOST_VALUES = 2**22  # sample from which means and deviations of features are estimated
UNUSUAL = 4  # number of features that are listed
LARGEST_FILE = 2**27  # maximum bytes of an image or sound
WAV_TYPES = ("audio/wav", "audio/x-wav", "audio/vnd.wave", "audio/wave")
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class ServedMedia:
    """An image, sound or text of each instance, for a :class:`ReviewServer`.

    Attributes
    ----------
    kind : {"image", "audio", "text"}
        The kind of media.
    values : sequence of str or None
        For each instance the text, or the name of the file; None if there is none.
    folder : Path
        The folder of the files. Files outside of it are not served, not even through a link in
        the folder.
    start, end : ndarray of shape (n_instances,) or None
        The part of a sound to play, in seconds; by default the whole sound.
    """

    kind: str
    values: Sequence[str | None]
    folder: Path = Path()
    start: Floats | None = None
    end: Floats | None = None

    def file_of(self, instance: str) -> tuple[str, bytes] | None:
        """Read the file of an instance, or only the part to play of a WAV file.

        Parameters
        ----------
        instance : str
            The number of the instance, as the page requests it.

        Returns
        -------
        tuple (type, bytes) or None
            None if there is no such file, or it is of another kind, larger than 128 MiB, or outside
            of the folder.
        """
        number = self._number(instance)
        kind = None if number is None else self._type_of(number)
        if number is None or kind is None:
            return None
        if self.start is not None and (sound := self.sound_of(number)) is not None:
            return "audio/wav", sound.to_wav()
        found = self._open(number, _whole)
        return None if found is None else (kind, found)

    def spectrogram_of(self, instance: str) -> tuple[str, bytes] | None:
        """Draw the spectrogram of an instance.

        Parameters
        ----------
        instance : str
            The number of the instance, as the page requests it.

        Returns
        -------
        tuple (type, bytes) or None
            None if there is no WAV file, or matplotlib is not installed.
        """
        number = self._number(instance)
        sound = None if number is None or not can_draw() else self.sound_of(number)
        return None if sound is None else ("image/png", draw_spectrogram(sound))

    def sound_of(self, instance: int) -> Sound | None:
        """The part of a WAV file to play; None if there is none.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.

        Returns
        -------
        Sound or None
        """
        if self._type_of(instance) not in WAV_TYPES:
            return None
        return self._open(instance, lambda file, _: read_sound(file, *self._times(instance)))

    def described(self, instance: int) -> dict[str, Any]:
        """The description of the media of an instance for the page.

        Parameters
        ----------
        instance : int
            A row of ``bags.instances``.

        Returns
        -------
        dict
            Strings and numbers.
        """
        shown: dict[str, Any] = {"kind": self.kind, "text": self.values[instance]}
        if self.kind != "audio":
            return shown
        sound = self.sound_of(instance)
        start, end = self._times(instance)
        if sound is not None:
            drawn = can_draw()
            return shown | {"seconds": sound.seconds, "hertz": sound.rate / 2, "drawn": drawn}
        return shown | ({"part": [start, end]} if np.isfinite([start, end]).all() else {})

    def _times(self, instance: int) -> tuple[float, float]:
        if self.start is None or self.end is None:
            return 0.0, np.inf
        return float(self.start[instance]), float(self.end[instance])

    def _number(self, instance: str) -> int | None:
        if not (instance.isascii() and instance.isdecimal()) or self.kind == "text":
            return None
        return int(instance) if int(instance) < len(self.values) else None

    def _type_of(self, instance: int) -> str | None:
        kind = mimetypes.guess_type(self.values[instance] or "")[0] or ""
        return kind if kind.startswith(f"{self.kind}/") else None

    def _open(self, instance: int, read: Callable[[IO[bytes], int], _Read | None]) -> _Read | None:
        try:
            return _read_inside(self.folder, self.values[instance] or "", read)
        except (OSError, ValueError, RuntimeError):  # a name with a NUL byte, a loop of links
            return None


def _read_inside(
    folder: Path, name: str, read: Callable[[IO[bytes], int], _Read | None]
) -> _Read | None:
    """Read a regular file in a folder; None for a device, a pipe, or a file elsewhere."""
    root = folder.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        return None
    # A plain open would block on a pipe without a writer, and translate newlines on Windows.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        return read(file, found.st_size) if stat.S_ISREG(found.st_mode) else None


def _whole(file: IO[bytes], size: int) -> bytes | None:
    return None if size > LARGEST_FILE else file.read(size)


class Strips:
    """Features of instances as bars: the distance from their mean in standard deviations.

    Parameters
    ----------
    bags : Bags
        The bags with their original features.
    """

    def __init__(self, bags: Bags) -> None:
        self._bags = bags
        self._names = bags.feature_names or [f"x{j}" for j in range(bags.n_features)]
        n_rows = min(bags.n_instances, max(2, MOST_VALUES // bags.n_features))
        rows = np.unique(np.linspace(0, bags.n_instances - 1, n_rows).astype(np.int64))
        sample = np.ma.masked_invalid(self._dense(rows))
        spread = sample.std(axis=0).filled(0.0)
        self._mean = sample.mean(axis=0).filled(0.0)
        self._spread = np.where(spread > 0, spread, 1.0)

    def bars(self, instances: Any) -> list[list[float]]:
        """The bars of some instances; neighbouring features are averaged if there are many."""
        z = self._standardised(instances)
        n_features = z.shape[1]
        if n_features > MOST_BARS:
            bounds = np.linspace(0, n_features, MOST_BARS + 1).astype(np.int64)
            z = np.add.reduceat(z, bounds[:-1], axis=1) / np.diff(bounds)
        return np.round(np.clip(z, -3, 3), 2).tolist()

    def unusual(self, instance: int) -> list[str]:
        """The features that are farthest from their mean, as text."""
        value, z = self._dense([instance])[0], self._standardised([instance])[0]
        furthest = np.argsort(-np.abs(z), kind="stable")[:UNUSUAL]
        return [f"{self._names[j]} {value[j]:.3g} ({_signed(z[j])} sd)" for j in furthest]

    def _standardised(self, instances: Any) -> Floats:
        z = (self._dense(instances) - self._mean) / self._spread
        return np.nan_to_num(z, nan=0.0)  # missing values are not unusual

    def _dense(self, instances: Any) -> Floats:
        rows = self._bags.instances[instances]
        rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
        return rows.astype(np.float64)


def _signed(value: float) -> str:
    text = f"{value:+.1f}"
    return "0.0" if text in ("-0.0", "+0.0") else text


def card(
    instance: int, queue: ReviewQueue, media: ServedMedia | None, strips: Strips
) -> dict[str, Any]:
    """Collect the data that a person needs to label an instance.

    Parameters
    ----------
    instance : int
        A row of ``bags.instances``.
    queue : ReviewQueue
        The predictions of the model, and the decisions.
    media : ServedMedia or None
        The media of the instances.
    strips : Strips
        The features of the instances.

    Returns
    -------
    dict
        Strings, numbers and lists.
    """
    bag, row, size = queue.place_of(instance)
    first, last = instance - row, instance - row + size
    start = max(first, min(instance - MOST_NEIGHBOURS // 2, last - MOST_NEIGHBOURS))
    near = np.arange(start, min(start + MOST_NEIGHBOURS, last))
    bars = strips.bars(near) if media is None else [[]] * len(near)
    choices = queue.choices(instance)
    chance = {name: float(queue.posterior[instance, k]) for k, name in enumerate(queue.names)}
    if len(choices) > 9:  # the nine keys are for the most probable labels
        choices = sorted(choices, key=lambda name: -chance[name])
    return {
        "instance": instance,
        "bag": bag,
        "row": row,
        "size": size,
        "guess": queue.guess(instance),
        "decided": bool(queue.state[instance] == DECIDED),
        "choices": [{"label": name, "probability": chance[name]} for name in choices],
        "others": queue.other_labels(instance),
        "neighbours": [
            {
                "instance": i,
                "row": i - first,
                "label": queue.guess(i),
                "probability": float(queue.certainty(i)),
                "decided": bool(queue.state[i] == DECIDED),
                "bars": own,
                "text": None if media is None else media.values[i],
            }
            for i, own in zip(near.tolist(), bars, strict=True)
        ],
        "media": None if media is None else media.described(instance),
        "bars": strips.bars([instance])[0],
        "unusual": strips.unusual(instance),
    }

"""The data of an instance on the review page: plain values that are sent as JSON."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.signal import spectrogram
from sklearn.preprocessing import StandardScaler

from bagwise._common.extras import import_extra
from bagwise._common.types import Floats
from bagwise.apps.review._queue import DECIDED, ReviewQueue
from bagwise.bags import Bags
from bagwise.report._media import FILES, Sound, read_sound

MOST_NEIGHBOURS = 60
MOST_BARS = 128
MOST_VALUES = 2**22  # sample from which means and deviations of features are estimated
UNUSUAL = 4  # number of features that are listed
MOST_COLUMNS = 800  # width of a spectrogram
WINDOW = 512  # samples
LOUDNESS = 70.0  # dynamic range of a spectrogram, in dB; lower levels are black


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

    def file_of(self, instance: int) -> tuple[str, bytes] | None:
        """Type and bytes of the file of an instance, or of the part to play of a sound.

        None if there is no such file, or it is of another kind, or outside of the folder.
        """
        path = self._path(instance)
        if path is None:
            return None
        if self.start is not None and (sound := self.sound_of(instance)) is not None:
            return "audio/wav", sound.to_wav()
        return FILES[path.suffix.lower()], path.read_bytes()

    def spectrogram_of(self, instance: int) -> tuple[str, bytes] | None:
        """Type and bytes of the spectrogram; None if there is no sound, or no matplotlib."""
        sound = self.sound_of(instance) if can_draw() else None
        return None if sound is None else ("image/png", draw_spectrogram(sound))

    def sound_of(self, instance: int) -> Sound | None:
        """The part of a sound file to play; None if it cannot be cut out."""
        path = self._path(instance) if self.kind == "audio" else None
        if path is None:
            return None
        with open(path, "rb") as file:
            return read_sound(file, *self._times(instance))

    def described(self, instance: int) -> dict[str, Any]:
        """What the page needs to show the media of an instance: strings and numbers."""
        shown: dict[str, Any] = {"kind": self.kind, "text": self.values[instance]}
        sound, times = self.sound_of(instance), self._times(instance)
        if sound is not None:
            shown |= {"seconds": sound.seconds, "hertz": sound.rate / 2, "drawn": can_draw()}
        elif np.isfinite(times).all():
            shown["part"] = times
        return shown

    def _times(self, instance: int) -> tuple[float, float]:
        if self.start is None or self.end is None:
            return 0.0, np.inf
        return float(self.start[instance]), float(self.end[instance])

    def _path(self, instance: int) -> Path | None:
        """The file of an instance: a regular file of its kind in the folder, not a pipe."""
        name = self.values[instance] if 0 <= instance < len(self.values) else None
        root, kind = self.folder.resolve(), FILES.get(Path(name or "").suffix.lower(), "")
        if name is None or not kind.startswith(self.kind):
            return None
        try:
            path = (root / name).resolve()
            is_ours = path.is_relative_to(root) and path.is_file() and os.access(path, os.R_OK)
            return path if is_ours else None
        except (OSError, ValueError, RuntimeError):  # a name with a NUL byte, a loop of links
            return None


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
        sample = self._dense(rows)
        with np.errstate(invalid="ignore"):  # a feature without values
            self._scaler = StandardScaler().fit(np.where(np.isfinite(sample), sample, np.nan))

    def bars(self, instances: Any) -> list[list[float]]:
        """The bars of some instances; neighbouring features are averaged if there are many."""
        z = self._standardised(instances)
        if z.shape[1] > MOST_BARS:
            bounds = np.linspace(0, z.shape[1], MOST_BARS + 1).astype(np.int64)
            z = np.add.reduceat(z, bounds[:-1], axis=1) / np.diff(bounds)
        return np.round(np.clip(z, -3, 3), 2).tolist()

    def unusual(self, instance: int) -> list[str]:
        """The features that are farthest from their mean, as a string."""
        value, z = self._dense([instance])[0], self._standardised([instance])[0]
        furthest = np.argsort(-np.abs(z), kind="stable")[:UNUSUAL]
        return [f"{self._names[j]} {value[j]:.3g} ({z[j]:+.1f} sd)" for j in furthest]

    def _standardised(self, instances: Any) -> Floats:
        z = (self._dense(instances) - self._scaler.mean_) / self._scaler.scale_
        return np.nan_to_num(z, nan=0.0)  # missing values are not unusual

    def _dense(self, instances: Any) -> Floats:
        rows = self._bags.instances[instances]
        rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
        return rows.astype(np.float64)


def card(
    instance: int,
    queue: ReviewQueue,
    media: ServedMedia | None,
    strips: Strips,
    places: Sequence[str] | None = None,
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
    places : sequence of str, default=None
        The position of each instance, such as "1.5 to 4.5 s".

    Returns
    -------
    dict
        Strings, numbers and lists.
    """
    name, row, size = queue.written(instance)
    first, last = instance - row, instance - row + size
    start = max(first, min(instance - MOST_NEIGHBOURS // 2, last - MOST_NEIGHBOURS))
    near = range(start, min(start + MOST_NEIGHBOURS, last))
    bars = strips.bars(list(near)) if media is None else [[]] * len(near)
    texts = None if media is None else places if media.kind == "audio" else media.values
    choices = queue.choices(queue.place_of(instance)[0])
    chance = dict(zip(queue.names, queue.posterior[instance].tolist(), strict=True))
    if len(choices) > 9:  # the nine keys are for the most probable labels
        choices.sort(key=lambda label: -chance[label])
    return {
        "instance": instance,
        "bag": name,
        "row": row,
        "size": size,
        "place": "" if places is None else places[instance],
        "guess": queue.guess(instance),
        "decided": bool(queue.state[instance] == DECIDED),
        "choices": [{"label": label, "probability": chance[label]} for label in choices],
        "others": queue.others(instance),
        "neighbours": [
            {
                "instance": i,
                "row": i - first,
                "label": queue.guess(i),
                "probability": float(queue.certainty(i)),
                "decided": bool(queue.state[i] == DECIDED),
                "bars": own,
                "text": None if texts is None else texts[i],
            }
            for i, own in zip(near, bars, strict=True)
        ],
        "media": None if media is None else media.described(instance),
        "bars": strips.bars([instance])[0],
        "unusual": strips.unusual(instance),
    }


# Spectrograms of clips


def can_draw() -> bool:
    """Whether matplotlib, which draws spectrograms, is installed."""
    return find_spec("matplotlib") is not None


def draw_spectrogram(sound: Sound) -> bytes:
    """Draw the power of each frequency over time, with low frequencies at the bottom.

    Parameters
    ----------
    sound : Sound
        The clip.

    Returns
    -------
    bytes
        A PNG image.
    """
    samples = sound.samples.mean(axis=1) / 2**15
    samples = np.pad(samples, (0, max(WINDOW - len(samples), 0)))
    hop = min(max(WINDOW // 4, len(samples) // MOST_COLUMNS), WINDOW)
    _, _, power = spectrogram(samples, nperseg=WINDOW, noverlap=WINDOW - hop, window="hann")
    power = power[:, :: max(1, power.shape[1] // MOST_COLUMNS)]
    decibels = 10 * np.log10(np.maximum(power / max(power.max(), 1e-20), 1e-20))
    image: Any = import_extra("matplotlib.image", extra="plot")
    buffer = io.BytesIO()
    # The floor is at least the median: half of most clips is noise, and drawn black.
    floor = min(max(-LOUDNESS, float(np.median(decibels))), -1.0)
    image.imsave(buffer, decibels[::-1], cmap="magma", vmin=floor, vmax=0, format="png")
    return buffer.getvalue()

"""Clips of WAV files, cut out for playback and drawn as spectrograms."""

import io
import os
import struct
import wave
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any, NamedTuple

import numpy as np
from scipy.signal import spectrogram

from bagwise._common.types import Floats
from bagwise.extras import import_extra

LARGEST_CLIP = 2**26  # bytes of samples
MOST_COLUMNS = 800  # width of a spectrogram
WINDOW = 512  # samples
LOUDNESS = 70.0  # dynamic range of a spectrogram, in dB; lower levels are black
MOST_CHUNKS = 1000  # chunks that are read to find the samples
UNKNOWN = 2**32 - 1  # size of the data chunk in RF64 files, and in files written to a pipe
_INTEGERS, _FLOATS, _EXTENSIBLE = 1, 3, 0xFFFE  # format codes of WAV files


@dataclass(frozen=True)
class Sound:
    """The samples of a clip as stored in the file, with interleaved channels."""

    rate: int
    n_channels: int
    width: int  # bytes per sample
    frames: bytes

    @property
    def seconds(self) -> float:
        """Duration of the clip."""
        return len(self.frames) / (self.width * self.n_channels * self.rate)

    def to_wav(self) -> bytes:
        """Encode the clip as a WAV file."""
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setparams((self.n_channels, self.width, self.rate, 0, "NONE", ""))
            file.writeframes(self.frames)
        return buffer.getvalue()

    def samples(self) -> Floats:
        """Mean of the channels, between -1 and 1."""
        if self.width == 3:  # 24 bits become the upper bits of 32
            padded = np.zeros((len(self.frames) // 3, 4), np.uint8)
            padded[:, 1:] = np.frombuffer(self.frames, np.uint8).reshape(-1, 3)
            values = padded.view("<i4").ravel() / 2.0**31
        elif self.width == 1:
            values = np.frombuffer(self.frames, np.uint8) / 128.0 - 1
        else:
            bits = 8 * self.width
            values = np.frombuffer(self.frames, f"<i{self.width}") / 2.0 ** (bits - 1)
        return values.reshape(-1, self.n_channels).mean(axis=1)


def read_sound(file: IO[bytes], start: float = 0.0, end: float = np.inf) -> Sound | None:
    """Read a part of a WAV file.

    Parameters
    ----------
    file : binary file
        The open file.
    start, end : float
        Start and end of the part, in seconds.

    Returns
    -------
    Sound or None
        None if the file is not a WAV file of integers or floats, if it has no samples in this part,
        or if the part is larger than 64 MiB. Floats become 16-bit integers.
    """
    try:
        found = _find_samples(file)
    except (struct.error, OSError, OverflowError, ValueError):  # truncated or damaged
        found = None
    if found is None or not 0 <= start < end:
        return None
    size = found.width * found.n_channels  # bytes per frame
    first, last = round(start * found.rate), round(min(end * found.rate, found.n_bytes // size))
    if first >= last or (last - first) * size > LARGEST_CLIP:
        return None
    file.seek(found.offset + first * size)
    frames = file.read((last - first) * size)
    frames = frames[: len(frames) // size * size]  # a truncated file may end inside a frame
    if not frames:
        return None
    if found.is_float:
        return Sound(found.rate, found.n_channels, 2, _as_integers(frames, found.width))
    return Sound(found.rate, found.n_channels, found.width, frames)


class _Samples(NamedTuple):
    """Format of the samples of a WAV file, and their position in the file."""

    rate: int
    n_channels: int
    width: int  # bytes per sample
    is_float: bool
    offset: int
    n_bytes: int


def _find_samples(file: IO[bytes]) -> _Samples | None:
    """Read the header of a WAV file; the module wave rejects floats and extensible headers."""
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    kind, _, form = struct.unpack("<4sI4s", file.read(12))
    if kind not in (b"RIFF", b"RF64") or form != b"WAVE":
        return None
    about = None
    for _ in range(MOST_CHUNKS):
        name, size = struct.unpack("<4sI", file.read(8))
        begin = file.tell()
        if name == b"data":
            n_bytes = end - begin if size == UNKNOWN else min(size, end - begin)
            return None if about is None else _Samples(*about, begin, n_bytes)
        if name == b"fmt ":
            about = _read_format(file.read(min(size, 40)))
            if about is None:
                return None
        file.seek(begin + size + size % 2)
    return None


def _read_format(chunk: bytes) -> tuple[int, int, int, bool] | None:
    """Read rate, channels, sample width and whether samples are floats; None for other codecs."""
    code, n_channels, rate, _, frame, _ = struct.unpack("<HHIIHH", chunk[:16])
    if code == _EXTENSIBLE:
        (code,) = struct.unpack("<H", chunk[24:26])
    width, rest = divmod(frame, max(n_channels, 1))
    widths = {_INTEGERS: (1, 2, 3, 4), _FLOATS: (4, 8)}.get(code, ())
    if not (rate and n_channels and not rest and width in widths):
        return None
    return rate, n_channels, width, code == _FLOATS


def _as_integers(frames: bytes, width: int) -> bytes:
    """Convert floats to 16-bit samples, which every browser plays; values beyond 1 are clipped."""
    values = np.nan_to_num(np.frombuffer(frames, f"<f{width}"), posinf=1.0, neginf=-1.0)
    return np.round(32767 * np.clip(values, -1, 1)).astype("<i2").tobytes()


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
    samples = sound.samples()
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

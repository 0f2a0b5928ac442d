"""Clips of WAV files: cut out to be played, and drawn as spectrograms."""

import io
import wave
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any

import numpy as np
from scipy.signal import spectrogram

from bagwise._types import Floats
from bagwise.extras import import_extra

LARGEST_CLIP = 2**26  # bytes of samples
MOST_COLUMNS = 800  # of a spectrogram
WINDOW = 512  # samples
LOUDNESS = 70.0  # dB between the loudest and what is drawn black


@dataclass(frozen=True)
class Sound:
    """The samples of a clip as they are in the file, channels interleaved."""

    rate: int
    n_channels: int
    width: int  # bytes of a sample
    frames: bytes

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.frames) / (self.width * self.n_channels * self.rate)

    def to_wav(self) -> bytes:
        """The clip as a file of its own."""
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setparams((self.n_channels, self.width, self.rate, 0, "NONE", ""))
            file.writeframes(self.frames)
        return buffer.getvalue()

    def samples(self) -> Floats:
        """The mean of the channels, between -1 and 1."""
        if self.width == 3:  # three bytes become the upper ones of four
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
        The file, opened.
    start, end : float
        The part, in seconds.

    Returns
    -------
    Sound or None
        None where the file is no WAV file of whole numbers, has nothing there, or the part is
        larger than 64 MiB.
    """
    try:
        with wave.open(file, "rb") as found:
            n_channels, width, rate, n_frames, *_ = found.getparams()
            if not (rate > 0 and n_channels > 0 and 1 <= width <= 4 and 0 <= start < end):
                return None
            first, last = round(start * rate), round(min(end * rate, n_frames))
            if first >= last or (last - first) * width * n_channels > LARGEST_CLIP:
                return None
            found.setpos(first)
            frames = found.readframes(last - first)
    except (wave.Error, EOFError, RuntimeError, OverflowError, ValueError):
        return None
    whole = len(frames) // (width * n_channels) * width * n_channels  # a damaged file is shorter
    return Sound(rate, n_channels, width, frames[:whole]) if whole else None


def can_draw() -> bool:
    """Whether spectrograms can be drawn: matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_spectrogram(sound: Sound) -> bytes:
    """Draw the loudness of each frequency over time, low frequencies at the bottom.

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
    # Half of most clips is noise: black, so that calls stand out.
    floor = min(max(-LOUDNESS, float(np.median(decibels))), -1.0)
    image.imsave(buffer, decibels[::-1], cmap="magma", vmin=floor, vmax=0, format="png")
    return buffer.getvalue()

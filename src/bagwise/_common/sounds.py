"""Clips of sound files (WAV, FLAC, Ogg, MP3), cut out for playback."""

import importlib
import io
import wave
from typing import IO, Any, NamedTuple

import numpy as np

from bagwise._common.types import Array

LARGEST_CLIP = 2**25  # samples


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

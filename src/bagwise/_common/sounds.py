"""Clips of WAV files, cut out for playback."""

import io
import os
import struct
import wave
from typing import IO, NamedTuple

import numpy as np

from bagwise._common.types import Array

LARGEST_CLIP = 2**26  # bytes of samples
MOST_CHUNKS = 1000  # chunks that are read to find the samples
UNKNOWN = 2**32 - 1  # size of the data chunk in RF64 files, and in files written to a pipe
_INTEGERS, _FLOATS, _EXTENSIBLE = 1, 3, 0xFFFE  # format codes of WAV files


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
    """Read a part of a WAV file.

    Only this part is read: recordings are long, and `scipy.io.wavfile` reads 24 bits whole.

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
        or if the part is larger than 64 MiB.
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
    samples = _as_int16(frames, found.width, found.is_float)
    return Sound(found.rate, samples.reshape(-1, found.n_channels))


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


def _as_int16(frames: bytes, width: int, is_float: bool) -> Array:
    """Convert samples to 16 bits; floats beyond 1 are clipped."""
    if is_float:
        values = np.nan_to_num(np.frombuffer(frames, f"<f{width}"), posinf=1.0, neginf=-1.0)
        return np.round(32767 * np.clip(values, -1, 1)).astype("<i2")
    octets = np.frombuffer(frames, np.uint8)
    if width == 1:
        return ((octets.astype("<i2") - 128) * 256).astype("<i2")
    return np.ascontiguousarray(octets.reshape(-1, width)[:, -2:]).view("<i2").ravel()

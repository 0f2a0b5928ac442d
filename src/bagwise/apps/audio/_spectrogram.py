"""Spectrograms of clips."""

import io
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.signal import spectrogram

from bagwise._common.sounds import Sound
from bagwise.extras import import_extra

MOST_COLUMNS = 800  # width of a spectrogram
WINDOW = 512  # samples
LOUDNESS = 70.0  # dynamic range of a spectrogram, in dB; lower levels are black


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

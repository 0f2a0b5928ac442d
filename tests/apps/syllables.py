"""A small annotation problem to review, as objects and as files."""

import csv
import wave

import numpy as np

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression

RATE = 8000  # of tones
BIRDS = np.array(["owl", "robin", "wren"])


def recordings(n_bags=12, seed=0, ids=None):
    """Bags, their label sets as sets of words, and the bird of each instance."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, n_bags)
    heard = rng.integers(3, size=sizes.sum())
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = 1.5 * np.eye(3)[heard] + rng.normal(size=(len(heard), 3))
    ids = [f"r{i}" for i in range(n_bags)] if ids is None else ids
    bags = Bags(rows, offsets, ids, feature_names=["pitch", "length", "power"])
    sets = [set(BIRDS[part].tolist()) for part in bags.split(heard)]
    return bags, sets, BIRDS[heard]


def fitted(**options):
    bags, sets, birds = recordings(**options)
    return ORedLogisticRegression().fit(bags, sets), bags, sets, birds


def write_table(path, bags, sets, **columns):
    """Write a CSV file; `columns` hold a text for each instance."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["recording", "species", *columns, *bags.feature_names])
        for i, row in enumerate(bags.instances):
            bag = bags.bag_index[i]
            texts = [column[i] for column in columns.values()]
            writer.writerow([bags.ids[bag], ";".join(sorted(sets[bag])), *texts, *row])
    return path


def write_tone(path, hertz=1000.0, seconds=2.0, width=2, n_channels=1, rate=RATE):
    """A tone; one channel is as loud as the next."""
    time = np.arange(int(seconds * rate)) / rate
    tone = np.sin(2 * np.pi * hertz * time) * 0.5
    values = np.round(tone * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    values = values + 128 if width == 1 else values
    frames = np.repeat(values, n_channels).astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width]
    with wave.open(str(path), "wb") as file:
        file.setparams((n_channels, width, rate, 0, "NONE", ""))
        file.writeframes(frames.tobytes())
    return path, tone

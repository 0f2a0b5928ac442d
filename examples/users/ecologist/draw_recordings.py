"""Draw recordings of four species as WAV files, with embeddings of clips and labels per recording.

The layout is that of BirdNET-Analyzer: a row per clip of three seconds, every 1.5 seconds, with its
file, start, end and embedding. Here the embedding is the loudness in sixteen frequency bands.
"""

import argparse
import csv
import wave
from itertools import pairwise
from pathlib import Path

import numpy as np

RATE = 12_000  # samples a second
SECONDS, LENGTH, STEP = 12.0, 3.0, 1.5  # length of a recording and of a clip, step between clips
SPECIES = {"cuckoo": 650, "owl": 380, "robin": 3100, "wren": 4700}  # Hz
N_BANDS = 16


def draw_recording(rng, species):
    """The sound of a recording, and the times and species of its calls."""
    sound = 0.02 * rng.normal(size=int(SECONDS * RATE))
    if rng.random() < 0.4:  # rain: short clicks
        sound[rng.integers(len(sound), size=200)] += rng.normal(0, 0.6, size=200)
    calls = []
    for slot in np.arange(0.0, SECONDS, LENGTH):
        if not species or rng.random() < 0.35:
            continue
        name = species[rng.integers(len(species))]
        begin = slot + rng.uniform(0.8, 1.4)
        time = np.arange(int(rng.uniform(0.5, 0.8) * RATE)) / RATE
        hertz = SPECIES[name] * rng.uniform(0.92, 1.08)
        tone = np.sin(2 * np.pi * hertz * (time + 0.08 * np.sin(9 * time)))
        first = int(begin * RATE)
        sound[first : first + len(time)] += rng.uniform(0.1, 0.5) * tone * np.hanning(len(time))
        calls.append((begin, begin + len(time) / RATE, name))
    return np.clip(sound, -1, 1), calls


def embed(clip):
    """Maximum loudness of a clip in each frequency band, in decibels."""
    frames = clip[: len(clip) // 512 * 512].reshape(-1, 512) * np.hanning(512)
    power = np.abs(np.fft.rfft(frames))[:, 1:] ** 2
    edges = np.geomspace(3, power.shape[1], N_BANDS + 1).astype(int)
    bands = [power[:, a : max(b, a + 1)].sum(axis=1).max() for a, b in pairwise(edges)]
    return 10 * np.log10(np.array(bands) + 1e-9)


def heard_in(start, calls):
    """The species that fills most of a clip, or background."""
    shared = {}
    for begin, end, name in calls:
        overlap = min(end, start + LENGTH) - max(begin, start)
        if overlap > 0.25:
            shared[name] = shared.get(name, 0) + overlap
    return max(shared, key=shared.get) if shared else "background"


def write_wav(path, sound):
    """Write a sound as 16-bit WAV."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((32767 * sound).astype("<i2").tobytes())


def write(path, rows, quoting=csv.QUOTE_MINIMAL):
    """Write rows as CSV."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=quoting).writerows(rows)


def main():
    """Draw everything into this folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    Path("recordings").mkdir(exist_ok=True)
    heading = ["file_path", "start", "end", "embedding"]
    tables = {"clips.csv": [heading], "new.csv": [heading]}
    labels, truth = [["file", "species"]], [["file_path", "start", "end", "species"]]
    names = sorted(SPECIES)
    for i in range(options.recordings):
        species = [name for name in names if rng.random() < 0.45]
        sound, calls = draw_recording(rng, species)
        path = f"recordings/r{i:03d}.wav"
        write_wav(path, sound)
        is_new = i >= options.recordings - 10
        for start in np.arange(0, SECONDS - LENGTH + 1e-9, STEP):
            clip = sound[int(start * RATE) : int((start + LENGTH) * RATE)]
            numbers = ",".join(f"{value:.4f}" for value in embed(clip))
            row = [path, start, start + LENGTH, numbers]
            tables["new.csv" if is_new else "clips.csv"].append(row)
            truth.append([*row[:3], heard_in(start, calls)])
        known = {name for *_, name in calls}
        if i in (4, 9):  # two errors of the listener: a spurious and a missing species
            known = known ^ {names[i % 4]}
        if not is_new and i % 12 != 7:  # some recordings have no labels
            labels.append([f"r{i:03d}", ";".join(sorted(known))])
    for name, rows in tables.items():
        write(name, rows)
    # A quoted empty field means "nothing was heard", an unquoted one "nobody listened".
    write("labels.csv", labels, csv.QUOTE_ALL)
    write("truth.csv", truth)
    n_clips = len(tables["clips.csv"]) - 1
    rows = np.sort(np.random.default_rng(1).choice(n_clips, min(100, n_clips), replace=False))
    checked = [[truth[i + 1][k] for k in (0, 1, 3)] for i in rows]
    write("checked.csv", [["file", "start", "label"], *checked])
    print(f"{options.recordings} recordings, {len(truth) - 1} clips of {LENGTH:g} s")


if __name__ == "__main__":
    main()

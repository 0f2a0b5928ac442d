"""Draw the embeddings of many recordings, without sound, to measure time and memory.

``python draw_embeddings.py --recordings 300`` writes ``many.csv`` in the layout of BirdNET-Analyzer
(``--clips`` and ``--features`` set its size) and ``many_labels.csv``. A clip has the embedding of a
species of its recording, or of none, plus noise.
"""

import argparse
import csv

import numpy as np

LENGTH = 3.0  # seconds of a clip


def main():
    """Draw both tables into this folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=300)
    parser.add_argument("--clips", type=int, default=20)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--species", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    centres = rng.normal(scale=0.3, size=(options.species + 1, options.features))
    centres[-1] = 0  # background
    with (
        open("many.csv", "w", newline="", encoding="utf-8") as clips,
        open("many_labels.csv", "w", newline="", encoding="utf-8") as labels,
    ):
        rows, lists = csv.writer(clips), csv.writer(labels)
        rows.writerow(["file_path", "start", "end", "embedding"])
        lists.writerow(["file", "species"])
        for i in range(options.recordings):
            singers = rng.choice(options.species, rng.integers(1, 5), replace=False)
            heard = rng.choice([*singers, *[options.species] * len(singers)], options.clips)
            embeddings = centres[heard] + rng.normal(size=(options.clips, options.features))
            for k, embedding in enumerate(embeddings):
                numbers = ",".join(f"{value:.4f}" for value in embedding)
                rows.writerow([f"r{i:05d}.wav", LENGTH * k, LENGTH * (k + 1), numbers])
            present = sorted({f"species {c}" for c in heard if c < options.species})
            lists.writerow([f"r{i:05d}.wav", ";".join(present) or ";"])
    print(f"{options.recordings} recordings of {options.clips} clips, {options.features} features")


if __name__ == "__main__":
    main()

"""Compare the top patches of heat maps with the planted tumour patches.

``python precision.py maps/top_patches.csv truth.csv`` prints, for the slides with a tumour, the
share of top patches that are tumour: for the top patch, and for the top k, where k is the number of
tumour patches of the slide or of patches in the table, whichever is smaller.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict

Place = tuple[float, float]


def read_places(path: str, slide: str) -> dict[str, list[Place]]:
    """The places of a table by slide, in the order of the rows."""
    places: dict[str, list[Place]] = defaultdict(list)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            places[row[slide]].append((float(row["x"]), float(row["y"])))
    return places


def main() -> None:
    """Read both tables, and print the precision."""
    ranked = read_places(sys.argv[1], "slide")
    tumours = {slide: set(places) for slide, places in read_places(sys.argv[2], "slide_id").items()}
    firsts, hits, n = 0, 0, 0
    for slide, planted in tumours.items():
        chosen = ranked[slide][: len(planted)]
        firsts += chosen[0] in planted
        hits += sum(place in planted for place in chosen)
        n += len(chosen)
    print(f"{len(tumours)} slides with a tumour")
    print(f"first patch: {firsts / len(tumours):.2f} are tumour")
    print(f"top patches: {hits / n:.2f} of {n} are tumour")


if __name__ == "__main__":
    main()

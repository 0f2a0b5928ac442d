"""Draw features of slides as TRIDENT writes them, with planted tumour patches.

``python draw_slides.py`` draws a small set: 24 slides of 16 patients, 60 to 160 patches of 64
features. ``python draw_slides.py --slides 120 --least 500 --most 4000 --features 1024`` has the
size of a study. Features are those of a foundation model in spirit: a few directions of tissue
differ from slide to slide, a few directions show the tumour, the others are noise.

Written: ``slides/<slide>.h5`` with the datasets ``features`` (patches x features, float32) and
``coords`` (upper left corners in pixels of level 0, with the attributes of TRIDENT), ``labels.csv``
(slide_id, patient_id, tumour) and ``truth.csv`` (slide_id, x, y of each tumour patch).
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

EDGE = 512  # of a patch at level 0: 256 pixels at 20x of a 40x scan
N_TISSUES = 6
TUMOUR = 10.0  # distance of tumour from tissue, in standard deviations of the noise of a feature


def tissue_grid(n_patches: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Cells of a grid inside an ellipse, as many as there are patches; shape (n_patches, 2)."""
    side = int(np.ceil(np.sqrt(1.6 * n_patches))) + 2
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    stretch = rng.uniform(0.8, 1.25)
    away = ((cells - side / 2) / np.array([stretch, 1 / stretch])) ** 2
    nearest = np.argsort(away.sum(axis=1) + rng.uniform(0, side, len(cells)), kind="stable")
    return cells[np.sort(nearest[:n_patches])]


def draw(
    folder: Path, n_slides: int, sizes: tuple[int, int], n_features: int, seed: int
) -> tuple[int, int]:
    """Draw slides, labels and truth; return the numbers of patches and of tumour patches."""
    rng = np.random.default_rng(seed)
    tissues = rng.normal(size=(N_TISSUES, n_features))
    tumour = rng.normal(size=n_features)
    tumour *= TUMOUR / np.linalg.norm(tumour)
    slides = folder / "slides"
    slides.mkdir()
    labels, truth, n_patches = [], [], 0
    patients = np.repeat(np.arange(n_slides), np.resize([2, 1, 1, 2], n_slides))[:n_slides]
    for i, patient in enumerate(patients.tolist()):  # one or two slides each
        ill = patient % 2 == 1
        cells = tissue_grid(int(rng.integers(sizes[0], sizes[1] + 1)), rng)
        shares = rng.dirichlet(np.ones(N_TISSUES), len(cells))
        stain = 0.5 * rng.normal(size=n_features)  # of the slide, whatever its label
        features = shares @ tissues + stain + rng.normal(size=(len(cells), n_features))
        rows = np.array([], dtype=np.int64)
        if ill:  # a round focus of 2 to 6 % of the patches
            centre = cells[rng.integers(len(cells))]
            n_ill = max(3, int(rng.uniform(0.02, 0.06) * len(cells)))
            rows = np.argsort(((cells - centre) ** 2).sum(axis=1), kind="stable")[:n_ill]
            features[rows] += rng.uniform(0.7, 1.3, (n_ill, 1)) * tumour
        name = f"slide_{i:03d}"
        with h5py.File(slides / f"{name}.h5", "w") as file:
            file.create_dataset("features", data=features.astype(np.float32))
            coords = file.create_dataset("coords", data=cells * EDGE)
            coords.attrs.update({"patch_size": 256, "patch_size_level0": EDGE, "overlap": 0})
            coords.attrs.update({"level0_magnification": 40, "target_magnification": 20})
        labels.append([f"{name}.svs", f"patient_{patient:03d}", "yes" if ill else "no"])
        truth += [[name, *(cells[row] * EDGE).tolist()] for row in rows]
        n_patches += len(cells)
    write(folder / "labels.csv", ["slide_id", "patient_id", "tumour"], labels)
    write(folder / "truth.csv", ["slide_id", "x", "y"], truth)
    return n_patches, len(truth)


def write(path: Path, head: list[str], rows: list[list[object]]) -> None:
    """Write a CSV table."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def main() -> None:
    """Read the options, and draw."""
    parser = argparse.ArgumentParser(description="Draw features of slides with planted tumours.")
    parser.add_argument("-o", "--output", type=Path, default=Path("."), help="an existing folder")
    parser.add_argument("--slides", type=int, default=24)
    parser.add_argument("--least", type=int, default=60, help="patches of the smallest slide")
    parser.add_argument("--most", type=int, default=160, help="patches of the largest slide")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    sizes = chosen.least, chosen.most
    found = draw(chosen.output, chosen.slides, sizes, chosen.features, chosen.seed)
    print(f"{chosen.slides} slides, {found[0]} patches, {found[1]} of them tumour")


if __name__ == "__main__":
    main()

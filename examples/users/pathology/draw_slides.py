"""Draw features of slides as TRIDENT writes them, with planted tumour patches.

``python draw_slides.py`` draws a small set: 24 slides of 16 patients, 60 to 160 patches of 64
features. ``python draw_slides.py --slides 120 --least 500 --most 4000 --features 1024 --tumour 7``
has the size of a study, and tumours that are harder to detect. As in features of a foundation
model, few directions have most of the variance: tissue and stain vary along them, and a tumour
differs along some of them; the rest is noise.

Written: ``slides/<slide>.h5`` with the datasets ``features`` (patches x features, float32) and
``coords`` (upper left corners in pixels of level 0, with the attributes of TRIDENT),
``thumbnails/<slide>.png``, ``labels.csv`` (slide_id, patient_id, tumour, and the follow-up of the
patient: months, dead) and ``truth.csv`` (slide_id, x, y of each tumour patch).
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray
from PIL import Image

EDGE = 512  # edge of a patch at level 0: 256 pixels at 20x of a 40x scan
SPREADS = np.linspace(6.0, 2.0, 16)  # deviations of tissue along each direction; noise has 1
MARGIN = 2  # empty patches around the tissue
PIXELS = 8  # edge of a patch in a thumbnail
N_TUMOUR = 4  # number of directions, the last ones, along which a tumour differs


def tissue_grid(n_patches: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Grid cells of the patches, inside an ellipse; shape (n_patches, 2)."""
    side = int(np.ceil(np.sqrt(1.6 * n_patches))) + 2
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    stretch = rng.uniform(0.8, 1.25)
    away = ((cells - side / 2) / np.array([stretch, 1 / stretch])) ** 2
    nearest = np.argsort(away.sum(axis=1) + rng.uniform(0, side, len(cells)), kind="stable")
    return cells[np.sort(nearest[:n_patches])]


def draw(
    folder: Path,
    n_slides: int,
    sizes: tuple[int, int],
    n_features: int,
    distance: float,
    seed: int,
) -> tuple[int, int]:
    """Draw slides, labels and truth; return the numbers of patches and of tumour patches."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(n_features, len(SPREADS))))[0].T
    tumour = np.zeros(len(SPREADS))
    tumour[-N_TUMOUR:] = distance / np.sqrt(N_TUMOUR)
    slides = folder / "slides"
    slides.mkdir()
    (folder / "thumbnails").mkdir()
    labels, truth, n_patches = [], [], 0
    life, study = follow_up(n_slides, np.random.default_rng([seed, 1]))
    patients = np.repeat(np.arange(n_slides), np.resize([2, 1, 1, 2], n_slides))[:n_slides]
    for i, patient in enumerate(patients.tolist()):  # one or two slides each
        ill = patient % 2 == 1
        cells = MARGIN + tissue_grid(int(rng.integers(sizes[0], sizes[1] + 1)), rng)
        stain = 0.5 * SPREADS * rng.normal(size=len(SPREADS))  # independent of the label
        tissue = stain + SPREADS * rng.normal(size=(len(cells), len(SPREADS)))
        rows = np.array([], dtype=np.int64)
        if ill:  # a round focus of 2 to 6 % of the patches
            centre = cells[rng.integers(len(cells))]
            n_ill = max(3, int(rng.uniform(0.02, 0.06) * len(cells)))
            rows = np.argsort(((cells - centre) ** 2).sum(axis=1), kind="stable")[:n_ill]
            tissue[rows] += rng.uniform(0.8, 1.4, (n_ill, 1)) * tumour
        features = tissue @ directions + rng.normal(size=(len(cells), n_features))
        name = f"slide_{i:03d}"
        with h5py.File(slides / f"{name}.h5", "w") as file:
            file.create_dataset("features", data=features.astype(np.float32))
            coords = file.create_dataset("coords", data=cells * EDGE)
            coords.attrs.update({"patch_size": 256, "patch_size_level0": EDGE, "overlap": 0})
            coords.attrs.update({"level0_magnification": 40, "target_magnification": 20})
            width, height = (cells.max(axis=0) + 1 + MARGIN) * EDGE
            coords.attrs.update({"level0_width": width, "level0_height": height})
        thumbnail(cells, tissue[:, 0]).save(folder / "thumbnails" / f"{name}.png")
        months = life[patient] * (0.2 if ill else 1.0)  # until death, five times as early
        time = f"{min(months, study[patient]):.1f}", int(months <= study[patient])
        labels.append([f"{name}.svs", f"patient_{patient:03d}", "yes" if ill else "no", *time])
        truth += [[name, *(cells[row] * EDGE).tolist()] for row in rows]
        n_patches += len(cells)
    head = ["slide_id", "patient_id", "tumour", "months", "dead"]
    write(folder / "labels.csv", head, labels)
    write(folder / "truth.csv", ["slide_id", "x", "y"], truth)
    return n_patches, len(truth)


def follow_up(n: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], ...]:
    """Months to the death of each patient without a tumour, and to the end of the study."""
    return rng.exponential(60.0, n), rng.uniform(12.0, 60.0, n)


def thumbnail(cells: NDArray[np.int64], stain: NDArray[np.float64]) -> Image.Image:
    """A small picture of a slide: tissue in pink on white, darker where it is stained more."""
    width, height = cells.max(axis=0) + 1 + MARGIN
    colours = np.full((height, width, 3), 245.0)
    shade = np.clip(stain / SPREADS[0], -2, 2)[:, None]
    colours[cells[:, 1], cells[:, 0]] = np.array([225.0, 165.0, 200.0]) - 15 * shade
    picture = Image.fromarray(colours.astype(np.uint8))
    return picture.resize((width * PIXELS, height * PIXELS), Image.Resampling.BILINEAR)


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
    parser.add_argument(
        "--tumour", type=float, default=12.0, help="distance of a tumour from the mean of tissue"
    )
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    found = draw(
        chosen.output,
        chosen.slides,
        (chosen.least, chosen.most),
        chosen.features,
        chosen.tumour,
        chosen.seed,
    )
    print(f"{chosen.slides} slides, {found[0]} patches, {found[1]} of them tumour")


if __name__ == "__main__":
    main()

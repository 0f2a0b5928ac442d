"""Small tables for tests of commands."""

import csv

import numpy as np

COLUMNS = ("--bag", "slide", "--label", "tumour", "--features", "red,green,blue")


def slide_rows():
    """24 slides of 12 patients; one patch of a slide with a tumour shows it."""
    rng = np.random.default_rng(0)
    rows = [["slide", "patient", "tumour", "red", "green", "blue"]]
    for i in range(24):
        ill = i % 2
        for j in range(rng.integers(1, 5)):
            colour = rng.normal(size=3) + 4 * (ill and j == 0)
            rows.append([f"s{i}", f"p{i // 2}", "yes" if ill else "no", *colour.tolist()])
    return rows


def write_rows(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def slide_folder(folder, n_slides=12, edge=512):
    """Slides of 6 patients as TRIDENT writes them, a table of labels, and the tumour patches.

    Every second patient is ill: one patch of each of their slides shows it.
    """
    import h5py

    rng = np.random.default_rng(0)
    folder.mkdir()
    rows, tumours = [["slide_id", "patient_id", "label"]], {}
    for i in range(n_slides):
        patient = i % 6
        grid = np.stack(np.meshgrid(range(4), range(3)), axis=-1).reshape(-1, 2)
        cells = grid[rng.permutation(12)[: rng.integers(6, 12)]]
        features = rng.normal(size=(len(cells), 3)).astype("float32")
        if patient % 2:
            row = int(rng.integers(len(cells)))
            features[row] += 5
            tumours[f"s{i:02d}"] = tuple((cells[row] * edge).tolist())
        with h5py.File(folder / f"s{i:02d}.h5", "w") as file:
            file["features"] = features
            file["coords"] = cells * edge
            file["coords"].attrs["patch_size_level0"] = edge
        rows.append([f"s{i:02d}.svs", f"p{patient}", "tumour" if patient % 2 else "normal"])
    return write_rows(folder.with_suffix(".csv"), rows), tumours

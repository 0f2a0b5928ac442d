"""Small tables to try commands on."""

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

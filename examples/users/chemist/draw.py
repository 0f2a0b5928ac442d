"""Write a synthetic table in the layout of a chemist's table; it contains no real measurement.

A molecule binds as well as its best conformer fits a pocket: pKi is highest if one conformer is
near the pharmacophore. Molecules with the same scaffold are similar. A row is a conformer:

    molecule,conformer,scaffold,shape_1,...,shape_8,energy,pKi,activity

new.csv contains molecules of other scaffolds, without the columns pKi and activity.
"""

import argparse
import csv

import numpy as np

N_SHAPES = 8
N_MEASUREMENTS = 2  # the last columns: pKi and activity


def draw(n_molecules, n_new, seed):
    """Rows of both tables, with headings, and the best-fitting conformer of each molecule."""
    rng = np.random.default_rng(seed)
    pocket = rng.normal(size=3)
    names = [f"shape_{k + 1}" for k in range(N_SHAPES)]
    heading = ["molecule", "conformer", "scaffold", *names, "energy", "pKi", "activity"]
    rows, new, best = [heading], [heading[:-N_MEASUREMENTS]], []
    scaffolds = draw_scaffolds(0, max(4, n_molecules // 4), rng)
    for i in range(n_molecules):
        conformers, nearest = draw_molecule(f"CHEM{i:04d}", scaffolds, pocket, rng)
        rows += conformers
        best.append([f"CHEM{i:04d}", nearest])
    scaffolds = draw_scaffolds(len(scaffolds), max(4, n_new // 4), rng)
    for i in range(n_molecules, n_molecules + n_new):
        conformers, nearest = draw_molecule(f"CHEM{i:04d}", scaffolds, pocket, rng)
        new += [row[:-N_MEASUREMENTS] for row in conformers]
        best.append([f"CHEM{i:04d}", nearest])
    return rows, new, best


def draw_scaffolds(first, number, rng):
    """Names of scaffolds, and their mean shapes."""
    cores = 1.3 * rng.normal(size=(number, N_SHAPES))
    return [(f"S{first + k}", core) for k, core in enumerate(cores)]


def draw_molecule(name, scaffolds, pocket, rng):
    """Rows of a molecule, and the conformer nearest to the pocket."""
    scaffold, core = scaffolds[int(rng.integers(len(scaffolds)))]
    own = core + 0.6 * rng.normal(size=N_SHAPES)
    conformers = own + 0.7 * rng.normal(size=(rng.integers(3, 9), N_SHAPES))
    distances = np.linalg.norm(conformers[:, :3] - pocket, axis=1)
    pki = 8.5 - 0.9 * distances.min() + 0.2 * rng.normal()
    activity = "active" if pki > 7 else "inactive"
    rows = []
    for j, shape in enumerate(conformers):
        energy = f"{abs(rng.normal()):.3f}"
        values = [f"{value:.4f}" for value in shape]
        rows.append([name, f"c{j}", scaffold, *values, energy, f"{pki:.2f}", activity])
    return rows, int(distances.argmin())


def write(path, rows):
    """Write rows to a CSV file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--molecules", type=int, default=120)
    parser.add_argument("--new", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows, new, best = draw(options.molecules, options.new, options.seed)
    write("conformers.csv", rows)
    write("new.csv", new)
    write("best_conformers.csv", [["molecule", "row"], *best])
    print(f"conformers.csv: {len(rows) - 1} conformers of {options.molecules} molecules")
    print(f"new.csv: {len(new) - 1} conformers of {options.new} new molecules")

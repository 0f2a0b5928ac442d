"""Draw conformers of molecules in the layout of a chemist's table; no real measurement is in it.

A molecule binds as well as its best conformer fits a pocket: pKi is highest where one conformer is
near the pharmacophore. Molecules of one scaffold are alike. A row is a conformer:

    molecule,conformer,scaffold,shape_1,...,shape_8,energy,pKi,activity
"""

import argparse
import csv

import numpy as np

N_SHAPES = 8


def draw(n_molecules, seed):
    """Rows of the table, with its heading; and the conformer that fits best, by molecule."""
    rng = np.random.default_rng(seed)
    pocket = rng.normal(size=3)
    n_scaffolds = max(4, n_molecules // 4)
    cores = 1.3 * rng.normal(size=(n_scaffolds, N_SHAPES))
    names = [f"shape_{k + 1}" for k in range(N_SHAPES)]
    rows = [["molecule", "conformer", "scaffold", *names, "energy", "pKi", "activity"]]
    best = []
    for i in range(n_molecules):
        scaffold = int(rng.integers(n_scaffolds))
        own = cores[scaffold] + 0.6 * rng.normal(size=N_SHAPES)
        conformers = own + 0.7 * rng.normal(size=(rng.integers(3, 9), N_SHAPES))
        distances = np.linalg.norm(conformers[:, :3] - pocket, axis=1)
        pki = 8.5 - 0.9 * distances.min() + 0.2 * rng.normal()
        activity = "active" if pki > 7 else "inactive"
        best.append([f"CHEM{i:04d}", int(distances.argmin())])
        for j, shape in enumerate(conformers):
            energy = f"{abs(rng.normal()):.3f}"
            values = [f"{value:.4f}" for value in shape]
            rows.append(
                [f"CHEM{i:04d}", f"c{j}", f"S{scaffold}", *values, energy, f"{pki:.2f}", activity]
            )
    return rows, best


def write(path, rows):
    """Write rows to a CSV file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--molecules", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows, best = draw(options.molecules, options.seed)
    write("conformers.csv", rows)
    write("best_conformers.csv", [["molecule", "row"], *best])
    print(f"conformers.csv: {len(rows) - 1} conformers of {options.molecules} molecules")

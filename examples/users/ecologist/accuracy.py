"""Compare annotated clips with the truth: ``python accuracy.py annotated.csv truth.csv``."""

import csv
import sys


def rows_of(path):
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main():
    """Print the share of clips that are named right."""
    found, truth = rows_of(sys.argv[1]), rows_of(sys.argv[2])
    true = {(row["file_path"], float(row["start"])): row["species"] for row in truth}
    name = "label" if "label" in found[0] else "predicted"
    right = {True: [], False: []}
    for row in found:
        species = true[row["bag"], float(row["start"])]
        right[species == "background"].append(row[name] == species)
    every = right[True] + right[False]
    print(f"right: {sum(every) / len(every):.3f} of {len(every)} clips", end=", ")
    print(f"{sum(right[False]) / len(right[False]):.3f} of those with a call")


if __name__ == "__main__":
    main()

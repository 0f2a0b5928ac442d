"""Simulate the reviewer: correct labels in the selection tables of a folder, as one would in Raven.

``python listen.py raven truth.csv 12`` checks the 12 least certain labels: it replaces wrong labels
and marks right ones in the column Checked.
"""

import csv
import sys
from pathlib import Path


def main():
    """Correct the tables in place."""
    folder, truth, most = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with open(truth, newline="", encoding="utf-8") as file:
        true = {
            (Path(row["file_path"]).name, float(row["start"])): row["species"]
            for row in csv.DictReader(file)
        }
    tables = {}
    for path in sorted(folder.glob("*.txt")):
        with open(path, newline="", encoding="utf-8") as file:
            tables[path] = list(csv.DictReader(file, delimiter="\t"))
    rows = [row for table in tables.values() for row in table]
    wrong = 0
    for row in sorted(rows, key=lambda row: float(row["Score"]))[:most]:
        species = true[row["Begin File"], float(row["Begin Time (s)"])]
        wrong += row["Annotation"] != species
        row["Annotation"] = species
        row["Checked"] = "x"
    for path, table in tables.items():
        if table:
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(table[0]), delimiter="\t")
                writer.writeheader()
                writer.writerows(table)
    print(f"{min(most, len(rows))} of {len(rows)} labels looked at; wrong: {wrong}")


if __name__ == "__main__":
    main()

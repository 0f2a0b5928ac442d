"""Compare the labels of clips with hand labels: ``python accuracy.py annotated.csv truth.csv``.

The second table has the columns ``file_path``, ``start`` and ``species`` (``background`` if no bird
calls; ``owl;wren`` if both call, and either is right). It may contain only some of the clips. A
third argument, such as 0.9, also prints for each species how many labels with at least this
probability are right.
"""

import csv
import sys


def rows_of(path):
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def compare(found, truth):
    """The labels, their least probability and the true species of each clip of the truth."""
    true = {(row["file_path"], float(row["start"])): row["species"] for row in truth}
    for row in found:
        species = true.get((row["bag"], float(row["start"])))
        if species is not None:
            label = row.get("label", row.get("predicted"))
            names = {name for name in label.split(";") if name} or {"background"}
            own = [row.get("probability") or row.get(f"probability_{name}", 0) for name in names]
            yield names, min(map(float, own)), {name.strip() for name in species.split(";")}


def main():
    """Print the share of clips whose label is right."""
    clips = list(compare(rows_of(sys.argv[1]), rows_of(sys.argv[2])))
    if not clips:
        sys.exit(f"{sys.argv[2]} has none of the clips of {sys.argv[1]}.")
    right = [names <= species for names, _, species in clips]
    print(f"right: {sum(right) / len(right):.3f} of {len(right)} clips", end="")
    calls = [names <= species for names, _, species in clips if "background" not in species]
    print(f", {sum(calls) / len(calls):.3f} of those with a call" if calls else "")
    if len(sys.argv) > 3:
        least = float(sys.argv[3])
        for name in sorted(set().union(*(names for names, *_ in clips)) - {"background"}):
            sure = [name in species for names, p, species in clips if name in names and p >= least]
            print(f"{name}: {sum(sure)} of {len(sure)} labels with at least {least:g} are right")


if __name__ == "__main__":
    main()

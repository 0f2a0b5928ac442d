"""Candidates of AutoBagClassifier, added one at a time: `python -m benchmarks.candidates`.

Prints the AUC and the log loss of the ensemble in five folds, with the candidates that do not
depend on torch and with one more. The sets are those on which the candidates were chosen, so the
gains are optimistic. Set `OMP_NUM_THREADS=1` to run several sets at the same time.
"""

import argparse

import numpy as np

from bagwise.auto import AutoBagClassifier
from bagwise.auto._members import default_members
from bagwise.auto._methods import find_method
from bagwise.evaluate import compare
from bagwise.evaluate._evaluation import make_folds

from .defaults import data_sets
from .leaderboard import synthetic

ADDED = ("nothing", "noisy-or", "attention")


def development_sets():
    """Name, bags and labels: the sets of `benchmarks.defaults`, and more synthetic bags."""
    yield from data_sets()
    for seed in (2, 3, 4):
        data = synthetic(random_state=seed)()
        yield f"synthetic {seed}", data.bags, data.y
    for seed in (1, 2, 3):
        data = synthetic(n_classes=3, random_state=seed)()
        yield f"3 classes {seed}", data.bags, data.y


def scores(added, bags, y):
    """Mean AUC and log loss of five folds."""
    last = {"noisy-or", "attention"}
    names = [m.name for m in default_members("single") if m.name not in last]
    names += [] if added == "nothing" else [added]
    model = AutoBagClassifier(candidates=names, random_state=0)
    (found,) = compare({"auto": model}, bags, y, cv=make_folds(np.asarray(y), n_folds=5))
    return np.mean(found.scores["AUC"]), np.mean(found.scores["log loss"])


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.candidates", description=__doc__)
    parser.add_argument("--sets", nargs="+", help="these sets only")
    options = parser.parse_args()
    added = [name for name in ADDED if name == "nothing" or find_method(name).available]
    print("".join([f"{'AUC, log loss':14}", *(f"{name:>16}" for name in added)]))
    rows = []
    for name, bags, y in development_sets():
        if options.sets is None or name in options.sets:
            rows.append([scores(each, bags, y) for each in added])
            print(line(name, rows[-1]), flush=True)
    print(line("mean", np.mean(rows, axis=0)))


def line(name, pairs):
    return "".join([f"{name:14}", *(f"{f'{auc:.3f}, {loss:.3f}':>16}" for auc, loss in pairs)])


if __name__ == "__main__":
    main()

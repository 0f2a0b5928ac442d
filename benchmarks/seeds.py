"""Scores that change with the seed: `python -m benchmarks.seeds`.

Every method that draws random numbers is cross-validated with its default parameters on the same
five folds, with 20 seeds. The *score* is the mean AUC over the folds; its *spread* is the standard
deviation over the seeds. The *spread over folds* is the standard deviation of the AUC over the
folds, the mean over the seeds: what a reader of one evaluation sees. The goal is a ratio of at most
one half on every set. Methods without random numbers are left out.
"""

import argparse
import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from bagwise.auto._methods import METHODS, find_method, make_model
from bagwise.base._selections import bag_scores
from bagwise.datasets import load_dataset, make_bags
from bagwise.evaluate._evaluation import make_folds

SETS = {
    "Musk1": partial(load_dataset, "musk1"),
    "drawn, 60 bags": partial(make_bags, 60, 8, separation=3.0, random_state=11),
    "drawn, 150 bags": partial(make_bags, 150, 20, separation=3.0, random_state=12),
    "drawn, larger bags": partial(
        make_bags, 100, 10, separation=3.0, bag_size=(20, 60), random_state=13
    ),
}
GOAL = 0.5


def with_seeds():
    """The methods for labels of bags that draw random numbers, by name."""
    found = []
    for name, method in METHODS.items():
        if method.command is None and method.available:
            names = method.make({}).get_params()
            if any(each.rpartition("__")[2] == "random_state" for each in names):
                found.append(name)
    return found


def one(name, method, seed):
    """The AUC in each fold."""
    warnings.simplefilter("ignore")
    data = SETS[name]()
    y = np.unique(data.y, return_inverse=True)[1]
    model = make_model(find_method(method), {})
    seeded = {n: seed for n in model.get_params() if n.rpartition("__")[2] == "random_state"}
    model.set_params(**seeded)
    areas = []
    for train, test in make_folds(y, n_folds=5, seed=0):
        model.fit(data.bags[train], y[train])
        areas.append(float(roc_auc_score(y[test], bag_scores(model, data.bags[test]))))
    return areas


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeds", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--methods", nargs="*", default=with_seeds())
    parser.add_argument("--sets", nargs="*", default=[*SETS])
    parser.add_argument("--output", type=Path, help="a line of JSON per seed, kept if cut off")
    given = parser.parse_args()
    kept = {}
    if given.output is not None and given.output.exists():
        rows = map(json.loads, given.output.read_text().splitlines())
        kept = {(r["set"], r["method"], r["seed"]): r["areas"] for r in rows}
    wanted = [(s, m, k) for m in given.methods for s in given.sets for k in range(given.seeds)]
    todo = [key for key in wanted if key not in kept]
    found = Parallel(n_jobs=given.jobs, return_as="generator")(delayed(one)(*key) for key in todo)
    for key, areas in zip(todo, found, strict=True):
        kept[key] = areas
        if given.output is not None:
            row = dict(zip(("set", "method", "seed"), key, strict=True)) | {"areas": areas}
            with given.output.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print("| method | " + " | ".join(given.sets) + " | largest ratio |")
    print("|---|" + "---|" * len(given.sets) + "---:|")
    for method in given.methods:
        cells, ratios = [], []
        for name in given.sets:
            areas = np.array([kept[name, method, k] for k in range(given.seeds)])
            seeds, folds = areas.mean(axis=1).std(ddof=1), areas.std(axis=1, ddof=1).mean()
            ratios.append(seeds / folds if folds > 0 else float(seeds > 0))
            cells.append(f"{areas.mean():.3f} ± {seeds:.4f}, folds {folds:.3f}")
        mark = "" if max(ratios) <= GOAL else " (above the goal)"
        print(f"| {method} | {' | '.join(cells)} | {max(ratios):.2f}{mark} |")


if __name__ == "__main__":
    main()

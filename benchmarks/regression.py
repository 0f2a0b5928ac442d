"""Regressors of bags beside pooled baselines: `python -m benchmarks.regression`.

Prints R2 in five folds, the same folds for all models. Each target describes another property of a
bag: an average, an extreme, or a count. `birds` and `photos` are real bags and are left out where
the data are absent; `digits` are random bags of real images; `molecules` are synthetic, in folds by
scaffold (the inner folds of `auto` are not). No setting of a regressor was chosen on these sets.
"""

import argparse
import warnings

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from bagwise.auto import AutoBagRegressor
from bagwise.auto._members import ridge_cv
from bagwise.bags import Bags
from bagwise.datasets import make_digit_bags
from bagwise.embedding import BagStatistics
from bagwise.evaluate._baselines import pooled_trees_regressor
from bagwise.exceptions import DataNotFoundError
from bagwise.preprocessing._bag_pipeline import prepared
from bagwise.regression import SetKernelRegressor
from reproduction.bag_data import load_dataset

MODELS = {
    "auto": AutoBagRegressor(random_state=0),
    "set kernel": prepared(SetKernelRegressor()),
    "pooled trees": pooled_trees_regressor(),
    "forest on means": make_pipeline(
        BagStatistics(("mean",)), RandomForestRegressor(300, random_state=0)
    ),
    "ridge on means": prepared(make_pipeline(BagStatistics(("mean",)), ridge_cv())),
}


def data_sets():
    """Name, bags, target and groups of each set."""
    for name, source in (("birds", "hja_birdsong"), ("photos", "msrcv2")):
        try:
            data = load_dataset(source)
        except DataNotFoundError:
            continue
        yield f"{name}: number of labels", data.bags, data.label_sets.sum(axis=1), None
    data = make_digit_bags(200, mean_size=5, random_state=0)
    digits = data.bags.split(data.digits)
    yield "digits: mean", data.bags, np.array([d.mean() for d in digits]), None
    yield "digits: largest", data.bags, np.array([d.max() for d in digits], float), None
    yield "digits: number of 9s", data.bags, np.array([(d == 9).sum() for d in digits], float), None
    for n_molecules in (200, 1000):
        bags, best, weighted, scaffolds = conformers(n_molecules)
        yield f"{n_molecules} molecules: best", bags, best, scaffolds
        yield f"{n_molecules} molecules: weighted", bags, weighted, scaffolds


def conformers(n_molecules, n_features=20, seed=0):
    """Synthetic molecules, by scaffold; binding of the best conformer, and weighted by energy."""
    rng = np.random.default_rng(seed)
    scaffolds = rng.integers(n_molecules // 8, size=n_molecules)
    cores = rng.normal(size=(n_molecules // 8, n_features))
    pocket = rng.normal(size=3)
    molecules, best, weighted = [], [], []
    for scaffold in scaffolds:
        own = cores[scaffold] + 0.6 * rng.normal(size=n_features)
        shapes = own + 0.7 * rng.normal(size=(rng.integers(5, 30), n_features))
        binding = -np.linalg.norm(shapes[:, :3] - pocket, axis=1)
        weights = np.exp(-np.abs(shapes[:, 3]))  # the fourth descriptor is the energy
        molecules.append(shapes)
        best.append(binding.max())
        weighted.append(np.average(binding, weights=weights))
    noise = 0.2 * rng.normal(size=(2, n_molecules))
    return Bags.from_arrays(molecules), best + noise[0], weighted + noise[1], scaffolds


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regression", description=__doc__)
    parser.add_argument("--sets", nargs="+", help="these sets only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of members of the ensemble
    print("".join([f"{'R2':26}", *(f"{name:>16}" for name in MODELS)]))
    rows = []
    for name, bags, y, groups in data_sets():
        if options.sets is None or name in options.sets:
            cv = KFold(5, shuffle=True, random_state=0) if groups is None else GroupKFold(5)
            found = [
                cross_val_score(model, bags, y, groups=groups, cv=cv, scoring="r2").mean()
                for model in MODELS.values()
            ]
            rows.append(found)
            print(line(name, found), flush=True)
    print(line("mean", np.mean(rows, axis=0)))


def line(name, values):
    return "".join([f"{name:26}", *(f"{value:>16.3f}" for value in values)])


if __name__ == "__main__":
    main()

"""Coverage of predicted sets and intervals beside MAPIE: `python -m benchmarks.coverage`.

Training and test bags are drawn anew in each of 200 draws. The target is .90: the mean over the
draws should not be below it by more than two standard errors, and at most .95. The size of a set is
its number of classes, that of an interval its length. MAPIE refits the same automatic estimator on
five folds and keeps these models (cross-conformal prediction); bagwise keeps none. Bags of a
hospital stay in one fold, so that both score each hospital by models of the others. `--no-mapie`
leaves MAPIE out, where it is not installed; `--cases` selects bags.
"""

import argparse
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedGroupKFold

from bagwise import Bags
from bagwise.auto import AutoBagClassifier, AutoBagRegressor
from bagwise.datasets import make_bags

TARGET = 0.9
N_TEST = 300
CASES = {  # training bags, classes (0: numbers), hospitals
    "2 classes, 100 bags": (100, 2, 0),
    "2 classes, 300 bags": (300, 2, 0),
    "3 classes, 150 bags": (150, 3, 0),
    "2 classes, 4 hospitals of 50 bags": (200, 2, 4),
    "numbers, 100 bags": (100, 0, 0),
}


def drawn(case, seed):
    """Training and test bags, labels or numbers, and hospitals."""
    n_train, n_classes, n_groups = CASES[case]
    n_bags, rng = n_train + N_TEST, np.random.RandomState(seed)
    data = make_bags(
        n_bags, 6, n_classes=n_classes or 2, separation=3.0, random_state=rng.randint(2**31)
    )
    order = rng.permutation(n_bags)
    bags, y = data.bags[order], data.y[order]
    if n_classes == 0:
        y = y + 0.3 * rng.standard_normal(n_bags)
    groups = np.arange(n_bags) % n_groups if n_groups else None
    if n_groups:  # each hospital prepares its samples in its own way
        shifts = 0.3 * rng.standard_normal((n_groups, 6))
        rows = np.asarray(bags.instances) + shifts[groups[bags.bag_index]]
        bags = Bags(rows, bags.offsets)
    parts = [(bags, y, groups)] * 2
    chosen = slice(n_train), slice(n_train, None)
    return [
        tuple(None if each is None else each[part] for each in whole)
        for whole, part in zip(parts, chosen, strict=True)
    ]


def one_draw(case, seed, mapie=True):
    """Coverage of each part of the bags and mean size, by the name of the row."""
    warnings.simplefilter("ignore")  # of the candidates
    (bags, y, groups), (new, truth, their) = drawn(case, seed)
    if CASES[case][1] == 0:
        return _intervals(bags, y, new, truth, mapie)
    model = AutoBagClassifier(candidates=["nsk", "mind"], cv=4, random_state=0)
    cv, found = 5, {}
    if groups is not None:
        cv = StratifiedGroupKFold(4, shuffle=True, random_state=0)
    if mapie:
        from mapie.classification import CrossConformalClassifier

        rival = CrossConformalClassifier(model, TARGET, cv=cv, random_state=0)
        rival.fit_conformalize(bags, y, groups=groups)
        found["MAPIE"] = (rival.predict_set(new)[1][:, :, 0], None)
    model.fit(bags, y, groups=groups)
    rows, parts = np.arange(len(new)), {"class": truth, "group": their}
    for by, part in {None: None, **parts}.items():
        if by != "group" or groups is not None:
            found[f"by={by}"] = (model.predict_set(new, TARGET, by=by, groups=their), part)
    result = {}
    for name, (sets, part) in found.items():
        right = sets[rows, truth]
        own = [right] if part is None else [right[part == k] for k in np.unique(part)]
        result[name] = [each.mean() for each in own], sets.sum(axis=1).mean()
    return result


def _intervals(bags, y, new, truth, mapie):
    model, ends = AutoBagRegressor(candidates=["pooled-ridge", "nsk"], random_state=0), {}
    if mapie:
        from mapie.regression import CrossConformalRegressor

        rival = CrossConformalRegressor(model, TARGET, cv=5, random_state=0)
        ends["MAPIE"] = rival.fit_conformalize(bags, y).predict_interval(new)[1][:, :, 0]
    ends["interval"] = model.fit(bags, y).predict_interval(new, TARGET)
    return {
        name: ([((low <= truth) & (truth <= high)).mean()], (high - low).mean())
        for name, (low, high) in ((name, each.T) for name, each in ends.items())
    }


def table(case, draws):
    """A row per method: mean coverage of each part and its standard error, size, ratio."""
    rival = np.mean([draw["MAPIE"][1] for draw in draws]) if "MAPIE" in draws[0] else np.nan
    for name in draws[0]:
        covered = np.array([draw[name][0] for draw in draws])  # (n_draws, n_parts)
        size = np.mean([draw[name][1] for draw in draws])
        mean, error = covered.mean(axis=0), covered.std(axis=0, ddof=1) / np.sqrt(len(draws))
        yield case, name, mean, error, size, size / rival


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-mapie", action="store_true")
    parser.add_argument("--cases", nargs="*", choices=[*CASES], default=[*CASES])
    options = parser.parse_args()
    print("| bags | sets | coverage (standard error) | size | size / MAPIE's |")
    print("|---|---|---|---:|---:|")
    with Parallel(n_jobs=options.jobs) as parallel:
        for case in options.cases:
            jobs = (delayed(one_draw)(case, k, not options.no_mapie) for k in range(options.draws))
            draws = parallel(jobs)
            for _, name, mean, error, size, ratio in table(case, draws):
                parts = ", ".join(f"{m:.3f} ({e:.3f})" for m, e in zip(mean, error, strict=True))
                print(f"| {case} | {name} | {parts} | {size:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""Times, grades and censored numbers beside plain models: `python -m benchmarks.survival`.

**Times**: three kinds of drawn bags, 300 to learn from and 300 to test. The risk of a bag is the
share of its risk instances; or that of its highest instance; or the mean of a smooth function of
each instance. Printed is Harrell's C on the test bags: of the true risk, of `AutoBagSurvival`, and
of each of its members, of which "pooled-trees" (statistics of the bag and a random survival forest)
is the baseline. **Grades**: each classifier with and without `OrdinalBagClassifier`; GlaS in five
folds of patients. **Censored numbers**: each regressor in `CensoredBagRegressor`, beside the same
regressor without the censored bags, and with the bound in place of the number; the error is that of
the true numbers. Settings were checked on draws from 100 on; the table has the draws from 0 on.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import KFold, StratifiedGroupKFold

from bagwise import Bags
from bagwise.auto import AutoBagClassifier
from bagwise.classification import OrdinalBagClassifier, SetKernelSVM
from bagwise.datasets import load_dataset
from bagwise.evaluate._baselines import CENSORED, pooled_trees, pooled_trees_regressor
from bagwise.evaluate._measures import grade_measures
from bagwise.labels import Intervals
from bagwise.metrics import concordance_index
from bagwise.preprocessing._bag_pipeline import prepared
from bagwise.regression import CensoredBagRegressor, SetKernelRegressor
from bagwise.solvers.censored import concordance
from bagwise.survival import AutoBagSurvival

KINDS = ("share of risk instances", "one instance decides", "smooth function")
SPREAD = (0.8, 0.8, 1.2)  # standard deviation of the log risks
MEMBERS = ("pooled-trees", "pooled-coxnet", "nsk", "nsk-max", "attention")
GLAS = ["healthy", "adenomatous", "moderately differentiated"]
GLAS += ["moderately-to-poorly differentated", "poorly differentiated"]  # as the file writes them
CLASSIFIERS = {
    "pooled trees": pooled_trees(),
    "set kernel": prepared(SetKernelSVM(C=10.0)),
    "auto": AutoBagClassifier(random_state=0),
}
REGRESSORS = {
    "pooled trees": pooled_trees_regressor(100),
    "set kernel": prepared(SetKernelRegressor()),
}


def risky_bags(kind, rng, n=300):
    """Bags of 5 to 30 instances, and the feature of each bag that determines its risk."""
    arrays = [rng.normal(size=(rng.integers(5, 31), 8)) for _ in range(n)]
    if kind == 0:
        found = [rng.random(len(X)) < rng.random() for X in arrays]
        for X, risky in zip(arrays, found, strict=True):
            X[risky, :2] += 1.5
        values = [risky.mean() for risky in found]
    elif kind == 1:
        values = [X[:, :2].sum(axis=1).max() for X in arrays]
    else:
        arrays = [X * rng.uniform(0.5, 1.5, 8) for X in arrays]
        values = [(X[:, :2] ** 2).mean() for X in arrays]
    return Bags.from_arrays(arrays), (values - np.mean(values)) / np.std(values)


def drawn_times(kind, seed):
    """Bags, log risks and times of the training bags and of the test bags."""
    rng = np.random.default_rng([seed, kind])
    for _ in range(2):
        bags, values = risky_bags(kind, rng)
        risk = SPREAD[kind] * values
        time, until = rng.exponential(np.exp(-risk)), rng.exponential(2.0, len(bags))
        y = np.empty(len(bags), dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = time <= until, np.minimum(time, until)
        yield bags, risk, y


def of_times(kind, seed):
    """C on the test bags by model."""
    warnings.simplefilter("ignore")  # of the candidates
    (bags, _, y), (new, risk, truth) = drawn_times(kind, seed)
    model = AutoBagSurvival(random_state=0).fit(bags, y)
    found = {"true risk": risk, "AutoBagSurvival": model.predict(new)}
    fitted = dict(zip(model.names_, model.estimators_, strict=True))
    seen, test = model.scaler_.transform(bags), model.scaler_.transform(new)
    for member in model._default_members(1):
        if member.name not in fitted:
            member = member.seeded(0)
            fitted[member.name] = member.fit_all(member.represent(seen), seen, y)
        found[member.name] = fitted[member.name].predict(test)
    return {name: concordance_index(truth, values) for name, values in found.items()}


def drawn_grades(seed):
    """Bags of the three kinds of risk, cut into four grades; half of them to test."""
    bags, values = risky_bags(seed % 3, np.random.default_rng([seed, 7]), n=200)
    noisy = values + 0.3 * np.random.default_rng(seed).normal(size=len(values))
    return bags, np.searchsorted([-0.8, 0.0, 0.8], noisy), [(np.arange(100), np.arange(100, 200))]


def glas(seed):
    """GlaS in five folds of patients."""
    data = load_dataset("real_glas")
    y = np.array([GLAS.index(data.grades[code]) for code in data.grade])
    cv = StratifiedGroupKFold(5, shuffle=True, random_state=seed)
    return data.bags, y, list(cv.split(y, y, data.groups))


def of_grades(source, name, seed):
    """Quadratic kappa, MAE and within one of the classifier without and with an order."""
    warnings.simplefilter("ignore")
    bags, y, folds = source(seed)
    found = []
    for model in (CLASSIFIERS[name], OrdinalBagClassifier(CLASSIFIERS[name])):
        predicted = np.full(len(y), -1)
        for train, test in folds:
            predicted[test] = model.fit(bags[train], y[train]).predict(bags[test])
        own = predicted >= 0
        found.append([*grade_measures(y[own], predicted[own], sorted(set(y))).values()])
    return found


def drawn_numbers(seed):
    """Bags of the three kinds of risk with a number; half of them to test."""
    bags, values = risky_bags(seed % 3, np.random.default_rng([seed, 8]), n=200)
    noisy = values + 0.3 * np.random.default_rng(seed).normal(size=len(values))
    return bags, noisy, [(np.arange(100), np.arange(100, 200))]


def dopamine(seed):
    """Activities of molecules in five folds."""
    data = load_dataset("real_conformers_dopamine")
    return data.bags, data.y, list(KFold(5, shuffle=True, random_state=seed).split(data.y))


def of_numbers(source, name, seed, share=0.4):
    """C and mean absolute error of the three ways, with the lowest numbers below a bound."""
    warnings.simplefilter("ignore")
    bags, y, folds = source(seed)
    bound, regressor = np.quantile(y, share), REGRESSORS[name]
    is_low, cut = y < bound, np.maximum(y, bound)
    known = Intervals(np.where(is_low, -np.inf, y), cut)
    predicted = np.full((3, len(y)), np.nan)
    for train, test in folds:
        exact = train[~is_low[train]]
        wrapped = CensoredBagRegressor(regressor, **CENSORED)
        predicted[0, test] = wrapped.fit(bags[train], known[train]).predict(bags[test])
        predicted[1, test] = regressor.fit(bags[exact], y[exact]).predict(bags[test])
        predicted[2, test] = regressor.fit(bags[train], cut[train]).predict(bags[test])
    tested = np.isfinite(predicted[0])
    return [(concordance(y[tested], y[tested], p), np.abs(p - y[tested]).mean())
            for p in predicted[:, tested]]  # fmt: skip


def times_table(parallel, seeds, keep):
    """Mean C of each kind; the best member is that with the highest mean."""
    known = json.loads(keep.read_text()) if keep is not None and keep.exists() else {}
    print("| risk | true risk | AutoBagSurvival | best member | " + " | ".join(MEMBERS), end=" |\n")
    print("|---|" + "---:|---:|---|" + "---:|" * len(MEMBERS))
    cases = [(kind, seed) for seed in seeds for kind in range(len(KINDS))]
    wanted = [case for case in cases if str(case) not in known]
    done = parallel(delayed(of_times)(*case) for case in wanted)
    for case, found in zip(wanted, done, strict=True):
        known[str(case)] = found
        if keep is not None:
            keep.write_text(json.dumps(known))
    gains = []
    for kind, title in enumerate(KINDS):
        draws = [known[str((kind, seed))] for seed in seeds]
        mean = {name: np.mean([draw[name] for draw in draws]) for name in draws[0]}
        best = max(MEMBERS, key=mean.__getitem__)
        gains.append([draw["AutoBagSurvival"] - draw["pooled-trees"] for draw in draws])
        row = [mean["true risk"], mean["AutoBagSurvival"], best, *map(mean.get, MEMBERS)]
        print(f"| {title} | " + " | ".join(_shown(v) for v in row), end=" |\n", flush=True)
    each = ", ".join(f"{np.mean(own):+.3f}" for own in gains)
    error = np.std(np.mean(gains, axis=0), ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else 0
    print(f"\nAutoBagSurvival minus pooled-trees: {each}; mean {np.mean(gains):+.3f} "
          f"(standard error {error:.3f}).\n")  # fmt: skip


def paired_table(parallel, job, cases, heads, rows):
    """A row per data set, model and way."""
    print(f"| data | model | {' | '.join(heads)} |\n|---|---|" + "---:|" * len(heads))
    for title, source, names, seeds in cases:
        for name in names:
            jobs = (delayed(job)(source, name, seed) for seed in seeds)
            found = np.mean(list(parallel(jobs)), axis=0)
            for way, values in zip(rows, found, strict=True):
                shown = " | ".join(map(_shown, values))
                print(f"| {title} | {name}, {way} | {shown} |", flush=True)
    print()


def _shown(value):
    return value if isinstance(value, str) else f"{value:.3f}".replace("0.", ".", 1)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survival", description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first draw; 100: development")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--parts", nargs="+", default=["times", "grades", "numbers"])
    parser.add_argument("--models", nargs="+", default=["pooled trees", "set kernel"])
    parser.add_argument("--keep", type=Path, help="a file with the draws so far, to go on from")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.draws)
    few, models = seeds[:3], options.models
    with Parallel(n_jobs=options.jobs, return_as="generator") as parallel:
        if "times" in options.parts:
            times_table(parallel, seeds, options.keep)
        if "grades" in options.parts:
            cases = [("drawn", drawn_grades, models, seeds), ("GlaS", glas, models, few)]
            heads = ("quadratic kappa", "MAE", "within one")
            paired_table(parallel, of_grades, cases, heads, ("classes", "grades"))
        if "numbers" in options.parts:
            names = [name for name in models if name in REGRESSORS]
            cases = [("drawn", drawn_numbers, names, seeds), ("dopamine", dopamine, names, few)]
            ways = ("censored", "censored bags left out", "bound as number")
            paired_table(parallel, of_numbers, cases, ("C", "MAE"), ways)


if __name__ == "__main__":
    main()

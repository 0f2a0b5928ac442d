"""Leaks planted in drawn bags, and false alarms on real sets: `python -m benchmarks.leaks`.

Five kinds of leaks are planted in 20 draws each; size and strength are drawn, too. The thresholds
of `bagwise.evaluate.find_leaks` were set on the draws 0 to 9 (those of near-copies also on 100 to
159); the table is of the draws 10 to 19 (`--develop` prints the others). A leak is found if it is
reported with one of its bags. Every draw is also searched without its leak. The sets of the data
home (`--sets`, by default all) are searched as they are, with their groups: duplicates that its
MANIFEST.md names are findings.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from bagwise import Bags
from bagwise.evaluate import find_leaks

KINDS = ("same bag", "same patient", "near-copies", "label in a column", "label by site")
REPORTED = {  # the kinds of `find_leaks` that tell a planted one
    "same bag": {"same bag", "copies"},
    "same patient": {"same group"},
    "near-copies": {"copies"},
    "label in a column": {"label in a column"},
    "label by site": {"label by site", "label in a column"},
}
NAMED = {"uci_spectf", "uci_flare", "uci_sick"}  # duplicates in MANIFEST.md


def drawn(rng):
    """Bags with a weak signal: groups of similar instances, bag effects, some whole numbers."""
    n_bags, d = rng.integers(40, 161), rng.integers(4, 61)
    sizes = rng.integers(3, rng.integers(6, 41), size=n_bags)
    y = rng.permutation(np.arange(n_bags) % 2)
    bag = np.repeat(np.arange(n_bags), sizes)
    centres = rng.normal(size=(5, d)) * rng.uniform(0.5, 3)
    own = rng.integers(5, size=len(bag))
    mixing = rng.normal(size=(d, d)) / np.sqrt(d)
    rows = centres[own] + rng.normal(size=(len(bag), d)) @ mixing
    rows += rng.uniform(0, 0.5) * rng.normal(size=(n_bags, d))[bag]
    rows[:, 0] += rng.uniform(0, 1.5) * y[bag]
    whole = rng.random(d) < rng.choice([0, 0, 0.3])
    rows[:, whole] = np.round(3 * rows[:, whole])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(rows, offsets, [f"b{i:03d}" for i in range(n_bags)]), y


def planted(kind, seed):
    """Bags, labels, folds or None with a leak; the names of its bags, and its strength."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    bags, y = drawn(rng)
    n = len(bags)
    if kind == "same bag":
        k = int(rng.integers(1, max(2, n // 10)))
        twice = rng.choice(n, k, replace=False)
        if rng.random() < 0.3:  # the whole test part of a fold is trained on, or some of it
            train, test = next(StratifiedKFold(3, shuffle=True, random_state=seed).split(y, y))
            folds = [(np.concatenate([train, test[:k]]), test)]
            return bags, y, folds, bags.ids[test[:k]], f"{k} bags in both parts"
        share = rng.choice([1.0, rng.uniform(0.3, 1)])
        copies = [rng.permutation(bags[i])[: max(2, int(share * bags.sizes[i]))] for i in twice]
        both = Bags.from_arrays([*bags, *copies], [*bags.ids, *(f"c{i}" for i in twice)])
        text = f"{k} of {n} bags again, {share:.0%} of their instances"
        return both, np.append(y, y[twice]), None, [f"c{i}" for i in twice], text
    if kind == "same patient":
        patient = np.sort(rng.integers(n // rng.integers(2, 4), size=n))
        names = np.array([f"p{p:03d}" for p in patient])
        how = rng.choice(["folds", "patient-label", "ids", "not recorded"], p=[0.3, 0.3, 0.3, 0.1])
        several = np.bincount(patient)[patient] > 1
        if how == "folds":
            bags = bags.with_columns({"patient": names}, groups="patient")
            folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(y, y))
            return bags, y, folds, bags.ids[several], "groups divided by folds"
        if how == "patient-label":
            both = [f"{p}-{k}" for p, k in zip(names, y, strict=True)]
            bags = bags.with_columns({"patient": names, "group": both}, groups="group")
            folds = list(StratifiedGroupKFold(5, shuffle=True, random_state=seed).split(y, y, both))
            return bags, y, folds, bags.ids[several], "groups of patient and label"
        ids = bags.ids
        if how == "ids":
            ids = [f"{p}_s{i}" for i, p in enumerate(names)]
        shift = rng.normal(size=(patient.max() + 1, bags.n_features))[patient]
        rows = bags.instances + 0.3 * shift[bags.bag_index]
        bags = Bags(rows, bags.offsets, ids)
        return bags, y, None, bags.ids[several], f"patients: {how}"
    if kind == "near-copies":
        share, noise = rng.uniform(0.005, 0.08), 10 ** rng.uniform(-5, 0)
        rows = bags.instances.copy()
        k = max(2, int(share * len(rows)))
        source, target = rng.choice(len(rows), (2, k), replace=False)
        few = rows[rng.choice(len(rows), min(300, len(rows)), replace=False)]
        apart = np.sqrt(np.square(few[:, None] - rows[None]).sum(axis=2))
        typical = np.median(np.where(apart > 0, apart, np.inf).min(axis=1))
        jitter = rng.normal(size=(k, rows.shape[1])) / np.sqrt(rows.shape[1])
        rows[target] = rows[source] + noise * typical * jitter
        owner = bags.bag_index
        apart = owner[source] != owner[target]
        text = f"{k} of {len(rows)} instances, noise {noise:.1g} of the distance to others"
        return bags.with_instances(rows), y, None, bags.ids[owner[target[apart]]], text
    flips = rng.choice([0.0, rng.uniform(0, 0.15)])
    if kind == "label in a column":
        told = np.where(rng.random(n) < flips, 1 - y, y)
        how = rng.choice(["feature", "column of bags", "words"])
        text = f"{how}, {flips:.0%} wrong"
        if how == "feature":
            rows = bags.instances.copy()
            value = told[bags.bag_index] + rng.uniform(0, 0.2) * rng.normal(size=len(rows))
            rows[:, -1] = value * rng.uniform(1, 9)
            return bags.with_instances(rows), y, None, bags.ids, text
        values = told * 3.0 + rng.random(n) if how == "column of bags" else told.astype(str)
        other = {"age": rng.normal(60, 9, size=n), "batch": rng.integers(3, size=n).astype(str)}
        return bags.with_columns({**other, "told": values}), y, None, bags.ids, text
    n_sites, follows = rng.integers(2, 6), rng.uniform(0.2, 1)
    rate = np.where(np.arange(n_sites) % 2, 0.5 + follows / 2, 0.5 - follows / 2)
    site = rng.integers(n_sites, size=n)
    y = (rng.random(n) < rate[site]).astype(int)
    columns = {"site": np.array(list("ABCDE"))[site], "age": rng.normal(60, 9, size=n)}
    text = f"{n_sites} sites, the rates of their labels differ by {follows:.2f}"
    return bags.with_columns(columns), y, None, bags.ids, text


def search(kind, seed):
    """The row of the table for one draw."""
    bags, y, folds, names, text = planted(kind, seed)
    start = time.process_time()
    found = find_leaks(bags, y, folds=folds)
    seconds = time.process_time() - start
    own = [leak for leak in found if leak.kind in REPORTED[kind]]
    hit = any({*leak.bags} & {*names} for leak in own)
    others = [leak.kind for leak in found if leak.kind not in REPORTED[kind]]
    without = [leak.kind for leak in find_leaks(*drawn(np.random.default_rng([9, seed])))]
    return kind, seed, text, hit, others, without, seconds


def real_set(path):
    """The bags, labels and groups of a file of the data home; None if it has another form."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files if file[name].dtype.kind != "O"}
    if "X_data" in arrays:
        parts = tuple(arrays[f"X_{part}"] for part in ("data", "indices", "indptr"))
        arrays["X"] = sparse.csr_array(parts, shape=tuple(arrays["X_shape"])).toarray()
    if "X" not in arrays or arrays["X"].ndim != 2:
        return None
    X = np.nan_to_num(arrays["X"].astype(np.float64))
    bag = arrays.get("bag", np.arange(len(X)))
    order = np.argsort(bag, kind="stable")
    bags = Bags.from_groups(X[order], bag[order])
    y, group = arrays.get("y"), arrays.get("group")
    y = y if y is not None and y.shape == (len(bags),) else None
    if group is not None and group.shape == (len(bags),):
        bags = bags.with_columns(groups=group)
    return bags, y


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaks", description=__doc__)
    parser.add_argument("--develop", action="store_true", help="the draws 0 to 9")
    parser.add_argument("--sets", nargs="*", help="files of the data home, without .npz")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    draws = range(10) if options.develop else range(10, 20)
    print("| leak | draw | strength | found | other alarms | without the leak | s |")
    print("|---|---:|---|---|---|---|---:|")
    for kind in options.kinds:
        for seed in draws:
            _, _, text, hit, others, without, seconds = search(kind, seed)
            shown = f"{'yes' if hit else 'NO'} | {', '.join(others)} | {', '.join(without)}"
            print(f"| {kind} | {seed} | {text} | {shown} | {seconds:.2f} |", flush=True)
    home = Path(os.environ.get("BAGWISE_DATA", "."))
    names = sorted(path.stem for path in home.glob("*.npz"))
    print("\n| set | bags | instances | alarms | s |\n|---|---:|---:|---|---:|")
    for name in names if options.sets is None else options.sets:
        found = real_set(home / f"{name}.npz")
        if found is None:
            continue
        bags, y = found
        start = time.process_time()
        leaks = find_leaks(bags, y)
        seconds = time.process_time() - start
        text = "; ".join(f"{leak.kind}: {leak.text[:90]}" for leak in leaks)
        text += " (named in MANIFEST.md)" if leaks and name in NAMED else ""
        print(f"| {name} | {len(bags)} | {bags.n_instances} | {text} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()

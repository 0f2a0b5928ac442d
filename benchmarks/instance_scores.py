"""Which method finds the positive instances? `python -m benchmarks.instance_scores`.

On drawn bags, digits and letters, whose instances are known, the automatic classifier is fitted on
half of the bags; printed is the area under the ROC curve of the instances of the other half, by its
scores of instances and by those of four single methods, all on standardised instances; with several
classes it is the share of informative instances whose class has the highest score. The rule by
which `AutoBagClassifier` combines scores of instances was chosen on these sets. `-o` stores the
scores of all default candidates, on the training bags too, from which rules can be compared.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from bagwise import Bags
from bagwise.auto import AutoBagClassifier
from bagwise.auto._members import default_members
from bagwise.auto._methods import METHODS
from bagwise.datasets import load_dataset, make_bags, make_digit_bags
from bagwise.datasets._registry import dataset_info, read_dataset
from bagwise.predictions import instance_attributions

RIVALS = ("misvm-bag", "noisy-or", "nsk", "concepts")
SEEDS = range(3)


def mixed(share: float, other: float, seed: int) -> tuple[Bags, Any, Any]:
    """Bags of 10 to 40 instances of five kinds; the first has a share in positive and other bags.

    Each bag shifts its instances a little, as a stain or a microphone does.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(5, 20)) / 2
    rows, truth = [], []
    for i in range(160):
        own = rng.random(rng.integers(10, 40)) < (share if i % 2 else other)
        own[0] |= i % 2 == 1
        kinds = np.where(own, 0, rng.integers(1, 5, size=len(own)))
        noise = 0.7 * rng.normal(size=(len(own), 20)) + 0.3 * rng.normal(size=20)
        rows.append(centres[kinds] + noise)
        truth.append(own)
    return Bags.from_arrays(rows), np.arange(160) % 2, np.concatenate(truth)


def drawn(load: Callable, **options: Any) -> tuple[Bags, Any, Any]:
    data = load(**options)
    return data.bags, data.y, data.instance_labels == 1


def letters(name: str, letter: str) -> tuple[Bags, Any, Any]:
    """Words, positive if they contain a letter."""
    data = load_dataset(name)
    k = data.classes.tolist().index(letter)
    return data.bags, data.label_sets[:, k].astype(int), data.instance_labels == k


def classes_of(X: Any, y: Any, n_classes: int, seed: int) -> tuple[Bags, Any, Any]:
    """Bags of one of several classes: half of their rows are of that class, the others of none."""
    rng = np.random.default_rng(seed)
    labels, rows, truth = np.arange(30 * n_classes) % n_classes, [], []
    for label in labels:
        own = rng.random(rng.integers(2, 7)) < 0.5
        own[0] = True
        chosen = [rng.choice(np.flatnonzero(y == label if o else y >= n_classes)) for o in own]
        rows.append(X[chosen])
        truth.append(np.where(own, label, -1))
    return Bags.from_arrays(rows), labels, np.concatenate(truth)


def digits_of(n_classes: int, seed: int) -> tuple[Bags, Any, Any]:
    data = load_digits()
    return classes_of(data.data, data.target, n_classes, seed)


def letters_of(n_classes: int, seed: int) -> tuple[Bags, Any, Any]:
    data = read_dataset(dataset_info("letter_carroll"), ["X", "y"])  # the rows of UCI Letter
    return classes_of(data["X"].astype(float), data["y"], n_classes, seed)


SETS: dict[str, Callable[[int], tuple[Bags, Any, Any]]] = {
    "digits, 9": lambda seed: drawn(make_digit_bags, n_bags=160, random_state=seed),
    "digits, 3": lambda seed: drawn(make_digit_bags, n_bags=160, target=3, random_state=seed),
    "first instance": lambda seed: drawn(
        make_bags, n_bags=160, n_features=10, bag_size=(5, 15), random_state=seed
    ),
    "mixed, 10 %": lambda seed: mixed(0.1, 0.0, seed),
    "mixed, 30 %": lambda seed: mixed(0.3, 0.0, seed),
    "mixed, 60 %": lambda seed: mixed(0.6, 0.0, seed),
    "mixed, 50 and 20 %": lambda seed: mixed(0.5, 0.2, seed),
    "Carroll": lambda seed: letters("letter_carroll", "EAT"[seed]),
    "Frost": lambda seed: letters("letter_frost", "EAS"[seed]),
    "4 digits": lambda seed: digits_of(4, seed),
    "8 letters": lambda seed: letters_of(8, seed),
}


def scores_of(name: str, seed: int) -> dict[str, Any]:
    """Truth of the test instances, scores of each model, and what the ensemble knows."""
    warnings.simplefilter("ignore")
    bags, y, truth = SETS[name](seed)
    order = np.random.default_rng(5).permutation(len(bags))
    order = order[np.argsort(y[order], kind="stable")]
    train, test = np.sort(order[::2]), np.sort(order[1::2])
    auto = AutoBagClassifier(random_state=0).fit(bags[train], y[train])
    old, new = (auto.scaler_.transform(bags[part]) for part in (train, test))
    found: dict[str, Any] = {
        "truth": np.concatenate([bags.split(truth)[i] for i in test]),
        "sizes": old.sizes,
        "y": y[train],
        "auto": auto.score_instances(bags[test]),
    }
    fitted = dict(zip(auto.names_, auto.estimators_, strict=True))
    known = {member.name: member for member in default_members("single")}
    for member in dict.fromkeys([*known, *RIVALS]):
        model = fitted.get(member)
        if model is None and member in known:
            chosen = known[member].seeded(0)
            model = chosen.fit_all(chosen.represent(old), old, y[train])
        elif model is None:
            model = METHODS[member].make({}).fit(old, y[train])
        if hasattr(model, "score_instances"):
            for part, seen in (("train", old), ("test", new)):
                values = instance_attributions(model, seen, method="score")
                found[f"{part} {member}"] = np.clip(values, -1e6, 1e6)
            i = auto.names_.index(member) if member in auto.names_ else None
            columns = np.ones(len(auto.intercept_))
            known_of = (auto.weights_, auto.slopes_, auto.offsets_)
            found[f"stack {member}"] = np.array(
                [0 * columns if i is None else values[i] * columns for values in known_of]
            )
    return found


def quality(truth: Any, scores: Any) -> float:
    """Area under the curve, or the share of instances with the right class."""
    if truth.dtype == bool:
        return roc_auc_score(truth, scores)
    return np.mean(scores.argmax(axis=1)[truth >= 0] == truth[truth >= 0])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instance_scores")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="folder for the scores")
    options = parser.parse_args()
    cells = [(name, seed) for name in options.sets for seed in SEEDS]
    every = Parallel(n_jobs=options.jobs)(delayed(scores_of)(*cell) for cell in cells)
    rows: dict[str, list] = {}
    for (name, seed), found in zip(cells, every, strict=True):
        if options.output:
            options.output.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(options.output / f"{name} {seed}.npz", **found)
        models = ["auto", *(f"test {rival}" for rival in RIVALS)]
        found_of = [quality(found["truth"], found[model]) for model in models]
        rows.setdefault(name, []).append(found_of)
    print(f"| set | auto | {' | '.join(RIVALS)} | auto minus the best |")
    print("|---|" + "---:|" * (len(RIVALS) + 2))
    for name, draws in rows.items():
        values = np.mean(draws, axis=0)
        texts = [f"{v:.3f}".lstrip("0") for v in values]
        print(f"| {name} | {' | '.join(texts)} | {values[0] - values[1:].max():+.3f} |")


if __name__ == "__main__":
    main()

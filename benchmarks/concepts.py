"""Hidden concepts against MI-SVM and MILBoost: `python -m benchmarks.concepts`.

Three parts: the tests of Raff and Holt on 20 seeds; five real sets, and digits of which a bag needs
a 9, or a 3 and a 9, in repeated folds; and the scores of nuclei in images whose labels alone were
trained on. `auto` is `AutoBagClassifier(assumption="standard")`; `auto, concepts` has the concepts
as one more candidate. Instances are standardised on the training bags, all parameters have their
defaults. The settings that `ConceptCountsClassifier` compares were chosen on Musk1, Elephant and
the digits; Musk2, Fox, Tiger and the nuclei were not looked at. Results of fits are stored in a
folder: an interrupted run can be resumed.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from bagwise import Bags
from bagwise.assumptions._check import FREQUENCY, SINGLE, TWO, trials
from bagwise.auto import AutoBagClassifier
from bagwise.auto._methods import METHODS, audited_model
from bagwise.base._selections import bag_scores
from bagwise.classification import BagMarginSVM, ConceptCountsClassifier, MILBoost
from bagwise.datasets import load_dataset, make_digit_bags
from bagwise.evaluate._evaluation import make_folds
from bagwise.preprocessing._bag_pipeline import prepared

STORE = Path(__file__).parent.parent / "results" / "concepts"
MEMBERS = {"milboost": MILBoost(), "misvm-bag": BagMarginSVM(kernel="rbf", threshold="zero")}
CONCEPTS = ConceptCountsClassifier(random_state=0)
MODELS: dict[str, Callable[[], Any]] = {
    "concepts": lambda: CONCEPTS,
    "misvm-bag": lambda: BagMarginSVM(random_state=0),
    "milboost": MILBoost,
    "auto, standard": lambda: AutoBagClassifier(candidates=MEMBERS, random_state=0),
    "auto, concepts": lambda: AutoBagClassifier(
        candidates=MEMBERS | {"concepts": CONCEPTS}, random_state=0
    ),
}
AUTO = [name for name in MODELS if name.startswith("auto")]
REAL = ("musk1", "musk2", "elephant", "fox", "tiger")


def nine() -> tuple[Bags, Any]:
    """Bags of ten digits, half of them with a 9."""
    data = make_digit_bags(random_state=0)
    return data.bags, data.y


def three_and_nine(n_bags: int = 200) -> tuple[Bags, Any]:
    """Bags of ten digits, half of them with a 3 and a 9."""
    X, digit = load_digits(return_X_y=True)
    rng = np.random.RandomState(0)
    found: list[list[Any]] = [[], []]
    while min(map(len, found)) < n_bags // 2:
        rows = rng.randint(len(X), size=max(1, round(rng.normal(10, 2))))
        found[int(3 in digit[rows] and 9 in digit[rows])].append(X[rows])
    bags = [bag for each in found for bag in each[: n_bags // 2]]
    return Bags.from_arrays(bags), np.repeat([0, 1], n_bags // 2)


def real(name: str) -> tuple[Bags, Any]:
    data = load_dataset(name)
    return data.bags, np.unique(data.y, return_inverse=True)[1]


SETS: dict[str, Callable[[], tuple[Bags, Any]]] = {
    **{name: partial(real, name) for name in REAL},
    "a 9": nine,
    "a 3 and a 9": three_and_nine,
}


def audit(number: int, seed: int) -> dict[str, Any]:
    """One fit of the audit: AUC as trained and after the move."""
    trial = trials()[number]
    model = audited_model(METHODS["concepts"], {})
    rows = trial.run(model, np.random.RandomState([number, seed]), 200, 400)
    changes = {row.test: row.change[0] for row in rows[1:]}
    first = rows[0]
    return {
        "test": trial.test,
        "decoy": trial.strength,
        "before": first.as_trained[0],
        "after": first.moved[0],
        "changes": changes,
    }


def fold(name: str, repeat: int, number: int, method: str) -> dict[str, Any]:
    """One fold of a set: measures of the bags held out."""
    bags, y = SETS[name]()
    folds = make_folds(y, n_folds=5, n_repeats=repeat + 1, seed=0)
    train, test = folds[5 * repeat + number]
    model = prepared(MODELS[method]()).fit(bags[train], y[train])
    scores = bag_scores(model, bags[test])
    found = {
        "auc": roc_auc_score(y[test], scores),
        "accuracy": accuracy_score(y[test], model.predict(bags[test])),
    }
    if hasattr(model, "predict_proba"):
        found["log loss"] = log_loss(y[test], model.predict_proba(bags[test])[:, 1])
    return {"set": name, "method": method, "fold": 5 * repeat + number, **found}


def nuclei(number: int, method: str) -> dict[str, Any]:
    """One of four folds of images: areas of bags, and of the nuclei of new images."""
    data = load_dataset("real_colon_nuclei")
    y = np.unique(data.y, return_inverse=True)[1]
    train, test = make_folds(y, n_folds=4, seed=0)[number]
    model = prepared(MODELS[method]()).fit(data.bags[train], y[train])
    truth = [data.bags.split(data.instance_labels)[i] == 1 for i in test]
    return {
        "set": "colon nuclei",
        "method": method,
        "fold": number,
        "auc": roc_auc_score(y[test], bag_scores(model, data.bags[test])),
        "instances": roc_auc_score(np.hstack(truth), model.score_instances(data.bags[test])),
    }


def run(store: Path, name: str, task: Callable[..., dict[str, Any]], *arguments: Any) -> None:
    """Run a task whose result is not in the folder yet."""
    place = store / f"{name}.json"
    if place.exists():
        return
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = task(*arguments)
        except Exception as error:  # one set may be missing
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            return
    found["seconds"] = time.process_time() - start
    place.write_text(json.dumps(found))


def tasks(options: argparse.Namespace) -> Iterable[tuple[Any, ...]]:
    """The names, functions and arguments of all fits, the most wanted first."""
    if "audit" in options.parts:
        for number in range(len(trials())):
            for seed in range(options.seeds):
                yield f"audit-{number}-{seed}", audit, number, seed
    if "sets" in options.parts:
        few = [
            (method, repeat)
            for method in options.methods
            for repeat in range(min(options.repeats, 2 if method in AUTO else 99))
        ]
        for method, repeat in sorted(few, key=lambda pair: (pair[0] in AUTO, pair[1])):
            for name in options.sets:
                for number in range(5):
                    code = f"{name}-{repeat}-{number}-{method}".replace(", ", "_").replace(" ", "_")
                    yield code, fold, name, repeat, number, method
    if "nuclei" in options.parts:
        for method in options.methods:
            for number in range(4):
                if method not in AUTO:
                    yield f"nuclei-{number}-{method}", nuclei, number, method


def error_of(values: Any) -> float:
    """Standard error of a mean over repeated folds, which overlap (Nadeau and Bengio 2003)."""
    return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + 1 / 4))


def tables(store: Path) -> Iterable[str]:
    """The lines of the tables of all stored results."""
    found = [json.loads(place.read_text()) for place in sorted(store.glob("*.json"))]
    tests = [row for row in found if "test" in row]
    if tests:
        yield "| test | decoy | as trained | after the move | worst seed | seeds |"
        yield "|---|---|---|---|---|---|"
    for test in (SINGLE, TWO, FREQUENCY):
        for decoy in sorted({r["decoy"] for r in tests if r["test"] == test}, key=str):
            rows = [r for r in tests if r["test"] == test and r["decoy"] == decoy]
            before, after = ([r[key] for r in rows] for key in ("before", "after"))
            values = f"{np.mean(before):.3f} | {np.mean(after):.3f} | {min(after):.3f}"
            yield f"| {test} | {'' if decoy is None else decoy} | {values} | {len(rows)} |"
    changes = [r["changes"] for r in tests if r["changes"]]
    for name in changes[0] if changes else ():
        yield f"| {name} | | | | {max(each[name] for each in changes):.1e} | {len(changes)} |"
    for measure in ("auc", "accuracy", "log loss", "instances"):
        rows = [row for row in found if measure in row]
        sets = [n for n in (*SETS, "colon nuclei") if any(row["set"] == n for row in rows)]
        if not sets:
            continue
        yield f"\n{measure}: mean ± standard error over folds\n"
        yield f"| method | {' | '.join(sets)} | mean of the five |"
        yield "|---" * (len(sets) + 2) + "|"
        for method in MODELS:
            of = {
                n: [r[measure] for r in rows if (r["set"], r["method"]) == (n, method)]
                for n in sets
            }
            if not any(of.values()):
                continue
            cells = [
                f"{np.mean(v):.3f} ± {error_of(v):.3f}" if len(v) > 1 else "" for v in of.values()
            ]
            five = [np.mean(of[n]) for n in REAL if of.get(n)]
            mean = f"{np.mean(five):.3f}" if len(five) == len(REAL) else ""
            yield f"| {method} | {' | '.join(cells)} | {mean} |"
    for method in MODELS:
        seconds = [r["seconds"] for r in found if r.get("method") == method]
        if seconds:
            yield f"\n{method}: {np.mean(seconds):.1f} CPU seconds per fit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["audit", "sets", "nuclei"])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=20, help="of each test")
    parser.add_argument("--repeats", type=int, default=4, help="of five folds; two for auto")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which to stop")
    parser.add_argument("-o", "--output", type=Path, default=STORE)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    waiting = list(tasks(options))
    start = time.perf_counter()
    for i in range(0, len(waiting), 4 * options.jobs):  # a chunk is not interrupted
        if time.perf_counter() - start > options.limit:
            break
        chunk = waiting[i : i + 4 * options.jobs]
        Parallel(options.jobs)(delayed(run)(options.output, *task) for task in chunk)
    lines = list(tables(options.output))
    (options.output / "tables.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

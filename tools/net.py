"""The net under a refactoring: store what the package answers, and compare after it.

    python -m tools.net store                   # writes benchmarks/net
    python -m tools.net compare                 # recomputes, and lists what differs
    python -m tools.net speed --old FOLDER      # medians of five alternating runs, FOLDER: old src

The parts are answers (all estimators on small data), reproduction (each cell of the quick tables)
and leaderboard (each method on each data set). `--part` runs one of them; `--only` some of its
items. Results are stored item by item: an interrupted run is resumed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from importlib import import_module
from inspect import signature
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "benchmarks" / "net"
PACKAGES = ("annotation", "auto", "classification", "cluster", "embedding", "metric_learning")
PACKAGES += ("preprocessing", "regression", "semi_supervised")
QUICK = {"candidates": ["nsk", "mind"], "cv": 2}  # of the automatic estimators
METHODS = ("predict", "decision_function", "predict_proba", "score_instances")
METHODS += ("predict_instances", "predict_proba_instances", "transform")
LONGEST = 300  # seconds of an experiment; longer ones are not part of the net
CLOSE = 1e-6  # of the largest value; trained networks and float32 differ more

# --- answers ------------------------------------------------------------------------------------


def example(n_classes=2, seed=0):
    """Bags of two to five instances; the class shifts the first feature of one instance."""
    import numpy as np

    from bagwise import Bags

    rng = np.random.default_rng(seed)
    y = np.arange(24) % n_classes
    arrays = [rng.normal(size=(rng.integers(2, 6), 4)) for _ in y]
    for array, label in zip(arrays, y, strict=True):
        array[rng.integers(len(array)), 0] += 5 * label
    return Bags.from_arrays(arrays), y


def example_sets():
    """Training bags, labels and new bags by name: synthetic, sparse and shipped."""
    import numpy as np
    from scipy import sparse

    from bagwise import Bags, datasets

    for n_classes in (2, 3):
        (bags, y), (new, _) = example(n_classes), example(n_classes, seed=1)
        yield f"{n_classes} classes", bags, y, new
        thin = [b.with_instances(sparse.csr_array(b.instances)) for b in (bags, new)]
        yield f"{n_classes} classes, sparse", thin[0], y, thin[1]
    musk = datasets.load_musk1()
    X = musk.bags.instances.astype(np.float64)
    bags = Bags((X - X.mean(axis=0)) / X.std(axis=0), musk.bags.offsets)
    yield "musk1", bags[::2], np.asarray(musk.y)[::2], bags[1::2]


def estimators():
    """All public estimators by name."""
    from sklearn.base import BaseEstimator

    for package in PACKAGES:
        module = import_module(f"bagwise.{package}")
        for name in module.__all__:
            cls = getattr(module, name)
            if not isinstance(cls, type) or not issubclass(cls, BaseEstimator):
                continue
            if all(p.default is not p.empty for p in signature(cls).parameters.values()):
                yield name, cls


def answers(name):
    """Results of an estimator, and how often it was refused, by data set and method."""
    import numpy as np
    from sklearn.utils._testing import set_random_state

    cls = dict(estimators())[name]
    found = {}
    for data, bags, y, new in example_sets():
        model = cls(**QUICK) if name.startswith("Auto") else cls()
        set_random_state(model, 0)
        try:
            model.fit(bags, y.astype(float) if "Regressor" in name else y)
        except Exception as error:
            found[data] = type(error).__name__
            continue
        for method in METHODS:
            if hasattr(model, method):
                value = getattr(model, method)(new)
                value = getattr(value, "instances", value)
                value = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
                found[f"{data}: {method}"] = [
                    float(f"{v:.8g}") for v in value.astype(float).ravel()
                ]
    return found


def answers_differ(old, new):
    """Why two answers differ; None if they agree."""
    import numpy as np

    if isinstance(old, str) or isinstance(new, str):
        return None if old == new else f"{str(old)[:40]} became {str(new)[:40]}"
    a, b = np.array(old), np.array(new)
    if a.shape != b.shape:
        return f"{a.size} values became {b.size}"
    gap = np.abs(a - b).max(initial=0) / max(np.abs(a).max(initial=0), 1e-300)
    return f"differ by {gap:.1e} of the largest" if gap > CLOSE else None


# --- reproduction and leaderboard ---------------------------------------------------------------


def experiments():
    """All experiments, as "paper/experiment"."""
    from reproduction import list_papers, load_paper

    return [f"{paper}/{name}" for paper in list_papers() for name in load_paper(paper).experiments]


def reproduction(name):
    """The cells of the quick tables of an experiment, without times."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "reproduction", *name.split("/"), "-o", folder, "--json"]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            return {"failed": "time"}
    if not done.stdout.strip():
        return {"failed": done.stderr[-300:]}
    tables = json.loads(done.stdout)[0]["tables"]
    return {
        f"{title}, {i}, {column}": value
        for title, rows in tables.items()
        if "time" not in title
        for i, row in enumerate(rows)
        if not any("time" in str(value) for value in row.values())
        for column, value in row.items()
    }


def cells():
    """All cells of the leaderboard, as "set/method"; the fast methods first."""
    from benchmarks.leaderboard import BASELINES, SETS, SLOW

    names = ("nsk", "mind", "pdmisvm", "sil", "miles", "milboost", "orlr", "plda", "c2b")
    names += ("noisy-or", "ored-classifier", "wellsvm", "misvm-bag", "misvm-instance", "smil")
    names += ("sbmil", "citation-knn", "attention", "minet", *BASELINES, "auto")
    ordered = sorted(names, key=lambda name: name in SLOW)
    return [f"{data}/{name}" for name in ordered for sets in SETS.values() for data in sets]


def leaderboard(name):
    """Scores of a method on a data set."""
    command = [sys.executable, "-m", "benchmarks.leaderboard", "cell", *name.split("/")]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return {"failed": "time"}
    if done.returncode:
        return {"failed": done.stderr[-200:]}
    return json.loads(done.stdout.splitlines()[-1])["scores"]


def printed_differ(old, new):
    """Why two cells differ at the precision at which they are printed."""
    if isinstance(old, float) and isinstance(new, float):
        return None if abs(old - new) < 5e-4 else f"{old:.4g} became {new:.4g}"
    if isinstance(old, list) and isinstance(new, list):
        old, new = statistics.mean(old), statistics.mean(new)
        return None if abs(old - new) < 5e-4 else f"mean {old:.4f} became {new:.4f}"
    return None if old == new else f"{old} became {new}"


PARTS = {
    "answers": (lambda: [name for name, _ in estimators()], answers, answers_differ),
    "reproduction": (experiments, reproduction, printed_differ),
    "leaderboard": (cells, leaderboard, printed_differ),
}

# --- speed --------------------------------------------------------------------------------------

SPEEDS = {
    "pdmisvm, 20,000 bags": "PrimalDualMISVM(max_iter=20, random_state=0).fit(*bags(20000, 50))",
    "orlr, 300 bags": "ORedLogisticRegression().fit(*sets(300))",
    "mimlca, 1,000 bags": "MIMLCA().fit(*sets(1000))",
    "csp, 100 bags": "BagConstrainedSpectralClustering(4, random_state=0).fit(*sets(100))",
    "wellsvm, 60 bags": "WellMISVM(random_state=0).fit(*bags(60, 10))",
    "wellsvm, 400 rows": "WellSVMClassifier(random_state=0).fit(*rows(400))",
    "misvm-bag, 60 bags": "BagMarginSVM(random_state=0).fit(*bags(60, 10))",
    "nsk, 200 bags": "SetKernelSVM().fit(*bags(200, 10))",
    "milboost, 100 bags": "MILBoost().fit(*bags(100, 10))",
    "noisy-or, 200 bags": "NoisyOrLogisticRegression().fit(*sets(200))",
    "auto, 80 bags": "AutoBagClassifier(random_state=0).fit(*bags(80, 10))",
    "predict, 1 bag": "[model.predict(one) for _ in range(200)]",
}
TIMED = """
import sys, time, warnings, numpy as np
warnings.simplefilter("ignore")
from bagwise import datasets
from bagwise.annotation import *
from bagwise.auto import *
from bagwise.classification import *
from bagwise.cluster import *
from bagwise.metric_learning import *
from bagwise.semi_supervised import *
def bags(n, d): data = datasets.make_bags(n, d, random_state=0); return data.bags, data.y
def sets(n):
    data = datasets.make_bags(n, 20, n_classes=4, bag_size=(4, 8), random_state=0)
    return data.bags, np.eye(4, dtype=int)[data.y]
def rows(n):
    X = np.random.default_rng(0).normal(size=(n, 20)); y = (X[:, 0] > 0).astype(int); y[40:] = -1
    return X, y
model = SetKernelSVM().fit(*bags(40, 10)); one = bags(40, 10)[0][:1]
for line in sys.argv[1:]:
    eval(line)
    start = time.perf_counter(); eval(line); print(time.perf_counter() - start)
"""


def speed(old, rounds):
    """Print the medians of alternating runs of the old and of this source."""
    times = {name: ([], []) for name in SPEEDS}
    for _ in range(rounds):
        for side, source in enumerate((old, ROOT / "src")):
            command = [sys.executable, "-c", TIMED, *SPEEDS.values()]
            settings = os.environ | {"PYTHONPATH": str(source)}
            done = subprocess.run(command, env=settings, check=True, capture_output=True, text=True)
            for name, value in zip(SPEEDS, done.stdout.split(), strict=True):
                times[name][side].append(float(value))
    for name, (before, after) in times.items():
        a, b = statistics.median(before), statistics.median(after)
        print(f"{name:24} {a:8.3f} s {b:8.3f} s {b / a:6.2f} x")


# --- command ------------------------------------------------------------------------------------


def main():
    """Store, compare or time."""
    parser = argparse.ArgumentParser(prog="python -m tools.net", description=__doc__)
    parser.add_argument("action", choices=["store", "compare", "speed"])
    parser.add_argument("--part", choices=[*PARTS], action="append")
    parser.add_argument("--only", nargs="+", default=[""], help="items with this in their names")
    parser.add_argument("--old", type=Path, help="the old folder src")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.action == "speed":
        speed(options.old, options.rounds)
        return 0
    n_different = 0
    for part in options.part or PARTS:
        names, compute, differ = PARTS[part]
        path = KEPT / f"{part}.json"
        stored = json.loads(path.read_text()) if path.exists() else {}
        wanted = names() if options.action == "store" else [*stored]
        for name in [n for n in wanted if any(word in n for word in options.only)]:
            if options.action == "store":
                if name not in stored:
                    stored[name] = compute(name)
                    lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in stored.items())
                    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
                    print(part, name, flush=True)
                continue
            try:
                found = compute(name)
            except KeyError:
                print(f"{part} {name}: gone", flush=True)
                continue
            if "failed" in found and "failed" not in stored[name]:
                print(f"{part} {name}: failed, {found['failed']}", flush=True)
                n_different += 1
                continue
            for key in sorted(stored[name].keys() | found.keys()):
                if reason := differ(stored[name].get(key, "nothing"), found.get(key, "nothing")):
                    print(f"{part} {name}, {key}: {reason}", flush=True)
                    n_different += 1
    print(f"{n_different} differences")
    return int(n_different > 0)


if __name__ == "__main__":
    sys.exit(main())

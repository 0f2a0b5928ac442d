"""Check the claims of README: `make review-kit`, or `python -m benchmarks.review [NAME ...]`.

Prints each claim in the words of its page, what was claimed, what this machine measured, a verdict
and the seconds. Each check is a process with one thread, two at a time, and stops after `--limit`
seconds. Checks that would take hours measure a part, which is stated; "within" is how much a number
may differ. Other packages are measured in the same run; those that are not installed are left out.
"""

import argparse
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parent.parent
AGAIN = ("Musk1", "Fox", "synthetic")  # sets of the leaderboard that are run again
Numbers = dict[str, float]


class Check(NamedTuple):
    """A claim: words of a page, what is claimed by name, and a function that measures it.

    What is measured and not claimed is only shown.
    """

    words: str
    claimed: Numbers
    measure: Callable[[], Numbers]
    within: float = 0.005
    part: str = ""
    page: str = "README.md"
    at_least: bool = False


def leaderboard() -> Numbers:
    """Means of stored predictions, and by how much AUC differs on sets that are run again."""
    from .leaderboard import store
    from .leaderboard.cells import cell
    from .leaderboard.tables import arranged, means_of

    means, found = means_of(arranged(store.results(store.STORED))["labels"], "AUC"), {}
    for method in ("pooled-trees", "attention", "auto"):
        of = means[method]
        found |= {method: of["mean"], f"{method}, real": of["mean, real"]}
        gaps = [np.mean(cell(name, method)["scores"]["AUC"]) - of[name] for name in AGAIN]
        found[f"{method}, gap of a new run"] = float(np.max(np.abs(gaps)))
    return found


def stored() -> Numbers:
    """The stored predictions: faults of the files, and the mean AUC of NSK computed from them."""
    from .leaderboard import store
    from .leaderboard.tables import arranged, kept_results, means_of

    found = arranged(store.results(store.STORED))["labels"]
    new, old = means_of(found, "AUC"), kept_results()["labels"]["measures"]["AUC"]
    gaps = [abs(new["nsk"][name] - old["nsk"][name]) for name in old["nsk"]]
    return {"faults of files": len(store.faults()), "largest gap of NSK": max(gaps)}


def numbers() -> Numbers:
    """R2 of three regressors on the targets of digit bags."""
    from sklearn.model_selection import KFold, cross_val_score

    from .regression import MODELS, data_sets

    cv, scores = KFold(5, shuffle=True, random_state=0), {}
    for name, bags, y, _ in data_sets():
        if name.startswith("digits"):
            for model in ("auto", "set kernel", "pooled trees"):
                r2 = cross_val_score(MODELS[model], bags, y, cv=cv, scoring="r2")
                scores.setdefault(model, []).append(r2.mean())
    return {model: float(np.mean(values)) for model, values in scores.items()}


def times() -> Numbers:
    """C of the survival ensemble and of scikit-survival's forest on the same draws."""
    from .survival import KINDS, of_times

    draws = [of_times(kind, 0) for kind in range(len(KINDS))]
    names = {"auto": "AutoBagSurvival", "forest of scikit-survival": "pooled-trees"}
    return {what: float(np.mean([draw[name] for draw in draws])) for what, name in names.items()}


def bounds() -> Numbers:
    """MAE with censored numbers, without these bags, with the bound as number."""
    from .survival import dopamine, of_numbers

    ways = ("censored", "left out", "bound as number")
    found = of_numbers(dopamine, "set kernel", 0)
    return {way: float(error) for way, (_, error) in zip(ways, found, strict=True)}


def grades() -> Numbers:
    """MAE of pooled trees and the automatic choice, with and without an order."""
    from .survival import drawn_grades, of_grades

    found = {}
    for name, n_draws in (("auto", 3), ("pooled trees", 10)):
        errors = np.mean([of_grades(drawn_grades, name, seed) for seed in range(n_draws)], axis=0)
        found |= {f"{name}, classes": errors[0, 1], f"{name}, grades": errors[1, 1]}
    return found


def reproduced(paper: str, experiment: str, metric: str, *only: str) -> Numbers:
    """What a reproduction prints of a metric, by method."""
    words = [paper, experiment, *(word for name in only for word in ("--only", name))]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "reproduction", *words, "-o", folder, "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (document,) = json.loads(done.stdout)
    rows = [row for rows in document["tables"].values() for row in rows]
    return {row["method"]: number_of(row["ours"]) for row in rows if row["metric"] == metric}


def number_of(text: str) -> float:
    """The number at the beginning of a cell, as in "0.854 +- 0.010"."""
    return float(text.split()[0])


def audited(*names: str) -> Iterator[tuple[str, object]]:
    """The audits of methods, with the seeds of the page."""
    from bagwise.assumptions import check_assumptions

    from .audit import FEWER, models

    for name in names:
        yield name, check_assumptions(models()[name](), seeds=FEWER.get(name, 20))


def one_decides() -> Numbers:
    """AUC after adding instances of negative bags, and before."""
    found = {}
    for name, check in audited("misvm-bag", "nsk", "pooled-trees", "auto", "auto, standard"):
        row = check.worst("single concept")
        found |= {f"{name}, before": np.mean(row.as_trained), f"{name}, after": np.mean(row.moved)}
    return found


def two_kinds() -> Numbers:
    """The lowest AUC of the three tests after the clue was moved."""
    tests = ("single concept", "two concepts", "false frequency")
    ((_, check),) = audited("concepts")
    return {"concepts": min(float(np.mean(check.worst(test).moved)) for test in tests)}


def speed() -> Numbers:
    """How much faster an E-step is than the algorithm of the paper, in the same run."""
    from .orlr import quadratic

    (row,) = quadratic()
    return {"times faster": float(np.median(row.other) / np.median(row.ours))}


def safe() -> Numbers:
    """A pickle and a skops file that name code of others: whether it ran, and was refused."""
    from sklearn.preprocessing import FunctionTransformer
    from skops.io import dump

    from bagwise.exceptions import BagwiseError
    from bagwise.persistence import load_model

    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        mark, files = Path(folder) / "ran", [Path(folder) / f"{k}.skops" for k in range(2)]
        files[0].write_bytes(pickle.dumps(_Runs(str(mark))))
        dump(FunctionTransformer(shutil.rmtree), files[1])
        for file in files:
            try:
                load_model(file)
            except BagwiseError:
                refused += 1
        return {"code ran": float(mark.exists()), "files refused": refused}


class _Runs:
    """An object whose pickle writes a file when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (Path(self.path),)


def warned() -> Numbers:
    """Evaluations of a method on labels by chance: the share of them with the warning."""
    from bagwise.datasets import make_bags
    from bagwise.io import write_bags

    said = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(4):
            data = make_bags(60, 5, random_state=seed)
            y, file = (
                np.random.default_rng(seed).permutation(data.y),
                Path(folder) / f"noise{seed}.npz",
            )
            write_bags(file, data.bags, y=y)
            command = [sys.executable, "-m", "bagwise", "evaluate", file, "-m", "nsk"]
            done = subprocess.run(command, capture_output=True, text=True)
            said.append("not significantly better" in done.stdout + done.stderr)
    return {"warned": float(np.mean(said))}


def peers() -> Numbers:
    """AUC on Musk1 of other packages, and of ours, in the same folds."""
    from bagwise.datasets import load_dataset

    from .peers import compared, measured

    found, data = {}, load_dataset("musk1")
    for name, make in compared().items():
        with suppress(Exception):  # a package that is installed and does not run is left out
            found[name] = measured(make, data)[1]
    return found


def coverage() -> Numbers:
    """Coverage of sets with a target of .90, and their size as a multiple of MAPIE's."""
    from .coverage import one_draw, table

    draws = [one_draw("2 classes, 100 bags", k, True) for k in range(10)]
    rows = table("2 classes, 100 bags", draws)
    found = {}
    for _, name, mean, _, _, ratio in rows:
        found |= {f"{name}: coverage": float(np.mean(mean)), f"{name}: size / MAPIE": ratio}
    return found


CHECKS = {
    "stored": Check(
        "`python -m benchmarks.leaderboard`",
        {"faults of files": 0.0, "largest gap of NSK": 0.0},
        stored,
    ),
    "safe": Check(
        "Loading a model file runs no code.", {"code ran": 0, "files refused": 2}, safe, 0.0
    ),
    "warned": Check(
        "methods that are not significantly better",
        {"warned": 1.0},
        warned,
        0.25,
        "4 sets of random labels",
    ),
    "speed": Check(
        "inference of ORLR in a bag of 1,000 instances and 8 labels",
        {"times faster": 300.0},
        speed,
        part="at least the goal; 640 on a quiet machine",
        at_least=True,
    ),
    "two kinds": Check(
        "lowest AUC of the three tests of Raff and Holt (2023)",
        {"concepts": 0.99},
        two_kinds,
        0.01,
    ),
    "one decides": Check(
        "AUC before → after adding to positive test bags",
        {
            "misvm-bag, before": 0.99,
            "misvm-bag, after": 0.99,
            "auto, standard, after": 0.99,
            "nsk, before": 1.0,
            "nsk, after": 0.0,
            "pooled-trees, after": 0.0,
            "auto, after": 0.0,
        },
        one_decides,
        0.01,
    ),
    "groups": Check(
        "purity on Letter-Carroll, posterior constraints",
        {"posteriors of ORLR": 0.932, "CSP": 0.486, "SP": 0.440},
        partial(reproduced, "csp", "purity", "class purity", "carroll", "sp", "csp", "posterior"),
        0.03,
        "one of five seeds",
    ),
    "distance": Check(
        "share of instances assigned their true label, MSRC v2, PLDA",
        {
            "by likelihood, random effects": 0.854,
            "MIMLCA": 0.768,
            "the same clustering, Euclidean": 0.810,
        },
        partial(
            reproduced, "mimlca", "naming", "right of those assigned",
            "msrc", "plda", "mimlca", "kmeans",
        ),
    ),
    "instances": Check(
        "accuracy of ORLR on new photos (MSRC v2)",
        {"M-LR, RBF kernel": 0.651, "S-LR": 0.600},
        partial(
            reproduced, "orlr", "kernel-inductive", "accuracy", "msrcv2", "orlr-rbf", "s-lr"
        ),
        0.03,
        "MSRC v2, one of three repetitions",
    ),
    "bounds": Check(
        "set kernel, censored",
        {"censored": 0.628, "left out": 0.839, "bound as number": 0.683},
        bounds,
        0.03,
        "MAE, dopamine, one of three seeds",
        "docs/bounds.md",
    ),
    "numbers": Check(
        "mean R2 of `AutoBagRegressor` on 9 targets",
        {"auto": 0.560, "set kernel": 0.541, "pooled trees": 0.154},
        numbers,
        0.01,
        "the three targets of digits, whose means are those of docs/regression.md",
    ),
    "times": Check(
        "mean C of `AutoBagSurvival` on 3 kinds of drawn bags",
        {"auto": 0.706, "forest of scikit-survival": 0.673},
        times,
        0.04,
        "one of ten draws",
    ),
    "grades": Check(
        "`AutoBagClassifier`, grades",
        {"auto, grades": 0.414, "auto, classes": 0.518},
        grades,
        0.12,
        "MAE, three of ten draws",
        "docs/grades.md",
    ),
    "leaderboard": Check(
        "`AutoBagClassifier` on 8 sets (on the 5 real ones)",
        {
            "auto": 0.909,
            "auto, real": 0.922,
            "attention": 0.884,
            "attention, real": 0.882,
            "pooled-trees": 0.840,
            "pooled-trees, real": 0.913,
            "auto, gap of a new run": 0.0,
            "attention, gap of a new run": 0.0,
            "pooled-trees, gap of a new run": 0.0,
        },
        leaderboard,
        0.01,
        f"stored predictions; run again on {', '.join(AGAIN)}",
    ),
    "peers": Check("[other packages](docs/comparison.md)", {}, peers, part="Musk1, AUC"),
    "coverage": Check(
        "[All\nresults](docs/evidence.md)", {"by=None: coverage": 0.90}, coverage, 0.05,
        "ten draws, beside MAPIE",
    ),
}  # fmt: skip
NOT_CHECKED = """Not checked here, because they take hours: the real data of the fields (`python -m
benchmarks.fields`), and the tables of the papers (`make reproduce`)."""


def main() -> None:
    """Run the checks, two at a time, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.review",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHECKS))
    parser.add_argument("--limit", type=float, default=1500, help="seconds of a check")
    parser.add_argument("--jobs", type=int, default=2, help="checks at a time")
    parser.add_argument("--one", choices=CHECKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.names) - CHECKS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.one:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(json.dumps(CHECKS[options.one].measure(), default=float))
        return
    start = time.perf_counter()
    print("| claim | what | claimed | measured | verdict | seconds |\n|---|---|---:|---:|---|---:|")
    # The longest are last in the list, and started first.
    names = [name for name in reversed(CHECKS) if not options.names or name in options.names]
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(run, name, options.limit) for name in names]
        found = [done.result() for done in as_completed(running) if print_rows(*done.result())]
    differs = sum("differs" in verdicts for verdicts in (verdicts_of(*each) for each in found))
    seconds = time.perf_counter() - start
    print(f"\n{len(found)} claims, {differs} differ; {seconds:.0f} s. {NOT_CHECKED}")
    sys.exit(bool(differs))


def run(name: str, limit: float) -> tuple[str, Numbers | str, float]:
    """The numbers of a check, or why there are none; and its seconds."""
    threads = {f"{kind}_NUM_THREADS": "1" for kind in ("OMP", "OPENBLAS", "NUMBA", "MKL")}
    command, start = [sys.executable, "-m", "benchmarks.review", "--one", name], time.perf_counter()
    found: Numbers | str
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | threads, capture_output=True, text=True,
            timeout=limit,
        )  # fmt: skip
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else last[0]
    except subprocess.TimeoutExpired:
        found = f"more than {limit:.0f} s"
    return name, found, time.perf_counter() - start


def verdicts_of(name: str, found: Numbers | str, seconds: float) -> list[str]:
    """A verdict for each number of a check."""
    if isinstance(found, str):
        return ["not run"]
    check = CHECKS[name]
    return [
        "shown"
        if what not in check.claimed
        else "as claimed"
        if abs(value - check.claimed[what]) <= check.within
        or (check.at_least and value > check.claimed[what])
        else "differs"
        for what, value in found.items()
    ]


def print_rows(name: str, found: Numbers | str, seconds: float) -> bool:
    """Print the rows of a check."""
    check, words = CHECKS[name], " ".join(CHECKS[name].words.split())
    part = f" ({check.part})" if check.part else ""
    if isinstance(found, str):
        print(f"| {words}{part} | | | | not run: {found} | {seconds:.0f} |", flush=True)
        return True
    rows = zip(found.items(), verdicts_of(name, found, seconds), strict=True)
    for k, ((what, value), verdict) in enumerate(rows):
        claimed = f"{check.claimed[what]:.3g}" if what in check.claimed else ""
        head, last = (f"{words}{part}", f"{seconds:.0f}") if k == 0 else ("", "")
        print(f"| {head} | {what} | {claimed} | {value:.3g} | {verdict} | {last} |", flush=True)
    return True


if __name__ == "__main__":
    main()

"""All methods, including the automatic one, on all data sets: `python -m benchmarks.leaderboard`.

Writes docs/leaderboard.md and its figures. Each method has its defaults and the same folds;
instances are standardised inside the folds, and the automatic method chooses inside them. Each pair
of method and data set runs in its own process, and its result is stored in results/leaderboard: an
interrupted run can be resumed, and `--again` recomputes all. Results copied there from another
machine are shown as well, also for methods that cannot run here.
"""

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise import Bags
from bagwise.auto._methods import METHODS, PUBLISHED, find_method, make_model
from bagwise.datasets import make_bags, make_digit_bags
from bagwise.displays import RankDisplay
from bagwise.evaluate import compare, ranks
from bagwise.evaluate._baselines import baselines
from bagwise.evaluate._comparison import Comparison, Evaluation
from bagwise.evaluate._evaluation import make_folds
from bagwise.exceptions import BagwiseError, DataNotFoundError
from reproduction.bag_data import load_dataset

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "results" / "leaderboard"
PAGE = ROOT / "docs" / "leaderboard.md"
PICTURES = ROOT / "docs" / "images"
BUDGET = 60.0  # seconds of the automatic method
ROWS = METHODS | {name: m for name, m in PUBLISHED.items() if m.command is None}
BASELINES = {"pooled-trees": "pooled trees", "majority": "majority"}  # as `baselines` has them
SYNTHETIC = ("digits", "synthetic", "synthetic, 3 classes")  # digits: random bags of real images
SLOW = ("auto", "dd", "emdd", "m3miml", "attention", "minet", "misvm-instance", "misvm-bag")
LABELS = ("AUC", "accuracy", "balanced accuracy", "log loss")
LABEL_SETS = ("average precision", "one-error", "log loss")

HEADER = """# Leaderboard: all methods on 13 data sets

Written by `python -m benchmarks.leaderboard`: {folds}-fold cross-validation{times}, the same folds
for all methods, instances standardised inside the folds. Every method has its defaults. `auto` is
nested: it compares, calibrates and weights its methods inside the training part of each fold, in at
most {budget:.0f} s per fold. Ranks: 1 is the best.

Defaults were chosen on some of these sets, and the scores there are optimistic: Musk1, Elephant,
digit bags and synthetic bags for `auto` and most methods, Fox for `milboost` and `attention`, which
are also candidates of `auto` ([all sets](decisions.md#classification)). The benchmark was run four
times; [decisions](decisions.md#evaluation) lists what changed in between. `majority` knows only how
often each label occurs, `pooled-trees` are the plain baseline: trees on the mean, extremes and
spread of each feature.

Seconds are the time of fitting and predicting in all folds, on one thread{cores}. The process first
fits the method on a few synthetic bags, so that compilation is not counted. `NAME@published` is the
system of a [paper](papers.md) as printed, with the defaults of its call.{note}
"""

DASHES = """A dash marks a method that took more than {limit:.0f} s or rejected the bags; the last
section lists them.
"""

CHOSEN_ON_LABEL_SETS = """Defaults were chosen on some of these sets, and the scores there are
optimistic: MSRC v2 and Letter-Carroll for `plda` and the kernel of ORLR (in `auto` and
`ored-classifier`), MSRC v2 for `c2b`, HJA birds and Letter-Frost for `ranklosssim`, Letter-Carroll
for `pooled-trees`.
"""


def synthetic(**options):
    """A loader of synthetic bags of the same difficulty as those on which defaults were chosen."""
    shape = {"separation": 3.0, "noise": 2.0, "bag_size": (3, 8), "random_state": 0}
    return lambda: make_bags(120, 10, **(shape | options))


def brown_creeper():
    """Recordings of birds, positive if the most frequent species sings."""
    data = load_dataset("hja_birdsong")
    return data.bags, data.label_sets[:, data.label_sets.sum(axis=0).argmax()]


def labels_of(load: Callable) -> Callable:
    """The bags and labels, or label sets, of a data set."""

    def loaded():
        data = load()
        return data.bags, data.label_sets if "label_sets" in data else data.y

    return loaded


def listed(name: str) -> Callable:
    """A data set of `bagwise datasets`."""
    return labels_of(lambda: load_dataset(name))


SETS: dict[str, dict[str, Callable]] = {
    "labels": {
        "Musk1": listed("musk1"),
        "Musk2": listed("musk2"),
        "Elephant": listed("elephant"),
        "Fox": listed("fox"),
        "birds": brown_creeper,
        "digits": labels_of(lambda: make_digit_bags(random_state=0)),
        "synthetic": labels_of(synthetic()),
        "synthetic, 3 classes": labels_of(synthetic(n_classes=3)),
    },
    "label sets": {
        "Letter-Carroll": listed("letter_carroll"),
        "Letter-Frost": listed("letter_frost"),
        "MSRC v2": listed("msrcv2"),
        "HJA birds": listed("hja_birdsong"),
        "MLSP birds": listed("miml_birds"),
    },
}


def main() -> None:
    """Compute the missing results, then write the page."""
    options = parsed()
    if options.cell:
        print(json.dumps(cell(*options.cell, options.folds, options.repeats)))
        return
    results = run_all(options)
    if options.print:
        for kind, found in results.items():
            print("\n".join(tables(kind, found)))
        return
    PAGE.write_text(page(results, options), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaderboard", description=__doc__)
    parser.add_argument("--methods", nargs="+", help="these only; also module:Class")
    parser.add_argument("--sets", nargs="+", help="these sets only")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1, help="how often folds are drawn anew")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a method on a set")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--note", default="", help="a sentence for the head of the page")
    parser.add_argument("--again", action="store_true", help="forget the results that are there")
    parser.add_argument("--print", action="store_true", help="print the tables, write no page")
    parser.add_argument("--cell", nargs=2, metavar=("SET", "METHOD"), help=argparse.SUPPRESS)
    return parser.parse_args()


def cell(data_set: str, method: str, folds: int, repeats: int) -> dict:
    """Evaluate a method on a set."""
    bags, y = next(sets[data_set] for sets in SETS.values() if data_set in sets)()
    model = made(method, bags, sets=np.ndim(y) == 2)
    splits = make_folds(np.asarray(y), n_folds=folds, n_repeats=repeats)
    warm(model, sets=np.ndim(y) == 2)
    (found,) = compare({method: model}, bags, y, cv=splits)
    ratio = float(np.mean([len(test) / len(train) for train, test in splits]))
    return {"scores": dict(found.scores), "seconds": found.seconds, "ratio": ratio}


def warm(model: Any, *, sets: bool) -> None:
    """Fit a method on a few synthetic bags, so that its imports and compilation are not timed."""
    data = make_bags(24, 4, n_classes=3 if sets else 2, random_state=0)
    y = np.eye(3, dtype=int)[data.y] if sets else data.y
    with warnings.catch_warnings(), suppress(BagwiseError):
        warnings.simplefilter("ignore")
        clone(model).fit(data.bags, y).predict(data.bags)


def made(method: str, bags: Bags, *, sets: bool) -> Any:
    """A method with its defaults, or a baseline."""
    if method in BASELINES:
        (model,) = baselines([BASELINES[method]], bags=bags, label_sets=sets).values()
        return model
    chosen = find_method(method)
    settings = {"random_state": 0} if "random_state" in chosen.parameters else {}
    if method == "auto":
        settings["time_budget"] = BUDGET
    return make_model(chosen, settings, scale=True, sparse=bags.is_sparse)


def run_all(options: argparse.Namespace) -> dict[str, dict]:
    """The results of each kind and set by method: that of a cell, or {"failed": reason}."""
    jobs = [
        (kind, name, method)
        for kind, sets in SETS.items()
        for name in sets
        for method in methods_for(kind, name, options)
        if options.sets is None or name in options.sets
    ]
    # The longest first, so that the last process does not run alone.
    jobs.sort(key=lambda job: SLOW.index(job[2]) if job[2] in SLOW else len(SLOW))
    with ThreadPoolExecutor(options.jobs) as pool:
        done = pool.map(lambda job: run(*job[1:], options), jobs)
        found = dict(zip(jobs, done, strict=True))
    results: dict[str, dict] = {}
    for kind, sets in SETS.items():
        ran = {job[2] for job in jobs if job[0] == kind}
        own = [method for method in options.methods or () if ":" in method]
        order = [method for method in (*ROWS, *own, *BASELINES) if method in ran]
        results[kind] = {
            name: {
                method: found.get((kind, name, method), {"failed": "not run"}) for method in order
            }
            for name in sets
            if any(job[:2] == (kind, name) for job in jobs)
        }
    return results


def methods_for(kind: str, data_set: str, options: argparse.Namespace) -> list[str]:
    """The methods that can run on a set here, or have a stored result."""
    able = [
        name
        for name, method in ROWS.items()
        if (method.available or kept_file(data_set, name, options).exists())
        and (method.label_sets or kind == "labels")
    ]
    able += [name for name in options.methods or () if ":" in name]  # package.module:Class
    return [
        name
        for name in dict.fromkeys([*able, *BASELINES])
        if options.methods is None or name in options.methods
    ]


def kept_file(data_set: str, method: str, options: argparse.Namespace) -> Path:
    """The file that stores the result of a cell."""
    return KEPT / f"{options.folds}x{options.repeats}" / f"{data_set} {method}.json"


def run(data_set: str, method: str, options: argparse.Namespace) -> dict:
    """The result of a cell, stored or computed in a new process."""
    kept = kept_file(data_set, method, options)
    if kept.exists() and not options.again:
        return json.loads(kept.read_text())
    words = ["--folds", str(options.folds), "--repeats", str(options.repeats)]
    command = [sys.executable, "-m", "benchmarks.leaderboard", "--cell", data_set, method, *words]
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "NUMBA", "MKL")}
    surroundings = os.environ | (threads if options.jobs > 1 else {})
    budget = 1.5 * BUDGET * options.folds * options.repeats if method == "auto" else 0.0
    limit = max(options.limit, budget)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=surroundings, capture_output=True, text=True,
            timeout=limit,
        )  # fmt: skip
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        result = json.loads(done.stdout) if done.returncode == 0 else {"failed": last[0]}
    except subprocess.TimeoutExpired:
        result = {"failed": f"more than {limit:.0f} s"}
    print(f"{data_set}: {method}: {result.get('failed', 'done')}", file=sys.stderr, flush=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(result))
    return result


def page(results: dict, options: argparse.Namespace) -> str:
    """The text of the page; writes its figures."""
    times = "" if options.repeats == 1 else f", drawn {options.repeats} times"
    cores = "" if options.jobs == 1 else f"; {options.jobs} methods ran at a time"
    lines = [
        HEADER.format(
            folds=options.folds,
            times=times,
            budget=BUDGET,
            cores=cores,
            note=options.note and f"\n{options.note}",
        )
    ]
    absent, failed = without_scores(results)
    if failed:
        lines += [DASHES.format(limit=options.limit)]
    for kind, found in results.items():
        lines += [f"## {'One label per bag' if kind == 'labels' else 'Label sets'}", ""]
        lines += [] if kind == "labels" else [CHOSEN_ON_LABEL_SETS]
        lines += against_trees(kind, found)
        lines += picture(kind, found)
        lines += tables(kind, found)
    if absent or failed:
        lines += ["## What is missing", "", *absent, *failed]
    return "\n".join(lines).rstrip("\n") + "\n"


def without_scores(results: dict) -> tuple[list[str], list[str]]:
    """Methods that are in no table, and those with a dash in one, each with the reason."""
    shown = {m for found in results.values() for by_method in found.values() for m in by_method}
    absent = [
        f"- {method.name}: needs {method.needs}"
        for method in METHODS.values()
        if not method.available and method.name not in shown
    ]
    failed = [
        f"- {name}, {method}: {result['failed']}"
        for found in results.values()
        for name, by_method in found.items()
        for method, result in by_method.items()
        if "failed" in result
    ]
    return absent, failed


def tables(kind: str, found: dict) -> list[str]:
    """One table per measure: a row per method, the best mean first, and a column per set."""
    lines: list[str] = []
    if not found:
        return lines
    for measure in (*(LABELS if kind == "labels" else LABEL_SETS), "seconds"):
        low = measure in ("log loss", "one-error", "seconds")
        rows = {
            method: [value_of(by_method[method], measure) for by_method in found.values()]
            for method in next(iter(found.values()), {})
        }
        rows = {method: values for method, values in rows.items() if not np.isnan(values).all()}
        if not rows:
            continue
        best = np.nanmax([[-v if low else v for v in values] for values in rows.values()], axis=0)
        order = sorted(rows, key=lambda method: place(rows[method], low=low))
        lines += [f"### {measure[0].upper()}{measure[1:]}", ""]
        real = [i for i, name in enumerate(found) if name not in SYNTHETIC]
        means = ["mean", *(["mean, real"] if len(real) < len(found) else [])]
        lines += [f"| {' | '.join(['method', *found, *means])} |"]
        lines += ["|---|" + "---:|" * (len(found) + len(means))]
        for method in order:
            cells = [
                shown(value, measure, bold=(-value if low else value) >= top)
                for value, top in zip(rows[method], best, strict=True)
            ]
            values = np.array(rows[method])
            parts = [values, values[real]][: len(means)]
            cells += [shown(part.mean(), measure) for part in parts]
            lines.append(f"| {' | '.join([method, *cells])} |")
        lines.append("")
    return lines


def against_trees(kind: str, found: dict) -> list[str]:
    """Gain of the automatic method over trees on pooled statistics, by data set."""
    measures = ("AUC", "accuracy") if kind == "labels" else ("average precision", "one-error")
    lines = [
        "`auto` minus pooled trees in the same folds, with the interval of the corrected resampled "
        "t-test; positive is better:",
        "",
        f"| set | {' | '.join(measures)} |",
        "|---|---:|---:|",
    ]
    for name, by_method in found.items():
        if any("failed" in by_method.get(m, {"failed": ""}) for m in ("auto", "pooled-trees")):
            continue
        two = [evaluation(m, by_method[m]) for m in ("pooled-trees", "auto")]
        comparison = Comparison(two, by_method["auto"]["ratio"])
        cells = []
        for measure in measures:
            (difference,) = comparison.differences(measure)
            cells.append(
                f"{difference.mean:+.3f} ({difference.lower:+.3f} to {difference.upper:+.3f})"
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def picture(kind: str, found: dict) -> list[str]:
    """The mean ranks of the methods that have a score on every set."""
    measure = "AUC" if kind == "labels" else "average precision"
    scores = {
        name: {method: value_of(result, measure) for method, result in by_method.items()}
        for name, by_method in found.items()
    }
    whole = [m for m in next(iter(scores.values())) if all(s[m] == s[m] for s in scores.values())]
    if len(whole) < 2:
        return []
    found_ranks = ranks({name: {m: values[m] for m in whole} for name, values in scores.items()})
    display = RankDisplay.from_ranks(found_ranks)
    file = PICTURES / f"ranks-{kind.replace(' ', '-')}.svg"
    display.figure_.savefig(file, bbox_inches="tight", metadata={"Date": None})
    text = f"Mean ranks by {measure} on {len(scores)} sets, with groups that cannot be told apart"
    return [f"![{text}](images/{file.name})", ""]


def evaluation(method: str, result: dict) -> Evaluation:
    """A stored result in the form that `compare` returns."""
    return Evaluation(method, result["scores"], result["seconds"])


def value_of(result: dict, measure: str) -> float:
    """The mean of a measure over the folds, or all seconds; NaN if missing."""
    if "failed" in result:
        return float("nan")
    if measure == "seconds":
        return float(np.sum(result["seconds"]))
    mean = evaluation("", result).mean(measure)
    return float("nan") if mean is None else mean


def place(values: list[float], *, low: bool) -> tuple:
    """Sort key of a method in a table: by its mean; methods with missing scores come last."""
    known = np.array(values)[~np.isnan(values)]
    return len(known) < len(values), known.mean() if low else -known.mean()


def shown(value: float, measure: str, *, bold: bool = False) -> str:
    """A number formatted for the tables."""
    if np.isnan(value):
        return "-"
    text = f"{value:.1f}" if measure == "seconds" else f"{value:.3f}".lstrip("0")
    return f"**{text}**" if bold else text


if __name__ == "__main__":
    try:
        main()
    except DataNotFoundError as error:
        sys.exit(f"{error}")

"""All methods, including the automatic one, on all data sets: `python -m benchmarks.leaderboard`.

Each method has its defaults and the same folds; instances are standardised inside the folds, and
the automatic method chooses inside them. Each pair of method and data set runs in its own process,
and its result is stored in results/leaderboard: an interrupted run can be resumed, and `--again`
recomputes all. Results copied there from another machine are shown as well, also for methods that
cannot run here. At the end the means over folds are written to benchmarks/kept/leaderboard.json,
and from there into the tables of docs/leaderboard.md; its figures are drawn.
"""

import argparse
import json
import os
import re
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
STORE = ROOT / "results" / "leaderboard"
KEPT = Path(__file__).parent / "kept" / "leaderboard.json"
PAGE = ROOT / "docs" / "leaderboard.md"
PLACE = re.compile(r"(<!-- leaderboard: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
PICTURES = ROOT / "docs" / "images"
BUDGET = 60.0  # seconds of the automatic method
ROWS = METHODS | {name: m for name, m in PUBLISHED.items() if m.command is None}
BASELINES = {"pooled-trees": "pooled trees", "majority": "majority"}  # as `baselines` has them
SYNTHETIC = ("digits", "synthetic", "synthetic, 3 classes")  # digits: random bags of real images
SLOW = ("auto", "dd", "emdd", "m3miml", "attention", "minet", "misvm-instance", "misvm-bag")
MEASURES = {
    "labels": ("AUC", "accuracy", "balanced accuracy", "log loss", "seconds"),
    "label sets": ("average precision", "one-error", "log loss", "seconds"),
}
LOW = ("log loss", "one-error", "seconds")  # lower is better
MEANS = ("mean", "mean, real")


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
    kept = summary(results)
    if options.print:
        for kind, part in kept.items():
            for measure in part["measures"]:
                print(f"### {kind}: {measure}\n\n{table(f'{kind}: {measure}', kept)}")
        return
    keep(kept)
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
    for kind, found in results.items():
        draw(kind, found)
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
    parser.add_argument("--again", action="store_true", help="forget the results that are there")
    parser.add_argument("--print", action="store_true", help="print the tables, write nothing")
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
    return STORE / f"{options.folds}x{options.repeats}" / f"{data_set} {method}.json"


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


# --- The kept file and the tables of the page -----------------------------------------------------


def kept_results() -> dict[str, Any]:
    """What `summary` returned when the leaderboard was last run."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def keep(kept: dict[str, Any]) -> None:
    """Write the kept file, a line per method."""
    text = json.dumps(kept, indent=1)
    text = re.sub(r"\n {5,}", " ", text)  # the cells of a method
    KEPT.write_text(re.sub(r"\n {4}([}\]])", r"\1", text) + "\n", encoding="utf-8")


def summary(results: dict[str, dict]) -> dict[str, Any]:
    """By kind: means by measure, method (the best first) and set; gains; what was not run."""
    return {
        kind: {
            "measures": {measure: means_of(found, measure) for measure in MEASURES[kind]},
            "gains": gains(kind, found),
            "failed": {
                f"{name}, {method}": result["failed"]
                for name, by_method in found.items()
                for method, result in by_method.items()
                if "failed" in result
            },
        }
        for kind, found in results.items()
    }


def means_of(found: dict, measure: str) -> dict[str, dict[str, float | None]]:
    """A measure by method, the best mean first, and by set, with its means over the sets."""
    real = [i for i, name in enumerate(found) if name not in SYNTHETIC]
    methods = next(iter(found.values()), {})
    rows = {m: [value_of(by_method[m], measure) for by_method in found.values()] for m in methods}
    rows = {m: values for m, values in rows.items() if not np.isnan(values).all()}
    known = {}
    for method in sorted(rows, key=lambda m: place(rows[m], low=measure in LOW)):
        values = np.array(rows[method])
        parts = dict(zip(MEANS, [values, values[real]], strict=True))
        if len(real) == len(found):
            del parts[MEANS[1]]
        cells = dict(zip(found, values, strict=True)) | {n: p.mean() for n, p in parts.items()}
        known[method] = {n: None if np.isnan(v) else round(float(v), 4) for n, v in cells.items()}
    return known


def gains(kind: str, found: dict) -> dict[str, dict[str, list[float]]]:
    """Gain of the automatic method over trees on pooled statistics, by data set and measure."""
    gained: dict[str, dict[str, list[float]]] = {}
    for name, by_method in found.items():
        if any("failed" in by_method.get(m, {"failed": ""}) for m in ("auto", "pooled-trees")):
            continue
        two = [evaluation(m, by_method[m]) for m in ("pooled-trees", "auto")]
        comparison = Comparison(two, by_method["auto"]["ratio"])
        gained[name] = {}
        for measure in MEASURES[kind][:2]:
            (difference,) = comparison.differences(measure)
            values = (difference.mean, difference.lower, difference.upper)
            gained[name][measure] = [round(float(v), 4) for v in values]
    return gained


def fill(page: str, kept: dict[str, Any]) -> str:
    """Replace the tables of a page: `<!-- leaderboard: KIND: what -->` ... `<!-- end -->`.

    What: a measure; "gains"; or measures with semicolons, of which only the means are shown, also
    those over the real sets ("AUC, real").
    """
    return PLACE.sub(lambda found: found[1] + table(found[2], kept) + found[3], page)


def table(request: str, kept: dict[str, Any]) -> str:
    """The table of a request, the best mean of the first measure first."""
    kind, _, what = request.partition(": ")
    found, names = kept[kind], what.split("; ")
    if what == "gains":
        heads = ["set", *MEASURES[kind][:2]]
        rows = [
            [name, *(f"{v[0]:+.3f} ({v[1]:+.3f} to {v[2]:+.3f})" for v in by_measure.values())]
            for name, by_measure in found["gains"].items()
        ]
    elif len(names) == 1:
        by_method = found["measures"][what]
        heads = ["method", *next(iter(by_method.values()))]
        best = {
            name: (min if what in LOW else max)(
                cells[name] for cells in by_method.values() if cells[name] is not None
            )
            for name in heads[1:]
            if name not in MEANS and what != "seconds"
        }
        rows = [
            [method, *(shown(v, what, bold=v == best.get(name)) for name, v in cells.items())]
            for method, cells in by_method.items()
        ]
    else:
        means = [(name.removesuffix(", real"), MEANS[name.endswith(", real")]) for name in names]
        heads = ["method", *names]
        rows = [
            [method, *(shown(found["measures"][m].get(method, {}).get(n), m) for m, n in means)]
            for method in found["measures"][means[0][0]]
        ]
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    lines.insert(1, "|---|" + "---:|" * (len(heads) - 1))
    return "\n".join(lines) + "\n"


def draw(kind: str, found: dict) -> None:
    """Draw the mean ranks of the methods that have a score on every set."""
    measure = MEASURES[kind][0]
    scores = {
        name: {method: value_of(result, measure) for method, result in by_method.items()}
        for name, by_method in found.items()
    }
    whole = [m for m in next(iter(scores.values())) if all(s[m] == s[m] for s in scores.values())]
    if len(whole) < 2:
        return
    found_ranks = ranks({name: {m: values[m] for m in whole} for name, values in scores.items()})
    display = RankDisplay.from_ranks(found_ranks)
    file = PICTURES / f"ranks-{kind.replace(' ', '-')}.svg"
    display.figure_.savefig(file, bbox_inches="tight", metadata={"Date": None})


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


def shown(value: float | None, measure: str, *, bold: bool = False) -> str:
    """A number formatted for the tables."""
    if value is None:
        return "-"
    text = f"{value:.1f}" if measure == "seconds" else f"{value:.3f}".lstrip("0")
    return f"**{text}**" if bold else text


if __name__ == "__main__":
    try:
        main()
    except DataNotFoundError as error:
        sys.exit(f"{error}")

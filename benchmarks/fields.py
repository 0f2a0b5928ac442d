"""All methods on real data of the fields of the users: `python -m benchmarks.fields`.

Nuclei of colon images, tiles of GlaS, windows of bird recordings, conformers of molecules: sets of
the data home (`bagwise datasets`). Five folds keep patients, recordings or scaffolds whole; `auto`
holds out bags inside them, with the same groups. Instances are standardised inside the folds, all
parameters have their defaults. `mean + LR` and `mean + max + LR` are scikit-learn's
LogisticRegression on standardised statistics (for molecules ridge regression that chooses its
penalty); the rows "taught" are models of instances, trained on the labels of instances, which no
other row sees: the ceiling of the scores of instances. Each fold of a method is a process, and its
predictions are stored in a folder: an interrupted run can be resumed. At the end the measures of
all stored predictions are written to benchmarks/kept/fields.json, and from there into the tables of
docs. An area is that over pairs of bags (or instances) of one fold; intervals (95 %) are
percentiles over 200 draws of groups with replacement.
"""

import argparse
import json
import multiprocessing as mp
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.auto._members import ridge_cv
from bagwise.auto._methods import METHODS, make_model
from bagwise.base._pipelines import fit_arguments
from bagwise.datasets import load_dataset, make_bags
from bagwise.embedding import BagStatistics
from bagwise.evaluate._evaluation import make_folds
from bagwise.evaluate._measures import predictions_of
from bagwise.exceptions import BagwiseError
from bagwise.predictions import instance_attributions

ROOT = Path(__file__).parent.parent
STORE = ROOT / "results" / "fields"
KEPT = Path(__file__).parent / "kept" / "fields.json"
DOCS = ROOT / "docs"
PLACE = re.compile(r"(<!-- field: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
N_DRAWS = 200  # of groups, for the intervals
N_SAMPLES = 50  # subsets of a bag, for the contributions of its instances
SIMPLE = ("pooled-trees", "mean + LR", "mean + max + LR")
TAUGHT = ("taught: trees", "taught: LR")
VARIANTS = {  # rows with other settings than the defaults: a method and its parameters
    "auto, standard": ("auto", {"assumption": "standard"}),
    "pdmisvm, standard": ("pdmisvm", {"assumption": "standard"}),
    "orlr, background": ("orlr", {"background": True}),
}
FIRST = ("auto", "auto, standard", "attention", "miles")  # the longest that are sure to end
LAST = ("misvm-instance", "m3miml", "mimlca", "wellsvm", "ranklosssim", "emdd", "dd")


@dataclass(frozen=True)
class Field:
    """A data set.

    Attributes
    ----------
    bags, y, groups
        The bags, their labels or numbers, and their groups.
    truth : ndarray of shape (n_instances, n_columns) or None
        What is known of the instances; column k belongs to class k, a single one to class 1.
    judged : ndarray of bool of shape (n_instances,)
        The instances whose scores are judged.
    species : ndarray of int of shape (n_instances,) or None
        The class of the instances whose best class is judged; -1 for the others.
    pca : int or None
        Number of principal components before methods that compare instances.
    inner : tuple of (str, ndarray of shape (n_bags,)) or None
        A row: `auto` with inner folds by other groups than those of the outer folds.
    """

    bags: Bags
    y: Any
    groups: Any
    truth: Any = None
    judged: Any = None
    species: Any = None
    pca: int | None = None
    inner: tuple[str, Any] | None = None

    @property
    def numbers(self) -> bool:
        return self.y.dtype.kind == "f"


def colon() -> Field:
    """Images of nuclei; truth: epithelial nuclei."""
    data = load_dataset("real_colon_nuclei")
    truth = data.instance_labels == 1
    return Field(data.bags, data.y, data.groups, truth[:, None], np.ones(len(truth), bool))


def glas() -> Field:
    """Tiles of tissue; "truth": tiles inside a gland, in malignant images only."""
    data = load_dataset("real_glas")
    judged = data.y[data.bags.bag_index] == 1
    return Field(data.bags, data.y, data.groups, data.gland_fraction[:, None] > 0.5, judged)


def birds(pca: int | None = None) -> Field:
    """Windows of recordings; truth: the species that people heard in the window."""
    data = load_dataset("real_birds_cosmos")
    truth = data.annotated_windows[:, :10] == 1
    species = np.where(data.calls == 1, data.y[data.bags.bag_index], -1)
    recordings = np.arange(len(data.bags))
    return Field(data.bags, data.y, recordings, truth, np.ones(len(truth), bool), species, pca)


def dopamine(*, random: bool = False) -> Field:
    """Conformers of molecules, by scaffold or in random folds."""
    data = load_dataset("real_conformers_dopamine")
    alone, scaffolds = np.arange(len(data.bags)), data.groups
    if random:
        other = ("auto, inner folds by scaffold", scaffolds)
        return Field(data.bags, data.y, alone, inner=other)
    return Field(data.bags, data.y, scaffolds, inner=("auto, random inner folds", alone))


def drawn(*, numbers: bool = False) -> Field:
    """A few bags, on which each method is fitted first: compiled functions are then stored."""
    data = make_bags(30, 4, random_state=0)
    y = data.y.astype(float) if numbers else data.y
    truth = data.instance_labels[:, None] == 1
    return Field(data.bags, y, np.arange(30), truth, np.ones(len(truth), bool))


SETS: dict[str, Callable[[], Field]] = {
    "colon": colon,
    "glas": glas,
    "birds": birds,
    "birds, 64 components": lambda: birds(64),
    "dopamine": dopamine,
    "dopamine, random folds": lambda: dopamine(random=True),
}
WARM: dict[str, Callable[[], Field]] = {
    "warm": drawn,
    "warm, numbers": lambda: drawn(numbers=True),
}
loaded = cache(lambda name: {**SETS, **WARM}[name]())


# --- Methods --------------------------------------------------------------------------------------


class Taught:
    """A model of instances as a model of bags: the score of a bag is that of its best instance.

    Of several columns, an instance has the first that is true, or a class of its own.
    """

    def __init__(self, model: Any) -> None:
        self.model = make_pipeline(StandardScaler(), model)

    def fit(self, bags: Bags, truth: Any) -> "Taught":
        self.columns = np.arange(truth.shape[1]) if truth.shape[1] > 1 else [1]
        kinds = truth[:, 0].astype(int)
        if truth.shape[1] > 1:
            kinds = np.where(truth.any(axis=1), truth.argmax(axis=1), truth.shape[1])
        self.model.fit(bags.instances, kinds)
        return self

    def score_instances(self, bags: Bags) -> Any:
        return self.model.predict_proba(bags.instances)[:, self.columns]

    def predict_proba(self, bags: Bags) -> Any:
        best = np.maximum.reduceat(self.score_instances(bags), bags.offsets[:-1])
        if best.shape[1] == 1:
            return np.column_stack([1 - best, best])
        return best / best.sum(axis=1, keepdims=True)


def methods_for(task: Field) -> list[str]:
    """The names of the rows of a set."""
    if task.numbers:
        able = [name for name, method in METHODS.items() if method.regressor and method.available]
        return [*able, *([task.inner[0]] if task.inner else []), *SIMPLE[1:]]
    able = [name for name, method in METHODS.items() if method.available]
    return [*able, *VARIANTS, *SIMPLE[1:], *TAUGHT]


def made(name: str, task: Field) -> Any:
    """The model of a row."""
    if name in SIMPLE[1:]:
        statistics = ("mean",) if name == SIMPLE[1] else ("mean", "max")
        last = ridge_cv() if task.numbers else LogisticRegression(max_iter=5000)
        return make_pipeline(BagStatistics(statistics), StandardScaler(), last)
    if name in TAUGHT:
        trees = ExtraTreesClassifier(300, min_samples_leaf=2, random_state=0)
        # With 1,024 features. Chosen on the held-out windows, in favour of the ceiling.
        C = 0.001 if task.species is not None else 1.0
        return Taught(trees if name == TAUGHT[0] else LogisticRegression(C=C, max_iter=5000))
    name = "auto" if task.inner and name == task.inner[0] else name
    name, settings = VARIANTS.get(name, (name, {}))
    method = METHODS[name].for_numbers() if task.numbers else METHODS[name]
    seed = {"random_state": 0} if "random_state" in method.parameters else {}
    return make_model(method, settings | seed, scale=True, pca=task.pca)


def folds_of(task: Field, n_folds: int, n_repeats: int) -> list[tuple[Any, Any]]:
    return make_folds(
        task.y, n_folds=n_folds, n_repeats=n_repeats, groups=task.groups, numbers=task.numbers
    )


def predict_fold(task: Field, name: str, train: Any, test: Any) -> dict[str, Any]:
    """What a method predicts for the bags of a fold and their instances, and its seconds."""
    bags, new = task.bags[train], task.bags[test]
    model, start = clone(made(name, task)) if name not in TAUGHT else made(name, task), now()
    if name in TAUGHT:
        rows = np.isin(task.bags.bag_index, train)
        model.fit(bags, task.truth[rows])
    else:
        groups = task.inner[1] if task.inner and name == task.inner[0] else task.groups
        model.fit(bags, task.y[train], **fit_arguments(model, groups=groups[train]))
    found: dict[str, Any] = {"test": test, "fit": now() - start}
    start = now()
    if task.numbers:
        return found | {"predict": model.predict(new), "seconds": now() - start}
    classes = np.unique(task.y) if name not in TAUGHT else None
    found |= predictions_of(model, new, classes)
    found["seconds"] = now() - start
    if task.truth is None:
        return found
    if name in TAUGHT:
        return found | {"score": model.score_instances(new)}
    for kind, options in (("score", {}), ("sampled", {"n_samples": N_SAMPLES, "random_state": 0})):
        try:
            found[kind] = instance_attributions(model, new, method=kind, **options)
        except BagwiseError:
            continue  # no scores of instances
    return found


now = time.perf_counter


# --- Processes ------------------------------------------------------------------------------------

Part = tuple[str, str, int, Path]


def part_file(folder: Path, name: str, method: str, fold: int, options: Any) -> Path:
    slug = f"{name} {method}".replace(":", "").replace(",", "").replace(" ", "_")
    return folder / f"{options.folds}x{options.repeats}" / f"{slug}.{fold}.npz"


def run_part(name: str, method: str, fold: int, path: Path, options: Any) -> None:
    """Compute and store a fold of a method, or why it failed."""
    warnings.simplefilter("ignore")
    task = loaded(name)
    train, test = folds_of(task, options.folds, options.repeats)[fold]
    try:
        found = predict_fold(task, method, train, test)
    except Exception as error:  # kept as the reason in the table
        found = {"failed": f"{type(error).__name__}: {error}".partition("\n")[0]}
    kept = {
        key: np.asarray(value, np.float32 if np.asarray(value).dtype.kind == "f" else None)
        for key, value in found.items()
    }
    np.savez_compressed(path.with_suffix(".new.npz"), **kept)
    path.with_suffix(".new.npz").rename(path)


def missing_parts(names: Iterable[str], options: Any, n_folds: int) -> list[Part]:
    """The parts that have no stored result, in the order in which they are run."""
    parts = [
        (name, method, fold, path)
        for name in names
        for method in methods_for(loaded(name))
        if method in (options.methods or [method]) and method not in options.skip
        for fold in range(n_folds)
        if not (path := part_file(options.output, name, method, fold, options)).exists()
        or options.again
    ]
    # Of the slowest methods one fold first: if that takes too long, the others are not run.
    return sorted(parts, key=lambda p: (p[1] not in FIRST, p[1] in LAST, p[1] in LAST and p[2]))


def run_parts(todo: list[Part], options: Any) -> None:
    """Run each part in a process, some at a time; end one that takes too long."""
    fork, running = mp.get_context("fork"), {}
    while todo or running:
        while todo and len(running) < options.jobs:
            part = todo.pop(0)
            part[3].parent.mkdir(parents=True, exist_ok=True)
            process = fork.Process(target=run_part, args=(*part, options))
            process.start()
            running[process.sentinel] = (process, part, now())
        wait(list(running), timeout=1)
        for sentinel, (process, (*what, path), start) in list(running.items()):
            limit = options.slow_limit if what[1] in LAST else options.limit
            late = now() - start > limit
            if late:
                process.kill()
                np.savez_compressed(path, failed=f"more than {limit:.0f} s")
            if late or not process.is_alive():
                process.join()
                if not path.exists():
                    np.savez_compressed(path, failed=f"ended with code {process.exitcode}")
                if late:
                    left_out = [other for other in todo if other[:2] == tuple(what[:2])]
                    todo[:] = [other for other in todo if other not in left_out]
                del running[sentinel]
                text = f"{', '.join(map(str, what))}: {now() - start:.1f} s"
                print(text + (", too slow" if late else ""), file=sys.stderr, flush=True)


# --- Measures -------------------------------------------------------------------------------------


def areas(truth: Any, scores: Any, weights: Any) -> tuple[Any, Any, Any]:
    """AUC, its weight in pairs, and average precision, for each column of weights.

    `truth` and `scores` have shape (n,), `weights` (n, n_draws).
    """
    order = np.argsort(scores, kind="stable")[::-1]
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.inf) != 0)
    positive = np.add.reduceat(weights[order] * truth[order][:, None], starts)
    other = np.add.reduceat(weights[order] * ~truth[order][:, None], starts)
    above, n_other = positive.cumsum(axis=0), other.cumsum(axis=0)
    pairs = above[-1] * n_other[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        area = ((above - positive / 2) * other).sum(axis=0) / pairs
        precision = np.nan_to_num(above / (above + n_other))
        return area, pairs, (positive * precision).sum(axis=0) / above[-1]


def pooled_areas(truth: Any, scores: Any, folds: Any, weights: Any) -> tuple[Any, Any]:
    """AUC over the pairs of a fold, and average precision over the folds, means over columns.

    `truth` and `scores` have shape (n, n_columns); a fold without both kinds is left out.
    """
    found = []
    for positive, values in zip(truth.T, scores.T, strict=True):
        parts = [
            areas(positive[rows], values[rows], weights[rows])
            for rows in (folds == k for k in np.unique(folds))
        ]
        area, pairs, precision = map(np.array, zip(*parts, strict=True))
        with np.errstate(invalid="ignore"):
            mean = np.nansum(area * pairs, axis=0) / pairs.sum(axis=0)
            found.append((mean, np.nanmean(np.where(pairs > 0, precision, np.nan), axis=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column without positive instances in a draw
        return tuple(np.nanmean(column, axis=0) for column in zip(*found, strict=True))


@dataclass
class Found:
    """The stored predictions of a method on a set, all folds together."""

    parts: list[dict[str, Any]]
    arrays: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tested = np.concatenate([part["test"] for part in self.parts])
        sizes = [len(part["test"]) for part in self.parts]
        self.folds = np.repeat(np.arange(len(self.parts)), sizes)
        for key in set(self.parts[0]) - {"test", "fit", "seconds"}:
            if all(key in part for part in self.parts):
                self.arrays[key] = np.concatenate([part[key] for part in self.parts])


def draws_of(groups: Any) -> Any:
    """Weights of the bags: (n_bags, 1 + N_DRAWS); the first column is 1, the others are drawn."""
    _, codes = np.unique(groups, return_inverse=True)
    n_groups = codes.max() + 1
    rng = np.random.default_rng(0)
    times = rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=N_DRAWS).T
    return np.column_stack([np.ones(len(codes)), times[codes]])


def bag_measures(task: Field, found: Found) -> dict[str, Any]:
    """Each measure of the bags in all draws: (1 + N_DRAWS,)."""
    weights = draws_of(task.groups)[found.tested]
    y, arrays = task.y[found.tested], found.arrays
    if task.numbers:
        error = weights.T @ (y - arrays["predict"]) ** 2
        total = weights.sum(axis=0)
        variance = weights.T @ y**2 - (weights.T @ y) ** 2 / total
        return {"R2": 1 - error / variance, "RMSE": np.sqrt(error / total)}
    scores = arrays.get("decision_function", arrays.get("predict_proba"))
    several, proba = len(np.unique(y)) > 2, arrays.get("predict_proba")
    truth = y[:, None] == np.arange(10) if several else y[:, None] == 1
    scores = scores.reshape(len(scores), -1)[:, slice(None) if several else slice(-1, None)]
    area, precision = pooled_areas(truth, scores, found.folds, weights)
    predicted = arrays["predict"] if "predict" in arrays else proba.argmax(axis=1)
    measures = {"AUC": area, "AP": precision}
    total = weights.sum(axis=0)
    measures["accuracy"] = weights.T @ (predicted == y) / total
    if proba is not None:
        own = np.clip(proba[np.arange(len(y)), y], 1e-15, 1)
        measures["log loss"] = weights.T @ -np.log(own) / total
    return measures


def instance_measures(task: Field, found: Found) -> dict[str, Any]:
    """The measures of scores ("score") and contributions ("sampled") of the instances."""
    offsets = task.bags.offsets
    rows = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in found.tested])
    folds = np.repeat(found.folds, task.bags.sizes[found.tested])
    weights, measures = draws_of(task.groups)[task.bags.bag_index[rows]], {}
    for kind in ("score", "sampled"):
        if kind not in found.arrays:
            continue
        values = found.arrays[kind].reshape(len(rows), -1)
        on = task.judged[rows]
        chosen = (task.truth[rows][on], values[on], folds[on], weights[on])
        area, precision = pooled_areas(*chosen)
        measures |= {f"{kind}: AUC": area, f"{kind}: AP": precision}
        if task.species is not None:
            species = task.species[rows]
            right, on = values.argmax(axis=1) == species, species >= 0
            total = weights[on].sum(axis=0)
            measures[f"{kind}: accuracy"] = weights[on].T @ right[on] / total
            own = task.y[task.bags.bag_index[rows]]
            called = values[np.arange(len(own)), own][:, None]
            measures[f"{kind}: calls"] = pooled_areas(on[:, None], called, folds, weights)[0]
    return measures


def summary(names: list[str], options: Any) -> dict[str, Any]:
    """By set and method: each measure with its interval, seconds of a fit, or why there is none.

    A method of which some folds took too long is judged on the others, and its cell has their
    number.
    """
    results: dict[str, Any] = {}
    n_folds = options.folds * options.repeats
    for name in names:
        task, cells, parts = loaded(name), {}, {}
        for method in methods_for(task):
            stored = {
                fold: dict(np.load(path))
                for fold in range(n_folds)
                if (path := part_file(options.output, name, method, fold, options)).exists()
            }
            parts[method] = {k: part for k, part in stored.items() if "failed" not in part}
            why = [str(part["failed"]) for part in stored.values() if "failed" in part]
            if not parts[method]:
                cells[method] = {"failed": why[0] if why else "not run"}
        measure = "R2" if task.numbers else "AUC"
        simple = {
            m: bag_measures(task, Found([*parts[m].values()]))[measure][0]
            for m in SIMPLE
            if len(parts[m]) == n_folds
        }
        best = max(simple, key=simple.__getitem__) if simple else None
        for method in set(parts) - set(cells):
            cells[method] = judged(task, parts[method], best and (best, parts[best]), measure)
            if len(parts[method]) < n_folds:
                cells[method]["of folds"] = [len(parts[method]), n_folds]
        repeated = "" if options.repeats == 1 else f", {options.repeats} times"
        results[f"{name}{repeated}"] = {
            "folds": options.folds,
            "repeats": options.repeats,
            "bags": len(task.bags),
            "groups": len(np.unique(task.groups)),
            "cells": {method: cells[method] for method in parts},
        }
    return results


def judged(task: Field, parts: dict[int, Any], simple: Any, measure: str) -> dict[str, Any]:
    """The measures of a method, and its difference from a simple model in the same folds."""
    found = Found([*parts.values()])
    draws = bag_measures(task, found) | instance_measures(task, found)
    cell: dict[str, Any] = {name: interval(values) for name, values in draws.items()}
    seconds = float(np.median([part["fit"] for part in parts.values()]))
    if not np.isnan(seconds):
        cell["seconds"] = [round(seconds, 2)]
    if simple is not None:
        name, others = simple
        rival = bag_measures(task, Found([others[fold] for fold in parts]))[measure]
        cell["minus simple"] = [*interval(draws[measure] - rival), name]
    return cell


def interval(values: Any) -> list[float]:
    """The measure, the ends of its interval, and its standard error."""
    low, high = np.nanpercentile(values[1:], [2.5, 97.5])
    return [round(float(v), 4) for v in (values[0], low, high, np.nanstd(values[1:]))]


# --- The kept file and the tables of the pages ----------------------------------------------------


def keep(results: dict[str, Any]) -> None:
    """Replace these results in the kept file, one line per method; others of the folds stay."""
    everything = kept_results()
    for name, part in results.items():
        old = everything.get(name, {"cells": {}})
        same = {**old, "cells": None} == {**part, "cells": None}
        cells = dict(old["cells"]) if same else {}
        for method, cell in part["cells"].items():
            if method not in cells or "failed" not in cell:
                cells[method] = cells.get(method, {}) | cell
        everything[name] = {**part, "cells": cells}
    blocks = []
    for name, part in everything.items():
        head = {key: value for key, value in part.items() if key != "cells"}
        lines = [f'   "{m}": {json.dumps(cell)}' for m, cell in part["cells"].items()]
        inner = ",\n".join(lines)
        blocks.append(
            f' "{name}": {{\n  "run": {json.dumps(head)},\n  "cells": {{\n{inner}\n  }}\n }}'
        )
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def kept_results() -> dict[str, Any]:
    if not KEPT.exists():
        return {}
    found = json.loads(KEPT.read_text(encoding="utf-8"))
    return {name: {**part["run"], "cells": part["cells"]} for name, part in found.items()}


def fill(page: str, results: dict[str, Any]) -> str:
    """Replace the tables of a page: `<!-- field: SET: measure; measure | row; row -->`.

    Without rows, there is one per method; a table ends with `<!-- end -->`. "SET + SET" has the
    measures of both sets without intervals.
    """
    return PLACE.sub(lambda found: found[1] + table(found[2], results) + found[3], page)


def table(request: str, results: dict[str, Any]) -> str:
    """A row per method, the best by the first measure first, then what was not run."""
    name, _, wanted = request.partition(": ")
    wanted, _, only = wanted.partition("|")
    measures = [measure.strip() for measure in wanted.split(";")]
    rows = [row.strip() for row in only.split(";")] if only else None
    if " + " in name:
        return table_of_sets(name.split(" + "), measures, results)
    if name not in results:
        return "not run\n"
    cells = results[name]["cells"]
    lower = -1 if measures[0] in ("log loss", "RMSE") else 1
    able = [m for m, cell in cells.items() if measures[0] in cell and m in (rows or [m])]
    able.sort(key=lambda method: -lower * cells[method][measures[0]][0])
    lines = [f"| | {' | '.join(map(title, measures))} |", "|---|" + "---:|" * len(measures)]
    for method in able:
        texts = [shown(measure, cells[method].get(measure)) for measure in measures]
        partly = "{} of {} folds".format(*cells[method].get("of folds", (0, 0)))
        name = f"{method} ({partly})" if "of folds" in cells[method] else method
        lines.append(f"| {name} | {' | '.join(texts)} |")
    failed = [
        f"{m} ({cell['failed']})"
        for m, cell in cells.items()
        if m in (rows or [m]) and cell.get("failed", "not run") != "not run"
    ]
    note = f"\nNot run: {'; '.join(failed)}.\n" if failed else ""
    return "\n".join(lines) + "\n" + note


def table_of_sets(names: list[str], measures: list[str], results: dict[str, Any]) -> str:
    """A row per method, the best by the mean of the first measure over its sets first."""
    cells = {name: results[name]["cells"] for name in names}
    methods = {m for found in cells.values() for m, cell in found.items() if measures[0] in cell}

    def mean(method: str) -> float:
        known = [
            found[method][measures[0]][0]
            for found in cells.values()
            if measures[0] in found.get(method, ())
        ]
        return float(np.mean(known))

    heads = [f"{name}: {title(measure)}" for name in names for measure in measures]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for method in sorted(methods, key=lambda m: (-mean(m), m)):
        texts = [
            shown(measure, found.get(method, {}).get(measure)).partition(" (")[0]
            for found in cells.values()
            for measure in measures
        ]
        lines.append(f"| {method} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def title(measure: str) -> str:
    named = {"score": "instances, scores", "sampled": "instances, contributions"}
    kind, _, rest = measure.partition(": ")
    if rest == "calls":
        rest = "AUC of calls"
    return f"{named[kind]}: {rest}" if rest else {"seconds": "s a fit"}.get(measure, measure)


def shown(measure: str, cell: Any) -> str:
    if cell is None:
        return "-"
    if measure == "seconds":
        return f"{cell[0]:.1f}"
    texts = [f"{value:.3f}".replace("0.", ".", 1) for value in cell[:3]]
    if measure == "minus simple":
        return f"{cell[0]:+.3f} ± {cell[3]:.3f}".replace("0.", ".")
    if measure in ("AUC", "score: AUC", "score: accuracy", "R2"):
        return f"{texts[0]} ({texts[1]} to {texts[2]})"
    return texts[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fields",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", help="run these rows only")
    parser.add_argument("--skip", nargs="+", default=(), help="do not run these rows")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1, help="how often folds are drawn anew")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a fold of a method")
    parser.add_argument("--slow-limit", type=float, default=300, help="the same, slowest methods")
    parser.add_argument("-o", "--output", type=Path, default=STORE, help="folder of predictions")
    parser.add_argument("--again", action="store_true", help="compute stored predictions anew")
    parser.add_argument("--keep", action="store_true", help="write the kept file and the docs")
    options = parser.parse_args()
    for name in options.sets:
        loaded(name)
    if todo := missing_parts(options.sets, options, options.folds * options.repeats):
        numbers = {loaded(name).numbers for name in options.sets}
        warm = [name for name in WARM if loaded(name).numbers in numbers]
        run_parts(missing_parts(warm, options, 1), options)
        run_parts(todo, options)
    results = summary(options.sets, options)
    for name, part in results.items():
        is_number = any("R2" in cell for cell in part["cells"].values())
        wanted = "R2; RMSE" if is_number else "AUC; minus simple; accuracy; log loss"
        every = {m for cell in part["cells"].values() for m in cell if ": " in m}
        wanted = "; ".join([wanted, *sorted(every, reverse=True), "seconds"])
        print(f"## {name}\n\n{table(f'{name}: {wanted}', results)}", flush=True)
    if options.keep:
        keep(results)
        for path in sorted(DOCS.glob("*.md")):
            text = path.read_text(encoding="utf-8")
            if (new := fill(text, kept_results())) != text:
                path.write_text(new, encoding="utf-8")
                print(f"written: {path.name}", file=sys.stderr)


if __name__ == "__main__":
    main()

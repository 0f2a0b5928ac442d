"""``bagwise evaluate``: cross-validate methods and compare them with simple baselines."""

from __future__ import annotations

import time
from functools import partial
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bagwise.auto._methods import find_method, make_model
from bagwise.cli import options
from bagwise.cli.output import note, print_lines, print_table, progress, refuse_existing, warning
from bagwise.exceptions import counted

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.cli.reading import Target
    from bagwise.evaluate._comparison import Comparison, Difference, Evaluation

    Intervals = dict[str, tuple[float, ...]]

_LARGE = 2e7  # bytes of instances from which the time is estimated
_PER_CLASS = ("score", "probability")
_TREES = ("pooled-trees", "baseline: pooled trees")  # as a method, and as a baseline
_UNINFORMED = tuple(f"baseline: {n}" for n in ("majority", "frequencies", "mean", "Kaplan-Meier"))


def evaluate(
    columns: options.Columns,
    steps: options.Steps,
    task: options.Task,
    file: Path = options.FILE,
    method: list[str] | None = options.methods("; repeat to compare several. By default auto."),
    group: str | None = options.GROUP,
    by: str | None = options.column("Also score the bags of each value of this column."),
    folds: int = options.option("Number of folds.", "N", default=5, min=2),
    repeats: int = options.option("Number of repetitions, with new folds.", "N", default=1, min=1),
    seed: int = options.SEED,
    scoring: list[str] | None = options.option("A measure, such as f1; repeat for more.", "NAME"),
    baseline: list[str] | None = options.option("Add a baseline: sil.", "NAME"),
    background: bool = options.BACKGROUND,
    noisy_sets: bool = options.NOISY_SETS,
    no_baseline: bool = options.flag("--no-baseline", "Leave out the default baselines."),
    parameters: list[str] | None = options.PARAMETERS,
    output: Path | None = options.output("The table: .csv, .tsv, .parquet, .tex.", "TABLE", None),
    predictions: Path | None = options.option("Also write each held-out prediction.", "TABLE"),
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Cross-validate methods and compare them with baselines.

    Reads a file of labelled bags. All methods and baselines use the same folds, stratified by
    label. With --group, bags of one group, such as the slides of a patient, stay in one fold.
    Instances are standardised inside the folds; --pca applies to the methods, not to the baselines.
    The output is the mean and standard deviation of each score over the folds, and the difference
    of each method from the first one with its interval (corrected resampled t-test) and
    probabilities. For more than two classes, AUC is the mean over the classes, each against all
    others. A 95% interval of each score follows, by bootstrap over the groups (the bags without
    --group), and for more than two classes the scores of each class. --by site adds the
    scores of the bags of each site. --predictions held_out.csv writes a row per bag, repeat and
    method. --scoring takes measures of bagwise and scorers of
    scikit-learn; differences are tested on the first. The baselines are the most common label, and
    trees on pooled statistics (mean, min, max and std of each feature); --baseline sil adds a
    linear SVM on instances that inherit the label of their bag. A warning names the methods that
    are not significantly better than these trees. -o scores.csv also writes the table as numbers,
    scores.tex for LaTeX; --json has the scores of each fold. -m package.module:Class is a
    classifier or regressor of your own.

    A label column with many different numbers is a regression target (--task): the scores are R2,
    MAE (mean absolute error) and Spearman (rank correlation), and the baselines are the mean and
    pooled trees. If some are bounds, such as <5, >=10 or 4-6, the scores are the C index, the
    log-likelihood, MAE of the exact numbers and the share of predictions within bounds. With
    --order 0,1,2,3 the labels are grades: the scores are quadratic kappa, MAE and the share of
    errors within one grade, and the baselines are classifiers without an order. --label a,b
    predicts several numbers. With the columns --event dead --time months the target is the time to
    an event: the scores are the C index of Harrell and of Uno and the integrated Brier score, and
    the baselines Kaplan-Meier and a random survival forest on pooled statistics.

    ```
    bagwise evaluate musk1.csv
    bagwise evaluate musk1.csv -m nsk --set C=10
    bagwise evaluate musk1.csv -m nsk -m mind --repeats 2 --set nsk.C=10
    bagwise evaluate musk1.csv -m citation-knn --folds 3 --baseline sil --json
    bagwise evaluate musk1.csv -m nsk --scoring AUC --scoring f1 --no-baseline -o scores.csv
    bagwise evaluate words.csv --label-set label_set -m citation-knn
    bagwise evaluate musk1.csv -m pdmisvm --pca auto
    ```
    """
    from bagwise._common.files import user_cache, write_file
    from bagwise.cli.reading import check_features, make_for_task, read_labelled, target_of
    from bagwise.evaluate import compare
    from bagwise.evaluate._baselines import BASELINES, baselines
    from bagwise.io._write_table import file_beside, write_columns
    from bagwise.survival._rows import survival_baselines

    written = [path for path in (output, predictions) if path is not None]
    for path in written:
        if path is predictions or path.suffix != ".tex":
            file_beside(path, "folds")  # rejects an unknown suffix
    refuse_existing(written, force=force, inputs=[file])
    chosen = {found.name: found for found in map(find_method, method or ["auto"])}
    values = options.parse_parameters(parameters)
    settings = options.parameters_by_method(values, chosen)
    more = {"use_columns": columns.use_columns, "background": background, "noisy_sets": noisy_sets}
    for name, found in chosen.items():
        settings[name] = options.own_parameters(found, **more) | settings[name]
    names = dict.fromkeys([*(() if no_baseline else BASELINES), *(baseline or ())])
    baselines(names)  # reject wrong names and parameters before reading
    for name, found in chosen.items():
        make_for_task(found, settings[name], task.task if columns.event is None else "survival")
    about: Any = {"bag_columns": [by] if by not in (None, group) else []}
    data, labels = read_labelled(file, columns, positive=task.positive, group=group, **about)
    bags, group = data.bags, data.bags.group_name  # the file may know the group
    check_features(bags, steps, wide=set(chosen) != {"pooled-trees"})
    # The scorers of scikit-learn expect the positive label to be 1.
    target = target_of(labels, task, bags, columns.label, coded=bool(scoring))
    models = {}
    for name, found in chosen.items():
        found = target.variant(found)
        found.check_labels(label_sets=labels.has_sets)
        made: Any = {"around": target.around, "sparse": bags.is_sparse} | steps.arguments
        models[name] = make_model(found, settings[name], **made)
    kind: Any = {"label_sets": labels.has_sets, "numbers": target.is_number}
    kind["intervals"] = target.has_bounds
    make: Any = survival_baselines if target.has_times else partial(baselines, **kind)
    plain = make(names, bags=bags, impute=steps.impute)
    for name, model in plain.items():
        if name.replace(" ", "-") not in chosen:
            models[f"baseline: {name}"] = model
    n_fits = len(models) * folds * repeats
    _announce(models, bags, target.y, n_fits)
    how: Any = {"y": labels if labels.has_sets else target.y, "cv": folds, "repeats": repeats}
    how |= {"random_state": seed, "scoring": scoring or None, "resume": user_cache() / "evaluate"}
    with progress("Cross-validating", total=n_fits, cycle=len(models)) as step:
        comparison = compare(models, bags, **how, after_fold=step)
    measure = scoring[0] if scoring else None
    differences = comparison.differences(measure)
    trees = next((found.name for found in comparison if found.name in _TREES), None)
    beside = comparison.differences(measure, reference=trees) if trees else []
    no_better = [d for d in beside if d.name in chosen and d.n_folds and d.verdict != "better"]
    warnings = [_warning(difference, labels, chosen) for difference in no_better]
    times = f", {repeats} times" if repeats > 1 else ""
    whole = f", each {group} in one fold" if group is not None else ""
    setting = f"{len(bags)} bags{target.positive}, {folds} folds{times}{whole}"
    print_table(comparison.table(), title=f"{setting}: mean ± sd")
    shown = [str(found) for found in differences if found.name not in _UNINFORMED]
    print_lines(line.removeprefix("baseline: ") for line in shown)
    intervals = [found.intervals(with_value=True) for found in comparison]
    pooled = target.is_number and not (target.has_bounds or target.has_times)
    title = f"95% intervals: bootstrap by {group or 'bag'}"
    title += ", all folds together" if pooled else ""
    print_table(_intervals(comparison, intervals, pooled=pooled), title=title)
    by_class = {} if target.is_number else _by_class(comparison, chosen, target)
    for name, rows in by_class.items():
        if len(rows["label"]) > 2:
            print_table(_with_ends(rows), title=f"{name}: each class")
    own = [found for found in comparison if by is not None and found.name in chosen]
    parts = {found.name: found.by(bags.column(by or "")) for found in own}
    for name, rows in parts.items():
        print_table(_with_ends(rows), title=f"{name}: each {by}")
    if output is not None:
        if output.suffix == ".tex":
            write_file(output, comparison.to_latex(measure), force=force)
        else:
            write_columns(output, comparison.numbers(measure), force=force)
        note(f"Scores: {output}")
    if predictions is not None:
        write_columns(predictions, _named(comparison.predictions(), target), force=force)
        note(f"Predictions for held-out bags: {predictions}")
    for message in warnings:
        warning(message)
    facts = {"file": file, "bags": len(bags), "classes": target.classes or None}
    facts |= {"task": target.task, "group": group, "folds": folds, "repeats": repeats}
    facts |= {"seed": seed, "pca": steps.pca, "impute": steps.impute, "parameters": values}
    facts |= {"methods": [*map(_summary, comparison, intervals)], "per_class": by_class}
    facts |= {"differences": [difference.summary() for difference in differences]}
    return facts | {"by": by, "parts": parts, "warnings": warnings, "written": written}


def _announce(models: dict[str, Any], bags: Bags, y: Any, n_fits: int) -> None:
    """Print the size of a large task, and its time: estimated by fits on a part of the bags."""
    from warnings import catch_warnings, simplefilter

    from sklearn.base import clone

    n_bytes = bags.n_instances * bags.n_features * bags.dtype.itemsize
    if n_bytes < _LARGE:
        return
    size = f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
    task = f"{size}, {n_fits // len(models)} folds x {counted(len(models), 'method')}"
    note(f"{task} ({', '.join(models)}): estimating the time ...")
    order = np.argsort(y, kind="stable") if getattr(y, "ndim", 2) == 1 else np.arange(len(bags))
    few = order[:: max(1, min(20, len(bags) // 20))]
    try:
        with catch_warnings():
            simplefilter("ignore")
            for _ in range(2):  # the first fits compile, and are not counted
                start = time.perf_counter()
                for model in models.values():
                    clone(model).fit(bags[few], y[few])
    except ValueError:  # too few bags for a method, which says so for all of them
        return
    seconds = (time.perf_counter() - start) * len(bags) / len(few) / len(models) * n_fits
    told = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
    note(f"about {told}; after Ctrl-C the same command continues with the folds that are left")


def _summary(found: Evaluation, intervals: Intervals) -> dict[str, Any]:
    """The evaluation of a method for JSON, with the intervals of its measures."""
    summary = found.summary()
    for measure, ends in intervals.items():
        summary[measure] |= dict(zip(("lower", "upper"), ends[1:], strict=True))
    return summary


def _intervals(
    comparison: Comparison, intervals: list[Intervals], *, pooled: bool
) -> dict[str, list[str]]:
    """The intervals of each method; empty cells if they are undefined.

    A value of all folds together (`pooled`) is not the mean of the folds, and is shown.
    """
    table, cell = {"method": comparison.names}, "{1:.3f} to {2:.3f}"
    cell = f"{{0:.3f}} ({cell})" if pooled else cell
    for measure in comparison.measures:
        rows = [own.get(measure, (nan, nan, nan)) for own in intervals]
        table[measure] = ["" if isnan(row[1]) else cell.format(*row) for row in rows]
    return table


def _by_class(
    comparison: Comparison, chosen: dict[str, Any], target: Target
) -> dict[str, dict[str, list[Any]]]:
    """The scores of each class by each method, without the baselines."""
    found = {each.name: each.per_class() for each in comparison if each.name in chosen}
    for table in found.values():
        if target.coded or target.has_order:
            table["label"] = [target.classes[k] for k in table["label"]]
    return found


def _with_ends(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Values with the ends of their intervals, in one cell."""
    from bagwise.evaluate._comparison import cell

    table: dict[str, list[Any]] = {n: rows[n] for n in ("label", "part", "bags") if n in rows}
    for name in (name.removesuffix(" lower") for name in rows if name.endswith(" lower")):
        cells = zip(*(rows[name + end] for end in ("", " lower", " upper")), strict=True)
        table[name] = [cell(*own, digits=2) for own in cells]
    return table


def _named(table: dict[str, Any], target: Target) -> dict[str, Any]:
    """The predictions of `compare`, with the names of labels that were learned as codes."""
    if not (target.coded or target.has_order):
        return table
    names = [str(label) for label in target.classes]
    for column in ("label", "predicted"):
        table[column] = np.array([names[k] for k in table[column]])
    heads = {f"{kind}:{k}": f"{kind}:{name}" for k, name in enumerate(names) for kind in _PER_CLASS}
    return {heads.get(column, column): values for column, values in table.items()}


def _warning(difference: Difference, labels: Any, chosen: dict[str, Any]) -> str:
    """A sentence about a method that is not significantly better than pooled trees."""
    verdict = "worse" if difference.verdict == "worse" else "not significantly better"
    size = f"{'better' if difference.mean > 0 else 'worse'} {difference.size}"
    if difference.mean == 0:
        size = f"the same mean {difference.measure}"
    other = "pooled-trees" if difference.name == "auto" else "auto"
    learns = not labels.has_sets or (other == "auto" and labels.whole.all())
    size += f"; try -m {other}" if learns and other not in chosen else ""
    return f"{difference.name} is {verdict} than pooled trees: {size}."

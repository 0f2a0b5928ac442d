"""``bagwise evaluate``: cross-validate methods and compare them with simple baselines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.auto._methods import METHODS, find_method, make_model
from bagwise.cli import options
from bagwise.cli.numbers import Task, check_task, make_for_task, target_of
from bagwise.cli.output import (
    computing,
    note,
    note_features,
    print_json,
    print_lines,
    print_table,
    refuse_existing,
    warning,
)

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.cli.numbers import Target
    from bagwise.model_selection import Comparison, Difference

_TREES = ("pooled-trees", "baseline: pooled trees")  # as a method, and as a baseline
_UNINFORMED = ("baseline: majority", "baseline: frequencies", "baseline: mean")


def evaluate(
    file: options.File,
    columns: options.Columns,
    steps: options.Steps,
    method: options.MethodNames = None,
    task: Task = None,
    positive: options.Positive = None,
    group: options.Group = None,
    folds: options.Folds = 5,
    repeats: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of repetitions of the cross-validation, with new folds.",
        ),
    ] = 1,
    seed: options.Seed = 0,
    scoring: options.Scoring = None,
    baseline: options.Baselines = None,
    no_baseline: options.NoBaseline = False,
    parameters: options.Parameters = None,
    memory_limit: options.MemoryLimit = None,
    output: Annotated[
        Path | None,
        options.output_option(
            "TABLE", "The table, .csv, .tsv or .parquet; scores of each fold go to a second file."
        ),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Cross-validate methods and compare them with baselines.

    Reads a file of labelled bags. All methods and baselines use the same folds, stratified by
    label. With --group, bags of one group, such as the slides of a patient, stay in one fold.
    Instances are standardised inside the folds; --pca applies to the methods, not to the baselines.
    The output is the mean and standard deviation of each score over the folds, and the difference
    of each method from the first one with its interval (corrected resampled t-test) and
    probabilities. For more than two classes, AUC is the mean over the classes, each against all
    others. The baselines are the most common label, and trees on pooled statistics (mean, min, max
    and std of each feature); a warning names the methods that are not significantly better than
    these trees. -o scores.csv also writes the table, and the scores of each fold to
    scores.folds.csv.

    A label column with many different numbers is a regression target (--task): the scores are R2,
    MAE (mean absolute error) and Spearman (rank correlation), and the baselines are the mean and
    pooled trees.

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
    written = _outputs(output)
    refuse_existing(written, force=force, inputs=[file])
    from bagwise.cli.reading import note_width, positive_note, read_labelled
    from bagwise.model_selection import compare
    from bagwise.model_selection._baselines import BASELINES, baselines
    from bagwise.model_selection._folds import make_folds
    from bagwise.model_selection._measures import check_scoring

    chosen = {found.name: found for found in map(find_method, method or ["auto"])}
    values = options.parse_parameters(parameters)
    settings = options.parameters_by_method(values, chosen)
    beside = dict.fromkeys([*(() if no_baseline else BASELINES), *(baseline or ())])
    baselines(names=beside)
    check_task(task, positive)
    for name, found in chosen.items():  # reject wrong parameters before reading
        make_for_task(found, settings[name], task)
    bags, labels, groups = read_labelled(
        file,
        columns,
        positive=positive,
        group=group,
        memory_limit=memory_limit,
        allow_nan=steps.impute is not None,
    )
    if set(chosen) != {"pooled-trees"}:
        note_width(bags, steps.components)
    # The scorers of scikit-learn expect the positive label to be 1.
    target = target_of(labels, task, columns, positive, coded=bool(scoring))
    if target.is_number:
        chosen = {name: found.for_numbers() for name, found in chosen.items()}
    scores = check_scoring(scoring or None, label_sets=labels.has_sets, numbers=target.is_number)
    for found in chosen.values():
        found.check_labels(label_sets=labels.has_sets)
    splits = make_folds(
        target.y,
        n_folds=folds,
        n_repeats=repeats,
        seed=seed,
        groups=groups,
        numbers=target.is_number,
    )
    models = {
        name: make_model(found, settings[name], sparse=bags.is_sparse, **steps.arguments)
        for name, found in chosen.items()
    }
    models |= _baselines(beside, chosen, bags, target, steps, label_sets=labels.has_sets)
    with computing("Cross-validating", total=len(models) * len(splits)) as step:
        comparison = compare(
            models,
            bags,
            target.y,
            cv=splits,
            groups=groups,
            scoring=scores,
            after_fold=_after_fold(step, models, folds, repeats, bags),
        )
    measure = None if scores is None else scores[0]
    differences = comparison.differences(measure)
    warnings = _warnings(comparison, chosen, measure)
    if output is not None:
        _write(written, comparison, differences, folds, force=force)
    if json:
        classes = None if target.is_number else target.classes
        facts = {"file": str(file), "bags": len(bags), "classes": classes, "task": target.task}
        facts |= {"group": group, "folds": folds, "repeats": repeats, "seed": seed}
        facts |= {"pca": steps.components, "impute": steps.impute, "parameters": values}
        facts |= {"methods": [found.summary() for found in comparison]}
        facts |= {"differences": [difference.summary() for difference in differences]}
        print_json(facts | {"warnings": warnings, "written": written})
    else:
        which = "" if target.is_number else positive_note(labels)
        times = f", {repeats} times" if repeats > 1 else ""
        whole = f", each {group} in one fold" if group is not None else ""
        setting = f"{len(bags)} bags{which}, {folds} folds{times}{whole}"
        _show(comparison, differences, setting)
    for path in written:
        note(f"Scores: {path}")
    for message in warnings:
        warning(message)


def _baselines(
    names: Collection[str],
    chosen: Collection[str],
    bags: Bags,
    target: Target,
    steps: options.Steps,
    *,
    label_sets: bool,
) -> dict[str, Any]:
    """The baselines that are affordable and not already among the methods."""
    from bagwise.model_selection._baselines import affordable_baselines, baselines

    plain = baselines(
        label_sets=label_sets,
        numbers=target.is_number,
        sparse=bags.is_sparse,
        names=affordable_baselines(bags, names),
        impute=steps.impute,
    )
    return {
        f"baseline: {name}": model
        for name, model in plain.items()
        if name.replace(" ", "-") not in chosen
    }


def _after_fold(
    step: Callable[[str], None], models: Collection[str], folds: int, repeats: int, bags: Bags
) -> Callable[[], None]:
    """A callback for each fold: advances the bar, and prints the features the first time."""
    steps = _steps(models, folds, repeats)
    first = next(_steps(models, folds, repeats))

    def after_fold() -> None:
        done = next(steps)
        if done == first:
            note_features(bags)
        step(done)

    return after_fold


def _show(comparison: Comparison, differences: list[Difference], setting: str) -> None:
    """Print the scores of each method, and its difference from the first."""
    print_table(comparison.table(), title=f"{setting}: mean ± sd")
    shown = [str(found) for found in differences if found.name not in _UNINFORMED]
    print_lines(line.removeprefix("baseline: ") for line in shown)


def _steps(models: Collection[str], folds: int, repeats: int) -> Iterator[str]:
    """The name of each step of the cross-validation, in order."""
    for name in models:
        for repeat in range(repeats):
            for fold in range(folds):
                again = f", repeat {repeat + 1} of {repeats}" if repeats > 1 else ""
                yield f"{name}, fold {fold + 1} of {folds}{again}"


def _outputs(output: Path | None) -> list[Path]:
    """Paths of the tables of methods and of folds; none without ``--output``."""
    from bagwise.io.write_table import file_beside

    return [] if output is None else [output, file_beside(output, "folds")]


def _write(
    paths: list[Path],
    comparison: Comparison,
    differences: list[Difference],
    folds: int,
    *,
    force: bool,
) -> None:
    """Write a row per method, then a row per method and fold."""
    import numpy as np

    from bagwise.io.write_table import write_columns

    def column(values: Any) -> Any:
        known = [None if isinstance(v, float) and np.isnan(v) else v for v in values]
        return np.array(known, dtype=object)  # None: an empty cell

    means: dict[str, Any] = {"method": column(found.name for found in comparison)}
    for measure in comparison.measures:
        means[measure] = column(found.mean(measure) for found in comparison)
        means[f"{measure} sd"] = column(found.std(measure) for found in comparison)
    beside = {difference.name: difference for difference in differences}
    for name in ("mean", "lower", "upper", "p_value"):
        title = "difference" if name == "mean" else name
        means[title] = column(getattr(beside.get(f.name), name, None) for f in comparison)
    means["seconds"] = column(sum(found.seconds) for found in comparison)
    each: dict[str, Any] = {
        "method": column(found.name for found in comparison for _ in found.seconds),
        "repeat": column(k // folds + 1 for f in comparison for k in range(len(f.seconds))),
        "fold": column(k % folds + 1 for f in comparison for k in range(len(f.seconds))),
    }
    for measure in comparison.measures:
        undefined = [None] * len(comparison[0].seconds)
        each[measure] = column(v for f in comparison for v in f.scores.get(measure, undefined))
    each["seconds"] = column(s for found in comparison for s in found.seconds)
    for path, columns in zip(paths, (means, each), strict=True):
        write_columns(path, columns, force=force)


def _warnings(
    comparison: Comparison, chosen: Collection[str], measure: str | None = None
) -> list[str]:
    """A sentence for each method that is not significantly better than pooled trees."""
    trees = [found.name for found in comparison if found.name in _TREES]
    if not trees:
        return []
    return [
        _warning(found)
        for found in comparison.differences(measure, reference=trees[0])
        if found.name in chosen and found.n_folds and found.verdict != "better"
    ]


def _warning(difference: Difference) -> str:
    name, mean = difference.name, difference.mean
    if difference.verdict == "worse":
        verdict = f"{name} is worse than pooled trees {difference.size}"
    else:
        size = f"{'better' if mean > 0 else 'worse'} {difference.size}"
        size = size if mean else f"the same mean {difference.measure}"
        verdict = f"{name} is not significantly better than pooled trees: {size}"
    other = "auto" if "auto" in METHODS and name != "auto" else "pooled-trees"
    return f"{verdict} on the same folds{'' if mean > 0 else f'; try -m {other}'}."

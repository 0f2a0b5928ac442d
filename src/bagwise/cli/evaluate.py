"""``bagwise evaluate``: cross-validate methods and compare them with simple baselines."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bagwise.auto._methods import METHODS, find_method, make_model
from bagwise.cli import options
from bagwise.cli.numbers import make_for_task, target_of
from bagwise.cli.output import (
    note,
    note_features,
    print_json,
    print_lines,
    print_table,
    progress,
    refuse_existing,
    warning,
)

if TYPE_CHECKING:
    from bagwise.evaluate._comparison import Comparison, Difference

_TREES = ("pooled-trees", "baseline: pooled trees")  # as a method, and as a baseline
_UNINFORMED = ("baseline: majority", "baseline: frequencies", "baseline: mean")


def evaluate(
    columns: options.Columns,
    steps: options.Steps,
    task: options.Task,
    file: Path = options.FILE,
    method: list[str] | None = options.methods(
        "; repeat to compare several methods with the first one. By default auto."
    ),
    group: str | None = options.GROUP,
    folds: int = options.option("Number of folds.", "N", default=5, min=2),
    repeats: int = options.option("Number of repetitions, with new folds.", "N", default=1, min=1),
    seed: int = options.SEED,
    scoring: list[str] | None = options.option(
        "Measure to show instead of the default ones: accuracy, AUC, or a scikit-learn scorer such "
        "as f1_macro; repeat for more. Differences are tested on the first.",
        "NAME",
    ),
    baseline: list[str] | None = options.option(
        "Add a baseline: sil, a linear SVM on instances that inherit the label of their bag.",
        "NAME",
    ),
    no_baseline: bool = options.flag("--no-baseline", "Leave out the default baselines."),
    parameters: list[str] | None = options.PARAMETERS,
    memory_limit: str | None = options.MEMORY_LIMIT,
    output: Path | None = options.output(
        "The table, .csv, .tsv or .parquet; scores of each fold go to a second file.", "TABLE", None
    ),
    force: bool = options.FORCE,
    json: bool = options.JSON,
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
    from bagwise.cli.reading import note_width, positive_note, read_labelled
    from bagwise.evaluate import compare
    from bagwise.evaluate._baselines import BASELINES, baselines
    from bagwise.evaluate._folds import make_folds
    from bagwise.evaluate._measures import check_scoring, kind_of
    from bagwise.io._write_table import file_beside

    written = [] if output is None else [output, file_beside(output, "folds")]
    refuse_existing(written, force=force, inputs=[file])
    chosen = {found.name: found for found in map(find_method, method or ["auto"])}
    values = options.parse_parameters(parameters)
    settings = options.parameters_by_method(values, chosen)
    names = dict.fromkeys([*(() if no_baseline else BASELINES), *(baseline or ())])
    baselines(names)  # reject wrong names and parameters before reading
    for name, found in chosen.items():
        make_for_task(found, settings[name], task.task)
    bags, labels, groups = read_labelled(
        file,
        columns,
        positive=task.positive,
        group=group,
        memory_limit=memory_limit,
        allow_nan=steps.impute is not None,
    )
    if set(chosen) != {"pooled-trees"}:
        note_width(bags, steps.components)
    # The scorers of scikit-learn expect the positive label to be 1.
    target = target_of(labels, task, columns, coded=bool(scoring))
    scores = check_scoring(scoring, kind_of(target.y, numbers=target.is_number))
    models = {}
    for name, found in chosen.items():
        found = found.for_numbers() if target.is_number else found
        found.check_labels(label_sets=labels.has_sets)
        models[name] = make_model(found, settings[name], sparse=bags.is_sparse, **steps.arguments)
    kind = {"label_sets": labels.has_sets, "numbers": target.is_number}
    plain = baselines(names, bags=bags, impute=steps.impute, **kind)
    for name, model in plain.items():
        if name.replace(" ", "-") not in chosen:
            models[f"baseline: {name}"] = model
    splits = make_folds(
        target.y,
        n_folds=folds,
        n_repeats=repeats,
        seed=seed,
        groups=groups,
        numbers=target.is_number,
    )
    note_features(bags)
    with progress("Cross-validating", total=len(models) * len(splits)) as step:
        comparison = compare(
            models, bags, target.y, cv=splits, groups=groups, scoring=scores, after_fold=step
        )
    measure = None if scores is None else scores[0]
    differences = comparison.differences(measure)
    warnings = _warnings(comparison, chosen, measure)
    if written:
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
        print_table(comparison.table(), title=f"{setting}: mean ± sd")
        shown = [str(found) for found in differences if found.name not in _UNINFORMED]
        print_lines(line.removeprefix("baseline: ") for line in shown)
    for path in written:
        note(f"Scores: {path}")
    for message in warnings:
        warning(message)


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

    from bagwise.io._write_table import write_columns

    def column(values: Iterable[Any]) -> Any:
        known = [None if isinstance(v, float) and np.isnan(v) else v for v in values]
        return np.array(known, dtype=object)  # None: an empty cell

    every = [(found, k) for found in comparison for k in range(len(found.seconds))]
    means: dict[str, Any] = {"method": column(found.name for found in comparison)}
    each: dict[str, Any] = {
        "method": column(found.name for found, _ in every),
        "repeat": column(k // folds + 1 for _, k in every),
        "fold": column(k % folds + 1 for _, k in every),
    }
    for measure in comparison.measures:
        means[measure] = column(found.mean(measure) for found in comparison)
        means[f"{measure} sd"] = column(found.std(measure) for found in comparison)
        each[measure] = column(
            f.scores[measure][k] if measure in f.scores else None for f, k in every
        )
    by_name = {difference.name: difference for difference in differences}
    for title in ("difference", "lower", "upper", "p_value"):
        name = "mean" if title == "difference" else title
        means[title] = column(getattr(by_name.get(found.name), name, None) for found in comparison)
    means["seconds"] = column(sum(found.seconds) for found in comparison)
    each["seconds"] = column(found.seconds[k] for found, k in every)
    for path, table in zip(paths, (means, each), strict=True):
        write_columns(path, table, force=force)


def _warnings(
    comparison: Comparison, chosen: Collection[str], measure: str | None = None
) -> list[str]:
    """A sentence for each method that is not significantly better than pooled trees."""
    trees = [found.name for found in comparison if found.name in _TREES]
    found = comparison.differences(measure, reference=trees[0]) if trees else []
    return [
        _warning(difference)
        for difference in found
        if difference.name in chosen and difference.n_folds and difference.verdict != "better"
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

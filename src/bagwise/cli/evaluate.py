"""``bagwise evaluate``: cross-validation of methods, with the plain baselines beside them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from bagwise._methods import METHODS, find_method, make_model
from bagwise.cli import options
from bagwise.cli.output import computing, note, print_json, print_lines, print_table

if TYPE_CHECKING:
    from bagwise.model_selection import Comparison, Difference

_TREES = ("pooled-trees", "baseline: pooled trees")  # as one of the methods, or beside them
_UNINFORMED = ("baseline: majority", "baseline: frequencies")


def evaluate(
    file: options.File,
    columns: options.Columns,
    method: options.MethodNames = None,
    positive: options.Positive = None,
    group: options.Group = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="How often the folds are drawn anew.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first draw.")] = 0,
    baseline: options.Baselines = None,
    no_scale: options.NoScale = False,
    parameters: options.Parameters = None,
    json: options.Json = False,
) -> None:
    """Cross-validate methods, with the plain baselines beside them.

    Reads a file of labelled bags and writes nothing. All methods and baselines have the same
    folds, stratified by label; with --group, bags of one group stay together, such as the slides of
    a patient. Instances are standardised inside the folds. Each score is shown as its mean and
    standard deviation over the folds, then each difference to the first method with its interval
    (corrected resampled t-test) and probabilities. Baselines: the commonest label, and trees on
    pooled statistics (mean, min, max and std of each feature), with a warning where a method is not
    better than these trees.

    ```
    bagwise evaluate musk1.csv
    bagwise evaluate musk1.csv -m nsk --set C=10
    bagwise evaluate musk1.csv -m nsk -m mind --repeats 2 --set nsk.C=10
    bagwise evaluate musk1.csv -m citation-knn --folds 3 --baseline sil --json
    bagwise evaluate words.csv --label-set label_set -m citation-knn
    ```
    """
    from scipy.sparse import issparse

    from bagwise._methods.ready_made import BASELINES, affordable_baselines, baselines
    from bagwise.cli.reading import positive_note, read_labelled
    from bagwise.model_selection import compare
    from bagwise.model_selection._folds import make_folds

    chosen = {found.name: found for found in map(find_method, method or ["auto"])}
    values = options.parse_parameters(parameters)
    settings = options.parameters_by_method(values, chosen)
    beside = dict.fromkeys([*BASELINES, *(baseline or ())])
    baselines(label_sets=False, names=beside)
    for name, found in chosen.items():  # wrong names and parameters are refused before reading
        found.make(settings[name])
    bags, known, groups = read_labelled(file, columns, positive=positive, group=group)
    has_sets, sparse = known.has_sets, issparse(bags.instances)
    y = known.values if positive is None else known.codes
    for found in chosen.values():
        found.check_labels(label_sets=has_sets)
    splits = make_folds(y, n_folds=folds, n_repeats=repeats, seed=seed, groups=groups)
    models = {
        name: make_model(found, settings[name], scale=not no_scale, sparse=sparse)
        for name, found in chosen.items()
    }
    names = affordable_baselines(bags, beside)
    for name, model in baselines(label_sets=has_sets, sparse=sparse, names=names).items():
        if name.replace(" ", "-") not in chosen:
            models[f"baseline: {name}"] = model
    with computing("Cross-validating", total=len(models) * len(splits)) as step:
        comparison = compare(models, bags, y, cv=splits, groups=groups, after_fold=step)
    differences = comparison.differences()
    warnings = _warnings(comparison, chosen)
    if json:
        facts = {"file": str(file), "bags": len(bags), "classes": known.classes.tolist()}
        facts |= {"group": group, "folds": folds, "repeats": repeats, "seed": seed}
        facts |= {"parameters": values, "methods": [found.summary() for found in comparison]}
        facts |= {"differences": [difference.summary() for difference in differences]}
        print_json(facts | {"warnings": warnings})
    else:
        times = f", {repeats} times" if repeats > 1 else ""
        whole = f", each {group} in one fold" if group is not None else ""
        setting = f"{len(bags)} bags{positive_note(known)}, {folds} folds{times}{whole}"
        print_table(comparison.table(), title=f"{setting}: mean ± sd")
        shown = [str(found) for found in differences if found.name not in _UNINFORMED]
        print_lines(line.removeprefix("baseline: ") for line in shown)
    for warning in warnings:
        note(f"Warning: {warning}")


def _warnings(comparison: Comparison, chosen: Collection[str]) -> list[str]:
    """A sentence for each method that is not better than trees on pooled statistics."""
    trees = [found.name for found in comparison if found.name in _TREES]
    if not trees:
        return []
    return [
        _warning(found)
        for found in comparison.differences(reference=trees[0])
        if found.name in chosen and (found.mean <= 0 or found.better < 0.5)
    ]


def _warning(difference: Difference) -> str:
    name, size = difference.name, f"{abs(difference.mean):.3f} {difference.measure}"
    if difference.mean > 0:
        verdict = (
            f"{name} is not clearly better than pooled trees: by {size} in the same folds, better "
            f"with a probability of {difference.better:.0%}"
        )
    elif difference.mean < 0:
        verdict = f"pooled trees are better than {name} by {size} in the same folds"
    else:
        verdict = f"pooled trees are as good as {name} in the same folds"
    auto = "auto" in METHODS and name != "auto"
    return f"{verdict}; try -m {'auto' if auto else 'pooled-trees'}."

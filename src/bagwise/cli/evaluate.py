"""``bagwise evaluate``: cross-validation, with the plain baselines beside the model."""

from typing import Annotated

import typer

from bagwise._methods import find_method, make_model
from bagwise.cli import options
from bagwise.cli.output import computing, print_json, print_table


def evaluate(
    file: options.File,
    method: options.MethodName,
    columns: options.Columns,
    positive: options.Positive = None,
    group: options.Group = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="How often the folds are drawn anew.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first draw.")] = 0,
    no_scale: options.NoScale = False,
    parameters: options.Parameters = None,
    json: options.Json = False,
) -> None:
    """Cross-validate a method, with the plain baselines beside it.

    Reads a file of labelled bags and writes nothing. Folds are stratified by label; with --group,
    bags of one group stay together, such as the slides of a patient. Instances are standardised
    inside the folds. Without --json, each score is shown as its mean and standard deviation over
    the folds.

    ```
    bagwise evaluate musk1.csv -m nsk --set C=10
    bagwise evaluate musk1.csv -m citation-knn --folds 3 --repeats 2 --json
    bagwise evaluate words.csv --label-set label_set -m citation-knn
    ```
    """
    from scipy.sparse import issparse

    from bagwise._methods.ready_made import baselines
    from bagwise.cli.reading import positive_note, read_labelled
    from bagwise.model_selection import compare
    from bagwise.model_selection._folds import make_folds

    chosen = find_method(method)
    values = options.parse_parameters(parameters)
    chosen.make(values)  # a wrong parameter is refused before a long reading
    bags, known, groups = read_labelled(file, columns, positive=positive, group=group)
    has_sets, sparse = known.has_sets, issparse(bags.instances)
    y = known.values if positive is None else known.codes
    chosen.check_labels(label_sets=has_sets)
    splits = make_folds(y, n_folds=folds, n_repeats=repeats, seed=seed, groups=groups)
    models = {chosen.name: make_model(chosen, values, scale=not no_scale, sparse=sparse)} | {
        f"baseline: {name}": model
        for name, model in baselines(label_sets=has_sets, sparse=sparse).items()
    }
    with computing("Cross-validating", total=len(models) * len(splits)) as step:
        evaluations = compare(models, bags, y, cv=splits, after_fold=step)
    if json:
        facts = {"file": str(file), "bags": len(bags), "classes": known.classes.tolist()}
        facts |= {"group": group, "folds": folds, "repeats": repeats, "seed": seed}
        facts |= {"parameters": values, "methods": [found.summary() for found in evaluations]}
        print_json(facts)
        return
    times = f", {repeats} times" if repeats > 1 else ""
    whole = f", each {group} in one fold" if group is not None else ""
    setting = f"{len(bags)} bags{positive_note(known)}, {folds} folds{times}{whole}"
    print_table(evaluations.table(), title=f"{setting}: mean ± sd")

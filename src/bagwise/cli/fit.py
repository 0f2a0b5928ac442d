"""``bagwise fit``: learn a model from a file of labelled bags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bagwise.auto._methods import Method, find_method, make_model
from bagwise.cli import options
from bagwise.cli.corrections import read_known
from bagwise.cli.numbers import Task, check_task, make_for_task, target_of
from bagwise.cli.output import (
    computing,
    note,
    note_features,
    print_json,
    print_table,
    refuse_existing,
)
from bagwise.exceptions import InputError

if TYPE_CHECKING:
    from bagwise.bags import Bags


def fit(
    file: options.File,
    output: Annotated[Path, options.output_option("MODEL", "The model, a .skops file.")],
    columns: options.Columns,
    steps: options.Steps,
    method: options.MethodName = "auto",
    task: Task = None,
    positive: options.Positive = None,
    group: options.Group = None,
    folds: Annotated[
        int | None,
        options.option(
            metavar="N", min=2, help="Number of folds on which auto compares methods; 5 by default."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        options.option(metavar="N", min=0, help="Seed of the folds and of randomised methods."),
    ] = None,
    background: options.Background = False,
    noisy_sets: options.NoisySets = False,
    parameters: options.Parameters = None,
    memory_limit: options.MemoryLimit = None,
    checkpoint: options.CheckpointFile = None,
    corrections: options.Corrections = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Fit a model to labelled bags.

    Reads a file with a row per instance, or an npz or HDF5 file of bags; bags without a label are
    left out. Writes the model to a .skops file, with the names of its columns, for `bagwise
    predict`. Without -m several methods are calibrated and combined, and a table shows the score
    and weight of each; --group keeps the bags of a group in one fold of this comparison. Instances
    are standardised unless --no-scale is given. A label column with many different numbers is a
    regression target (--task). With --corrections, known labels of instances are kept fixed
    (-m orlr).

    ```
    bagwise fit musk1.csv -o auto.skops
    bagwise fit musk1.csv -m nsk --set C=10 -o model.skops
    ```
    """
    refuse_existing([output], force=force, inputs=[file])

    from bagwise.base._pipelines import fit_arguments
    from bagwise.cli.reading import note_width, positive_note, read_labelled
    from bagwise.extras import import_extra
    from bagwise.persistence import save_model

    import_extra("skops.io", extra="persist")  # fail now rather than after a long fit
    chosen = find_method(method)
    flags = options.annotator_parameters(chosen, background=background, noisy_sets=noisy_sets)
    values = flags | options.parse_parameters(parameters) | _drawn(chosen, folds, seed)
    settings = values if checkpoint is None else values | {"checkpoint": str(checkpoint)}
    check_task(task, positive)
    estimator = make_for_task(chosen, settings, task)
    corrected = read_known(corrections, estimator, chosen.name)
    if group is not None and not fit_arguments(estimator, groups=group):
        raise InputError(
            f"--group is for methods that hold out bags during a fit (auto, attention): "
            f"{chosen.name} does not. Use --keep {group} to copy the column to the results."
        )
    bags, labels, groups = read_labelled(
        file,
        columns,
        positive=positive,
        group=group,
        memory_limit=memory_limit,
        corrected=corrected,
        allow_nan=steps.impute is not None,
    )
    chosen.check_labels(label_sets=labels.has_sets)
    target = target_of(labels, task, columns, positive)
    chosen = chosen.for_numbers() if target.is_number else chosen
    if chosen.name != "pooled-trees":
        note_width(bags, steps.components)
    model = make_model(chosen, settings, sparse=bags.is_sparse, **steps.arguments)
    names = range(2) if target.coded else labels.classes.tolist()
    y, known = (labels.tolist() if labels.has_sets else target.y), None
    if corrected is not None:
        written = dict(zip(labels.names, names, strict=True))
        known = corrected.match(bags, written, values.get("background"))
        y = corrected.extend(y, known, bags, names) if labels.has_sets else y
    with computing(f"Fitting {chosen.name} on {len(bags)} bags"):
        model.fit(bags, y, **fit_arguments(model, instance_labels=known, groups=groups))
    note_features(bags)
    if checkpoint is not None:  # the file is deleted, so the saved model must not name it
        model.set_params(**{n: None for n in model.get_params() if n.endswith("checkpoint")})
    facts = {
        "method": chosen.name,
        "parameters": values,
        "task": target.task,
        "classes": target.classes if target.coded else None,
        "columns": {k: v for k, v in vars(columns).items() if k not in ("labels", "missing")},
        "impute": steps.impute,
        "corrections": sum(label is not None for label in known or ()),
    }
    save_model(model, output, metadata=facts | _training(bags), force=force)
    which = "" if target.is_number else positive_note(labels)
    if not json:
        _show_leaderboard(model)
    note(f"{chosen.name} learned from {len(bags)} bags{which}: {output}")
    if json:
        print_json({"model": output, **facts, **_summary(model, bags), "classes": target.classes})


def _training(bags: Bags) -> dict[str, list[str]]:
    """Fingerprints by which a report recognises the bags; none if there are too many bags."""
    from bagwise.persistence import MOST_MARKS, fingerprints

    return {"training": fingerprints(bags)} if len(bags) <= MOST_MARKS else {}


def _show_leaderboard(model: Any) -> None:
    """Show the score and weight of each method, if several were compared."""
    from bagwise.base._pipelines import final_estimator
    from bagwise.report._cells import LEADERBOARD_CAPTION, leaderboard_columns

    leaderboard = getattr(final_estimator(model), "leaderboard_", None)
    if leaderboard is not None:
        print_table(leaderboard_columns(leaderboard), title=LEADERBOARD_CAPTION)


def _summary(model: Any, bags: Bags) -> dict[str, Any]:
    """The size of the training data, and the leaderboard if there is one, for ``--json``."""
    from bagwise.base._pipelines import final_estimator

    leaderboard = getattr(final_estimator(model), "leaderboard_", None)
    return {
        **_training(bags),
        **({} if leaderboard is None else {"leaderboard": leaderboard}),
        "bags": len(bags),
        "instances": bags.n_instances,
        "features": bags.n_features,
        "feature_names": bags.feature_names,
    }


def _drawn(method: Method, folds: int | None, seed: int | None) -> dict[str, int]:
    """``--folds`` and ``--seed`` as parameters of the method; an error if it lacks them."""
    given = {"cv": ("--folds", folds), "random_state": ("--seed", seed)}
    found = {}
    for name, (option, value) in given.items():
        if value is None:
            continue
        if name not in method.parameters:
            what = "does not use folds" if name == "cv" else "is not random"
            raise InputError(
                f"{option} does not apply to {method.name}, which {what}: leave it out."
            )
        found[name] = value
    return found

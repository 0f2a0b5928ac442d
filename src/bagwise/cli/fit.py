"""``bagwise fit``: learn a model from a file of labelled bags."""

from pathlib import Path
from typing import Annotated, Any

from bagwise._methods import Method, find_method, make_model
from bagwise.cli import options
from bagwise.cli.corrections import known_labels, read_known, with_known
from bagwise.cli.numbers import Task, check_task, make_for_task, numbers_of
from bagwise.cli.output import (
    computing,
    note,
    note_features,
    print_json,
    print_table,
    refuse_existing,
)
from bagwise.exceptions import InputError


def fit(
    file: options.File,
    output: Annotated[Path, options.output_option("MODEL", "The model, a .skops file.")],
    columns: options.Columns,
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
    pca: options.Pca = None,
    impute: options.Impute = None,
    background: options.Background = False,
    noisy_sets: options.NoisySets = False,
    no_scale: options.NoScale = False,
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
    and weight of each; --group keeps bags of one group in one of the folds on which they are
    compared. Instances are standardised unless --no-scale is given. A label column with many
    different numbers is regression (--task). With --corrections, known labels of instances are kept
    fixed (-m orlr).

    ```
    bagwise fit musk1.csv -o auto.skops
    bagwise fit musk1.csv -m nsk --set C=10 -o model.skops
    bagwise fit musk1.csv -m pdmisvm -o pdmisvm.skops --save-config run.toml
    bagwise fit --config run.toml -o again.skops
    ```
    """
    refuse_existing([output], force=force, inputs=[file])

    from bagwise.base._pipelines import final_estimator, fit_arguments
    from bagwise.cli.reading import has_chosen_order, note_width, positive_note, read_labelled
    from bagwise.extras import import_extra
    from bagwise.persistence import save_model
    from bagwise.persistence._fingerprints import MOST_BAGS, fingerprints
    from bagwise.report._cells import LEADERBOARD_CAPTION, leaderboard_columns

    import_extra("skops.io", extra="persist")  # fail now rather than after a long fit
    chosen = find_method(method)
    components, filled = options.n_components(pca), options.check_impute(impute)
    flags = options.annotator_parameters(chosen, background=background, noisy_sets=noisy_sets)
    values = flags | options.parse_parameters(parameters) | _drawn(chosen, folds, seed)
    settings = values if checkpoint is None else values | {"checkpoint": str(checkpoint)}
    check_task(task, positive)
    estimator = make_for_task(chosen, settings, task)
    corrected = read_known(corrections, estimator, chosen.name)
    if group is not None and not fit_arguments(estimator, groups=group):
        raise InputError(
            f"--group is for auto, which compares methods on folds: {chosen.name} needs none."
        )
    bags, y, groups = read_labelled(
        file,
        columns,
        positive=positive,
        group=group,
        memory_limit=memory_limit,
        corrected=corrected,
        allow_nan=filled is not None,
    )
    chosen.check_labels(label_sets=y.has_sets)
    numbers = numbers_of(y, task, name=columns.label) if positive is None else None
    if numbers is not None:
        chosen = chosen.for_numbers()
    if chosen.name != "pooled-trees":
        note_width(bags, components)
    model = make_model(
        chosen, settings, scale=not no_scale, sparse=bags.is_sparse, pca=components, impute=filled
    )
    classes = y.classes.tolist() if numbers is None else []
    # With --pos-label the model learns 0 and 1: it sorts its classes.
    coded = has_chosen_order(y, positive)
    names = range(2) if coded else y.classes.tolist()
    known = known_labels(
        corrected, bags, dict(zip(y.names, names, strict=True)), background=values.get("background")
    )
    targets: Any = y.codes if coded else y.values
    if y.has_sets:
        targets = with_known(y.tolist(), known, bags, names)
    targets = targets if numbers is None else numbers
    with computing(f"Fitting {chosen.name} on {len(bags)} bags"):
        model.fit(bags, targets, **fit_arguments(model, instance_labels=known, groups=groups))
    note_features(bags)
    if checkpoint is not None:  # which is gone, and of no meaning where the model is used
        model.set_params(**{n: None for n in model.get_params() if n.endswith("checkpoint")})
    facts = {
        "method": chosen.name,
        "parameters": values,
        "task": "classification" if numbers is None else "regression",
        "classes": classes if coded else None,
        "columns": {k: v for k, v in vars(columns).items() if k not in ("labels", "missing")},
        "impute": filled,
        "corrections": sum(label is not None for label in known or ()),
    }
    if len(bags) <= MOST_BAGS:
        facts["training"] = fingerprints(bags)  # so that a report recognises them
    save_model(model, output, metadata=facts, force=force)
    leaderboard = getattr(final_estimator(model), "leaderboard_", None)
    if leaderboard is not None and not json:
        print_table(leaderboard_columns(leaderboard), title=LEADERBOARD_CAPTION)
    which = positive_note(y) if numbers is None else ""
    note(f"{chosen.name} learned from {len(bags)} bags{which}: {output}")
    if json:
        size = {"bags": len(bags), "instances": bags.n_instances}
        named = {"features": bags.n_features, "feature_names": bags.feature_names}
        facts |= {} if leaderboard is None else {"leaderboard": leaderboard}
        print_json({"model": output, **facts, **size, **named, "classes": classes})


def _drawn(method: Method, folds: int | None, seed: int | None) -> dict[str, int]:
    """``--folds`` and ``--seed`` as parameters of the method; refused where it has none."""
    given = {"cv": ("--folds", folds), "random_state": ("--seed", seed)}
    found = {}
    for name, (option, value) in given.items():
        if value is None:
            continue
        if name not in method.parameters:
            what = "compares nothing on folds" if name == "cv" else "draws nothing at random"
            raise InputError(f"{option} is not for {method.name}, which {what}: leave it out.")
        found[name] = value
    return found

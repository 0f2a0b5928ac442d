"""``bagwise fit``: learn a model from a file of labelled bags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bagwise.auto._methods import find_method, make_model
from bagwise.cli import options
from bagwise.cli.output import note, print_table, progress, refuse_existing
from bagwise.exceptions import InputError


def fit(
    columns: options.Columns,
    steps: options.Steps,
    task: options.Task,
    file: Path = options.FILE,
    output: Path = options.output("The model, a .skops file.", "MODEL"),
    method: str = options.methods(".", "auto"),
    group: str | None = options.GROUP,
    folds: int | None = options.option("Number of folds of auto, 5 by default.", "N", min=2),
    seed: int | None = options.option("Seed of folds and random methods.", "N", min=0),
    background: bool = options.BACKGROUND,
    noisy_sets: bool = options.NOISY_SETS,
    parameters: list[str] | None = options.PARAMETERS,
    checkpoint: Path | None = options.option("File to continue from after a crash.", "PATH"),
    corrections: Path | None = options.CORRECTIONS,
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Fit a model to labelled bags.

    Reads a file with a row per instance, or an npz or HDF5 file of bags; bags without a label are
    left out. Writes the model to a .skops file, with the names of its columns, for `bagwise
    predict`. Without -m several methods are calibrated and combined, and a table shows the score
    and weight of each; --group keeps the bags of a group in one fold of this comparison. Instances
    are standardised unless --no-scale is given. A label column with many different numbers is a
    regression target (--task), also if some are bounds, such as <5, >=10 or 4-6. --order 0,1,2,3
    makes the labels grades. With --corrections, known labels of instances are kept fixed
    (-m orlr). --checkpoint saves the state of a long fit at intervals, and the same command
    continues from it (pdmisvm, orlr, noisy-or, mimlca, plda).

    ```
    bagwise fit musk1.csv -o auto.skops
    bagwise fit musk1.csv -m nsk --set C=10 -o model.skops
    ```
    """
    refuse_existing([output], force=force, inputs=[file])

    from bagwise._common.extras import import_extra
    from bagwise.base._pipelines import final_estimator, fit_arguments
    from bagwise.cli import reading
    from bagwise.persistence import MOST_MARKS, fingerprints, save_model
    from bagwise.report._sections import LEADERBOARD_CAPTION, leaderboard_columns

    import_extra("skops.io", extra="persist")  # fail now rather than after a long fit
    chosen = find_method(method)
    own: Any = {"background": background, "noisy_sets": noisy_sets, "folds": folds, "seed": seed}
    values = options.own_parameters(chosen, **own) | options.parse_parameters(parameters)
    settings = values if checkpoint is None else values | {"checkpoint": str(checkpoint)}
    estimator = reading.make_for_task(chosen, settings, task.task)
    corrected = reading.read_known(corrections, estimator, chosen.name)
    if group is not None and not fit_arguments(estimator, groups=group):
        raise InputError(
            f"--group is for methods that hold out bags (auto, attention), not for {chosen.name}: "
            f"--keep {group} copies the column to the results."
        )
    bags, labels, groups = reading.read_labelled(
        file, columns, positive=task.positive, group=group, corrected=corrected
    )
    reading.check_features(bags, steps, wide=chosen.name != "pooled-trees")
    chosen.check_labels(label_sets=labels.has_sets)
    target = reading.target_of(labels, task, columns)
    chosen = chosen.for_numbers() if target.is_number else chosen
    made: Any = {"around": target.around, "sparse": bags.is_sparse} | steps.arguments
    model = make_model(chosen, settings, **made)
    y, known = (labels.tolist() if labels.has_sets else target.y), None
    if corrected is not None:
        names = range(2) if target.coded else labels.classes.tolist()
        written = dict(zip(labels.names, names, strict=True))
        known = corrected.match(bags, written, values.get("background"))
    with progress(f"Fitting {chosen.name} on {len(bags)} bags"):
        model.fit(bags, y, **fit_arguments(model, instance_labels=known, groups=groups))
    if checkpoint is not None:  # the file is deleted, so the saved model must not name it
        model.set_params(**{n: None for n in model.get_params() if n.endswith("checkpoint")})
    facts = {
        "method": chosen.name,
        "parameters": values,
        "task": target.task,
        "classes": target.classes if target.coded else None,
        "columns": columns.saved,
        "impute": steps.impute,
        "corrections": sum(label is not None for label in known or ()),
    }
    if len(bags) <= MOST_MARKS:  # by which a report recognises the bags
        facts["training"] = fingerprints(bags)
    save_model(model, output, metadata=facts, force=force)
    leaderboard = getattr(final_estimator(model), "leaderboard_", None)
    if leaderboard is not None:
        facts["leaderboard"] = leaderboard
        print_table(leaderboard_columns(leaderboard), title=LEADERBOARD_CAPTION)
    note(f"{chosen.name} learned from {len(bags)} bags{target.positive}: {output}")
    facts |= {"bags": len(bags), "instances": bags.n_instances, "features": bags.n_features}
    return facts | {"model": output, "feature_names": bags.feature_names, "classes": target.classes}

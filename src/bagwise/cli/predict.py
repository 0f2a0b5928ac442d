"""``bagwise predict``: predictions of a saved model for the bags of a file."""

from collections import Counter
from pathlib import Path
from typing import Any

from bagwise.cli import options
from bagwise.cli.output import note, progress, refuse_existing
from bagwise.exceptions import InputError, counted


def predict(
    saved: options.Saved,
    columns: options.Columns,
    label_files: options.LabelFiles,
    output: Path = options.output("Predictions of bags, .parquet, .csv or .tsv.", "FILE"),
    background_above: float | None = options.BACKGROUND_ABOVE,
    coverage: float | None = options.option(
        "Add sets or intervals that hold for P of new bags.", "P", min=0, max=1
    ),
    keys: Path | None = options.option("Also write key conformers, .sdf.", "SDF"),
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Predict the bags of a file, with the key instance of each.

    Reads a model and a file with the feature columns it was fitted on; labels are not needed.
    Writes a row per bag: the prediction, its score, the row of the key instance, and like_training,
    a p-value that is small for bags that are unlike the training bags. If the model
    scores instances, -o out.parquet also writes their scores to out.instances.parquet, with the
    coordinates x and y, or the start and end of a clip, if the file has them. Columns of --keep,
    here or in the fit, are copied to both files; for a column that varies inside a bag, the row of
    the bag has the value of the key instance (key_...). For regression models that do not score
    instances, out.instances.parquet has contributions: the weight of each instance in a linear
    approximation of the prediction on random subsets of its bag or, if there are more than 12,000
    instances, the prediction for a bag with it alone. --raven and --audacity write the labels of
    sound clips, as `bagwise annotate` does; --keys the key conformers of `bagwise conformers`.
    --coverage .9 adds, for models fitted without -m, the column set with the classes of which one
    is right for 90 % of new bags, for numbers the ends lower and upper of an interval.

    ```
    bagwise predict model.skops musk1.csv -o predicted.csv
    bagwise predict model.skops musk1.csv -o predicted.parquet --json
    bagwise predict auto.skops musk1.csv --coverage .9 -o sets.csv
    ```
    """
    from bagwise.io._write_table import file_beside, write_columns

    beside = file_beside(output, "instances")
    more = [] if keys is None else [keys]
    refuse_existing([output, beside, *more], force=force, inputs=[saved.model, saved.file])
    from bagwise.cli import results
    from bagwise.cli.reading import open_saved
    from bagwise.predictions import Predictions
    from bagwise.predictions._predictions import label_columns, refuse_background_above

    model, facts, data = open_saved(saved, columns, labelled=False)
    bags = data.bags
    found = Predictions(model, bags, classes=facts.get("classes"))
    if background_above is None:  # chosen by checked instances
        background_above = facts.get("background_above")
    found.temperature = facts.get("temperature")
    refuse_background_above(found.estimator, background_above)
    folders = results.check_folders(label_files, data, force=force)
    if folders and not hasattr(found.estimator, "predict_proba_instances"):
        raise InputError("--raven and --audacity need probabilities of instances: fit -m orlr.")
    with progress(f"Predicting {counted(len(bags), 'bag')}"):
        separator = facts.get("columns", {}).get("separator") or ";"
        table = found.bag_table(separator=separator, coverage=coverage)
        instances: dict[str, Any] | None = None
        if found.scores_instances:
            instances = found.instance_table(background_above=background_above, separator=separator)
        elif found.is_regressor and "predicted" in table:  # one number
            of_bags, instances = found.contribution_tables()
            table |= of_bags
        table = results.kept_of_bags(table, data)
        instances = None if instances is None else results.with_places(instances, data)
    written = [output]
    write_columns(output, table, force=force)
    note(f"{counted(len(bags), 'bag')}: {output}")
    if n_empty := list(table.get("set", [])).count("{}"):
        note(f"{n_empty} sets are {{}}: no class is plausible, unlike the training or in between.")
    if instances is None:
        name = type(found.estimator).__name__
        kind = name if "predicted" in table else "a model of several numbers"
        note(f"No file of instances, because {kind} does not score them.")
    else:
        written += [beside, *folders.values()]
        write_columns(beside, instances, force=force)
        note(f"{counted(bags.n_instances, 'instance')}: {beside}")
        if folders:
            named = instances | label_columns(instances, separator)
            results.write_folders(
                folders, data, named, background=found.background_name, force=force
            )
    if keys is not None:
        from bagwise.apps.chem._conformers import write_keys

        write_keys(saved.file.with_suffix(".sdf"), keys, table, force=force)
        note(f"key conformers of {counted(len(bags), 'molecule')}, for PyMOL: {keys}")
        written.append(keys)
    numbers = [values.tolist() for name, values in table.items() if name.startswith("predicted")]
    predicted: list[Any] = numbers[0] if len(numbers) == 1 else [*zip(*numbers, strict=True)]
    counts: Any = Counter(map(str, predicted))
    if found.is_regressor:
        counts = dict(zip(map(str, bags.names), predicted, strict=True))
    size = {"bags": len(bags), "instances": bags.n_instances, "predicted": counts}
    facts = {"model": saved.model, "file": saved.file, **size, "written": written}
    return facts | results.say_held_out(model)

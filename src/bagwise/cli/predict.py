"""``bagwise predict``: predictions of a saved model for the bags of a file."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from bagwise.cli import options
from bagwise.cli.output import (
    note,
    note_features,
    print_json,
    progress,
    refuse_existing,
    with_places,
)
from bagwise.cli.recordings import check_folders, write_folders
from bagwise.exceptions import InputError


def predict(
    model: options.ModelFile,
    file: options.File,
    output: Annotated[
        Path,
        options.output_option(
            "FILE", "Predictions of bags, .parquet, .csv or .tsv; instances go to a second file."
        ),
    ],
    bag: options.Bag = None,
    background_above: options.BackgroundAbove = None,
    labels: Annotated[
        Path | None,
        options.column("A second table, with the columns of --merge and --keep.", "TABLE"),
    ] = None,
    missing: options.Missing = None,
    id_column: options.IdColumn = None,
    merge: options.Merge = None,
    keep: options.Keep = None,
    raven: options.Raven = None,
    audacity: options.Audacity = None,
    memory_limit: options.MemoryLimit = None,
    trust: options.Trust = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Predict the bags of a file, with the key instance of each.

    Reads a model and a file with the feature columns it was fitted on; labels are not needed.
    Writes a row per bag: the prediction, its score, and the row of the key instance. If the model
    scores instances, -o out.parquet also writes their scores to out.instances.parquet, with the
    coordinates x and y, or the start and end of a clip, if the file has them. Columns of --keep,
    here or in the fit, are copied to both files; for a column that varies inside a bag, the row of
    the bag has the value of the key instance (key_...). For regression models that do not score
    instances, out.instances.parquet has contributions: the weight of each instance in a linear
    approximation of the prediction on random subsets of its bag. --raven and --audacity write the
    labels of sound clips, as `bagwise annotate` does.

    ```
    bagwise predict model.skops musk1.csv -o predicted.csv
    bagwise predict model.skops musk1.csv -o predicted.parquet --json
    ```
    """
    from bagwise.io.write_table import file_beside, write_columns

    model, file = options.model_and_file(model, file)
    beside = file_beside(output, "instances")
    refuse_existing([output, beside], force=force, inputs=[model, file])
    from bagwise.base._pipelines import final_estimator
    from bagwise.cli.reading import kept_of_bags, open_model, read_for_model
    from bagwise.predictions import Predictions
    from bagwise.predictions._predictions import label_columns, refuse_background_above

    fitted, metadata = open_model(model, trust)
    refuse_background_above(final_estimator(fitted), background_above)
    columns = options.Columns(
        bag=bag, labels=labels, missing=missing, id_column=id_column, merge=merge, keep=keep
    )
    data = read_for_model(
        file, fitted, metadata, columns, labelled=False, memory_limit=memory_limit
    )
    bags = data.bags
    folders = check_folders(raven, audacity, data, force=force)
    if folders and not hasattr(final_estimator(fitted), "predict_proba_instances"):
        raise InputError(
            "--raven and --audacity need a model with probabilities of instances: fit -m orlr."
        )
    classes = metadata.get("classes")
    with progress(f"Predicting {len(bags)} bags"):
        separator = metadata.get("columns", {}).get("separator", ";")
        found = Predictions(fitted, bags, classes=classes)
        predictions = found.bag_table(separator=separator)
        instances = None
        if found.scores_instances:
            instances = found.instance_table(background_above=background_above)
        elif found.is_regressor:
            of_bags, instances = found.contribution_tables(note)
            predictions |= of_bags
        if instances is not None:
            instances = with_places(instances, data)
        predictions = kept_of_bags(predictions, data)
    write_columns(output, predictions, force=force)
    note_features(bags)
    note(f"{len(bags)} bags: {output}")
    if instances is not None:
        write_columns(beside, instances, force=force)
        note(f"{bags.n_instances} instances: {beside}")
        nothing = found.background_name if folders else None
        named = label_columns(instances) if folders else {}
        write_folders(folders, data, instances | named, background=nothing, force=force)
    if json:
        written = [output] if instances is None else [output, beside, *folders.values()]
        predicted = predictions["predicted"].tolist()
        counts: Any = Counter(map(str, predicted))
        if found.is_regressor:
            counts = dict(zip(map(str, bags.names), predicted, strict=True))
        facts = {"model": model, "file": file, "bags": len(bags), "instances": bags.n_instances}
        print_json(facts | {"predicted": counts, "written": written})

"""``bagwise report``: one page about a saved model and the bags of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.cli import options
from bagwise.cli.output import note, note_features, print_json, progress, refuse_existing
from bagwise.exceptions import InputError, LabelError

if TYPE_CHECKING:
    from bagwise._common.types import Floats
    from bagwise.io.contents import Contents
    from bagwise.labels import Labels
    from bagwise.model_selection import HeldOut
    from bagwise.report import Media


def report(
    model: options.ModelFile,
    file: options.File,
    output: Annotated[Path, options.output_option("PAGE", "The page, .html.")],
    columns: options.Columns,
    group: options.Group = None,
    folds: Annotated[
        int,
        options.option(
            "--folds",
            "--cv",
            metavar="N",
            min=0,
            help="Refit the model in N folds, and show metrics on held-out bags.",
        ),
    ] = 0,
    seed: options.Seed = 0,
    image: options.Image = None,
    audio: options.Audio = None,
    text: options.Text = None,
    source: Annotated[
        str | None, options.column("Column with the image that an instance is part of.")
    ] = None,
    box: Annotated[
        str | None,
        options.column(
            "Four columns: the box of an instance in its --source, in pixels.", "X,Y,WIDTH,HEIGHT"
        ),
    ] = None,
    coords: Annotated[
        str | None,
        options.column(
            "Two columns with the position of each row, for tables without `coords`.", "X,Y"
        ),
    ] = None,
    per_bag: Annotated[
        int,
        typer.Option(min=1, help="Number of instances per bag that are shown with their media."),
    ] = 6,
    budget: Annotated[
        str, typer.Option(metavar="SIZE", help="Maximum size of the media in the page.")
    ] = "20MB",
    title: Annotated[str | None, options.option(help="Title of the page.")] = None,
    memory_limit: options.MemoryLimit = None,
    trust: options.Trust = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write an HTML report: data, metrics, and every bag with its key instance.

    Reads a model and a file with the same columns; labels are optional. Writes a page that opens
    from disk and needs no network. Without --folds the model is evaluated on the bags it was not
    fitted on; if there are none, the page warns that its metrics are optimistic. For regression the
    page shows errors and a plot of predicted against observed numbers. Images, sounds or texts of
    instances are shown if their columns are given. Files with `coords` (TRIDENT, CLAM) get a heat
    map of each bag; clips (file, start, end) are played if their WAV files are found.

    ```
    bagwise report model.skops musk1.csv -o report.html
    bagwise report model.skops musk1.csv --folds 5 --title "Musk" -o held-out.html
    ```
    """
    model, file = options.model_and_file(model, file)
    refuse_existing([output], force=force, inputs=[model, file])
    from bagwise._common.memory import byte_count
    from bagwise.base._pipelines import predicts_numbers
    from bagwise.cli.heatmap import places
    from bagwise.cli.numbers import known_numbers
    from bagwise.cli.reading import labels_for, open_model, read_for_model
    from bagwise.extras import import_extra
    from bagwise.report import Report

    import_extra("jinja2", extra="report")
    fitted, metadata = open_model(model, trust)
    edges = [] if box is None else [name.strip() for name in box.split(",")]
    if edges and (len(edges) != 4 or source is None):
        raise InputError(
            f"--box {box}: expected four columns as x,y,width,height, and --source for the image "
            "they lie in."
        )
    axes = [] if coords is None else [name.strip() for name in coords.split(",")]
    if coords is not None and len(axes) != 2:
        raise InputError(f"--coords {coords}: expected two columns, as x,y.")
    named = {"images": image, "audio": audio, "texts": text, "sources": source}
    shown = {kind: name for kind, name in named.items() if name is not None}
    extra = [*shown.values(), *edges, *axes]
    data = read_for_model(
        file, fitted, metadata, columns, group=group, memory_limit=memory_limit, extra_columns=extra
    )
    numbers = predicts_numbers(fitted)
    y = known_numbers(data.labels) if numbers else labels_for(fitted, data, metadata)
    held_out = None
    if folds:
        predict: Any = _held_out_numbers if numbers else _held_out
        held_out = predict(fitted, data, y, folds=folds, seed=seed, impute=metadata.get("impute"))
    method = metadata.get("method")
    facts = {"file": str(file), "model file": str(model), "method": method}
    page = Report(
        fitted,
        data.bags,
        y,
        title=title or f"{method or 'A model'} on {file.name}",
        media=_media(file, data, shown, edges, per_bag=per_bag, budget=byte_count(budget)),
        coords=places(data, axes, file) if axes or _has_places(data) else None,
        patch_size=data.patch_sizes,
        groups=data.groups,
        held_out=held_out,
        seen=seen_in_training(data, metadata.get("training")),
        classes=metadata.get("classes"),
        facts={name: value for name, value in facts.items() if value is not None}
        | {"written by": f"bagwise {metadata['bagwise_version']}"},
    )
    with progress(f"Writing a page about {len(data.bags)} bags"):
        page.save(output, force=force)
    size = output.stat().st_size
    shown_size = f"{size / 1e6:.1f} MB" if size > 1e6 else f"{size / 1e3:.0f} kB"
    note_features(data.bags)
    note(f"{len(data.bags)} bags, {shown_size}. Open this page in a browser:")
    if json:
        result = {"model": model, "file": file, "bags": len(data.bags), "bytes": size}
        print_json(result | {"written": [output]})
    else:
        typer.echo(output.resolve())


def seen_in_training(data: Contents, training: list[str] | None) -> list[bool] | None:
    """Which bags the model was fitted on, if its file lists them."""
    from bagwise.persistence import fingerprints

    if training is None:
        return None
    marks = set(training)
    return [mark in marks for mark in fingerprints(data.bags)]


def _held_out(
    fitted: Any,
    data: Contents,
    labels: Labels | None,
    *,
    folds: int,
    seed: int,
    impute: str | None,
) -> HeldOut:
    """Cross-validated predictions of the labelled bags, by the model and by the baselines."""
    from dataclasses import replace

    from sklearn.base import is_classifier

    from bagwise._methods.ready_made import affordable_baselines, baselines
    from bagwise.base import RowEstimator
    from bagwise.base._pipelines import final_estimator
    from bagwise.model_selection._held_out import predictions_of_models

    if not is_classifier(fitted) or isinstance(final_estimator(fitted), RowEstimator):
        raise InputError("--folds is for models that predict the label of a bag: leave it out.")
    if labels is None:
        raise LabelError("--folds needs labels: name their column with label= or label_set=.")
    sparse, names = data.bags.is_sparse, affordable_baselines(data.bags)
    beside = baselines(label_sets=labels.has_sets, sparse=sparse, names=names, impute=impute)
    with progress("Cross-validating", total=folds * (1 + len(beside))) as step:
        own, *others = predictions_of_models(
            [fitted, *beside.values()],
            data.bags,
            labels,
            classes=fitted.classes_,
            n_folds=folds,
            seed=seed,
            groups=data.groups,
            after_fold=step,
        )
    return replace(own, baselines=dict(zip(beside, others, strict=True)))


def _held_out_numbers(
    fitted: Any,
    data: Contents,
    numbers: Floats | None,
    *,
    folds: int,
    seed: int,
    impute: str | None,
) -> HeldOut:
    """Cross-validated predictions of a number per bag; bags without a number are left out."""
    from dataclasses import replace

    import numpy as np

    from bagwise._methods.ready_made import affordable_baselines, number_baselines
    from bagwise.model_selection import held_out_predictions
    from bagwise.model_selection._folds import make_folds

    if numbers is None:
        raise LabelError("--folds needs the numbers of the bags: name their column with label=.")
    known = np.isfinite(numbers)
    bags, targets = data.bags[known], numbers[known]
    groups = None if data.groups is None else data.groups[known]
    splits = make_folds(targets, n_folds=folds, seed=seed, groups=groups, numbers=True)
    models = {"": fitted} | number_baselines(affordable_baselines(data.bags), impute=impute)
    with progress("Cross-validating", total=folds * len(models)) as step:
        found = {
            name: held_out_predictions(
                model, bags, targets, cv=splits, groups=groups, after_fold=step
            ).expand(known)
            for name, model in models.items()
        }
    own = found.pop("")
    return replace(own, baselines=found)


def _media(
    path: Path,
    data: Contents,
    shown: dict[str, str],
    edges: list[str],
    *,
    per_bag: int,
    budget: int,
) -> Media | None:
    """The images, sounds and texts of instances; paths are relative to the folder of the table.

    `shown` names the column of each kind, `edges` those of x, y, width and height in the source.
    """
    from bagwise.report import Media

    clips = _clips(path.parent, data, shown.get("audio"))
    if not shown and not clips:
        return None
    lists: dict[str, Any] = {}
    for kind, column in shown.items():
        lists[kind] = values = data.columns[column]
        if kind != "texts":
            lists[kind] = [path.parent / v if v and v.strip() else None for v in values]
    if edges:
        boxes = [_numbers(data.columns[name], name) for name in edges]
        lists["boxes"] = list(zip(*boxes, strict=True))
    return Media(**lists | clips, per_bag=per_bag, budget=budget)


def _clips(folder: Path, data: Contents, column: str | None) -> dict[str, Any]:
    """The recordings of a table of clips, and the start and end of each instance in them."""
    import numpy as np

    from bagwise.apps.audio._recordings import find_recording, recordings

    if data.clips is None:
        return {}
    files = recordings(data)
    if column is not None and list(data.columns[column]) != files:
        return {}  # the column names files that are already cut
    found = {name: find_recording(folder, name) for name in dict.fromkeys(files)}
    if not any(found.values()):
        return {}
    audio = [None if found[name] is None else folder / str(found[name]) for name in files]
    return {"audio": audio, "clips": np.column_stack([data.clips.start, data.clips.end])}


def _has_places(data: Contents) -> bool:
    return data.coords is not None and data.coords.shape[1:] == (2,)


def _numbers(values: list[Any], name: str) -> list[float]:
    try:
        return [float("nan") if value is None else float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise InputError(f"the column {name!r} (asked for with --box) holds no numbers.") from error

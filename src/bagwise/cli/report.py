"""``bagwise report``: one page about a saved model and the bags of a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from bagwise.cli import options
from bagwise.cli.heatmap import Coords, axes_of, column_numbers, places
from bagwise.cli.output import note, note_features, print_json, progress, refuse_existing
from bagwise.exceptions import InputError, LabelError

if TYPE_CHECKING:
    from bagwise.io.contents import Contents
    from bagwise.model_selection import HeldOut


def report(
    model: options.ModelFile,
    file: options.File,
    output: Annotated[Path, options.output_option("PAGE", "The page, .html.")],
    columns: options.Columns,
    group: options.Group = None,
    folds: Annotated[
        int,
        options.option("--folds", "--cv", min=0, help="Refit in N folds: held-out metrics."),
    ] = 0,
    seed: options.Seed = 0,
    image: options.Image = None,
    audio: options.Audio = None,
    text: options.Text = None,
    source: Annotated[
        str | None, options.column("Column with the image that an instance is part of.")
    ] = None,
    box: Annotated[
        str | None, options.column("Columns: the box of an instance in --source.", "X,Y,W,H")
    ] = None,
    coords: Coords = None,
    per_bag: Annotated[int, typer.Option(min=1, help="Instances of a bag shown with media.")] = 6,
    budget: Annotated[str, typer.Option(help="Maximum size of the media in the page.")] = "20MB",
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
    from bagwise.cli.numbers import known_numbers
    from bagwise.cli.reading import labels_for, open_model, read_for_model
    from bagwise.extras import import_extra
    from bagwise.report import Media, Report

    import_extra("jinja2", extra="report")
    n_bytes = byte_count(budget)
    fitted, metadata = open_model(model, trust)
    edges, axes = [] if box is None else [name.strip() for name in box.split(",")], axes_of(coords)
    if edges and (len(edges) != 4 or source is None):
        raise InputError(
            f"--box {box}: expected four columns as x,y,width,height, and --source for the image "
            "they lie in."
        )
    named = {"images": image, "audio": audio, "texts": text, "sources": source}
    shown = {kind: name for kind, name in named.items() if name is not None}
    extra = [*shown.values(), *edges, *axes]
    data = read_for_model(
        file, fitted, metadata, columns, group=group, memory_limit=memory_limit, extra_columns=extra
    )
    y = (
        known_numbers(data.labels)
        if predicts_numbers(fitted)
        else labels_for(fitted, data, metadata)
    )
    impute, method = metadata.get("impute"), metadata.get("method")
    facts = {"file": str(file), "model file": str(model), "method": method}
    facts |= {"written by": f"bagwise {metadata['bagwise_version']}"}
    has_places = data.coords is not None and data.coords.shape[1:] == (2,)
    lists = _media(file.parent, data, shown, edges)
    page = Report(
        fitted,
        data.bags,
        y,
        title=title or f"{method or 'A model'} on {file.name}",
        media=Media(**lists, per_bag=per_bag, budget=n_bytes) if lists else None,
        coords=places(data, axes, file) if axes or has_places else None,
        patch_size=data.patch_sizes,
        groups=data.groups,
        held_out=_held_out(fitted, data, y, folds, seed=seed, impute=impute) if folds else None,
        seen=seen_in_training(data, metadata.get("training")),
        classes=metadata.get("classes"),
        facts={name: value for name, value in facts.items() if value is not None},
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
    fitted: Any, data: Contents, y: Any, folds: int, *, seed: int, impute: str | None
) -> HeldOut:
    """Cross-validated predictions of the labelled bags, by the model and by the baselines."""
    from sklearn.base import is_classifier

    from bagwise.base import RowEstimator
    from bagwise.base._pipelines import final_estimator, predicts_numbers
    from bagwise.model_selection import held_out_predictions
    from bagwise.model_selection._baselines import affordable_baselines, baselines
    from bagwise.model_selection._folds import make_folds
    from bagwise.model_selection._held_out import predictions_of_models

    bags, groups, numbers = data.bags, data.groups, predicts_numbers(fitted)
    if not numbers and (
        not is_classifier(fitted) or isinstance(final_estimator(fitted), RowEstimator)
    ):
        raise InputError("--folds is for models that predict the label of a bag: leave it out.")
    if y is None:
        what = "the numbers of the bags" if numbers else "labels"
        option = "label=" if numbers else "label= or label_set="
        raise LabelError(f"--folds needs {what}: name their column with {option}.")
    beside = baselines(
        label_sets=not numbers and y.has_sets,
        numbers=numbers,
        sparse=bags.is_sparse,
        names=affordable_baselines(bags),
        impute=impute,
    )
    if numbers:
        known = np.isfinite(y)
        own_groups = None if groups is None else groups[known]
        splits = make_folds(y[known], n_folds=folds, seed=seed, groups=own_groups, numbers=True)
    models = [fitted, *beside.values()]
    with progress("Cross-validating", total=folds * len(models)) as step:
        if numbers:
            settings: dict[str, Any] = {"cv": splits, "groups": own_groups, "after_fold": step}
            found = [held_out_predictions(m, bags[known], y[known], **settings) for m in models]
            found = [held_out.expand(known) for held_out in found]
        else:
            settings = {"n_folds": folds, "seed": seed, "groups": groups, "after_fold": step}
            found = predictions_of_models(models, bags, y, classes=fitted.classes_, **settings)
    return replace(found[0], baselines=dict(zip(beside, found[1:], strict=True)))


def _media(folder: Path, data: Contents, shown: dict[str, str], edges: list[str]) -> dict[str, Any]:
    """The images, sounds and texts of instances; paths are relative to the folder of the table.

    `shown` names the column of each kind, `edges` those of x, y, width and height in the source.
    """
    from bagwise.apps.audio._recordings import find_recording, recordings

    lists: dict[str, Any] = {}
    for kind, column in shown.items():
        lists[kind] = values = data.columns[column]
        if kind != "texts":
            lists[kind] = [folder / v if v and v.strip() else None for v in values]
    if edges:
        lists["boxes"] = np.column_stack([column_numbers(data, name) for name in edges])
    if data.clips is None:
        return lists
    files = recordings(data)
    if "audio" in shown and list(data.columns[shown["audio"]]) != files:
        return lists  # the column names files that are already cut
    found = {name: find_recording(folder, name) for name in dict.fromkeys(files)}
    if not any(found.values()):
        return lists
    audio = [None if found[name] is None else folder / str(found[name]) for name in files]
    clips = np.column_stack([data.clips.start, data.clips.end])
    return lists | {"audio": audio, "clips": clips}

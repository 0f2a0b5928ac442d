"""``bagwise report``: one page about a saved model and the bags of a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from bagwise.cli import options
from bagwise.cli.heatmap import axes_of, column_numbers, places
from bagwise.cli.output import note, note_features, print_json, progress, refuse_existing
from bagwise.exceptions import InputError, LabelError

if TYPE_CHECKING:
    from bagwise.evaluate import HeldOut
    from bagwise.io._contents import Contents


def report(
    saved: options.Saved,
    columns: options.Columns,
    media: options.Media,
    output: Path = options.output("The page, .html.", "PAGE"),
    group: str | None = options.GROUP,
    folds: int = options.option(
        "Refit in N folds: held-out metrics.", "N", "--folds", "--cv", default=0, min=0
    ),
    seed: int = options.SEED,
    source: str | None = options.column("Column with the image that an instance is part of."),
    box: str | None = options.column("Columns: the box of an instance in --source.", "X,Y,W,H"),
    coords: str | None = options.COORDS,
    per_bag: int = options.option("Instances of a bag shown with media.", default=6, min=1),
    budget: str = options.option("Maximum size of the media in the page.", default="20MB"),
    title: str | None = options.TITLE,
    force: bool = options.FORCE,
    json: bool = options.JSON,
) -> None:
    """Write an HTML report: data, metrics, and every bag with its key instance.

    Reads a model and a file with the same columns; labels are optional. Writes a page that opens
    from disk and needs no network. Without --folds the model is evaluated on the bags it was not
    fitted on; if there are none, the page warns that its metrics are optimistic. For regression the
    page shows errors and a plot of predicted against observed numbers. Images, sounds or texts of
    instances are shown if their columns are given. Files with `coords` (TRIDENT, CLAM) get a heat
    map of each bag; clips (file, start, end) are played if their sound files are found.

    ```
    bagwise report model.skops musk1.csv -o report.html
    bagwise report model.skops musk1.csv --folds 5 --title "Musk" -o held-out.html
    ```
    """
    file = saved.file
    refuse_existing([output], force=force, inputs=[saved.model, file])
    from bagwise._common.memory import byte_count
    from bagwise.base._pipelines import predicts_numbers
    from bagwise.cli.numbers import known_numbers
    from bagwise.cli.reading import labels_for, open_saved
    from bagwise.extras import import_extra
    from bagwise.report import Media, Report

    import_extra("jinja2", extra="report")
    n_bytes, axes = byte_count(budget), axes_of(coords)
    edges = [] if box is None else [name.strip() for name in box.split(",")]
    if edges and (len(edges) != 4 or source is None):
        raise InputError(
            f"--box {box}: expected four columns as x,y,width,height, and --source for the image "
            "they lie in."
        )
    shown = media.columns | ({} if source is None else {"source": source})
    extra = [*shown.values(), *edges, *axes]
    model, facts, data = open_saved(saved, columns, group=group, extra_columns=extra)
    bags, numbers = data.bags, predicts_numbers(model)
    y: Any = known_numbers(data.labels) if numbers else labels_for(model, data, facts)
    has_places = data.coords is not None and data.coords.shape[1:] == (2,)
    lists = _media(file.parent, data, shown, edges)
    method, impute = facts.get("method"), facts.get("impute")
    written_by = f"bagwise {facts['bagwise_version']}"
    about = {"file": str(file), "model file": str(saved.model), "written by": written_by}
    page = Report(
        model,
        bags,
        y,
        title=title or f"{method or 'A model'} on {file.name}",
        media=Media(**lists, per_bag=per_bag, budget=n_bytes) if lists else None,
        coords=places(data, axes, file) if axes or has_places else None,
        patch_size=data.patch_sizes,
        groups=data.groups,
        held_out=_held_out(model, data, y, folds, seed=seed, impute=impute) if folds else None,
        seen=seen_in_training(data, facts.get("training")),
        classes=facts.get("classes"),
        facts=about if method is None else about | {"method": method},
    )
    with progress(f"Writing a page about {len(bags)} bags"):
        page.save(output, force=force)
    size = output.stat().st_size
    note_features(bags)
    note(f"{len(bags)} bags, {size / 1e6:.2g} MB. Open this page in a browser:")
    if json:
        result = {"model": saved.model, "file": file, "bags": len(bags), "bytes": size}
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
    model: Any, data: Contents, y: Any, folds: int, *, seed: int, impute: str | None
) -> HeldOut:
    """Cross-validated predictions of the labelled bags, by the model and by the baselines."""
    from sklearn.base import is_classifier

    from bagwise.base import RowEstimator
    from bagwise.base._pipelines import final_estimator, predicts_numbers
    from bagwise.evaluate._baselines import baselines
    from bagwise.evaluate._held_out import predictions_of_models

    numbers, bags = predicts_numbers(model), data.bags
    is_row_model = isinstance(final_estimator(model), RowEstimator)
    if not numbers and (is_row_model or not is_classifier(model)):
        raise InputError("--folds is for models that predict the label of a bag: leave it out.")
    if y is None:
        what = "the numbers of the bags" if numbers else "labels"
        option = "label=" if numbers else "label= or label_set="
        raise LabelError(f"--folds needs {what}: name their column with {option}.")
    has_sets = not numbers and y.has_sets
    beside = baselines(bags=bags, label_sets=has_sets, numbers=numbers, impute=impute)
    models = [model, *beside.values()]
    with progress("Cross-validating", total=folds * len(models)) as step:
        found = predictions_of_models(
            models,
            bags,
            y,
            classes=getattr(model, "classes_", None),
            n_folds=folds,
            seed=seed,
            groups=data.groups,
            after_fold=step,
        )
    return replace(found[0], baselines=dict(zip(beside, found[1:], strict=True)))


def _media(folder: Path, data: Contents, shown: dict[str, str], edges: list[str]) -> dict[str, Any]:
    """The images, sounds and texts of instances; paths are relative to the folder of the table.

    `shown` names the column of each kind, `edges` those of x, y, width and height in the source.
    """
    from bagwise.apps.audio._recordings import find_recording, recordings

    lists: dict[str, Any] = {}
    for kind, column in shown.items():
        values: Any = data.columns[column]
        if kind != "text":
            values = [folder / v if v and v.strip() else None for v in values]
        lists[kind if kind == "audio" else f"{kind}s"] = values
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

"""``bagwise report``: one page about a saved model and the bags of a file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bagwise.cli import options
from bagwise.cli.output import note, print_address, progress, refuse_existing
from bagwise.exceptions import InputError, LabelError, counted

if TYPE_CHECKING:
    from bagwise.evaluate import HeldOut
    from bagwise.io._contents import Contents


def report(
    saved: options.Saved,
    columns: options.Columns,
    media: options.Media,
    output: Path = options.output("The page, .html.", "PAGE"),
    group: str | None = options.GROUP,
    folds: int = options.option("Refit in N folds: held-out metrics.", "N", default=0, min=0),
    seed: int = options.SEED,
    coords: str | None = options.COORDS,
    title: str | None = options.TITLE,
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Write an HTML report: data, metrics, and every bag with its key instance.

    Reads a model and a file with the same columns; labels are optional. Writes a page that opens
    from disk and needs no network. Without --folds the model is evaluated on the bags it was not
    fitted on; if there are none, the page warns that its metrics are optimistic. For regression the
    page shows errors and a plot of predicted against observed numbers, for times to an event curves
    of thirds of the bags by risk. Images, sounds or texts of
    instances are shown if their columns are given. Files with `coords` (TRIDENT, CLAM) get a heat
    map of each bag; clips (file, start, end) are played if their sound files are found.

    ```
    bagwise report model.skops musk1.csv -o report.html
    bagwise report model.skops musk1.csv --folds 5 --title "Musk" -o held-out.html
    ```
    """
    file = saved.file
    refuse_existing([output], force=force, inputs=[saved.model, file])
    from bagwise._common.extras import import_extra
    from bagwise.cli.reading import known_targets, open_saved, seen_in_training
    from bagwise.cli.results import places
    from bagwise.report import Media, Report

    import_extra("jinja2", extra="report")
    shown, axes = media.columns, options.two_columns(coords)
    extra = [*shown.values(), *axes]
    model, facts, data = open_saved(saved, columns, group=group, extra_columns=extra)
    bags, y = data.bags, known_targets(model, data, facts)
    has_places = data.coords is not None and data.coords.shape[1:] == (2,)
    lists = _media(file.parent, data, shown)
    method, impute = facts.get("method"), facts.get("impute")
    about = {"file": str(file), "model file": str(saved.model)}
    about["written by"] = f"bagwise {facts['bagwise_version']}"
    page = Report(
        model,
        bags,
        y,
        title=title or f"{method or 'A model'} on {file.name}",
        media=Media(**lists) if lists else None,
        coords=places(data, axes, file) if axes or has_places else None,
        patch_size=data.patch_sizes,
        held_out=held_out_of(model, data, y, folds, seed, impute) if folds else None,
        seen=seen_in_training(data, facts),
        classes=facts.get("classes"),
        facts=about if method is None else about | {"method": method},
    )
    with progress(f"Writing a page about {counted(len(bags), 'bag')}"):
        page.save(output, force=force)
    size = output.stat().st_size
    note(f"{counted(len(bags), 'bag')}, {size / 1e6:.2g} MB. Open this page in a browser:")
    print_address(output.resolve())
    result = {"model": saved.model, "file": file, "bags": len(bags), "bytes": size}
    return result | {"written": [output]}


def held_out_of(model: Any, data: Contents, y: Any, folds: int, seed: int, impute: Any) -> HeldOut:
    """Cross-validated predictions of the labelled bags, by the model and by the baselines."""
    from sklearn.base import is_classifier

    from bagwise.base import RowEstimator
    from bagwise.base._pipelines import final_estimator, predicts_numbers, predicts_risk
    from bagwise.evaluate._baselines import baselines
    from bagwise.evaluate._held_out import predictions_of_models
    from bagwise.labels import Intervals
    from bagwise.survival._rows import survival_baselines

    numbers, bags = predicts_numbers(model), data.bags
    is_row_model = isinstance(final_estimator(model), RowEstimator)
    if not numbers and (is_row_model or not is_classifier(model)):
        raise InputError("--folds is for models that predict the label of a bag: leave it out.")
    if y is None:
        raise LabelError("--folds needs labels: name their column with label= or label_set=.")
    has_sets = not numbers and y.has_sets
    kind: Any = {"label_sets": has_sets, "numbers": numbers, "intervals": isinstance(y, Intervals)}
    make: Any = survival_baselines if predicts_risk(model) else partial(baselines, **kind)
    beside = make(bags=bags, impute=impute)
    models = [model, *beside.values()]
    how: Any = {"n_folds": folds, "seed": seed}
    classes = getattr(model, "classes_", None)
    with progress("Cross-validating", total=folds * len(models)) as step:
        found = predictions_of_models(models, bags, y, classes=classes, **how, after_fold=step)
    return replace(found[0], baselines=dict(zip(beside, found[1:], strict=True)))


def _media(folder: Path, data: Contents, shown: dict[str, str]) -> dict[str, Any]:
    """The images, sounds and texts of instances; paths are relative to the folder of the table."""
    from bagwise.cli.results import clip_sounds

    lists: dict[str, Any] = {}
    for kind, column in shown.items():
        values: Any = data.columns[column]
        if kind != "text":
            values = [folder / v if v and v.strip() else None for v in values]
        lists[kind if kind == "audio" else f"{kind}s"] = values
    sounds = clip_sounds(data, folder, shown.get("audio"))
    if sounds is not None and data.clips is not None:
        lists["audio"] = [None if name is None else folder / name for name in sounds]
        lists["clips"] = list(zip(data.clips.start, data.clips.end, strict=True))
    return lists

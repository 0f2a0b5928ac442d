"""``bagwise report``: one page about a saved model and the bags of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.cli.options import (
    COLUMNS,
    Audio,
    Bag,
    Exclude,
    Features,
    File,
    Force,
    Group,
    Image,
    Json,
    Label,
    Labels,
    LabelSet,
    MemoryLimit,
    ModelFile,
    Separator,
    Text,
)
from bagwise.cli.output import note, print_json, progress, refuse_existing

if TYPE_CHECKING:
    from sklearn.utils import Bunch

    from bagwise.inspection import HeldOut

__all__ = ["report"]


def report(
    model: ModelFile,
    file: File,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="PAGE", help="The page, .html.", show_default=False),
    ],
    bag: Bag = None,
    label: Label = None,
    label_set: LabelSet = None,
    labels: Labels = None,
    features: Features = None,
    exclude: Exclude = None,
    separator: Separator = ";",
    group: Group = None,
    cv: Annotated[
        int,
        typer.Option(
            "--cv",
            metavar="N",
            min=0,
            help="Fit anew in N folds, and show figures of bags not fitted on.",
            show_default=False,
        ),
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the folds.")] = 0,
    image: Image = None,
    audio: Audio = None,
    text: Text = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            rich_help_panel=COLUMNS,
            metavar="COLUMN",
            help="Column with the image that an instance is part of.",
        ),
    ] = None,
    box: Annotated[
        str | None,
        typer.Option(
            "--box",
            rich_help_panel=COLUMNS,
            metavar="X,Y,WIDTH,HEIGHT",
            help="Four columns: where in its --source an instance is, in pixels.",
            show_default=False,
        ),
    ] = None,
    per_bag: Annotated[
        int, typer.Option("--per-bag", min=1, help="Instances of a bag shown with their media.")
    ] = 6,
    budget: Annotated[
        str, typer.Option("--budget", metavar="SIZE", help="Most media the page may hold.")
    ] = "20MB",
    title: Annotated[
        str | None, typer.Option("--title", help="Title of the page.", show_default=False)
    ] = None,
    memory_limit: MemoryLimit = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write one page about a model and bags: data, figures, every bag with its key instance.

    Reads a model and a file with the columns and labels it was fitted on, by name; bags need no
    labels. Writes a page that opens from disk and needs no network. Without --cv the model itself
    is asked, and judged by the bags it was not fitted on; where there are none, the page says that
    its figures are too good. Columns of images, sounds or texts are shown with the instances.

    ```
    bagwise report model.skops musk1.csv -o report.html
    bagwise report model.skops musk1.csv --cv 5 --title "Musk" -o held-out.html
    ```
    """
    refuse_existing([output], force=force, inputs=[model, file])
    from bagwise.cli.media import read_media
    from bagwise.cli.reading import choose_columns, read_for_model
    from bagwise.extras import import_extra
    from bagwise.inspection import Report
    from bagwise.io.memory import byte_count
    from bagwise.persistence import load_model

    import_extra("jinja2", extra="report")
    fitted, metadata = load_model(model)
    columns = metadata.get("columns", {})
    shown = [name for name in (image, audio, text, source) if name is not None]
    choice = choose_columns(
        bag, label, label_set, group=group, features=features,
        exclude=[*(exclude or []), *shown, *([] if box is None else [box])],
        separator=separator, labels=labels, memory_limit=memory_limit,
    )  # fmt: skip
    media = read_media(
        file, bag or columns.get("bag"), image=image, audio=audio, text=text, source=source,
        box=box, per_bag=per_bag, budget=byte_count(budget),
    )  # fmt: skip
    data = read_for_model(file, fitted, metadata, choice)
    y = _labels(fitted, data)
    held_out = _held_out(fitted, data, y, metadata, folds=cv, seed=seed) if cv else None
    facts = {"file": str(file), "model file": str(model), "method": metadata.get("method")}
    page = Report(
        fitted,
        data.bags,
        y,
        title=title or f"{metadata.get('method') or 'A model'} on {file.name}",
        media=media,
        groups=data.groups,
        held_out=held_out,
        seen=_seen(data, metadata.get("training")),
        classes=metadata.get("classes"),
        facts={name: value for name, value in facts.items() if value is not None}
        | {"written by": f"bagwise {metadata['bagwise_version']}"},
    )
    with progress(f"Writing a page about {len(data.bags)} bags"):
        page.save(output, force=force)
    size = output.stat().st_size
    shown_size = f"{size / 1e6:.1f} MB" if size > 1e6 else f"{size / 1e3:.0f} kB"
    note(f"{len(data.bags)} bags, {shown_size}. Open this page in a browser:")
    if json:
        told = {"model": model, "file": file, "bags": len(data.bags), "bytes": size}
        print_json(told | {"written": [output]})
    else:
        typer.echo(output.resolve())


def _seen(data: Bunch, training: list[str] | None) -> list[bool] | None:
    """Which bags the model was fitted on, where its file tells."""
    from bagwise.cli.fingerprints import fingerprints

    if training is None:
        return None
    marks = set(training)
    return [mark in marks for mark in fingerprints(data.bags)]


def _labels(fitted: Any, data: Bunch) -> list[Any] | None:
    """What is known of each bag: a label, a set, or None."""
    from bagwise.cli.reading import named_labels, named_sets

    if data.label_sets is not None and (data.y is None or _predicts_sets(fitted, data)):
        return named_sets(data)
    return None if data.y is None else named_labels(data)


def _predicts_sets(fitted: Any, data: Bunch) -> bool:
    """Whether label sets are what the model is about, where a file has labels and label sets."""
    few = data.bags[:1]
    return not hasattr(fitted, "predict") or getattr(fitted.predict(few), "ndim", 1) == 2


def _held_out(
    fitted: Any,
    data: Bunch,
    y: list[Any] | None,
    metadata: dict[str, Any],
    *,
    folds: int,
    seed: int,
) -> HeldOut:
    """Judge each labelled bag by a model that was fitted without it; the baselines likewise."""
    import numpy as np
    from scipy import sparse
    from sklearn.base import is_classifier

    from bagwise.base import RowEstimator
    from bagwise.cli.crossvalidation import held_out_answers, make_folds
    from bagwise.cli.estimators import baselines
    from bagwise.exceptions import InputError, LabelError
    from bagwise.inspection import HeldOut, instance_model

    estimator, _ = instance_model(fitted, data.bags[:1])
    if not is_classifier(fitted) or isinstance(estimator, RowEstimator):
        raise InputError("--cv is for models that predict the label of a bag: leave it out.")
    if y is None:
        raise LabelError("--cv needs labels: name their column with label= or label_set=.")
    known = np.array([label is not None for label in y])
    classes = np.asarray(fitted.classes_).tolist()
    has_sets = any(isinstance(label, set) for label in y)
    if has_sets:
        targets = np.array([[c in s for c in classes] for s in y if s is not None]).astype(int)
    else:
        names = metadata.get("classes") or []
        codes = {name: classes[k] for k, name in enumerate(names)} | {c: c for c in classes}
        targets = np.array([codes.get(label, label) for label in y if label is not None])
    bags = data.bags[np.flatnonzero(known)]
    groups = None if data.groups is None else data.groups[known]
    splits = make_folds(targets, n_folds=folds, seed=seed, groups=groups)
    models = {"": fitted} | baselines(
        label_sets=has_sets, sparse=bool(sparse.issparse(bags.instances))
    )
    found: dict[str, dict[str, Any]] = {}
    with progress("Cross-validating", total=len(models) * len(splits)) as step:
        for name, model in models.items():
            found[name] = held_out_answers(model, bags, targets, splits, after_step=step)
    whole = "" if groups is None else ", groups whole"
    answers = {
        name: HeldOut(*(_spread(part, known) for part in _three(answer)))
        for name, answer in found.items()
    }
    own = answers.pop("")
    return HeldOut(
        own.predicted,
        own.scores,
        own.probabilities,
        how=f"{folds}-fold cross-validation{whole}",
        baselines=answers,
    )


def _three(answer: dict[str, Any]) -> list[Any]:
    scores = answer["decision_function"]
    if answer["predict"] is None:  # a baseline of label sets that only scores
        ranked = scores if scores is not None else answer["predict_proba"]
        answer = answer | {"predict": (ranked > 0).astype(int)}
    return [answer["predict"], scores, answer["predict_proba"]]


def _spread(values: Any, known: Any) -> Any:
    """Values of the labelled bags among all bags; the others are not looked at."""
    import numpy as np

    if values is None:
        return None
    whole = np.zeros((len(known), *values.shape[1:]), dtype=values.dtype)
    whole[known] = values
    return whole

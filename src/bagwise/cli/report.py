"""``bagwise report``: one page about a saved model and the bags of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.cli.options import (
    Audio,
    File,
    Force,
    Group,
    Image,
    Json,
    LabelledColumns,
    MemoryLimit,
    ModelFile,
    Text,
    column,
    option,
    output_option,
)
from bagwise.cli.output import note, print_json, progress, refuse_existing

if TYPE_CHECKING:
    from bagwise.io.contents import Contents
    from bagwise.labels import Labels


def report(
    model: ModelFile,
    file: File,
    output: Annotated[Path, output_option("PAGE", "The page, .html.")],
    columns: LabelledColumns = LabelledColumns(),  # noqa: B008
    group: Group = None,
    cv: Annotated[
        int,
        option(
            "--cv",
            metavar="N",
            min=0,
            help="Fit anew in N folds, and show figures of bags not fitted on.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the folds.")] = 0,
    image: Image = None,
    audio: Audio = None,
    text: Text = None,
    source: Annotated[
        str | None, column("--source", "Column with the image that an instance is part of.")
    ] = None,
    box: Annotated[
        str | None,
        column(
            "--box",
            "Four columns: where in its --source an instance is, in pixels.",
            metavar="X,Y,WIDTH,HEIGHT",
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
    labels. Writes a page that opens from disk and needs no network. Without --cv the model is
    evaluated on the bags it was not fitted on; where there are none, the page warns that its
    figures are too good. Columns of images, sounds or texts are shown with the instances.

    ```
    bagwise report model.skops musk1.csv -o report.html
    bagwise report model.skops musk1.csv --cv 5 --title "Musk" -o held-out.html
    ```
    """
    refuse_existing([output], force=force, inputs=[model, file])
    from bagwise._memory import byte_count
    from bagwise.cli.held_out import predict_held_out
    from bagwise.cli.media import check_box, make_media
    from bagwise.cli.reading import read_for_model
    from bagwise.cli.saved_model import open_model
    from bagwise.extras import import_extra
    from bagwise.report import Report

    import_extra("jinja2", extra="report")
    fitted, metadata = open_model(model)
    shown = {"images": image, "audio": audio, "texts": text, "sources": source}
    edges = check_box(box, source)
    named = [*(name for name in shown.values() if name is not None), *edges]
    choice = columns.choice(group=group, memory_limit=memory_limit, columns=named)
    data = read_for_model(file, fitted, metadata, choice)
    media = make_media(file, data.columns, shown, edges, per_bag=per_bag, budget=byte_count(budget))
    y = _known_labels(fitted, data)
    held_out = predict_held_out(fitted, data, y, metadata, folds=cv, seed=seed) if cv else None
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
        result = {"model": model, "file": file, "bags": len(data.bags), "bytes": size}
        print_json(result | {"written": [output]})
    else:
        typer.echo(output.resolve())


def _seen(data: Contents, training: list[str] | None) -> list[bool] | None:
    """Which bags the model was fitted on, where its file lists them."""
    from bagwise.persistence._fingerprints import fingerprints

    if training is None:
        return None
    marks = set(training)
    return [mark in marks for mark in fingerprints(data.bags)]


def _known_labels(fitted: Any, data: Contents) -> Labels | None:
    """The labels of the bags, of the kind that the model was fitted on where a file has both."""
    from bagwise.inspection._tables import label_kind

    if data.labels is None or (data.label_sets is not None and label_kind(fitted) == "sets"):
        return data.label_sets
    return data.labels

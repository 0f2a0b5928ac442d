"""``bagwise review``: a page where a person corrects what a model is least sure of."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise.cli.options import Audio, Bag, File, Force, Image, Json, Labels, Text, flag
from bagwise.cli.output import note, print_json, progress, refuse_existing
from bagwise.exceptions import InputError, LabelError


def review(
    file: File,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL", help="What `bagwise fit -m orlr` wrote."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="SQLITE",
            help="Where decisions are kept, and continued; FILE.corrections.sqlite by default.",
            show_default=False,
        ),
    ] = None,
    image: Image = None,
    audio: Audio = None,
    text: Text = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", help="Look at the N least certain only.", min=1),
    ] = None,
    bag: Bag = None,
    labels: Labels = None,
    port: Annotated[
        int, typer.Option("--port", help="Port of the page; 0: any.", min=0, max=65535)
    ] = 0,
    no_browser: Annotated[
        bool, flag("--no-browser", help="Print the address, open no browser.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="TABLE",
            help="Write the corrections made so far as .parquet, .csv or .tsv, and stop.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Confirm or correct labels of instances by keyboard, least certain first.

    Reads a model and the file it was fitted on. Opens a page that only this machine can reach; its
    address is printed (to stderr with --json). Every decision is saved at once in
    FILE.corrections.sqlite; start again to go on. Ctrl-C ends. `bagwise fit --corrections` learns
    from the decisions, or from the table of --export.

    ```
    bagwise review syllables.csv --model model.skops --audio clip
    bagwise review syllables.csv --export corrections.csv
    ```
    """
    sidecar = output or file.with_name(f"{file.stem}.corrections.sqlite")
    if export is not None:
        exported = _export(sidecar, export, force=force)
        if json:
            print_json(exported)
        return
    if model is None:
        raise InputError("which model is unsure? Give --model model.skops.")
    refuse_existing([sidecar], force=True, inputs=[file, model])  # it is continued
    from sklearn.pipeline import Pipeline

    from bagwise.cli.media import make_served
    from bagwise.cli.reading import choose_columns, read_for_model
    from bagwise.cli.saved_model import open_model
    from bagwise.inspection._tables import instance_model
    from bagwise.review import Corrections, ReviewQueue, read_corrections
    from bagwise.review.server import ReviewServer

    fitted, facts = open_model(model)
    columns, classes = facts.get("columns", {}), facts.get("classes")
    named = {"image": image, "audio": audio, "text": text}
    shown = [(kind, name) for kind, name in named.items() if name is not None]
    if len(shown) > 1:
        raise InputError("--image, --audio and --text exclude each other: show one of them.")
    choice = choose_columns(bag=bag, labels=labels, columns=[name for _, name in shown])
    data = read_for_model(file, fitted, facts, choice)
    media = None
    for kind, name in shown:
        media = make_served(file, kind, data.columns[name])
    bags, known = data.bags, data.labels
    if known is None or (data.label_sets is not None and columns.get("label") is None):
        known = data.label_sets
    if known is None:
        raise LabelError(f"{file} has no labels of bags: say where they are with --labels.")
    sets = known.as_sets().tolist()
    if classes is not None:  # two labels, one of them positive, are 0 and 1 to the model
        sets = [None if each is None else {classes.index(c) for c in each} for each in sets]
    estimator, seen = instance_model(fitted, bags)
    if seen is None:
        raise InputError(f"{model} says nothing about instances: review a model of -m orlr.")
    decided = read_corrections(sidecar) if sidecar.exists() else []
    with progress(f"Annotating {bags.n_instances} instances of {len(bags)} bags"):
        queue = ReviewQueue(estimator, seen, sets, names=classes, corrections=decided, limit=limit)
    with Corrections(sidecar) as corrections:
        with ReviewServer(
            queue, corrections, bags, media=media, title=file.name, port=port
        ) as server:
            _serve(server, show=note if json else typer.echo, no_browser=no_browser)
        counts = corrections.counts()
    note(
        f"{counts['confirmed']} confirmed, {counts['corrected']} corrected, {counts['skipped']} "
        f"skipped: {sidecar}"
    )
    following = None
    if counts["confirmed"] + counts["corrected"]:
        chosen = ["--labels", str(labels)] if labels else []
        chosen += [] if isinstance(fitted, Pipeline) else ["--no-scale"]
        facts["columns"] = {**columns, "bag": bag or columns.get("bag")}
        following = _next_command(file, model, sidecar, facts, chosen)
        note(f"next: {following}")
    if json:
        result = {"file": file, "model": model, "decisions": counts}
        print_json(result | {"written": [sidecar], "next": following})


def _serve(server: Any, *, show: Callable[[str], None], no_browser: bool) -> None:
    import webbrowser

    try:
        show(server.address)
        note("Ctrl-C ends; every decision is saved at once.")
        if not no_browser:
            webbrowser.open(server.address)
        server.serve()
    except KeyboardInterrupt:
        note("")


def _export(sidecar: Path, table: Path, *, force: bool) -> dict[str, Any]:
    import numpy as np

    from bagwise.io.write_columns import write_columns
    from bagwise.review import read_corrections

    if table.suffix.lower() not in (".csv", ".tsv", ".parquet", ".pq"):
        raise InputError(f"corrections go into .parquet, .csv or .tsv, and {table.name!r} is none.")
    refuse_existing([table], force=force, inputs=[sidecar])
    found = read_corrections(sidecar)
    names = ("bag", "row", "size", "label")
    columns = {name: np.array([getattr(c, name) for c in found]) for name in names}
    write_columns(table, columns, force=force)
    note(f"{len(found)} corrections: {table}")
    return {"corrections": len(found), "written": [table]}


def _next_command(
    file: Path, model: Path, sidecar: Path, facts: Mapping[str, Any], options: list[str]
) -> str:
    words = ["bagwise", "fit", str(file), "-m", str(facts.get("method", "orlr")), *options]
    columns = facts.get("columns", {})
    for name, option in (("bag", "--bag"), ("label", "--label"), ("label_set", "--label-set")):
        if columns.get(name):
            words += [option, columns[name]]
    for name in ("features", "exclude"):
        if columns.get(name):
            words += [f"--{name}", ",".join(columns[name])]
    if facts.get("classes"):
        words += ["--positive", str(facts["classes"][1])]
    if columns.get("separator", ";") != ";":
        words += ["--separator", columns["separator"]]
    for name, value in (facts.get("parameters") or {}).items():
        words += ["--set", f"{name}={value}"]
    words += ["--corrections", str(sidecar), "-o", str(model.with_stem(f"{model.stem}-reviewed"))]
    return shlex.join(words)

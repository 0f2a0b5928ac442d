"""``bagwise review``: a page on which a person corrects the least certain labels."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.cli import options
from bagwise.cli.output import note, note_features, print_json, progress, refuse_existing
from bagwise.cli.recordings import find_recordings
from bagwise.exceptions import InputError

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.io.contents import Contents
    from bagwise.review import ReviewQueue
    from bagwise.review.card import ServedMedia

_ROLES = (
    "bag", "label", "label_set", "labels", "missing", "id_column", "merge", "features", "exclude",
    "keep", "separator",
)  # fmt: skip


def review(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", show_default=False, help="Model file written by `bagwise fit -m orlr`."
        ),
    ],
    columns: options.Columns,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="The file that the model was fitted on; --export needs no model.",
        ),
    ] = None,
    fitted_model: Annotated[Path | None, typer.Option("--model", hidden=True)] = None,
    output: Annotated[
        Path | None,
        options.output_option(
            "SQLITE", "File of decisions, new or continued; FILE.corrections.sqlite by default."
        ),
    ] = None,
    image: options.Image = None,
    audio: options.Audio = None,
    text: options.Text = None,
    media_folder: Annotated[
        Path | None,
        options.option(
            metavar="FOLDER", help="Folder of images and sounds; by default the folder of FILE."
        ),
    ] = None,
    autoplay: Annotated[
        bool, options.flag("--autoplay", "Play the sound of each instance when it is shown.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="Review only the N least certain instances.", min=1),
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port of the page; 0 means any free port.", min=0, max=65535)
    ] = 0,
    no_browser: Annotated[
        bool, options.flag("--no-browser", "Print the address, but do not open a browser.")
    ] = False,
    export: Annotated[
        Path | None,
        options.option(
            metavar="TABLE",
            help="Write the corrections made so far as .parquet, .csv, .tsv, .jsonl (one per line) "
            "or .json (annotations for Label Studio), and stop.",
        ),
    ] = None,
    memory_limit: options.MemoryLimit = None,
    trust: options.Trust = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Review labels of instances on a web page, least certain first.

    Reads a model and the file it was fitted on. Opens a page that is served only to this machine,
    and prints its address (to stderr with --json). Every decision is saved immediately in
    FILE.corrections.sqlite; run the command again to continue. Ctrl-C ends it. `bagwise fit
    --corrections` learns from the decisions, or from the table of --export.

    For a table of sound clips (file, start, end) the page plays the clips and, with matplotlib,
    shows their spectrograms, if the recordings are found. Space plays the clip. The page also lists
    label sets that may be wrong, if the model was fitted with --noisy-sets.

    ```
    bagwise review model.skops syllables.csv --audio clip
    bagwise review syllables.csv --export corrections.csv
    ```
    """
    model, file = _arguments(model, file, fitted_model, exporting=export is not None)
    sidecar = output or file.with_name(f"{file.stem}.corrections.sqlite")
    if export is not None:
        exported = _export(sidecar, export, force=force)
        if json:
            print_json(exported)
        return
    refuse_existing([sidecar], force=True, inputs=[file, model])  # an existing file is continued
    from bagwise.cli.reading import open_model, read_for_model
    from bagwise.io.clips import clip_texts
    from bagwise.review import Corrections
    from bagwise.review.server import ReviewServer

    fitted, facts = open_model(model, trust)
    shown = _shown_column(image, audio, text)
    extra = [] if shown is None else [shown[1]]
    data = read_for_model(
        file, fitted, facts, columns, memory_limit=memory_limit, extra_columns=extra
    )
    media = _media(shown, data, media_folder or file.parent, autoplay=autoplay)
    annotator = _annotator(model, fitted, data, facts)
    if not annotator.has_labels:
        hint = "" if columns.labels else " (--labels names a second table of labels)"
        note(f"No bag has a known label{hint}: all classes are offered.")
    with progress(f"Annotating {data.bags.n_instances} instances of {len(data.bags)} bags"):
        queue = _queue(annotator, sidecar, names=facts.get("classes"), limit=limit)
    note_features(data.bags)
    with Corrections(sidecar) as corrections:
        with ReviewServer(
            queue,
            corrections,
            data.bags,
            media=media,
            title=file.name,
            places=None if data.clips is None else clip_texts(data.clips),
            autoplay=autoplay,
            find_doubts=annotator.find_doubts,
            port=port,
        ) as server:
            _serve(server, show=note if json else typer.echo, no_browser=no_browser)
        counts = corrections.counts() | {"label_sets": len(corrections.sets())}
    note(
        f"{counts['confirmed']} confirmed, {counts['corrected']} corrected, {counts['skipped']} "
        f"skipped, {counts['label_sets']} labels of bags decided: {sidecar}"
    )
    following = None
    if counts["confirmed"] + counts["corrected"] + counts["label_sets"]:
        following = _next_command(file, model, sidecar, columns, facts, _steps(fitted))
        note(f"next: {following}")
    if json:
        result = {"file": file, "model": model, "decisions": counts}
        print_json(result | {"written": [sidecar], "next": following})


def _shown_column(image: str | None, audio: str | None, text: str | None) -> tuple[str, str] | None:
    """The kind of media that is shown, and its column; None if no option names one."""
    named = {"image": image, "audio": audio, "text": text}
    shown = [(kind, name) for kind, name in named.items() if name is not None]
    if len(shown) > 1:
        raise InputError("--image, --audio and --text are mutually exclusive: give one of them.")
    return shown[0] if shown else None


def _media(
    shown: tuple[str, str] | None, data: Contents, folder: Path, *, autoplay: bool
) -> ServedMedia | None:
    """The images, sounds or texts of the instances: those of a column, or clips of recordings."""
    media = None if shown is None else _served(folder, shown[0], data.columns[shown[1]])
    if data.clips is not None:
        media = _with_clips(media, data, folder)
    if autoplay and (media is None or media.kind != "audio"):
        raise InputError(
            "--autoplay: there is no sound to play. Name the column with the files (--audio), or "
            "the folder of the recordings (--media-folder)."
        )
    return media


@dataclass(frozen=True)
class _Annotator:
    """The estimator of a pipeline that labels instances, and its input."""

    estimator: Any
    bags: Bags  # after the preprocessing steps
    sets: list[Any]  # the label set of each bag, None if unknown
    has_labels: bool

    @property
    def find_doubts(self) -> Callable[[], Mapping[str, Any]] | None:
        """A function that lists doubtful label sets; None for a model without error rates."""
        from bagwise.predictions import doubted_bags

        rates = (getattr(self.estimator, name, 0) for name in ("missing_", "spurious_"))
        return partial(doubted_bags, self.estimator, self.bags, self.sets) if any(rates) else None


def _annotator(model: Path, fitted: Any, data: Contents, facts: Mapping[str, Any]) -> _Annotator:
    from bagwise.base._pipelines import instance_model
    from bagwise.cli.reading import labels_for

    known = labels_for(fitted, data, facts)
    estimator, seen = instance_model(fitted, data.bags)
    if seen is None:
        raise InputError(f"{model} does not label instances: review a model of -m orlr.")
    sets = [None] * len(data.bags) if known is None else known.as_sets().tolist()
    return _Annotator(estimator, seen, sets, known is not None)


def _queue(
    annotator: _Annotator, sidecar: Path, *, names: list[Any] | None, limit: int | None
) -> ReviewQueue:
    """The instances in the order of review, with the decisions that were made before."""
    from bagwise.review import ReviewQueue, read_corrections, read_set_corrections

    return ReviewQueue(
        annotator.estimator,
        annotator.bags,
        annotator.sets,
        names=names,
        corrections=read_corrections(sidecar) if sidecar.exists() else [],
        set_corrections=read_set_corrections(sidecar) if sidecar.exists() else [],
        limit=limit,
    )


def _arguments(
    first: Path, second: Path | None, option: Path | None, *, exporting: bool
) -> tuple[Path, Path]:
    """The model and the file: ``MODEL FILE`` in either order, ``FILE --model MODEL``, or FILE."""
    if option is not None:
        if second is not None:
            raise InputError(f"two models are given, {first} and {option}: write MODEL FILE.")
        return option, first
    if second is not None:
        return options.model_and_file(first, second)
    if options.is_model(first):
        raise InputError(
            f"the file that {first} was fitted on is missing: write bagwise review MODEL FILE."
        )
    if not exporting:
        raise InputError("the model is missing: write bagwise review MODEL FILE.")
    return first, first  # only the file is used


def _served(folder: Path, kind: str, values: list[str | None]) -> ServedMedia:
    """Collect a column of images, sounds or texts for the page.

    Paths are relative to a folder, and files outside of it are not shown.
    """
    from bagwise.review.card import ServedMedia

    root = folder.resolve()
    names = {} if kind == "text" else dict.fromkeys(v for v in values if v is not None)
    outside = [v for v in names if not Path(os.path.normpath(root / v)).is_relative_to(root)]
    if outside:
        note(
            f"{len(outside)} files are outside of {root} and are not shown, {outside[0]!r} among "
            "them: copy them into that folder, and name them from there, or name their folder with "
            "--media-folder."
        )
    return ServedMedia(kind, values, folder)


def _with_clips(media: ServedMedia | None, data: Contents, folder: Path) -> ServedMedia | None:
    """Play the part of a recording that a clip covers; find recordings if no media are given."""
    from bagwise.apps.audio._recordings import recordings
    from bagwise.review.card import ServedMedia

    assert data.clips is not None
    start, end, files = data.clips.start, data.clips.end, recordings(data)
    if media is None:
        found = find_recordings(folder, files)
        if not any(found.values()):
            return None
        return ServedMedia("audio", [found[name] for name in files], folder, start, end)
    # A separate column may name files that are already cut.
    if media.kind == "audio" and list(media.values) == files:
        return ServedMedia("audio", files, folder, start, end)
    return media


def _serve(server: Any, *, show: Callable[[str], None], no_browser: bool) -> None:
    import webbrowser

    try:
        show(server.address)
        note("Every decision is saved immediately. Press Ctrl-C to end.")
        if not no_browser:
            webbrowser.open(server.address)
        server.serve()
    except KeyboardInterrupt:
        note("")


def _export(sidecar: Path, table: Path, *, force: bool) -> dict[str, Any]:
    """Write the corrections of instances, and those of label sets to a second table."""
    from bagwise.io.label_studio import InstanceLabel, write_annotated, write_lines
    from bagwise.review import read_corrections, read_set_corrections

    kind = table.suffix.lower()
    if kind not in (".csv", ".tsv", ".parquet", ".pq", ".json", ".jsonl"):
        raise InputError(
            f"--export {table.name}: expected a .parquet, .csv, .tsv, .json or .jsonl file."
        )
    sets = read_set_corrections(sidecar)
    ending = ".csv" if kind in (".json", ".jsonl") else table.suffix
    beside = table.with_name(f"{table.stem}.sets{ending}")
    written = [table, beside] if sets else [table]
    refuse_existing(written, force=force, inputs=[sidecar])
    found = [InstanceLabel(c.bag, c.row, c.size, c.label) for c in read_corrections(sidecar)]
    if kind == ".jsonl":
        write_lines(table, found, force=force)
    elif kind == ".json":
        write_annotated(table, found, force=force)
    else:
        _write_fields(table, found, InstanceLabel._fields, force=force)
    note(f"{len(found)} corrections: {table}")
    if sets:
        _write_fields(beside, sets, ("bag", "label", "present"), force=force)
        note(f"{len(sets)} labels of bags: {beside}")
    return {"corrections": len(found), "label_sets": len(sets), "written": written}


def _write_fields(path: Path, rows: list[Any], names: Iterable[str], *, force: bool) -> None:
    import numpy as np

    from bagwise.io.write_table import write_columns

    columns = {name: np.array([getattr(row, name) for row in rows]) for name in names}
    write_columns(path, columns, force=force)


def _steps(fitted: Any) -> list[str]:
    """The options that reproduce the preprocessing steps of a fitted model."""
    steps = getattr(fitted, "named_steps", {})
    words = [] if "scale" in steps else ["--no-scale"]
    if "pca" in steps:
        words += ["--pca", str(steps["pca"].n_components)]
    return words


def _next_command(
    file: Path,
    model: Path,
    sidecar: Path,
    columns: options.Columns,
    facts: Mapping[str, Any],
    steps: list[str],
) -> str:
    """The command that learns from the decisions; columns as typed, or else as in the model."""
    words = ["bagwise", "fit", str(file), "-m", str(facts.get("method", "orlr")), *steps]
    defaults: tuple[Any, ...] = (None, [], ";")  # ";" is the default separator
    typed = {name: value for name, value in vars(columns).items() if value not in defaults}
    named = facts.get("columns", {}) | typed
    for name in _ROLES:
        value = named.get(name)
        if value and value != ";":
            joined = ",".join(value) if isinstance(value, list) else str(value)
            words += [f"--{name.replace('_', '-')}", joined]
    if facts.get("impute"):
        words += ["--impute", str(facts["impute"])]
    if facts.get("classes"):
        words += ["--pos-label", str(facts["classes"][1])]
    for name, value in (facts.get("parameters") or {}).items():
        words += ["--set", f"{name}={value}"]
    words += ["--corrections", str(sidecar), "-o", str(model.with_stem(f"{model.stem}-reviewed"))]
    return shlex.join(words)

"""``bagwise review``: a page on which a person corrects the least certain labels."""

from __future__ import annotations

import os
import webbrowser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bagwise.cli import options
from bagwise.cli.output import note, print_address, progress, refuse_existing
from bagwise.exceptions import InputError, counted

if TYPE_CHECKING:
    from bagwise.apps.review._card import ServedMedia
    from bagwise.io._contents import Contents


def review(
    columns: options.Columns,
    media: options.Media,
    model: Path = options.argument("Model file written by `bagwise fit -m orlr`.", "MODEL"),
    file: Path | None = options.argument("The file that the model was fitted on.", "FILE", None),
    output: Path | None = options.output("By default FILE.corrections.sqlite.", "SQLITE", None),
    media_folder: Path | None = options.option("Folder of images and sounds, by default of FILE."),
    autoplay: bool = options.flag("--autoplay", "Play each sound when it is shown."),
    limit: int | None = options.option("Review only the N least certain instances.", "N", min=1),
    port: int = options.option("Port of the page; 0: any.", default=0, min=0, max=65535),
    no_browser: bool = options.flag("--no-browser", "Do not open a browser."),
    export: Path | None = options.option("Write the corrections to a table, and stop.", "TABLE"),
    trust: list[str] | None = options.TRUST,
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Review labels of instances on a web page, least certain first.

    Reads a model and the file it was fitted on. Opens a page that is served only to this machine,
    and prints its address (to stderr with --json). Every decision is saved immediately in
    FILE.corrections.sqlite; run the command again to continue. Ctrl-C ends it. `bagwise fit
    --corrections` learns from the decisions, or from the table of --export (.parquet, .csv, .tsv;
    .json for Label Studio), which needs no model.

    For a table of sound clips (file, start, end) the page plays the clips and, with matplotlib,
    shows their spectrograms, if the recordings are found. Space plays the clip. The page also lists
    label sets that may be wrong, if the model was fitted with --noisy-sets.

    ```
    bagwise review model.skops syllables.csv --audio clip
    bagwise review syllables.csv --export corrections.csv
    ```
    """
    if export is not None:
        return _export(output or _sidecar(file or model), export, force=force)
    if file is None:
        raise InputError(f"expected a model and a file, got only {model}.")
    saved = options.Saved(model, file, trust)
    sidecar, folder = output or _sidecar(saved.file), media_folder or saved.file.parent
    # An existing file of decisions is continued.
    refuse_existing([sidecar], force=True, inputs=[saved.file, saved.model])
    from bagwise.apps.review import Corrections, ReviewQueue
    from bagwise.apps.review._server import Review, ReviewServer
    from bagwise.apps.review._store import read_corrections
    from bagwise.base._pipelines import instance_model
    from bagwise.cli.reading import labels_for, open_saved
    from bagwise.predictions import doubted_bags

    extra = [column for _, column in filter(None, [media.only])]
    fitted, facts, data = open_saved(saved, columns, extra_columns=extra)
    bags, served = data.bags, _media(media.only, data, folder)
    if autoplay and (served is None or served.kind != "audio"):
        raise InputError("--autoplay needs sounds: name their column (--audio) or --media-folder.")
    estimator, seen = instance_model(fitted, bags)
    labels = labels_for(fitted, data, facts)
    if labels is None:
        note("No bag has a known label: all classes are offered.")
    sets = [None] * len(bags) if labels is None else labels.as_sets().targets
    learns_errors = any(getattr(estimator, name, 0) for name in ("missing_", "spurious_"))
    found, found_sets = read_corrections(sidecar) if sidecar.exists() else ([], [])
    known: dict[str, Any] = {"corrections": found, "set_corrections": found_sets, "limit": limit}
    with progress(f"Annotating {counted(bags.n_instances, 'instance')}"):
        queue = ReviewQueue(estimator, seen or bags, sets, names=facts.get("classes"), **known)
    with Corrections(sidecar) as corrections:
        state = Review(
            queue,
            corrections,
            bags,
            media=served,
            title=saved.file.name,
            places=None if data.clips is None else data.clips.texts,
            autoplay=autoplay,
            find_doubts=partial(doubted_bags, estimator, seen, sets) if learns_errors else None,
        )
        with ReviewServer(state, port) as server:
            _serve(server, no_browser=no_browser)
        counts = corrections.counts() | {"label_sets": len(corrections.sets())}
    made = ", ".join(f"{counts[name]} {name}" for name in ("confirmed", "corrected", "skipped"))
    note(f"{made}, {counted(counts['label_sets'], 'label')} of bags decided: {sidecar}")
    if counts["confirmed"] + counts["corrected"] + counts["label_sets"]:
        note(f"next: fit the model again, with --corrections {sidecar}")
    result = {"file": saved.file, "model": saved.model, "decisions": counts}
    return result | {"written": [sidecar]}


def _sidecar(file: Path) -> Path:
    return file.with_name(f"{file.stem}.corrections.sqlite")


def _serve(server: Any, *, no_browser: bool) -> None:
    """Answer requests until Ctrl-C."""
    try:
        print_address(server.address)
        note("Every decision is saved immediately. Press Ctrl-C to end.")
        if not no_browser:
            webbrowser.open(server.address)
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        note("")


def _export(sidecar: Path, table: Path, *, force: bool) -> dict[str, Any]:
    """Write the corrections of instances, and of label sets to a second table."""
    from bagwise.apps.review._known import export, sets_file

    if table.suffix.lower() not in (".csv", ".tsv", ".parquet", ".pq", ".json"):
        raise InputError(f"--export {table.name}: expected a .parquet, .csv, .tsv or .json file.")
    refuse_existing([table, sets_file(table)], force=force, inputs=[sidecar])
    n_corrections, n_sets, written = export(sidecar, table, force=force)
    note(f"{counted(n_corrections, 'correction')}: {table}")
    if n_sets:
        note(f"{counted(n_sets, 'label')} of bags: {written[-1]}")
    return {"corrections": n_corrections, "label_sets": n_sets, "written": written}


def _media(shown: tuple[str, str] | None, data: Contents, folder: Path) -> ServedMedia | None:
    """The images, sounds or texts of the instances: from a column, or clips of recordings."""
    from bagwise.apps.review._card import ServedMedia
    from bagwise.cli.results import clip_sounds

    kind, column = shown or ("audio", None)
    sounds = clip_sounds(data, folder, column, inside=True) if kind == "audio" else None
    if sounds is not None and data.clips is not None:
        return ServedMedia("audio", sounds, folder, data.clips.start, data.clips.end)
    if column is None:
        return None
    root, values = folder.resolve(), data.columns[column]
    names = () if kind == "text" else dict.fromkeys(filter(None, values))
    outside = [v for v in names if not Path(os.path.normpath(root / v)).is_relative_to(root)]
    if outside:
        note(
            f"{len(outside)} files are outside of {root} and are not shown, {outside[0]!r} among "
            "them: name their folder with --media-folder."
        )
    return ServedMedia(kind, values, folder)

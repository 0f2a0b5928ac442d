"""``bagwise annotate``: label the instances of bags whose label sets are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise import __version__
from bagwise._methods import find_method, make_model
from bagwise.cli import options
from bagwise.cli.corrections import known_labels, read_known, with_known
from bagwise.cli.output import (
    as_records,
    computing,
    note,
    note_features,
    print_json,
    print_table,
    refuse_existing,
    with_places,
)
from bagwise.cli.recordings import check_folders, write_folders
from bagwise.exceptions import InputError, LabelError

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.io.contents import Contents


def annotate(
    file: options.File,
    output: Annotated[
        Path,
        options.output_option("FILE", "The instances with their labels, .parquet, .csv or .tsv."),
    ],
    columns: options.Columns,
    steps: options.Steps,
    background: options.Background = False,
    background_above: options.BackgroundAbove = None,
    probabilities: Annotated[
        bool, options.flag("--probabilities", "Add a column with the probability of each label.")
    ] = False,
    noisy_sets: options.NoisySets = False,
    raven: options.Raven = None,
    audacity: options.Audacity = None,
    label_studio: Annotated[
        Path | None,
        options.option(
            metavar="FILE",
            help="Also write tasks for Label Studio, .json, least certain first, and the "
            "labelling interface, .xml.",
        ),
    ] = None,
    image: options.Image = None,
    audio: options.Audio = None,
    text: options.Text = None,
    media_url: Annotated[
        str,
        options.option(
            metavar="TEXT",
            help="Prefix of the names of images or sounds for Label Studio, such as "
            "/data/local-files/?d=.",
        ),
    ] = "",
    review: Annotated[
        int, typer.Option(metavar="N", help="Print the N least certain instances.", min=0)
    ] = 10,
    parameters: options.Parameters = None,
    memory_limit: options.MemoryLimit = None,
    corrections: options.Corrections = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Label each instance, given the label sets of the bags (ORed logistic regression).

    Reads a file of bags and fits a model to all of them. Writes a row per instance: the most
    probable label, its probability and the second most probable label; with --background an
    instance may be background. -o out.parquet also writes the same rows, least certain first, to
    out.review.parquet, and prints the first of them. With --noisy-sets an instance may get a label
    that is not in the label set of its bag, and two more columns contain the probability that the
    set is wrong, and the wrong label.

    For a table of sound clips (file, start, end), --raven and --audacity write label files for
    these programs, without background. Change a wrong label there, or confirm it (type into Checked
    in Raven; remove the "? 62 %" in Audacity), and pass the folder to --corrections of this command
    or of `bagwise fit`. --label-studio writes tasks with the labels as predictions, which show the
    column of --image, --audio or --text; annotate them there, and pass the exported JSON to
    --corrections.

    ```
    bagwise annotate words.csv --label-set label_set -o annotated.parquet
    bagwise annotate words.csv --set reg=0.1 --review 3 --json -o annotated.csv
    ```
    """
    from bagwise._validation import check_bags
    from bagwise.base._pipelines import final_estimator
    from bagwise.cli.reading import label_sets_of, note_labels, note_width, read_columns
    from bagwise.io.write_table import file_beside, write_columns

    beside = file_beside(output, "review")
    refuse_existing([output, beside], force=force, inputs=[file])
    tasks = _tasks(label_studio, image, audio, text, media_url)
    if tasks is not None:
        refuse_existing([tasks.path, tasks.interface], force=force, inputs=[file])
        columns = tasks.with_column(columns)
    columns = _with_old_spelling(columns)
    method = find_method("orlr")
    flags = options.annotator_parameters(method, background=background, noisy_sets=noisy_sets)
    values = flags | options.parse_parameters(parameters)
    if background_above is not None and values.get("background", False) is False:
        raise InputError("--background-above needs --background.")
    corrected = read_known(corrections, method.make(values), method.name)

    data = read_columns(file, columns, memory_limit)
    # Reject missing values before they are scaled.
    check_bags(None, data.bags, reset=True, allow_nan=steps.impute is not None)
    note_labels(data, columns)
    bags, labels = data.bags, label_sets_of(data)
    note_width(bags, steps.components)
    folders = check_folders(raven, audacity, data, force=force)
    if corrected is not None:
        corrected.locate(data)
        labels = corrected.correct_sets(labels, bags)
    written = dict(zip(labels.names, labels.classes.tolist(), strict=True))
    known = known_labels(corrected, bags, written, background=values.get("background"))
    sets = with_known(labels.tolist(), known, bags, written.values())
    _refuse_trivial(sets, values)

    model = make_model(method, values, sparse=bags.is_sparse, **steps.arguments)
    found, doubts = _annotated(
        model,
        bags,
        sets,
        known,
        background_above=background_above,
        probabilities=probabilities,
        noisy_sets=noisy_sets,
    )
    found = with_places(found, data)
    note_features(bags)
    order = found["probability"].argsort(kind="stable")
    least_certain = {name: column[order] for name, column in found.items()}

    write_columns(output, found, force=force)
    write_columns(beside, least_certain, force=force)
    nothing = getattr(final_estimator(model), "background_label_", None)
    write_folders(folders, data, found, background=nothing, force=force)
    if tasks is not None:
        tasks.write(least_certain, data, order, labels.names, force=force)
    note(f"{bags.n_instances} instances of {len(bags)} bags: {output}")
    note(f"least certain first: {beside}")
    shown: dict[str, Any] = {name: column[:review] for name, column in least_certain.items()}
    doubted: dict[str, Any] = {name: column[:review] for name, column in doubts.items()}
    if json:
        facts = {"file": file, "bags": len(bags), "instances": bags.n_instances}
        facts |= {"written": [output, beside, *folders.values()]}
        facts |= {"least_certain": as_records(shown)}
        print_json(facts | ({"doubted_sets": as_records(doubted)} if noisy_sets else {}))
    elif review:
        _print_first(shown, doubted)


def _refuse_trivial(sets: list[set[Any] | None], values: Mapping[str, Any]) -> None:
    """Raise an error if each bag has one label, which all of its instances then have."""
    others_possible = values.get("background", False) is not False or values.get("missing", 0) != 0
    if others_possible or any(labels is None or len(labels) != 1 for labels in sets):
        return
    raise LabelError(
        "every bag has exactly one label, so that all of its instances would get this label with "
        "probability 1. If instances may have none of the labels, add --background (a bag in which "
        'no label is present has the empty set, "" in a CSV file). To classify bags and score '
        "their instances, use bagwise fit and bagwise predict."
    )


def _annotated(
    model: Any,
    bags: Bags,
    sets: list[set[Any] | None],
    known: list[Any] | None,
    *,
    background_above: float | None,
    probabilities: bool,
    noisy_sets: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fit the model and label each instance; with `noisy_sets`, also list doubtful label sets."""
    from bagwise.base._pipelines import fit_arguments
    from bagwise.predictions import Predictions, doubted_bags

    with computing(f"Annotating {bags.n_instances} instances of {len(bags)} bags"):
        model.fit(bags, sets, **fit_arguments(model, instance_labels=known))
        found: dict[str, Any] = Predictions(model, bags, sets).annotation_table(
            instance_labels=known,
            background_above=background_above,
            probabilities=probabilities,
        )
        doubts: dict[str, Any] = doubted_bags(model, bags, sets) if noisy_sets else {}
    if noisy_sets:
        found |= _doubt_columns(doubts, found["bag"])
    return found, doubts


def _print_first(shown: Mapping[str, Any], doubted: Mapping[str, Any]) -> None:
    """Print the least certain instances, without the probability of each label (see the file).

    If there are label sets in doubt, print those too.
    """
    left_out = ("probability_", "background_probability")
    brief = {name: column for name, column in shown.items() if not name.startswith(left_out)}
    print_table(brief, title=f"The {len(shown['bag'])} least certain")
    if doubted:
        print_table(doubted, title=f"The {len(doubted['bag'])} most doubtful label sets")


@dataclass(frozen=True)
class _Tasks:
    """Tasks for Label Studio: the file, and the column of the instances that is shown."""

    path: Path
    kind: str
    column: str | None
    prefix: str

    @property
    def interface(self) -> Path:
        """The labelling interface, beside the tasks."""
        return self.path.with_suffix(".xml")

    def with_column(self, columns: options.Columns) -> options.Columns:
        """Add the shown column to the columns to keep."""
        kept = columns.keep or []
        if self.column is None or self.column in kept:
            return columns
        return replace(columns, keep=[*kept, self.column])

    def write(
        self,
        table: Mapping[str, Any],
        data: Contents,
        order: Any,
        names: Iterable[str],
        *,
        force: bool,
    ) -> None:
        """Write the instances as tasks, with their labels as predictions, and the interface."""
        from bagwise.io.label_studio import write_interface, write_tasks

        sizes = data.bags.sizes[data.bags.bag_index][order]
        places = {name: table[name].tolist() for name in with_places({"bag": 0, "row": 0}, data)}
        places |= {"size": sizes.tolist()}
        write_tasks(
            self.path,
            {name: values for name, values in places.items() if name != self.column},
            results={name: table[name].tolist() for name in ("label", "probability")},
            kind=self.kind,
            media=None if self.column is None else table[self.column].tolist(),
            prefix=self.prefix,
            model=f"bagwise {__version__} orlr",
            force=force,
        )
        labels = dict.fromkeys([*names, *map(str, table["label"].tolist())])
        write_interface(self.interface, labels, self.kind, force=force)
        note(f"tasks for Label Studio: {self.path}, with the interface {self.interface}")


def _tasks(
    path: Path | None, image: str | None, audio: str | None, text: str | None, prefix: str
) -> _Tasks | None:
    """The tasks that ``--label-studio`` asks for; None without the option."""
    named = {"image": image, "audio": audio, "text": text}
    shown = [(kind, name) for kind, name in named.items() if name is not None]
    if shown and path is None:
        raise InputError(f"--{shown[0][0]} needs --label-studio, which shows it.")
    if len(shown) > 1:
        raise InputError("--image, --audio and --text are mutually exclusive: give one of them.")
    if path is None:
        return None
    if path.suffix.lower() != ".json":
        raise InputError(f"--label-studio {path}: expected the name of a .json file.")
    kind, column = shown[0] if shown else ("text", None)
    return _Tasks(path, kind, column, prefix)


def _with_old_spelling(columns: options.Columns) -> options.Columns:
    """Read ``--labels COLUMN``, as in version 0.1, as ``--label-set COLUMN``."""
    name = columns.labels
    if name is None or columns.label_set is not None or name.suffix or name.exists():
        return columns
    note(f"--labels names a table: for a column of the file, write --label-set {name}.")
    return replace(columns, labels=None, label_set=str(name))


def _doubt_columns(doubts: dict[str, Any], bag: Any) -> dict[str, Any]:
    """The doubt about the label set of each instance's bag; 0 if the label set is unknown."""
    import numpy as np

    kinds = zip(doubts["error"], doubts["label"], strict=True)
    errors = dict(zip(doubts["bag"].tolist(), (f"{e} {n}" for e, n in kinds), strict=True))
    chances = dict(zip(doubts["bag"].tolist(), doubts["doubt"].tolist(), strict=True))
    return {
        "set_doubt": np.array([chances.get(name, 0.0) for name in bag.tolist()]),
        "set_error": np.array([errors.get(name, "") for name in bag.tolist()]),
    }

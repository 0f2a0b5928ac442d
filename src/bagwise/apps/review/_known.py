"""Known labels of instances: read and write them as files, match them with instances and bags."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from bagwise._common.files import write_file
from bagwise._common.types import Bools
from bagwise.apps.audio._recordings import recordings
from bagwise.apps.audio._selections import HEADS, Selection, match_selections, read_selections, stem
from bagwise.apps.review._queue import match_corrections, single
from bagwise.apps.review._store import Correction, SetCorrection, read_corrections
from bagwise.bags import Bags
from bagwise.exceptions import FileFormatError, InputError, counted
from bagwise.io._contents import Contents, clip_columns
from bagwise.io._files import FORMATS, format_errors, format_of
from bagwise.io._table import Request, open_table, read_written
from bagwise.io._write_table import write_columns
from bagwise.labels import Labels

_TABLES = tuple(ending for kind in ("csv", "tsv", "parquet") for ending in FORMATS[kind])


@dataclass
class Known:
    """Labels that people have given, from ``--corrections``.

    Attributes
    ----------
    corrections : list of Correction
        Labels of instances, by bag and row.
    selections : list of Selection
        Labels of parts of recordings, from Raven, Audacity or a table; `locate` finds their clips.
    sets : list of SetCorrection
        Labels that bags have or do not have.
    note : callable
        Called with each sentence for the user.
    """

    corrections: list[Correction] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    sets: list[SetCorrection] = field(default_factory=list)
    note: Callable[[str], None] = lambda _: None

    def correct_sets(self, labels: Labels, data: Contents) -> Labels:
        """Apply the corrections of label sets, and add the labels of corrected instances.

        Parameters
        ----------
        labels : Labels
            The label of each bag, or its label set; unknown sets stay unknown.
        data : Contents
            The bags, in whose clips Raven and Audacity have labelled parts of recordings.

        Returns
        -------
        Labels
        """
        self.locate(data)
        if self.sets and not labels.has_sets:
            raise InputError(
                "--corrections has decisions about label sets, and these bags have one label "
                "each: name the column of their sets with --label-set."
            )
        if not labels.has_sets:
            return labels
        place = {str(name): i for i, name in enumerate(data.bags.names.tolist())}
        column = {name: k for k, name in enumerate(labels.names)}
        bounds = labels.bounds.copy()
        bounds[~labels.known] = 0, -1
        used = [each for each in self.sets if each.bag in place and each.label in column]
        for bag, label, present in used:
            if labels.known[place[bag]]:
                bounds[place[bag], column[label]] = (1, -1) if present else (0, 0)
        if used:
            self.note(f"Known from corrections: {counted(len(used), 'label')} of bags.")
        for bag, _, _, own in self.corrections:
            for label in [own] if own in column else own.split(";"):
                if bag in place and label in column and bounds[place[bag], column[label], 1] == 0:
                    bounds[place[bag], column[label]] = 1, -1
                    name = data.bags.name_of(place[bag])
                    self.note(f"{label} is added to the label set of {name}: see --corrections.")
        return labels.with_bounds(bounds)

    def locate(self, data: Contents) -> None:
        """Turn selections into corrections of the clips that they cover."""
        if not self.selections:
            return
        if data.clips is None:
            raise InputError("labels of parts of recordings need the columns file, start and end.")
        bags, clips, files = data.bags, data.clips, recordings(data)
        names = set(map(stem, files))
        used = [
            each
            for each in self.selections
            if each.path.suffix.lower() == ".txt" or stem(each.recording) in names
        ]
        if n_others := len(self.selections) - len(used):
            self.note(f"Not used: {counted(n_others, 'label')} of other recordings.")
        found = match_selections(used, files, clips.start, clips.end)
        for i, label in found.items():
            bag = int(bags.bag_index[i])
            row, size = i - int(bags.offsets[bag]), int(bags.sizes[bag])
            self.corrections.append(Correction(str(bags.names[bag]), row, size, label))
        self.selections = []

    def about(self, bags: Bags) -> Bools:
        """Whether each bag has an instance with a known label, after `correct_sets`."""
        named = {correction.bag for correction in self.corrections}
        return np.array([str(name) in named for name in bags.names.tolist()], dtype=bool)

    def match(self, bags: Bags, names: Mapping[str, Any], background: Any) -> list[Any] | None:
        """The known label of each instance, after `correct_sets`; None if there are no corrections.

        Parameters
        ----------
        bags : Bags
            The bags to learn from.
        names : mapping of str to label
            The labels by their string form.
        background : object
            The parameter ``background`` of the method.

        Returns
        -------
        list or None
            A label or None for each instance.
        """
        if not self.corrections:
            return None
        named = {} if isinstance(background, bool | None) else {str(background): background}
        labels, n_used = match_corrections(self.corrections, bags, {**named, **names})
        n_unused = len(self.corrections) - n_used
        if n_used == 0:
            raise InputError(
                f"none of the {n_unused} corrections is about a bag of this file: the first names "
                f"the bag {self.corrections[0].bag!r}."
            )
        more = f" (and {n_unused} of bags that are not used)" if n_unused else ""
        self.note(f"Known from corrections: {counted(n_used, 'instance')}{more}.")
        found = single(labels)
        if n_several := found.count(None) - labels.count(None):
            self.note(f"{counted(n_several, 'instance')} with several labels: not kept fixed.")
        return found


def read_known(path: Path, note: Callable[[str], None]) -> Known:
    """Read a file of corrections of any kind.

    Parameters
    ----------
    path : Path
        A file of ``bagwise review``, one of its exports, a table of clips and their labels, or
        labels of Raven or Audacity.
    note : callable
        Called with each sentence for the user.

    Returns
    -------
    Known
    """
    name, found = path.name.lower(), Known(note=note)
    if path.is_dir() or name.endswith(".txt"):
        with format_errors(path):
            selections = read_selections(path)
        found.selections = [each for each in selections if not each.is_guess]
        if n_guesses := len(selections) - len(found.selections):
            note(f"Ignored, because not changed: {counted(n_guesses, 'label')} in {path}.")
    elif name.endswith((".json", *_TABLES)):
        if name.endswith(".json"):
            found.corrections = read_annotated(path)
        else:
            _read_table(path, found)
        found.sets = _read_sets(path)
    else:
        found.corrections, found.sets = read_corrections(path)
    if not (found.corrections or found.selections or found.sets):
        raise InputError(f"{path} has no corrections yet: review some instances first.")
    return found


def export(sidecar: Path, table: Path, *, force: bool) -> tuple[int, int, list[Path]]:
    """Write the corrections of instances, and of label sets to a second table.

    Parameters
    ----------
    sidecar : Path
        The file of ``bagwise review``.
    table : Path
        The table, or a .json file for Label Studio.
    force : bool
        Whether files may be overwritten.

    Returns
    -------
    tuple (corrections, label_sets, written)
        How many there are, and the files.
    """
    found, sets = read_corrections(sidecar)
    if table.suffix.lower() == ".json":
        write_annotated(table, found, force=force)
    else:
        _write_table(table, found, Correction._fields, force=force)
    if not sets:
        return len(found), 0, [table]
    _write_table(sets_file(table), sets, SetCorrection._fields, force=force)
    return len(found), len(sets), [table, sets_file(table)]


def sets_file(table: Path) -> Path:
    """The second table of an export, with the corrections of label sets; CSV for JSON."""
    ending = ".csv" if table.suffix.lower() == ".json" else table.suffix
    return table.with_name(f"{table.stem}.sets{ending}")


def _write_table(path: Path, rows: list[Any], names: tuple[str, ...], *, force: bool) -> None:
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in names}
    write_columns(path, columns, force=force)


def _read_table(path: Path, found: Known) -> None:
    """Read labels of instances by bag and row, or of clips by file and start (and perhaps end)."""
    with format_errors(path):
        names = open_table(path, format_of(path, None), Request()).names
    recording, start, end = clip_columns([*names, "end"]) or (None, "", "")
    label = next((name for name in HEADS if name in names), None)
    if recording is None or label is None or "row" in names:
        columns = read_written(path, ["bag", "row", "label"], optional=["size"])
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        found.corrections = [as_correction(row, row["label"], str(path)) for row in rows]
        return
    columns = read_written(path, [recording, start, label], optional=[end])
    ends = columns.get(end) or [None] * len(columns[start])
    for i, (name, time, own) in enumerate(zip(*list(columns.values())[:3], strict=True)):
        try:
            times = float(time), float(ends[i] or np.nan)
        except (TypeError, ValueError) as error:
            raise FileFormatError(
                f"{path} has the start {time!r} and the end {ends[i]!r}: expected seconds."
            ) from error
        if own:
            found.selections.append(Selection(str(name), *times, own, path))


def _read_sets(path: Path) -> list[SetCorrection]:
    """Read the corrections of label sets that ``bagwise review --export`` wrote next to `path`."""
    second = sets_file(path)
    if not second.is_file():
        return []
    columns = read_written(second, SetCorrection._fields)
    truth = {"true": True, "false": False}
    try:
        return [
            SetCorrection(str(bag), str(label), truth[str(present).lower()])
            for bag, label, present in zip(*columns.values(), strict=True)
        ]
    except KeyError as error:
        raise InputError(f"{second}: the column present has {error}, not true or false.") from error


# Labels of instances for Label Studio, and corrections from Label Studio

CONTROL, OBJECT = "label", "item"  # names in the labelling interface
_MEDIA = {"image": "Image", "audio": "Audio", "text": "Text"}


def write_tasks(
    path: Path,
    table: Mapping[str, Sequence[Any]],
    *,
    results: Mapping[str, Sequence[Any]],
    kind: str = "text",
    media: Sequence[Any] | None = None,
    prefix: str = "",
    model: str = "bagwise",
    force: bool = False,
) -> None:
    """Write a task per instance, with the label of a model as its prediction.

    Parameters
    ----------
    path : Path
        The file, ``.json``.
    table : mapping of str to sequence
        Columns for the data of each task: ``bag``, ``row``, ``size`` and others.
    results : mapping of str to sequence
        ``label`` and ``probability`` of each instance.
    kind : {"image", "audio", "text"}, default="text"
        The kind of data that is shown.
    media : sequence of str or None, default=None
        The address of the image or sound of each instance, or its text; by default its bag and
        row.
    prefix : str, default=""
        Prefix of each address.
    model : str, default="bagwise"
        The name of the model, in Label Studio its version.
    force : bool, default=False
        Whether a file may be overwritten.
    """
    if kind in table:
        raise InputError(
            f"the kept column {kind!r} has the name of the data that Label Studio shows: rename it."
        )
    if media is None:
        shown = [f"{bag}, row {row}" for bag, row in zip(table["bag"], table["row"], strict=True)]
    else:
        shown = ["" if each is None else f"{prefix}{each}" for each in media]
    tasks, columns = [], [*table.values(), shown, results["label"], results["probability"]]
    for i, (*values, label, chance) in enumerate(zip(*columns, strict=True)):
        prediction = {"model_version": model, "score": chance, "result": [_result(i, label)]}
        data = dict(zip([*table, kind], values, strict=True))
        tasks.append({"data": data, "predictions": [prediction]})
    _write_list(path, tasks, force=force)


def write_interface(path: Path, labels: Iterable[str], kind: str, *, force: bool = False) -> None:
    """Write the labelling interface of a project: the shown data, and a choice of labels.

    Parameters
    ----------
    path : Path
        The file, ``.xml``.
    labels : iterable of str
        The labels to choose from.
    kind : {"image", "audio", "text"}
        The kind of data that is shown.
    force : bool, default=False
        Whether a file may be overwritten.
    """
    choices = "".join(f"    <Choice value={quoteattr(label)}/>\n" for label in labels)
    text = (
        f'<View>\n  <{_MEDIA[kind]} name="{OBJECT}" value="${kind}"/>\n'
        f'  <Choices name="{CONTROL}" toName="{OBJECT}" choice="single">\n{choices}'
        "  </Choices>\n</View>\n"
    )
    write_file(path, text, force=force)


def write_annotated(path: Path, known: Iterable[Correction], *, force: bool = False) -> None:
    """Write a task per correction, with its label as an annotation, as a list in a JSON file."""
    tasks = [
        {
            "data": {"bag": k.bag, "row": k.row, "size": k.size, "text": f"{k.bag}, row {k.row}"},
            "annotations": [{"result": [_result(i, k.label)]}],
        }
        for i, k in enumerate(known)
    ]
    _write_list(path, tasks, force=force)


def read_annotated(path: Path) -> list[Correction]:
    """Read the annotations of people that Label Studio exported, as JSON or JSON-MIN.

    Tasks that nobody annotated, and annotations that were skipped, are left out. If a task
    has several annotations, the ground truth is used, else the last one.

    Parameters
    ----------
    path : Path
        The file, ``.json``.

    Returns
    -------
    list of Correction
    """
    found = []
    with format_errors(path):
        for number, task in enumerate(json.loads(path.read_text(encoding="utf-8-sig"))):
            where = f"{path}, task {number}"
            try:
                choices, data = _chosen(task), dict(task.get("data", task))
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                raise FileFormatError(f"{where} is not as Label Studio writes it.") from error
            if len(choices) > 1:
                raise FileFormatError(f"{where} has the labels {choices!r}: an instance has one.")
            found += [as_correction(data, label, where) for label in choices]
    return found


def _chosen(task: Any) -> list[str]:
    """The choices of the annotation that is used; none if nobody annotated the task."""
    value = task.get(CONTROL)  # JSON-MIN has neither data nor annotations
    if "data" in task:
        every = task.get("annotations", [])
        done = [a for a in every if a.get("result") and not a.get("was_cancelled")]
        done.sort(key=lambda a: (bool(a.get("ground_truth")), str(a.get("updated_at") or "")))
        results = done[-1]["result"] if done else []
        ours = [r for r in results if (r.get("type"), r.get("from_name")) == ("choices", CONTROL)]
        value = ours[0]["value"] if ours else None
    if isinstance(value, dict):
        value = value.get("choices")
    return [str(value)] if isinstance(value, str | int | float) else list(map(str, value or ()))


def as_correction(entry: Any, label: Any, where: str) -> Correction:
    """Check the bag, row and size of an entry of a file.

    Parameters
    ----------
    entry : mapping of str to object
        With ``bag``, ``row`` and optionally ``size``, numbers as such or as strings.
    label : object
        The label.
    where : str
        The place of the entry, for messages.

    Returns
    -------
    Correction
    """
    bag, row, size = (entry.get(name) for name in ("bag", "row", "size"))
    is_whole = str(row).isdecimal() and (size is None or str(size).isdecimal())
    if label is None or not isinstance(bag, str | int) or not is_whole:
        raise FileFormatError(
            f"{where} has the bag {bag!r}, row {row!r}, size {size!r} and label {label!r}: "
            "expected an id, whole numbers and a label, as bagwise writes them."
        )
    return Correction(str(bag), int(str(row)), None if size is None else int(str(size)), str(label))


def _result(number: int, label: Any) -> dict[str, Any]:
    place = {"from_name": CONTROL, "to_name": OBJECT, "type": "choices"}
    return {"id": f"instance_{number}", **place, "value": {"choices": [str(label)]}}


def _write_list(path: Path, items: Iterable[Any], *, force: bool) -> None:
    """Write a JSON list, one item per line."""
    lines = ",\n".join(map(json.dumps, items))
    write_file(path, f"[\n{lines}\n]\n", force=force)

"""Labels of instances for Label Studio, and corrections from Label Studio.

Label Studio reads and writes a list of tasks. A task has ``data`` (here the bag, the row and the
size of the bag, the kept columns, and the shown text or media), ``predictions`` of a model and
``annotations`` of people; both have results of the type ``choices``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from bagwise._common.files import replacing
from bagwise.apps.review._store import Correction
from bagwise.exceptions import FileFormatError, InputError
from bagwise.io._files import format_errors

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
    with replacing(path, force=force) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
    with replacing(path, force=force) as temporary:
        temporary.write_text(f"[\n{lines}\n]\n", encoding="utf-8")

"""Labels of instances for Label Studio, and corrections as JSON Lines or from Label Studio.

Label Studio reads and writes a list of tasks. A task has ``data`` (here the bag, the row and the
size of the bag, the kept columns, and the shown text or media), ``predictions`` of a model and
``annotations`` of people; both hold results of the type ``choices``. In JSON Lines each line is a
correction: ``{"bag": "rec1", "row": 3, "size": 8, "label": "wren"}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from bagwise._common.files import replacing
from bagwise.exceptions import FileFormatError, InputError

CONTROL, OBJECT = "label", "item"  # names in the labelling interface
MEDIA = {"image": "Image", "audio": "Audio", "text": "Text"}
_RESERVED = ("bag", "row", "size")


class InstanceLabel(NamedTuple):
    """A label that a person gave to a row of a bag; `size` is the size of the bag, if known."""

    bag: str
    row: int
    size: int | None
    label: str


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
    _write(path, map(json.dumps, _tasks(table, results, kind, media, prefix, model)), force=force)


def _tasks(
    table: Mapping[str, Sequence[Any]],
    results: Mapping[str, Sequence[Any]],
    kind: str,
    media: Sequence[Any] | None,
    prefix: str,
    model: str,
) -> Iterator[dict[str, Any]]:
    if kind in table:
        raise InputError(
            f"the kept column {kind!r} has the name of the data that Label Studio shows: rename it."
        )
    rows = zip(*table.values(), strict=True)
    labels = zip(results["label"], results["probability"], strict=True)
    for i, (row, (label, chance)) in enumerate(zip(rows, labels, strict=True)):
        data = dict(zip(table, row, strict=True))
        if media is None:
            data[kind] = f"{data['bag']}, row {data['row']}"
        else:
            data[kind] = "" if media[i] is None else f"{prefix}{media[i]}"
        prediction = {"model_version": model, "score": chance, "result": [_result(i, str(label))]}
        yield {"data": data, "predictions": [prediction]}


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
        f'<View>\n  <{MEDIA[kind]} name="{OBJECT}" value="${kind}"/>\n'
        f'  <Choices name="{CONTROL}" toName="{OBJECT}" choice="single">\n{choices}'
        "  </Choices>\n</View>\n"
    )
    with replacing(path, force=force) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_annotated(path: Path, known: Iterable[InstanceLabel], *, force: bool = False) -> None:
    """Write a task per correction, with its label as an annotation.

    Parameters
    ----------
    path : Path
        The file, ``.json``.
    known : iterable of InstanceLabel
        The corrections.
    force : bool, default=False
        Whether a file may be overwritten.
    """
    tasks = (
        {
            "data": {"bag": k.bag, "row": k.row, "size": k.size, "text": f"{k.bag}, row {k.row}"},
            "annotations": [{"result": [_result(i, k.label)]}],
        }
        for i, k in enumerate(known)
    )
    _write(path, map(json.dumps, tasks), force=force)


def write_lines(path: Path, known: Iterable[InstanceLabel], *, force: bool = False) -> None:
    """Write a line per correction, as JSON.

    Parameters
    ----------
    path : Path
        The file, ``.jsonl``.
    known : iterable of InstanceLabel
        The corrections.
    force : bool, default=False
        Whether a file may be overwritten.
    """
    with replacing(path, force=force) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(k._asdict(), ensure_ascii=False)}\n" for k in known)


def read_lines(path: Path) -> list[InstanceLabel]:
    """Read a correction per line; the size may be missing, and empty lines are skipped.

    Parameters
    ----------
    path : Path
        The file, ``.jsonl``.

    Returns
    -------
    list of InstanceLabel
    """
    found = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                where = f"{path}, line {number}"
                entry = _parsed(line, where)
                if not isinstance(entry, dict) or entry.get("label") is None:
                    raise FileFormatError(
                        f'{where}: expected {{"bag": ..., "row": ..., "label": ...}}.'
                    )
                found.append(_known(entry, entry["label"], where))
    return found


def read_annotated(path: Path) -> list[InstanceLabel]:
    """Read the annotations of people that Label Studio exported, as JSON or JSON-MIN.

    Tasks that nobody annotated, and annotations that were skipped, are left out. If a task
    has several annotations, the ground truth is used, else the last one.

    Parameters
    ----------
    path : Path
        The file, ``.json``.

    Returns
    -------
    list of InstanceLabel
    """
    tasks = _parsed(path.read_text(encoding="utf-8-sig"), str(path))
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise FileFormatError(f"{path} is not an export of Label Studio: expected a list of tasks.")
    found = []
    for number, task in enumerate(tasks):
        where = f"{path}, task {number}"
        data = task.get("data", task)  # JSON-MIN has no data
        label = (
            _annotated_label(task, where) if "data" in task else _choice(task.get(CONTROL), where)
        )
        if label is not None:
            if not isinstance(data, dict):
                raise FileFormatError(f"{where}: its data are not an object.")
            found.append(_known(data, label, where))
    return found


def _annotated_label(task: Mapping[str, Any], where: str) -> str | None:
    """The label of the annotation that is used; None if there is none."""
    annotations = task.get("annotations", [])
    if not isinstance(annotations, list) or not all(isinstance(a, dict) for a in annotations):
        raise FileFormatError(f"{where}: its annotations are not a list of objects.")
    done = [a for a in annotations if not a.get("was_cancelled") and a.get("result")]
    done.sort(key=lambda a: (bool(a.get("ground_truth")), str(a.get("updated_at") or "")))
    if not done:
        return None
    results = done[-1]["result"]
    if not isinstance(results, list) or not all(isinstance(r, dict) for r in results):
        raise FileFormatError(f"{where}: its result is not a list of objects.")
    chosen = [
        r["value"].get("choices")
        for r in results
        if r.get("type") == "choices"
        and r.get("from_name") == CONTROL
        and isinstance(r.get("value"), dict)
    ]
    return _choice(chosen[0], where) if chosen else None


def _choice(value: Any, where: str) -> str | None:
    """The label of a result, which is a string or a list of choices."""
    if isinstance(value, dict):
        value = value.get("choices")
    labels = [value] if isinstance(value, str | int | float) else value
    if labels is None or labels == []:
        return None
    if not isinstance(labels, list) or len(labels) > 1:
        raise FileFormatError(f"{where} has the labels {labels!r}: an instance has one.")
    return str(labels[0])


def _known(entry: Mapping[str, Any], label: Any, where: str) -> InstanceLabel:
    bag, row, size = (entry.get(name) for name in _RESERVED)
    whole = all(
        str(number).isdecimal() and not isinstance(number, bool)
        for number in (row, 0 if size is None else size)
    )
    if not isinstance(bag, str | int) or isinstance(bag, bool) or not whole:
        raise FileFormatError(
            f"{where} is about the bag {bag!r}, row {row!r} and size {size!r}: expected the id of "
            "a bag and whole numbers, as bagwise writes them."
        )
    return InstanceLabel(
        str(bag), int(str(row)), None if size is None else int(str(size)), str(label)
    )


def _result(number: int, label: str) -> dict[str, Any]:
    value = {"choices": [label]}
    place = {"from_name": CONTROL, "to_name": OBJECT, "type": "choices"}
    return {"id": f"instance_{number}", **place, "value": value}


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileFormatError(f"{where} is not JSON: {error}.") from error


def _write(path: Path, items: Iterable[str], *, force: bool) -> None:
    """Write JSON strings as one list, one item per line."""
    with replacing(path, force=force) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write("[")
        for i, item in enumerate(items):
            file.write(f"{',' if i else ''}\n{item}")
        file.write("\n]\n")

"""Tasks for Label Studio, and annotations from it."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from bagwise.apps.review import Correction
from bagwise.apps.review._known import (
    read_annotated,
    write_annotated,
    write_interface,
    write_tasks,
)
from bagwise.exceptions import FileFormatError, InputError

TABLE = {"bag": ["rec1", "rec2"], "row": [3, 0], "size": [8, 1], "site": ["wood", None]}
RESULTS = {"label": ["wren", "robin"], "probability": [0.5, 0.75]}
KNOWN = [Correction("rec1", 3, 8, "wren"), Correction("rec2", 0, None, "Zaunk\u00f6nig")]


def read_project(tasks, interface):
    """Read tasks and interface as Label Studio does, and check them against its documentation.

    Written from labelstud.io/guide/predictions (JSON format for pre-annotations), task_format
    and tags/choices, not from the code under test: tasks are a list; each has ``data``, whose
    fields the interface names as ``$field``; each result names a control tag and an object tag,
    has the type of the control in lower case, and an id of ``A-Za-z0-9_-`` that is its own.
    label-studio-sdk 2.1.2 itself accepted such files: ``LabelInterface(interface).validate()`` and
    ``validate_prediction(prediction)``.
    """
    view = ElementTree.fromstring(interface.read_text(encoding="utf-8"))
    assert view.tag == "View"
    (choices,) = view.iter("Choices")
    allowed = [choice.get("value") for choice in choices.iter("Choice")]
    objects = {tag.get("name"): tag for tag in view if tag.tag in ("Image", "Audio", "Text")}
    assert choices.get("toName") in objects
    assert choices.get("choice") in ("single", "single-radio", "multiple")
    ids, found = set(), []
    for task in json.loads(tasks.read_text(encoding="utf-8")):
        assert set(task) <= {"id", "data", "predictions", "annotations"}
        field = objects[choices.get("toName")].get("value")
        assert field[0] == "$"
        assert isinstance(task["data"][field[1:]], str)
        for answer in [*task.get("predictions", []), *task.get("annotations", [])]:
            assert 0 <= answer.get("score", 0) <= 1
            for result in answer["result"]:
                assert re.fullmatch("[A-Za-z0-9_-]+", result["id"])
                assert result["id"] not in ids
                ids.add(result["id"])
                assert result["type"] == choices.tag.lower() == "choices"
                assert result["from_name"] == choices.get("name")
                assert result["to_name"] == choices.get("toName")
                assert set(result["value"]) == {"choices"}
                assert set(result["value"]["choices"]) <= set(allowed)
                found.append((task["data"], answer, result["value"]["choices"]))
    return found


@pytest.mark.parametrize("kind", ["image", "audio", "text"])
def test_tasks_are_as_documented(tmp_path, kind):
    path, interface = tmp_path / "tasks.json", tmp_path / "tasks.xml"
    media = ["a b.wav", None]
    write_tasks(path, TABLE, results=RESULTS, kind=kind, media=media, prefix="/d?", model="orlr")
    write_interface(interface, ["robin", "wren", 'a < "b" & c'], kind)
    (data, answer, chosen), (other, _, _) = read_project(path, interface)
    assert data == {"bag": "rec1", "row": 3, "size": 8, "site": "wood", kind: "/d?a b.wav"}
    assert (answer["model_version"], answer["score"], chosen) == ("orlr", 0.5, ["wren"])
    assert other[kind] == ""
    assert read_annotated(path) == []  # predictions are no corrections


def test_corrections_make_the_round_trip(tmp_path):
    with pytest.raises(InputError, match="the kept column 'text'"):
        write_tasks(tmp_path / "more.json", TABLE | {"text": [1, 2]}, results=RESULTS)
    write_annotated(tmp_path / "done.json", KNOWN)
    write_interface(tmp_path / "done.xml", [known.label for known in KNOWN], "text")
    read_project(tmp_path / "done.json", tmp_path / "done.xml")
    assert read_annotated(tmp_path / "done.json") == KNOWN


def exported(*answers, **data):
    """A task as Label Studio exports it, with the annotations of several people."""
    annotations = [
        {
            "id": 1000 + i,
            "completed_by": i,
            "was_cancelled": answer.pop("skipped", False),
            "ground_truth": answer.pop("truth", False),
            "updated_at": answer.pop("at", f"2026-03-0{i + 1}T22:16:08.728378Z"),
            "result": answer.pop("result", None)
            or [
                {"id": "x", "from_name": "note", "to_name": "item", "type": "textarea",
                 "value": {"text": ["loud"]}},
                {"id": "y", "from_name": "label", "to_name": "item", "type": "choices",
                 "value": {"choices": answer.pop("choices")}},
            ],
        }
        for i, answer in enumerate(map(dict, answers))
    ]  # fmt: skip
    return {"id": 7, "project": 3, "data": {"bag": "rec1", "row": 3, **data},
            "annotations": annotations, "predictions": []}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (exported({"choices": ["wren"]}), "wren"),
        (exported({"choices": ["wren"]}, {"choices": ["robin"]}), "robin"),  # the last
        (exported({"choices": ["wren"], "at": "2027"}, {"choices": ["robin"]}), "wren"),
        (exported({"choices": ["wren"], "truth": True}, {"choices": ["robin"]}), "wren"),
        (exported({"choices": ["wren"]}, {"choices": ["robin"], "skipped": True}), "wren"),
        (exported({"choices": []}), None),
        (exported(), None),
        ({"bag": "rec1", "row": 3, "label": "wren", "id": 1, "lead_time": 2.5}, "wren"),  # JSON-MIN
        ({"bag": "rec1", "row": "3", "label": {"choices": ["wren"]}}, "wren"),
        ({"bag": "rec1", "row": 3, "id": 1}, None),
    ],
)
def test_the_annotation_that_counts(tmp_path, task, expected):
    path = tmp_path / "export.json"
    path.write_text(json.dumps([task]))
    wanted = [] if expected is None else [Correction("rec1", 3, None, expected)]
    assert read_annotated(path) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "could not be read"),
        ("[" * 100_000, "could not be read"),
        ("[1]", "not as Label Studio writes it"),
        (json.dumps([exported({"choices": ["a", "b"]})]), "an instance has one"),
        (json.dumps([exported({"choices": ["a"]}, row=-1)]), "row -1"),
        (json.dumps([exported({"choices": ["a"]}, size="many")]), "size 'many'"),
        (json.dumps([exported({"result": "wren"})]), "not as Label Studio writes it"),
    ],
)
def test_odd_exports_are_refused(tmp_path, text, message):
    path = tmp_path / "export.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_annotated(path)

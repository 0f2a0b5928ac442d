"""Label Studio through the commands."""

import json

import numpy as np
import pytest
from cli.tables import read_rows, write_rows

from bagwise.apps.review import Corrections

pytest.importorskip("pyarrow")
pytest.importorskip("skops")
WORDS = ("--label-set", "species", "--bag", "recording")


@pytest.fixture
def syllables(tmp_path):
    """Twelve recordings of wrens and owls, with the names of their clips."""
    rng = np.random.default_rng(0)
    birds, means = ["wren", "owl"], 4 * np.eye(2)
    rows = [["recording", "species", "pitch", "length", "clip", "site"]]
    for i in range(12):
        heard = rng.integers(2, size=rng.integers(2, 5))
        labels = ";".join(sorted({birds[k] for k in heard}))
        for j, k in enumerate(heard):
            values = (means[k] + rng.normal(size=2)).tolist()
            rows.append([f"r{i}", labels, *values, f"r{i}/{j}.wav", "wood"])
    return write_rows(tmp_path / "syllables.csv", rows)


def test_labels_go_to_label_studio_and_come_back(run, syllables, tmp_path):
    out, tasks = tmp_path / "out.csv", tmp_path / "tasks.json"
    words = ("annotate", syllables, *WORDS, "--keep", "site")
    run.ok(
        *(*words, "--label-studio", tasks, "--audio", "clip", "--media-url", "/data/?d="),
        *("-o", out),
    )
    rows = {(row["bag"], int(row["row"])): row for row in read_rows(out)}
    written = json.loads(tasks.read_text())
    assert len(written) == len(rows)
    scores = [task["predictions"][0]["score"] for task in written]
    assert scores == sorted(scores)  # the least certain first
    for task in written:
        data = task["data"]
        row = rows[data["bag"], data["row"]]
        assert (data["audio"], data["site"]) == (f"/data/?d={row['clip']}", "wood")
        assert task["predictions"][0]["result"][0]["value"]["choices"] == [row["label"]]
    assert '<Choice value="owl"/>' in (tmp_path / "tasks.xml").read_text()

    # A person corrects the first task in Label Studio, and exports.
    result = written[0]["predictions"][0]["result"][0]
    (guess,) = result["value"]["choices"]
    result["value"]["choices"] = ["owl" if guess == "wren" else "wren"]
    written[0]["annotations"] = [{"result": [result], "was_cancelled": False}]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(written))
    again = tmp_path / "again.csv"
    done = run.ok(*words, "--exclude", "clip", "--corrections", export, "-o", again)
    assert "Known from corrections: 1 instance" in done.stderr
    place = written[0]["data"]["bag"], str(written[0]["data"]["row"])
    (fixed,) = (r for r in read_rows(again) if (r["bag"], r["row"]) == place)
    assert (fixed["label"], float(fixed["probability"])) == (*result["value"]["choices"], 1.0)


def test_review_exports_tables_and_annotations(run, syllables, tmp_path):
    with Corrections(tmp_path / "syllables.corrections.sqlite") as corrections:
        rows = [row for row in read_rows(syllables) if row["recording"] == "r0"]
        corrections.decide("r0", 0, len(rows), "owl", guess="wren", probability=0.6)
    for name in ("done.csv", "done.json"):
        run.ok("review", syllables, "--export", tmp_path / name)
        model = tmp_path / f"{name}.skops"
        words = ("fit", syllables, *WORDS, "-m", "orlr", "--exclude", "clip,site")
        fitted = run.ok(*words, "--corrections", tmp_path / name, "-o", model)
        assert "Known from corrections: 1 instance" in fitted.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label-studio", "tasks.csv"), "expected the name of a .json file"),
        (("--label-studio", "t.json", "--audio", "a", "--text", "b"), "mutually exclusive"),
        (("--audio", "clip"), "--audio needs --label-studio"),
        (("--label-studio", "t.json", "--audio", "nothing"), "nothing"),
    ],
)
def test_odd_options_are_refused(run, syllables, tmp_path, words, message):
    done = run.fails("annotate", syllables, *WORDS, *words, "-o", tmp_path / "out.csv")
    assert message in done.stderr

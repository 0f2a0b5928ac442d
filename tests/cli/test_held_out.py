"""What the fit found on held-out bags is in the model, and every command that uses it says so."""

import json

import numpy as np
import pytest
from cli.tables import COLUMNS, read_rows, write_rows
from sklearn.dummy import DummyClassifier

from bagwise.base._pipelines import held_out_note


@pytest.fixture
def models(run, slides, tmp_path, few_candidates):
    """A model that learned something, and one of slides with random labels."""
    rows = [list(row) for row in csv_rows(slides)]
    rng = np.random.default_rng(5)
    names = sorted({row[0] for row in rows[1:]})
    labels = dict(zip(names, rng.permutation(np.arange(len(names)) % 2), strict=True))
    noise = [[*row[:2], "yes" if labels[row[0]] else "no", *row[3:]] for row in rows[1:]]
    files = {"good": slides, "bad": write_rows(tmp_path / "noise.csv", [rows[0], *noise])}
    paths = {}
    for name, file in files.items():
        paths[name] = tmp_path / f"{name}.skops"
        done = run.ok("fit", file, *COLUMNS, "-o", paths[name], "--folds", "3", "--seed", "0")
        assert ("Warning: The model learned nothing." in done.stderr) == (name == "bad")
    return paths


def csv_rows(path):
    rows = read_rows(path)
    return [list(rows[0]), *(list(row.values()) for row in rows)]


@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")
def test_a_model_that_learned_nothing_says_so_wherever_it_is_used(run, slides, models, tmp_path):
    for name, path in models.items():
        done = run.ok("predict", path, slides, "-o", tmp_path / f"{name}.csv", "--json")
        found = json.loads(done.stdout)["held_out"]
        assert (found["loss"] > 0.99 * found["chance"]) == (name == "bad")
        assert ("Warning: The model learned nothing." in done.stderr) == (name == "bad")
        assert f"Loss of held-out bags in the fit: {found['loss']:.3f}" in done.stderr
        pytest.importorskip("jinja2")
        run.ok("report", path, slides, "-o", tmp_path / f"{name}.html", "-q")
        page = (tmp_path / f"{name}.html").read_text()
        assert ("The model learned nothing." in page) == (name == "bad")


def test_models_that_held_out_nothing_have_no_note():
    assert held_out_note(DummyClassifier()) is None

"""Damaged and hostile models, options and corrections: one line, exit code 2, no code is run."""

import os
import pickle

import pytest
from cli.tables import COLUMNS
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import MILBoost, SetKernelSVM
from bagwise.io import read_bags
from bagwise.persistence import save_model
from bagwise.preprocessing import InstanceTransformer

pytest.importorskip("skops")
FEATURES = ["red", "green", "blue"]


@pytest.fixture
def model(run, slides):
    path = slides.parent / "model.skops"
    run.ok("fit", slides, *COLUMNS, "-m", "milboost", "-o", path)
    return path


@pytest.fixture
def refused(run, slides):
    """Run a command on a model and slides; it must end with one line and leave nothing behind."""

    def call(*words):
        before = sorted(slides.parent.iterdir())
        result = run.fails(*words)
        assert result.stdout == ""
        assert "bug" not in result.stderr
        assert "Traceback" not in result.stderr
        errors = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
        assert len(errors) == 1
        assert result.stderr.splitlines()[-1] == errors[0]
        assert sorted(slides.parent.iterdir()) == before
        return errors[0]

    return call


def test_a_model_that_is_not_fitted(refused, slides):
    path = slides.parent / "model.skops"
    save_model(make_pipeline(InstanceTransformer(StandardScaler()), MILBoost()), path)
    assert "not fitted" in refused("predict", path, slides, "-o", slides.parent / "out.csv")


class Bomb:
    """What writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("wrap", ["pipeline", "search", "grid"])
def test_no_code_of_a_cache_beside_the_model_is_run(run, slides, monkeypatch, wrap):
    folder, bomb = slides.parent, slides.parent / "exploded"
    monkeypatch.chdir(folder)
    data = read_bags(slides, bag="slide", label="tumour", features=FEATURES)
    pipeline = Pipeline([("scale", InstanceTransformer(StandardScaler())), ("svm", SetKernelSVM())])
    model = pipeline.fit(data.bags, data.y).set_params(memory="cache")
    if wrap != "pipeline":
        grid = {"svm__C": [1.0]} if wrap == "search" else {"memory": ["cache"]}
        model = GridSearchCV(model, grid, cv=2).fit(data.bags, data.y)
    save_model(model, "model.skops", metadata={"columns": {"bag": "slide", "label": "tumour"}})
    report = ("report", "model.skops", slides, "--folds", "2", "-o", "out.html", "--force")
    with monkeypatch.context() as patch:
        patch.setattr("bagwise.persistence._forget_paths", lambda model: None)
        run.ok(*report)  # fills the cache
        for entry in (folder / "cache").rglob("output.pkl"):
            entry.write_bytes(pickle.dumps(Bomb(bomb)))
        run(*report)
        assert bomb.exists()  # what happened before
    bomb.rmdir()
    run.ok(*report)
    assert not bomb.exists()


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (("fit", "{slides}", *COLUMNS, "-m", "nsk"), "skops"),
        (("predict", "{model}", "{slides}"), "csv"),
        (("report", "{model}", "{slides}"), "html"),
    ],
)
def test_outputs_that_cannot_be_written(refused, slides, model, words, ending, monkeypatch):
    folder, words = slides.parent / "out", [w.format(slides=slides, model=model) for w in words]
    folder.mkdir()
    refused(*words, "-o", folder)
    refused(*words, "-o", folder / "no" / f"x.{ending}")
    existing = folder / f"x.{ending}"
    existing.write_text("mine")
    refused(*words, "-o", existing)
    assert existing.read_text() == "mine"
    (folder / f"dir.{ending}").mkdir()
    refused(*words, "-o", folder / f"dir.{ending}", "--force")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert "No space left" in refused(*words, "-o", existing, "--force")
    assert existing.read_text() == "mine"
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]

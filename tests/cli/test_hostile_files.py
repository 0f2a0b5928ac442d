"""Damaged and hostile models, options and corrections: one line, exit code 2, no code is run."""

import json
import os
import pickle
import zipfile

import pytest
from cli.tables import COLUMNS
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import MILBoost, SetKernelSVM
from bagwise.io import read_bags
from bagwise.persistence import load_model, save_model
from bagwise.preprocessing import InstanceTransformer

pytest.importorskip("skops")
FEATURES = ["red", "green", "blue"]


@pytest.fixture
def model(run, slides):
    path = slides.parent / "model.skops"
    assert run("fit", slides, *COLUMNS, "-m", "milboost", "-o", path).exit_code == 0
    return path


@pytest.fixture
def refused(run, slides):
    """Run a command on a model and slides; it must end with one line and leave nothing behind."""

    def call(*words):
        before = sorted(slides.parent.iterdir())
        result = run(*words)
        assert result.exit_code == 2, (words, result.stderr, result.exception)
        assert result.stdout == ""
        assert "bug" not in result.stderr
        assert "Traceback" not in result.stderr
        errors = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
        assert len(errors) == 1
        assert result.stderr.splitlines()[-1] == errors[0]
        assert sorted(slides.parent.iterdir()) == before
        return errors[0]

    return call


def rewrite(path, change):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def commands(model, slides):
    out = slides.parent / "out"
    yield "predict", model, slides, "-o", f"{out}.csv"
    yield "report", model, slides, "-o", f"{out}.html"
    yield "review", model, slides, "-o", f"{out}.sqlite", "--no-browser"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("columns", [None, 3, "text", [], True]),
        ("classes", [3, "ab", {}, True, [1], ["a", "a"], [None, "a"], ["a", "b", "c"], ["a", "b"]]),
    ],
)
def test_changed_metadata(refused, slides, model, name, wrong):
    original = model.read_bytes()
    for value in wrong:
        model.write_bytes(original)

        def change(members, value=value):
            notes = json.loads(members["bagwise.json"])
            notes["metadata"][name] = value
            members["bagwise.json"] = json.dumps(notes).encode()

        rewrite(model, change)
        for words in commands(model, slides):
            assert name in refused(*words)


@pytest.mark.parametrize("value", [[], 3, "0.1", {"metadata": {}}, None, {"bagwise_version": 1}])
def test_changed_notes(refused, slides, model, value):
    rewrite(model, lambda members: members.update({"bagwise.json": json.dumps(value).encode()}))
    assert "damaged" in refused("predict", model, slides, "-o", slides.parent / "out.csv")


def test_arrays_of_a_file_cut_short(refused, slides, model):
    with zipfile.ZipFile(model) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
    original = model.read_bytes()
    for name in names[::3]:
        model.write_bytes(original)
        rewrite(model, lambda members, name=name: members.update({name: members[name][:-1]}))
        refused("predict", model, slides, "-o", slides.parent / "out.csv")


def test_a_model_that_is_not_fitted(refused, slides):
    path = slides.parent / "model.skops"
    save_model(make_pipeline(InstanceTransformer(StandardScaler()), MILBoost()), path)
    for words in commands(path, slides):
        assert "not fitted" in refused(*words)


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
    report = ("report", "model.skops", slides, "--cv", "2", "-o", "out.html", "--force")
    with monkeypatch.context() as patch:
        patch.setattr("bagwise.persistence._forget_paths", lambda model: None)
        assert run(*report).exit_code == 0  # fills the cache
        for entry in (folder / "cache").rglob("output.pkl"):
            entry.write_bytes(pickle.dumps(Bomb(bomb)))
        run(*report)
        assert bomb.exists()  # what happened before
    bomb.rmdir()
    result = run(*report)
    assert result.exit_code == 0, result.stderr
    assert not bomb.exists()


def test_paths_are_forgotten(tmp_path):
    search = GridSearchCV(
        Pipeline([("a", SetKernelSVM())], memory="cache"),
        [{"a__C": [1.0], "memory": ["cache"]}, {"a": [Pipeline([], memory="other")]}],
    )
    save_model(search, tmp_path / "model.skops")
    again, _ = load_model(tmp_path / "model.skops")
    assert again.estimator.memory is None
    assert again.param_grid[0] == {"a__C": [1.0], "memory": [None]}
    assert again.param_grid[1]["a"][0].memory is None


CONFIGS = [b"\xff\xfe", b"[", b"set = 3", b"method = []", b"bag = {}", b"a" * 10**5, b"\0"]
CONFIGS += [b"bag = " + b"[" * 10**4, b"force = 'x'", b"[set]\nC = []", b"x = 1979"]
CONFIGS += [b"method = 1979-05-27", b"[[set]]", b"set = [1, {}]", b'"" = 1']


def test_hostile_options_in_a_file(refused, slides):
    config = slides.parent / "run.toml"
    for content in CONFIGS:
        config.write_bytes(content)
        words = ("fit", slides, *COLUMNS, "--config", config, "-o", slides.parent / "m.skops")
        refused(*words)
    refused("fit", slides, "--config", slides.parent, "-o", slides.parent / "m.skops")


def test_hostile_corrections(refused, slides):
    words = ("fit", slides, *COLUMNS, "-m", "orlr", "-o", slides.parent / "m.skops")
    for name in ("c.sqlite", "c.csv", "c.parquet"):
        path = slides.parent / name
        for content in (b"", b"\0" * 100, b"SQLite format 3\0" + b"\xff" * 5000, b"bag,row\n1,2\n"):
            path.write_bytes(content)
            refused(*words, "--corrections", path)
        path.unlink()
    refused(*words, "--corrections", slides.parent)


OUTPUTS = {
    "fit": ("fit", "{slides}", *COLUMNS, "-m", "nsk"),
    "predict": ("predict", "{model}", "{slides}"),
    "report": ("report", "{model}", "{slides}"),
}
ENDINGS = {"fit": "skops", "predict": "csv", "report": "html"}


def words_for(command, slides, model):
    named = {"slides": str(slides), "model": str(model)}
    return [str(word).format(**named) for word in OUTPUTS[command]]


@pytest.mark.parametrize("command", OUTPUTS)
def test_outputs_that_cannot_be_written(refused, slides, model, command, monkeypatch):
    folder, ending = slides.parent / "out", ENDINGS[command]
    folder.mkdir()
    words = words_for(command, slides, model)
    refused(*words, "-o", folder)
    refused(*words, "-o", folder / "no" / f"x.{ending}")
    existing = folder / f"x.{ending}"
    existing.write_text("mine")
    refused(*words, "-o", existing)
    assert existing.read_text() == "mine"
    (folder / "model").mkdir()
    (folder / f"dir.{ending}").mkdir()
    refused(*words, "-o", folder / f"dir.{ending}", "--force")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert "No space left" in refused(*words, "-o", existing, "--force")
    assert existing.read_text() == "mine"
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("command", OUTPUTS)
def test_devices_and_pipes_are_no_outputs(refused, slides, model, command):
    words = words_for(command, slides, model)
    pipe = slides.parent / f"pipe.{ENDINGS[command]}"
    os.mkfifo(pipe)
    link = slides.parent / f"full.{ENDINGS[command]}"
    link.symlink_to("/dev/full")
    for output in (pipe, link):
        refused(*words, "-o", output)
        refused(*words, "-o", output, "--force")
        assert output.is_fifo() or os.readlink(output) == "/dev/full"


def test_a_model_from_a_pipe_is_refused(refused, slides):
    pipe = slides.parent / "pipe.skops"
    os.mkfifo(pipe)
    refused("predict", pipe, slides, "-o", slides.parent / "out.csv")

"""``--config``: read the options of a run from a file."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli.tables import COLUMNS

from bagwise.io import read_bags
from bagwise.persistence import load_model

pytest.importorskip("skops")


@pytest.fixture(autouse=True)
def folder(slides, monkeypatch):
    monkeypatch.chdir(slides.parent)
    return slides.parent


def scores(model, slides):
    bags = read_bags(slides, bag="slide", features=["red", "green", "blue"]).bags
    return load_model(model)[0].decision_function(bags)


def test_a_file_of_options_is_the_same_as_typed_options(run, slides):
    words = ("-m", "milboost", "--set", "max_depth=2", "--set", "learning_rate=0.5", "--no-scale")
    run.ok("fit", "slides.csv", *COLUMNS, *words, "-o", "a.skops")
    Path("run.toml").write_text(
        'file = "slides.csv"\nbag = "slide"\nlabel = "tumour"\n'
        'features = ["red", "green", "blue"]\n'
        'method = "milboost"\nno-scale = true\n[set]\nmax_depth = 2\nlearning_rate = 0.5\n'
    )
    run.ok("fit", "--config", "run.toml", "-o", "b.skops")
    np.testing.assert_array_equal(scores("a.skops", slides), scores("b.skops", slides))
    assert load_model("a.skops")[1] == load_model("b.skops")[1]


def test_several_methods_and_their_parameters(run):
    words = ("slides.csv", *COLUMNS, "--folds", "2", "--no-baseline", "--json")
    text = 'method = ["sil", "misvm-bag"]\n[set]\nC = 2\n"misvm-bag.kernel" = "linear"\n'
    Path("run.toml").write_text(text)
    result = run.ok("evaluate", *words, "--config", "run.toml")
    assert json.loads(result.stdout)["parameters"] == {"C": 2, "misvm-bag.kernel": "linear"}


def test_what_is_typed_wins(run):
    text = 'file = "slides.csv"\nbag = "nobody"\nlabel_set = "tumour"\nexclude = ["patient"]'
    Path("run.toml").write_text(text)
    assert "'nobody'" in run("info", "--config", "run.toml").stderr
    result = run.ok("info", "--config", "run.toml", "--bag", "slide", "--json")
    assert '"bags": 24' in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mthd = 'nsk'", "no option 'mthd'"),
        ("[fit]\nmethod = 'nsk'", "no option 'fit'"),
        ("force = true", "no option 'force'"),
        ("method = ['nsk']", "expected one value"),
        ("no-scale = 1", "expected true or false"),
        ("features = {a = 1}", "expected a list"),
        ("method = nsk", "not a TOML file"),
        ("set = ['C']", "NAME=VALUE"),
        ("file = 'absent.csv'\nmethod = 'nsk'\noutput = 'm.skops'", "absent.csv"),
    ],
)
def test_a_wrong_file_is_one_line(run, folder, text, message):
    (folder / "run.toml").write_text(text)
    before = sorted(folder.iterdir())
    extra = () if "file" in text else ("slides.csv", *COLUMNS, "-m", "nsk", "-o", "m.skops")
    result = run("fit", *extra, "--config", "run.toml")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert message in result.stderr
    assert sorted(folder.iterdir()) == before

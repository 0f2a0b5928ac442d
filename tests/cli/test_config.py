"""``--config``: read the options of a run from a file."""

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from cli.tables import COLUMNS

from bagwise.cli import app
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


def every_command():
    group = typer.main.get_command(app)
    nested = [c for command in group.commands.values() for c in _commands(command)]
    return {command.name: command for command in nested}


def _commands(command):
    return list(getattr(command, "commands", {}).values()) or [command]


def test_a_file_of_options_is_the_same_as_typed_options(run, slides):
    words = ("-m", "milboost", "--set", "max_depth=2", "--set", "learning_rate=0.5", "--no-scale")
    first = run("fit", "slides.csv", *COLUMNS, *words, "-o", "a.skops")
    assert first.exit_code == 0, first.stderr
    Path("run.toml").write_text(
        'file = "slides.csv"\nbag = "slide"\nlabel = "tumour"\n'
        'features = ["red", "green", "blue"]\n'
        'method = "milboost"\nno-scale = true\n[set]\nmax_depth = 2\nlearning_rate = 0.5\n'
    )
    again = run("fit", "--config", "run.toml", "-o", "b.skops")
    assert again.exit_code == 0, again.stderr
    np.testing.assert_array_equal(scores("a.skops", slides), scores("b.skops", slides))
    assert load_model("a.skops")[1] == load_model("b.skops")[1]


@pytest.mark.parametrize("name", ["misvm-bag.kernel", '"misvm-bag.kernel"'])
def test_several_methods_and_their_parameters(run, name):
    words = ("slides.csv", *COLUMNS, "--folds", "2", "--no-baseline", "--json")
    Path("run.toml").write_text(f'method = ["sil", "misvm-bag"]\n[set]\nC = 2\n{name} = "linear"\n')
    result = run("evaluate", *words, "--config", "run.toml")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["parameters"] == {"C": 2, "misvm-bag.kernel": "linear"}


def test_what_is_typed_wins(run):
    text = 'file = "slides.csv"\nbag = "nobody"\nlabel_set = "tumour"\nexclude = ["patient"]'
    Path("run.toml").write_text(text)
    assert "'nobody'" in run("info", "--config", "run.toml").stderr
    result = run("info", "--config", "run.toml", "--bag", "slide", "--json")
    assert result.exit_code == 0, result.stderr
    assert '"bags": 24' in result.stdout


def test_parameters_are_a_table_or_a_list(run):
    words = ("fit", "slides.csv", *COLUMNS, "-m", "nsk")
    Path("table.toml").write_text('set = {C = 0.5, gamma = "scale", normalization = "none"}')
    Path("list.toml").write_text('set = ["C=0.5", "gamma=scale", "normalization=none"]')
    for config_file, output in (("table.toml", "b.skops"), ("list.toml", "c.skops")):
        result = run(*words, "--config", config_file, "-o", output)
        assert result.exit_code == 0, result.stderr
        expected = {"C": 0.5, "gamma": "scale", "normalization": None}
        assert load_model(output)[1]["parameters"] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mthd = 'nsk'", "no option 'mthd'. Did you mean 'method'?"),
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


def test_an_absent_or_binary_file_is_one_line(run, folder):
    (folder / "binary.toml").write_bytes(bytes(range(256)))
    for name in ("absent.toml", "binary.toml", "."):
        result = run("info", "--config", name)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("name", sorted(every_command()))
def test_every_command_takes_the_options(name):
    names = {option for p in every_command()[name].params for option in p.opts}
    assert {"--config", "--debug", "--quiet", "-q"} <= names
    assert ("--force" in names) == ("-f" in names)


def test_another_name_of_an_option_is_read_as_well(run):
    words = ("fit", "slides.csv", *COLUMNS, "-m", "sil", "-o", "m.skops")
    assert run(*words).exit_code == 0
    Path("old.toml").write_text("cv = 30")  # --folds, in version 0.1
    result = run("report", "m.skops", "slides.csv", "--config", "old.toml", "-o", "p.html")
    assert "30 folds" in result.stderr

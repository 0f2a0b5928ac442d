"""``--config`` and ``--save-config``: save the options of a run, and repeat it."""

import json
import tomllib
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


def options(name):
    return tomllib.loads(Path(name).read_text())


def every_command():
    group = typer.main.get_command(app)
    nested = [c for command in group.commands.values() for c in _commands(command)]
    return {command.name: command for command in nested}


def _commands(command):
    return list(getattr(command, "commands", {}).values()) or [command]


def test_a_saved_run_is_repeated_exactly(run, slides):
    words = ("-m", "milboost", "--set", "max_depth=2", "--set", "learning_rate=0.5", "--no-scale")
    first = run("fit", "slides.csv", *COLUMNS, *words, "-o", "a.skops", "--save-config", "run.toml")
    assert first.exit_code == 0, first.stderr
    again = run("fit", "--config", "run.toml", "-o", "b.skops")
    assert again.exit_code == 0, again.stderr
    np.testing.assert_array_equal(scores("a.skops", slides), scores("b.skops", slides))
    assert load_model("a.skops")[1] == load_model("b.skops")[1]
    # And a run from a file is kept like a typed one.
    run("fit", "--config", "run.toml", "-o", "c.skops", "--save-config", "again.toml")
    assert options("again.toml") == options("run.toml") | {"output": "c.skops"}


def test_several_methods_and_their_parameters_are_kept(run):
    words = ("evaluate", "slides.csv", *COLUMNS, "-m", "sil", "-m", "misvm-bag", "--folds", "2")
    parameters = ("--set", "C=2", "--set", "misvm-bag.kernel=linear", "--json")
    first = run(*words, *parameters, "--save-config", "run.toml")
    assert first.exit_code == 0, first.stderr
    assert options("run.toml")["method"] == ["sil", "misvm-bag"]
    assert options("run.toml")["set"] == {"C": 2, "misvm-bag.kernel": "linear"}
    nested = Path("run.toml").read_text().replace('"misvm-bag.kernel" =', "misvm-bag.kernel =")
    Path("nested.toml").write_text(nested)
    for name in ("run.toml", "nested.toml"):
        again = run("evaluate", "--config", name)
        assert again.exit_code == 0, again.stderr
        for document in (first, again):
            found = json.loads(document.stdout)
            assert found["parameters"] == {"C": 2, "misvm-bag.kernel": "linear"}
        scores = [json.loads(d.stdout)["methods"][1]["accuracy"] for d in (first, again)]
        assert scores[0] == scores[1]


def test_evaluate_is_repeated_with_its_numbers(run):
    words = ("evaluate", "slides.csv", *COLUMNS, "-m", "sil", "--group", "patient", "--folds", "3")
    first = run(*words, "--seed", "7", "--json", "--save-config", "run.toml")
    again = run("evaluate", "--config", "run.toml")
    times = [line for line in first.stdout.splitlines() if '"seconds"' not in line]
    assert times == [line for line in again.stdout.splitlines() if '"seconds"' not in line]
    assert '"seed": 7' in again.stdout


def test_what_is_typed_wins(run):
    text = 'file = "slides.csv"\nbag = "nobody"\nlabel_set = "tumour"\nexclude = ["patient"]'
    Path("run.toml").write_text(text)
    assert "'nobody'" in run("info", "--config", "run.toml").stderr
    result = run("info", "--config", "run.toml", "--bag", "slide", "--json")
    assert result.exit_code == 0, result.stderr
    assert '"bags": 24' in result.stdout


def test_parameters_are_a_table_or_a_list(run):
    typed = ("--set", "C=0.5", "--set", "gamma=scale", "--set", "normalization=none")
    words = ("fit", "slides.csv", *COLUMNS, "-m", "nsk")
    kept = ("--save-config", "run.toml")
    assert run(*words, *typed, "-o", "a.skops", *kept).exit_code == 0
    assert options("run.toml")["set"] == {"C": 0.5, "gamma": "scale", "normalization": "none"}
    Path("list.toml").write_text('set = ["C=0.5", "gamma=scale", "normalization=none"]')
    for config_file, output in (("run.toml", "b.skops"), ("list.toml", "c.skops")):
        result = run(*words, "--config", config_file, "-o", output)
        assert result.exit_code == 0, result.stderr
        assert load_model(output)[1]["parameters"] == {
            "C": 0.5,
            "gamma": "scale",
            "normalization": None,
        }


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


def test_nothing_is_overwritten_by_a_saved_run(run, folder):
    (folder / "run.toml").write_text("mine")
    words = ("info", "slides.csv", "--bag", "slide", "--exclude", "patient,tumour")
    for place in ("run.toml", "slides.csv", "nowhere/run.toml"):
        result = run(*words, "--save-config", place)
        assert (result.exit_code, result.stdout) == (2, "")
    assert (folder / "run.toml").read_text() == "mine"
    failed = run("info", "absent.csv", "--save-config", "new.toml")
    assert failed.exit_code == 2
    assert not (folder / "new.toml").exists()


@pytest.mark.parametrize("name", sorted(every_command()))
def test_every_command_takes_the_options(name):
    names = {option for p in every_command()[name].params for option in p.opts}
    assert {"--config", "--save-config", "--debug", "--quiet", "-q"} <= names
    assert ("--force" in names) == ("-f" in names)


def test_another_name_of_an_option_is_read_as_well(run):
    words = ("fit", "slides.csv", *COLUMNS, "-m", "sil", "-o", "m.skops")
    assert run(*words).exit_code == 0
    Path("old.toml").write_text("cv = 30")  # --folds, in version 0.1
    result = run("report", "m.skops", "slides.csv", "--config", "old.toml", "-o", "p.html")
    assert "30 folds" in result.stderr

"""``--json``: one document on stdout, and nothing else there."""

import json
import os
import subprocess
import sys

import pytest
import typer
from cli.tables import COLUMNS, write_rows

from bagwise.cli import app

SETS = ("--bag", "slide", "--label-set", "seen", "--exclude", "patient,tumour")


@pytest.fixture
def folder(slides, run, monkeypatch):
    """A folder with slides, label sets and a model."""
    pytest.importorskip("skops")
    monkeypatch.chdir(slides.parent)
    header, *rows = [line.split(",") for line in slides.read_text().splitlines()]
    marked = [[*row, "ill" if row[2] == "yes" else "well"] for row in rows]
    write_rows("sets.csv", [[*header, "seen"], *marked])
    run("fit", "slides.csv", *COLUMNS, "-m", "sil", "-o", "model.skops")
    return slides.parent


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("info", "slides.csv", *COLUMNS), {"file", "bags", "labels"}),
        (
            ("fit", "slides.csv", *COLUMNS, "-m", "sil", "-o", "new.skops"),
            {"model", "method", "parameters", "bags", "classes", "feature_names"},
        ),
        (
            ("predict", "model.skops", "slides.csv", "-o", "out.csv"),
            {"bags", "instances", "predicted", "written"},
        ),
        (
            ("report", "model.skops", "slides.csv", "-o", "out.html"),
            {"model", "file", "bags", "written"},
        ),
        (
            ("annotate", "sets.csv", *SETS, "--background", "--review", "2", "-o", "out.csv"),
            {"instances", "least_certain", "written"},
        ),
        (
            ("evaluate", "slides.csv", *COLUMNS, "-m", "sil", "--folds", "3"),
            {"folds", "methods", "parameters"},
        ),
        (
            ("cluster", "sets.csv", *SETS, "-k", "2", "--no-report", "-o", "out.csv"),
            {"clusters", "written"},
        ),
        (("datasets", "describe", "musk1"), {"name", "description"}),
        (("datasets", "export", "musk1", "-o", "musk1.csv"), {"name", "bags", "written"}),
    ],
)
def test_a_document_with_these_keys(run, folder, words, keys):
    result = run(*words, "--json")
    assert result.exit_code == 0, result.stderr
    assert keys <= json.loads(result.stdout).keys()


def test_every_command_can_print_json():
    def leaves(command, path=()):
        nested = getattr(command, "commands", None)
        if nested is None:
            yield " ".join(path), {option.name for option in command.params}
        for name, inner in (nested or {}).items():
            yield from leaves(inner, (*path, name))

    options = dict(leaves(typer.main.get_command(app)))
    assert not {name for name, names in options.items() if "json" not in names}


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("datasets",), {"name", "task", "here"}),
        (("datasets", "list"), {"name", "task", "here"}),
        (("methods",), {"name", "parameters", "paper", "available"}),
    ],
)
def test_a_list_of_such(run, folder, words, keys):
    result = run(*words, "--json")
    assert result.exit_code == 0, result.stderr
    entries = json.loads(result.stdout)
    assert entries
    assert all(keys <= entry.keys() for entry in entries)


def test_rows_and_files_are_those_of_the_table(run, folder):
    words = ("annotate", "sets.csv", *SETS, "--background", "-o", "out.csv")
    document = json.loads(run(*words, "--json").stdout)
    assert document["written"] == ["out.csv", "out.review.csv"]
    assert all((folder / name).exists() for name in document["written"])
    chances = [row["probability"] for row in document["least_certain"]]
    assert len(chances) == 10
    assert chances == sorted(chances)


def test_what_is_no_number_is_null(capsys):
    from bagwise.cli.output import print_json

    print_json({"score": float("nan"), "all": [float("inf"), 1.5]})
    assert json.loads(capsys.readouterr().out) == {"score": None, "all": [None, 1.5]}


def test_a_terminal_without_unicode_is_no_bug(slides):
    words = [sys.executable, "-m", "bagwise", "evaluate", str(slides), *COLUMNS, "-m", "sil"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*words, "--folds", "2"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout

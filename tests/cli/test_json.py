"""``--json``: one document on stdout, and nothing else there."""

import json
import os
import subprocess
import sys

import pytest
from cli.tables import COLUMNS, write_rows

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

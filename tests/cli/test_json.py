"""``--json``: one document on stdout, and nothing else there."""

import json
import os
import subprocess
import sys

import pytest
from cli.tables import COLUMNS


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("cluster", "{slides}", *COLUMNS, "-k", "2", "--no-report"), {"clusters", "written"}),
        (("evaluate", "{slides}", *COLUMNS, "-m", "sil", "--folds", "3"), {"methods", "written"}),
        (("datasets", "describe", "musk1"), {"name", "description"}),
        (("datasets", "export", "musk1"), {"name", "bags", "written"}),
    ],
)
def test_a_document_with_these_keys(run, slides, tmp_path, words, keys):
    words = [word.format(slides=slides) for word in words]
    output = () if "describe" in words else ("-o", tmp_path / "out.csv")
    assert keys <= json.loads(run.ok(*words, *output, "--json").stdout).keys()


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

from functools import partial

import pytest
from cli.tables import slide_rows, write_rows
from typer.testing import CliRunner

from bagwise._methods import ready_made
from bagwise.cli import app


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    """The baseline with few trees: it is fitted in every fold of every evaluation."""
    monkeypatch.setattr(ready_made, "pooled_trees", partial(ready_made.pooled_trees, 20))
    monkeypatch.setattr(ready_made, "_TREES_PER_LABEL", 5)


@pytest.fixture
def run():
    """Run a command in this process; what it printed is in ``stdout`` and ``stderr``."""

    def call(*words):
        environment = {"COLUMNS": "100", "NO_COLOR": "1"}
        words = [str(word) for word in words]
        return CliRunner().invoke(app, words, env=environment, prog_name="bagwise")

    return call


@pytest.fixture
def slides(tmp_path):
    """The path of a CSV table of slides."""
    pytest.importorskip("pyarrow")
    return write_rows(tmp_path / "slides.csv", slide_rows())

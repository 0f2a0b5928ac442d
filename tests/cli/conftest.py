import pytest
from cli.tables import slide_rows, write_rows
from typer.testing import CliRunner

from bagwise.cli import app


@pytest.fixture(autouse=True)
def quick_baselines(few_trees):
    """No test of the command line needs the baseline at its full size."""


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

import pytest
from cli.tables import slide_rows, write_rows
from typer.testing import CliRunner

from bagwise.cli import app


@pytest.fixture(autouse=True)
def quick_baselines(few_trees):
    """No test of the command line needs the baseline at its full size."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Folds that are kept for a resumed evaluation go to a temporary folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


class Runner:
    """Run a command in this process; what it printed is in ``stdout`` and ``stderr``."""

    def __call__(self, *words):
        environment = {"COLUMNS": "100", "NO_COLOR": "1"}
        words = [str(word) for word in words]
        return CliRunner().invoke(app, words, env=environment, prog_name="bagwise")

    def ok(self, *words):
        """Run a command that must succeed."""
        result = self(*words)
        assert result.exit_code == 0, result.stderr
        return result

    def fails(self, *words):
        """Run a command that must report an error of its user, in one line on stderr."""
        result = self(*words)
        assert result.exit_code == 2, result.stderr
        return result


@pytest.fixture
def run():
    """Run a command: ``run.ok`` must succeed, ``run.fails`` must report an error."""
    return Runner()


@pytest.fixture
def slides(tmp_path):
    """The path of a CSV table of slides."""
    pytest.importorskip("pyarrow")
    return write_rows(tmp_path / "slides.csv", slide_rows())

"""Bad input on every command: one line on stderr, exit code 2, no traceback, nothing written."""

import numpy as np
import pytest
from cli.tables import slide_rows, write_rows

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

COLUMNS = ("--bag", "slide", "--label", "tumour")
PLAIN = ("--exclude", "patient")
# Commands that read a file of bags, as far as the name of the file.
READERS = {
    "info": ("info", "{}", *COLUMNS, *PLAIN),
    "fit": ("fit", "{}", *COLUMNS, *PLAIN, "-m", "sil", "-o", "new.skops"),
    "evaluate": ("evaluate", "{}", *COLUMNS, *PLAIN, "-m", "sil", "--folds", "2"),
    "predict": ("predict", "model.skops", "{}", "-o", "new.csv"),
    "report": ("report", "model.skops", "{}", "-o", "new.html"),
    "review": ("review", "orlr.skops", "{}", "--no-browser", "-o", "new.sqlite"),
    "annotate": (
        *("annotate", "{}", "--bag", "slide", "--label-set", "tumour", *PLAIN, "-o", "new.csv"),
    ),
    "cluster": ("cluster", "{}", *COLUMNS, *PLAIN, "-k", "2", "--no-report", "-o", "new.csv"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Good and bad files, and a model."""
    from typer.testing import CliRunner

    from bagwise.cli import app

    place = tmp_path_factory.mktemp("bad")
    rows = slide_rows()
    write_rows(place / "slides.csv", rows)
    words = [str(place / "slides.csv"), *COLUMNS, *PLAIN, "-m", "sil"]
    CliRunner().invoke(app, ["fit", *words, "-o", str(place / "model.skops")])
    CliRunner().invoke(app, ["fit", *words[:-1], "orlr", "-o", str(place / "orlr.skops")])
    (place / "empty.csv").write_bytes(b"")
    write_rows(place / "header.csv", rows[:1])
    rng = np.random.default_rng(0)
    for ending in ("csv", "parquet", "npz", "h5", "tsv", "skops", "txt"):
        (place / f"garbage.{ending}").write_bytes(rng.bytes(2000))
    (place / "folder.csv").mkdir()
    write_rows(place / "text.csv", [rows[0], *([*row[:3], "dark", *row[4:]] for row in rows[1:])])
    write_rows(place / "gap.csv", [rows[0], [*rows[1][:3], "nan", *rows[1][4:]], *rows[2:]])
    write_rows(place / "void.csv", [rows[0], *([*row[:3], "", *row[4:]] for row in rows[1:])])
    write_rows(place / "other.csv", [["slide", "tumour", "patient", "x"], ["a", "yes", "p", 1.0]])
    write_rows(place / "one.csv", [rows[0], *([*row[:2], "no", *row[3:]] for row in rows[1:])])
    write_rows(place / "ragged.csv", [*rows[:3], rows[3][:2], *rows[4:]])
    return place


@pytest.fixture
def refused(run, folder, monkeypatch):
    """Run a command that must end in one line and 2, and change nothing."""
    monkeypatch.chdir(folder)

    def call(words, message=""):
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        result = run.fails(*words)
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert [line.startswith("Error: ") for line in lines].count(True) == 1, result.stderr
        assert message in lines[-1]
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before

    return call


@pytest.mark.parametrize("command", READERS)
def test_a_file_that_cannot_be_read(refused, command):
    garbage = [f"garbage.{ending}" for ending in ("csv", "tsv", "parquet", "npz", "h5", "txt")]
    absent = ("absent.csv", "nowhere/absent.parquet")
    for file in (*absent, "", "empty.csv", "header.csv", "folder.csv", "ragged.csv", *garbage):
        refused([word.format(file) for word in READERS[command]], file.rpartition("/")[2])
    refused([word.format("text.csv") for word in READERS[command]], "red")


@pytest.mark.parametrize("command", [name for name in READERS if name != "info"])
def test_missing_values(refused, command):
    for file in ("gap.csv", "void.csv"):
        refused([word.format(file) for word in READERS[command]], "s0")


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_a_label_that_never_changes(refused, command):
    refused([word.format("one.csv") for word in READERS[command]], "no")


@pytest.mark.parametrize("command", READERS)
def test_a_column_that_is_not_there(refused, command):
    words = [word.format("slides.csv") for word in READERS[command]]
    refused([*words, "--bag", "slyde"], "slyde")

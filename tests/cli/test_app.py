"""Errors of commands: one line on stderr, an exit code, nothing on stdout."""

import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from cli.tables import COLUMNS

import bagwise
from bagwise.exceptions import InputError


@pytest.fixture
def failing(monkeypatch):
    """Make `bagwise methods` raise an error."""

    def arrange(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr("bagwise.cli.methods.print_table", fail)

    return arrange


def lines(text):
    return text.strip().splitlines()


def test_version(run):
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"bagwise {bagwise.__version__}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit"], "See `bagwise fit --help`"),
        (["fitt"], "Did you mean 'fit'?"),
        (["--no-such-option"], "--no-such-option"),
        (["info", "--no-such-option"], "--no-such-option"),
        (["evaluate", "f.csv", "-m", "nsk", "--folds", "few"], "--folds"),
        (["datasets", "export"], "NAME"),
        (["datasets", "exprt", "musk1"], "exprt"),
    ],
)
def test_wrong_usage_is_one_line_and_2(run, words, message):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = lines(result.stderr)
    assert line.startswith("Error: ")
    assert message in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "{slides}"], "--bag"),
        (["info", "{slides}", "--bag", "slide"], "--exclude"),
        (["evaluate", "{slides}", *COLUMNS, "-m", "nks"], "Did you mean nsk?"),
        (["evaluate", "{slides}", *COLUMNS, "-m", "nsk", "--set", "C=-1", "-q"], "'C' parameter"),
        (["evaluate", "{slides}", *COLUMNS, "-m", "nsk", "--set", "D=1"], "no parameter 'D'"),
        (["evaluate", "{slides}", *COLUMNS, "-m", "nsk", "--set", "C"], "NAME=VALUE"),
        (["evaluate", "{slides}", *COLUMNS, "-m", "nsk", "--folds", "20"], "each fold needs one"),
        (["evaluate", "{slides}", *COLUMNS, "-m", "sil", "--positive", "x"], "--pos-label"),
        (["evaluate", "{slides}", *COLUMNS, "-m", "sil", "--label-set", "x"], "--label-set"),
        (["evaluate", "{slides}", *COLUMNS, "--baseline", "best"], "Choose from majority"),
        (
            ["evaluate", "{slides}", *COLUMNS, "-m", "nsk", "--set", "mind.C=1"],
            "the methods are nsk",
        ),
        (["predict", "absent.skops", "{slides}", "-o", "out.csv"], "absent.skops"),
        (["predict", "{slides}", "{slides}", "-o", "out.csv"], "cannot be loaded"),
        (["predict", "m.skops", "{slides}", "-o", "out.xlsx"], ".parquet"),
        (["predict", "m.skops", "{slides}", "-o", "nowhere/out.csv"], "nowhere"),
        (["datasets", "describe", "musk3"], "Did you mean musk"),
    ],
)
def test_bad_input_is_one_line_and_2(run, slides, monkeypatch, words, message):
    if words[0] in ("fit", "predict"):
        pytest.importorskip("skops")
    monkeypatch.chdir(slides.parent)
    before = sorted(slides.parent.iterdir())
    result = run.fails(*(word.format(slides=slides) for word in words))
    assert result.stdout == ""
    line = lines(result.stderr)[-1]
    assert line.startswith("Error: ")
    assert message in line
    assert sorted(slides.parent.iterdir()) == before


def test_an_error_of_ours_is_1_and_shows_where_when_asked(run, failing):
    failing(KeyError("lost"))
    quiet = run("methods")
    assert quiet.exit_code == 1
    assert "Traceback" not in quiet.stderr
    assert "--debug" in quiet.stderr
    for loud in (run("--debug", "methods"), run("methods", "--debug")):
        assert loud.exit_code == 1
        assert "Traceback" in loud.stderr
        assert "KeyError: 'lost'" in loud.stderr


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "Interrupted."),
        (MemoryError(), 2, "Error: there is not enough memory for this command."),
        (
            PermissionError(13, "Permission denied", "m"),
            2,
            "Error: [Errno 13] Permission denied: 'm'",
        ),
        (InputError("one\n\x1b[31mtwo"), 2, "Error: one [31mtwo"),
        (
            InputError("name it with label_set=, features=[...]"),
            2,
            "Error: name it with --label-set, --features",
        ),
        (
            InputError("asked for with group=, exclude=[...], checkpoint= or force=True"),
            2,
            "Error: asked for with --group, --exclude, --checkpoint or --force",
        ),
    ],
)
def test_every_end_is_one_line(run, failing, error, code, line):
    failing(error)
    result = run("methods")
    assert (result.exit_code, result.stderr.strip()) == (code, line)


def test_warnings_are_one_line(run, monkeypatch):
    def warn(*_, **__):
        warnings.warn("slow\nvery slow", UserWarning, stacklevel=1)

    monkeypatch.setattr("bagwise.cli.methods.print_table", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = run("methods")
    assert set(lines(result.stderr)) == {"Warning: slow"}


def test_starting_up_loads_no_heavy_room():
    code = "import sys, bagwise.cli; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"sklearn", "numba", "pyarrow", "matplotlib", "skops", "jinja2", "narwhals"}


PROGRAM = [sys.executable, "-m", "bagwise"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_is_one_line():
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import bagwise.cli.info, os, sys\n"
        "from bagwise.cli import app\n"
        "read = sys.modules['bagwise.cli.options'].Columns.__post_init__\n"
        "def interrupt(*_): os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.modules['bagwise.cli.options'].Columns.__post_init__ = interrupt\n"
        "app(['info', 'x.csv'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_a_closed_output_is_no_bug():
    command = shlex.join([*PROGRAM, "methods"])
    done = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_reader_that_leaves_ends_the_command_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PROGRAM, "methods", "--json"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [("--version",), ("methods",)])
def test_a_full_disk_is_one_line(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, len(lines(done.stderr))) == (2, 1)
    assert "No space left" in done.stderr


def test_a_link_to_itself_is_bad_input(run, tmp_path):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    for words in (
        ("info", loop),
        ("fit", loop, "-o", tmp_path / "m.skops"),
        ("predict", loop, loop, "-o", tmp_path / "out.csv"),
        ("fit", tmp_path / "absent.csv", "-o", loop),
    ):
        result = run(*map(str, words))
        assert (result.exit_code, len(lines(result.stderr))) == (2, 1), words
        assert "bug" not in result.stderr

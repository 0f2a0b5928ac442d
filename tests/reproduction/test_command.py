"""``python -m reproduction``: lists papers, runs and resumes experiments, shows results."""

import json

import pytest
from typer.testing import CliRunner

from bagwise.exceptions import DataNotFoundError
from cases import each
from reproduction import _building as building
from reproduction import _runner as runner
from reproduction import list_papers, load_paper
from reproduction.__main__ import SHIPPED, app

QUICK = ("pdmisvm", "figure10", "--quick", "--only", "pdmisvm-exact")


@pytest.fixture
def run():
    """Run the command in this process; what it printed is in ``stdout`` and ``stderr``."""

    def call(*words, columns=100):
        environment = {"COLUMNS": str(columns), "NO_COLOR": "1"}
        return CliRunner().invoke(app, [str(word) for word in words], env=environment)

    return call


@pytest.fixture
def output(tmp_path):
    return tmp_path / "results"


def test_papers_and_experiments_are_listed(run):
    result = run()
    assert result.exit_code == 0
    for name in ("pdmisvm", "table1", "figure10", "elephant"):
        assert name in result.stdout


def test_a_part_of_an_experiment(run, output):
    result = run(*QUICK, "-o", output)
    assert result.exit_code == 0, result.stderr
    assert "Ours" in result.stdout
    assert "Ours (kernel)" not in result.stdout  # --only
    lines = (output / "pdmisvm" / "figure10.jsonl").read_text().splitlines()
    assert [json.loads(line)["unit"] for line in lines] == [
        "figure10/rings/pdmisvm-exact/repetition 0"
    ]
    page = (output / "pdmisvm" / "figure10-quick.md").read_text()
    assert "not run" in page  # the page is of the whole experiment


def test_stored_results_are_shown_and_nothing_is_written(run, output):
    run(*QUICK, "-o", output)
    files = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    shown = run(*QUICK, "--show", "-o", output)
    assert "Ours" in shown.stdout
    assert "Written" not in shown.stderr
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == files


def test_where_to_get_absent_data_is_printed(run, output, tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    building._load.cache_clear()
    only = ("--only", "elephant", "--only", "fox", "--only", "pdmisvm-exact")
    done = run("pdmisvm", "table1", *only, "-o", output)
    assert "Elephant is absent: python -m reproduction.fetch elephant" in done.stderr
    assert "Fox is absent: put it into BAGWISE_DATA" in done.stderr


def test_shipped_data_need_no_file_and_others_do(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    building._load.cache_clear()
    data = [entry for name in list_papers() for entry in load_paper(name).data.values()]
    sources = {entry.options.get("loader", entry.source): entry for entry in data}
    assert sources.keys() > SHIPPED
    for source, entry in sources.items():
        if source not in SHIPPED:
            with pytest.raises(DataNotFoundError):
                building.load_data(entry.source, entry.options, 0)
        elif not source.endswith("make_text_rows"):  # large
            assert building.load_data(entry.source, entry.options, 0)


def test_all_runs_every_experiment_in_full(run, output, tiny_file):
    result = run(tiny_file, "--all", "-o", output)
    assert result.exit_code == 0, result.stderr
    written = {path.name for path in (output / "tiny").glob("*.jsonl")}
    assert written == {"table.jsonl", "figure.jsonl"}
    lines = (output / "tiny" / "table.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 2 * 3 * 2  # data sets, methods, folds, and both repetitions


def test_an_interrupted_run_says_what_is_saved(run, output, monkeypatch):
    def interrupted(unit):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "execute", interrupted)
    result = run(*QUICK, "-o", output)
    assert result.exit_code == 130
    assert "0 of 1 units are saved" in result.stderr


def test_a_failed_unit_fails_the_command(run, output, monkeypatch):
    def broken(unit):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(runner, "PROTOCOLS", {"decision_regions": broken})
    result = run(*QUICK, "-o", output)
    assert result.exit_code == 1
    assert "on purpose" in result.stdout


@each(
    ("words", "message"),
    [
        (("nobody",), "no paper is called"),
        (("pdmisvm", "table9"), "Did you mean table"),
        (("pdmisvm", "table1", "--only", "elefant"), "Did you mean elephant"),
        (("none.toml",), "no file"),
        (("pdmisvm", "table1", "--all"), "name the paper only"),
        (("--all",), "name the paper only"),
        (("garbage.csv",), "garbage.csv"),
        (("pdmisvm", "figure10", "--show", "-o", "garbage.csv"), "garbage.csv"),
    ],
)
def test_wrong_names_are_one_line_and_exit_code_2(
    run, output, words, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garbage.csv").write_bytes(b"\x00\xff garbage")
    result = run(*words) if "-o" in words else run(*words, "-o", output)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1

"""Run the commands of examples/users/*/README.md unchanged in an empty folder."""

import csv
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bagwise.cli import app

FOLDERS = sorted(
    path.parent for path in (Path(__file__).parents[1] / "examples").glob("users/*/README.md")
)


def commands(folder):
    """The commands of the README: lines that begin with "$ "."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [
        shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line[:2] == "$ "
    ]


@pytest.fixture
def user(tmp_path, monkeypatch, few_trees, few_candidates):
    """Run a command in an empty folder with the scripts of the user; return its output."""
    for needed in ("pyarrow", "skops", "h5py", "matplotlib", "jinja2"):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)

    def run(folder, words, capsys):
        program, *rest = words
        if program == "bagwise":
            done = CliRunner().invoke(app, rest, env={"COLUMNS": "80"}, prog_name="bagwise")
            assert done.exit_code == 0, f"{shlex.join(words)}: {done.stderr}"
            return done.stdout
        assert program == "python", f"only bagwise and python are run: {words}"
        shutil.copy(folder / rest[0], tmp_path)
        monkeypatch.setattr(sys, "argv", rest)
        capsys.readouterr()
        runpy.run_path(rest[0], run_name="__main__")
        return capsys.readouterr().out

    return run


def _rows(name):
    """The rows of a table by their first cell."""
    with open(name, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {next(iter(row.values())): row for row in rows}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_user_reaches_the_goal(user, folder, capsys):
    lines = commands(folder)
    assert len(lines) >= 4
    printed = {shlex.join(words): user(folder, words, capsys) for words in lines}
    if folder.name == "pathology":
        precision = printed["python precision.py maps/top_patches.csv truth.csv"]
        assert float(re.search(r"first patch: ([\d.]+)", precision)[1]) >= 0.7
    if folder.name == "chemist":  # the pocket is about three descriptors, and one conformer fits
        found = re.search(r"descriptors: (.*)", printed["python analyse.py"])[1].split(", ")
        assert len(set(found) & {"shape_1", "shape_2", "shape_3"}) >= 2
        best, keys = (_rows(name) for name in ("best_conformers.csv", "active.csv"))
        active = [bag for bag, row in keys.items() if row["predicted"] == "active"]
        hits = [keys[bag]["key_instance"] == best[bag]["row"] for bag in active]
        assert sum(hits) / len(hits) >= 0.28  # by chance 0.2: one of 3 to 8
    if folder.name == "ecologist":
        files = ("annotated.csv", "corrected.csv", "predicted.instances.csv")
        texts = [printed[f"python accuracy.py {name} truth.csv"] for name in files]
        before, after, new = (float(re.search(r"right: ([\d.]+)", text)[1]) for text in texts)
        assert before >= 0.8
        assert after >= before
        assert new >= 0.8

"""``bagwise doctor`` lists missing packages, and exits with 1 only if the core is broken."""

import importlib.util
import json
import tomllib
from pathlib import Path

import pytest

from bagwise.cli import doctor as room

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_extras_are_those_of_the_project():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    named = {
        extra: tuple(line.partition(">")[0] for line in lines)
        for extra, lines in extras.items()
        if extra != "all"
    }
    assert named == room.EXTRAS


def test_the_core_is_that_of_the_project():
    lines = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    assert tuple(line.partition(">")[0] for line in lines) == room._CORE


@pytest.mark.parametrize("extra", room.EXTRAS)
def test_a_missing_extra_is_no_fault_and_its_command_is_shown(run, monkeypatch, extra):
    blocked, find = room.EXTRAS[extra][0], importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == blocked else find(name, *a)
    )
    result = run("doctor", "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["extras"][extra] == f'absent: pip install "bagwise[{extra}]"'
    assert extra != "torch" or told["gpu"] == {"torch": told["extras"]["torch"]}


def test_a_broken_core_ends_with_1(run, monkeypatch):
    monkeypatch.setattr(room, "_CORE", ("numpy", "no_such_package"))
    result = run("doctor", "--json")
    assert result.exit_code == 1
    assert "no_such_package" in json.loads(result.stdout)["broken"][0]
    assert "Broken: no_such_package" in result.stderr


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    assert room._writable(tmp_path) == "can be written"
    assert room._writable(tmp_path / "new" / "er") == "can be created"

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(room.tempfile, "TemporaryFile", refuse)
    assert room._writable(tmp_path) == "cannot be written (Permission denied)"


@pytest.mark.parametrize(
    ("folder", "answer"), [("there", "there: can be written"), (None, "set NUMBA_CACHE_DIR")]
)
def test_the_folder_of_compiled_kernels_is_shown(run, monkeypatch, folder, answer):
    from bagwise.compiled import compilation

    monkeypatch.setattr(compilation, "cache_folder", lambda: folder)
    result = run("doctor", "--json")
    assert result.exit_code == 0
    assert answer in json.loads(result.stdout)["files"]["compiled kernels"]

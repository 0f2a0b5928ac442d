"""Run the README: every Python block as a doctest, and every command."""

import doctest
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bagwise.cli import app
from cases import each

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ").split("#")[0].strip()
    for language, block in BLOCKS
    if language == "console"
    for line in block.splitlines()
]


class _Runner(doctest.DocTestRunner):
    """Stops at the first exception: later examples need the names of the failed one."""

    def report_unexpected_exception(self, out, test, example, exc_info):
        raise exc_info[1]


PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if "```pycon" in page.read_text()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_print_what_they_say(page):
    blocks = re.findall(r"```pycon\n(.*?)```", page.read_text(), flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, page.name, 0)
    assert len(test.examples) > 10 or page.name != "README.md"
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    report = []
    _Runner(optionflags=flags).run(test, out=report.append)
    assert not report, "".join(report)


def test_every_block_is_of_a_kind_that_is_run():
    assert {language for language, _ in BLOCKS} == {"pycon", "console"}


def test_commands_run_in_an_empty_folder(tmp_path, monkeypatch, few_trees, few_candidates):
    pytest.importorskip("pyarrow")
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(command) for command in COMMANDS if command.startswith("bagwise ")]
    assert len(commands) >= 5
    for _, *words in commands:
        # tools/newcomer.py runs them as separate processes.
        done = CliRunner().invoke(app, words, env={"COLUMNS": "80"}, prog_name="bagwise")
        assert done.exit_code == 0, f"{words}: {done.stderr}"
    assert (tmp_path / "predicted.csv").exists()


@each("command", [c for c in COMMANDS if c.startswith("make ")])
def test_make_targets_exist(command):
    target = command.split()[1]
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{target}:.*##", makefile, flags=re.MULTILINE)


def test_no_other_commands_are_shown():
    assert all(command.startswith(("bagwise ", "make ", "pip install ")) for command in COMMANDS)


def test_the_extras_of_the_install_commands_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shown = [command for command in COMMANDS if command.startswith("pip install ")]
    named = {name for command in shown for name in re.findall(r"[\[,](\w+)", command)}
    assert shown
    assert named <= set(project["optional-dependencies"])

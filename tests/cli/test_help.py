"""Help texts describe each command, and their examples run unchanged; shell completion."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bagwise.cli import app

SLOW = {  # run by test_readme.py and test_auto_command.py
    "bagwise evaluate musk1.csv",
    "bagwise audit",
    "bagwise cluster words.csv --bag bag --label-set label_set -k 24 -o clusters.parquet",
    "bagwise fit musk1.csv -o auto.skops",
    "bagwise predict auto.skops musk1.csv --coverage .9 -o sets.csv",  # that model
    'bagwise report model.skops musk1.csv --folds 5 --title "Musk" -o held-out.html',
}
ASKS_A_PERSON = {  # tried by test_review.py
    "bagwise review model.skops syllables.csv --audio clip",
    "bagwise review syllables.csv --export corrections.csv",
}
NEEDS_MOLECULES = {"bagwise conformers molecules.csv -o table.parquet"}  # by test_rdkit.py
NEEDS_SLIDES = {  # tried by test_heatmap.py
    "bagwise heatmap model.skops slides/ -o maps",
    "bagwise heatmap model.skops slides/ --labels labels.csv --id-column slide_id -o named",
    "bagwise heatmap model.skops slides/ --class tumour --attribution single -o single",
    "bagwise heatmap model.skops slides/ --thumbnails thumbnails -o seen",
}


def commands(command, path=("bagwise",)):
    yield path, command
    for name, nested in getattr(command, "commands", {}).items():
        yield from commands(nested, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


def examples(command):
    blocks = re.findall(r"```\n(.*?)```", command.help, flags=re.DOTALL)
    return [line.strip() for block in blocks for line in block.strip().splitlines()]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_examples_and_exit_codes(run, path):
    lines = examples(COMMANDS[path])
    assert lines
    assert path == ("bagwise",) or all(line.startswith(" ".join(path)) for line in lines)
    result = run.ok(*path[1:], "--help")
    assert all(line in result.stdout for line in lines if len(line) < 90)
    if not hasattr(COMMANDS[path], "commands") or len(path) == 1:
        assert "Exit codes: 0 success, 2 invalid input" in result.stdout


@pytest.mark.parametrize("width", ["60", "80"])
def test_help_fits_the_terminal(width):
    for path in COMMANDS:
        environment = {"COLUMNS": width, "TERMINAL_WIDTH": width, "NO_COLOR": "1"}
        result = CliRunner().invoke(app, [*path[1:], "--help"], env=environment)
        assert max(map(len, result.stdout.splitlines())) <= int(width)


@pytest.mark.slow
def test_examples_run_on_shipped_data(run, tmp_path, monkeypatch, few_candidates):
    for package in ("pyarrow", "skops", "jinja2", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    order = sorted(COMMANDS, key=lambda path: "datasets" not in path)  # they write what others read
    lines = dict.fromkeys(line for path in order for line in examples(COMMANDS[path]))
    for line in lines:
        if line not in SLOW | ASKS_A_PERSON | NEEDS_SLIDES | NEEDS_MOLECULES:
            run.ok(*shlex.split(line)[1:])


def test_the_page_of_the_documentation_names_every_command_and_runs(
    run, tmp_path, monkeypatch, few_candidates
):
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for name in COMMANDS[("bagwise",)].commands:
        assert f"`bagwise {name}" in page
    run.ok("datasets", "export", "musk1", "-o", "musk1.csv")
    for line in re.findall(r"^\$ bagwise (.*)$", page, flags=re.MULTILINE):
        run.ok(*shlex.split(line))
    (kept,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "run.toml").write_text(kept.replace("model.skops", "again.skops"))
    run.ok("fit", "--config", "run.toml")


def complete(words):
    """What the shell is offered after these words."""
    line = " ".join(words)
    environment = {
        "_BAGWISE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    return CliRunner().invoke(app, env=environment, prog_name="bagwise").stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["bagwise", "ev"], {"evaluate"}),
        (["bagwise", "fit", "f.csv", "--method", "citation"], {"citation-knn"}),
        (["bagwise", "datasets", "describe", "musk"], {"musk1", "musk2"}),
        (["bagwise", "fit", "--conf"], {"--config"}),
    ],
)
def test_the_shell_is_offered_names(words, offered):
    assert set(complete(words)) == offered

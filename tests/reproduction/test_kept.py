"""Kept results: what the tables in docs are written from, and that they are."""

import json
import re

import pytest

from bagwise.exceptions import InputError
from cases import each
from reproduction import Store, _kept, list_papers, load_paper, make_plan, make_report, run_plan
from reproduction import pages as pages_module
from reproduction._kept import keep_results, kept_results, settings_of
from reproduction.pages import DOCS, _counted, fill, main

PAGES = sorted(
    path.name for path in DOCS.glob("*.md") if re.search("<!-- (table|gains): ", path.read_text())
)


@pytest.fixture
def kept(plan, store, tmp_path, monkeypatch):
    """Results of the tiny paper, kept in a folder of their own."""
    monkeypatch.setattr(_kept, "KEPT", tmp_path)
    monkeypatch.setattr(pages_module, "load_paper", lambda name: plan.paper)
    run_plan(plan, store)
    report = make_report(plan, store)
    assert keep_results(report) == tmp_path / "tiny.json"
    return report


def test_means_are_kept_with_their_settings(kept):
    found = kept_results("tiny")["table"]
    rows = [row for row in kept.rows if row.ours]
    assert len(found["cells"]) == len(rows) == 2 * 2 * 2
    for row in rows:
        cell = found["cells"][f"{row.data}, {row.method}, {row.metric}"]
        assert cell == [round(row.ours[0], 5), round(row.ours[1], 5), 6, row.verdict.word]
    plan = kept.plan
    now = settings_of(plan.paper, plan.experiment, plan.stand_ins)
    assert set(found["settings"]) == {f"{row.data}, {row.method}" for row in rows}
    assert found["settings"].items() <= now.items()


def test_cells_of_another_run_stay_while_their_settings_hold(kept, tiny_file, tmp_path):
    before = kept_results("tiny")["table"]["cells"]
    empty = Store(tmp_path / "empty.jsonl")
    keep_results(make_report(kept.plan, empty))
    assert kept_results("tiny")["table"]["cells"] == before

    tiny_file.write_text(tiny_file.read_text().replace("value = 12.0", "value = 13.0"))
    paper = load_paper(tiny_file)
    keep_results(make_report(make_plan(paper, paper.experiment("table")), empty))
    left = kept_results("tiny")["table"]["cells"]
    assert left.items() < before.items()
    assert {name.split(", ")[1] for name in left} == {"sil"}


def test_a_table_has_means_published_means_and_verdicts(kept):
    cell = next(row for row in kept.rows if (row.data, row.method) == ("clusters", "sil"))
    page = (
        "before\n<!-- table: tiny table accuracy; rows: clusters lost -->\nold\n<!-- end -->\nafter"
    )
    lines = fill(page).splitlines()
    assert lines[2] == "|  | SIL | NSK | Unwritten |"
    published = kept.plan.experiment.published["clusters"]["sil"]["accuracy"][0]
    ours = f"{cell.ours[0]:.3f}".removeprefix("0")
    expected = f"{ours} ({published:.3f}".replace("(0", "(") + f") {cell.verdict.word}"
    assert lines[4].split(" | ")[1] == expected
    assert lines[5].count("not run") == 3
    assert lines[0] == "before"
    assert lines[-1] == "after"
    assert fill(fill(page)) == fill(page)
    across = fill(page.replace("lost -->", "lost; across; percent -->")).splitlines()
    assert across[2] == "|  | Clusters | Lost |"
    assert across[4].startswith(f"| SIL | {100 * cell.ours[0]:.1f}")


def test_a_line_has_the_published_mean_and_ours(kept):
    cells = kept_results("tiny")["table"]["cells"]
    ours = [f"{cells[f'clusters, {m}, accuracy'][0]:.3f}".removeprefix("0") for m in ("sil", "nsk")]
    published = kept.plan.experiment.published["clusters"]["nsk"]["accuracy"][0]
    page = "| <!-- gains: tiny table accuracy sil nsk; clusters lost -->old<!-- --> |"
    expected = f"Clusters {published:.3f}, {', '.join(ours)}; Lost ".replace(" 0.", " .")
    assert fill(page).startswith(page.replace("old<!-- --> |", expected))
    assert fill(fill(page)) == fill(page)


def test_the_number_of_runs_is_written_once_if_it_is_missing_everywhere():
    heads, rows = ["", "a"], [["x", ".5 (.6) below, 2 of 5"], ["y", "not run"]]
    assert _counted(heads, rows).endswith(
        "| x | .5 (.6) below |\n| y | not run |\n\nRuns of a cell: 2 of 5.\n"
    )
    rows[1][1] = ".7, 1 of 5"
    assert _counted(heads, rows).endswith("| y | .7 |\n\nRuns of a cell: 1 to 2 of 5.\n")
    rows[1][1] = ".7"
    assert _counted(heads, rows).endswith("| x | .5 (.6) below, 2 of 5 |\n| y | .7 |\n")


def test_missing_data_are_named_as_the_reason(kept):
    page = fill("<!-- table: tiny table accuracy; columns: sil -->\n<!-- end -->\n")
    assert "Not run, because the data set is not available: SIL on Lost." in page


def test_several_metrics_are_columns(kept):
    first, second = "tiny table accuracy; rows: clusters", "tiny table accuracy,fit_seconds"
    wide = fill(f"<!-- table: {second}; rows: clusters -->\n<!-- end -->").splitlines()
    plain = fill(f"<!-- table: {first}; across -->\n<!-- end -->").splitlines()
    assert wide[1] == "|  | ACC | time (s) |"
    assert [line.split(" | ")[1].rstrip(" |") for line in wide[3:6]] == [
        line.split(" | ")[1].rstrip(" |") for line in plain[3:6]
    ]


def test_an_unknown_option_is_an_error(kept):
    with pytest.raises(InputError, match="colour"):
        fill("<!-- table: tiny table accuracy; colour: red -->\n<!-- end -->")


def test_what_is_not_run_says_why(tiny_file):
    text = tiny_file.read_text()
    line = 'not_run = [{ data = "clusters", method = "nsk", text = "it is too slow" }]\nfolds = 3'
    tiny_file.write_text(text.replace("folds = 3", line, 1))
    paper = load_paper(tiny_file)
    plan = make_plan(paper, paper.experiment("table"))
    assert {(u.data, u.method) for u in plan.units} == {
        ("clusters", "sil"),
        ("replaced", "sil"),
        ("replaced", "nsk"),
    }
    rows = make_report(plan, Store(tiny_file.with_name("none.jsonl"))).rows
    told = {(row.data, row.method): str(row.verdict) for row in rows}
    assert told["clusters", "nsk"] == "not run: because it is too slow"


@each("name", PAGES)
def test_tables_of_docs_are_those_of_the_kept_results(name):
    """Written by ``python -m reproduction.pages``."""
    text = (DOCS / name).read_text()
    assert fill(text) == text


OLDER = "Measured with version 0.2"
NUMBER = re.compile(r"(?<![\d.])\.\d{3}\b")


def known_numbers():
    """Kept means, and numbers that the papers print, with three digits."""
    for name in list_papers():
        for experiment in kept_results(name).values():
            yield from (cell[0] for cell in experiment["cells"].values())
        for experiment in load_paper(name).experiments.values():
            for cells in experiment.published.values():
                for cell in cells.values():
                    if isinstance(cell, dict):
                        yield from (number for value in cell.values() for number in value)


@each("name", [name for name in PAGES if name.startswith("results-")])
def test_numbers_of_the_results_are_kept_or_published(name):
    """Sections of earlier measurements say so."""
    known = {f"{number:.3f}".removeprefix("0") for number in known_numbers()}
    sections = (DOCS / name).read_text().split("\n## ")
    told = [number for part in sections if OLDER not in part for number in NUMBER.findall(part)]
    assert not sorted(set(told) - known)


@each("name", list_papers())
def test_kept_results_have_the_present_settings(name):
    paper = load_paper(name)
    for experiment, found in kept_results(name).items():
        now = settings_of(paper, paper.experiment(experiment), frozenset(found["stand_ins"]))
        assert found["settings"].items() <= now.items(), experiment


def test_the_command_tells_what_changed(kept, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- table: tiny table accuracy -->\n<!-- end -->\n")
    monkeypatch.setattr(pages_module, "DOCS", tmp_path)
    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert "page.md" in capsys.readouterr().err
    json.loads((tmp_path / "tiny.json").read_text())

"""Tables in narrow terminals: numbers are never cut, columns are split into blocks."""

import re

import numpy as np
import pytest

from bagwise.cli.output import note, print_table, progress, running, warning

WIDE = {"method": ["pdmisvm exact", "sil"]} | {
    str(10**k): [f"0.9{k} ± 0.04", f"0.8{k} ± 0.05"] for k in range(9)
}


@pytest.fixture
def printed(monkeypatch, capsys):
    def call(columns, width, **settings):
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(columns, **settings)
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_cell_is_whole_and_every_line_fits(printed, width):
    text = printed(WIDE, width)
    assert max(map(len, text.splitlines())) <= width
    for values in WIDE.values():
        assert all(value in text for value in values)


def test_a_wide_table_becomes_blocks_that_begin_with_the_first_column(printed):
    lines = printed(WIDE, 80).splitlines()
    assert sum(line.startswith("method") for line in lines) == 2
    assert sum(line.startswith("sil") for line in lines) == 2
    assert sum(line.startswith("method") for line in printed(WIDE, 200).splitlines()) == 1


def test_prose_is_wrapped_beside_numbers_that_are_not(printed):
    columns = {"method": ["nsk"], "ours": ["0.900 ±0.040"], "verdict": ["below: " + "why " * 40]}
    text = printed(columns, 80)
    assert text.count("method") == 1
    assert "0.900 ±0.040" in text
    assert text.count("why") == 40


def test_a_long_name_is_folded_not_cut(printed):
    name = "a" * 100
    text = printed({"name": [name], "bags": [3]}, 60)
    assert text.count("a") == 100 + "name bags".count("a")


def test_steps_print_a_line_every_five_seconds_or_what_was_done(monkeypatch, capsys):
    clock = iter(np.arange(0.0, 100.0, 2.0))
    monkeypatch.setattr("bagwise.cli.output.time.perf_counter", lambda: next(clock))
    with progress("Working", 7) as step:
        for done in ("", "", "", "fold 4", "", "", ""):
            step(done)
    lines = capsys.readouterr().err.splitlines()
    expected = [
        "3 of 7 after 6 s, about 8 s left",
        "4 of 7 after 8 s, about 6 s left: fold 4",
        "7 of 7 after 14 s",
    ]
    assert lines == [f"Working, {line}" for line in expected]
    with progress("Working") as step:  # of unknown length
        for _ in range(3):
            step()
    assert capsys.readouterr().err == "Working, 3 after 6 s\n"


def test_the_time_left_is_that_of_the_last_step_of_each_kind(monkeypatch, capsys):
    """Two methods take turns; the first step of the slow one compiles for 30 s."""
    clock = iter(np.cumsum([0, 30, 1, 5, 1, 5, 1, 5, 1]).astype(float))
    monkeypatch.setattr("bagwise.cli.output.time.perf_counter", lambda: next(clock))
    with progress("Working", 8, cycle=2) as step:
        for _ in range(8):
            step("done")
    said = [line.partition(", ")[2] for line in capsys.readouterr().err.splitlines()]
    left = ["about 15", "about 12", "about 9", "about 6", "about 3"]
    assert [re.search(r"about \d+", line)[0] for line in said[2:-1]] == left
    assert not any("left" in line for line in (*said[:2], said[-1]))


def test_quiet_keeps_warnings(capsys):
    with running(quiet=True):
        with progress("Working", 1) as step:
            step("one")
        note("a note")
        warning("beware")
    note("a note")
    assert capsys.readouterr().err == "Warning: beware\na note\n"

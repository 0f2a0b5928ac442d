"""Verdicts on numbers: cases worked out by hand."""

import dataclasses
import re

import numpy as np
import pytest

from cases import each
from reproduction import (
    Metric,
    Store,
    judge,
    make_plan,
    make_report,
    run_plan,
    write_report,
)

SCORE, LOSS, TIME = Metric("ACC"), Metric("one-error", kind="loss"), Metric("s", kind="time")


@each(
    ("ours", "published", "metric", "expected", "difference"),
    [
        (0.80, [0.80, 0.05], SCORE, "matches", 0.0),
        (0.76, [0.80, 0.05], SCORE, "matches", -0.8),
        (0.75, [0.80, 0.05], SCORE, "matches", -1.0),  # one deviation is still a match
        (0.74, [0.80, 0.05], SCORE, "below: by 1.2 sd", -1.2),
        (0.86, [0.80, 0.05], SCORE, "above", 1.2),
        (0.26, [0.20, 0.05], LOSS, "below: by 1.2 sd", -1.2),
        (0.10, [0.20, 0.05], LOSS, "better", 2.0),
        (0.5004, [0.5, 0.0], SCORE, "matches", None),  # no deviation: equal as printed
        (0.51, [0.5, 0.0], SCORE, "above", None),
        (0.45, [0.5], SCORE, "below: by 0.050", None),
        (2.0, [10.0], TIME, "faster: 5.0 x", None),
        (10.0, [2.0], TIME, "slower: 5.0 x", None),
        (0.9, "timed out", SCORE, "finished: the paper's timed out", None),
        (0.9, None, SCORE, "", None),
    ],
)
def test_verdicts(ours, published, metric, expected, difference):
    verdict = judge(ours, published, metric)
    assert str(verdict) == expected
    assert verdict.difference == (difference if difference is None else pytest.approx(difference))


@pytest.fixture
def report(plan, store):
    run_plan(plan, store)
    return make_report(plan, store)


def row_of(report, data, method, metric="accuracy"):
    return next(r for r in report.rows if (r.data, r.method, r.metric) == (data, method, metric))


def test_rows_are_means_over_repetitions_and_folds(report, plan, store):
    numbers = [
        record["result"]["accuracy"]
        for record in store.read()
        if record["unit"].startswith("table/clusters/sil/")
    ]
    assert len(numbers) == 6
    row = row_of(report, "clusters", "sil")
    assert row.ours == pytest.approx((np.mean(numbers), np.std(numbers)))
    assert (row.n_done, row.n_planned) == (6, 6)


@each(("shift", "fine", "near"), [(-0.1, 1, 0), (0.9, 0, 1), (1.1, 0, 0)])
def test_a_miss_within_the_standard_error_is_counted_apart(report, plan, store, shift, fine, near):
    numbers = [
        r["accuracy"] for u, r in report.results if (u.data, u.method) == ("clusters", "sil")
    ]
    error = np.std(numbers, ddof=1) / np.sqrt(6)
    published = {"clusters": {"sil": {"accuracy": [np.mean(numbers) + shift * error]}}}
    experiment = dataclasses.replace(
        plan.experiment, data=("clusters",), published=published, options={"summary": "paired"}
    )
    tables = make_report(dataclasses.replace(plan, experiment=experiment), store).tables()
    assert tables["Clusters"]["standard error"][0] == f"{error:.3f}"
    assert tables["All data sets"]["not worse than the paper"] == [f"{fine} of 1", ""]
    assert tables["All data sets"]["worse by up to one se"] == [str(near), ""]


def test_every_cell_has_an_honest_word(report):
    words = {
        (row.data, row.method): str(row.verdict) for row in report.rows if row.metric == "accuracy"
    }
    short = words.pop(("clusters", "nsk"))
    assert re.fullmatch(r"below: by \d\.\d sd; the target is out of reach", short)
    assert words == {
        ("clusters", "sil"): "matches",
        ("clusters", "unwritten"): "not available: no NobodyWroteThis here",
        ("lost", "sil"): "not available: data set absent",
        ("lost", "nsk"): "not available: data set absent",
        ("lost", "unwritten"): "not available: data set absent",
        ("replaced", "sil"): "not comparable: other data",
        ("replaced", "nsk"): "",
        ("replaced", "unwritten"): "not available: no NobodyWroteThis here",
    }
    assert report.counts() == {
        "matches": 1, "below": 1, "not available": 5, "not comparable": 1
    }  # fmt: skip


def test_what_was_not_run_and_what_was_run_in_part(plan, tmp_path):
    store = Store(tmp_path / "part.jsonl")
    first = plan.units[0]
    run_plan(plan.narrowed((first.data, first.method)), store)
    lines = store.path.read_text().splitlines(keepends=True)
    store.path.write_text("".join(lines[:2]))
    report = make_report(plan, store)
    assert str(row_of(report, "clusters", "nsk").verdict) == "not run"
    table = report.tables()["Clusters"]
    assert table["verdict"][0] == "matches; 2 of 6 measured"


def test_the_page_and_its_plots(report, tmp_path):
    pytest.importorskip("matplotlib")
    page, *plots = write_report(report, tmp_path / "out", "table")
    assert [plot.name for plot in plots] == [
        "table-accuracy.png",
        "table-confusion-clusters-sil.png",
    ]
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in plots)
    text = page.read_text()
    wanted = ["# tiny table: a table", "Nobody. Nowhere.", "## Clusters", "![table-accuracy]"]
    wanted += ["the target is out of reach", "1 matches, 1 below", "Made by bagwise"]
    for part in wanted:
        assert part in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count(" | ") for line in rows[:5]}) == 1


def test_a_sweep_becomes_a_line_per_method(tiny, tmp_path):
    plan = make_plan(tiny, tiny.experiment("figure"))
    store = Store(tmp_path / "figure.jsonl")
    run_plan(plan, store)
    # Times that grow as the square, whatever the machine did.
    text = store.path.read_text()
    for n_bags in (6, 12, 24):
        text = re.sub(
            rf'(n_bags={n_bags}/.*?"fit_seconds": )[\d.e-]+', rf"\g<1>{n_bags**2 / 100}", text
        )
    store.path.write_text(text)
    report = make_report(plan, store)
    ((title, table),) = report.tables().items()
    assert title == "Clusters: time (s) by n_bags"
    assert list(table) == ["method", "6", "12", "24", "growth"]
    assert table["24"] == ["5.76", "5.76"]
    assert table["growth"] == ["2.00", "2.00"]
    if pytest.importorskip("matplotlib"):
        written = write_report(report, tmp_path, "figure")
        assert written[1].name == "figure-fit_seconds.png"

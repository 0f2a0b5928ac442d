"""Grades (--order) and censored numbers on the command line, from the evaluation to the report."""

import json

import numpy as np
import pytest
from cli.tables import read_rows, write_rows

from bagwise import Bags
from bagwise.cli.reading import numbers_of
from bagwise.exceptions import LabelError
from bagwise.io import read_bags
from bagwise.labels import Intervals, Labels
from cases import each

pytest.importorskip("skops")

GRADES = ["none", "mild", "severe"]
ORDER = ("--order", "none,mild,severe")
NO_BASELINE = ("--folds", "3", "--no-baseline")


def bags_of(texts):
    return Bags.from_arrays([np.zeros((1, 1)) for _ in texts])


def rows_of(name, text_of, n_bags=45):
    """A row per instance; the largest first feature of a bag determines its label."""
    rng, rows = np.random.default_rng(0), [["bag", name, "x", "y"]]
    for i in range(n_bags):
        values = rng.normal(size=(rng.integers(2, 5), 2))
        values[0, 0] = 2.0 * (i % 3) + 3 + 0.3 * rng.normal()
        rows += [[f"b{i}", text_of(i % 3, values[:, 0].max()), *row] for row in values]
    return rows


@pytest.fixture
def graded(tmp_path):
    return write_rows(tmp_path / "graded.csv", rows_of("grade", lambda k, _: GRADES[k]))


@pytest.fixture
def bounded(tmp_path):
    """The weakest third is below the limit of the assay, a few of the others in an interval."""

    def text(k, value):
        return "<4" if value < 4 else f"{value:.3f}" if k < 2 else f"{value - 1:.3f}-{value:.3f}"

    return write_rows(tmp_path / "bounded.csv", rows_of("pic50", text))


def test_evaluate_grades(run, graded):
    found = run("evaluate", graded, "--label", "grade", *ORDER, "-m", "nsk", "--folds", "3")
    for word in ("quadratic kappa", "MAE", "within one", "baseline: majority", "AUC"):
        assert word in found.stdout
    words = ("--label", "grade", *ORDER, "-m", "nsk", *NO_BASELINE, "--json")
    (method,) = json.loads(run("evaluate", graded, *words).stdout)["methods"]
    assert method["quadratic kappa"]["mean"] > 0.7


def test_fit_predict_and_report_grades(run, graded, tmp_path):
    model, out, page = tmp_path / "m.skops", tmp_path / "out.csv", tmp_path / "page.html"
    run.ok("fit", graded, "--label", "grade", *ORDER, "-m", "nsk", "-o", model)
    run.ok("predict", model, graded, "-o", out)
    rows = read_rows(out)
    assert {row["predicted"] for row in rows} == set(GRADES)
    assert all(f"score_{grade}" in rows[0] for grade in GRADES)
    assert {row["predicted"] for row in read_rows(tmp_path / "out.instances.csv")} <= set(GRADES)
    pytest.importorskip("jinja2")
    run.ok("report", model, graded, "--folds", "3", "-o", page)
    text = page.read_text()
    for word in ("quadratic kappa", "within one", "Confusion matrix"):
        assert word in text
    matrix = text[text.index("Confusion matrix") :]
    assert matrix.index("none") < matrix.index("mild") < matrix.index("severe")


def test_evaluate_bounds(run, bounded):
    words = ("--label", "pic50", "-m", "nsk", "--folds", "3")
    found = run("evaluate", bounded, *words)
    assert "column pic50: 15 numbers, and 30 known to an interval" in found.stderr
    for word in ("C index", "log-likelihood", "baseline: mean", "baseline: pooled trees"):
        assert word in found.stdout
    (method,) = json.loads(run("evaluate", bounded, *words, "--no-baseline", "--json").stdout)[
        "methods"
    ]
    assert method["C index"]["mean"] > 0.8


def test_fit_predict_and_report_bounds(run, bounded, tmp_path):
    model, out, page = tmp_path / "m.skops", tmp_path / "out.csv", tmp_path / "page.html"
    run.ok("fit", bounded, "--label", "pic50", "-m", "nsk", "-o", model)
    run.ok("predict", model, bounded, "-o", out)
    told = run("predict", model, bounded, "-o", out, "--force", "--coverage", ".9")
    assert "not for CensoredBagRegressor: leave the bags with bounds out of the fit." in told.stderr
    predicted = [float(row["predicted"]) for row in read_rows(out)]
    assert np.mean(predicted[::3]) < 4 < np.mean(predicted[1::3]) < np.mean(predicted[2::3])
    pytest.importorskip("jinja2")
    run.ok("report", model, bounded, "--folds", "3", "-o", page)
    text = page.read_text()
    for word in ("C index", "log-likelihood", "<4"):
        assert word.replace("<", "&lt;") in text or word in text


def labels_of(texts):
    return Labels.from_values(texts)


@each(("texts", "is_number"), [
    ([*map(str, range(10)), "<0"], True),
    ([*map(str, range(10)), ">=12", "4-6"], True),
    (["0", "1+", "2+", "3+"] * 5, False),  # names of grades
    (["0-9", "10-19", "20-29"] * 5, False),  # ranges
    (["<5", ">=5"] * 5, False),  # two classes
    (["low", "high"] * 5, False),
])  # fmt: skip
def test_intervals_are_recognised(texts, is_number):
    found = numbers_of(labels_of(texts), None, bags_of(texts))
    assert isinstance(found, Intervals) == is_number


def test_intervals_may_be_requested(run):
    texts = ["0", "1+", "2+", "3+"]
    found = numbers_of(labels_of(texts), "regression", bags_of(texts))
    assert found.texts == ["0", ">=1", ">=2", ">=3"]
    with pytest.raises(LabelError, match=r"needs numbers.*bag 1 is 'few'"):
        numbers_of(labels_of(["1", "few"]), "regression", bags_of("12"))


def test_an_odd_cell_among_numbers_is_named(capsys):
    """Numbers would be taken for labels, each of one bag."""
    texts = [*(f"{v:.2f}" for v in np.arange(0, 9, 0.5)), "<2", "6-4"]
    assert numbers_of(labels_of(texts), None, bags_of(texts)) is None
    assert "the number of bag 19 is '6-4': its lower end exceeds the upper one" in (
        " ".join(capsys.readouterr().err.split())
    )
    with pytest.raises(LabelError, match="bag 19 is '6-4'"):
        numbers_of(labels_of(texts), "regression", bags_of(texts))


def test_info_counts_bounds(run, bounded):
    facts = json.loads(run("info", bounded, "--label", "pic50", "--json").stdout)
    assert facts["bags_with_a_number"] == 45
    assert facts["known_to_an_interval"] == 30


def test_one_grade_is_refused(run, tmp_path):
    file = write_rows(tmp_path / "one.csv", rows_of("grade", lambda *_: "mild"))
    found = run("fit", file, "--label", "grade", *ORDER, "-o", tmp_path / "m.skops")
    assert found.exit_code == 2
    assert "the file has only mild" in found.stderr


@each(("words", "message"), [
    (("--order", "none,mild"), "the file has also the label severe"),
    (("--order", "none,mild,severe", "--task", "regression"), "--order is for grades"),
    (("--order", "none,mild,severe", "--pos-label", "mild"), "--order is for grades"),
])  # fmt: skip
def test_wrong_orders_are_refused(run, graded, words, message):
    found = run.fails("evaluate", graded, "--label", "grade", "-m", "nsk", *words)
    assert message in found.stderr


def test_a_file_keeps_the_cells(bounded):
    data = read_bags(bounded, label="pic50")
    assert data.y[0] == "<4"
    assert Intervals.from_strings(data.y).upper[0] < 4

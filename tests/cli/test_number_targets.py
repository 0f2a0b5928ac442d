"""Regression on the command line: detected or requested, evaluated, fitted, predicted."""

import json
import re

import numpy as np
import pytest
from cli.tables import read_rows, write_rows

from bagwise import Bags
from bagwise.cli.reading import numbers_of
from bagwise.io import read_bags
from bagwise.labels import Labels
from bagwise.persistence import load_model
from bagwise.predictions import instance_attributions

pytest.importorskip("skops")

COLUMNS = ("--bag", "molecule", "--label", "pki")
QUICK = ("--folds", "3", "--no-baseline")


def conformers(n_molecules=30, seed=0):
    """A row per conformer; pKi is the largest first feature."""
    rng = np.random.default_rng(seed)
    rows = [["molecule", "scaffold", "pki", "x", "y"]]
    for i in range(n_molecules):
        values = rng.normal(size=(rng.integers(2, 5), 2)) + rng.normal(size=2)
        pki = f"{values[:, 0].max():.3f}"
        rows += [[f"m{i}", f"s{i // 3}", pki, *map(str, row)] for row in values]
    return rows


@pytest.fixture
def table(tmp_path):
    return write_rows(tmp_path / "conformers.csv", conformers())


def test_evaluate_detects_numbers(run, table):
    words = (*COLUMNS, "--group", "scaffold", "-m", "nsk", "-m", "pooled-trees", "--folds", "2")
    found = run("evaluate", table, *words)
    assert "column pki: 30 numbers, to be predicted" in found.stderr
    assert "--task classification" in found.stderr
    for word in ("R2", "MAE", "Spearman", "baseline: mean", "each scaffold in one fold"):
        assert word in found.stdout
    assert "positive" not in found.stdout
    assert "baseline: pooled trees" not in found.stdout  # it is one of the methods


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_a_word_among_numbers_is_refused(run, tmp_path, command):
    rows = conformers()
    for row in rows:
        row[2] = "n.d." if row[0] == "m7" else f"<{row[2]}" if row[0] == "m8" else row[2]
    table = write_rows(tmp_path / "odd.csv", rows)
    words = (*COLUMNS, "--exclude", "scaffold", "-m", "nsk")
    words += ("-o", tmp_path / "m.skops") if command == "fit" else ()
    found = run(command, table, *words)
    assert found.exit_code == 2
    assert "nearly all labels are numbers" in found.stderr
    assert "m7" in found.stderr
    assert "n.d." in found.stderr
    assert not (tmp_path / "m.skops").exists()
    run.ok("info", table, *words[:6])
    few = [rows[0], *(row for row in rows[1:] if int(row[0][1:]) < 15)]  # 15 labels
    run.ok("fit", write_rows(tmp_path / "few.csv", few), *words[:8], "-o", tmp_path / "few.skops")


def test_an_interval_contains_the_value_beside_it(run, table):
    """That of all folds together; the mean of the folds may be outside."""
    found = run("evaluate", table, *COLUMNS, "--exclude", "scaffold", "-m", "nsk", "--folds", "4")
    rows = re.findall(r"(-?[\d.]+) \((-?[\d.]+) to (-?[\d.]+)\)", found.stdout)
    assert "all folds together" in found.stdout
    assert len(rows) >= 6  # R2 and MAE of the method and of two baselines
    for row in rows:
        value, lower, upper = map(float, row)
        assert lower <= value <= upper


@pytest.mark.parametrize("method", ["nsk", "pooled-trees"])
def test_fit_and_predict_a_number(run, table, tmp_path, method):
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    found = run("fit", table, *COLUMNS, "--exclude", "scaffold", "-m", method, "-o", model)
    assert f"{method} learned from 30 bags: " in found.stderr
    assert load_model(model)[1]["task"] == "regression"
    run.ok("predict", model, table, "-o", out)
    rows, instances = read_rows(out), read_rows(tmp_path / "out.instances.csv")
    truth = {row[0]: float(row[2]) for row in conformers()[1:]}
    errors = [abs(float(row["predicted"]) - truth[row["bag"]]) for row in rows]
    assert np.mean(errors) < 0.5
    # nsk: instance scores, whose mean is the prediction; trees: what each instance contributes.
    name = "score" if method == "nsk" else "contribution"
    assert set(instances[0]) >= {"bag", "row", name, "key"}
    if method == "nsk":
        for row in rows:
            own = [float(other["score"]) for other in instances if other["bag"] == row["bag"]]
            assert np.mean(own) == pytest.approx(float(row["predicted"]), rel=1e-6)
    facts = json.loads(run("predict", model, table, "-o", out, "--force", "--json").stdout)
    assert facts["predicted"]["m0"] == pytest.approx(float(rows[0]["predicted"]))


@pytest.mark.parametrize(("limit", "method"), [(300_000, "sampled"), (10, "single")])
def test_contributions_are_those_of_the_library(run, table, tmp_path, monkeypatch, limit, method):
    monkeypatch.setattr("bagwise.predictions._predictions.MOST_SCORED", limit)
    model = tmp_path / "m.skops"
    run("fit", table, *COLUMNS, "--exclude", "scaffold", "-m", "pooled-trees", "-o", model)
    run("predict", model, table, "-o", tmp_path / "out.csv")
    bags = read_bags(table, bag="molecule", label="pki", exclude="scaffold").bags
    expected = instance_attributions(
        load_model(model)[0], bags, method=method, n_samples=50, random_state=0
    )
    rows = read_rows(tmp_path / "out.instances.csv")
    assert [float(row["contribution"]) for row in rows] == pytest.approx(expected.tolist())
    keys = [part.argmax() for part in bags.split(expected)]
    assert [int(row["key_instance"]) for row in read_rows(tmp_path / "out.csv")] == keys


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-m", "misvm-bag"), "misvm-bag predicts labels"),
        (("-m", "nsk", "--task", "ranking"), "'ranking' is not one of"),
        (("-m", "nsk", "--task", "regression", "--pos-label", "1"), "leave it out"),
        (("-m", "nsk", "--task", "classification"), "classif"),
        (("-m", "nsk", "--set", "D=3"), "no parameter 'D'"),
        (("-m", "misvm-bag", "--task", "regression"), "misvm-bag predicts labels"),
        (("-m", "nsk", "--baseline", "sil"), "Unknown baseline 'sil'"),
        (("-m", "nsk", "--scoring", "AUC"), "Unknown score 'AUC' for numbers"),
    ],
)
def test_what_does_not_suit_numbers_is_refused(run, table, words, message):
    found = run.fails("evaluate", table, *COLUMNS, "--exclude", "scaffold", *words)
    assert message in found.stderr


@pytest.mark.parametrize(
    ("values", "n_bags", "is_number"),
    [
        ([0, 1], 20, False),
        ([0.5, 1.0], 20, False),
        ([False, True], 20, False),
        ([1, 2, 3], 30, False),
        (np.arange(30), 60, True),
        (np.arange(30), 600, False),
        (np.arange(8) + 0.5, 8, True),
        (np.arange(4) + 0.5, 4, False),
        (np.arange(12) + 0.5, 600, True),
        ([str(k / 3) for k in range(12)], 24, True),
        ([f"id{k}" for k in range(30)], 30, False),
    ],
)
def test_what_numbers_are_targets(values, n_bags, is_number):
    labels = Labels.from_values(np.resize(np.asarray(values), n_bags))
    bags = Bags.from_arrays([np.zeros((1, 1))] * n_bags)
    assert (numbers_of(labels, None, bags) is not None) == is_number


def test_the_report_of_a_number(run, table, tmp_path):
    pytest.importorskip("jinja2")
    model, page = tmp_path / "m.skops", tmp_path / "page.html"
    run("fit", table, *COLUMNS, "--exclude", "scaffold", "-m", "pooled-trees", "-o", model)
    words = ("--group", "scaffold", "--folds", "3", "-o", page)
    run.ok("report", model, table, *words)
    text = page.read_text()
    assert "3-fold cross-validation, groups whole" in text
    assert "baseline: mean" in text
    rows = conformers()
    for row in rows[1:]:
        row[2] = "high"
    other = write_rows(tmp_path / "texts.csv", rows)
    found = run("report", model, other, "-o", tmp_path / "other.html")
    assert "is 'high': expected a number" in found.stderr


def test_info_sums_up_numbers(run, table):
    words = ("--bag", "molecule", "--label", "pki", "--exclude", "scaffold", "--json")
    facts = json.loads(run("info", table, *words).stdout)
    values = [float(row[2]) for row in conformers()[1:]]
    assert facts["largest_number"] == max(values)
    assert facts["bags_with_a_number"] == 30
    assert facts["labels"] == {}

"""Stored predictions of the leaderboard: files, tables, and methods of others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

pq = pytest.importorskip("pyarrow.parquet")
from benchmarks.leaderboard import store
from benchmarks.leaderboard.cells import cell
from benchmarks.leaderboard.tables import MEASURES, arranged, gains, kept_results, means_of

ROOT = Path(__file__).parent.parent
OWN = """
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression


class MeanLogistic(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.model_ = LogisticRegression().fit([bag.mean(axis=0) for bag in X], y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict([bag.mean(axis=0) for bag in X])

    def predict_proba(self, X):
        return self.model_.predict_proba([bag.mean(axis=0) for bag in X])
"""


def test_the_stored_files_are_whole_and_small():
    assert store.faults() == []
    assert sum(file.stat().st_size for file in store.STORED.glob("*.parquet")) < 10e6


def test_damaged_files_are_found(tmp_path):
    for name in ("bags.parquet", "nsk.parquet", store.SUMS):
        shutil.copy(store.STORED / name, tmp_path)
    table = pq.read_table(tmp_path / "nsk.parquet")
    pq.write_table(table.slice(1), tmp_path / "nsk.parquet")  # Musk1 is the first set
    others = [n for n in store.faults(tmp_path) if not n.startswith("nsk")]
    assert all(name.endswith("the file is missing") for name in others)
    assert [n for n in store.faults(tmp_path) if n not in others] == [
        "nsk.parquet: the SHA-256 sum differs",
        "nsk, Musk1: 91 predictions of 92 bags",
    ]
    with pytest.raises(store.LeaderboardError, match="91 predictions of 92 bags"):
        store.add("nsk", "Musk1", store.cells(tmp_path)["nsk"]["Musk1"], tmp_path)
    (tmp_path / "nsk.parquet").unlink()
    assert "nsk.parquet: the file is missing" in store.faults(tmp_path)


def test_the_tables_are_those_of_the_predictions():
    """Every number of a row by scikit-learn alone."""
    true, found = store.truths()["Elephant"], store.cells(store.STORED)["majority"]["Elephant"]
    nsk = store.cells(store.STORED)["nsk"]["Elephant"]["found"]
    accuracies, areas, losses = [], [], []
    for k in range(store.FOLDS):
        test = true.fold == k
        accuracies.append(accuracy_score(true.y[test], nsk["predict"][test]))
        areas.append(roc_auc_score(true.y[test], nsk["decision_function"][test]))
        losses.append(log_loss(true.y[test], found["found"]["predict_proba"][test]))
    results = arranged(store.results(store.STORED), ["nsk", "majority"])
    found = results["labels"]
    for method, measure, values in [
        ("nsk", "AUC", areas),
        ("nsk", "accuracy", accuracies),
        ("majority", "log loss", losses),
    ]:
        assert means_of(found, measure)[method]["Elephant"] == pytest.approx(
            np.mean(values), abs=1e-4
        )


def test_the_gain_has_the_sign_of_the_better_method():
    results = arranged(store.results(store.STORED), ["nsk", "majority"])
    for method, other, sign in (("nsk", "majority", 1), ("majority", "nsk", -1)):
        gained = gains("labels", results["labels"], method, other)
        assert len(gained) == 8
        assert all(np.sign(by_measure["AUC"][0]) == sign for by_measure in gained.values())
    assert gains("labels", results["labels"], "nsk", "nsk") == {}  # `add auto` shows its table only


def test_the_stored_predictions_have_the_kept_means():
    """The kept means were computed on another machine, and by earlier code."""
    kept, gaps = kept_results(), []
    for kind, found in arranged(store.results(store.STORED)).items():
        measure = MEASURES[kind][0]
        for method, cells in means_of(found, measure).items():
            old = kept[kind]["measures"][measure].get(method, {})
            both = [n for n, value in cells.items() if None not in (value, old.get(n))]
            gaps += [abs(cells[name] - old[name]) for name in both]
    assert len(gaps) > 100
    assert np.median(gaps) < 0.001
    assert np.quantile(gaps, 0.9) < 0.02


def test_a_stored_cell_is_computed_again():
    again, kept = cell("Musk1", "nsk"), store.results(store.STORED)["Musk1"]["nsk"]
    for measure in ("AUC", "accuracy"):
        assert np.mean(again["scores"][measure]) == pytest.approx(
            np.mean(kept["scores"][measure]), abs=0.01
        )


def test_precision_is_kept_where_it_decides(tmp_path):
    """Scores that differ by less than single precision."""
    true = store.truths()["Musk1"]
    scores = 1 + 1e-12 * true.y
    found = {"predict": true.y, "decision_function": scores}
    store.add("close", "Musk1", {"found": found, "seconds": 0.1}, tmp_path)
    store.add("close", "Musk2", {"failed": "too slow"}, tmp_path)
    kept = store.cells(tmp_path)["close"]
    assert np.array_equal(kept["Musk1"]["found"]["decision_function"], scores)
    assert kept["Musk2"]["failed"] == "too slow"


def test_a_method_of_twenty_lines_is_added_and_shown(tmp_path):
    """In a new process, from the folder with its module."""
    (tmp_path / "mine.py").write_text(OWN)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(tmp_path)])
    command = [sys.executable, "-m", "benchmarks.leaderboard", "add", "mine:MeanLogistic"]
    done = subprocess.run(
        [*command, "--sets", "Musk1", "Letter-Carroll", "--to", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "`mine:MeanLogistic` minus `pooled-trees`" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("| mine:MeanLogistic |")]
    assert len(rows) == 1
    assert float(rows[0].replace("*", "").split(" | ")[1]) > 0.7
    assert "| nsk |" in done.stdout
    assert "Letter-Carroll: ValueError" in done.stderr  # it does not learn label sets
    assert (tmp_path / "mine-MeanLogistic.parquet").exists()

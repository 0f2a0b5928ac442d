"""The measures of `benchmarks.fields`, and the tables of docs that benchmarks write."""

import re

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks import audit
from benchmarks.fields import DOCS, areas, fill, kept_results, pooled_areas, table
from benchmarks.leaderboard import tables as leaderboard
from docs.tables import PLACE, whole


def test_areas_are_those_of_repeated_rows(rng):
    """A weight is a number of copies; ties count half."""
    truth, scores = rng.random(40) < 0.4, rng.integers(6, size=40).astype(float)
    times = rng.integers(3, size=(40, 5))
    area, pairs, precision = areas(truth, scores, times.astype(float))
    for k in range(5):
        rows = np.repeat(np.arange(40), times[:, k])
        assert area[k] == pytest.approx(roc_auc_score(truth[rows], scores[rows]))
        assert precision[k] == pytest.approx(average_precision_score(truth[rows], scores[rows]))
        assert pairs[k] == truth[rows].sum() * (~truth[rows]).sum()


def test_pooled_areas_compare_instances_of_a_fold_only():
    truth, scores = np.array([1, 0, 1, 0], bool)[:, None], np.array([1.0, 0.0, 11.0, 10.0])[:, None]
    area, precision = pooled_areas(truth, scores, np.array([0, 0, 1, 1]), np.ones((4, 1)))
    assert area == precision == 1
    area, _ = pooled_areas(truth, scores, np.zeros(4), np.ones((4, 1)))
    assert area == 0.75


def test_tables_of_the_pages_are_those_of_the_kept_results():
    """Written by ``python -m benchmarks.fields --keep``."""
    kept = kept_results()
    pages = [path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")]
    filled = [page for page in pages if "<!-- field:" in page]
    assert filled
    assert all(fill(page, kept) == page for page in filled)


def test_a_table_of_several_sets_has_the_cells_of_each():
    kept = kept_results()
    lines = table("colon + birds: AUC", kept).splitlines()
    alone = [table(f"{name}: AUC", kept) for name in ("colon", "birds")]
    for line in lines[2:]:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for cell, whole_table in zip(cells, alone, strict=True):
            found = re.findall(rf"^\| {re.escape(name)}(?: \(.*?\))? \| (\S+)", whole_table, re.M)
            assert [cell] == (found or ["-"])


def test_tables_of_the_leaderboard_are_those_of_the_kept_results():
    """Written by ``python -m benchmarks.leaderboard page``."""
    page = leaderboard.PAGE.read_text(encoding="utf-8")
    assert "<!-- leaderboard: " in page
    assert leaderboard.fill(page, leaderboard.kept_results()) == page


def test_the_page_of_assumptions_has_the_kept_audit():
    """Written by ``python -m benchmarks.audit``."""
    page = audit.PAGE.read_text(encoding="utf-8")
    assert "- *two concepts*, passed: `concepts`; used the shortcut: " in audit.fill(page)
    assert audit.fill(page) == page


def test_means_of_the_leaderboard_are_those_of_its_sets():
    for part in leaderboard.kept_results().values():
        for measure, rows in part["measures"].items():
            rounded = 0.1 if measure == "seconds" else 0.001
            for cells in rows.values():
                values = [v for name, v in cells.items() if name not in leaderboard.MEANS]
                if None not in values:
                    assert cells["mean"] == pytest.approx(np.mean(values), abs=1.01 * rounded)


def test_the_leaderboard_keeps_what_it_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(leaderboard, "KEPT", tmp_path / "kept.json")
    names = ("auto", "pooled-trees", "majority")
    scores = {m: [[0.5, 0.7], [0.6, 0.65], [0.5, 0.5]] for m in leaderboard.MEASURES["labels"][:4]}
    results = {
        "labels": {
            name: {
                method: {
                    "scores": {m: values[k] for m, values in scores.items()},
                    "seconds": 2 * (k + 1.0),
                }
                for k, method in enumerate(names)
            }
            for name in ("Musk1", "digits")
        }
    }
    results["labels"]["digits"]["majority"] = {"failed": "more than 3 s"}
    leaderboard.keep(leaderboard.summary(results))
    kept = leaderboard.kept_results()
    assert kept["labels"]["failed"] == {"digits, majority": "more than 3 s"}
    assert leaderboard.table("labels: AUC", kept).splitlines()[2:] == [
        "| pooled-trees | **.625** | **.625** | .625 | .625 |",
        "| auto | .600 | .600 | .600 | .600 |",
        "| majority | .500 | - | - | .500 |",
    ]
    means = leaderboard.table("labels: AUC, real; seconds", kept).splitlines()
    assert means[3] == "| auto | .600 | 2.0 |"
    gain = leaderboard.table("labels: gains", kept).splitlines()[2]
    assert gain.startswith("| Musk1 | -0.025 (")


def test_tables_of_the_site_are_made_of_kept_results():
    pages = [path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")]
    requests = [request for page in pages for request in PLACE.finditer(page)]
    assert {found[1] for found in requests} >= {"audit", "fields", "leaderboard", "older", "papers"}
    for found in requests:
        lines = [line for line in whole(found[0]).splitlines() if line.startswith("|")]
        assert len(lines) > 2, found[0]
        assert len({line.count(" | ") for line in lines[2:]}) == 1, found[0]
    for page in pages:
        assert page.count("<!-- site:") == len(PLACE.findall(page))

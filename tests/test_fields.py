"""The measures and the tables of `benchmarks.fields`."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.fields import DOCS, areas, fill, kept_results, pooled_areas


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

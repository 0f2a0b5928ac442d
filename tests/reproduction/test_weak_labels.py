"""Protocols of weak labels, and the summary over data sets."""

import numpy as np
import pytest
from scipy import stats

from bagwise.reproduction import load_paper, make_plan
from bagwise.reproduction._protocols import PROTOCOLS
from bagwise.reproduction._protocols.weak_labels import _draw_labels
from bagwise.reproduction._summary import paired_summary
from bagwise.reproduction.sources import make_text_rows


def test_win_tie_loss_is_that_of_a_paired_t_test(rng):
    base = rng.normal(size=(3, 20))
    other = base + np.array([[1.0], [0.0], [-1.0]]) + 0.1 * rng.normal(size=(3, 20))
    other[1] = base[1] + rng.permutation(np.repeat([-1.0, 1.0], 10))
    assert stats.ttest_rel(other[1], base[1]).pvalue > 0.05
    numbers = {f"set{i}": {"svm": base[i], "other": other[i]} for i in range(3)}
    assert paired_summary(numbers)["win/tie/loss"] == ["", "1/1/1"]
    assert paired_summary(numbers, lower_is_better=True)["win/tie/loss"] == ["", "1/1/1"]
    better = {"a": {"svm": [0.5, 0.6], "other": [0.7, 0.8]}}
    assert paired_summary(better)["win/tie/loss"] == ["", "1/0/0"]
    assert paired_summary(better, lower_is_better=True)["win/tie/loss"] == ["", "0/0/1"]


def test_equal_means_share_their_rank():
    cells = {"a": {"x": [0.5], "y": [0.5], "z": [0.4]}}
    assert paired_summary(cells)["mean rank"] == ["1.50", "1.50", "3.00"]


def test_every_class_has_a_label(rng):
    y = np.array([0] * 97 + [1] * 3)
    for seed in range(10):
        chosen = _draw_labels(y, 0.05, np.random.RandomState(seed))
        assert chosen.sum() == 5
        assert set(y[chosen]) == {0, 1}


def test_text_rows_have_unit_length():
    data = make_text_rows(200, 100, words=8, random_state=0)
    lengths = np.sqrt(data.X.multiply(data.X).sum(axis=1))
    assert np.asarray(lengths).ravel()[lengths.ravel() > 0] == pytest.approx(1)
    assert data.X.indices.dtype == data.X.indptr.dtype == np.int32


@pytest.mark.parametrize("name", ["figure3", "figure7"])
def test_large_figures_run_on_a_few_rows(name):
    paper = load_paper("wellsvm")
    units = make_plan(paper, paper.experiment(name).shortened()).units
    small = [unit for unit in units if unit.value == min(u.value for u in units)]
    results = {unit.method: PROTOCOLS[unit.settings["protocol"]](unit) for unit in small}
    assert len(results) == 2
    metric = paper.experiment(name).metrics[0]
    assert all(0.4 < result[metric] <= 1 for result in results.values())

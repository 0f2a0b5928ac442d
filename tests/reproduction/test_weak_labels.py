"""Protocols for weak labels, and the summary over data sets."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.metrics import f1_score
from sklearn.metrics.pairwise import rbf_kernel

from cases import each
from reproduction import Store, load_paper, make_plan, make_report, run_plan, write_report
from reproduction._protocols import PROTOCOLS
from reproduction._protocols.weak_labels import (
    _balance,
    _chosen,
    _margins,
    _mean_square,
    roi_success_rate,
)
from reproduction._summary import paired_summary


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


def test_a_margin_is_that_of_the_true_class():
    np.testing.assert_array_equal(_margins(np.array([2.0, -1.0]), np.array([1, 1])), [2, -1])
    np.testing.assert_array_equal(_margins(np.array([2.0, -1.0]), np.array([0, 0])), [-2, 1])
    scores = np.array([[3.0, 1.0, 0.0], [3.0, 1.0, 0.0]])
    np.testing.assert_array_equal(_margins(scores, np.array([0, 2])), [1.0, -1.5])


@each("form", [np.asarray, sparse.csr_array])
def test_mean_square_is_that_of_the_kernel(form, rng):
    X = rng.normal(1.0, 1.0, size=(20, 3))
    for K, gamma in ((X @ X.T, None), (rbf_kernel(X, gamma=0.1), 0.1)):
        H = np.eye(20) - 1 / 20
        assert _mean_square(form(X), gamma, False) == pytest.approx(np.diag(K).mean())
        assert _mean_square(form(X), gamma, True) == pytest.approx(np.diag(H @ K @ H).mean())


def test_where_labels_tell_nothing_the_unlabelled_rows_are_trusted_least(rng):
    X, y = rng.normal(size=(60, 5)), np.full(60, -1)
    y[:6] = [0, 1, 0, 1, 0, 1]
    tables = [{"width": [0], "center": [True], "weight": [3.0, 0.3]}]
    options = {"choice": "margin", "grid": {"wellsvm": tables}}
    model = {"class": "reproduction.rivals:PublishedWellSVM"}
    unit = SimpleNamespace(
        settings={"options": options, "model": model},
        method="wellsvm",
        data="noise",
        seed=0,
        shared_seed=0,
    )
    fitted, chosen, _ = _chosen(unit, X, y)
    assert chosen["weight"] == 0.3
    assert pytest.approx(0.3 * fitted.C1 * 6 / 54) == fitted.C2
    assert pytest.approx(1 / _mean_square(X, None, True)) == fitted.C1


def test_a_prior_evens_the_balance_and_stays_when_labels_are_hidden(rng):
    np.testing.assert_allclose(_balance(np.array([0, 0, 0, 1]), 0), [0.75, 0.25])
    np.testing.assert_allclose(_balance(np.array([0, 0, 0, 1]), 4), [0.625, 0.375])
    X, y = rng.normal(size=(60, 3)), np.full(60, -1)
    y[:8] = [0, 0, 0, 0, 0, 1, 1, 2]  # when the only row of class 2 is hidden, two are left
    tables = [{"width": [0], "center": [True], "weight": [1.0, 0.3]}]
    options = {"choice": "margin", "prior": 10, "grid": {"wellsvm": tables}}
    model = {"class": "reproduction.rivals:PublishedWellSVM"}
    unit = SimpleNamespace(
        settings={"options": options, "model": model},
        method="wellsvm",
        data="noise",
        seed=0,
        shared_seed=0,
    )
    fitted = _chosen(unit, X, y)[0]
    np.testing.assert_allclose(fitted.balance, (np.array([5, 2, 1]) + 10 / 3) / 18)


@each("name", ["figure3", "figure7"])
def test_large_figures_run_on_a_few_rows(name):
    paper = load_paper("wellsvm")
    units = make_plan(paper, paper.experiment(name).shortened()).units
    small = [unit for unit in units if unit.value == min(u.value for u in units)]
    results = {unit.method: PROTOCOLS[unit.settings["protocol"]](unit) for unit in small}
    assert len(results) == len({unit.method for unit in small})
    metric = paper.experiment(name).metrics[0]
    assert all(0.4 < result[metric] <= 1 for result in results.values())


@pytest.mark.parametrize("name", ["figure1-2", "figure6"])
def test_small_figures_draw_times_and_objectives(name, tmp_path):
    pytest.importorskip("matplotlib")
    paper, store = load_paper("wellsvm"), Store(tmp_path / "results.jsonl")
    plan = make_plan(paper, paper.experiment(name).shortened()).narrowed(("house",))
    if not plan.units:
        pytest.skip("the UCI sets are not at hand")
    run_plan(plan, store)
    report = make_report(plan, store)
    assert all(row.ours for row in report.rows if row.metric != "label_vectors")
    plots = write_report(report, tmp_path, name)[1:]
    assert [plot.name for plot in plots] == [f"{name}-times.png", f"{name}-objective.png"]


def test_success_rate_of_regions_by_hand_and_with_every_region_right():
    truth, predicted = np.array([1, 1, 1, 0, 0]) == 1, np.array([1, 1, 0, 1, 0]) == 1
    hits = np.array([True, False, True, False, False])  # a success only in the first image
    assert roi_success_rate(truth, predicted, hits) == pytest.approx(2 * 1 / (3 + 3))
    everything = np.ones(5, dtype=bool)
    assert roi_success_rate(truth, predicted, everything) == f1_score(truth, predicted)
    assert roi_success_rate(truth & False, truth & False, hits) == 0

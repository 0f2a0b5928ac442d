"""Models used only by reproduced papers: variants that follow misvm, against loops and QPs."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from bagwise import Bags
from qp_oracle import solve_margins
from reproduction import load_paper
from reproduction._building import build_model
from reproduction._protocols.weak_labels import _fit_rows
from reproduction.models import (
    MeanInterceptSVM,
    SummedBalancedSparseMIL,
    SummedSparseMIL,
    TruncatedSparseMIL,
)

PLAIN = {"kernel": "linear", "threshold": "zero"}


@pytest.fixture
def bags(rng):
    sizes = rng.integers(1, 4, size=12)
    y = np.arange(12) % 2
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = rng.normal(size=(offsets[-1], 3))
    rows[offsets[:-1]] += y[:, None]
    return Bags(rows - rows.mean(axis=0), offsets), y


def sums(bags):
    return np.array([part.sum(axis=0) for part in bags.split(bags.instances)])


def summed_smil_by_qp(bags, y, C):
    """sMIL with the sum of a positive bag: (w, b)."""
    negative = bags.instances[(y == 0)[bags.bag_index]]
    points = np.vstack([negative, sums(bags)[y == 1]])
    signs = np.repeat([-1, 1], [len(negative), (y == 1).sum()])
    margins = np.r_[np.ones(len(negative)), 2 / bags.sizes[y == 1] - 1]
    n = len(signs)
    return solve_margins(points, signs, margins, np.arange(n), np.full(n, C))[:2]


def test_bags_are_sums_in_training_and_prediction(bags):
    X, y = bags
    w, b = summed_smil_by_qp(X, y, 0.5)
    model = SummedSparseMIL(0.5, **PLAIN).fit(X, y)
    np.testing.assert_allclose(model.coef_[0], w, atol=1e-4)
    np.testing.assert_allclose(model.intercept_[0], b, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), sums(X) @ w + b > 0)


def test_a_ranking_by_sums(bags):
    X, y = bags
    w, b = summed_smil_by_qp(X, y, 0.5)
    inside = (y == 1)[X.bag_index]
    least = np.sort((X.instances @ w)[inside])[-(y == 1).sum()]
    signs = np.where(inside & (X.instances @ w >= least - 1e-6), 1, -1)
    n = len(signs)
    w, b, _ = solve_margins(X.instances, signs, np.ones(n), np.arange(n), np.full(n, 0.5))
    model = SummedBalancedSparseMIL(0.5, eta=0.0, **PLAIN).fit(X, y)
    np.testing.assert_allclose(model.coef_[0], w, atol=1e-4)
    np.testing.assert_allclose(model.intercept_[0], b, atol=1e-4)


def test_small_multipliers_are_dropped(bags):
    X, y = bags
    model = TruncatedSparseMIL(1e-8, **PLAIN).fit(X, y)
    assert not model.coef_.any()
    assert model.intercept_[0] == 0
    assert len(set(model.predict(X))) == 1
    kept = TruncatedSparseMIL(0.5, **PLAIN).fit(X, y)
    everything = SummedSparseMIL(0.5, **PLAIN).fit(X, y)
    np.testing.assert_allclose(kept.coef_, everything.coef_, atol=1e-5)


def test_the_intercept_is_a_mean_over_support_vectors(bags):
    X, y = bags
    model = MeanInterceptSVM(0.5, **PLAIN).fit(X, y)
    scores = X.instances @ model.coef_[0] + model.intercept_[0]
    # The labels of the last round are those of its scores: the machine is that of the SVM.
    signs = np.where((y == 1)[X.bag_index] & (scores >= 0), 1, -1)
    for k in np.flatnonzero(y):
        rows = np.arange(X.offsets[k], X.offsets[k + 1])
        signs[rows[np.argmax(scores[rows])]] = 1
    n = len(signs)
    w, b, _ = solve_margins(X.instances, signs, np.ones(n), np.arange(n), np.full(n, 0.5))
    np.testing.assert_allclose(model.coef_[0], w, atol=1e-4)
    support = signs * (X.instances @ w + b) < 1 + 1e-5
    expected = np.mean((signs - X.instances @ w)[support])
    assert model.intercept_[0] == pytest.approx(expected, abs=1e-3)
    assert abs(expected - b) > 1e-3


def test_the_svm_without_offset_reads_the_labelled_rows_only(rng):
    X, y = rng.normal(size=(60, 4)) + 0.5, rng.integers(2, size=60)
    labelled = np.arange(60) < 20
    settings = load_paper("wellsvm").methods["svm-no-offset"].model
    model = build_model(settings, {}).set_params(tol=1e-4)
    found = _fit_rows(model, X, np.where(labelled, y, -1))
    svm = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-9, max_iter=10**6)
    svm.fit(X[labelled], y[labelled])
    np.testing.assert_allclose(found.coef_, svm.coef_, rtol=1e-2, atol=1e-3)
    assert found.intercept_ == 0

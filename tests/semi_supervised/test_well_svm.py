"""WellSVMClassifier: invariants, edge cases, and agreement with the supervised SVM."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from bagwise import Bags
from bagwise.classification import WellMISVM
from bagwise.exceptions import LabelError
from bagwise.semi_supervised import WellSVMClassifier
from cases import each
from reproduction.rivals import PublishedWellSVM


def clouds(rng, n=120, share=0.5, apart=4.0, n_labelled=12, d=3):
    truth = (np.arange(n) >= n * (1 - share)).astype(int)
    X = rng.normal(size=(n, d))
    X[:, 0] += apart * truth
    y = np.full(n, -1)
    n_positive = max(1, round(share * n_labelled))
    y[np.flatnonzero(truth == 1)[:n_positive]] = 1
    y[np.flatnonzero(truth == 0)[: n_labelled - n_positive]] = 0
    return X, y, truth


def uncentred(kind=WellSVMClassifier, *, center=False, **options):
    """A model that does not centre the rows, as in the paper."""
    model = kind(**options)
    model.center = center
    return model


def test_without_unlabelled_rows_it_is_the_ordinary_svm(rng):
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    model = uncentred(offset=0.0, C1=0.5, tol=1e-6).fit(X, y)
    svm = LinearSVC(loss="hinge", fit_intercept=False, C=0.5, tol=1e-9, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(model.coef_, svm.coef_, rtol=1e-3, atol=1e-4)
    assert model.n_iter_ == 1


def test_a_constant_feature_is_the_offset(rng):
    X = rng.normal(size=(60, 4)) + 1.0
    y = (X[:, 0] + rng.normal(size=60) > 1).astype(int)
    model = uncentred(offset=1.0, tol=1e-6).fit(X, y)
    length = np.sqrt((X**2).sum(axis=1).mean())
    wide = np.column_stack([X, np.full(60, length)])
    svm = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-9, max_iter=10**6).fit(wide, y)
    np.testing.assert_allclose(
        model.decision_function(X), svm.decision_function(wide), rtol=1e-3, atol=1e-3
    )


@each("kernel", ["linear", "rbf"])
@each("center", [True, False])
def test_centring_is_what_it_says(rng, kernel, center):
    X, y, _ = clouds(rng)
    X += 3.0
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.1)
    mean = np.eye(len(K)) - center / len(K)
    options = {"tol": 1e-4, "max_cuts": 3, "C2": 1e-3, "threshold": "zero"}
    plain = uncentred(kernel="precomputed", **options).fit(mean @ K @ mean, y)
    model = uncentred(kernel=kernel, gamma=0.1, center=center, **options).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), plain.decision_function(mean @ K @ mean), rtol=2e-2, atol=2e-2
    )


def test_label_vectors_keep_the_labels_and_the_balance(rng):
    X, y, _ = clouds(rng, share=0.25)
    model = WellSVMClassifier(C2=0.1).fit(X, y)
    (vectors,), (weights,) = model.label_vectors_, model.label_weights_
    known = y >= 0
    assert vectors.shape == (model.n_iter_, len(y))
    assert (vectors[:, known] == np.where(y[known] == 1, 1, -1)).all()
    share = np.mean(y[known] == 0)
    assert ((vectors[:, ~known] < 0).sum(axis=1) == np.ceil(share * np.sum(~known) - 1e-9)).all()
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    assert (np.diff(model.objective_curve_) <= 0).all()
    assert model.duality_gap_ >= 0
    assert (model.transduction_[known] == y[known]).all()


def test_refined_machines_have_one_label_vector_of_the_balance(rng):
    X, y, _ = clouds(rng, share=0.25, apart=1.5)
    model = PublishedWellSVM(C2=0.1, refine=True).fit(X, y)
    (vectors,), (weights,) = model.label_vectors_, model.label_weights_
    free = y < 0
    assert weights.tolist() == [1.0]
    assert np.sum(vectors[0, free] < 0) == np.ceil(np.mean(y[~free] == 0) * free.sum() - 1e-9)
    np.testing.assert_array_equal(vectors[0, ~free], np.where(y[~free] == 1, 1, -1))
    alone = PublishedWellSVM(refine=True).fit(X[~free], y[~free])  # nothing to refine
    plain = WellSVMClassifier().fit(X[~free], y[~free])
    np.testing.assert_array_equal(alone.coef_, plain.coef_)


def test_order_of_rows_is_irrelevant(rng):
    X, y, _ = clouds(rng)
    order = rng.permutation(len(y))
    options = {"max_cuts": 3, "C2": 0.01}
    for kernel in ("linear", "rbf"):
        plain = WellSVMClassifier(kernel=kernel, **options).fit(X, y)
        mixed = WellSVMClassifier(kernel=kernel, **options).fit(X[order], y[order])
        np.testing.assert_allclose(
            plain.decision_function(X), mixed.decision_function(X), rtol=1e-6, atol=1e-8
        )


@each("kernel", ["linear", "rbf"])
@each("d", [2, 20])
def test_an_imbalanced_set_does_not_collapse(rng, kernel, d):
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y, truth = clouds(rng, n=400, share=0.1, n_labelled=30, d=d)
        predicted = WellSVMClassifier(kernel=kernel).fit(X, y).predict(X)
        assert 0.02 < predicted.mean() < 0.3
        found.append(balanced_accuracy_score(truth, predicted))
    assert np.mean(found) > 0.75


def test_thresholds(rng):
    X, y, _ = clouds(rng, share=0.25, apart=1.0, n_labelled=40)
    free = y < 0
    balanced = WellSVMClassifier(threshold="balanced").fit(X, y)
    assert np.mean(balanced.predict(X[free]) == 1) == pytest.approx(0.25, abs=1 / free.sum())
    given = WellSVMClassifier(threshold="balanced", balance=0.4).fit(X, y)
    assert np.mean(given.predict(X[free]) == 1) == pytest.approx(0.4, abs=1 / free.sum())


@each("balance", [0.0, 1.0, 0.999])
def test_an_unattainable_balance_is_met_as_nearly_as_rows_allow(rng, balance):
    X, y, _ = clouds(rng, n=21)
    model = WellSVMClassifier(balance=balance, threshold="zero").fit(X, y)
    n_positive = (model.label_vectors_[0][:, y < 0] > 0).sum(axis=1)
    assert (n_positive == np.floor(balance * (y < 0).sum())).all()


def test_a_balance_of_each_class(rng):
    X, y, _ = clouds(rng)
    one, each = (WellSVMClassifier(balance=b).fit(X, y) for b in (0.3, [0.7, 0.3]))
    np.testing.assert_array_equal(one.decision_function(X), each.decision_function(X))
    three = np.where(y < 0, -1, np.arange(len(y)) % 3)
    model = WellSVMClassifier(balance=[0.5, 0.25, 0.25]).fit(X, three)
    n_free = np.sum(y < 0)
    for vectors, share in zip(model.label_vectors_, (0.5, 0.25, 0.25), strict=True):
        assert (np.sum(vectors[:, y < 0] > 0, axis=1) == np.floor(n_free * share)).all()


def test_labels_that_cannot_be_learned_from(rng):
    X = rng.normal(size=(6, 2))
    with pytest.raises(LabelError, match="-1 means unlabelled"):
        WellSVMClassifier().fit(X, [-1, 1, -1, 1, -1, 1])
    with pytest.raises(LabelError, match="y has one class"):
        WellSVMClassifier().fit(X, [0, 0, -1, -1, -1, -1])
    with pytest.raises(LabelError, match="none of the 6 rows"):
        WellSVMClassifier().fit(X, [-1] * 6)
    with pytest.raises(LabelError, match="a share for each of the 3 classes"):
        WellSVMClassifier(balance=0.5).fit(X, [0, 1, 2, -1, -1, -1])
    with pytest.raises(LabelError, match="with sum 1"):
        WellSVMClassifier(balance=[0.5, 0.6]).fit(X, [0, 1, -1, -1, -1, -1])


def test_a_budget_of_cuts_that_runs_out_is_told(rng):
    X, y, _ = clouds(rng, apart=1.0)
    with pytest.warns(ConvergenceWarning, match="max_cuts=2"):
        WellSVMClassifier(C2=1.0, max_cuts=2, tol=1e-4).fit(X, y)


def test_sparse_rows_stay_sparse(rng):
    X, y, _ = clouds(rng, n=200, d=30)
    X[np.abs(X) < 0.5] = 0.0
    rows = sparse.csr_array(X)
    model = WellSVMClassifier(C2=0.001).fit(rows, y)
    dense = WellSVMClassifier(C2=0.001).fit(X, y)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-5, atol=1e-7)


def _with_zeros(kind, X):
    """The same table in CSR, with entries that are zero or come twice."""
    table = sparse.csr_array(X)
    if kind == "duplicates":
        n, d = X.shape
        columns = np.tile(np.arange(d), 2 * n)
        halves = np.repeat(X, 2, axis=0).ravel() / 2
        return sparse.csr_array((halves, columns, np.arange(n + 1) * 2 * d), shape=(n, d))
    full = sparse.csr_array(np.ones_like(X))
    full.data[:] = X.ravel()
    return full if kind == "explicit zeros" else table


@each("kind", ["explicit zeros", "duplicates"])
@each("center", [True, False])
def test_stored_zeros_and_duplicates_change_nothing(rng, kind, center):
    X = rng.normal(size=(40, 3))
    X[1::4, 1] = 0
    y = np.where(np.arange(40) < 20, np.arange(40) % 2, -1)
    X[np.arange(40) % 2 == 1, 0] += 2
    X[::4] = 0
    options = {"center": center, "offset": 0.0}  # a row of zeros then has no length
    expected = uncentred(**options).fit(sparse.csr_array(X), y)
    found = uncentred(**options).fit(_with_zeros(kind, X), y)
    np.testing.assert_array_equal(found.transduction_, expected.transduction_)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    bags = Bags(_with_zeros(kind, X), np.arange(0, 41, 4))
    machines = [
        uncentred(WellMISVM, kernel="linear", **options).fit(each, np.arange(10) % 2)
        for each in (bags, Bags(sparse.csr_array(X), bags.offsets))
    ]
    np.testing.assert_allclose(machines[0].coef_, machines[1].coef_, rtol=1e-6, atol=1e-9)

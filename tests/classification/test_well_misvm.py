"""WellMISVM: key instances, single-instance bags, and agreement with the supervised SVM."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from bagwise import Bags
from bagwise.classification import WellMISVM
from cases import each
from checks import example


def test_singletons_are_the_ordinary_svm(rng):
    X = rng.normal(size=(50, 3))
    y = (X[:, 0] + rng.normal(size=50) > 0).astype(int)
    options = {"offset": 0.0, "tol": 1e-6, "threshold": "zero"}
    model = WellMISVM(C1=1.0, C2=0.5, kernel="linear", **options)
    model.center = False
    model.fit(X, y)
    svm = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-9, max_iter=10**6)
    svm.fit(X, y, sample_weight=np.where(y == 1, 1.0, 0.5))
    np.testing.assert_allclose(model.coef_, svm.coef_, rtol=1e-3, atol=1e-4)
    assert model.n_iter_ == 1


@each("kernel", ["linear", "rbf"])
def test_the_shifted_instances_are_the_keys(kernel):
    rng = np.random.default_rng(3)
    arrays, keys = [], []
    for i in range(40):
        bag = rng.normal(size=(5, 4))
        keys.append(rng.integers(5))
        bag[keys[-1], 0] += 6 * (i % 2)
        arrays.append(bag)
    y = np.arange(40) % 2
    model = WellMISVM(kernel=kernel, max_cuts=30).fit(arrays, y)
    assert model.score(arrays, y) > 0.95
    assert np.mean((model.key_instances(arrays) == keys)[1::2]) > 0.95
    assert (np.diff(model.objective_curve_) <= 0).all()


def test_label_vectors_are_rows_inside_the_positive_bags():
    bags, y = example()
    model = WellMISVM(max_cuts=30).fit(bags, y)
    (choices,), (weights,) = model.label_vectors_, model.label_weights_
    sizes = bags.sizes[y == "q"]
    assert choices.shape == (len(weights), len(sizes))
    assert ((choices >= 0) & (choices < sizes)).all()
    assert weights.sum() == pytest.approx(1)


def test_precomputed_kernel_is_the_kernel():
    bags, y = example()
    model = WellMISVM(kernel="rbf", gamma=0.2, max_cuts=10, C2=0.01).fit(bags, y)
    K = rbf_kernel(bags.instances, gamma=0.2)
    gram = WellMISVM(kernel="precomputed", max_cuts=10, C2=0.01).fit(Bags(K, bags.offsets), y)
    np.testing.assert_allclose(
        gram.decision_function(Bags(K, bags.offsets)), model.decision_function(bags), rtol=1e-6
    )


def test_the_threshold_is_the_best_for_the_training_bags():
    bags, y = example(n_bags=40, seed=4)
    scores = WellMISVM(threshold="zero").fit(bags, y).decision_function(bags)
    sides = [scores > cut for cut in [-np.inf, *scores]]  # all ways to cut the scores
    best = max(np.mean(side[y == "q"]) + np.mean(~side[y == "p"]) for side in sides)
    found = WellMISVM().fit(bags, y).predict(bags) == "q"
    assert np.mean(found[y == "q"]) + np.mean(~found[y == "p"]) == pytest.approx(best)


def test_landmarks_of_all_instances_are_the_kernel(rng):
    """With a feature per row the approximation is exact; bags of one leave nothing to choose."""

    class WithLandmarks(WellMISVM):
        largest_gram, n_landmarks = 10, 100

    y = np.arange(48) % 2
    bags = Bags(rng.normal(size=(48, 2)) + 2 * y[:, None], np.arange(49))
    exact, same = WellMISVM(tol=1e-4).fit(bags, y), WithLandmarks(tol=1e-4).fit(bags, y)
    assert hasattr(same, "nystroem_")
    expected = exact.decision_function(bags)
    np.testing.assert_allclose(same.decision_function(bags), expected, atol=1e-2)

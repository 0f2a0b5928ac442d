"""WellSVMClustering: two sides of a wide margin, within the balance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from bagwise.cluster import WellSVMClustering
from bagwise.exceptions import InputError
from cases import each


@each("kernel", ["linear", "rbf"])
def test_two_clouds_are_told_apart(kernel):
    X, truth = make_blobs(80, centers=[[0, 0], [6, 3]], random_state=0)
    model = WellSVMClustering(kernel=kernel, random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert (np.diff(model.objective_curve_) <= 0).all()


def test_nearly_orthogonal_rows_do_not_hold_on_to_random_labels():
    """Texts of 50 of 20,000 words, of which each topic prefers half."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 150)
    usual, first_half = rng.random(20_000) ** 2, np.arange(20_000) < 10_000
    X = sparse.lil_array((300, 20_000))
    for row, topic in enumerate(truth):
        share = usual * np.where(first_half == (topic == 0), 1.5, 0.5)
        X[row, rng.choice(20_000, 50, replace=False, p=share / share.sum())] = 50**-0.5
    model = WellSVMClustering(random_state=0).fit(X.tocsr())
    assert adjusted_rand_score(truth, model.labels_) > 0.7


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 15), st.sampled_from([0.0, 0.03, 0.3, 0.8]), st.integers(0, 100))
def test_the_balance_holds(n, balance, seed):
    X = np.random.default_rng(seed).normal(size=(n, 2)) ** 3
    model = WellSVMClustering(balance=balance, random_state=0, max_cuts=50).fit(X)
    most = max(balance * n, n % 2)  # an odd number cannot be halved
    sizes = np.bincount(model.labels_, minlength=2)
    assert abs(sizes[0] - sizes[1]) <= most + 1e-9
    assert (np.abs(model.label_vectors_.sum(axis=1)) <= most + 1e-9).all()


def test_more_clusters_by_bisection():
    X, truth = make_blobs(
        160, centers=[[0, 0], [20, 0], [0, 20], [20, 20]], cluster_std=0.5, random_state=0
    )
    model = WellSVMClustering(4, random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    K = rbf_kernel(X, gamma=0.001)
    gram = WellSVMClustering(4, kernel="precomputed", random_state=0).fit(K)
    np.testing.assert_array_equal(gram.predict(K), gram.labels_)


def test_order_of_rows_is_irrelevant(rng):
    X, _ = make_blobs(40, centers=[[0, 0], [3, 3]], random_state=0)
    order = rng.permutation(40)
    plain = WellSVMClustering(random_state=0).fit(X)
    mixed = WellSVMClustering(random_state=0).fit(X[order])
    np.testing.assert_array_equal(plain.labels_[order], mixed.labels_)


def test_duplicate_rows_and_too_few_rows():
    labels = WellSVMClustering(random_state=0).fit_predict(np.ones((6, 2)))
    assert np.bincount(labels).tolist() in ([3, 3], [2, 4], [4, 2])
    with pytest.raises(InputError, match="n_clusters=5"):
        WellSVMClustering(5).fit(np.eye(3))


def test_constant_rows_are_centred_to_exactly_zero():
    X = np.full((50_001, 2), 0.37)
    assert X.mean(axis=0)[0] != 0.37  # by rounding; the search would follow what is left
    np.testing.assert_array_equal(WellSVMClustering(random_state=0).fit(X).coef_, 0)

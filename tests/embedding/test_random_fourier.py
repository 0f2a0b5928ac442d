"""RandomFourierEmbedding against the set kernel it approximates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.base import _set_kernel
from bagwise.classification import SetKernelSVM
from bagwise.datasets import load_musk1
from bagwise.embedding import RandomFourierEmbedding, _random_fourier
from bagwise.exceptions import NotEnoughMemoryError
from bagwise.pairwise import bag_kernel, kernel_width
from bagwise.preprocessing import InstanceTransformer
from cases import each
from checks import example


def kernel_errors(bags, n_components, seed, **options):
    """Estimated minus exact kernel values."""
    model = RandomFourierEmbedding(n_components=n_components, random_state=seed, **options)
    rows = model.fit_transform(bags)
    return rows @ rows.T - bag_kernel(bags, gamma=model.gamma_, **options)


@each("form", [np.asarray, sparse.csr_array])
def test_features_are_those_of_a_loop_over_instances(form):
    dense, _ = example()
    bags = dense.with_instances(form(dense.instances))
    # An odd number of columns is rounded up.
    model = RandomFourierEmbedding(gamma=0.3, n_components=5, normalization=None, random_state=0)
    found = model.fit_transform(bags)
    assert found.shape == (len(bags), len(model.get_feature_names_out())) == (24, 6)
    W = np.sqrt(2 * 0.3) * model.frequencies_
    for row, bag in zip(found, dense, strict=True):
        angles = [(x - model.mean_) @ W for x in bag]
        expected = sum(np.concatenate([np.cos(a), np.sin(a)]) for a in angles) / np.sqrt(3)
        np.testing.assert_allclose(row, expected, rtol=1e-12, atol=1e-12)
    average = model.set_params(normalization="average").transform(bags)
    np.testing.assert_allclose(average, found / bags.sizes[:, None], rtol=1e-14)
    unit = model.set_params(normalization="feature").transform(bags)
    np.testing.assert_allclose(unit, found / np.linalg.norm(found, axis=1)[:, None], rtol=1e-14)


def test_errors_are_within_their_bound():
    # The mean of m cosines: a variance of at most 1 / 2m each, and Hoeffding for all pairs at once.
    bags, _ = example(60)
    for n_components in (100, 1000):
        m = n_components // 2
        errors = kernel_errors(bags, n_components, seed=0, normalization="average")
        assert np.sqrt(np.mean(errors**2)) < 1.2 / np.sqrt(2 * m)
        assert np.abs(errors).max() < np.sqrt(2 * np.log(2 * len(bags) ** 2 / 1e-3) / m)


def test_errors_fall_as_the_root_of_the_number_of_columns():
    bags, _ = example()

    def typical(n_components):
        errors = [kernel_errors(bags, n_components, seed) for seed in range(12)]
        return np.sqrt(np.mean(np.square(errors)))

    assert 3 < typical(64) / typical(1024) < 5.3  # 4 up to chance


@each("n_features", [1, 3, 40])
def test_frequencies_are_normal_and_orthogonal_in_groups(n_features):
    rng = np.random.RandomState(0)
    W = _random_fourier.orthogonal_frequencies(n_features, 4000, rng)
    assert W.shape == (n_features, 4000)
    assert abs(W.mean()) < 5 / np.sqrt(W.size)
    assert abs(W.var() - 1) < 5 * np.sqrt(2 / W.size)
    assert abs(np.mean(W[0] ** 4) - 3) < 5 * np.sqrt(96 / 4000)  # of a normal variable: 3
    group = W[:, :n_features]
    inner = group.T @ group
    np.testing.assert_allclose(inner, np.diag(np.diagonal(inner)), atol=1e-12 * n_features)


@each("n_values", [1, 7, 200])
def test_blocks_do_not_matter(n_values, monkeypatch):
    bags, _ = example()
    model = RandomFourierEmbedding(n_components=20, normalization=None, random_state=0).fit(bags)
    expected = model.transform(bags)
    monkeypatch.setattr(_set_kernel, "SUMMED", 20 * n_values)
    np.testing.assert_allclose(model.transform(bags), expected, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(_random_fourier, "MOMENTS_BLOCK", 4 * n_values)
    again = RandomFourierEmbedding(n_components=20, random_state=0).fit(bags)
    np.testing.assert_allclose(again.gamma_, model.gamma_, rtol=1e-12)
    np.testing.assert_allclose(again.mean_, model.mean_, rtol=1e-12, atol=1e-14)


@each("gamma", ["scale", "auto", 0.5])
@each("value", [0.0, 2.0])
def test_equal_instances_have_the_width_of_the_kernel(gamma, value):
    bags = Bags(np.full((4, 3), value), [0, 1, 4])
    model = RandomFourierEmbedding(gamma, 6, random_state=0).fit(bags)
    assert model.gamma_ == kernel_width(gamma, bags)
    np.testing.assert_allclose(model.transform(bags)[0], model.transform(bags)[1])


def test_a_failed_fit_leaves_the_model_as_it_was():
    bags, _ = example()
    model = RandomFourierEmbedding(n_components=10, random_state=0).fit(bags)
    expected = model.transform(bags)
    with pytest.raises(NotEnoughMemoryError, match="lower n_components"):
        model.set_params(n_components=10**15).fit(bags)
    np.testing.assert_array_equal(model.transform(bags), expected)


def test_a_drawn_generator_is_used_once():
    bags, _ = example()
    model = RandomFourierEmbedding(n_components=10, random_state=np.random.RandomState(0))
    first = model.fit(bags).frequencies_
    assert not np.array_equal(model.fit(bags).frequencies_, first)


def test_the_origin_does_not_matter():
    bags, _ = example()
    # Whole numbers: exact after the shift too.
    bags = bags.with_instances(np.round(4 * bags.instances))
    far = bags.with_instances(bags.instances + 1e12)
    expected = RandomFourierEmbedding(gamma=0.1, random_state=0).fit_transform(bags)
    found = RandomFourierEmbedding(gamma=0.1, random_state=0).fit_transform(far)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)


def test_copies_and_scale():
    bags, _ = example()
    model = RandomFourierEmbedding(n_components=50, random_state=0).fit(bags)
    twice = Bags.from_arrays([np.repeat(bag, 2, axis=0) for bag in bags])
    np.testing.assert_allclose(model.transform(twice), model.transform(bags), atol=1e-12)
    wide = bags.with_instances(1000 * bags.instances)
    np.testing.assert_allclose(
        RandomFourierEmbedding(n_components=50, random_state=0).fit_transform(wide),
        model.transform(bags),
        atol=1e-9,
    )


@given(st.floats(1e-300, 1e300), st.floats(-1e70, 1e70))
@settings(deadline=None, max_examples=40)
def test_finite_input_gives_finite_features(gamma, value):
    bags = [[[value], [1.0]], [[0.0]]]
    rows = RandomFourierEmbedding(gamma, 8, random_state=0).fit_transform(bags)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)


def test_a_linear_svm_ranks_as_the_set_kernel_does():
    data = load_musk1()
    scale = InstanceTransformer(StandardScaler())
    exact = make_pipeline(scale, SetKernelSVM(C=1.0))
    embedded = make_pipeline(
        scale, RandomFourierEmbedding(random_state=0), SVC(C=1.0, kernel="linear")
    )
    expected, found = (
        roc_auc_score(data.y, cross_val_predict(m, data.bags, data.y, method="decision_function"))
        for m in (exact, embedded)
    )
    assert found > expected - 0.03

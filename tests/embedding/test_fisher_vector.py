"""FisherVector against numerical gradients of the likelihood."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.datasets import load_musk1
from bagwise.embedding import FisherVector, _fisher_vector
from bagwise.exceptions import InputError
from bagwise.persistence import load_model, save_model
from bagwise.preprocessing import InstanceTransformer
from cases import each
from checks import example


def mean_log_likelihood(rows, weights, means, deviations):
    """Of a mixture of Gaussians with diagonal covariances, one density after the other."""
    density = sum(
        w * np.prod(norm.pdf(rows, m, s), axis=1)
        for w, m, s in zip(weights, means, deviations, strict=True)
    )
    return np.log(density).mean()


def gradient(function, at, step=1e-5):
    """By central differences."""
    out = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        ahead, behind = at.copy(), at.copy()
        ahead[place] += step
        behind[place] -= step
        out[place] = (function(ahead) - function(behind)) / (2 * step)
    return out


def slow_fisher_vector(rows, weights, means, deviations):
    """The gradient over the root of the Fisher information, its signed root, at unit length."""
    by_means = gradient(lambda m: mean_log_likelihood(rows, weights, m, deviations), means)
    by_deviations = gradient(lambda s: mean_log_likelihood(rows, weights, means, s), deviations)
    information = weights[:, None] / deviations**2
    vector = np.concatenate(
        [
            (by_means / np.sqrt(information)).ravel(),
            (by_deviations / np.sqrt(2 * information)).ravel(),
        ]
    )
    vector = np.sign(vector) * np.sqrt(np.abs(vector))
    return vector / np.linalg.norm(vector)


@each(("n_components", "n_pca"), [(1, None), (3, None), (2, 2)])
def test_fisher_vectors_are_gradients_of_the_likelihood(n_components, n_pca):
    bags, _ = example()
    model = FisherVector(n_components, n_pca, random_state=0).fit(bags)
    found = model.transform(bags)
    assert found.shape == (len(bags), 2 * n_components * (n_pca or 4))
    deviations = np.sqrt(model.covariances_)
    for row, bag in zip(found, bags, strict=True):
        rows = (bag - model.center_) @ model.projection_
        expected = slow_fisher_vector(rows, model.weights_, model.means_, deviations)
        np.testing.assert_allclose(row, expected, atol=1e-4)  # roots of differences near 0


def test_projection_is_pca_to_variance_one():
    bags, _ = example()
    for n_pca in (2, 0.7, None):
        model = FisherVector(n_pca=n_pca, random_state=0).fit(bags)
        expected = PCA(n_pca, whiten=True, svd_solver="full").fit_transform(bags.instances)
        found = (bags.instances - model.center_) @ model.projection_
        np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9)


def test_mean_fisher_vector_of_the_training_data_vanishes():
    # The likelihood is at a stationary point, but for the small constant added to the variances.
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(2000, 3)), [0, 2000])
    model = FisherVector(1, None, random_state=0).fit(bags)
    rows = (bags.instances - model.center_) @ model.projection_
    mixture = model.weights_, model.means_, model.covariances_
    scores = _fisher_vector.fisher_scores(rows, *mixture).mean(axis=0)
    np.testing.assert_allclose(scores[:3], 0, atol=1e-12)
    # (1 - 1.01) / 1.01 / sqrt(2), and the variance of PCA is divided by n - 1
    np.testing.assert_allclose(scores[3:], -0.01 / 1.01 / np.sqrt(2), atol=1e-3)


def test_units_and_origin_do_not_matter():
    bags, _ = example()
    expected = FisherVector(random_state=0).fit_transform(bags)
    for factor, shift in ((1e6, 0.0), (1e-6, 0.0), (2.0, 1e6), (1e60, 0.0), (1e-60, 0.0)):
        other = bags.with_instances(factor * bags.instances + shift)
        found = FisherVector(random_state=0).fit_transform(other)
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_mixture_is_fitted_to_some_instances():
    bags, _ = example()
    some = FisherVector(max_instances=30, random_state=0).fit(bags)
    again = FisherVector(max_instances=30, random_state=0).fit(bags)
    np.testing.assert_array_equal(some.means_, again.means_)
    every = FisherVector(max_instances=bags.n_instances, random_state=0).fit(bags)
    np.testing.assert_array_equal(
        every.means_, FisherVector(max_instances=None, random_state=0).fit(bags).means_
    )
    assert not np.array_equal(every.center_, some.center_)


def test_there_are_no_more_components_than_distinct_instances():
    bags = Bags([[0.0, 1.0], [0.0, 1.0], [2.0, 1.0], [2.0, 1.0]], [0, 2, 4])
    model = FisherVector(5, 0.99, random_state=0).fit(bags)
    assert model.weights_.shape == (2,)
    assert model.projection_.shape == (2, 1)  # the second feature is constant
    assert np.isfinite(model.transform([[[7.0, -3.0]]])).all()


def test_more_features_than_instances():
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(6, 50)), [0, 2, 4, 6])
    model = FisherVector(2, None, random_state=0).fit(bags)
    assert model.projection_.shape == (50, 5)
    assert FisherVector(2, 40, random_state=0).fit(bags).projection_.shape == (50, 5)


def test_equal_instances_are_refused():
    with pytest.raises(InputError, match=r"all instances are equal \(n_samples=4\)"):
        FisherVector().fit([[[0.1, 2.0]] * 3, [[0.1, 2.0]]])


@st.composite
def difficult_bags(draw):
    """Few instances, many equal or nearly equal values, features of any scale."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    table = rng.integers(0, 3, size=(sum(sizes), draw(st.integers(1, 5)))).astype(float)
    table *= 10.0 ** draw(st.sampled_from([-60, -3, 0, 8, 60]))
    table += draw(st.sampled_from([0.0, 0.1, 1e9]))
    return Bags(table, np.concatenate([[0], np.cumsum(sizes)]))


@given(difficult_bags(), st.integers(1, 6), st.sampled_from([1, 3, 0.5, 0.99, None]))
@settings(deadline=None, max_examples=60)
def test_difficult_bags_are_embedded_or_refused(bags, n_components, n_pca):
    model = FisherVector(n_components, n_pca, random_state=0)
    if (bags.instances == bags.instances[0]).all():
        with pytest.raises(InputError):
            model.fit(bags)
        return
    rows = model.fit(bags).transform(bags)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-9)


def test_a_saved_model_gives_the_same_vectors(tmp_path):
    pytest.importorskip("skops")
    bags, _ = example()
    model = FisherVector(random_state=0).fit(bags)
    save_model(model, tmp_path / "model.skops")
    again, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.transform(bags), model.transform(bags))


def test_a_linear_model_on_fisher_vectors_classifies_bags():
    data = load_musk1()
    model = make_pipeline(
        InstanceTransformer(StandardScaler()),
        FisherVector(random_state=0),
        LogisticRegression(C=10, max_iter=1000),
    )
    assert cross_val_score(model, data.bags, data.y, scoring="roc_auc").mean() > 0.88

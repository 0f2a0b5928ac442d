"""Kernel ORLR against the linear model on explicit features; settings chosen without labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg, sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold

from bagwise import Bags
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from cases import each


def rings(n_bags=40, seed=0):
    """Instances of three classes on three rings: no linear model tells them apart."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_bags)
    kinds = rng.integers(3, size=sizes.sum())
    angles = rng.uniform(0, 2 * np.pi, len(kinds))
    radii = 1.5 * kinds + rng.normal(0, 0.2, len(kinds))
    rows = radii[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    bags = Bags(rows, np.concatenate([[0], np.cumsum(sizes)]))
    sets = np.zeros((n_bags, 3), int)
    sets[bags.bag_index, kinds] = 1
    return bags, sets, kinds


def with_kernel(**options):
    given = {"kernel": "rbf", "gamma": 0.5, "reg": 0.1, "tol": 1e-8, "random_state": 0}
    return ORedLogisticRegression(**(given | options))


def explicit(model, rows):
    """K(x, landmarks) K(landmarks, landmarks)^-1/2."""
    landmarks = model.nystroem_.components_
    values, vectors = linalg.eigh(rbf_kernel(landmarks, gamma=model.gamma_))
    root = vectors / np.sqrt(np.maximum(values, 1e-12)) @ vectors.T
    return rbf_kernel(rows, landmarks, gamma=model.gamma_) @ root


@each("background", [False, 9])
def test_it_is_the_linear_model_on_explicit_features(background):
    bags, sets, kinds = rings()
    new, _, _ = rings(seed=1)
    known = np.where(np.arange(len(kinds)) % 7, -1, kinds)
    sets[4], known[bags.bag_index == 4] = -1, -1
    weights = np.where(np.arange(len(bags)) == 6, 0.0, 1.5)
    options = {"background": background, "tol": 1e-6}
    model = with_kernel(n_components=15, **options).fit(bags, sets, weights, known)
    assert model.coef_.shape == (3 + (background == 9), 15)
    linear = ORedLogisticRegression(reg=0.1, **options)
    linear.fit(bags.with_instances(explicit(model, bags.instances)), sets, weights, known)
    there = new.with_instances(explicit(model, new.instances))
    found, expected = model.predict_proba_instances(new), linear.predict_proba_instances(there)
    assert_allclose(found, expected, atol=1e-5)


def test_it_finds_what_no_linear_model_finds():
    bags, sets, _ = rings(80)
    new, _, kinds = rings(80, seed=1)
    linear = ORedLogisticRegression().fit(bags, sets)
    assert (linear.predict_instances(new) == kinds).mean() < 0.6
    model = with_kernel(tol=1e-4).fit(bags, sets)
    assert (model.predict_instances(new) == kinds).mean() > 0.9


def test_a_function_as_kernel():
    bags, sets, _ = rings(20)
    options = {"n_components": 12, "tol": 1e-6}
    model = with_kernel(**options).fit(bags, sets)
    expected = model.predict_proba_instances(bags)

    def same(x, z):
        return np.exp(-0.5 * np.sum((x - z) ** 2))

    given = with_kernel(kernel=same, **options).fit(bags, sets)
    assert not hasattr(given, "gamma_")
    assert_allclose(given.predict_proba_instances(bags), expected, atol=1e-5)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    found = with_kernel(**options).fit(thin, sets).predict_proba_instances(thin)
    assert_allclose(found, expected, atol=1e-5)


@each("kind", [ORedLogisticRegression, NoisyOrLogisticRegression])
def test_a_grid_search_selects_by_the_likelihood_of_held_out_bags(kind):
    """Rings need a narrow kernel."""
    bags, sets, _ = rings(24)
    model = kind(0.3, kernel="rbf", n_components=20, tol=1e-4, random_state=0)
    widths, folds = [0.01, 0.2], KFold(3, shuffle=True, random_state=0)

    def held_out(model, bags, sets):
        return model.log_likelihood(bags, sets).mean()

    search = GridSearchCV(model, {"gamma": widths}, scoring=held_out, cv=folds).fit(bags, sets)
    assert search.best_params_ == {"gamma": 0.2}
    assert search.best_estimator_.gamma_ == 0.2


def test_auto_is_that_of_the_kernel():
    bags, sets, _ = rings(12)
    assert ORedLogisticRegression().fit(bags, sets).reg_ == 1.0
    model = ORedLogisticRegression(kernel="rbf", random_state=0).fit(bags, sets)
    assert model.reg_ == 0.01
    scale = 1 / (2 * bags.instances.var())
    assert model.gamma_ == pytest.approx(0.5 * scale)
    assert model.set_params(gamma="scale").fit(bags, sets).gamma_ == pytest.approx(scale)


def test_a_function_as_kernel_on_a_device():
    pytest.importorskip("torch")
    bags, sets, _ = rings(12)
    model = with_kernel(kernel=lambda x, z: float(np.exp(x @ z / 9)), n_components=9, tol=1e-6)
    expected = model.fit(bags, sets).predict_proba_instances(bags)
    away = bags.to("cpu")
    assert_allclose(model.fit(away, sets).predict_proba_instances(away), expected, atol=1e-5)


@each("shift", [1e6, 1e10])
def test_the_origin_of_the_features_does_not_matter(shift):
    """Distances far from the origin were differences of large squares: noise, without a warning."""
    bags, sets, _ = rings(80)
    moved = bags.with_instances(bags.instances + shift)
    model = with_kernel(tol=1e-4)
    expected = model.fit(bags, sets).predict_proba_instances(bags)
    found = model.fit(moved, sets).predict_proba_instances(moved)
    assert_allclose(found, expected, atol=1e-2 if shift > 1e6 else 1e-5)

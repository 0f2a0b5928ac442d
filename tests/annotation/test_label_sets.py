"""The posterior of a bag: against enumeration and the paper's algorithm; invariants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import softmax

from bagwise.loops import label_sets
from cases import each
from orlr_oracle import by_enumeration, paper_dp, posterior


@st.composite
def bags(draw):
    k = draw(st.integers(1, 5))
    n = draw(st.integers(k, 7 if k < 5 else 6))
    background = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = draw(st.sampled_from([0.5, 3.0, 10.0])) * rng.normal(size=(n, 7))
    return scores, rng.choice(6, k, replace=False), background


@settings(max_examples=60, deadline=None)
@given(bags())
def test_the_posterior_is_the_sum_over_all_labelings(bag):
    scores, labels, background = bag
    found, value, _ = posterior(scores, labels, background=background)
    expected, log_likelihood = by_enumeration(scores, labels, background)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(value, log_likelihood, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    outside = np.setdiff1d(np.arange(7 - background), labels)
    assert (found[:, outside] == 0).all()


@each(("n", "k"), [(1, 1), (4, 2), (9, 3), (6, 6), (8, 7), (40, 5), (100, 8)])
def test_forward_backward_is_the_forward_algorithm_of_the_paper(rng, n, k):
    scores = rng.normal(size=(n, k + 2))
    joint = paper_dp(softmax(scores, axis=1)[:, :k])
    found, value, _ = posterior(scores, np.arange(k))
    np.testing.assert_allclose(found[:, :k], joint / joint.sum(axis=1, keepdims=True), rtol=1e-10)
    np.testing.assert_allclose(np.exp(value), joint.sum(axis=1), rtol=1e-10)


def test_order_of_instances_and_of_classes_is_irrelevant(rng):
    scores, labels = rng.normal(size=(9, 6)), np.array([4, 0, 2])
    found, value, _ = posterior(scores, labels)
    rows, columns = rng.permutation(9), rng.permutation(6)
    place = np.argsort(columns)
    mixed, same, _ = posterior(scores[rows][:, columns], place[labels])
    np.testing.assert_allclose(mixed, found[rows][:, columns], rtol=1e-12)
    assert same == pytest.approx(value, rel=1e-12)


def test_a_large_bag_is_finite(rng):
    found, value, _ = posterior(5 * rng.normal(size=(1000, 12)), np.arange(12))
    assert np.isfinite(value)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)


@each("exponent", [-300, -1000, -5000])
def test_a_label_of_vanishing_probability_is_shown_once(rng, exponent):
    """In the limit one instance shows the label, the likelier the more it prefers it."""
    scores = rng.normal(size=(8, 3))
    scores[:, 2] += exponent * np.log(10)
    found, value, _ = posterior(scores, [0, 2])
    assert np.isfinite(value)
    odds = np.exp(scores[:, 2] - scores[:, 0] - scores[:, 2].max())
    np.testing.assert_allclose(found[:, 2], odds / odds.sum(), rtol=1e-10)


@each("how", [label_sets.EXACT, label_sets.APPROXIMATE])
@each("background", [False, True])
def test_the_gradient_is_that_of_the_value(rng, how, background):
    """Also for belief propagation: its Bethe value has the beliefs as derivative."""
    scores, labels = rng.normal(size=(7, 6)), [0, 3, 4]
    options = {"how": how, "background": background}
    gradient, _, _ = posterior(scores, labels, gradient=True, **options)

    def loss(flat):
        return -posterior(flat.reshape(7, 6), labels, **options)[1]

    numeric = approx_fprime(scores.ravel(), loss, 1e-5)
    np.testing.assert_allclose(numeric, gradient.ravel(), atol=1e-5)


@each(("n", "distance"), [(60, 2e-5), (19, 0.02)])
def test_belief_propagation_is_close(n, distance):
    for seed in range(3):
        scores = np.random.default_rng(seed).normal(size=(n, 14))
        exact, value, _ = posterior(scores, np.arange(14))
        near, bethe, settled = posterior(scores, np.arange(14), how=label_sets.APPROXIMATE)
        assert settled
        assert 0.5 * np.abs(exact - near).sum(axis=1).mean() <= distance
        assert bethe == pytest.approx(value, abs=0.5)
        np.testing.assert_allclose(near.sum(axis=1), 1, rtol=1e-12)


def test_belief_propagation_is_exact_on_a_tree(rng):
    """One label to show and background: the graph has no loop."""
    scores = rng.normal(size=(6, 4))
    exact, value, _ = posterior(scores, [1], background=True)
    near, bethe, _ = posterior(scores, [1], background=True, how=label_sets.APPROXIMATE)
    np.testing.assert_allclose(near, exact, atol=1e-9)
    assert bethe == pytest.approx(value, abs=1e-9)


def test_an_impossible_set_restricts_only(rng):
    scores = rng.normal(size=(2, 5))
    found, value, _ = posterior(scores, [0, 1, 4], how=label_sets.RESTRICTED)
    assert value == -np.inf
    inside = softmax(scores[:, [0, 1, 4]], axis=1)
    np.testing.assert_allclose(found[:, [0, 1, 4]], inside, rtol=1e-12)

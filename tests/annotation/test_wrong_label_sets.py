"""ORLR with wrong label sets: against enumeration of labelings and errors; invariants."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.loops import label_sets
from cases import each
from orlr_oracle import drawn, inference, posterior, with_wrong_sets


@st.composite
def wrong_bags(draw):
    n_labels, background = draw(st.integers(1, 4)), draw(st.booleans())
    n, k = draw(st.integers(1, 4)), draw(st.integers(0, n_labels))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = draw(st.sampled_from([0.5, 3.0])) * rng.normal(size=(n, n_labels + background))
    labels = rng.choice(n_labels, k, replace=False)
    rates = draw(st.sampled_from([0.01, 0.3, 0.9])), draw(st.sampled_from([0.01, 0.2, 0.7]))
    known = np.full(n, -1)
    if k and draw(st.booleans()):
        known[draw(st.integers(0, n - 1))] = labels[0]
    if background and draw(st.booleans()):
        known[0] = n_labels
    return scores, labels, background, *rates, known


@settings(max_examples=80, deadline=None)
@given(wrong_bags())
def test_it_is_the_sum_over_all_labelings_and_reports(bag):
    scores, labels, background, missing, spurious, known = bag
    found, value, _, counts = inference(
        scores, labels, background, missing, spurious, label_sets.EXACT, False, known
    )
    expected, log_likelihood, numbers = with_wrong_sets(*bag)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert value == pytest.approx(log_likelihood, abs=1e-10)
    assert_allclose(counts, numbers, rtol=1e-9, atol=1e-12)


@each(("missing", "spurious"), [(0.0, 0.2), (0.2, 0.0), (0.1, 0.3)])
@each("background", [False, True])
def test_the_probabilities_of_all_label_sets_add_up_to_one(rng, missing, spurious, background):
    scores = rng.normal(size=(3, 4 + background))
    total = 0.0
    for k in range(5):
        for labels in itertools.combinations(range(4), k):
            impossible = (k > 3 and spurious == 0) or (k == 0 and not background and missing == 0)
            if not impossible:
                options = {"background": background, "missing": missing, "spurious": spurious}
                total += np.exp(posterior(scores, labels, **options)[1])
    assert total == pytest.approx(1, abs=1e-12)


def test_tiny_rates_are_nearly_none(rng):
    for n, k in [(3, 3), (9, 4), (14, 12), (300, 2)]:
        scores = 3 * rng.normal(size=(n, k + 2))
        plain, value, _ = posterior(scores, np.arange(k), background=True)
        tiny, near, _ = posterior(
            scores, np.arange(k), background=True, missing=1e-13, spurious=1e-13
        )
        assert_allclose(tiny, plain, atol=1e-7)
        assert near == pytest.approx(value, abs=1e-7)


@each(("n", "k"), [(6, 12), (12, 12), (4, 9), (30, 5)])
def test_a_label_that_is_nearly_impossible_is_spurious(rng, n, k):
    """The posterior is as if it were not listed."""
    scores, options = rng.normal(size=(n, k + 1)), {"missing": 0.2, "spurious": 0.1}
    scores[:, 0] = -800.0
    within, listed, _ = posterior(scores, np.arange(k), **options)
    without, unlisted, _ = posterior(scores, np.arange(1, k), **options)
    assert_allclose(within, without, atol=1e-12)
    assert listed - unlisted == pytest.approx(np.log(0.1) - np.log(0.9), abs=1e-9)


def test_logarithms_where_everything_underflows(rng):
    scores = np.zeros((400, 4))
    scores[:, 3] = 3.0  # outside the set: only missing reports explain it
    found, value, _ = posterior(scores, np.arange(3), missing=1e-3, spurious=1e-200)
    assert np.isfinite(value)
    assert np.isfinite(found).all()
    assert_allclose(found.sum(axis=1), 1, rtol=1e-12)


def test_belief_propagation_knows_the_rates(rng):
    scores, labels = rng.normal(size=(40, 14)), np.arange(12)
    options = False, 0.1, 0.05
    exact = inference(scores, labels, *options, label_sets.EXACT, False, ())
    found = inference(scores, labels, *options, label_sets.APPROXIMATE, False, ())
    assert np.abs(found[0] - exact[0]).sum(axis=1).mean() / 2 < 0.01
    assert found[1] == pytest.approx(exact[1], rel=0.01)
    assert_allclose(found[3], exact[3], rtol=0.05, atol=0.02)


def planted(n_bags, seed, missing=0.0, spurious=0.0):
    """Label sets as people with these habits would write them down."""
    bags, sets, kinds = drawn(n_bags, seed=seed)
    rng = np.random.default_rng(seed + 1)
    reported = rng.random(len(kinds)) >= missing
    written = np.zeros_like(sets)
    written[bags.bag_index[reported], kinds[reported]] = 1
    written |= rng.random(sets.shape) < spurious
    return bags, written, kinds


@each(("missing", "spurious"), [(0.25, 0.0), (0.0, 0.2), (0.0, 0.0)])
def test_rates_are_learned(missing, spurious):
    bags, written, kinds = planted(300, 0, missing, spurious)
    model = ORedLogisticRegression(missing="learn", spurious="learn", tol=1e-4, random_state=0)
    model.fit(bags, written)
    assert model.missing_ == pytest.approx(missing, abs=0.05)
    assert model.spurious_ == pytest.approx(spurious, abs=0.05)
    assert len(model.left_out_) == 0
    assert (np.diff(model.objective_curve_) <= 1e-9 * model.objective_curve_[0]).all()
    value = -model.log_likelihood(bags, written).sum() + 0.5 * np.sum(model.coef_**2)
    assert model.objective_curve_[-1] == pytest.approx(value, rel=1e-9)
    right = (model.annotate(bags, written) == kinds).mean()
    assert right > 0.85
    if missing:
        known = np.where(written.any(axis=1, keepdims=True), written, -1)
        blind = ORedLogisticRegression(tol=1e-4).fit(bags, known)
        assert (blind.annotate(bags, known) == kinds).mean() < right


def test_sets_that_were_impossible():
    bags = Bags(np.array([[0.0], [5.0], [0.1]]), [0, 1, 2, 3])
    sets = [{"a"}, {"b"}, {"a", "b"}]  # of a single instance
    model = ORedLogisticRegression(spurious=0.1).fit(bags, sets)
    assert_array_equal(model.annotate(bags, sets), ["a", "b", "a"])
    sets[2] = set()
    model = ORedLogisticRegression(missing=0.1).fit(bags, sets)
    assert len(model.left_out_) == 0
    assert_array_equal(model.annotate(bags, sets), ["a", "b", "a"])
    with pytest.warns(UserWarning, match="left out"):
        ORedLogisticRegression(spurious=0.1).fit(bags, sets)


def test_the_likelihood_of_impossible_sets(rng):
    bags, sets, _ = drawn(8)
    nothing, everything = np.zeros_like(sets), np.ones_like(sets)
    few = bags.sizes < sets.shape[1]
    for missing, spurious in itertools.product([0.0, 0.1], repeat=2):
        model = ORedLogisticRegression(missing=missing, spurious=spurious).fit(bags, sets)
        found = np.isneginf(model.log_likelihood(bags, nothing))
        assert_array_equal(found, np.full(len(bags), missing == 0))
        found = np.isneginf(model.log_likelihood(bags, everything))
        assert_array_equal(found, few & (spurious == 0))

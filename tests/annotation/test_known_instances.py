"""ORLR with some known instance labels: enumeration, related models, invariants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.exceptions import LabelError
from bagwise.solvers.annotation.orlr import ored_logistic
from bagwise.solvers.annotation.orlr_parts import BagLabelSets, ORLRPart, infer
from cases import each
from orlr_oracle import by_enumeration, generalised_em
from orlr_oracle import drawn_and_known as drawn


@st.composite
def told_bags(draw):
    """Scores of a bag, its labels, and a labeling that makes them, of which some is known."""
    background = draw(st.booleans())
    k = draw(st.integers(1, 4))
    n = draw(st.integers(k, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = draw(st.sampled_from([0.5, 3.0, 30.0])) * rng.normal(size=(n, 6))
    labels = rng.choice(5, k, replace=False)
    others = [*labels, 5] if background else labels
    labeling = rng.permutation(np.concatenate([labels, rng.choice(others, n - k)]))
    return scores, labels, background, np.where(rng.random(n) < 0.5, labeling, -1)


def bag_sets_of(scores, labels, background, known, **options):
    indicator = np.zeros((1, 6 - background), np.int8)
    indicator[0, labels] = 1
    options = {"max_operations": 1e9} | options
    return BagLabelSets(
        np.array([0, len(scores)]), indicator, background=background, instance_codes=known,
        **options,
    )  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(told_bags())
def test_the_posterior_is_the_sum_over_all_labelings_left(bag):
    scores, _, _, known = bag
    bag_sets = bag_sets_of(*bag)
    assert not bag_sets.impossible.any()
    found, value, _, _ = infer(bag_sets, slice(0, 1), scores)
    expected, log_likelihood = by_enumeration(*bag)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert_allclose(value, log_likelihood, rtol=1e-10, atol=1e-10)
    told = known >= 0
    assert_array_equal(found[told], np.eye(6)[known[told]])


@settings(max_examples=40, deadline=None)
@given(told_bags())
def test_belief_propagation_keeps_what_is_known(bag):
    scores, _, _, known = bag
    found, value, _, _ = infer(bag_sets_of(*bag, max_operations=0), slice(0, 1), scores)
    assert np.isfinite(value).all()
    assert_allclose(found.sum(axis=1), 1, rtol=1e-9)
    told = known >= 0
    assert_allclose(found[told], np.eye(6)[known[told]], atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(told_bags(), st.integers(0, 10**6))
def test_impossible_is_what_no_labeling_makes(bag, seed):
    scores, labels, background, _ = bag
    rng = np.random.default_rng(seed)
    allowed = [*labels, 5, -1] if background else [*labels, -1]
    known = rng.choice(allowed, len(scores))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = by_enumeration(scores / 100, labels, background, known)[1]
    found = bag_sets_of(scores, labels, background, known).impossible
    assert_array_equal(found, [np.isneginf(value)])


def test_a_slice_of_label_sets_has_the_codes_of_its_instances():
    bags, sets, _, known = drawn()
    some = BagLabelSets(bags.offsets, sets, False, instance_codes=known)[10:25]
    assert_array_equal(some.instance_codes, known[bags.offsets[10] : bags.offsets[25]])
    assert_array_equal(some.offsets, bags[10:25].offsets)
    assert_array_equal(some.indicator, sets[10:25])


class TestCousins:
    @each("as_sparse", [False, True])
    def test_all_known_is_logistic_regression_of_instances(self, as_sparse):
        bags, sets, kinds, _ = drawn()
        X = sparse.csr_array(bags.instances) if as_sparse else bags.instances
        ours = ORedLogisticRegression(reg=0.5, tol=1e-9)
        ours.fit(bags.with_instances(X), sets, instance_labels=kinds)
        theirs = LogisticRegression(C=2, tol=1e-10, max_iter=1000).fit(bags.instances, kinds)
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
        assert_allclose(ours.predict_proba_instances(bags), theirs.predict_proba(X), atol=1e-6)

    def test_without_label_sets_the_known_instances_are_all_there_is(self):
        bags, sets, _, known = drawn()
        ours = ORedLogisticRegression(tol=1e-9)
        ours.fit(bags, np.full_like(sets, -1), instance_labels=known)
        told = known >= 0
        theirs = LogisticRegression(tol=1e-10, max_iter=1000)
        theirs.fit(bags.instances[told], known[told])
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)

    def test_a_known_instance_is_a_bag_of_its_own_where_its_label_is_shown_again(self):
        # Y = {0}: each instance is of class 0 whether one knows it or not.
        bags, sets, _, _ = drawn()
        alone = np.flatnonzero(sets.sum(axis=1) == 1)
        known = np.full(bags.n_instances, -1)
        inside = np.isin(bags.bag_index, alone)
        known[inside] = sets.argmax(axis=1)[bags.bag_index[inside]]
        plain = ORedLogisticRegression(tol=1e-8).fit(bags, sets)
        told = ORedLogisticRegression(tol=1e-8).fit(bags, sets, instance_labels=known)
        assert_allclose(told.coef_, plain.coef_, atol=1e-6)

    def test_background_is_one_more_class(self):
        bags, sets, kinds, _ = drawn()
        sets = sets[:, :3]
        model = ORedLogisticRegression(background=9, tol=1e-9)
        model.fit(bags, sets, instance_labels=np.where(kinds == 3, 9, kinds))
        theirs = LogisticRegression(tol=1e-10, max_iter=1000).fit(bags.instances, kinds)
        assert_allclose(model.coef_, theirs.coef_, atol=1e-5)


class TestLaws:
    @each("nothing", [-1, None, np.nan])
    def test_nothing_known_is_the_plain_fit(self, nothing):
        bags, sets, _, _ = drawn()
        plain = ORedLogisticRegression().fit(bags, sets)
        told = ORedLogisticRegression().fit(
            bags, sets, instance_labels=[nothing] * bags.n_instances
        )
        assert_array_equal(told.coef_, plain.coef_)
        assert_array_equal(told.objective_curve_, plain.objective_curve_)
        assert_array_equal(
            told.annotate_proba(bags, sets, instance_labels=[nothing] * bags.n_instances),
            plain.annotate_proba(bags, sets),
        )

    @each("background", [False, "other"])
    def test_the_objective_falls_and_is_the_penalised_likelihood(self, background):
        bags, sets, _, known = drawn()
        model = ORedLogisticRegression(background=background, reg=0.5, tol=1e-3)
        model.fit(bags, sets, instance_labels=known)
        curve = model.objective_curve_
        assert len(curve) > 3
        assert (np.diff(curve) <= 1e-9 * curve[0]).all()
        value = -model.log_likelihood(bags, sets, instance_labels=known).sum()
        value += 0.25 * np.sum(model.coef_**2)
        assert curve[-1] == pytest.approx(value, rel=1e-10)

    @each("is_known", [False, True])
    def test_the_papers_em_finds_the_same_maximum(self, is_known):
        bags, sets, _, known = drawn()
        codes = known if is_known else np.full(len(known), -1)
        sets = BagLabelSets(bags.offsets, sets, False, instance_codes=codes)
        ours = ored_logistic(bags, sets, tol=1e-6, max_iter=5000)
        em = ored_logistic(bags, sets, solver="gem", tol=1e-6, max_iter=5000)
        W, curve = generalised_em(bags, sets)
        assert_allclose(W, ours.solution[0], atol=1e-3)
        assert_allclose(em.solution[0], W, atol=1e-6)
        assert_allclose(em.objective_curve[:100], bags.n_instances * np.array(curve[1:101]))
        assert (np.diff(curve) <= 1e-9 * curve[0]).all()

    def test_without_an_intercept_the_gradient_in_W_vanishes(self):
        bags, sets, _, _ = drawn()
        sets = BagLabelSets(bags.offsets, sets, False)
        for solver in ("lbfgs", "gem"):
            options = {"fit_intercept": False, "solver": solver, "tol": 1e-6, "max_iter": 5000}
            W, b, _ = ored_logistic(bags, sets, **options).solution
            _, gradient = ORLRPart(bags, sets, np.ones(len(bags))).loss(np.column_stack([W, b]))
            assert_array_equal(b, 0)
            assert np.abs(gradient[:, :-1] + W).max() < 1e-5 * bags.n_instances

    def test_what_is_known_comes_back(self):
        bags, sets, kinds, known = drawn()
        model = ORedLogisticRegression().fit(bags, sets, instance_labels=known)
        told = known >= 0
        proba = model.annotate_proba(bags, sets, instance_labels=known)
        assert_array_equal(proba[told], np.eye(4)[known[told]])
        assert_allclose(proba.sum(axis=1), 1)
        named = model.annotate(bags, sets, instance_labels=known)
        assert_array_equal(named[told], known[told])
        # What a person says of one instance speaks of its neighbours.
        assert (named[~told] == kinds[~told]).mean() > (
            (model.annotate(bags, sets) == kinds)[~told].mean() - 0.01
        )

    def test_bags_of_unknown_sets_keep_what_is_known(self):
        bags, sets, _, known = drawn()
        model = ORedLogisticRegression().fit(bags, sets)
        nothing = [None] * len(bags)
        proba = model.annotate_proba(bags, nothing, instance_labels=known)
        free = model.predict_proba_instances(bags)
        told = known >= 0
        assert_allclose(proba[~told], free[~told])
        assert_array_equal(proba[told], np.eye(4)[known[told]])
        value = model.log_likelihood(bags, nothing, instance_labels=known).sum()
        assert value == pytest.approx(np.log(free[told, known[told]]).sum())

    def test_bags_that_the_known_labels_contradict_are_left_out(self):
        bags, sets, _, _ = drawn()
        chosen = np.flatnonzero((sets.sum(axis=1) == 2) & (bags.sizes == 3))[0]
        known = np.full(bags.n_instances, -1)
        rows = slice(bags.offsets[chosen], bags.offsets[chosen + 1])
        known[rows] = np.flatnonzero(sets[chosen])[0]
        with pytest.warns(UserWarning, match=f"1 of 40 bags are left out.*bag {chosen}"):
            model = ORedLogisticRegression().fit(bags, sets, instance_labels=known)
        assert_array_equal(model.left_out_, [chosen])
        proba = model.annotate_proba(bags, sets, instance_labels=known)
        assert_array_equal(proba[rows], np.eye(4)[known[rows]])

    def test_the_order_of_bags_and_instances_does_not_matter(self, rng):
        bags, sets, _, known = drawn()
        model = ORedLogisticRegression(tol=1e-8).fit(bags, sets, instance_labels=known)
        order = rng.permutation(len(bags))
        rows = np.concatenate(
            [rng.permutation(np.arange(bags.offsets[i], bags.offsets[i + 1])) for i in order]
        )
        offsets = np.concatenate([[0], np.cumsum(bags.sizes[order])])
        mixed = Bags(bags.instances[rows], offsets)
        same = ORedLogisticRegression(tol=1e-8)
        same.fit(mixed, sets[order], instance_labels=known[rows])
        assert_allclose(same.coef_, model.coef_, atol=1e-5)
        assert_allclose(
            same.annotate_proba(mixed, sets[order], instance_labels=known[rows]),
            model.annotate_proba(bags, sets, instance_labels=known)[rows],
            atol=1e-5,
        )


class TestDoor:
    def test_a_wrong_length(self):
        bags, sets, _, known = drawn()
        with pytest.raises(LabelError, match=f"{len(bags)} entries for {bags.n_instances} inst"):
            ORedLogisticRegression().fit(bags, sets, instance_labels=known[: len(bags)])

    def test_a_label_that_the_bag_does_not_carry(self):
        bags, sets, _, known = drawn()
        bags = Bags(bags.instances, bags.offsets, ids=[f"rec{i}" for i in range(len(bags))])
        bag = np.flatnonzero((bags.sizes >= 3) & (sets[:, 0] == 0))[0]
        known[bags.offsets[bag] : bags.offsets[bag] + 3] = -1, -1, 0
        match = (
            rf"instance 2 of bag {bag} \('rec{bag}'\) is given the label 0, .*not in the label set"
        )
        with pytest.raises(LabelError, match=match):
            ORedLogisticRegression().fit(bags, sets, instance_labels=known)
        model = ORedLogisticRegression().fit(bags, sets)
        with pytest.raises(LabelError, match=match):
            model.annotate(bags, sets, instance_labels=known)

    @each("strange", ["emu", 7, [1], 2.5])
    def test_an_unknown_label(self, strange):
        bags, sets, _, _ = drawn()
        told = [strange, *[None] * (bags.n_instances - 1)]
        with pytest.raises(LabelError, match=r"instance 0 of bag 0 is given the unknown label"):
            ORedLogisticRegression().fit(bags, sets, instance_labels=told)

    def test_the_background_by_its_name(self):
        bags, sets, _, _ = drawn()
        words = [set(np.array(["a", "b", "c", "d"])[row == 1]) for row in sets]
        spare = np.flatnonzero(bags.sizes > sets.sum(axis=1))[0]  # one may be background
        told = np.full(bags.n_instances, None)
        told[bags.offsets[spare]] = "background"
        model = ORedLogisticRegression(background=True).fit(bags, words, instance_labels=told)
        named = model.annotate(bags, words, instance_labels=told)
        assert named[bags.offsets[spare]] == "background"
        with pytest.raises(LabelError, match="unknown label 'background'"):
            ORedLogisticRegression().fit(bags, words, instance_labels=told)

    def test_minus_one_is_a_label_where_it_is_a_class(self):
        X = np.arange(6.0).reshape(-1, 1)
        bags = Bags(X, [0, 2, 4, 6])
        sets = [{-1, 1}, {-1, 1}, {1}]
        model = ORedLogisticRegression().fit(
            bags, sets, instance_labels=[-1, None, None, None, None, None]
        )
        named = model.annotate(bags, sets, instance_labels=[-1, None, None, 1, 1, 1])
        assert_array_equal(named, [-1, 1, -1, 1, 1, 1])

"""Thresholds of the multi-instance SVMs: brute force over all cuts, folds by refitting."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from bagwise import Bags
from bagwise.classification import (
    BagMarginSVM,
    BalancedSparseMIL,
    InstanceMarginSVM,
    PrimalDualMISVM,
    SparseMIL,
)
from bagwise.pairwise import instance_kernel
from bagwise.solvers.margin.feature_space import KernelFeatures, LinearFeatures
from bagwise.solvers.margin.misvm import (
    LabelledBags,
    even_folds,
    most_accurate_threshold,
    out_of_fold_scores,
)
from cases import each
from checks import example

MODELS = [
    BagMarginSVM(C=1.0),
    InstanceMarginSVM(C=1.0),
    SparseMIL(C=1.0, negative_weight=1.0),
    BalancedSparseMIL(C=1.0, negative_weight=1.0, eta=0.5),
]

every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


def all_cuts(scores, positive, weights=None):
    """Accuracy of each cut between two neighbouring scores."""
    values = sorted(set(np.round(scores, 7).tolist()))
    cuts = [(a + b) / 2 for a, b in pairwise(values)]
    return [(accuracy_score(positive, scores > cut, sample_weight=weights), cut) for cut in cuts]


def by_brute_force(scores, positive, weights=None):
    """The best cut; of equals the nearest to zero, and of two equally near the lower."""
    cuts = all_cuts(scores, positive, weights)
    if not cuts:
        return 0.0
    highest = max(value for value, _ in cuts)
    best = [cut for value, cut in cuts if value > highest - 1e-12]
    return min(best, key=lambda cut: (abs(cut), cut))


@given(
    st.lists(
        st.tuples(st.integers(-8, 8), st.booleans(), st.integers(1, 3)), min_size=2, max_size=14
    )
)
def test_the_threshold_is_the_best_of_all_cuts(bags):
    scores, positive, weights = (np.array(values) for values in zip(*bags, strict=True))
    positive[:2] = False, True
    expected = by_brute_force(scores / 4, positive, weights)
    assert most_accurate_threshold(scores / 4, positive, 0.1 * weights) == expected


def test_scores_that_differ_by_rounding_are_equal():
    weights = np.ones(4)
    assert most_accurate_threshold(1 + 1e-9 * np.arange(4), np.arange(4) % 2 == 1, weights) == 0
    scores = np.array([1.0, 1.0 + 1e-9, 2.0, 2.0 + 1e-9])
    found = most_accurate_threshold(scores, np.array([True, False, True, True]), weights)
    assert found == pytest.approx(1.5)


@each("kernel", ["linear", "rbf"])
@every_model
def test_a_fold_is_scored_by_a_model_of_the_others(model, kernel):
    bags, y = example(24, seed=3)
    model = clone(model).set_params(kernel=kernel, gamma=0.2, threshold="zero")
    folds = np.arange(24) // 2 % 5
    expected = np.empty(24)
    for fold in range(5):
        alone = clone(model).fit(bags[folds != fold], y[folds != fold])
        expected[folds == fold] = alone.decision_function(bags[folds == fold])
    space = LinearFeatures(bags.instances)
    if kernel == "rbf":
        space = KernelFeatures(
            bags.instances, lambda A, B: instance_kernel(A, B, "rbf", {"gamma": 0.2})
        )
    labelled = LabelledBags(space, bags.offsets, y == "q", np.full(24, model.C))
    found = out_of_fold_scores(model._separate, labelled, folds)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@each("n_classes", [2, 3])
@each("kernel", ["linear", "rbf"])
@every_model
def test_training_bags_are_separated_as_well_as_possible(model, kernel, n_classes):
    bags, y = example(24, n_classes=n_classes, seed=5)
    plain = clone(model).set_params(kernel=kernel, threshold="zero").fit(bags, y)
    found = clone(model).set_params(kernel=kernel, threshold="training").fit(bags, y)
    shifts = np.atleast_2d((plain.decision_function(bags) - found.decision_function(bags)).T)
    scores = np.atleast_2d(plain.decision_function(bags).T)
    for column, label in enumerate(found.classes_[-len(scores) :]):
        positive = y == label
        assert np.ptp(shifts[column]) < 1e-9  # the ranking is the same
        expected = by_brute_force(scores[column], positive)
        assert shifts[column, 0] == pytest.approx(expected, abs=1e-6)
    np.testing.assert_array_equal(found.objective_curve_, plain.objective_curve_)


@every_model
def test_the_threshold_of_held_out_bags_is_that_of_their_scores(model):
    bags, y = example(30, seed=1)
    model = clone(model).set_params(kernel="rbf", gamma=0.2)
    plain = clone(model).set_params(threshold="zero").fit(bags, y)
    found = clone(model).set_params(threshold="out_of_fold").fit(bags, y)
    shift = plain.intercept_[0] - found.intercept_[0]
    # The folds, from the definition: sorted by the mean kernel value with each class.
    inside = (y == "q")[bags.bag_index]
    K = instance_kernel(bags.instances, bags.instances, "rbf", {"gamma": 0.2})
    difference = K[:, inside].mean(axis=1) - K[:, ~inside].mean(axis=1)
    values = np.array([part.mean() for part in bags.split(difference)])
    folds = even_folds(values, y == "q", np.random.RandomState(0).randint(2**31 - 1))
    scores = np.empty(30)
    for fold in range(5):
        alone = clone(model).set_params(threshold="zero").fit(bags[folds != fold], y[folds != fold])
        scores[folds == fold] = alone.decision_function(bags[folds == fold])
    assert shift == pytest.approx(by_brute_force(scores, y == "q"), abs=1e-5)


def test_folds_have_equal_shares_of_both_classes_and_of_values(rng):
    positive = rng.random(83) < 0.3
    values = rng.normal(size=83)
    folds = even_folds(values, positive, 0)
    for side in (False, True):
        counts = np.bincount(folds[positive == side], minlength=5)
        assert counts.max() - counts.min() <= 1
        ranked = folds[positive == side][np.argsort(values[positive == side])]
        for start in range(0, len(ranked) - 4, 5):
            assert sorted(ranked[start : start + 5]) == [0, 1, 2, 3, 4]
    order = rng.permutation(83)
    np.testing.assert_array_equal(even_folds(values[order], positive[order], 0), folds[order])
    assert (even_folds(values, positive, 1) != folds).any()


@every_model
def test_neither_the_order_of_bags_nor_their_storage_moves_the_threshold(model):
    bags, y = example(30, seed=1)
    model = clone(model).set_params(kernel="rbf", threshold="out_of_fold")
    order = np.random.default_rng(0).permutation(30)
    plain = clone(model).fit(bags, y)
    others = [(bags[order], y[order])]
    others += [(bags.with_instances(sparse.csr_array(bags.instances)), y)]
    others += [(bags.with_instances(bags.instances * (1 + 1e-13)), y)]
    for some, labels in others:
        found = clone(model).fit(some, labels)
        test = bags.with_instances(sparse.csr_array(bags.instances)) if some is bags else bags
        np.testing.assert_allclose(
            found.decision_function(test), plain.decision_function(bags), atol=1e-5
        )


@every_model
def test_few_bags_of_a_class_are_judged_by_their_own_scores(model):
    bags, y = example(40, seed=2)
    few = np.flatnonzero((y == "p") | (np.arange(40) < 18))  # nine bags of class q
    model = clone(model).set_params(kernel="rbf")
    training, held_out = (
        clone(model).set_params(threshold=threshold).fit(bags[few], y[few]).intercept_
        for threshold in ("training", "out_of_fold")
    )
    np.testing.assert_array_equal(training, held_out)


def test_a_machine_that_cuts_badly_is_mended():
    # All bags are large: the margins of sMIL are near -1, and at zero every bag is negative.
    rng = np.random.default_rng(0)
    positive = np.arange(60) % 2 == 1
    arrays = [rng.normal(size=(12, 2)) for _ in range(60)]
    for array in arrays[1::2]:
        array[:3] += 4
    bags, train, test = Bags.from_arrays(arrays), np.arange(40), np.arange(40, 60)
    model = SparseMIL(10, kernel="rbf", class_weight={True: 20.0, False: 1.0})
    before, after = (
        clone(model)
        .set_params(threshold=threshold)
        .fit(bags[train], positive[train])
        .score(bags[test], positive[test])
        for threshold in ("zero", "out_of_fold")
    )
    assert before <= 0.6
    assert after >= 0.9


standard = partial(PrimalDualMISVM, 1.0, assumption="standard", mu=1e-2, rho=1.2)


class Plain(PrimalDualMISVM):
    """The intercept of the solution, without a shift."""

    def _thresholds(self, *training):
        return 0.0


def plain_fit(model, *training, **options):
    return Plain(**model.get_params()).fit(*training, **options)


@each("positive", ["p", "q"])
def test_primal_dual_separates_training_bags_as_well_as_possible(positive):
    bags, y = example(40, seed=5)
    y = np.where(np.arange(40) < 12, "q", "p")
    weights = 1.0 + np.arange(40) % 2
    model = standard(pos_label=positive).fit(bags, y, sample_weight=weights)
    plain = plain_fit(model, bags, y, sample_weight=weights)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.objective_curve_, plain.objective_curve_)
    sign = 1 if positive == "q" else -1  # decision_function is positive for "q"
    scores = sign * plain.decision_function(bags)
    expected = by_brute_force(scores, y == positive, weights)
    assert (plain.intercept_ - model.intercept_)[0] == pytest.approx(expected, abs=1e-6)
    twice = np.repeat(np.arange(40), weights.astype(int))
    of_copies = standard(pos_label=positive).fit(bags[twice], y[twice])
    np.testing.assert_allclose(of_copies.intercept_, model.intercept_, atol=1e-6)


def test_primal_dual_shifts_the_score_of_each_label_and_not_those_of_classes():
    bags, y = example(30, seed=5)
    table = np.column_stack([y == "q", np.arange(30) % 3 == 0, np.ones(30)]).astype(int)
    model, plain = standard().fit(bags, table), plain_fit(standard(), bags, table)
    shifts = plain.intercept_ - model.intercept_
    scores = plain.decision_function(bags)
    for k in range(2):
        assert shifts[k] == pytest.approx(by_brute_force(scores[:, k], table[:, k] == 1), abs=1e-6)
    assert shifts[2] == 0  # every bag carries this label
    bags, y = example(30, n_classes=3)
    model, plain = standard().fit(bags, y), plain_fit(standard(), bags, y)
    np.testing.assert_array_equal(model.intercept_, plain.intercept_)

"""ConceptCountsClassifier: brute force over labelings, and the laws of the model."""

import itertools

import numpy as np
import pytest
from scipy.special import logit

from bagwise import Bags
from bagwise.classification import ConceptCountsClassifier
from bagwise.exceptions import DataWarning, InputError
from cases import each
from checks import example

CENTRES = np.array([[4.0, 0.0], [0.0, 4.0]])


def drawn(n_bags, *, needed=(1, 1), seed=0):
    """Bags with background near 0; positive if they have enough instances at each centre."""
    rng = np.random.default_rng(seed)
    arrays, y, found = [], np.arange(n_bags) % 2, []
    for label in y:
        counts = rng.integers(0, 3, 2)
        while all(counts >= needed) != label:
            counts = rng.integers(0, 3, 2)
        kinds = np.repeat([-1, 0, 1], [4, *counts])
        noise = rng.normal(size=(len(kinds), 2)) / 2
        arrays.append(noise + np.where(kinds[:, None] < 0, 0, CENTRES[kinds]))
        found.append(kinds >= 0)
    return Bags.from_arrays(arrays), y, np.concatenate(found)


def fitted(bags, y, **options):
    options = {"n_landmarks": 30, "C": 30.0, "dependence": 1, "random_state": 0} | options
    return ConceptCountsClassifier(**options).fit(bags, y)


def members(model, rows):
    """Probabilities of background and concepts of each member, by its formula."""
    for W, (needed, rho, width) in zip(model.coef_[0], model.settings_[0], strict=True):
        kernel = model.nystroems_[width].transform(rows)
        linear = (rows - model.center_) / model.scale_
        odds = np.exp(np.column_stack([kernel, linear, np.ones(len(rows))]) @ W)
        yield (
            needed,
            rho,
            np.column_stack([np.ones(len(rows)), odds]) / (1 + odds.sum(axis=1, keepdims=True)),
        )


def by_labelings(p, needed, shares):
    """P(enough), and P(instance i is of a concept, enough), with concepts weighted by `shares`."""
    total, joint = 0.0, np.zeros(len(p))
    for z in itertools.product(range(p.shape[1]), repeat=len(p)):
        if all(z.count(k + 1) >= t for k, t in enumerate(needed)):
            weight = np.prod(p[range(len(p)), z])
            total += weight
            joint += weight * shares[list(z)]
    return total, joint


@pytest.fixture(scope="module")
def two():
    bags, y, kinds = drawn(60)
    return bags, y, kinds, fitted(bags, y)


@pytest.mark.parametrize("options", [{}, {"concepts": (1, 2)}, {"concepts": [2]}], ids=str)
def test_all_labelings(options):
    bags, y, _ = drawn(40, seed=1)
    model = fitted(bags, y, **options)
    some, labels = bags[:6], y[:6]
    weights = model.weights_[0]
    assert weights.sum() == pytest.approx(1)
    chance = np.full(len(some), weights[-1] * model.base_rates_[0])
    prior, joint, given = (np.zeros(some.n_instances) for _ in range(3))
    for j, (needed, _, p) in enumerate(members(model, some.instances)):
        weight, shares = weights[j], np.append(0.0, model.specificity_[0][j])
        prior += weight * p @ shares / weights[:-1].sum()
        for b, rows in enumerate(itertools.starmap(slice, itertools.pairwise(some.offsets))):
            total, with_i = by_labelings(p[rows], needed, shares)
            positive = 0.02 + 0.96 * total
            chance[b] += weight * positive
            of_label = positive if labels[b] else 1 - positive
            noise = 0.02 if labels[b] else 0.98  # of a bag without enough instances
            change = 0.96 if labels[b] else -0.96
            joint[rows] += weight * (noise * p[rows] @ shares + change * with_i)
            given[rows] += weight * of_label
    np.testing.assert_allclose(model.predict_proba(some)[:, 1], chance, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(some), logit(chance), atol=1e-9)
    np.testing.assert_allclose(model.instance_proba(some), prior, atol=1e-12)
    np.testing.assert_allclose(model.score_instances(some), logit(prior), atol=1e-8)
    np.testing.assert_allclose(model.instance_proba(some, labels), joint / given, atol=1e-12)


def test_two_concepts_are_found(two):
    bags, _, _, model = two
    new, truth, new_kinds = drawn(100, seed=5)
    assert model.score(new, truth) > 0.9
    assert (1,) not in model.concepts_[0]  # one concept does not suffice
    held_out = model.held_out_[0]
    best = dict(zip(held_out["concepts"], held_out["log_likelihood"], strict=True))
    assert best[1, 1] > best[1,]
    found = model.predict_instances(new) == 1
    assert np.mean(found == new_kinds) > 0.9
    ones, zeros = (model.instance_proba(bags, np.full(len(bags), label)) for label in (1, 0))
    assert ones.sum() > model.instance_proba(bags).sum() > zeros.sum()


def test_one_more_instance_lowers_nothing(two):
    bags, y, _, model = two
    dependent = fitted(bags, y, dependence=8)
    rng = np.random.default_rng(0)
    for _ in range(20):
        bag = rng.normal(scale=3, size=(rng.integers(1, 6), 2))
        more = np.vstack([bag, rng.normal(scale=6, size=(1, 2))])
        for each_model in (model, dependent):
            before, after = each_model.decision_function([bag, more])
            assert after >= before - 1e-9


def test_order_shift_and_scale_are_irrelevant(two):
    bags, y, _, model = two
    expected = model.decision_function(bags)
    order = np.random.default_rng(0).permutation(len(bags))
    shuffled = [bag[::-1] for bag in bags]
    again = fitted([shuffled[i] for i in order], y[order])
    np.testing.assert_allclose(again.decision_function(bags), expected, atol=1e-6)
    moved = bags.with_instances(4 * bags.instances + 64)
    again = fitted(moved, y)
    np.testing.assert_allclose(again.decision_function(moved), expected, atol=1e-2)


def test_groups_are_held_out_together():
    """Copies of a bag with their own labels: held out one by one they give away the labels."""
    rng = np.random.default_rng(0)
    bags = Bags.from_arrays([rng.normal(size=(3, 8)) for _ in range(12)])
    y, copies = np.arange(12) % 2, np.repeat(np.arange(12), 4)
    with pytest.warns(DataWarning, match="learned nothing"):
        model = ConceptCountsClassifier((1,), 1, 1000.0, random_state=0)
        model.fit(bags[copies], y[copies], groups=copies)
    assert model.weights_[0][-1] > 0.9
    model.fit(bags[copies], y[copies])
    assert model.weights_[0][-1] < 0.5


def test_several_classes_are_one_against_the_rest():
    bags, y = example(60, n_classes=3)
    options = {"concepts": (1,), "n_folds": 2, "n_landmarks": 10}
    model = fitted(bags, y, **options)
    assert model.score(bags, y) > 0.6
    assert len(model.concepts_) == len(model.held_out_) == 3
    last = fitted(bags, np.where(y == "r", "yes", "no"), **options)  # the same to a tolerance
    r = model.decision_function(bags)[:, 2]
    assert np.corrcoef(r, last.decision_function(bags))[0, 1] > 0.9
    found = model.instance_proba(bags, y)
    assert found.shape == (bags.n_instances, 3)
    of_r = found[np.repeat(y == "r", bags.sizes)].sum(axis=0)
    assert of_r.argmax() == 2


@each(
    ("options", "message"),
    [
        ({"concepts": (1, 0)}, "counts of 1 or more"),
        ({"concepts": ()}, "counts of 1 or more"),
        ({"concepts": (2,), "dependence": 3}, "one instance of each concept"),
        ({"concepts": (99,) * 8}, "states"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    bags, y, _ = drawn(8)
    with pytest.raises((InputError, MemoryError), match=message):
        fitted(bags, y, **options)


def test_a_label_that_no_bag_had_is_refused(two):
    bags, _, _, model = two
    with pytest.raises(InputError, match="7"):
        model.instance_proba(bags[:2], [1, 7])

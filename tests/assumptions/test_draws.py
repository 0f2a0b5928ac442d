"""Synthetic bags of the audit follow their rule, and the clue is in the right bags."""

import numpy as np
import pytest
from assumptions.models import HALF, NoDecoy, Standard, near
from sklearn.metrics import roc_auc_score

from bagwise.assumptions import _check as draws

SEEDS = range(5)


def count(bags, centre):
    return np.array([near(bag, centre).sum() for bag in bags])


def background_of(bags):
    """The number of instances that are neither a decoy at -10 nor one of the concepts A and B."""
    others = sum(count(bags, centre) for centre in (-10, 2 * HALF, 2 * ~HALF))
    return bags.sizes - others


@pytest.mark.parametrize("decoy_in", [0, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_decoy_is_in_every_bag_of_its_class_only(seed, decoy_in):
    for draw in (draws.single_concept, draws.two_concepts):
        bags, y = draw(np.random.RandomState(seed), 40, strength=-10, decoy_in=decoy_in)
        np.testing.assert_array_equal(count(bags, -10), y == decoy_in)
        assert np.bincount(y).tolist() == [20, 20]


@pytest.mark.parametrize("seed", SEEDS)
def test_positive_bags_hold_one_to_three_instances_of_the_concept(seed):
    bags, y = draws.single_concept(np.random.RandomState(seed), 40, strength=-10, decoy_in=0)
    extra = background_of(bags)  # with the concept, which is wide
    assert extra[y == 0].min() >= 8
    assert extra[y == 0].max() <= 12
    assert extra[y == 1].min() >= 9
    assert extra[y == 1].max() <= 15


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bag_of_two_concepts_is_positive_if_it_holds_both(seed):
    bags, y = draws.two_concepts(np.random.RandomState(seed), 60, strength=-3, decoy_in=0)
    first, second = count(bags, 2 * HALF), count(bags, 2 * ~HALF)
    np.testing.assert_array_equal(y, (first > 0) & (second > 0))
    held = {(a, b) for a, b in zip(first, second, strict=True)}
    assert held == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("copies", [(1, 1), (35, 45)])
@pytest.mark.parametrize("seed", SEEDS)
def test_negative_bags_hold_copies_of_one_concept(seed, copies):
    bags, y = draws.false_frequency(np.random.RandomState(seed), 60, copies=copies)
    first, second = count(bags, 2 * HALF), count(bags, 2 * ~HALF)
    assert set(first[y == 1]) == set(second[y == 1]) == {1}
    fewer, more = np.sort([first[y == 0], second[y == 0]], axis=0)
    assert set(fewer) == {0}
    assert more.min() >= copies[0]
    assert more.max() <= copies[1]
    assert set(np.argmax([first[y == 0], second[y == 0]], axis=0)) == {0, 1}


@pytest.mark.parametrize("strength", [-3, -6, -10])
def test_the_likelihood_ratio_solves_the_task_and_the_decoy_only_before_the_move(strength):
    aucs = []
    for decoy_in in (0, 1):
        rng = np.random.RandomState(0)
        bags, y = draws.single_concept(rng, 400, strength=strength, decoy_in=decoy_in)
        aucs.append([roc_auc_score(y, m.decision_function(bags)) for m in (Standard(), NoDecoy())])
    (solved, clue), (solved_after, clue_after) = aucs
    assert clue > 0.999
    assert clue_after < 0.001
    assert min(solved, solved_after) > 0.99


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_bags_differ_as_stated(seed):
    rng = np.random.RandomState(seed)
    bags, _ = draws.single_concept(rng, 20, strength=-10, decoy_in=0)
    for bag, permuted, copied, more in zip(
        bags,
        draws.shuffled(rng, bags),
        draws.with_copies(rng, bags),
        draws.with_another(rng, bags, -10),
        strict=True,
    ):
        assert sorted(map(tuple, bag)) == sorted(map(tuple, permuted))
        rows, counts = np.unique(copied, axis=0, return_counts=True)
        np.testing.assert_array_equal(rows, np.unique(bag, axis=0))
        (repeated,) = np.flatnonzero(counts > 1)
        assert 6 <= counts[repeated] <= 21
        np.testing.assert_allclose(np.sum(rows[repeated] ** 2), np.sum(bag**2, axis=1).min())
        np.testing.assert_array_equal(more[:-1], bag)
        assert len(more) == len(bag) + 1

"""Counts of hidden concepts against sums over all labelings, and the laws of the model."""

import itertools

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from bagwise.solvers.concept_counts import (
    concept_counts,
    concept_probabilities,
    enough_of_each,
    label_probability,
    mixture_weights,
)
from cases import each

COUNTS = [(1,), (2,), (1, 1), (2, 1), (1, 2), (2, 2), (1, 1, 1), (2, 1, 2)]


def over_labelings(p, needed):
    """P(enough of each concept), and P(z_i = k, enough), by all labelings of a bag."""
    n, n_labels = p.shape
    total, joint = 0.0, np.zeros((n, n_labels))
    for labels in itertools.product(range(n_labels), repeat=n):
        if all(labels.count(k + 1) >= t for k, t in enumerate(needed)):
            weight = np.prod([p[i, z] for i, z in enumerate(labels)])
            total += weight
            joint[range(n), labels] += weight
    return total, joint


def random_bags(rng, n_bags, n_concepts, most=6, scale=2.0):
    sizes = rng.integers(1, most + 1, n_bags)
    return scale * rng.normal(size=(sizes.sum(), n_concepts)), np.concatenate([[0], sizes.cumsum()])


@each("needed", COUNTS)
def test_all_labelings(needed):
    rng = np.random.default_rng(len(needed))
    scores, offsets = random_bags(rng, 25, len(needed), most=5)
    log_p = concept_probabilities(scores)
    p = np.exp(log_p)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-14)
    pi, slopes = enough_of_each(log_p, offsets, needed)
    for bag, (a, b) in enumerate(itertools.pairwise(offsets)):
        total, joint = over_labelings(p[a:b], needed)
        assert pi[bag] == pytest.approx(total, abs=1e-12)
        np.testing.assert_allclose(slopes[a:b], (joint - total * p[a:b])[:, 1:], atol=1e-12)


@each(("needed", "rho"), [*((t, 1.0) for t in COUNTS), *(((1,) * k, 8.0) for k in (1, 2, 3))])
def test_slopes_by_finite_differences(needed, rho):
    rng = np.random.default_rng(1)
    scores, offsets = random_bags(rng, 4, len(needed))

    def total(flat):
        return enough_of_each(
            concept_probabilities(flat.reshape(scores.shape)), offsets, needed, rho
        )[0].sum()

    slopes = enough_of_each(concept_probabilities(scores), offsets, needed, rho)[1]
    numeric = approx_fprime(scores.ravel(), total, 1e-6).reshape(scores.shape)
    np.testing.assert_allclose(slopes, numeric, atol=2e-6)


def test_dependence_by_its_formula(rng):
    scores, offsets = random_bags(rng, 20, 2)
    log_p = concept_probabilities(scores)
    pi, _ = enough_of_each(log_p, offsets, (1, 1), 8.0)
    for bag, (a, b) in enumerate(itertools.pairwise(offsets)):
        rates = -np.log(1 - np.exp(log_p[a:b, 1:]))
        expected = np.prod(1 - np.exp(-np.linalg.norm(rates, 8, axis=0)))
        assert pi[bag] == pytest.approx(expected, abs=1e-12)
    # Copies count less and less: rho = 1 (nearly) is the recursion, large rho the best instance.
    one = concept_probabilities(scores[:, :1])
    almost, _ = enough_of_each(one, offsets, (1,), 1 + 1e-12)
    np.testing.assert_allclose(almost, enough_of_each(one, offsets, (1,))[0], atol=1e-10)
    best, _ = enough_of_each(one, offsets, (1,), 2000.0)
    np.testing.assert_allclose(
        best, np.maximum.reduceat(np.exp(one[:, 1]), offsets[:-1]), rtol=1e-2
    )


@each(("needed", "rho"), [*((t, 1.0) for t in COUNTS), *(((1,) * k, 8.0) for k in (1, 2))])
def test_one_more_instance_lowers_nothing(needed, rho):
    rng = np.random.default_rng(2)
    for _ in range(20):
        bag = rng.normal(scale=3, size=(rng.integers(1, 9), len(needed)))
        more = np.vstack([bag, rng.normal(scale=6, size=(1, len(needed)))])
        before, after = (
            enough_of_each(concept_probabilities(rows), np.array([0, len(rows)]), needed, rho)[0]
            for rows in (bag, more)
        )
        assert after[0] >= before[0] * (1 - 1e-14)


@each("rho", [1.0, 8.0])
def test_the_order_of_instances_is_irrelevant(rho):
    rng = np.random.default_rng(3)
    scores, offsets = rng.normal(scale=2, size=(30, 3)), np.array([0, 30])
    order = rng.permutation(30)
    pi, slopes = enough_of_each(concept_probabilities(scores), offsets, (1, 1, 1), rho)
    other, moved = enough_of_each(concept_probabilities(scores[order]), offsets, (1, 1, 1), rho)
    assert other[0] == pytest.approx(pi[0], abs=1e-14)
    np.testing.assert_allclose(moved, slopes[order], atol=1e-14)


@each(("needed", "rho"), [((1,), 1.0), ((1, 1), 1.0), ((2,), 1.0), ((1, 1), 8.0)])
def test_extreme_scores_are_finite(needed, rho):
    scores = np.array([[-900.0], [900.0], [0.0], [40.0], [-1e4]]) * np.ones(len(needed))
    for offsets in ([0, 5], [0, 1, 2, 3, 4, 5]):
        log_p = concept_probabilities(scores)
        pi, slopes = enough_of_each(log_p, np.array(offsets), needed, rho)
        assert np.isfinite(pi).all()
        assert np.isfinite(slopes).all()
        assert np.all((pi >= 0) & (pi <= 1 + 1e-12))


def test_a_bag_that_is_too_small_is_negative():
    log_p = concept_probabilities(np.full((1, 2), 5.0))
    pi, slopes = enough_of_each(log_p, np.array([0, 1]), (1, 1))
    assert pi[0] == 0
    np.testing.assert_allclose(slopes, 0)
    assert label_probability(pi)[0] == 0.02


def test_a_large_bag_does_not_underflow():
    scores = np.full((100_000, 3), -12.0)
    pi, slopes = enough_of_each(concept_probabilities(scores), np.array([0, 100_000]), (1, 1, 1))
    rate = 100_000 * np.exp(-12)
    assert pi[0] == pytest.approx((1 - np.exp(-rate)) ** 3, rel=1e-3)  # nearly Poisson
    assert np.isfinite(slopes).all()


def two_concepts(rng, n_bags):
    """Bags whose instances are at (3, 0), (0, 3) or near 0; positive with both of the first two."""
    bags, y = [], np.arange(n_bags) % 2 == 1
    for positive in y:
        has = (
            (True, True)
            if positive
            else [(True, False), (False, True), (False, False)][rng.integers(3)]
        )
        rows = [rng.normal(size=(4, 2)) / 3]
        rows += [
            np.array([c]) for c, there in zip(([3.0, 0.0], [0.0, 3.0]), has, strict=True) if there
        ]
        bags.append(np.vstack(rows))
    offsets = np.concatenate([[0], np.cumsum([len(bag) for bag in bags])])
    return np.vstack(bags), offsets, y


def test_it_minimises_its_objective(rng):
    X, offsets, y = two_concepts(rng, 40)
    F = np.column_stack([np.ones(len(X)), X])
    starts = [rng.normal(size=(3, 2)) for _ in range(5)]
    found = concept_counts(F, offsets, y, (1, 1), starts, reg=1e-2, tol=1e-12)

    def objective(flat):
        pi, _ = enough_of_each(concept_probabilities(F @ flat.reshape(3, 2)), offsets, (1, 1))
        p = 0.02 + 0.96 * pi
        return -np.mean(np.log(np.where(y, p, 1 - p))) + 0.005 * np.sum(flat**2)

    assert found.converged
    assert np.all(np.diff(found.objective_curve) <= 1e-12)
    assert found.objective_curve[-1] == pytest.approx(objective(found.solution.ravel()))
    # scipy, with numerical gradients, from the same solution and from each start: nothing better
    again = minimize(objective, found.solution.ravel(), method="BFGS")
    assert again.fun == pytest.approx(found.objective_curve[-1], abs=1e-6)
    others = [minimize(objective, start.ravel(), method="BFGS").fun for start in starts]
    assert found.objective_curve[-1] <= np.median(others) + 1e-6
    pi, _ = enough_of_each(concept_probabilities(F @ found.solution), offsets, (1, 1))
    assert np.mean((pi > 0.5) == y) >= 0.95


def test_mixture_weights_maximise_the_likelihood(rng):
    likelihood = rng.uniform(0.05, 1, size=(60, 4)) * [1, 1.2, 0.3, 1]
    weights = mixture_weights(likelihood)
    assert weights.sum() == pytest.approx(1)
    best = np.log(likelihood @ weights).sum()
    for other in rng.dirichlet(np.ones(4), 300):
        assert np.log(likelihood @ other).sum() <= best + 1e-6
    # The optimum: members with a weight have the slope of the sum's constraint, others less.
    slopes = (likelihood / (likelihood @ weights)[:, None]).mean(axis=0)
    np.testing.assert_allclose(slopes[weights > 1e-3], 1, atol=1e-4)
    assert np.all(slopes <= 1 + 1e-4)

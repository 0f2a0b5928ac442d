"""The convex problem of one CCCP iteration, which `polish` solves repeatedly."""

import numpy as np
import pytest

from bagwise import Bags
from bagwise.solvers.margin.concave_convex import _ConvexProblem
from test_primal_dual_solver import draw

N_CLASSES = 3


def problem(seed, fit_intercept):
    X, offsets, codes = draw(seed)
    costs = np.random.default_rng(seed).uniform(0.5, 2, len(codes))
    rng = np.random.RandomState(seed)
    return _ConvexProblem(Bags(X, offsets), codes, costs, N_CLASSES, fit_intercept, rng)


def convex_objective(convex, W, b, witness):
    """The squared norm of W and b, and the hinge of every wrong class at its best instance."""
    value = np.sum(W**2) / 2
    if convex.scale:
        value += np.sum(b**2) / convex.scale / 2
    for i, (y, cost) in enumerate(zip(convex.codes, convex.costs, strict=True)):
        bag = convex.X[convex.offsets[i] : convex.offsets[i + 1]]
        own = convex.X[witness[i]] @ W[y] + b[y]
        for m in set(range(N_CLASSES)) - {y}:
            value += cost * max(0.0, 1 + (bag @ W[m]).max() + b[m] - own)
    return value


def own_witnesses(convex, scores):
    pairs = zip(convex.offsets[:-1], convex.offsets[1:], convex.codes, strict=True)
    return [start + scores[start:end, y].argmax() for start, end, y in pairs]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_nothing_near_is_better_from_a_cold_and_from_a_warm_start(seed, fit_intercept, rng):
    cold, warm = (problem(seed, fit_intercept) for _ in range(2))
    first, then = rng.normal(size=(2, len(cold.X), N_CLASSES))
    warm.solve(first, 1e-7)  # leaves dual variables for other witnesses
    W, b, _ = cold.solve(then, 1e-7)
    for found, expected in zip(warm.solve(then, 1e-7)[:2], (W, b), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    witness = own_witnesses(cold, then)
    lowest = convex_objective(cold, W, b, witness)
    for size in (1e-2, 1e-1, 1.0):
        for _ in range(20):
            near = W + size * rng.normal(size=W.shape)
            moved = b + fit_intercept * size * np.sqrt(cold.scale) * rng.normal(size=b.shape)
            assert convex_objective(cold, near, moved, witness) >= lowest - 1e-6 * lowest

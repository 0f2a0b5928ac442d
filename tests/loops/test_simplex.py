"""Projection onto the simplex against bisection, one group at a time."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import brentq

from bagwise.loops import simplex


def nearest(part, cap):
    """Shift down until the sum of what is left above 0 is the cap."""
    if np.maximum(part, 0).sum() <= cap:
        return np.maximum(part, 0)
    excess = lambda shift: np.maximum(part - shift, 0).sum() - cap  # noqa: E731
    return np.maximum(part - brentq(excess, part.min() - cap, part.max(), xtol=1e-14), 0)


@st.composite
def groups_of_values(draw):
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    values = draw(hnp.arrays(np.float64, sum(sizes), elements=st.integers(-8, 8))) / 4
    caps = draw(hnp.arrays(np.float64, len(sizes), elements=st.integers(1, 9))) / 4
    return values, np.concatenate([[0], np.cumsum(sizes)]), caps


@given(groups_of_values())
@settings(deadline=None, max_examples=100)
def test_projection_equals_bisection(case):
    values, offsets, caps = case
    found, free, full = simplex.project(*case)
    for g, (a, b) in enumerate(pairwise(offsets)):
        np.testing.assert_allclose(found[a:b], nearest(values[a:b], caps[g]), atol=1e-12)
        assert full[g] == (np.maximum(values[a:b], 0).sum() >= caps[g])
        alone = full[g] and np.count_nonzero(found[a:b] > 0) == 1
        np.testing.assert_array_equal(free[a:b], (found[a:b] > 0) & (not alone))


@given(groups_of_values(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_free_and_full_give_the_derivative(case, seed):
    values, offsets, caps = case
    values = values + np.random.default_rng(seed).uniform(-0.1, 0.1, len(values))  # off the corners
    _, free, full = simplex.project(values, offsets, caps)
    way = np.random.default_rng(seed + 1).normal(size=len(values))
    step = 1e-9 * way
    difference = simplex.project(values + step, offsets, caps)[0]
    difference = (difference - simplex.project(values - step, offsets, caps)[0]) / 2e-9
    expected = np.where(free, way, 0.0)
    for g, (a, b) in enumerate(pairwise(offsets)):
        if full[g] and free[a:b].any():
            expected[a:b] -= free[a:b] * expected[a:b].sum() / free[a:b].sum()
    np.testing.assert_allclose(difference, expected, atol=1e-5)

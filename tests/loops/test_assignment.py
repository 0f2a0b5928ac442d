"""Many tiny assignment problems, each compared with SciPy's solver."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from bagwise.loops import assignment, threads
from cases import each


def problems(shapes, seed=0, integers=False):
    """Random costs of bags of the given (rows, labels), flat."""
    rng = np.random.default_rng(seed)
    rows, labels = np.array(shapes, dtype=np.int64).reshape(-1, 2).T
    offsets, label_offsets = (np.concatenate([[0], np.cumsum(n)]) for n in (rows, labels))
    n = int((rows * labels).sum())
    costs = rng.integers(0, 3, n).astype(float) if integers else rng.normal(size=n)
    return costs, offsets, label_offsets


def blocks(costs, offsets, label_offsets):
    at = assignment.block_offsets(offsets, label_offsets)
    for i, (n, k) in enumerate(zip(np.diff(offsets), np.diff(label_offsets), strict=True)):
        yield costs[at[i] : at[i + 1]].reshape(n, k), slice(offsets[i], offsets[i + 1])


shapes = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8)


@settings(deadline=None)
@given(shapes=shapes, seed=st.integers(0, 99), integers=st.booleans())
def test_sums_are_scipys_on_random_rectangles(shapes, seed, integers):
    given = problems(shapes, seed, integers)
    places = assignment.assign(*given)
    for block, rows in blocks(*given):
        found = places[rows]
        taken = found[found >= 0]
        assert len(taken) == min(block.shape) == len(np.unique(taken))
        expected = block[linear_sum_assignment(block)].sum() if block.size else 0.0
        total = block[np.flatnonzero(found >= 0), taken].sum()
        np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-12)


def test_unique_solutions_are_scipys():
    given = problems([(n, k) for n in range(1, 16) for k in range(1, 16)] * 3)
    places = assignment.assign(*given)
    for block, rows in blocks(*given):
        expected = np.full(len(block), -1)
        row, column = linear_sum_assignment(block)
        expected[row] = column
        np.testing.assert_array_equal(places[rows], expected)


def test_threads_change_nothing(monkeypatch):
    given = problems([(n, k) for n in range(1, 9) for k in range(1, 9)] * 90)
    assert given[0].size > threads.SMALL
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    on_threads = assignment.assign(*given)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    np.testing.assert_array_equal(assignment.assign(*given), on_threads)


def test_nearest_gives_every_row_its_cheapest_label():
    given = problems([(3, 2), (1, 4), (2, 0), (0, 3), (5, 5)])
    places = assignment.nearest(*given)
    for block, rows in blocks(*given):
        expected = block.argmin(axis=1) if block.shape[1] else np.full(len(block), -1)
        np.testing.assert_array_equal(places[rows], expected)


@each("dtype", [np.float32, np.float64])
def test_distances_are_those_of_numpy_and_only_stale_ones_are_touched(dtype):
    rng = np.random.default_rng(0)
    offsets, label_offsets = np.array([0, 2, 5]), np.array([0, 3, 5])
    labels = np.array([0, 2, 3, 1, 3])
    points = rng.normal(size=(5, 7)).astype(dtype)
    centres = rng.normal(size=(4, 7)).astype(dtype)
    stale = np.array([True, True, True, False])
    out = np.full(2 * 3 + 3 * 2, -1.0)
    bags = SimpleNamespace(offsets=offsets, labels=labels, label_offsets=label_offsets)
    assignment.distances_to_candidates(points, centres, bags, stale, out)
    candidates = np.repeat([[0, 2, 3]], 2, axis=0).ravel().tolist() + [1, 3] * 3
    rows = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4]
    expected = ((points[rows] - centres[candidates]) ** 2).sum(axis=1)
    expected[~stale[candidates]] = -1
    np.testing.assert_allclose(out, expected, rtol=10 * np.finfo(dtype).eps)


def test_nearest_rows_gives_every_label_its_cheapest_row():
    given = problems([(3, 2), (1, 4), (2, 0), (5, 5)])
    rows = np.split(assignment.nearest_rows(*given), given[2][1:-1])
    for (block, place), found in zip(blocks(*given), rows, strict=True):
        np.testing.assert_array_equal(found, place.start + block.argmin(axis=0))

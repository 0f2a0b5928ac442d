"""Compiled reductions over bags against three lines of numpy."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logsumexp, softmax
from threadpoolctl import threadpool_info, threadpool_limits

from bagwise.loops import segments, threads
from cases import each

ORACLES = {
    "maximum": lambda part: part.max(axis=0),
    "minimum": lambda part: part.min(axis=0),
    "argmax": lambda part: part.argmax(axis=0),
    "sum": lambda part: part.sum(axis=0),
    "mean": lambda part: part.mean(axis=0),
    "logsumexp": lambda part: logsumexp(part, axis=0),
}


@st.composite
def values_and_offsets(draw):
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int64]))
    shape = (sum(sizes), *draw(st.sampled_from([(), (1,), (3,)])))
    values = draw(hnp.arrays(dtype, shape, elements=st.integers(-50, 50)))
    return values, np.concatenate([[0], np.cumsum(sizes)])


def parts(values, offsets):
    return [values[a:b] for a, b in pairwise(offsets)]


@pytest.mark.parametrize("name", ORACLES)
@given(values_and_offsets())
@settings(deadline=None, max_examples=40)
def test_reductions_equal_numpy(name, case):
    values, offsets = case
    expected = np.array([ORACLES[name](part) for part in parts(values, offsets)])
    found = getattr(segments, name)(values, offsets)
    assert found.shape == expected.shape
    close = 1e-5 if values.dtype == np.float32 else 1e-12  # absolute too: a logarithm passes 0
    np.testing.assert_allclose(found, expected, rtol=close, atol=close)


@given(values_and_offsets())
@settings(deadline=None, max_examples=40)
def test_softmax_equals_scipy(case):
    values, offsets = case
    expected = np.concatenate([softmax(part, axis=0) for part in parts(values, offsets)])
    found = segments.softmax(values, offsets)
    np.testing.assert_allclose(found, expected, rtol=1e-4 if values.dtype == np.float32 else 1e-11)


@given(values_and_offsets())
@settings(deadline=None, max_examples=40)
def test_top2_equals_sorting(case):
    values, offsets = case
    first, second, row = segments.top2(values, offsets)
    for bag, part in enumerate(parts(values.astype(float), offsets)):
        ranked = np.sort(
            np.vstack([part.reshape(len(part), -1), -np.inf * np.ones((1, row[0].size))]), 0
        )
        np.testing.assert_array_equal(np.ravel(first[bag]), ranked[-1])
        np.testing.assert_array_equal(np.ravel(second[bag]), ranked[-2])
        np.testing.assert_array_equal(row[bag], part.argmax(axis=0))


@given(values_and_offsets())
@settings(deadline=None, max_examples=40)
def test_moments_equal_numpy_in_double_precision(case):
    values, offsets = case
    mean, std = segments.mean_and_std(values, offsets)
    doubles = parts(values.astype(float), offsets)
    np.testing.assert_allclose(mean, [part.mean(axis=0) for part in doubles], atol=1e-13)
    np.testing.assert_allclose(std, [part.std(axis=0) for part in doubles], atol=1e-12)


@each("shift", [1e8, -1e12])
def test_deviations_do_not_depend_on_a_shift(shift):
    values = np.array([0.0, 1.0, 3.0, 7.0, 7.0])  # exact after the shift too
    mean, std = segments.mean_and_std(values + shift, [0, 3, 5])
    np.testing.assert_allclose(mean - shift, [4 / 3, 7], atol=1e-3)
    np.testing.assert_allclose(std, [np.std([0.0, 1.0, 3.0]), 0.0], rtol=1e-9, atol=1e-9)


@given(values_and_offsets(), st.lists(st.floats(0, 1), min_size=1, max_size=4))
@settings(deadline=None, max_examples=40)
def test_quantiles_equal_numpy(case, levels):
    values, offsets = case
    expected = [np.quantile(part.astype(float), levels, axis=0) for part in parts(values, offsets)]
    found = segments.quantiles(values, offsets, levels)
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-14, atol=1e-14)


def test_empty_bags_give_the_neutral_value():
    values, offsets = np.array([1.0, 2.0]), [0, 0, 2, 2]
    np.testing.assert_array_equal(segments.minimum(values, offsets), [np.inf, 1, np.inf])
    np.testing.assert_array_equal(
        segments.mean_and_std(values, offsets), [[0, 1.5, 0], [0, 0.5, 0]]
    )
    np.testing.assert_array_equal(segments.quantiles(values, offsets, [0.5]), [[0, 1.5, 0]])
    np.testing.assert_array_equal(segments.maximum(values, offsets), [-np.inf, 2, -np.inf])
    np.testing.assert_array_equal(segments.argmax(values, offsets), [-1, 1, -1])
    np.testing.assert_array_equal(segments.sum(values, offsets), [0, 3, 0])
    np.testing.assert_array_equal(segments.mean(values, offsets), [0, 1.5, 0])
    assert segments.logsumexp(values, offsets)[0] == -np.inf


def test_logsumexp_survives_extremes():
    values = np.array([-np.inf, -np.inf, 1000.0, 1000.0, -np.inf])
    found = segments.logsumexp(values, [0, 2, 5])
    np.testing.assert_allclose(found, [-np.inf, 1000 + np.log(2)])


def test_threads_and_one_thread_agree(monkeypatch, rng):
    values = rng.normal(size=(60_000, 3))  # above threads.SMALL values: several blocks
    offsets = np.sort(np.concatenate([[0, 60_000], rng.integers(0, 60_000, 999)]))
    monkeypatch.setattr(threads, "n_threads", lambda: 3)
    several = segments.sum(values, offsets)
    monkeypatch.setattr(threads, "n_threads", lambda: 1)
    np.testing.assert_array_equal(several, segments.sum(values, offsets))


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 9))
def test_blocks_cover_all_bags_once(sizes, n_blocks):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bounds = threads.block_bounds(offsets, n_blocks)
    assert bounds[0] == 0
    assert bounds[-1] == len(sizes)
    assert (np.diff(bounds) > 0).all()
    assert len(bounds) - 1 <= n_blocks


def test_blas_keeps_to_its_cores_until_the_end_of_the_block():
    def blas():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        for _ in range(2):  # the libraries are looked for once
            before = blas()
            with threads.library_cores(1):
                assert set(blas()) == {1}
            assert blas() == before


def test_no_bags_at_all():
    assert segments.maximum(np.zeros((0, 3)), [0]).shape == (0, 3)

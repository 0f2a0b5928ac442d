"""Operations on arrays that are cut into blocks for threads."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.compute.arrays import as_numpy, extremes, zeros
from bagwise.loops import threads
from bagwise.solvers.metric.multi_instance_kmeans import Candidates
from cases import each


@pytest.fixture(autouse=True, params=[1, 3])
def n_threads(request, monkeypatch):
    """One thread, and three for any amount of work."""
    monkeypatch.setattr(threads, "SMALL", 0)
    monkeypatch.setattr(threads, "n_threads", lambda: request.param)


@each("order", ["C", "F"])
def test_extremes_are_those_of_all_values(order, rng):
    values = np.array(rng.normal(size=(11, 3)), order=order)
    assert extremes(values) == (values.min(), values.max())
    for place in ((0, 0), (5, 1), (10, 2)):
        broken = values.copy(order="K")
        broken[place] = np.nan
        assert np.isnan(extremes(broken)).all()
        broken[place] = np.inf
        assert extremes(broken) == (values[values != values[place]].min(), np.inf)
    assert extremes(values[:0]) == (0.0, 0.0)


@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 100))
@settings(deadline=None, max_examples=30)
def test_candidates_are_read_off_the_indicator(n_bags, n_labels, seed):
    rng = np.random.default_rng(seed)
    indicator = rng.integers(0, 2, (n_bags, n_labels)).astype(np.int8)
    indicator[rng.random(n_bags) < 0.3] = -1  # nothing known
    offsets = np.arange(n_bags + 1)
    everything = Candidates.from_indicator(offsets, indicator, one_each=True)
    expected = [np.flatnonzero(row == 1).tolist() for row in indicator]
    for first in range(n_bags):
        some = everything[first:n_bags]
        listed = [some.labels[a:b].tolist() for a, b in pairwise(some.label_offsets)]
        assert listed == expected[first:]
        assert (some.offsets[0], some.n_labels) == (0, n_labels)


@each("tensor", [False, True])
def test_new_arrays_are_where_and_of_the_type_of_another(tensor):
    X = np.arange(6, dtype=np.float32).reshape(2, 3)
    if tensor:
        X = pytest.importorskip("torch").from_numpy(X)
    made = zeros(X, (2, 1))
    assert type(made) is type(X)
    assert made.dtype == X.dtype
    np.testing.assert_array_equal(made, np.zeros((2, 1)))
    found = as_numpy(X.T, np.float64)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, np.arange(6.0).reshape(2, 3).T)

"""Ranks of rows."""

import numpy as np
from scipy import sparse

from bagwise.loops.ties import row_ranks
from cases import each


@each("shape", [(0, 3), (1, 3), (40, 1), (200, 3), (200, 12)])
@each("n_values", [1, 2, 5, 10**6])
def test_ranks_are_those_of_the_sorted_distinct_rows(shape, n_values, rng):
    table = rng.integers(-n_values, n_values, size=shape).astype(np.float32) / 8
    expected = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    for same in (table, table.astype(np.float64)):
        np.testing.assert_array_equal(row_ranks(same), expected)
        np.testing.assert_array_equal(row_ranks(sparse.csr_array(same)), expected)


def test_ranks_take_both_zeros_as_equal():
    table = np.array([[0.0, 2], [-0.0, 1], [-0.0, 2]])
    np.testing.assert_array_equal(row_ranks(table), [1, 0, 1])
    stored = sparse.csr_array((table.ravel(), [0, 1] * 3, [0, 2, 4, 6]), shape=(3, 2))
    np.testing.assert_array_equal(row_ranks(stored), [1, 0, 1])

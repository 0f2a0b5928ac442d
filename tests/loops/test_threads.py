"""Blocks of work on threads."""

import numpy as np
import pytest

from bagwise.loops import threads


def test_blocks_keep_their_order_and_the_first_error(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = threads.run_blocks(lambda a, b: (a, b), np.arange(0, 50, 10))
    assert found == [(0, 10), (10, 20), (20, 30), (30, 40)]

    def fail(start, stop):
        raise ValueError(start)

    with pytest.raises(ValueError, match=r"^0$"):
        threads.run_blocks(fail, np.arange(50))
    assert threads.run_blocks(lambda a, _: a, np.arange(9)) == list(range(8))  # still usable

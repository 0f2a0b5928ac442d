"""Reductions per bag, against numpy's reduceat and one pass over the data."""

import numpy as np

from bagwise.loops import segments

from .harness import Row, race


def rows():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_000_000, 8))
    offsets = np.arange(0, 1_000_001, 10)
    ours, other = race(
        lambda: segments.maximum(values, offsets),
        lambda: np.maximum.reduceat(values, offsets[:-1], axis=0),
    )
    yield Row("maximum, 1M x 8, bags of 10", ours, "np.maximum.reduceat", other, "< 1")
    ours, other = race(lambda: segments.top2(values, offsets), lambda: values.sum())
    yield Row("top two and argmax, 1M x 8", ours, "values.sum()", other, "")

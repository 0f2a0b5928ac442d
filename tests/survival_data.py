"""Bags with times to an event, and survival models that take numbers as such times."""

import numpy as np

from bagwise import Bags
from bagwise.survival import AutoBagSurvival, SetKernelCox

TIMES = [("event", bool), ("time", float)]


def example(n=60, seed=0):
    """Bags of one to six instances; the mean of the first feature is the log risk."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(1, 7), 3)) + rng.normal(size=3) for _ in range(n)]
    risk = np.array([X[:, 0].mean() for X in arrays])
    time = np.ceil(20 * rng.exponential(1, n) * np.exp(-2 * risk)) / 4
    event = rng.random(n) < 0.7
    bags = Bags.from_arrays(arrays, ids=[f"b{i}" for i in range(n)])
    return bags, np.array(list(zip(event, time, strict=True)), dtype=TIMES)


def as_times(y):
    """Numbers or labels as the times of observed events; what is no such column as it is."""
    if y is None or getattr(getattr(y, "dtype", None), "names", None) or np.ndim(y) != 1:
        return y
    values = np.asarray(y)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        values = np.unique(values, return_inverse=True)[1]
    return np.array([(True, 1 + value) for value in values], dtype=TIMES)


class OfNumbers:
    """Mixin for checks that know labels and numbers: they become times of observed events."""

    def fit(self, X, y, **others):
        return super().fit(X, as_times(y), **others)

    def score(self, X, y):
        return super().score(X, as_times(y))


class SetKernelCoxOfNumbers(OfNumbers, SetKernelCox):
    """For the common checks."""


class AutoBagSurvivalOfNumbers(OfNumbers, AutoBagSurvival):
    """For the common checks."""

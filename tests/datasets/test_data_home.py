"""Data sets of the data home, if available: published counts and known pitfalls."""

from __future__ import annotations

import numpy as np
import pytest

from bagwise import datasets
from bagwise.exceptions import DataNotFoundError
from cases import each


def load(name, **options):
    try:
        return datasets.load_dataset(name, **options)
    except DataNotFoundError as error:
        pytest.skip(str(error))


@each(("name", "n_varying"), [("elephant", 110), ("fox", 122)])
def test_corel_columns(name, n_varying):
    data = load(name)
    X = data.bags.instances
    assert (X != 0).any(axis=0).sum() == 143
    assert (X.max(axis=0) > X.min(axis=0)).sum() == n_varying
    assert data.fold.shape == (5, 200)


def test_musk2_counts():
    data = load("musk2")
    assert np.bincount(data.y).tolist() == [63, 39]
    assert (data.bags.sizes.min(), data.bags.sizes.max()) == (1, 1044)

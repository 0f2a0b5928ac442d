"""Bags that the tests with real packages of other projects share."""

import numpy as np

from bagwise.datasets import make_bags


def drawn(n=80, seed=0):
    """Bags with one label of two; the labels as an array of 0 and 1."""
    data = make_bags(n, 5, separation=4.0, bag_size=(2, 6), random_state=seed)
    return data.bags, np.asarray(data.y)

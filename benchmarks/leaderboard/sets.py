"""The data sets of the leaderboard."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bagwise.datasets import make_bags, make_digit_bags
from reproduction.bag_data import load_dataset

SYNTHETIC = ("digits", "synthetic", "synthetic, 3 classes")  # digits: random bags of real images


def synthetic(**options: Any) -> Callable:
    """A loader of synthetic bags of the same difficulty as those on which defaults were chosen."""
    shape = {"separation": 3.0, "noise": 2.0, "bag_size": (3, 8), "random_state": 0}
    return lambda: make_bags(120, 10, **(shape | options))


def brown_creeper() -> Any:
    """Recordings of birds, positive if the most frequent species sings."""
    data = load_dataset("hja_birdsong")
    return data.bags, data.label_sets[:, data.label_sets.sum(axis=0).argmax()]


def labels_of(load: Callable) -> Callable:
    """The bags and labels, or label sets, of a data set."""

    def loaded() -> Any:
        data = load()
        return data.bags, data.label_sets if "label_sets" in data else data.y

    return loaded


def listed(name: str) -> Callable:
    """A data set of `bagwise datasets`."""
    return labels_of(lambda: load_dataset(name))


SETS: dict[str, dict[str, Callable]] = {
    "labels": {
        "Musk1": listed("musk1"),
        "Musk2": listed("musk2"),
        "Elephant": listed("elephant"),
        "Fox": listed("fox"),
        "birds": brown_creeper,
        "digits": labels_of(lambda: make_digit_bags(random_state=0)),
        "synthetic": labels_of(synthetic()),
        "synthetic, 3 classes": labels_of(synthetic(n_classes=3)),
    },
    "label sets": {
        "Letter-Carroll": listed("letter_carroll"),
        "Letter-Frost": listed("letter_frost"),
        "MSRC v2": listed("msrcv2"),
        "HJA birds": listed("hja_birdsong"),
        "MLSP birds": listed("miml_birds"),
    },
}


def load(name: str) -> tuple[Any, Any]:
    """The bags of a set, and their labels: numbers of classes, or sets of zeros and ones."""
    bags, y = next(sets[name] for sets in SETS.values() if name in sets)()
    y = np.asarray(y)
    return bags, np.unique(y, return_inverse=True)[1] if y.ndim == 1 else y.astype(int)

"""Data sets: shipped, generated, or read from the data home.

`load_dataset` loads any data set that `list_datasets` lists; some also have a ``load_*`` function.
``make_*`` generates data. The data home is the folder in the environment variable
``BAGWISE_DATA``, then the user's cache. Each set is a :class:`~sklearn.utils.Bunch` with ``bags``
and ``y`` (or ``label_sets``), ``instance_labels`` (indices into ``classes``, -1 unknown; or None),
``classes``, ``feature_names`` and ``DESCR``.
"""

from bagwise.datasets._generated import make_bags, make_digit_bags
from bagwise.datasets._registry import (
    list_datasets,
    load_dataset,
    load_letter_carroll,
    load_letter_frost,
    load_musk1,
)

__all__ = [
    "list_datasets",
    "load_dataset",
    "load_letter_carroll",
    "load_letter_frost",
    "load_musk1",
    "make_bags",
    "make_digit_bags",
]

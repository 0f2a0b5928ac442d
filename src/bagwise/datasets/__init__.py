"""Data sets: shipped, generated, read from the data home, or downloaded.

`load_dataset` loads any data set that `list_datasets` lists; common ones also have a ``load_*``
function. ``make_*`` generates data, `fetch_dataset` downloads public data into the user's cache.
Each set is a :class:`~sklearn.utils.Bunch` with ``bags`` and ``y`` (or ``label_sets``),
``instance_labels`` (indices into ``classes``, -1 unknown; or None), ``classes``, ``feature_names``
and ``DESCR``; ordinary data have ``X`` instead of ``bags``.
"""

from bagwise._moved import missing_name
from bagwise.datasets._bag_sets import (
    load_elephant,
    load_fox,
    load_letter_carroll,
    load_letter_frost,
    load_musk1,
    load_musk2,
)
from bagwise.datasets._digits import make_digit_bags
from bagwise.datasets._faces import make_names_and_faces
from bagwise.datasets._fetch import fetch_dataset
from bagwise.datasets._registry import describe_dataset, list_datasets, load_dataset
from bagwise.datasets._synthetic import make_bags

__all__ = [
    "describe_dataset",
    "fetch_dataset",
    "list_datasets",
    "load_dataset",
    "load_elephant",
    "load_fox",
    "load_letter_carroll",
    "load_letter_frost",
    "load_musk1",
    "load_musk2",
    "make_bags",
    "make_digit_bags",
    "make_names_and_faces",
]

__getattr__ = missing_name("bagwise.datasets")

"""Data sets: shipped, drawn, found in the data home, or fetched.

``load_*`` reads what is shipped or in the data home, ``make_*`` draws, ``fetch_*`` gets public
data into the user's cache. Each returns a :class:`~sklearn.utils.Bunch` with ``bags`` and ``y``
(or ``label_sets``), ``instance_labels`` (indices into ``classes``, -1 unknown; or None),
``classes``, ``feature_names`` and ``DESCR``; ordinary data have ``X`` instead of ``bags``.
"""

from __future__ import annotations

from bagwise.datasets._bag_sets import (
    load_corel5k_blobs,
    load_elephant,
    load_fox,
    load_hja_birdsong,
    load_miml_birds,
    load_msrcv2,
    load_musk1,
    load_musk2,
)
from bagwise.datasets._digits import make_digit_bags
from bagwise.datasets._faces import make_names_and_faces
from bagwise.datasets._fetch import (
    fetch_dataset,
    fetch_elephant,
    fetch_musk2,
)
from bagwise.datasets._home import data_folders, user_cache
from bagwise.datasets._letters import (
    load_letter_carroll,
    load_letter_carroll_redraw,
    load_letter_frost,
)
from bagwise.datasets._plain_sets import load_isolet, load_letter, load_mnist, load_ssl, load_uci
from bagwise.datasets._registry import (
    DatasetInfo,
    describe_dataset,
    list_datasets,
    load_dataset,
)
from bagwise.datasets._synthetic import make_bags

__all__ = [
    "DatasetInfo",
    "data_folders",
    "describe_dataset",
    "fetch_dataset",
    "fetch_elephant",
    "fetch_musk2",
    "list_datasets",
    "load_corel5k_blobs",
    "load_dataset",
    "load_elephant",
    "load_fox",
    "load_hja_birdsong",
    "load_isolet",
    "load_letter",
    "load_letter_carroll",
    "load_letter_carroll_redraw",
    "load_letter_frost",
    "load_miml_birds",
    "load_mnist",
    "load_msrcv2",
    "load_musk1",
    "load_musk2",
    "load_ssl",
    "load_uci",
    "make_bags",
    "make_digit_bags",
    "make_names_and_faces",
    "user_cache",
]

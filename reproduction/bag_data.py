"""Bags with label sets, read from the data home."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from bagwise import datasets
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.datasets._registry import (
    LETTER_FEATURES,
    DatasetInfo,
    bag_bunch,
    bags_of,
    damaged,
    per_bag,
    read_dataset,
)
from bagwise.exceptions import InputError
from reproduction.row_data import info_of

__all__ = [
    "load_corel5k_blobs",
    "load_corel5k_test_regions",
    "load_dataset",
    "load_hja_birdsong",
    "load_letter_carroll_redraw",
    "load_miml_birds",
    "load_msrcv2",
]


def load_dataset(name: str, **options: Any) -> Bunch:
    """Load a data set of this module, or of bagwise, by its name.

    Parameters
    ----------
    name : str
        "hja_birdsong" for `load_hja_birdsong`; or a name listed by `bagwise.datasets`.
    **options : object
        Passed to its loader.

    Returns
    -------
    Bunch
    """
    if f"load_{name}" in __all__:
        return globals()[f"load_{name}"](**options)
    return datasets.load_dataset(name, **options)


def load_hja_birdsong(labels: str = "instances", *, labelled_only: bool = True) -> Bunch:
    """Load HJA Birdsong: species in recordings and of their syllables (from the data home).

    There are two label matrices, and half of the syllables have no label.

    Parameters
    ----------
    labels : {"instances", "published"}, default="instances"
        "instances": the union of the labels of a recording's syllables (2.02 per bag), as the
        annotation and clustering papers use it. "published": the bag labels as published (2.14
        per bag), 67 more in 62 bags, which no syllable has; 35 of them Brown Creeper.
    labelled_only : bool, default=True
        Keep only the 4,998 labelled syllables, as the papers do; otherwise all 10,232, with
        instance label -1 where unknown. Every recording keeps at least one syllable.

    Returns
    -------
    Bunch
        - ``bags``: 548 recordings of syllables, 38 features;
        - ``label_sets``: (548, 13) zeros and ones;
        - ``instance_labels``: the species of each syllable, an index into ``classes``;
        - ``classes``: code and name of 13 species; ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.

    References
    ----------
    Briggs, Fern & Raich, "Rank-loss support instance machines for MIML instance annotation",
    KDD 2012.
    """
    matrices = {"instances": "Y_from_instances", "published": "Y"}
    if labels not in matrices:
        raise InputError(f"labels is {labels!r}: expected 'instances' or 'published'.")
    info = info_of("hja_birdsong")
    arrays = read_dataset(info, ["X", "bag", "instance_labels", "classes", *matrices.values()])
    _per_instance(info, arrays)
    if labelled_only:
        known = arrays["instance_labels"] >= 0
        for name in ("X", "bag", "instance_labels"):
            arrays[name] = arrays[name][known]
    return _label_set_bunch(info, arrays, arrays[matrices[labels]])


def load_msrcv2() -> Bunch:
    """Load MSRC v2: photos, their regions, and the class of each region (from the data home).

    The file has no class names: those given here follow the order of MSRC v2, and agree with
    the number of regions of each class.

    Returns
    -------
    Bunch
        - ``bags``: 591 photos, 1758 regions, 48 features;
        - ``label_sets``: (591, 23) zeros and ones, the union of the regions' labels;
        - ``instance_labels``: the class of each region, an index into ``classes``;
        - ``split_test``: (591,) the test part of the one split shipped with the file;
        - ``classes``, ``feature_names``, ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    info = info_of("msrcv2")
    arrays = read_dataset(info, ["X", "bag", "Y", "instance_labels", "classes", "split_test"])
    names = [f"gradient {i}" for i in range(16)] + [f"colour {i}" for i in range(32)]
    return _label_set_bunch(info, arrays, arrays["Y"], ["split_test"], feature_names=names)


def load_miml_birds() -> Bunch:
    """Load the MLSP 2013 birds with bag labels only (from the data home).

    This is not HJA Birdsong. It contains only the 257 recordings with a label.

    Returns
    -------
    Bunch
        - ``bags``: 257 recordings, 2062 syllables, 38 features; ``bags.ids`` as in the source;
        - ``label_sets``: (257, 19) zeros and ones;
        - ``instance_labels``: None;
        - ``split_test``: (257,) the test part of the shipped random 80/20 split;
        - ``classes``: codes of 19 species; ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    info = info_of("miml_birds")
    arrays = read_dataset(info, ["X", "bag", "Y", "classes", "bag_ids", "split_test"])
    return _label_set_bunch(info, arrays, arrays["Y"], ["split_test"], ids=arrays["bag_ids"])


def load_corel5k_blobs() -> Bunch:
    """Load Corel5K with regions as blob tokens (from the data home).

    An instance is one of 499 kinds of region present in the picture, as a sparse row with a
    single 1. The number of occurrences is lost, and the 36 region features of the papers were not
    found: all distances between different tokens are equal.

    Returns
    -------
    Bunch
        - ``bags``: 5000 pictures, 41351 tokens, 499 features, sparse;
        - ``label_sets``: (5000, 374) zeros and ones; ``classes``: the keywords;
        - ``instance_labels``: None;
        - ``is_test``: (5000,) the last 500 pictures, the usual test part;
        - ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    info = info_of("corel5k_blobs")
    arrays = read_dataset(info, ["B", "Y", "classes", "is_test"])
    picture, token = np.nonzero(arrays["B"])
    ones, ends = np.ones(len(token)), np.arange(len(token) + 1)
    arrays["X"] = sparse.csr_array((ones, token, ends), shape=(len(token), arrays["B"].shape[1]))
    arrays["bag"] = picture
    return _label_set_bunch(info, arrays, arrays["Y"], ["is_test"])


def load_corel5k_test_regions() -> Bunch:
    """Load the regions of the 500 test pictures of Corel5K (from the data home).

    The regions of the 4,500 training pictures were not found, so the published experiment cannot be
    repeated; the metric that the authors of MIMLCA learned from them is in the file.

    Returns
    -------
    Bunch
        - ``bags``: 500 pictures, 4686 regions, 36 features;
        - ``label_sets``: (500, 374) zeros and ones; ``classes``: the keywords;
        - ``frequent``: (20,) the keywords of the MIMLCA experiment, as indices into ``classes``;
        - ``authors_metric``: (36, 20) L of the authors; distances are those of ``X @ L``;
        - ``instance_labels``: None; ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    info = info_of("corel5k_test_regions")
    arrays = read_dataset(info, ["X", "bag", "Y", "classes", "top20", "L"])
    bunch = _label_set_bunch(info, arrays, arrays["Y"])
    return Bunch(**bunch, frequent=arrays["top20"].astype(np.int64), authors_metric=arrays["L"])


def load_letter_carroll_redraw() -> Bunch:
    """Load one fixed draw of Letter-Carroll (from the data home).

    The words of :func:`load_letter_carroll`, with other rows of UCI Letter. This is not the
    published sample either: results cannot be compared exactly with published ones.

    Returns
    -------
    Bunch
        As :func:`load_letter_carroll`.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    info = info_of("letter_carroll_redraw")
    arrays = read_dataset(info, ["X", "bag", "Y", "instance_labels", "classes", "letter_row"])
    bunch = _label_set_bunch(info, arrays, arrays["Y"], feature_names=LETTER_FEATURES)
    words = bunch.bags.split(bunch.classes[bunch.instance_labels])
    ids = np.array([f"{i:03d} {''.join(letters)}" for i, letters in enumerate(words)])
    bunch.bags = Bags(bunch.bags.instances, bunch.bags.offsets, ids, feature_names=LETTER_FEATURES)
    bunch.letter_row = arrays["letter_row"].astype(np.int64)
    return bunch


def _label_set_bunch(
    info: DatasetInfo,
    arrays: dict[str, Array],
    label_sets: Array,
    extras: Sequence[str] = (),
    *,
    ids: Array | None = None,
    feature_names: list[str] | None = None,
) -> Bunch:
    """Make a data set with label sets; `extras` are per-bag arrays, passed on unchanged."""
    bags = bags_of(info, arrays, ids, feature_names)
    classes = arrays["classes"]
    if label_sets.ndim != 2 or label_sets.shape[1] != len(classes):
        raise damaged(info, f"label sets of shape {label_sets.shape} for {len(classes)} classes")
    return bag_bunch(
        info,
        bags,
        label_sets=per_bag(info, bags, label_sets).astype(np.uint8),
        instance_labels=_per_instance(info, arrays),
        classes=classes,
        **{name: per_bag(info, bags, arrays[name]) for name in extras},
    )


def _per_instance(info: DatasetInfo, arrays: dict[str, Array]) -> Ints | None:
    """Check the length and range of instance labels, if any, and return them."""
    labels = arrays.get("instance_labels")
    if labels is None:
        return None
    if labels.shape != (arrays["X"].shape[0],) or labels.max() >= len(arrays["classes"]):
        raise damaged(info, "instance labels that do not fit the instances or the classes")
    return labels.astype(np.int64)

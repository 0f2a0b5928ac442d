"""Bag data sets read from a file: shipped with the package or found in the data home."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from bagwise._types import Array, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.datasets._registry import (
    DatasetInfo,
    bag_bunch,
    damaged,
    dataset_info,
    read_dataset,
)
from bagwise.exceptions import InputError

MUSK_FEATURES = [f"f{i}" for i in range(1, 167)]


# --- One label per bag --------------------------------------------------------------------------


def load_musk1() -> Bunch:
    """Load Musk1: which molecules smell of musk (shipped with bagwise).

    Returns
    -------
    Bunch
        - ``bags``: 92 molecules, 476 conformers, 166 features (whole numbers, as float64);
        - ``y``: 1 for a musk (47), 0 for others (45); ``classes`` names them;
        - ``fold``: (5, 92) test-fold numbers of five repetitions of 10-fold cross-validation;
        - ``instance_labels``: None, as it is unknown which conformer smells;
        - ``feature_names``, ``DESCR``.

    References
    ----------
    Dietterich, Lathrop & Lozano-Perez, "Solving the multiple instance problem with axis-parallel
    rectangles", Artificial Intelligence 89, 1997.

    Examples
    --------
    >>> from bagwise.datasets import load_musk1
    >>> musk = load_musk1()
    >>> musk.bags
    Bags(n_bags=92, n_instances=476, n_features=166, dtype=float64)
    >>> int(musk.y.sum()), musk.classes.tolist()
    (47, ['non-musk', 'musk'])
    """
    return _binary("musk1", ["non-musk", "musk"], MUSK_FEATURES)


def load_musk2() -> Bunch:
    """Load Musk2, with larger bags than Musk1 (from the data home; see `fetch_dataset`).

    Returns
    -------
    Bunch
        - ``bags``: 102 molecules, 6598 conformers (1 to 1,044 each), 166 features;
        - ``y``: 1 for a musk (39), 0 for others (63); ``classes`` names them;
        - ``fold``: None, no folds were published with this copy;
        - ``instance_labels``: None; ``feature_names``, ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home; the message states how to get it.
    FileFormatError
        When the file is damaged.
    """
    return _binary("musk2", ["non-musk", "musk"], MUSK_FEATURES)


def load_elephant() -> Bunch:
    """Load Elephant: pictures with or without an elephant (data home; see `fetch_dataset`).

    Only 110 of the 230 columns vary: 33 are constant and not zero, and division by their
    standard deviation (about 1e-17, not 0) turns them into noise. ``StandardScaler`` treats them
    correctly.

    Returns
    -------
    Bunch
        - ``bags``: 200 pictures, 1391 regions, 230 features;
        - ``y``: 1 for an elephant (100), 0 for none (100); ``classes`` names them;
        - ``fold``: (5, 200) test-fold numbers of five repetitions of 10-fold cross-validation;
          None in the copy that `fetch_dataset` makes;
        - ``instance_labels``: None; ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home; the message states how to get it.
    FileFormatError
        When the file is damaged.
    """
    return _binary("elephant", ["no elephant", "elephant"])


def load_fox() -> Bunch:
    """Load Fox: pictures with or without a fox (from the data home).

    Only 122 of the 230 columns vary; 21 are constant and not zero: see :func:`load_elephant`.

    Returns
    -------
    Bunch
        - ``bags``: 200 pictures, 1320 regions, 230 features;
        - ``y``: 1 for a fox (100), 0 for none (100); ``classes`` names them;
        - ``fold``: (5, 200) test-fold numbers of five repetitions of 10-fold cross-validation;
        - ``instance_labels``: None; ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    return _binary("fox", ["no fox", "fox"])


def _binary(name: str, classes: list[str], feature_names: list[str] | None = None) -> Bunch:
    info = dataset_info(name)
    arrays = read_dataset(info, ["X", "bag", "y"])
    bags = _bags(info, arrays, feature_names=feature_names)
    return bag_bunch(
        name,
        bags,
        y=_per_bag(info, bags, arrays["y"]).astype(np.int64),
        instance_labels=None,
        classes=np.array(classes),
        fold=arrays.get("fold"),
    )


# --- A label set per bag ------------------------------------------------------------------------


def load_hja_birdsong(labels: str = "instances", *, labelled_only: bool = True) -> Bunch:
    """Load HJA Birdsong: species in recordings, and of each syllable (from the data home).

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
    info = dataset_info("hja_birdsong")
    arrays = read_dataset(info, ["X", "bag", "instance_labels", "classes", *matrices.values()])
    _per_instance(info, arrays)
    if labelled_only:
        known = arrays["instance_labels"] >= 0
        for name in ("X", "bag", "instance_labels"):
            arrays[name] = arrays[name][known]
    return label_set_bunch(info, arrays, arrays[matrices[labels]])


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
    info = dataset_info("msrcv2")
    arrays = read_dataset(info, ["X", "bag", "Y", "instance_labels", "classes", "split_test"])
    names = [f"gradient {i}" for i in range(16)] + [f"colour {i}" for i in range(32)]
    return label_set_bunch(info, arrays, arrays["Y"], ["split_test"], feature_names=names)


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
    info = dataset_info("miml_birds")
    arrays = read_dataset(info, ["X", "bag", "Y", "classes", "bag_ids", "split_test"])
    return label_set_bunch(info, arrays, arrays["Y"], ["split_test"], ids=arrays["bag_ids"])


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
    info = dataset_info("corel5k_blobs")
    arrays = read_dataset(info, ["B", "Y", "classes", "is_test"])
    picture, token = np.nonzero(arrays["B"])
    ones, ends = np.ones(len(token)), np.arange(len(token) + 1)
    arrays["X"] = sparse.csr_array((ones, token, ends), shape=(len(token), arrays["B"].shape[1]))
    arrays["bag"] = picture
    return label_set_bunch(info, arrays, arrays["Y"], ["is_test"])


def label_set_bunch(
    info: DatasetInfo,
    arrays: dict[str, Array],
    label_sets: Array,
    extras: Sequence[str] = (),
    *,
    ids: Array | None = None,
    feature_names: list[str] | None = None,
) -> Bunch:
    """Make a data set with label sets; `extras` are per-bag arrays, passed on unchanged."""
    bags = _bags(info, arrays, ids, feature_names)
    classes = arrays["classes"]
    if label_sets.ndim != 2 or label_sets.shape[1] != len(classes):
        raise damaged(info, f"label sets of shape {label_sets.shape} for {len(classes)} classes")
    return bag_bunch(
        info.name,
        bags,
        label_sets=_per_bag(info, bags, label_sets).astype(np.uint8),
        instance_labels=_per_instance(info, arrays),
        classes=classes,
        **{name: _per_bag(info, bags, arrays[name]) for name in extras},
    )


# --- From arrays to bags ------------------------------------------------------------------------


def _bags(
    info: DatasetInfo,
    arrays: dict[str, Array],
    ids: Array | None = None,
    feature_names: list[str] | None = None,
) -> Bags:
    """Make bags of the rows of X; bag numbers start from 0 without gaps."""
    X, bag = arrays["X"], arrays["bag"]
    numbered = bag.ndim == 1 and bag.dtype.kind in "iu" and len(bag) > 0 and bag[0] == 0
    if not numbered or not np.isin(np.diff(bag.astype(np.int64)), (0, 1)).all():
        raise damaged(info, "bags that are not numbered 0, 1, 2, ... in order")
    offsets = offsets_of(np.bincount(bag))
    try:
        return Bags(X.astype(np.float64), offsets, ids, feature_names=feature_names)
    except ValueError as error:
        raise damaged(info, str(error)) from error


def _per_bag(info: DatasetInfo, bags: Bags, values: Array) -> Array:
    if values.ndim == 0 or len(values) != len(bags):
        raise damaged(info, f"labels of shape {values.shape} for {len(bags)} bags")
    return values


def _per_instance(info: DatasetInfo, arrays: dict[str, Array]) -> Ints | None:
    """Check the length and range of instance labels, if any, and return them."""
    labels = arrays.get("instance_labels")
    if labels is None:
        return None
    if labels.shape != (arrays["X"].shape[0],) or labels.max() >= len(arrays["classes"]):
        raise damaged(info, "instance labels that do not fit the instances or the classes")
    return labels.astype(np.int64)

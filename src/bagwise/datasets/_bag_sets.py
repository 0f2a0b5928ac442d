"""Bag data sets read from a file: shipped with the package or found in the data home."""

import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Bunch, check_random_state

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.datasets._draw import indicator
from bagwise.datasets._registry import (
    PACKAGE_DATA,
    DatasetInfo,
    bag_bunch,
    damaged,
    dataset_info,
    read_dataset,
)
from bagwise.exceptions import InputError

MUSK_FEATURES = [f"f{i}" for i in range(1, 167)]
LETTERS = np.array(list(string.ascii_uppercase))
LETTER_FEATURES = [
    *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
    *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
]


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
    """Load Musk2, with larger bags than Musk1 (from the data home).

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
    """Load Elephant: pictures with or without an elephant (from the data home).

    Only 110 of the 230 columns vary: 33 are constant and not zero, and division by their
    standard deviation (about 1e-17, not 0) turns them into noise. ``StandardScaler`` treats them
    correctly.

    Returns
    -------
    Bunch
        - ``bags``: 200 pictures, 1391 regions, 230 features;
        - ``y``: 1 for an elephant (100), 0 for none (100); ``classes`` names them;
        - ``fold``: (5, 200) test-fold numbers of five repetitions of 10-fold cross-validation;
          None in copies without them;
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


# --- The words of a poem as bags of letters -------------------------------------------------------


def load_letter_carroll(random_state: Any = 0, *, published_words: bool = False) -> Bunch:
    """Load Letter-Carroll: the words of Jabberwocky as bags of letters (shipped with bagwise).

    Each letter of a word is a row of UCI Letter of that class, drawn without replacement; the
    label set of a word is the set of its letters. The published sample is not available: the
    words are the same, but the rows differ.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        Seed for drawing rows of UCI Letter.
    published_words : bool, default=False
        False: words are split at the hyphen and the one-letter word "O" is left out, which gives
        the published 166 bags and 717 instances. True: "snicker-snack" is one word, "O" is kept
        and "hast" reads "has", as in many copies of the poem; only this variant also gives the
        published one bag with a single label and 3.93 labels per bag.

    Returns
    -------
    Bunch
        - ``bags``: 166 words, 717 letters, 16 features; ``bags.ids`` are position and word;
        - ``label_sets``: (166, 26) zeros and ones; Q and Z never occur;
        - ``instance_labels``: the letter of each instance, an index into ``classes``;
        - ``classes``: the letters A to Z;
        - ``letter_row``: (717,) the row of ``letter.npz`` of each instance;
        - ``feature_names``, ``DESCR``.

    References
    ----------
    Briggs, Fern & Raich, "Rank-loss support instance machines for MIML instance annotation",
    KDD 2012; counts in Pham et al. 2014 (Table 1) and Pei & Fern 2014 (Table 2).

    Examples
    --------
    >>> from bagwise.datasets import load_letter_carroll
    >>> carroll = load_letter_carroll(random_state=0)
    >>> carroll.bags
    Bags(n_bags=166, n_instances=717, n_features=16, dtype=float64)
    >>> carroll.bags.ids[:2].tolist()
    ['000 Twas', '001 brillig']
    >>> carroll.classes[carroll.label_sets[1] == 1].tolist()
    ['B', 'G', 'I', 'L', 'R']
    """
    poem = _poem("jabberwocky.txt")
    if published_words:
        words = re.findall(r"[A-Za-z-]*[A-Za-z]", poem.replace("hast thou", "has thou"))
    else:
        words = re.findall(r"[A-Za-z]{2,}", poem)
    return _letters_of("letter_carroll", words, random_state)


def load_letter_frost(random_state: Any = 0) -> Bunch:
    """Load Letter-Frost: the words of The Road Not Taken as bags of letters (shipped).

    Like :func:`load_letter_carroll`, with Robert Frost's poem. All words are kept, including "I"
    and "a", which gives every published count.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        Seed for drawing rows of UCI Letter.

    Returns
    -------
    Bunch
        - ``bags``: 144 words, 565 letters, 16 features; ``bags.ids`` are position and word;
        - ``label_sets``: (144, 26) zeros and ones; X and Z never occur;
        - ``instance_labels``, ``classes``, ``letter_row``, ``feature_names``, ``DESCR`` as in
          :func:`load_letter_carroll`.

    Examples
    --------
    >>> from bagwise.datasets import load_letter_frost
    >>> load_letter_frost(random_state=0).bags
    Bags(n_bags=144, n_instances=565, n_features=16, dtype=float64)
    """
    words = re.findall(r"[A-Za-z]+", _poem("the_road_not_taken.txt"))
    return _letters_of("letter_frost", words, random_state)


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
    info = dataset_info("letter_carroll_redraw")
    arrays = read_dataset(info, ["X", "bag", "Y", "instance_labels", "classes", "letter_row"])
    bunch = label_set_bunch(info, arrays, arrays["Y"], feature_names=LETTER_FEATURES)
    words = bunch.bags.split(bunch.classes[bunch.instance_labels])
    ids = _ids(["".join(letters) for letters in words])
    bunch.bags = Bags(bunch.bags.instances, bunch.bags.offsets, ids, feature_names=LETTER_FEATURES)
    bunch.letter_row = arrays["letter_row"].astype(np.int64)
    return bunch


def _poem(file: str) -> str:
    return (PACKAGE_DATA / file).read_text(encoding="utf-8")


def _letters_of(name: str, words: list[str], random_state: Any) -> Bunch:
    """Make a bag of each word; its letters are drawn from UCI Letter without replacement."""
    rng = check_random_state(random_state)
    letter = read_dataset(dataset_info(name), ["X", "y"])  # the rows of UCI Letter
    spelled = [re.sub("[^A-Z]", "", word.upper()) for word in words]
    instance_labels = np.searchsorted(LETTERS, list("".join(spelled)))
    rows = np.empty(len(instance_labels), dtype=np.int64)
    for c in np.unique(instance_labels):
        places = np.flatnonzero(instance_labels == c)
        rows[places] = rng.choice(np.flatnonzero(letter["y"] == c), size=len(places), replace=False)
    offsets = offsets_of([len(word) for word in spelled])
    bags = Bags(
        letter["X"][rows].astype(np.float64), offsets, _ids(words), feature_names=LETTER_FEATURES
    )
    return bag_bunch(
        name,
        bags,
        label_sets=indicator(bags.bag_index, instance_labels, (len(bags), len(LETTERS))),
        instance_labels=instance_labels,
        classes=LETTERS.copy(),
        letter_row=rows,
    )


def _ids(words: list[str]) -> NDArray[np.str_]:
    return np.array([f"{i:03d} {word}" for i, word in enumerate(words)])


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

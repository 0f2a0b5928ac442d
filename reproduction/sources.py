"""Data sets used only by reproduced papers; the TOML files refer to these functions by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils import Bunch, check_random_state

from bagwise.bags import Bags, group_rows, offsets_of
from bagwise.datasets import (
    load_musk1,
    make_digit_bags,
)
from bagwise.datasets._registry import data_folders, find_file, read_arrays, read_dataset
from bagwise.exceptions import DataNotFoundError, FileFormatError
from reproduction._building import find_target
from reproduction.bag_data import load_corel5k_blobs, load_corel5k_test_regions
from reproduction.faces import make_names_and_faces
from reproduction.row_data import info_of, load_mnist, load_uci

__all__ = [
    "captioned_faces",
    "corel5k_test_pictures",
    "frequent_keywords",
    "from_data_home",
    "load_clean1",
    "load_digit_pair",
    "make_mnist_bags",
    "make_overlapping_calls",
    "make_region_bags",
    "make_rings",
    "make_share_bags",
    "make_text_rows",
    "merged_classes",
    "partly_labelled",
]


def from_data_home(
    file: str,
    n_classes: int | None = None,
    *,
    label_sets: str = "Y",
    n_keywords: int | None = None,
    scenario: str | None = None,
) -> Bunch:
    """Read bags from a user's file that bagwise has no loader for.

    The file is an npz with ``X`` (instances x features) and ``bag`` (the bag of each instance, from
    0); with ``y`` (a label per bag) or label sets (``Y``, bags x labels, 0/1); and, if known, with
    ``instance_labels`` (of each instance: an index into ``classes``, -1 unknown), ``is_test`` (of
    each bag: whether it is for testing) and ``classes`` (the names).

    Parameters
    ----------
    file : str
        Name of the file in the data home.
    n_classes : int, default=None
        Keep only the bags of the first `n_classes` classes (of a file with ``y``).
    label_sets : str, default="Y"
        Name of the array with the label sets: a file may have several, such as the people in a
        photo and the names in its caption.
    n_keywords : int, default=None
        Keep only the labels that are most frequent in the bags that are not for testing, and the
        bags that have one of them.
    scenario : str, default=None
        Passed on, for the protocol that names faces: "a", "b" or "c".

    Returns
    -------
    Bunch
        ``bags``; ``y`` or ``label_sets``; ``classes``; ``instance_labels`` (None if unknown);
        ``is_test`` and ``scenario`` if given.

    Raises
    ------
    DataNotFoundError
        When the file is in none of the folders.
    FileFormatError
        When the file is damaged, or its arrays do not match.
    """
    path = find_file(file)
    if path is None:
        searched = ", ".join(str(folder) for folder in data_folders())
        raise DataNotFoundError(f"{file} was not found in {searched}.")
    arrays = read_arrays(path, ["X", "bag"])
    has_sets = label_sets in arrays
    kind = label_sets if has_sets else "y"
    if kind not in arrays:
        raise FileFormatError(f"{path} has neither y nor {label_sets}, the labels of its bags.")
    labels = arrays[kind]
    order, offsets, numbers = group_rows(arrays["bag"])
    if not np.array_equal(np.sort(numbers), np.arange(len(labels))):
        raise FileFormatError(f"{path}: `bag` must number the {len(labels)} bags of `{kind}`.")
    bags = Bags(arrays["X"].astype(np.float64)[order], offsets, numbers)
    sizes = {"instance_labels": len(order), "is_test": len(labels)}
    for name, size in sizes.items():
        if name in arrays and arrays[name].shape != (size,):
            raise FileFormatError(f"{path}: {name} must have {size} entries.")
    shown = arrays["instance_labels"][order] if "instance_labels" in arrays else None
    found: dict[str, Any] = {} if scenario is None else {"scenario": scenario}
    if "is_test" in arrays:
        found["is_test"] = arrays["is_test"][numbers].astype(bool)
    if not has_sets:
        classes, y = np.unique(labels[numbers], return_inverse=True)
        kept = y < (len(classes) if n_classes is None else n_classes)
        names = arrays.get("classes", classes)[:n_classes]
        data = Bunch(bags=bags, y=y, classes=names, instance_labels=shown, **found)
        return _selected(data, kept)
    if labels.ndim != 2 or not np.isin(labels, (0, 1)).all():
        raise FileFormatError(f"{path}: {label_sets} must be a table of zeros and ones.")
    names = arrays.get("classes", np.arange(labels.shape[1]))
    if len(names) != labels.shape[1] or (shown is not None and shown.max() >= len(names)):
        raise FileFormatError(f"{path}: {len(names)} classes do not fit the labels.")
    sets = labels[numbers].astype(np.int8)
    data = Bunch(bags=bags, label_sets=sets, classes=names, instance_labels=shown, **found)
    return data if n_keywords is None else _with_keywords(data, n_keywords)


def _selected(data: Bunch, kept: Any) -> Bunch:
    """Keep some of the bags, with their labels and those of their instances."""
    inside = kept[data.bags.bag_index]
    for name in ("y", "label_sets", "is_test"):
        if name in data:
            data[name] = data[name][kept]
    if data.instance_labels is not None:
        data.instance_labels = data.instance_labels[inside]
    data.bags = data.bags[kept]
    return data


def _with_keywords(data: Bunch, n_keywords: int) -> Bunch:
    """Keep the labels that are most frequent among the training bags, and bags with one of them."""
    is_test = data.get("is_test", np.zeros(len(data.bags), dtype=bool)).astype(bool)
    counts = data.label_sets[~is_test].sum(axis=0)
    chosen = np.sort(np.argsort(-counts.astype(int), kind="stable")[:n_keywords])
    data.label_sets, data.classes = data.label_sets[:, chosen], data.classes[chosen]
    if data.instance_labels is not None:
        place = np.full(len(counts) + 1, -1)  # the last entry is for unknown labels
        place[chosen] = np.arange(len(chosen))
        data.instance_labels = place[data.instance_labels]
    return _selected(data, data.label_sets.any(axis=1))


def make_overlapping_calls(
    overlap: float,
    silent: float = 0.0,
    n_bags: int = 150,
    n_species: int = 8,
    n_bands: int = 24,
    random_state: Any = None,
) -> Bunch:
    """Simulate recordings of calls, some of which overlap: energies add up in each band.

    A species has an energy in each band, three Gaussian bumps in decibels. A call varies in
    loudness (3 dB) and in each band (4 dB), above a noise floor. Recordings have two to eight calls
    of one to four species. An instance is one call or, with probability `overlap`, two calls of
    different species of the recording.

    Parameters
    ----------
    overlap : float
        Probability that an instance has two calls, if the recording has several species.
    silent : float, default=0.0
        Probability that an instance is a gust of wind: it has one bump, anywhere, and no label.
    n_bags, n_species, n_bands : int
        Recordings, species and frequency bands.
    random_state : int, RandomState or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        ``bags``, ``label_sets``, ``instance_label_sets`` (0/1), ``classes``.
    """
    rng = check_random_state(random_state)
    band = np.arange(n_bands)
    places = rng.uniform(0, n_bands, (n_species, 3, 1))
    widths = rng.uniform(1, 4, (n_species, 3, 1))
    template = 20 * np.exp(-0.5 * ((band - places) / widths) ** 2).max(axis=1)
    sizes, rows, shown = rng.randint(2, 9, n_bags), [], []
    for size in sizes:
        present = rng.choice(n_species, rng.randint(1, 5), replace=False)
        for _ in range(size):
            n_calls = 1 + int(len(present) > 1 and rng.uniform() < overlap)
            calling = rng.choice(present, n_calls, replace=False)
            calls = template[calling]
            if silent > 0 and rng.uniform() < silent:
                calling = calling[:0]
                wind = (band - rng.uniform(0, n_bands)) / rng.uniform(1, 4)
                calls = 20 * np.exp(-0.5 * wind[None] ** 2)
            calls = calls + rng.normal(scale=3, size=(len(calls), 1))
            calls += rng.normal(scale=4, size=calls.shape)
            rows.append(10 * np.log10(1 + (10 ** (calls / 10)).sum(axis=0)))
            shown.append(np.isin(np.arange(n_species), calling))
    bags = Bags(np.array(rows), np.concatenate([[0], np.cumsum(sizes)]))
    sets = np.maximum.reduceat(np.array(shown, int), bags.offsets[:-1])
    return Bunch(  # a recording may have no label at all
        bags=bags, label_sets=sets, instance_label_sets=np.array(shown, int),
        classes=np.arange(n_species),
    )  # fmt: skip


def partly_labelled(
    loader: str,
    options: Mapping[str, Any] | None = None,
    labelled: float = 1.0,
    clusters_per_class: float = 1.0,
    random_state: Any = None,
) -> Bunch:
    """Load bags with label sets, and hide the label sets of some bags.

    Parameters
    ----------
    loader : str
        ``"module:name"`` of the function that loads them.
    options : mapping, default=None
        Its keyword arguments.
    labelled : float, default=1.0
        The share of the bags that keep their label set, drawn without replacement.
    clusters_per_class : float, default=1.0
        Number of clusters per class that occurs.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        The loader's data, with a row of -1 in ``label_sets`` for each bag with hidden labels, and
        ``n_clusters``.
    """
    data = find_target(loader)(**(options or {}))
    full = np.asarray(data.label_sets).astype(np.int8)
    n_hidden = len(full) - round(labelled * len(full))
    label_sets = full.copy()
    label_sets[check_random_state(random_state).permutation(len(full))[:n_hidden]] = -1
    n_clusters = round(clusters_per_class * int(full.any(axis=0).sum()))
    return Bunch(**{**data, "label_sets": label_sets, "n_clusters": n_clusters})


def merged_classes(
    loader: str, options: Mapping[str, Any] | None = None, random_state: Any = None
) -> Bunch:
    """Load bags with label sets, and merge pairs of classes, which become sub-classes.

    Parameters
    ----------
    loader : str
        ``"module:name"`` of the function that loads them.
    options : mapping, default=None
        Its keyword arguments.
    random_state : int, RandomState instance or None, default=None
        Seed of the pairs; with an odd number of classes, one stays alone.

    Returns
    -------
    Bunch
        The loader's data, with label sets of merged classes. ``instance_labels`` are the
        sub-classes, and ``n_clusters`` is their number.
    """
    data = find_target(loader)(**(options or {}))
    sets = np.asarray(data.label_sets)
    present = check_random_state(random_state).permutation(np.flatnonzero(sets.any(axis=0)))
    merged = [sets[:, present[i : i + 2]].max(axis=1) for i in range(0, len(present), 2)]
    return Bunch(**{**data, "label_sets": np.column_stack(merged), "n_clusters": len(present)})


def make_mnist_bags(n_bags: int = 200, subset: str = "train", random_state: Any = None) -> Bunch:
    """Draw MNIST-bags from MNIST (in the data home).

    Parameters
    ----------
    n_bags : int, default=200
        Number of bags, half of them with a 9.
    subset : {"train", "test"}, default="train"
        Part of MNIST to draw from.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        As returned by `bagwise.datasets.make_digit_bags`.
    """
    mnist = load_mnist(subset)
    return make_digit_bags(n_bags, digits=(mnist.X, mnist.y), random_state=random_state)


def make_rings(
    n_bags: int = 100, bag_size: tuple[int, int] = (1, 3), random_state: Any = None
) -> Bunch:
    """Generate bags that are not linearly separable, similar to Figure 10 of the pdMISVM paper.

    The first instance of a bag lies on a disc for class 0 and on a ring around it for class 1, the
    others in the gap between.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags, half of them of each class.
    bag_size : tuple (smallest, largest), default=(1, 3)
        Number of instances of a bag, drawn uniformly.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        ``bags``, ``y``, ``classes`` and ``instance_labels``, which are -1 in the gap.
    """
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_bags) % 2)
    offsets = offsets_of(rng.randint(bag_size[0], bag_size[1] + 1, size=n_bags))
    first = offsets[:-1]
    X = _annulus(rng, offsets[-1], 2.0, 3.0)
    inside, outside = _annulus(rng, n_bags, 0.0, 1.0), _annulus(rng, n_bags, 4.0, 5.0)
    X[first] = np.where(y[:, None] == 0, inside, outside)
    instance_labels = np.full(offsets[-1], -1)
    instance_labels[first] = y
    bags = Bags(X, offsets)
    return Bunch(bags=bags, y=y, classes=np.arange(2), instance_labels=instance_labels)


def _annulus(rng: np.random.RandomState, n: int, inner: float, outer: float) -> Any:
    """Draw points uniformly from a ring around the origin, or from a disc."""
    radius = np.sqrt(rng.uniform(inner**2, outer**2, size=n))
    angle = rng.uniform(0, 2 * np.pi, size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def make_region_bags(
    n_classes: int = 25,
    *,
    bags_per_class: int = 60,
    n_features: int = 30,
    mean_size: float = 31.6,
    share: float = 0.15,
    n_parts: int = 3,
    n_scenes: int = 12,
    separation: float = 1.0,
    random_state: Any = None,
) -> Bunch:
    """Simulate bags like SIVAL: images of an object in front of a scene, split into regions.

    Every class has a few parts (a label, a lid, a rim). Every image has one of a few scenes, shared
    by all classes. Parts, and the regions of scenes, are Gaussian clusters.

    Parameters
    ----------
    n_classes : int, default=25
        Number of objects.
    bags_per_class : int, default=60
        Images of each object.
    n_features : int, default=30
        Features of a region.
    mean_size : float, default=31.6
        Mean number of regions of an image; the two nearest integers occur.
    share : float, default=0.15
        Share of the regions that show the object; at least one does.
    n_parts, n_scenes : int, default=3 and 12
        Number of parts of an object, and of scenes with six kinds of region each.
    separation : float, default=1.0
        Standard deviation of the cluster centres in each feature; that of a cluster is 1.
    random_state : int or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        ``bags``, ``y``, ``classes``, ``instance_labels`` (-1 for the scene).

    Examples
    --------
    >>> from reproduction.sources import make_region_bags
    >>> data = make_region_bags(3, random_state=0)
    >>> data.bags.shape, sorted(set(data.bags.sizes.tolist()))
    ((180, 30), [31, 32])
    """
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.repeat(np.arange(n_classes), bags_per_class))
    sizes = np.floor(mean_size + rng.random(len(y))).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bag_of, n = np.repeat(np.arange(len(y)), sizes), int(offsets[-1])
    shows_object = rng.random(n) < share
    shows_object[offsets[:-1]] = True
    parts = rng.normal(scale=separation, size=(n_classes, n_parts, n_features))
    scenes = rng.normal(scale=separation, size=(n_scenes, 6, n_features))
    scene_of = rng.integers(n_scenes, size=len(y))
    centres = np.where(
        shows_object[:, None],
        parts[y[bag_of], rng.integers(n_parts, size=n)],
        scenes[scene_of[bag_of], rng.integers(6, size=n)],
    )
    return Bunch(
        bags=Bags(centres + rng.normal(size=(n, n_features)), offsets),
        y=y,
        classes=np.arange(n_classes),
        instance_labels=np.where(shows_object, y[bag_of], -1),
    )


def captioned_faces(
    scenario: str = "b",
    n_bags: int = 20071,
    n_categories: int | None = None,
    random_state: Any = None,
    **faces: Any,
) -> Bunch:
    """Simulate names and faces in place of Labeled Yahoo! News, in one of its three scenarios.

    Parameters
    ----------
    scenario : {"a", "b", "c"}, default="b"
        What is known of the training photos: who each face is, who is in the photo, or who is
        named in the caption.
    n_bags : int, default=20071
        Number of photos.
    n_categories : int, default=None
        Number of people with a name; in the proportion of the paper by default.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.
    **faces : object
        Passed on to `reproduction.faces.make_names_and_faces`: `n_features`, `noise` and so on.

    Returns
    -------
    Bunch
        As returned by `make_names_and_faces`, with the label sets of the scenario and its name.
    """
    news = make_names_and_faces(n_bags, n_categories, random_state=random_state, **faces)
    if scenario == "c":
        news.label_sets = news.automatic_label_sets
    news.scenario = scenario
    return news


def frequent_keywords(n_keywords: int = 20) -> Bunch:
    """Load the Corel5K blobs, with the most frequent keywords only (from the data home).

    Parameters
    ----------
    n_keywords : int, default=20
        Number of keywords; images without any of them are left out.

    Returns
    -------
    Bunch
        As returned by ``load_corel5k_blobs()``.
    """
    return _with_keywords(load_corel5k_blobs(), n_keywords)


def corel5k_test_pictures() -> Bunch:
    """Load the test pictures of Corel5K that have one of the 20 keywords (from the data home).

    Returns
    -------
    Bunch
        ``bags`` of 444 pictures, ``label_sets`` of 20 keywords, ``instance_labels``: None.
    """
    data = load_corel5k_test_regions()
    label_sets, names = data.label_sets[:, data.frequent], data.classes[data.frequent]
    found = Bunch(bags=data.bags, label_sets=label_sets, classes=names, instance_labels=None)
    return _selected(found, label_sets.any(axis=1))


def load_digit_pair(first: int, second: int) -> Bunch:
    """Load the rows of two digits of optdigits (from the data home).

    Parameters
    ----------
    first, second : int
        The digits of class 0 and class 1.

    Returns
    -------
    Bunch
        ``X``, ``y``, ``classes``.
    """
    data = load_uci("optdigits")
    rows = np.flatnonzero(np.isin(data.y, (first, second)))
    return Bunch(
        X=data.X[rows], y=(data.y[rows] == second).astype(np.int64), classes=[first, second]
    )


def load_clean1() -> Bunch:
    """Load the conformations of Musk1, each with the label of its molecule.

    Returns
    -------
    Bunch
        ``X``, ``y``, ``classes``.
    """
    data = load_musk1()
    rows, y = data.bags.instances, data.y[data.bags.bag_index]
    return Bunch(X=np.asarray(rows, dtype=np.float64), y=y, classes=data.classes)


def make_text_rows(
    n_rows: int = 72_309,
    n_features: int = 20_958,
    *,
    words: int = 54,
    separation: float = 1.4,
    random_state: Any = None,
) -> Bunch:
    """Simulate sparse rows like real-sim or RCV1: weighted words of two classes of texts.

    Words are drawn by Zipf's law, tilted at random by the class; counts are weighted by inverse
    document frequency, and rows have unit length.

    Parameters
    ----------
    n_rows, n_features : int, default=72309 and 20958
        Number of texts, and of distinct words.
    words : int, default=54
        Words drawn for a text; slightly fewer are distinct (51, as in real-sim).
    separation : float, default=1.4
        Standard deviation of the log ratio of a word's frequencies in the two classes.
    random_state : int or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        ``X`` (CSR), ``y``, ``classes``.

    Examples
    --------
    >>> from reproduction.sources import make_text_rows
    >>> make_text_rows(100, 50, words=5, random_state=0).X.shape
    (100, 50)
    """
    rng = np.random.default_rng(random_state)
    frequency = 1.0 / (np.arange(n_features) + 10.0)
    tilt = np.exp(separation / 2 * rng.normal(size=n_features))
    y = rng.integers(2, size=n_rows)
    columns = np.empty((n_rows, words), dtype=np.int32)
    for kind, tilted in enumerate((frequency * tilt, frequency / tilt)):
        ends = np.cumsum(tilted) / tilted.sum()
        drawn = rng.random((int(np.sum(y == kind)), words))
        columns[y == kind] = np.minimum(np.searchsorted(ends, drawn), n_features - 1)
    starts = np.arange(0, n_rows * words + 1, words, dtype=np.int32)
    counts = sparse.csr_array(
        (np.ones(n_rows * words), columns.ravel(), starts), shape=(n_rows, n_features)
    )
    counts.sum_duplicates()
    rarity = np.log(n_rows / (1 + np.bincount(counts.indices, minlength=n_features)))
    counts.data = np.log1p(counts.data) * np.maximum(rarity, 0.0)[counts.indices]
    return Bunch(X=normalize(counts, copy=False), y=y, classes=np.arange(2))


def make_share_bags(
    name: str, bag_size: int = 8, low: float = 0.0, high: float = 0.5, random_state: Any = None
) -> Bunch:
    """Draw bags of rows of Adult or MAGIC (from the data home), of which the shares are known.

    As in Scott and Zhang (2020): 8,192 and 5,120 rows in bags, 3,000 and 1,400 other rows to test
    on. The probability of class 1 in a bag is drawn from U(low, high).

    Parameters
    ----------
    name : {"adult", "magic"}
        The rows.
    bag_size : int, default=8
        Number of rows of a bag.
    low, high : float, default=0.0, 0.5
        Range of the probability of class 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        ``bags``, ``shares`` of class 1, ``instance_labels``, ``X_test``, ``y_test``.
    """
    n_train, n_test, X = {"adult": (8192, 3000, "X_onehot"), "magic": (5120, 1400, "X")}[name]
    arrays = read_dataset(info_of(f"uci_{name}"), [X, "y"])
    rows, y = np.asarray(arrays[X], np.float64), np.asarray(arrays["y"], np.int64)
    rng = check_random_state(random_state)
    order = rng.permutation(len(y))
    test, rest = order[:n_test], order[n_test:]
    n_bags = n_train // bag_size
    numbers = rng.binomial(bag_size, rng.uniform(low, high, n_bags))
    pools = [iter(rest[y[rest] == label]) for label in (0, 1)]
    chosen = [next(pools[label]) for k in numbers for label in [1] * k + [0] * (bag_size - k)]
    return Bunch(
        bags=Bags(rows[chosen], np.arange(n_bags + 1) * bag_size),
        shares=numbers / bag_size,
        instance_labels=y[chosen],
        X_test=rows[test],
        y_test=y[test],
    )

"""The synthetic bags of the pdMISVM paper: one instance is informative, the others are noise."""

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from bagwise._common.types import Floats
from bagwise.bags import Bags, offsets_of
from bagwise.datasets._draw import check_count, check_number, check_size, random_generator
from bagwise.datasets._registry import bag_bunch
from bagwise.exceptions import InputError

# Radii of the ring data: a disc, a ring around it, and noise between them.
DISC, GAP, RING = (0.0, 1.0), (2.0, 3.0), (4.0, 5.0)


def make_bags(
    n_bags: int = 100,
    n_features: int | None = None,
    *,
    n_classes: int = 2,
    bag_size: tuple[int, int] | None = None,
    shape: str = "clusters",
    separation: float = 4.0,
    noise: float = 1.0,
    random_state: Any = None,
) -> Bunch:
    """Generate bags in which only the first instance depends on the class.

    ``shape="clusters"`` is the synthetic set of the pdMISVM paper: the first instance comes from
    the normal cluster of its class (standard deviation 1), the others are uniform noise. The
    paper uses 10 to 1,000 bags of 3 to 5 instances with 10 to 1,000 features; it does not state
    the distance of the clusters or the range of the noise, hence `separation` and `noise`.
    ``shape="ring"`` is similar to its Figure 10 and not linearly separable: the
    first instance lies on a disc for class 0 and on a ring around it for class 1, the others in
    the gap between.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags; classes are of equal size, up to one bag.
    n_features : int, default=None
        10 for clusters; always 2 for rings.
    n_classes : int, default=2
        Number of clusters, at most `n_features`; always 2 for rings.
    bag_size : tuple (smallest, largest), default=None
        Number of instances of a bag, drawn uniformly; (3, 5) for clusters and (1, 3) for rings.
    shape : {"clusters", "ring"}, default="clusters"
        Distribution of the informative instances.
    separation : float, default=4.0
        Distance between any two cluster centres, in standard deviations.
    noise : float, default=1.0
        Noise is uniform between ``-noise`` and ``noise`` in each feature (clusters only).
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        - ``bags``; ``y``: the class of each bag, from 0; ``classes``;
        - ``instance_labels``: the class of the first instance of each bag, -1 for noise;
        - ``key_instances``: (n_bags,) the informative row inside each bag, always 0;
        - ``feature_names``: None; ``DESCR``.

    References
    ----------
    Brand, Baker, Ellefsen, Sargent & Wang, "A linear primal-dual multi-instance SVM for big data
    classifications", ICDM 2021 (Section III-A, Figure 10).

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> data = make_bags(n_bags=30, n_features=5, random_state=0)
    >>> len(data.bags), data.bags.n_features, sorted(set(data.bags.sizes.tolist()))
    (30, 5, [3, 4, 5])
    >>> make_bags(shape="ring", random_state=0).bags.n_features
    2
    """
    if not isinstance(shape, str) or shape not in ("clusters", "ring"):
        raise InputError(f"shape is {shape!r}: expected 'clusters' or 'ring'.")
    ring = shape == "ring"
    n_bags = check_count(n_bags, "n_bags")
    n_features, n_classes = _dimensions(n_features, n_classes, ring)
    smallest, largest = _size_range(bag_size, (1, 3) if ring else (3, 5))
    check_size(n_bags * (smallest + largest) / 2 * n_features, "n_bags, bag_size and n_features")
    rng = random_generator(random_state)
    y = rng.permutation(np.arange(n_bags) % n_classes)
    sizes = rng.randint(smallest, largest + 1, size=n_bags)
    offsets = offsets_of(sizes)
    if ring:
        X = _annulus(rng, offsets[-1], *GAP)
        inside, outside = _annulus(rng, n_bags, *DISC), _annulus(rng, n_bags, *RING)
        X[offsets[:-1]] = np.where(y[:, None] == 0, inside, outside)
    else:
        noise = check_number(noise, "noise")
        X = rng.uniform(-noise, noise, size=(offsets[-1], n_features))
        # Centres in random orthogonal directions: any two at the distance `separation`.
        directions = np.linalg.qr(rng.standard_normal((n_features, n_classes)))[0].T
        centres = directions * check_number(separation, "separation") / np.sqrt(2)
        X[offsets[:-1]] = centres[y] + rng.standard_normal((n_bags, n_features))
    instance_labels = np.full(offsets[-1], -1)
    instance_labels[offsets[:-1]] = y
    return bag_bunch(
        "bags",
        Bags(X, offsets),
        y=y,
        instance_labels=instance_labels,
        key_instances=np.zeros(n_bags, dtype=np.int64),
        classes=np.arange(n_classes),
    )


def _dimensions(n_features: Any, n_classes: Any, ring: bool) -> tuple[int, int]:
    default = 2 if ring else 10
    n_features = check_count(default if n_features is None else n_features, "n_features")
    n_classes = check_count(n_classes, "n_classes", at_least=2)
    if ring and (n_features, n_classes) != (2, 2):
        raise InputError(
            f"n_features is {n_features} and n_classes {n_classes}: rings have 2 of each."
        )
    if n_classes > n_features:
        raise InputError(
            f"n_classes is {n_classes} and n_features {n_features}: clusters at equal distances "
            "need at least as many features as classes."
        )
    return n_features, n_classes


def _size_range(bag_size: Any, default: tuple[int, int]) -> tuple[int, int]:
    try:
        smallest, largest = default if bag_size is None else bag_size
    except (TypeError, ValueError) as error:
        raise InputError(f"bag_size is {bag_size!r}: expected (smallest, largest).") from error
    smallest = check_count(smallest, "the smallest bag_size")
    return smallest, check_count(largest, "the largest bag_size", at_least=smallest)


def _annulus(rng: np.random.RandomState, n: int, inner: float, outer: float) -> Floats:
    """Draw points uniformly from a ring around the origin, or from a disc."""
    radius = np.sqrt(rng.uniform(inner**2, outer**2, size=n))
    angle = rng.uniform(0, 2 * np.pi, size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])

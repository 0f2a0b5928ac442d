"""Generated bags: the synthetic set of the pdMISVM paper, and MNIST-bags."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch, check_random_state, check_scalar, check_X_y

from bagwise._common.types import Bools, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.datasets._registry import bag_bunch, dataset_info
from bagwise.exceptions import InputError

MOST_DRAWS = 100_000  # per bag; more means that bags of the required label are too rare


def make_bags(
    n_bags: int = 100,
    n_features: int = 10,
    *,
    n_classes: int = 2,
    bag_size: tuple[int, int] = (3, 5),
    separation: float = 4.0,
    noise: float = 1.0,
    random_state: Any = None,
) -> Bunch:
    """Generate bags in which only the first instance depends on the class.

    The synthetic set of the pdMISVM paper: the first instance comes from the normal cluster of its
    class (standard deviation 1), the others are uniform noise. The paper uses 10 to 1,000 bags of
    3 to 5 instances with 10 to 1,000 features; it does not state the distance of the clusters or
    the range of the noise, hence `separation` and `noise`.

    Parameters
    ----------
    n_bags : int, default=100
        Number of bags; classes are of equal size, up to one bag.
    n_features : int, default=10
        Number of features.
    n_classes : int, default=2
        Number of clusters, at most `n_features`.
    bag_size : tuple (smallest, largest), default=(3, 5)
        Number of instances of a bag, drawn uniformly.
    separation : float, default=4.0
        Distance between any two cluster centres, in standard deviations.
    noise : float, default=1.0
        Noise is uniform between ``-noise`` and ``noise`` in each feature.
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
    classifications", ICDM 2021 (Section III-A).

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> data = make_bags(n_bags=30, n_features=5, random_state=0)
    >>> len(data.bags), data.bags.n_features, sorted(set(data.bags.sizes.tolist()))
    (30, 5, [3, 4, 5])
    """
    check_scalar(n_bags, "n_bags", Integral, min_val=1)
    check_scalar(n_classes, "n_classes", Integral, min_val=2)
    if n_classes > n_features:
        raise InputError(
            f"n_classes is {n_classes} and n_features {n_features}: clusters at equal distances "
            "need at least as many features as classes."
        )
    smallest, largest = bag_size
    check_scalar(smallest, "the smallest bag_size", Integral, min_val=1)
    check_scalar(largest, "the largest bag_size", Integral, min_val=smallest)
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_bags) % n_classes)
    offsets = offsets_of(rng.randint(smallest, largest + 1, size=n_bags))
    X = rng.uniform(-noise, noise, size=(offsets[-1], n_features))
    # Centres in random orthogonal directions: any two at the distance `separation`.
    directions = np.linalg.qr(rng.standard_normal((n_features, n_classes)))[0].T
    centres = directions * separation / np.sqrt(2)
    X[offsets[:-1]] = centres[y] + rng.standard_normal((n_bags, n_features))
    instance_labels = np.full(offsets[-1], -1)
    instance_labels[offsets[:-1]] = y
    return bag_bunch(
        dataset_info("bags"),
        Bags(X, offsets),
        y=y,
        instance_labels=instance_labels,
        key_instances=np.zeros(n_bags, dtype=np.int64),
        classes=np.arange(n_classes),
    )


def make_digit_bags(
    n_bags: int = 200,
    *,
    target: int = 9,
    mean_size: float = 10.0,
    std_size: float = 2.0,
    positive_share: float = 0.5,
    digits: tuple[ArrayLike, ArrayLike] | None = None,
    random_state: Any = None,
) -> Bunch:
    """Generate bags of digits that are positive if they contain the target digit.

    As for MNIST-bags, a bag has a normally distributed number of digits (rounded, at
    least one), each drawn at random from all digits; bags are drawn until there are enough
    positive and negative ones. A digit may occur in several bags. With the default
    sizes about one digit in eight of a positive bag is a 9.

    Parameters
    ----------
    n_bags : int, default=200
        Number of bags; 200 as in the pdMISVM paper.
    target : int, default=9
        The digit that makes a bag positive.
    mean_size, std_size : float, default=10 and 2
        Mean and standard deviation of the number of digits in a bag.
    positive_share : float, default=0.5
        Share of positive bags, exact up to rounding.
    digits : tuple (X, y), default=None
        Images as rows and their digits, such as MNIST's; scikit-learn's 8 x 8 digits by default.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        - ``bags``: the digits of each bag, 64 features by default;
        - ``y``: 1 if the bag contains the target, else 0; ``classes`` names them;
        - ``instance_labels``: 1 if the instance is the target, else 0;
        - ``digits``: the digit of each instance;
        - ``feature_names``, ``DESCR``.

    References
    ----------
    Ilse, Tomczak & Welling, "Attention-based deep multiple instance learning", ICML 2018; Brand
    et al., ICDM 2021 (Section III-A).

    Examples
    --------
    >>> from bagwise.datasets import make_digit_bags
    >>> data = make_digit_bags(n_bags=20, random_state=0)
    >>> len(data.bags), data.bags.n_features, int(data.y.sum())
    (20, 64, 10)
    >>> [9 in digits for digits in data.bags.split(data.digits)] == (data.y == 1).tolist()
    True
    """
    check_scalar(n_bags, "n_bags", Integral, min_val=1)
    check_scalar(positive_share, "positive_share", Real, min_val=0, max_val=1)
    rng = check_random_state(random_state)
    if digits is None:
        from sklearn.datasets import load_digits  # slow to import

        digits = load_digits(return_X_y=True)
    X, digit_of = check_X_y(*digits, dtype=np.float64, allow_nd=True)
    X = X.reshape(len(X), -1)
    n_positive = round(positive_share * n_bags)
    wanted = rng.permutation(np.arange(n_bags) < n_positive)
    is_target = np.asarray(digit_of == target)
    rows = [_draw_bag(rng, is_target, bool(positive), mean_size, std_size) for positive in wanted]
    picked = np.concatenate(rows)
    offsets = offsets_of([len(r) for r in rows])
    bags = Bags(X[picked], offsets, feature_names=[f"pixel {i}" for i in range(X.shape[1])])
    return bag_bunch(
        dataset_info("digit_bags"),
        bags,
        y=wanted.astype(np.int64),
        instance_labels=is_target[picked].astype(np.int64),
        digits=digit_of[picked],
        classes=np.array([f"no {target}", f"contains {target}"]),
    )


def _draw_bag(
    rng: np.random.RandomState, is_target: Bools, positive: bool, mean_size: float, std_size: float
) -> Ints:
    """Draw bags, including their size, until one has the required label."""
    for _ in range(MOST_DRAWS):
        size = max(1, round(rng.normal(mean_size, std_size)))
        rows = rng.randint(len(is_target), size=size)
        if is_target[rows].any() == positive:
            return rows
    raise InputError(
        f"no bag {'with' if positive else 'without'} the target in {MOST_DRAWS:,} draws of about "
        f"{mean_size:.3g} digits: {'raise' if positive else 'lower'} mean_size, or change target."
    )

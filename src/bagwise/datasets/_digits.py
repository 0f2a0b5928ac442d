"""Bags of handwritten digits, as in MNIST-bags."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch

from bagwise._common.types import Bools, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.datasets._draw import check_count, check_number, check_size, random_generator
from bagwise.datasets._registry import bag_bunch
from bagwise.exceptions import InputError

MOST_DRAWS = 100_000  # per bag; more means that bags of the required label are too rare


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
    n_bags = check_count(n_bags, "n_bags")
    mean_size, std_size = check_number(mean_size, "mean_size"), check_number(std_size, "std_size")
    share = check_number(positive_share, "positive_share", high=1.0)
    rng = random_generator(random_state)
    if digits is None:
        from sklearn.datasets import load_digits  # slow to import

        digits = load_digits(return_X_y=True)
    X, digit_of = _check_digits(digits)
    check_size(n_bags * mean_size * X.shape[1], "n_bags and mean_size")
    n_positive = round(share * n_bags)
    wanted = rng.permutation(np.arange(n_bags) < n_positive)
    if np.ndim(target) != 0 or not isinstance(target, Real | str):
        raise InputError(f"target is {target!r}: expected one of the digits.")
    is_target = np.asarray(digit_of == target)
    if (n_positive > 0 and not is_target.any()) or (n_positive < n_bags and is_target.all()):
        raise InputError(
            f"target is {target!r}, and the digits are {np.unique(digit_of).tolist()}: bags with "
            "and without it cannot be drawn."
        )
    rows = [_draw_bag(rng, is_target, bool(positive), mean_size, std_size) for positive in wanted]
    picked = np.concatenate(rows)
    offsets = offsets_of([len(r) for r in rows])
    bags = Bags(X[picked], offsets, feature_names=[f"pixel {i}" for i in range(X.shape[1])])
    return bag_bunch(
        "digit_bags",
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
        f"{mean_size:.3g} digits: {'raise' if positive else 'lower'} mean_size."
    )


def _check_digits(digits: Any) -> tuple[Floats, Ints]:
    try:
        X, y = digits
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.int64)
    except (TypeError, ValueError) as error:
        raise InputError(f"digits must be a pair (X, y) of numbers: {error}.") from error
    X = X.reshape(len(X), -1) if X.ndim > 2 else X
    if X.ndim != 2 or y.shape != (len(X),) or len(X) == 0:
        raise InputError(
            f"digits hold X of shape {X.shape} and y of shape {y.shape}: expected one row of X "
            "and one digit for each image."
        )
    return X, y

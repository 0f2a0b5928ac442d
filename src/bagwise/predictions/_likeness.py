"""How like the training bags a new bag is: a conformal p-value from kernel mean distances."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bagwise._common.types import Floats, Ints
from bagwise.bags import Bags
from bagwise.compute import take_rows
from bagwise.compute.arrays import dense
from bagwise.exceptions import InputError
from bagwise.validation import check_bags, check_groups

N_FEATURES = 64  # random frequencies, each with a cosine and a sine
MOST_ROWS = 200  # instances of a bag that are used
UNLIKE = 0.05  # largest p-value of bags that are reported
N_PAIRS = 2_000  # of instances, for the width of the kernel


def remember_training(model: Any, X: Any, *, groups: Any = None) -> Any:
    """Store in a fitted model what its training bags are like, for a column of `Predictions`.

    ``bagwise fit`` and `bagwise.fit` do this themselves.

    Parameters
    ----------
    model : estimator
        The fitted model; it gets the attribute ``likeness_``, which `save_model` stores.
    X : Bags or anything accepted as bags
        The training bags.
    groups : array-like of shape (n_bags,), default=None
        The group of each bag; by default those of the bags.

    Returns
    -------
    estimator
        The model.

    Examples
    --------
    >>> from bagwise.classification import SetKernelSVM
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.predictions import Predictions, remember_training
    >>> data = make_bags(n_bags=60, random_state=0)
    >>> model = SetKernelSVM().fit(data.bags[:50], data.y[:50])
    >>> model = remember_training(model, data.bags[:50])
    >>> shifted = data.bags.with_instances(data.bags.instances + 3)
    >>> Predictions(model, shifted[50:52]).bag_table()["like_training"].round(3)
    array([0.02, 0.02])
    """
    model.likeness_ = training_reference(X, groups=groups)
    return model


def training_reference(X: Any, *, groups: Any = None) -> dict[str, Any]:
    """Describe training bags, so that `like_training` can tell which new bags are unlike them.

    Each bag becomes the mean of random Fourier features of its instances, an approximation of its
    kernel mean; kept are the sum over the bags, and the distance of each bag from the mean of the
    bags of all other groups.

    Parameters
    ----------
    X : Bags or anything accepted as bags
        The training bags.
    groups : array-like of shape (n_bags,), default=None
        The group of each bag; by default those of the bags.

    Returns
    -------
    dict of ndarrays and numbers
        To store with a model: ``n_bags + 2 n_features + 128`` numbers.
    """
    bags = check_groups(groups, check_bags(None, X, reset=True, allow_nan=True))
    rows, _ = _rows(bags)
    finite = np.isfinite(rows)
    n_finite = np.maximum(finite.sum(axis=0), 1)
    mean = np.where(finite, rows, 0.0).sum(axis=0) / n_finite
    scale = np.sqrt(np.square(np.where(finite, rows - mean, 0.0)).sum(axis=0) / n_finite)
    found: dict[str, Any] = {"mean": mean, "scale": np.where(scale > 0, scale, 1.0)}
    rng = np.random.RandomState(0)
    pairs = _standardised(rows, found)[rng.randint(len(rows), size=(2, N_PAIRS))]
    apart = np.sqrt(np.square(pairs[0] - pairs[1]).sum(axis=1))
    found["width"] = float(np.median(apart)) or 1.0
    means = _kernel_means(bags, found)
    group = np.arange(len(bags))
    if bags.groups is not None:
        group = np.unique(bags.groups, return_inverse=True)[1]
    own = np.zeros((group.max() + 1, means.shape[1]))
    np.add.at(own, group, means)
    others = np.maximum(len(bags) - np.bincount(group)[group], 1)
    apart = means - (means.sum(axis=0) - own[group]) / others[:, None]
    found["distances"] = np.sort(np.sqrt(np.square(apart).sum(axis=1)))
    found["total"] = means.sum(axis=0)
    return found


def like_training(reference: Mapping[str, Any], X: Any) -> Floats:
    """Compute a p-value of each bag: is it a bag like those of the training?

    ``(1 + k) / (n + 1)``, where k of the n training bags are at least as far from the mean of the
    bags of other groups as the new bag is from the mean of all.

    Parameters
    ----------
    reference : mapping
        Result of `training_reference`.
    X : Bags or anything accepted as bags
        The bags, with the same features.

    Returns
    -------
    ndarray of shape (n_bags,)
        Uniform between 0 and 1 for bags that are exchangeable with the training bags; small for
        bags that are unlike them, such as those of another scanner.
    """
    bags = check_bags(None, X, reset=True, allow_nan=True)
    if bags.n_features != len(reference["mean"]):
        raise InputError(
            f"the bags have {bags.n_features} features, and the training bags had "
            f"{len(reference['mean'])}: give the columns of the fit."
        )
    distances = reference["distances"]
    centre = reference["total"] / len(distances)
    apart = np.sqrt(np.square(_kernel_means(bags, reference) - centre).sum(axis=1))
    farther = len(distances) - np.searchsorted(distances, apart - 1e-12)
    return (1 + farther) / (len(distances) + 1)


def _rows(bags: Bags) -> tuple[Floats, Ints]:
    """Some instances of each bag, at equal steps, and where each bag ends."""
    each = [
        np.arange(start, start + size, max(1, -(-size // MOST_ROWS)))
        for start, size in zip(bags.offsets[:-1].tolist(), bags.sizes.tolist(), strict=True)
    ]
    rows = dense(take_rows(bags, np.concatenate(each))).astype(np.float64)
    return rows, np.cumsum([0, *map(len, each)], dtype=np.int64)


def _standardised(rows: Floats, reference: Mapping[str, Any]) -> Floats:
    rows = (rows - reference["mean"]) / reference["scale"]
    return np.where(np.isfinite(rows), rows, 0.0)


def _kernel_means(bags: Bags, reference: Mapping[str, Any]) -> Floats:
    rng = np.random.RandomState(0)
    frequencies = rng.standard_normal((bags.n_features, N_FEATURES)) / reference["width"]
    found = np.empty((len(bags), 2 * N_FEATURES))
    for start in range(0, len(bags), 100):  # at most 20,000 rows
        rows, ends = _rows(bags[start : start + 100])
        angles = _standardised(rows, reference) @ frequencies
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        sums = np.add.reduceat(waves, ends[:-1]) / np.diff(ends)[:, None]
        found[start : start + 100] = sums / np.sqrt(N_FEATURES)
    return found

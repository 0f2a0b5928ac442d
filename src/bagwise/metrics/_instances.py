"""Metrics for labels, scores and clusters of instances."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import average_precision_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_consistent_length

from bagwise._common.types import Array, Bools, Floats
from bagwise.bags import Bags
from bagwise.exceptions import InputError, LabelError


def class_purity(instance_labels: ArrayLike, clusters: ArrayLike) -> float:
    r"""Accuracy when each cluster is assigned its most frequent class.

    .. math:: \frac{1}{N} \sum_k \max_c |X_k \cap C_c|

    1 is best, and is reached by one cluster per instance: compare equal numbers of clusters.
    Instances whose true label is -1 (unknown) are left out; -1 is a cluster like any other.

    Parameters
    ----------
    instance_labels : array-like of shape (n_instances,)
        True labels, integers or strings; -1 where unknown.
    clusters : array-like of shape (n_instances,)
        The cluster of each instance; names are arbitrary.

    Returns
    -------
    float
        In (0, 1].

    References
    ----------
    Pei & Fern, "Constrained instance clustering in multi-instance multi-label learning",
    Pattern Recognition Letters 37, 2014 (Eq. 16).

    Examples
    --------
    >>> from bagwise.metrics import class_purity
    >>> class_purity([0, 0, 1, 1, 1], [7, 7, 7, 8, 8])
    0.8
    """
    truth, found = _as_labels(instance_labels, "instance_labels"), _as_labels(clusters, "clusters")
    check_consistent_length(truth, found)
    known = _is_known(truth)
    if not known.any():
        raise LabelError("no instance has a known label (all are -1): nothing to measure.")
    counts = contingency_matrix(truth[known], found[known], sparse=True)
    return float(counts.max(axis=0).sum() / counts.sum())


def instance_average_precision(
    instance_labels: ArrayLike,
    scores: ArrayLike,
    *,
    label: Any = 1,
    bags: Bags | None = None,
) -> float:
    """Average precision (AUPRC) of scores or attributions as a ranking of instances.

    ``sklearn.metrics.average_precision_score``, where instances of one label are positive and
    those of all other labels negative.

    Parameters
    ----------
    instance_labels : array-like of shape (n_instances,)
        True labels, integers or strings; instances with -1 (unknown) are left out.
    scores : array-like of shape (n_instances,)
        Scores or attributions, higher for instances of the label.
    label : default=1
        The label that the scores should rank first.
    bags : Bags, default=None
        With bags, instances are ranked inside their bag, and the result is the mean over the bags
        that contain the label. Use it for attributions, which are not comparable between bags.

    Returns
    -------
    float
        In (0, 1]. Random scores reach the share of instances with the label.

    Examples
    --------
    >>> from bagwise.metrics import instance_average_precision
    >>> instance_average_precision([0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7])
    0.8333333333333333
    """
    truth = _as_labels(instance_labels, "instance_labels")
    values = as_numbers(scores, "scores")
    if values.shape != truth.shape or not np.isfinite(values).all():
        raise InputError(
            f"scores have shape {values.shape} for {len(truth)} instance labels: expected one "
            "finite number per instance."
        )
    known = _is_known(truth)
    positive = truth == label
    offsets = [0, len(truth)] if bags is None else bags.offsets.tolist()
    if offsets[-1] != len(truth):
        raise InputError(f"{len(truth)} labels for the {offsets[-1]} instances of the bags.")
    found = [
        average_precision_score(positive[rows][known[rows]], values[rows][known[rows]])
        for rows in itertools.starmap(slice, itertools.pairwise(offsets))
        if (positive[rows] & known[rows]).any()
    ]
    if not found:
        raise LabelError(f"no instance has the label {label!r}: nothing to find.")
    return float(np.mean(found))


def as_numbers(values: ArrayLike, name: str) -> Floats:
    """Read an array of numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise InputError(f"{name} are not numbers: {cause}.") from cause


def _is_known(labels: Array) -> Bools:
    return labels != (-1 if labels.dtype.kind in "iu" else "-1")


def _as_labels(values: ArrayLike, name: str) -> Array:
    """Convert labels to a 1-D array of integers or strings."""
    array = np.asarray(values)
    array = np.array(array.tolist()) if array.dtype == object else array
    whole = array.dtype.kind == "f" and bool((array == np.round(array)).all())
    if array.ndim != 1 or not (whole or array.dtype.kind in "iubU"):
        raise LabelError(
            f"{name} has shape {array.shape} and type {array.dtype}: expected a label per instance,"
            " as an integer or a string (-1 where unknown)."
        )
    return array if array.dtype.kind == "U" else array.astype(np.int64)

"""Metrics for instances and clusters, and for rankings of the labels of each bag."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, label_ranking_average_precision_score
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
    instance_labels: ArrayLike, scores: ArrayLike, *, label: Any = 1, bags: Bags | None = None
) -> float:
    """Average precision (AUPRC) of scores or attributions as a ranking of instances.

    ``sklearn.metrics.average_precision_score``, where instances of one label are positive and
    the scores of all other labels negative.

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


def one_error(label_sets: ArrayLike, scores: ArrayLike) -> float:
    r"""Share of bags whose highest-scored label is not in their label set.

    .. math:: \frac{1}{n} \sum_i [\arg\max_c s_{ic} \notin Y_i]

    0 is best. Labels tied for the highest score must all be in the set: ties are resolved in
    the least favourable order, as in :func:`coverage` and :func:`average_precision`. A bag with an
    empty label set counts 0.

    Parameters
    ----------
    label_sets : array-like or sparse of shape (n_bags, n_classes)
        1 if the bag has the label, else 0; -1 leaves a label out, a row of -1 the bag.
    scores : array-like of shape (n_bags, n_classes)
        The higher, the more likely. Only their order inside a row matters; infinities are fine.

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Schapire & Singer, "BoosTexter: a boosting-based system for text categorization", Machine
    Learning 39, 2000; used by Jin, Wang & Zhou, "Learning a distance metric from multi-instance
    multi-label data", CVPR 2009, and Law et al., CVPR 2017 (Table 4).

    Examples
    --------
    >>> from bagwise.metrics import one_error
    >>> one_error([[1, 0, 1], [0, 1, 0]], [[0.9, 0.1, 0.5], [0.8, 0.7, 0.1]])
    0.5
    """
    relevant, score = _ranked_bags(label_sets, scores)
    top = score == score.max(axis=1, keepdims=True)
    wrong = (top & ~relevant).any(axis=1) & relevant.any(axis=1)
    return float(wrong.mean())


def coverage(label_sets: ArrayLike, scores: ArrayLike) -> float:
    r"""Average depth of the ranking that is needed to cover all labels of a bag.

    .. math:: \frac{1}{n} \sum_i \Bigl(\max_{c \in Y_i} \mathrm{rank}_i(c) - 1\Bigr),
              \qquad \mathrm{rank}_i(c) = |\{k : s_{ik} \ge s_{ic}\}|

    Counted from 0: a bag with one label, ranked first, has coverage 0. If no label set is empty,
    this is ``sklearn.metrics.coverage_error`` minus 1, with the same rule for ties: tied labels all
    get the last of their ranks. A bag with an empty label set counts 0; one with every label counts
    ``n_classes - 1``.

    Parameters
    ----------
    label_sets : array-like or sparse of shape (n_bags, n_classes)
        1 if the bag has the label, else 0; -1 leaves a label out, a row of -1 the bag.
    scores : array-like of shape (n_bags, n_classes)
        The higher, the more likely. Only their order inside a row matters; infinities are fine.

    Returns
    -------
    float
        In [0, n_classes - 1]; lower is better.

    References
    ----------
    Schapire & Singer 2000; Jin, Wang & Zhou, CVPR 2009; Law et al., CVPR 2017 (Table 4).

    Examples
    --------
    >>> from bagwise.metrics import coverage
    >>> coverage([[1, 0, 1], [0, 1, 0]], [[0.9, 0.1, 0.5], [0.8, 0.7, 0.1]])
    1.0
    """
    relevant, score = _ranked_bags(label_sets, scores)
    deepest = np.where(relevant, _ranks(score), 1).max(axis=1)
    return float((deepest - 1).mean())


def average_precision(label_sets: ArrayLike, scores: ArrayLike) -> float:
    r"""Label ranking average precision.

    .. math:: \frac{1}{n} \sum_i \frac{1}{|Y_i|} \sum_{c \in Y_i}
              \frac{|\{k \in Y_i : s_{ik} \ge s_{ic}\}|}{|\{k : s_{ik} \ge s_{ic}\}|}

    For each label of a bag, the share of labels of the bag among those ranked at least as high. 1
    is best. Equal to ``sklearn.metrics.label_ranking_average_precision_score``: ties count against
    the ranking, and a bag whose label set is empty or full, for which every order is correct,
    counts 1.

    Parameters
    ----------
    label_sets : array-like or sparse of shape (n_bags, n_classes)
        1 if the bag has the label, else 0; -1 leaves a label out, a row of -1 the bag.
    scores : array-like of shape (n_bags, n_classes)
        The higher, the more likely. Only their order inside a row matters; infinities are fine.

    Returns
    -------
    float
        In (0, 1].

    References
    ----------
    Schapire & Singer 2000; Jin, Wang & Zhou, CVPR 2009; Law et al., CVPR 2017 (Table 4).

    Examples
    --------
    >>> from bagwise.metrics import average_precision
    >>> average_precision([[1, 0, 1], [0, 1, 0]], [[0.9, 0.1, 0.5], [0.8, 0.7, 0.1]])
    0.75
    """
    relevant, score = _ranked_bags(label_sets, scores)
    return float(label_ranking_average_precision_score(relevant, -_ranks(score)))


def _ranks(scores: Array) -> Array:
    """Rank the scores of each row, 1 for the highest; ties all get the last of their ranks."""
    return rankdata(-scores, method="max", axis=1)


def _ranked_bags(label_sets: ArrayLike, scores: ArrayLike) -> tuple[Bools, Floats]:
    """Check label sets and scores; leave out unknown sets, and rank unknown labels last."""
    if sparse.issparse(label_sets):
        label_sets = label_sets.toarray()  # type: ignore[union-attr]
    sets = as_numbers(label_sets, "label_sets")
    score = as_numbers(scores, "scores")
    if sets.ndim != 2 or score.shape != sets.shape or not sets.size:
        raise LabelError(
            f"expected (n_bags, n_classes): label_sets {sets.shape} and scores {score.shape}."
        )
    known = ~(sets == -1).all(axis=1)
    if not known.any():
        raise LabelError("every row of label_sets is -1 (nothing known): nothing to measure.")
    odd = known[:, None] & (~np.isin(sets, (-1, 0, 1)) | np.isnan(score))
    for bag, label in np.argwhere(odd)[:1]:
        raise LabelError(
            f"label_sets contain {sets[bag, label]} and scores {score[bag, label]} for bag {bag}, "
            f"class {label}: expected 0 or 1 (-1 if that is unknown), and a number."
        )
    return sets[known] == 1, np.where(sets == -1, -np.inf, score)[known]

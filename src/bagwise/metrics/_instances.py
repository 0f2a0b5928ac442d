"""Metrics for one label, or one cluster, per instance."""

import itertools
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import average_precision_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags
from bagwise.exceptions import InputError, LabelError


def instance_accuracy(instance_labels: ArrayLike, predictions: ArrayLike) -> float:
    r"""Share of instances that received their true label.

    .. math:: \frac{1}{n} \sum_j [\hat y_j = y_j]

    Instances whose true label is -1 (unknown) are left out. A prediction of -1 (unassigned)
    counts as wrong.

    Parameters
    ----------
    instance_labels : array-like of shape (n_instances,)
        True labels, integers or strings; -1 where unknown.
    predictions : array-like of shape (n_instances,)
        Predicted labels, of the same kind.

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Pham, Raich & Fern, "Efficient instance annotation in multi-instance learning", SSP 2014
    (Table 2).

    Examples
    --------
    >>> from bagwise.metrics import instance_accuracy
    >>> instance_accuracy([0, 1, 2, -1], [0, 1, 1, 2])
    0.6666666666666666
    """
    truth, predicted = _known_pairs(instance_labels, predictions, "predictions")
    return float((truth == predicted).mean())


def per_category_accuracy(
    instance_labels: ArrayLike, predictions: ArrayLike, *, min_category_size: int = 1
) -> float:
    r"""Accuracy inside each category, averaged over categories.

    .. math:: \frac{1}{|\mathcal C|} \sum_{c \in \mathcal C}
              \frac{|\{j : y_j = c, \hat y_j = c\}|}{|\{j : y_j = c\}|}

    Every category has the same weight: scikit-learn calls this the balanced accuracy. It is the
    "accuracy" of Tables 1-3 of Law et al., who count only categories with at least five test
    instances (``min_category_size=5``). Predictions may be any category, counted or not.

    Parameters
    ----------
    instance_labels : array-like of shape (n_instances,)
        True labels, integers or strings; instances with -1 (unknown) are left out.
    predictions : array-like of shape (n_instances,)
        Predicted labels, of the same kind.
    min_category_size : int, default=1
        Categories with fewer instances are left out.

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Law, Yu, Urtasun, Zemel & Xing, "Efficient multiple instance metric learning using weakly
    supervised data", CVPR 2017 (Section 4.1).

    Examples
    --------
    >>> from bagwise.metrics import per_category_accuracy
    >>> per_category_accuracy([0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1])
    0.75
    """
    category, right = _large_categories(instance_labels, predictions, min_category_size)
    per_category = np.bincount(category, weights=right) / np.bincount(category)
    return float(per_category.mean())


def naming_precision(
    instance_labels: ArrayLike, predictions: ArrayLike, *, min_category_size: int = 5
) -> float:
    r"""Share of correctly named instances among those of the larger categories.

    .. math:: \frac{\sum_{c \in \mathcal C} |\{j : y_j = c, \hat y_j = c\}|}
                   {\sum_{c \in \mathcal C} |\{j : y_j = c\}|},
              \qquad \mathcal C = \{c : |\{j : y_j = c\}| \ge m\}

    The "precision" of Tables 1-3 of Law et al.: correctly named faces over all faces with a known
    name, in categories with at least `min_category_size` test faces. Unlike
    :func:`per_category_accuracy`, a frequent person has more weight. With ``min_category_size=1``
    it is :func:`instance_accuracy`.

    Parameters
    ----------
    instance_labels : array-like of shape (n_instances,)
        True labels, integers or strings; instances with -1 (unknown) are left out.
    predictions : array-like of shape (n_instances,)
        Predicted labels, of the same kind.
    min_category_size : int, default=5
        Categories with fewer instances are left out.

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Guillaumin, Verbeek & Schmid, "Multiple instance metric learning from automatically labeled
    bags of faces", ECCV 2010; Law et al., CVPR 2017 (Section 4.1, Tables 1-3).

    Examples
    --------
    >>> from bagwise.metrics import naming_precision
    >>> naming_precision([0] * 5 + [1], [0, 0, 0, 0, 1, 0])
    0.8
    """
    _, right = _large_categories(instance_labels, predictions, min_category_size)
    return float(right.mean())


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
    counts = contingency_matrix(
        *_known_pairs(instance_labels, clusters, "clusters", same_kind=False), sparse=True
    )
    return float(counts.max(axis=0).sum() / counts.sum())


def normalized_mutual_info(instance_labels: ArrayLike, clusters: ArrayLike) -> float:
    r"""Mutual information of clusters and classes, normalised to [0, 1].

    .. math:: \frac{2 I(X; C)}{H(X) + H(C)}

    ``sklearn.metrics.normalized_mutual_info_score`` with the arithmetic mean, on the instances
    with a known label. As in scikit-learn, one class in one cluster gives 1.

    Parameters
    ----------
    instance_labels : array-like of shape (n_instances,)
        True labels, integers or strings; -1 where unknown.
    clusters : array-like of shape (n_instances,)
        The cluster of each instance; names are arbitrary.

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Pei & Fern 2014 (Eq. 15).

    Examples
    --------
    >>> from bagwise.metrics import normalized_mutual_info
    >>> normalized_mutual_info([0, 0, 1, 1], [5, 5, 9, 9])
    1.0
    >>> normalized_mutual_info([0, 0, 1, 1], [5, 9, 5, 9])
    0.0
    """
    pairs = _known_pairs(instance_labels, clusters, "clusters", same_kind=False)
    return float(normalized_mutual_info_score(*pairs))


def instance_calibration_error(
    instance_labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    n_bins: int = 10,
) -> float:
    r"""Expected calibration error of the predicted labels of instances.

    .. math:: \sum_k \frac{n_k}{n} |\mathrm{accuracy}_k - \mathrm{confidence}_k|

    where the bins k divide the highest probability of each instance into intervals of equal width:
    labels with probability 0.8 should be correct in 80 % of the cases.

    Parameters
    ----------
    instance_labels : array-like of shape (n_instances,)
        True labels; instances with -1 (unknown) are left out.
    probabilities : array-like of shape (n_instances, n_classes)
        Probabilities of the classes, such as from ``predict_proba_instances`` or
        ``annotate_proba``.
    classes : array-like of shape (n_classes,), default=None
        The label of each column, ``model.classes_``; 0, 1, 2, ... by default.
    n_bins : int, default=10
        Number of bins.

    Returns
    -------
    float
        In [0, 1]; 0 is perfectly calibrated. With few instances per bin, part of it is chance.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks", ICML 2017.

    Examples
    --------
    >>> from bagwise.metrics import instance_calibration_error
    >>> proba = [[0.8, 0.2], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]
    >>> round(instance_calibration_error([0, 1, 1, -1], proba), 3)
    0.333
    """
    proba = as_numbers(probabilities, "probabilities")
    if proba.ndim != 2 or not ((proba >= 0) & (proba <= 1 + 1e-6)).all():
        raise InputError(
            f"probabilities have shape {proba.shape}: expected numbers from 0 to 1, of shape "
            "(n_instances, n_classes)."
        )
    names = np.arange(proba.shape[1]) if classes is None else as_labels(classes, "classes")
    if len(names) != proba.shape[1]:
        raise InputError(f"{len(names)} classes for {proba.shape[1]} columns of probabilities.")
    if not (isinstance(n_bins, numbers.Integral) and n_bins >= 1):
        raise InputError(f"n_bins is {n_bins!r}: expected a whole number, 1 or more.")
    truth, named = _known_pairs(instance_labels, names[proba.argmax(axis=1)], "probabilities")
    known = as_labels(instance_labels, "instance_labels")
    sure = proba.max(axis=1)[_is_known(known)]
    bins = np.minimum((sure * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, sure - (truth == named))
    return float(np.abs(gaps).sum() / len(sure))


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
    truth = as_labels(instance_labels, "instance_labels")
    values = as_numbers(scores, "scores")
    if values.shape != truth.shape or not np.isfinite(values).all():
        raise InputError(
            f"scores have shape {values.shape} for {len(truth)} instance labels: expected one "
            "finite number per instance."
        )
    known = _is_known(truth)
    positive = truth == label
    if bags is None:
        cut = [slice(None)]
    elif bags.n_instances == len(truth):
        cut = [slice(a, b) for a, b in itertools.pairwise(bags.offsets)]
    else:
        raise InputError(f"{len(truth)} labels for the {bags.n_instances} instances of the bags.")
    found = [
        average_precision_score(positive[rows][known[rows]], values[rows][known[rows]])
        for rows in cut
        if (positive[rows] & known[rows]).any()
    ]
    if not found:
        raise LabelError(f"no instance has the label {label!r}: nothing to find.")
    return float(np.mean(found))


def _large_categories(
    instance_labels: ArrayLike, predictions: ArrayLike, min_category_size: int
) -> tuple[Ints, Bools]:
    """Category (renumbered) and correctness of the instances in large enough categories."""
    truth, predicted = _known_pairs(instance_labels, predictions, "predictions")
    _, category, sizes = np.unique(truth, return_inverse=True, return_counts=True)
    large = sizes >= min_category_size
    if not large.any():
        raise LabelError(
            f"no category has min_category_size={min_category_size} instances (the largest has "
            f"{sizes.max()}): lower min_category_size."
        )
    renumbered = np.cumsum(large) - 1
    kept = large[category]
    return renumbered[category[kept]], (truth == predicted)[kept]


def _known_pairs(
    instance_labels: ArrayLike, other: ArrayLike, name: str, *, same_kind: bool = True
) -> tuple[Array, Array]:
    """Check both arrays and keep the instances whose true label is known."""
    truth, values = as_labels(instance_labels, "instance_labels"), as_labels(other, name)
    if len(truth) != len(values):
        raise LabelError(
            f"instance_labels has {len(truth)} entries and {name} {len(values)}: give one each "
            "per instance."
        )
    known = _is_known(truth)
    if not known.any():
        raise LabelError("no instance has a known label (all are -1): nothing to measure.")
    if same_kind and (truth.dtype.kind == "U") != (values.dtype.kind == "U"):
        raise LabelError(
            f"instance_labels holds {kind_of(truth)} and {name} {kind_of(values)}: convert one "
            "to the other, for example with classes[instance_labels]."
        )
    return truth[known], values[known]


def as_numbers(values: ArrayLike, name: str, error: type[InputError] = InputError) -> Floats:
    """Read an array of numbers."""
    try:
        if np.iscomplexobj(values):
            raise TypeError("they are complex")
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise error(f"{name} are not numbers: {cause}.") from cause


def _is_known(labels: Array) -> Bools:
    return labels != (-1 if labels.dtype.kind in "iu" else "-1")


def as_labels(values: ArrayLike, name: str) -> Array:
    """Convert labels to a 1-D array of integers or strings."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as cause:
        raise LabelError(f"{name} is not a list of labels: {cause}") from cause
    if array.ndim != 1:
        raise LabelError(f"{name} has shape {array.shape}: expected one label per instance, 1-D.")
    if array.dtype.kind == "O":
        array = _from_objects(array)
    # Float labels are accepted if they are exact integers.
    whole = array.dtype.kind == "f" and np.all((array == np.round(array)) & (abs(array) < 2**53))
    if whole or array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array
    raise LabelError(
        f"{name} has type {array.dtype}: expected labels, as whole numbers or strings (-1 where "
        "unknown)."
    )


def _from_objects(labels: Array) -> Array:
    """Convert Python objects to integers, or to strings; the integer -1 becomes "-1" (unknown)."""
    integers = [isinstance(v, int | np.integer) for v in labels]
    if all(integers) and all(abs(int(v)) < 2**63 for v in labels):
        return labels.astype(np.int64)
    if all(isinstance(v, str) or (i and v == -1) for v, i in zip(labels, integers, strict=True)):
        return labels.astype(str)
    return labels


def kind_of(labels: Array) -> str:
    """Name the type of the labels for an error message."""
    return "strings" if labels.dtype.kind == "U" else "integers"

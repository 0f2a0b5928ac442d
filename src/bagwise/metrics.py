"""How good are the answers? Measures for rankings of labels, instance labels, clusters and regions.

Three families, each in the words of the paper that uses it:

- rankings of labels per bag: :func:`one_error`, :func:`coverage`, :func:`average_precision`;
- one label per instance: :func:`instance_accuracy`, :func:`per_category_accuracy`,
  :func:`naming_precision`, :func:`class_purity`, :func:`normalized_mutual_info`;
- regions of interest: :func:`roi_success_rate`, :func:`roi_success_rate_relevant`,
  :func:`roi_success_rate_predicted`, fed by :func:`roi_hits`.

Instances whose true label is -1 (unknown) are left out of every instance measure, and bags whose
row of `label_sets` is -1 throughout (nothing known) are left out of every ranking measure.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bagwise.bags import Bags
from bagwise.exceptions import InputError, LabelError

__all__ = [
    "average_precision",
    "class_purity",
    "coverage",
    "instance_accuracy",
    "naming_precision",
    "normalized_mutual_info",
    "one_error",
    "per_category_accuracy",
    "roi_hits",
    "roi_success_rate",
    "roi_success_rate_predicted",
    "roi_success_rate_relevant",
]


# --- Rankings of labels -------------------------------------------------------------------------


def one_error(label_sets: ArrayLike, scores: ArrayLike) -> float:
    r"""Share of bags whose highest-scored label is not in their label set.

    .. math:: \frac{1}{n} \sum_i [\arg\max_c s_{ic} \notin Y_i]

    0 is best. Labels tied for the highest score must all be in the set: the measure is that of
    the least lucky order, as in :func:`coverage` and :func:`average_precision`. A bag with an
    empty label set asks for nothing and counts 0.

    Parameters
    ----------
    label_sets : array-like or sparse of shape (n_bags, n_classes)
        1 where the bag carries the label, 0 where not; a row of -1 leaves the bag out.
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
    r"""How far down the ranking one must go to meet every label of a bag, on average.

    .. math:: \frac{1}{n} \sum_i \Bigl(\max_{c \in Y_i} \mathrm{rank}_i(c) - 1\Bigr),
              \qquad \mathrm{rank}_i(c) = |\{k : s_{ik} \ge s_{ic}\}|

    Counted from 0: a bag with one label, ranked first, has coverage 0. Where no label set is
    empty this is ``sklearn.metrics.coverage_error`` minus 1. Tied labels all take their last
    place, as there. A bag with an empty label set counts 0; one that carries every label counts
    ``n_classes - 1``.

    Parameters
    ----------
    label_sets : array-like or sparse of shape (n_bags, n_classes)
        1 where the bag carries the label, 0 where not; a row of -1 leaves the bag out.
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
    r"""Label ranking average precision: how pure the ranking is above each label of a bag.

    .. math:: \frac{1}{n} \sum_i \frac{1}{|Y_i|} \sum_{c \in Y_i}
              \frac{|\{k \in Y_i : s_{ik} \ge s_{ic}\}|}{|\{k : s_{ik} \ge s_{ic}\}|}

    1 is best. Equal to ``sklearn.metrics.label_ranking_average_precision_score``: ties count
    against the ranking, and a bag whose label set is empty or full, where every order is right,
    counts 1.

    Parameters
    ----------
    label_sets : array-like or sparse of shape (n_bags, n_classes)
        1 where the bag carries the label, 0 where not; a row of -1 leaves the bag out.
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
    rank = _ranks(score)
    # Rank among the labels of the bag: the others are sent past every possible rank.
    rank_inside = _ranks(-np.where(relevant, rank, rank.shape[1] + 1))
    n_labels = relevant.sum(axis=1)
    precision = np.where(relevant, rank_inside / rank, 0.0).sum(axis=1)
    per_bag = np.where(n_labels > 0, precision / np.maximum(n_labels, 1), 1.0)
    return float(per_bag.mean())


def _ranks(scores: NDArray[Any]) -> NDArray[Any]:
    """Rank 1 for the highest score of each row; tied scores all take their last place."""
    from scipy.stats import rankdata  # heavy to import, and only rankings need it

    return rankdata(-scores, method="max", axis=1)


def _ranked_bags(
    label_sets: ArrayLike, scores: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Check label sets and scores, and leave out the bags about which nothing is known."""
    sets = _numbers(label_sets, "label_sets", LabelError)
    score = _numbers(scores, "scores", InputError)
    if sets.ndim != 2 or score.shape != sets.shape:
        raise LabelError(
            f"label_sets have shape {sets.shape} and scores {score.shape}: expected both as "
            "(n_bags, n_classes)."
        )
    if 0 in sets.shape:
        raise LabelError(f"label_sets have shape {sets.shape}: there is nothing to measure.")
    known = ~(sets == -1).all(axis=1)
    strange = np.argwhere(~np.isin(sets, (0, 1)) & known[:, None])
    if len(strange):
        bag, label = strange[0]
        raise LabelError(
            f"label_sets hold {sets[bag, label]} for bag {bag}, class {label}: expected 0 or 1 "
            "(or a whole row of -1 for a bag about which nothing is known)."
        )
    if not known.any():
        raise LabelError("every row of label_sets is -1 (nothing known): nothing to measure.")
    missing = np.argwhere(np.isnan(score) & known[:, None])
    if len(missing):
        bag, label = missing[0]
        raise InputError(f"scores are NaN for bag {bag}, class {label}: expected numbers.")
    return sets[known] == 1, score[known]


def _numbers(values: Any, name: str, error: type[InputError]) -> NDArray[np.float64]:
    if sparse.issparse(values):
        values = values.toarray()
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise error(
            f"{name} cannot be read as numbers ({cause}): expected an array of shape "
            "(n_bags, n_classes)."
        ) from cause


# --- One label per instance ---------------------------------------------------------------------


def instance_accuracy(instance_labels: ArrayLike, predictions: ArrayLike) -> float:
    r"""Share of instances that received their true label.

    .. math:: \frac{1}{n} \sum_j [\hat y_j = y_j]

    Instances whose true label is -1 (unknown) are left out; a prediction of -1 (unassigned) is
    an answer like any other, and wrong.

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

    Every category weighs the same, however rare: scikit-learn calls this the balanced accuracy.
    It is the "accuracy" of Tables 1-3 of Law et al., who count only categories with at least
    five test instances (``min_category_size=5``). Predictions may be any category, counted or
    not.

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

    The "precision" of Tables 1-3 of Law et al.: correctly named faces over all faces with a
    known name, in categories with at least `min_category_size` test faces. Unlike
    :func:`per_category_accuracy`, a frequent person weighs more. With ``min_category_size=1`` it
    is :func:`instance_accuracy`.

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
    r"""Accuracy when each cluster is given its most frequent class.

    .. math:: \frac{1}{N} \sum_k \max_c |X_k \cap C_c|

    1 is best, and is reached by one cluster per instance: compare equal numbers of clusters.
    Instances whose true label is -1 (unknown) are left out; a cluster called -1 is a cluster.

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
    counts = _contingency(instance_labels, clusters)
    return float(counts.max(axis=0).sum() / counts.sum())


def normalized_mutual_info(instance_labels: ArrayLike, clusters: ArrayLike) -> float:
    r"""Information shared by clusters and classes, between 0 and 1.

    .. math:: \frac{2 I(X; C)}{H(X) + H(C)}

    ``sklearn.metrics.normalized_mutual_info_score`` with its arithmetic mean, on the instances
    with a known label. One class in one cluster counts 1, as there.

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
    counts = _contingency(instance_labels, clusters).tocoo()
    n = counts.sum()
    in_class, in_cluster = (np.asarray(counts.sum(axis=axis)).ravel() for axis in (1, 0))
    entropies = _entropy(in_class / n) + _entropy(in_cluster / n)
    if entropies == 0:
        return 1.0
    joint = counts.data / n
    independent = in_class[counts.row] * in_cluster[counts.col] / n**2
    information = float(np.sum(joint * np.log(joint / independent)))
    return min(max(2 * information / entropies, 0.0), 1.0)


def _entropy(shares: NDArray[np.float64]) -> float:
    return float(-np.sum(shares * np.log(shares)))


def _contingency(instance_labels: ArrayLike, clusters: ArrayLike) -> Any:
    """Instances per class (rows) and cluster (columns), as a sparse matrix."""
    truth, cluster = _known_pairs(instance_labels, clusters, "clusters", same_kind=False)
    rows = np.unique(truth, return_inverse=True)[1]
    columns = np.unique(cluster, return_inverse=True)[1]
    return sparse.coo_array((np.ones(len(rows)), (rows, columns))).tocsr()


def _large_categories(
    instance_labels: ArrayLike, predictions: ArrayLike, min_category_size: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Of the instances of categories large enough: the category, numbered anew, and if right."""
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
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both arrays checked, on the instances whose true label is known."""
    truth, values = _labels(instance_labels, "instance_labels"), _labels(other, name)
    if len(truth) != len(values):
        raise LabelError(
            f"instance_labels has {len(truth)} entries and {name} {len(values)}: give one each "
            "per instance."
        )
    known = truth != (-1 if truth.dtype.kind in "iu" else "-1")
    if not known.any():
        raise LabelError("no instance has a known label (all are -1): nothing to measure.")
    if same_kind and (truth.dtype.kind == "U") != (values.dtype.kind == "U"):
        raise LabelError(
            f"instance_labels holds {_kind(truth)} and {name} {_kind(values)}: translate one "
            "into the other, for example with classes[instance_labels]."
        )
    return truth[known], values[known]


def _labels(values: ArrayLike, name: str) -> NDArray[Any]:
    """Labels as a 1-D array of integers or strings."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as cause:
        raise LabelError(f"{name} is not a list of labels: {cause}") from cause
    if array.ndim != 1:
        raise LabelError(f"{name} has shape {array.shape}: expected one label per instance, 1-D.")
    if array.dtype.kind == "O":
        array = _plain(array)
    # A float label is fine while it is exactly a whole number.
    whole = array.dtype.kind == "f" and np.all((array == np.round(array)) & (abs(array) < 2**53))
    if whole or array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array
    raise LabelError(
        f"{name} has type {array.dtype}: expected labels, as whole numbers or strings (-1 where "
        "unknown)."
    )


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Python objects as integers, or as strings among which -1 stays the unknown label."""
    integers = [isinstance(v, int | np.integer) for v in labels]
    if all(integers) and all(abs(int(v)) < 2**63 for v in labels):
        return labels.astype(np.int64)
    if all(isinstance(v, str) or (i and v == -1) for v, i in zip(labels, integers, strict=True)):
        return labels.astype(str)
    return labels


def _kind(labels: NDArray[Any]) -> str:
    return "strings" if labels.dtype.kind == "U" else "integers"


# --- Regions of interest ------------------------------------------------------------------------


def roi_hits(
    bags: Bags, key_instances: ArrayLike, instance_labels: ArrayLike, *, label: Any = 1
) -> NDArray[np.bool_]:
    """Whether the key instance of each bag is a true region of interest.

    Parameters
    ----------
    bags : Bags
        The bags (images).
    key_instances : array-like of shape (n_bags,)
        The row, from 0 inside its bag, that the model points to: ``key_instances(bags)`` of an
        estimator.
    instance_labels : array-like of shape (n_instances,)
        True labels; an instance with -1 (unknown) is never a hit.
    label : default=1
        The label of true regions of interest.

    Returns
    -------
    ndarray of bool of shape (n_bags,)

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.metrics import roi_hits
    >>> bags = Bags(np.zeros((5, 1)), [0, 2, 5])
    >>> roi_hits(bags, [1, 0], [0, 1, 0, 1, 1])
    array([ True, False])
    """
    rows = _labels(key_instances, "key_instances")
    truth = _labels(instance_labels, "instance_labels")
    if rows.dtype.kind == "U" or len(rows) != len(bags):
        raise LabelError(
            f"key_instances has {len(rows)} entries ({_kind(rows)}) for {len(bags)} bags: expected "
            "one row number per bag."
        )
    if len(truth) != bags.n_instances:
        raise LabelError(
            f"instance_labels has {len(truth)} entries for {bags.n_instances} instances."
        )
    outside = np.flatnonzero((rows < 0) | (rows >= bags.sizes))
    if len(outside):
        bag = int(outside[0])
        raise LabelError(
            f"the key instance of {bags.name_of(bag)} is row {rows[bag]}, but the bag has "
            f"{bags.sizes[bag]} instances: rows count from 0 inside each bag."
        )
    return _carries(truth, label, "instance_labels")[bags.offsets[:-1] + rows]


def roi_success_rate(
    y_true: ArrayLike, y_pred: ArrayLike, hits: ArrayLike, *, pos_label: Any = 1
) -> float:
    r"""Success in locating regions of interest: the F-mean of the two rates below.

    .. math:: \frac{2 \, \#\text{successes}}{\#\text{relevant} + \#\text{predicted relevant}}

    A success is a relevant bag (image), predicted relevant, whose returned instance is a true
    region of interest. This is the harmonic mean of :func:`roi_success_rate_relevant` (Eq. 33)
    and :func:`roi_success_rate_predicted` (Eq. 34), and the measure of Table 10 of the paper.

    Parameters
    ----------
    y_true : array-like of shape (n_bags,)
        True bag labels.
    y_pred : array-like of shape (n_bags,)
        Predicted bag labels.
    hits : array-like of bool of shape (n_bags,)
        Whether the instance returned for the bag is a true region of interest, as
        :func:`roi_hits` says; read only where the bag is relevant and predicted so.
    pos_label : default=1
        The label of a relevant bag.

    Returns
    -------
    float
        In [0, 1]. 0 with scikit-learn's ``UndefinedMetricWarning`` where nothing is relevant
        and nothing predicted so.

    References
    ----------
    Li, Tsang, Kwok & Zhou, "Convex and scalable weakly labeled SVMs", JMLR 14, 2013
    (Section 5.2).

    Examples
    --------
    >>> from bagwise.metrics import roi_success_rate
    >>> roi_success_rate([1, 1, 1, 0], [1, 1, 0, 1], [True, False, True, False])
    0.3333333333333333
    """
    successes, relevant, predicted = _roi_counts(y_true, y_pred, hits, pos_label)
    return _rate(2 * successes, relevant + predicted, "no bag is relevant or predicted relevant")


def roi_success_rate_relevant(
    y_true: ArrayLike, y_pred: ArrayLike, hits: ArrayLike, *, pos_label: Any = 1
) -> float:
    r"""Success rate of relevant images (Eq. 33): successes among the relevant bags.

    .. math:: \frac{\#\text{successes}}{\#\text{relevant}}

    Parameters
    ----------
    y_true : array-like of shape (n_bags,)
        True bag labels.
    y_pred : array-like of shape (n_bags,)
        Predicted bag labels.
    hits : array-like of bool of shape (n_bags,)
        Whether the returned instance is a true region of interest (:func:`roi_hits`).
    pos_label : default=1
        The label of a relevant bag.

    Returns
    -------
    float
        In [0, 1]. 0 with scikit-learn's ``UndefinedMetricWarning`` where no bag is relevant.

    See Also
    --------
    roi_success_rate : What counts as a success, and the reference.

    Examples
    --------
    >>> from bagwise.metrics import roi_success_rate_relevant
    >>> roi_success_rate_relevant([1, 1, 0, 0], [1, 1, 1, 0], [True, False, False, False])
    0.5
    """
    successes, relevant, _ = _roi_counts(y_true, y_pred, hits, pos_label)
    return _rate(successes, relevant, "no bag is relevant")


def roi_success_rate_predicted(
    y_true: ArrayLike, y_pred: ArrayLike, hits: ArrayLike, *, pos_label: Any = 1
) -> float:
    r"""Success rate of regions of interest (Eq. 34): successes among the bags predicted relevant.

    .. math:: \frac{\#\text{successes}}{\#\text{predicted relevant}}

    Parameters
    ----------
    y_true : array-like of shape (n_bags,)
        True bag labels.
    y_pred : array-like of shape (n_bags,)
        Predicted bag labels.
    hits : array-like of bool of shape (n_bags,)
        Whether the returned instance is a true region of interest (:func:`roi_hits`).
    pos_label : default=1
        The label of a relevant bag.

    Returns
    -------
    float
        In [0, 1]. 0 with scikit-learn's ``UndefinedMetricWarning`` where none is predicted.

    See Also
    --------
    roi_success_rate : What counts as a success, and the reference.

    Examples
    --------
    >>> from bagwise.metrics import roi_success_rate_predicted
    >>> roi_success_rate_predicted([1, 1, 0, 0], [1, 0, 1, 0], [True, True, False, False])
    0.5
    """
    successes, _, predicted = _roi_counts(y_true, y_pred, hits, pos_label)
    return _rate(successes, predicted, "no bag is predicted relevant")


def _roi_counts(
    y_true: ArrayLike, y_pred: ArrayLike, hits: ArrayLike, pos_label: Any
) -> tuple[int, int, int]:
    truth, prediction = _labels(y_true, "y_true"), _labels(y_pred, "y_pred")
    hit = _labels(hits, "hits")
    if not len(truth) == len(prediction) == len(hit):
        raise LabelError(
            f"y_true has {len(truth)} entries, y_pred {len(prediction)} and hits {len(hit)}: give "
            "one each per bag."
        )
    if not np.isin(hit, (0, 1)).all():
        raise LabelError("hits hold something other than True and False: see roi_hits.")
    relevant = _carries(truth, pos_label, "y_true")
    predicted = _carries(prediction, pos_label, "y_pred")
    # An irrelevant image has no true region of interest, whatever its instances are called.
    successes = relevant & predicted & (hit == 1)
    return int(successes.sum()), int(relevant.sum()), int(predicted.sum())


def _carries(labels: NDArray[Any], label: Any, name: str) -> NDArray[np.bool_]:
    """Where `labels` equal `label`; a string is never compared with a number."""
    if len(labels) and isinstance(label, str) != (labels.dtype.kind == "U"):
        raise LabelError(
            f"{name} holds {_kind(labels)}, and the label to look for is {label!r}: name one of "
            f"{np.unique(labels)[:5].tolist()}."
        )
    return labels == label


def _rate(numerator: int, denominator: int, undefined: str) -> float:
    if denominator == 0:
        from sklearn.exceptions import UndefinedMetricWarning

        warnings.warn(f"{undefined}: the rate is set to 0.", UndefinedMetricWarning, stacklevel=3)
        return 0.0
    return numerator / denominator

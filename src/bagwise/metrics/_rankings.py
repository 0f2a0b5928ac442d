"""Metrics for rankings of the labels of each bag."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.stats import rankdata
from sklearn.metrics import label_ranking_average_precision_score

from bagwise._common.types import Array, Bools, Floats
from bagwise.exceptions import LabelError
from bagwise.metrics._instances import as_numbers


def one_error(label_sets: ArrayLike, scores: ArrayLike) -> float:
    r"""Share of bags whose highest-scored label is not in their label set.

    .. math:: \frac{1}{n} \sum_i [\arg\max_c s_{ic} \notin Y_i]

    0 is best. Labels tied for the highest score must all be in the set: ties are resolved in
    the least favourable order, as in :func:`coverage` and :func:`average_precision`. A bag with an
    empty label set counts 0.

    Parameters
    ----------
    label_sets : array-like or sparse of shape (n_bags, n_classes)
        1 if the bag has the label, else 0; a row of -1 leaves the bag out.
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
        1 if the bag has the label, else 0; a row of -1 leaves the bag out.
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
        1 if the bag has the label, else 0; a row of -1 leaves the bag out.
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
    """Check label sets and scores, and leave out bags with unknown labels."""
    if sparse.issparse(label_sets):
        label_sets = label_sets.toarray()  # type: ignore[union-attr]
    sets = as_numbers(label_sets, "label_sets")
    score = as_numbers(scores, "scores")
    if sets.ndim != 2 or score.shape != sets.shape or not sets.size:
        raise LabelError(
            f"label_sets have shape {sets.shape} and scores {score.shape}: expected both as "
            "(n_bags, n_classes)."
        )
    known = ~(sets == -1).all(axis=1)
    if not known.any():
        raise LabelError("every row of label_sets is -1 (nothing known): nothing to measure.")
    odd = known[:, None] & (~np.isin(sets, (0, 1)) | np.isnan(score))
    for bag, label in np.argwhere(odd)[:1]:
        raise LabelError(
            f"label_sets contain {sets[bag, label]} and scores {score[bag, label]} for bag {bag}, "
            f"class {label}: expected 0 or 1 (a row of -1 if nothing is known), and a number."
        )
    return sets[known] == 1, score[known]

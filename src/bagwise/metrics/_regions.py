"""Metrics for regions of interest: whether the key instance of a bag is a true region."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning

from bagwise._common.types import Array, Bools
from bagwise.bags import Bags
from bagwise.exceptions import InputError, LabelError
from bagwise.metrics._instances import as_labels, kind_of


def roi_hits(
    bags: Bags, key_instances: ArrayLike, instance_labels: ArrayLike, *, label: Any = 1
) -> Bools:
    """Whether the key instance of each bag is a true region of interest.

    Parameters
    ----------
    bags : Bags
        The bags (images).
    key_instances : array-like of shape (n_bags,)
        The row of the key instance inside its bag, from 0: ``key_instances(bags)`` of an
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
    if not isinstance(bags, Bags):
        raise InputError(f"bags is {type(bags).__name__}: expected Bags, as for key_instances.")
    rows = as_labels(key_instances, "key_instances")
    truth = as_labels(instance_labels, "instance_labels")
    if rows.dtype.kind == "U" or len(rows) != len(bags):
        raise LabelError(
            f"key_instances has {len(rows)} entries ({kind_of(rows)}) for {len(bags)} bags: "
            "expected one row number per bag."
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
    return _has_label(truth, label, "instance_labels")[bags.offsets[:-1] + rows]


def roi_success_rate(
    y_true: ArrayLike, y_pred: ArrayLike, hits: ArrayLike, *, of: str = "both", pos_label: Any = 1
) -> float:
    r"""Success rate in locating regions of interest: an F-measure.

    .. math:: \frac{2 \, \#\text{successes}}{\#\text{relevant} + \#\text{predicted relevant}}

    A success is a relevant bag (image), predicted relevant, whose returned instance is a true
    region of interest. This is the harmonic mean of :func:`roi_success_rate_relevant` (Eq. 33)
    and :func:`roi_success_rate_predicted` (Eq. 34), and the metric of Table 10 of the paper.

    Parameters
    ----------
    y_true : array-like of shape (n_bags,)
        True bag labels.
    y_pred : array-like of shape (n_bags,)
        Predicted bag labels.
    hits : array-like of bool of shape (n_bags,)
        Whether the instance returned for the bag is a true region of interest
        (:func:`roi_hits`); used only if the bag is relevant and predicted relevant.
    of : {"both", "relevant", "predicted"}, default="both"
        The success rate of relevant bags (Eq. 33), that of the bags predicted relevant (Eq. 34), or
        the harmonic mean of both.
    pos_label : default=1
        The label of a relevant bag.

    Returns
    -------
    float
        In [0, 1]. 0 with scikit-learn's ``UndefinedMetricWarning`` if no bag is relevant or
        predicted relevant.

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
    truth, prediction = as_labels(y_true, "y_true"), as_labels(y_pred, "y_pred")
    hit = as_labels(hits, "hits")
    if not len(truth) == len(prediction) == len(hit):
        raise LabelError(
            f"y_true has {len(truth)} entries, y_pred {len(prediction)} and hits {len(hit)}: give "
            "one each per bag."
        )
    if not np.isin(hit, (0, 1)).all():
        raise LabelError("hits hold something other than True and False: see roi_hits.")
    if of not in ("both", "relevant", "predicted"):
        raise InputError(f'of={of!r}: expected "both", "relevant" or "predicted".')
    relevant = _has_label(truth, pos_label, "y_true")
    predicted = _has_label(prediction, pos_label, "y_pred")
    successes = int((relevant & predicted & (hit == 1)).sum())
    possible = {"relevant": int(relevant.sum()), "predicted": int(predicted.sum())}
    total = possible[of] if of in possible else sum(possible.values()) / 2
    if not total:
        which = "relevant or predicted relevant" if of == "both" else of
        warnings.warn(
            f"no bag is {which}: the rate is set to 0.", UndefinedMetricWarning, stacklevel=2
        )
        return 0.0
    return successes / total


def _has_label(labels: Array, label: Any, name: str) -> Bools:
    """Mask of the entries equal to `label`; a string is never compared with a number."""
    if len(labels) and isinstance(label, str) != (labels.dtype.kind == "U"):
        raise LabelError(
            f"{name} holds {kind_of(labels)}, and the label to look for is {label!r}: name one of "
            f"{np.unique(labels)[:5].tolist()}."
        )
    return labels == label

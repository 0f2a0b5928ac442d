"""Label sets that are probably wrong: the bags that an annotator should review."""

from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._pipelines import instance_model
from bagwise.exceptions import InputError
from bagwise.validation import check_bags, check_label_sets


def doubted_bags(model: Any, X: Any, label_sets: Any) -> dict[str, Array]:
    """List bags by the probability that their label set is wrong, most doubted first.

    A label of the set is *spurious* if no instance has it; a label outside the set is *missing* if
    some instance has it. Both probabilities are conditional on the features and the whole set. The
    probability that a set has an error combines those of all labels as if they were independent.

    Parameters
    ----------
    model : ORedLogisticRegression
        Fitted with `missing` or `spurious`, or a pipeline that ends in such a model.
    X : Bags or anything accepted as bags
        The bags.
    label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
        The given label sets. Bags whose label set is unknown are left out.

    Returns
    -------
    dict of str to ndarray
        A row per bag: ``bag``; ``doubt``, the probability that its set is wrong; ``label``, the
        label most likely to be wrong; ``error``, "missing" or "spurious".

    Raises
    ------
    InputError
        When the model assumes that all label sets are right.

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> from bagwise.predictions import doubted_bags
    >>> bags = [[[0.0], [3.1]], [[0.2], [0.1]], [[2.9], [0.1], [3.0]], [[3.2]], [[0.1], [0.0]]]
    >>> sets = [{"a", "b"}, {"a"}, {"a", "b"}, {"b"}, {"a", "b"}]  # the last bag has no "b"
    >>> model = ORedLogisticRegression(0.1, spurious=0.05).fit(bags, sets)
    >>> table = doubted_bags(model, bags, sets)
    >>> table["bag"][0].item(), table["label"][0].item(), table["error"][0].item()
    (4, 'b', 'spurious')
    """
    bags = check_bags(None, X, reset=True)
    estimator, seen = instance_model(model, bags)
    if seen is None or not hasattr(estimator, "spurious_"):
        raise InputError(
            f"{type(estimator).__name__} has no probabilities of wrong label sets: expected a "
            "fitted ORedLogisticRegression."
        )
    if estimator.missing_ == estimator.spurious_ == 0:
        raise InputError(
            "the model assumes that all label sets are right: fit it with missing='learn' and "
            "spurious='learn'."
        )
    sets = check_label_sets(label_sets, seen, classes=estimator.classes_).indicator
    doubts = wrong_labels(estimator, seen, sets)
    label = doubts.argmax(axis=1)
    with np.errstate(divide="ignore"):
        log_right = np.log1p(-np.minimum(doubts, 1.0)).sum(axis=1)
    order = np.argsort(log_right, kind="stable")
    order = order[(sets[order] >= 0).all(axis=1)]
    listed = sets[np.arange(len(seen)), label] == 1
    return {
        "bag": bags.names[order],
        "doubt": -np.expm1(log_right[order]),
        "label": estimator.classes_[label[order]],
        "error": np.where(listed, "spurious", "missing")[order],
    }


def wrong_labels(model: Any, bags: Bags, sets: Ints) -> Floats:
    """Probability that each label of each bag is wrong: listed but absent, or the reverse.

    Parameters
    ----------
    model : ORedLogisticRegression
        Fitted with `missing` or `spurious`.
    bags : Bags
        The bags.
    sets : ndarray of shape (n_bags, n_classes)
        Their label sets; rows of -1 are unknown and never doubted.

    Returns
    -------
    ndarray of shape (n_bags, n_classes)
    """
    n_labels = sets.shape[1]
    posterior: Array = model.annotate_proba(bags, sets)[:, :n_labels]
    with np.errstate(divide="ignore"):
        absent = loops.segments.sum(np.log1p(-np.minimum(posterior, 1.0)), bags.offsets)
    doubts = np.where(sets == 0, -np.expm1(absent), 0.0)
    # P(Y, no instance reports c) = spurious / (1 - spurious) P(Y - c).
    odds = model.spurious_ / (1 - model.spurious_)
    value = model.log_likelihood(bags, sets)
    bag, label = np.nonzero(sets == 1)
    rank = np.arange(len(bag)) - np.searchsorted(bag, bag)  # of the label in its set
    for r in range(rank.max(initial=-1) + 1):
        chosen, removed = bag[rank == r], label[rank == r]
        fewer = sets[chosen].copy()
        fewer[np.arange(len(chosen)), removed] = 0
        without = model.log_likelihood(bags[chosen], fewer)
        with np.errstate(invalid="ignore", over="ignore"):
            chance = odds * np.exp(without - value[chosen])
        doubts[chosen, removed] = np.nan_to_num(np.minimum(chance, 1.0))
    return doubts

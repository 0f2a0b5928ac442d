"""Shared parts of the classifiers trained with torch: losses, held-out bags, early stopping."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.special import expit

from bagwise._common.types import Array, Floats, Ints
from bagwise._validation import check_groups, check_label_sets
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, class_weights, softmax_probabilities, with_known_labels
from bagwise.engines.tensors import torch
from bagwise.exceptions import InputError
from bagwise.labels import Labels

Tensor = Any


class LogitClassifierMixin(BagClassifierMixin):
    """Classifier whose scores are logits: one for two classes, one per class, or one per label."""

    _learns_label_sets = True

    def _probabilities(self, scores: Array) -> Array:
        return expit(scores) if self._has_label_sets else softmax_probabilities(scores)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread, which is faster for small batches."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def cross_entropy(scores: Tensor, codes: Tensor) -> Tensor:
    """Cross entropy of the class of each bag: logistic for one score, softmax for several.

    Parameters
    ----------
    scores : tensor of shape (n_bags, n_columns)
        One logit for two classes, else one per class.
    codes : tensor of int64 of shape (n_bags,)
        The class of each bag, as a position.

    Returns
    -------
    tensor of shape (n_bags,)
    """
    if scores.shape[1] == 1:
        signs = 2 * codes - 1
        return torch.nn.functional.softplus(-signs * scores[:, 0])
    return torch.nn.functional.cross_entropy(scores, codes, reduction="none")


def known_bags(
    bags: Bags, y: Any, class_weight: Any, groups: Any
) -> tuple[Bags, Labels, Ints, Floats, Ints]:
    """Check labels or label sets, and leave out bags with an unknown label set.

    Parameters
    ----------
    bags : Bags
        The bags.
    y : array-like or list of sets
        The class, or the label set, of each bag.
    class_weight : dict, "balanced" or None
        Weights of the classes.
    groups : array-like of shape (n_bags,) or None
        The group of each bag; None if each bag is a group of its own.

    Returns
    -------
    bags : Bags
        The bags with a known label.
    labels : Labels
        Their labels.
    codes : ndarray of shape (n_bags,)
        Their classes, as positions; 0 for label sets.
    weights : ndarray of shape (n_bags,)
        Weights of the bags.
    groups : ndarray of shape (n_bags,)
        Their groups, as positions.
    """
    labels = check_label_sets(y, bags, min_classes=2)
    names = np.arange(len(bags)) if groups is None else check_groups(groups, bags)
    codes_of_groups = np.unique(names, return_inverse=True)[1]
    if not labels.has_sets:
        weights = class_weights(class_weight, labels)
        return bags, labels, labels.codes, weights, codes_of_groups
    if class_weight is not None:
        raise InputError(
            f"class_weight={class_weight!r} needs one label per bag: leave it out beside label "
            "sets."
        )
    codes_of_groups = codes_of_groups[labels.known]
    bags, labels = with_known_labels(bags, labels)
    codes = np.zeros(len(bags), dtype=np.int64)
    return bags, labels, codes, np.ones(len(bags)), codes_of_groups


def has_stalled(losses: list[float], patience: int, tol: float) -> bool:
    """Check whether the loss has stopped falling.

    Parameters
    ----------
    losses : list of float
        Loss of the held-out bags in each epoch.
    patience : int
        Number of epochs without progress.
    tol : float
        Smallest decrease of the loss that counts as progress.

    Returns
    -------
    bool
    """
    least, last = np.inf, 0
    for epoch, loss in enumerate(losses):
        if loss < least - tol:
            least, last = loss, epoch
    return len(losses) - 1 - last >= patience


def held_out_folds(
    codes: Ints, groups: Ints, order: Ints, fraction: float | None, rng: np.random.RandomState
) -> Ints:
    """Deal groups of bags into folds of equal size, each class evenly.

    Parameters
    ----------
    codes : ndarray of shape (n_bags,)
        The class of each bag, or the number of its label set.
    groups : ndarray of int64 of shape (n_bags,)
        The group of each bag; a group stays in one fold.
    order : ndarray of int64 of shape (n_bags,)
        The order in which bags are dealt, independent of their order in the data.
    fraction : float or None
        Share of the groups in a fold; None to hold out no bag.
    rng : RandomState
        Draws the fold of a group inside the class of its first bag.

    Returns
    -------
    ndarray of int64 of shape (n_bags,)
        The fold of each bag; -1 for a group that has all bags of a class, which are needed for
        training.
    """
    if fraction is None:
        return np.full(len(codes), -1)
    _, first, group = np.unique(groups[order], return_index=True, return_inverse=True)
    own = codes[order]
    in_order = np.argsort(first)
    drawn = in_order[np.lexsort((rng.permutation(len(first)), own[np.sort(first)]))]
    folds = np.empty(len(first), dtype=np.int64)
    folds[drawn] = np.arange(len(first)) % round(1 / fraction)
    pairs = np.unique(np.column_stack([own, group]), axis=0)
    alone = np.bincount(pairs[:, 0])[pairs[:, 0]] == 1
    folds[pairs[alone, 1]] = -1
    of_bags = np.empty(len(codes), dtype=np.int64)
    of_bags[order] = folds[group]
    return of_bags

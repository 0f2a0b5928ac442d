"""Base class of annotators: instance labels, with or without the label set of the bag."""

from functools import partial
from typing import Any

import numpy as np

from bagwise import compiled
from bagwise._common.types import Array
from bagwise._validation import check_label_sets
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin
from bagwise.engines import over_partitions


class AnnotatorMixin(BagClassifierMixin):
    """Score each instance for each class, after a fit on label sets or on one label per bag."""

    _learns_label_sets = True

    def annotate(self, X: Any, label_sets: Any) -> Array:
        """Assign to each instance one of the labels of its bag (transductive).

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag. All labels are possible in a bag whose set is empty or
            unknown (None, or a row of -1).

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``, aligned with ``bags.instances``.
        """
        annotated = partial(self._annotated, label_sets=label_sets)
        return self._evaluate(X, annotated, by_partition=False)

    def _annotated(self, bags: Bags, label_sets: Any) -> Array:
        """Label each instance with the highest-scoring label of its bag."""
        sets = check_label_sets(label_sets, bags, classes=self.classes_).indicator
        allowed = (sets == 1) | ~(sets == 1).any(axis=1, keepdims=True)
        allowed = allowed[bags.bag_index]
        scores = np.where(allowed, over_partitions(self._checked_scores, bags), -np.inf)
        new = np.isneginf(scores).all(axis=1, keepdims=True)  # only labels that no training bag has
        return self._labels_of(np.where(new & allowed, 0.0, scores))


def best_threshold(scores: Array, label_sets: Array) -> float:
    """Find the threshold of the bag scores with the fewest wrong labels.

    Parameters
    ----------
    scores : ndarray of shape (n_bags, n_classes)
        Scores of the bags.
    label_sets : 0/1 array of shape (n_bags, n_classes)
        Label sets of the bags.

    Returns
    -------
    float
        The midpoint between two scores; outside their range if predicting none or all is best.
    """
    order = np.argsort(scores, axis=None)
    sorted_scores = scores.ravel()[order]
    different = np.diff(compiled.ties.settled(sorted_scores)) > 0
    carried = (label_sets.ravel() == 1)[order]
    # Errors relative to k = 0 if the k lowest scores are not predicted: +1 missed, -1 false label.
    errors = np.concatenate([[0], np.cumsum(np.where(carried, 1, -1))])
    apart = np.concatenate([[True], different, [True]])
    k = int(np.flatnonzero(apart)[errors[apart].argmin()])
    ends = np.concatenate([[sorted_scores[0] - 1], sorted_scores, [sorted_scores[-1] + 1]])
    return float(0.5 * (ends[k] + ends[k + 1]))

"""What annotators share: labels of instances, with and without the label set of the bag."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise import compiled
from bagwise._validation import check_label_sets
from bagwise.base import BagClassifierMixin, InstancePredictorMixin, finite_scores
from bagwise.base.fitted_state import FittedState, Text
from bagwise.exceptions import LabelError

__all__ = ["AnnotatorMixin", "best_threshold"]


class AnnotatorMixin(InstancePredictorMixin, BagClassifierMixin):
    """A score for each instance and class; learned from label sets, or from one label per bag."""

    def _fitted_state(self) -> FittedState:
        return super()._fitted_state() | {"label_kind_": Text({"single", "sets"})}

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the label set, or the class, of each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        0/1 array of shape (n_bags, n_classes), or ndarray of shape (n_bags,)
            Label sets where the model was fitted on label sets; else values of ``classes_``.
        """
        scores = self.decision_function(X)
        return self._labels_of(scores) if self.label_kind_ == "single" else (scores > 0).astype(int)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Score each bag for each class.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_classes) or (n_bags,)
            Label sets: a label is predicted where its score is positive. One label per bag: the
            highest score wins, and two classes have the difference of their scores only.
        """
        scores = self._score_bags(X)
        if self.label_kind_ == "single" and len(self.classes_) == 2:
            equal = np.equal(*compiled.ties.settled(scores, axis=1).T)
            scores = np.where(equal, 0, scores[:, 1] - scores[:, 0])
        return finite_scores(scores)

    def _score_bags(self, X: Any) -> NDArray[Any]:
        """Score each bag for each class, of shape (n_bags, n_classes)."""
        bags = self._check_bags(X)
        return self._pool(self.score_instances(bags), bags.offsets)

    def annotate(self, X: Any, label_sets: Any) -> NDArray[Any]:
        """Name each instance by one of the labels its bag is known to carry (transductive).

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            What is known of each bag. Where nothing is known (None, or a row of -1), and where no
            label is carried, all labels are possible.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``, aligned with ``bags.instances``.
        """
        bags = self._check_bags(X)
        sets = check_label_sets(label_sets, bags, classes=self.classes_).indicator
        allowed = (sets == 1) | ~(sets == 1).any(axis=1, keepdims=True)
        scores = np.where(allowed[bags.bag_index], self.score_instances(bags), -np.inf)
        return self._labels_of(scores)

    def key_instances(self, X: Any, label: Any = None) -> NDArray[np.int64]:
        """Find the instance that speaks most for a class in each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label : object, default=None
            The class; by default the class predicted for the bag. Required where the model was
            fitted on label sets.

        Returns
        -------
        ndarray of shape (n_bags,)
            The row of the key instance inside its bag, 0-based.
        """
        if label is None and self.label_kind_ == "sets":
            raise LabelError("a model of label sets needs label=...: which label's key instances?")
        return super().key_instances(X, label)


def best_threshold(scores: NDArray[Any], label_sets: NDArray[Any]) -> float:
    """Find the score above which predicting a label is wrong least often.

    Parameters
    ----------
    scores : ndarray of shape (n_bags, n_classes)
        Scores of bags.
    label_sets : 0/1 array of shape (n_bags, n_classes)
        The labels they carry.

    Returns
    -------
    float
        The middle between two scores; beyond all of them where no label, or every one, is best.
    """
    order = np.argsort(scores, axis=None)
    sorted_scores = scores.ravel()[order]
    different = np.diff(compiled.ties.settled(sorted_scores)) > 0
    carried = (label_sets.ravel() == 1)[order]
    # Errors with the k lowest scores denied: carried labels among them, others above.
    errors = np.concatenate([[0], np.cumsum(np.where(carried, 1, -1))])
    apart = np.concatenate([[True], different, [True]])
    k = int(np.flatnonzero(apart)[errors[apart].argmin()])
    ends = np.concatenate([[sorted_scores[0] - 1], sorted_scores, [sorted_scores[-1] + 1]])
    return float(0.5 * (ends[k] + ends[k + 1]))

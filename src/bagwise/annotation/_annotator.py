"""Base classes of annotators: instance labels, with or without the label set of the bag."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy.special import expit, softmax

from bagwise import loops
from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, POSITIVE
from bagwise.base._scoring import guarded, log_odds_of
from bagwise.base._set_kernel import kernel_bags, kernel_product, nystroem_of_bags, width_of
from bagwise.compute import over_partitions, to_numpy
from bagwise.compute.arrays import product
from bagwise.labels import Labels
from bagwise.validation import check_label_sets

LINEAR_REG = 1.0  # reg="auto"


class AnnotatorMixin(BagClassifierMixin):
    """Score each instance for each class, after a fit on label sets or on one label per bag."""

    _learns_label_sets = True
    _min_classes = 1
    _annotates = "cells"  # what `annotate` can use of a bag: see `check_label_sets`

    def annotate(self, X: Any, label_sets: Any) -> Array:
        """Assign to each instance one of the labels of its bag (transductive).

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag; -1 for a label that is unknown, and possible. All labels are
            possible in a bag whose set is empty or unknown (None, or a row of -1).

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``, aligned with ``bags.instances``.
        """
        return self._of_instances(X, label_sets, self._annotated)

    def _of_instances(self, X: Any, label_sets: Any, compute: Callable[[Bags, Labels], Any]) -> Any:
        return guarded(self._given_sets(X, label_sets, compute), X)

    def _given_sets(
        self, X: Any, label_sets: Any, compute: Callable[[Bags, Labels], Any], scores: bool = False
    ) -> Any:
        """Evaluate a function of the bags and their label sets."""

        def computed(bags: Bags) -> Any:
            known = self._annotates
            labels = check_label_sets(label_sets, bags, classes=self.classes_, known=known)
            return compute(bags, labels)

        return self._evaluate(X, computed, by_partition=False, scores=scores)

    def _annotated(self, bags: Bags, labels: Labels) -> Array:
        """Label each instance with the highest-scoring label of its bag."""
        allowed = labels.indicator != 0
        allowed |= ~allowed.any(axis=1, keepdims=True)
        allowed = allowed[bags.bag_index]
        scores = np.where(allowed, over_partitions(self._checked_scores, bags), -np.inf)
        new = np.isneginf(scores).all(axis=1, keepdims=True)  # only labels that no training bag has
        return self._labels_of(np.where(new & allowed, 0.0, scores))


class OneLabelEach(AnnotatorMixin):
    """Each instance has one label: `_log_probabilities(bags)` of the labels, then of no label."""

    _log_probabilities: Any

    @property
    def instance_pooling(self) -> str:  # type: ignore[override]
        """How instance scores are pooled into the score of the bag.

        With one label per bag, the sum is log P(all instances are c). With label sets, "noisy-or"
        maps the log-odds of the instances to the log-odds that some instance is c.
        """
        return "noisy-or" if self.label_kind_ == "sets" else "sum"

    def _score(self, bags: Bags) -> Array:
        """Log-probabilities of the classes; log-odds for a model fitted on label sets."""
        log_p = self._log_probabilities(bags)
        scores = log_odds_of(log_p) if self._has_label_sets else log_p
        return scores[:, : len(self.classes_)]

    def _probabilities(self, scores: Array) -> Array:
        return expit(scores) if self._has_label_sets else softmax(scores, axis=1)


class ThresholdAnnotator(AnnotatorMixin):
    """Scores of bags are relative to a threshold, above which a label belongs to the set."""

    def _choose_threshold(self, bags: Bags, labels: Labels) -> None:
        """Set the threshold to that with the fewest wrong labels; 0 for one label per bag."""
        self.threshold_ = 0.0
        if labels.has_sets:
            self.threshold_ = best_threshold(self._bag_scores(bags), labels.indicator)

    def _pool(self, values: Array, offsets: Ints) -> Array:
        return super()._pool(values, offsets) - self.threshold_


class KernelAnnotator(AnnotatorMixin, BagEstimator):
    """An annotator that is linear in the instances, or in the Nystroem features of a kernel.

    Parameters
    ----------
    reg : float or "auto"
        Regularisation strength lambda, relative to the sum over bags. The intercept is not
        penalised. With 0 there may be no maximum. "auto" is 1 for the linear kernel. For other
        kernels, whose feature vectors have norms below 1, it is 0.01 in ORedLogisticRegression
        and 0.02 in NoisyOrLogisticRegression.
    kernel : {"linear", "rbf"} or callable
        The kernel, or a function of two vectors. All but "linear" are approximated by Nystroem
        features, which are computed where the instances are stored.
    n_components : int
        Number of Nystroem features: the number of landmarks, instances drawn at random. Not
        used by the linear kernel.
    gamma : {"half_scale", "scale", "auto"} or float
        Kernel width; "half_scale" is ``0.5 / (n_features * variance)``, "scale" twice that, and
        "auto" ``1 / n_features``.
    """

    _parameter_constraints: dict[str, Any] = {
        "reg": [StrOptions({"auto"}), NOT_NEGATIVE],
        "kernel": [StrOptions({"linear", "rbf"}), callable],
        "gamma": [StrOptions({"half_scale", "scale", "auto"}), POSITIVE],
        "n_components": [COUNT],
    }
    _runs_elsewhere = ("cluster", "device")
    _may_be_infinite = ("intercept_",)  # -inf: a class that no bag has
    _advice = "raise max_iter or reg, or standardise the instances"
    _kernel_reg = 0.02  # reg="auto" for nonlinear kernels

    reg: float | str
    kernel: Any
    n_components: int
    gamma: float | str

    def _features(self, bags: Bags, rng: RandomState) -> Bags:
        """Set the penalty and the kernel; return the bags with their kernel features."""
        usual = LINEAR_REG if self.kernel == "linear" else self._kernel_reg
        self.reg_ = usual if isinstance(self.reg, str) else self.reg
        if self.kernel == "linear":
            return bags
        gamma = 1.0
        if self.kernel == "rbf":
            self.gamma_ = gamma = float(width_of(self.gamma, bags))
        self.nystroem_ = nystroem_of_bags(self, gamma, self.n_components, rng, bags)
        return kernel_bags(self.nystroem_, bags)

    def _options(self, weight: Floats) -> dict[str, Any]:
        """Options of the solver that all these annotators have."""
        options = {name: getattr(self, name) for name in ("max_iter", "tol", "checkpoint")}
        track = partial(self._track, task="iteration")
        return {"weights": weight, "reg": self.reg_, "track": track, **options}

    def _linear_scores(self, bags: Bags) -> Array:
        """W x + b, or W phi(x) + b."""
        if hasattr(self, "nystroem_"):
            return kernel_product(self.nystroem_, bags.instances, self.coef_) + self.intercept_
        return to_numpy(product(bags.instances, self.coef_)) + self.intercept_


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
    different = np.diff(loops.ties.settled(sorted_scores)) > 0
    carried = (label_sets.ravel() == 1)[order]
    # Errors relative to k = 0 if the k lowest scores are not predicted: +1 missed, -1 false label.
    errors = np.concatenate([[0], np.cumsum(np.where(carried, 1, -1))])
    apart = np.concatenate([[True], different, [True]])
    k = int(np.flatnonzero(apart)[errors[apart].argmin()])
    ends = np.concatenate([[sorted_scores[0] - 1], sorted_scores, [sorted_scores[-1] + 1]])
    return float(0.5 * (ends[k] + ends[k + 1]))

"""NoisyOrLogisticRegression: instances that may have several labels, from bag label sets."""

from dataclasses import KW_ONLY
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy.special import expit, log_expit, softmax

from bagwise import loops
from bagwise._common.types import Array, Floats, Ints
from bagwise.annotation._annotator import KernelAnnotator
from bagwise.annotation._ored_logistic import UNSEEN
from bagwise.bags import Bags
from bagwise.base import WeightedFit
from bagwise.base._parameters import with_parameters
from bagwise.base._scoring import guarded
from bagwise.compute import over_partitions
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.solvers.annotation.orlr import noisy_or_logistic
from bagwise.solvers.result import SolverResult

THRESHOLD = 0.3


@with_parameters
class NoisyOrLogisticRegression(WeightedFit, KernelAnnotator):
    r"""One logistic regression per label, for instances that may have several labels, or none.

    An instance has label c with probability :math:`p_c(x) = 1 / (1 + e^{-(w_c x + b_c)})`,
    independently of the other labels, and a bag has the label if one of its instances has it:

    .. math:: \max_{W, b} \sum_b \sum_c \log P(Y_{bc} \mid X_b) - \tfrac{\lambda}{2} |W|^2 ,
        \qquad P(c \in Y_b) = 1 - \prod_i (1 - p_c(x_i)) .

    Try it if many instances have two labels (overlapping calls) and many have none. If no instance
    has two, :class:`bagwise.annotation.ORedLogisticRegression`, with `background` if many have
    none, is more accurate. Standardise the instances first.

    Parameters
    ----------
    {reg}
    {kernel}
    {n_components}
    {gamma}
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Largest entry of the gradient, divided by the number of instances, at the end.
    random_state : int, RandomState or None, default=None
        Draws the landmarks of a kernel. A fit that is to be resumed from a checkpoint needs a
        number.
    {checkpoint}
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    coef_ : ndarray of shape (n_classes, n_features) or (n_classes, n_components)
        W.
    intercept_ : ndarray of shape (n_classes,)
        b; -inf for a label that no training bag has, which is never predicted.
    reg_ : float
        The penalty of the fit.
    gamma_ : float
        The width of the kernel "rbf".
    nystroem_ : Nystroem
        The features of the kernel; not with the linear kernel.
    objective_curve_ : ndarray of shape (n_iterations,)
        Minus the objective above after each iteration; never rises.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    Notes
    -----
    The likelihood is a product over the labels: each is learned from the bags that have it and from
    all instances of the bags that do not. If all bags have a label, its weights are 0, and every
    instance has it.

    Labels that are unknown (-1) are left out of the likelihood, bag by bag. Counts are refused:
    :class:`bagwise.annotation.ORedLogisticRegression` learns from them.

    Label sets are assumed to be right, and labels of single instances cannot be given:
    :class:`bagwise.annotation.ORedLogisticRegression` has `missing`, `spurious` and
    `instance_labels`.

    The likelihood is not concave. The fit begins at W = 0: with the linear kernel nothing is
    random. An evaluation takes one product of instances and weights, and a pass over the scores.

    References
    ----------
    Chen, Cheng, Chen, Jeng. Multiple-instance logistic regression with LASSO penalty. arXiv
    1607.03615, 2016: the model, for one label.

    Examples
    --------
    >>> from bagwise.annotation import NoisyOrLogisticRegression
    >>> bags = [[[3, 0], [0, 3]], [[3, 0], [0, 0]], [[0, 3], [0, 0]], [[3, 3], [0, 0]], [[0, 0]]]
    >>> label_sets = [{"robin", "wren"}, {"robin"}, {"wren"}, {"robin", "wren"}, set()]
    >>> model = NoisyOrLogisticRegression(reg=0.1).fit(bags, label_sets)
    >>> model.classes_
    array(['robin', 'wren'], dtype='<U5')
    >>> model.annotate_sets([[[3, 3], [0, 0]]], [{"robin", "wren"}])
    array([[1, 1],
           [0, 0]])
    >>> model.predict_instance_sets([[[0, 3], [3, 3]]])
    array([[0, 1],
           [1, 1]])
    """

    instance_pooling = "noisy-or"
    _uses_of_sets = "cells"

    reg: float | str = "auto"
    _: KW_ONLY
    kernel: Any = "linear"
    n_components: int = 300
    gamma: float | str = "scale"
    max_iter: int = 1000
    tol: float = 1e-5
    random_state: Any = None
    checkpoint: Any = None
    verbose: int = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: RandomState) -> SolverResult:
        sets, n_instances = labels.indicator, bags.n_instances
        carried = (sets == 1).any(axis=0)
        always = carried & (sets != 0).all(axis=0)
        learned = carried & ~always
        features, sets = self._features(bags, rng), sets[:, learned]
        result = noisy_or_logistic(features, sets, **self._options(weight))
        coef, intercept = result.solution
        self.coef_ = np.zeros((len(learned), coef.shape[1]), coef.dtype)
        # Finite log-odds for a label of all bags, as if one additional instance lacked it.
        certain = np.log(n_instances + 1.0)
        self.intercept_ = np.where(always, certain, -np.inf).astype(intercept.dtype)
        self.coef_[learned], self.intercept_[learned] = coef, intercept
        return result

    def predict_instance_sets(self, X: Any, *, threshold: float = THRESHOLD) -> Ints:
        """Predict all labels of each instance, without the label set of its bag.

        Parameters
        ----------
        {X}
        threshold : float, default=0.3
            Smallest probability of a predicted label. The default is below 1/2, because one
            instance is enough to explain the label of a bag: others have low probabilities.

        Returns
        -------
        0/1 array of shape (n_instances, n_classes)
            A row may have several ones, or none.
        """
        limit = _checked_threshold(threshold)
        proba = self._evaluate(X, lambda bags: expit(self._score(bags)), scores=True)
        return guarded((proba >= limit).astype(np.int64), X)

    def annotate_proba(self, X: Any, label_sets: Any) -> Array:
        """Probability of each label for each instance, given the label set of its bag.

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag; -1 for a label that is unknown, None for an unknown set.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
            In the order of ``classes_``. Each label has its own probability: rows need not sum
            to 1. 0 outside the label set.
        """
        return self._of_instances(
            X, label_sets, lambda bags, labels: self._posterior(bags, labels.indicator)
        )

    def annotate_sets(self, X: Any, label_sets: Any, *, threshold: float = THRESHOLD) -> Ints:
        """Find all labels of each instance, given the label set of its bag.

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag, as in :meth:`annotate_proba`.
        threshold : float, default=0.3
            Smallest probability of a predicted label. The default is below 1/2, because one
            instance is enough to explain the label of a bag: others have low probabilities.

        Returns
        -------
        0/1 array of shape (n_instances, n_classes)
            A row may have several ones, or none. Each label of the set is given at least to its
            most probable instance, even below the threshold.
        """
        limit = _checked_threshold(threshold)
        return self._of_instances(X, label_sets, partial(self._shown, threshold=limit))

    def log_likelihood(self, X: Any, label_sets: Any) -> Array:
        """Log-probability of each label set.

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            Their label sets.

        Returns
        -------
        ndarray of shape (n_bags,)
            log P(Y | X); 0 for an unknown set, -inf if no training bag has one of its labels.
        """
        return self._given_sets(X, label_sets, self._log_likelihood, scores=True)

    def _log_likelihood(self, bags: Bags, labels: Labels) -> Array:
        odds = loops.segments.noisy_or(self._log_odds(bags), bags.offsets)
        each = log_expit(np.where(labels.indicator == 1, odds, -odds))
        return np.where(labels.indicator < 0, 0.0, each).sum(axis=1)

    def _annotated(self, bags: Bags, labels: Labels) -> Array:
        sets = labels.indicator
        nothing_left = (sets == 0).all(axis=1, keepdims=True)
        return self._labels_of(self._posterior(bags, np.where(nothing_left, -1, sets)))

    def _shown(self, bags: Bags, labels: Labels, threshold: float) -> Ints:
        posterior, bag = self._posterior(bags, labels.indicator), bags.bag_index
        settled = loops.ties.settled(posterior)
        likeliest = settled == loops.segments.maximum(settled, bags.offsets)[bag]
        carried = (labels.indicator == 1)[bag]
        return ((posterior >= threshold) | (likeliest & carried)).astype(np.int64)

    def _posterior(self, bags: Bags, sets: Ints) -> Array:
        """Probability of each label for each instance, given the label sets (-1: unknown)."""
        scores = self._log_odds(bags)
        scores[:, np.isneginf(self.intercept_)] = -UNSEEN  # equal for all instances, not 0 / 0
        odds = loops.segments.noisy_or(scores, bags.offsets)
        given = np.where(sets == 1, log_expit(odds), 0.0)[bags.bag_index]
        posterior = np.exp(np.minimum(log_expit(scores) - given, 0.0))  # at most 1 despite rounding
        return np.where((sets == 0)[bags.bag_index], 0.0, posterior)

    def _log_odds(self, bags: Bags) -> Array:
        """Scores of the instances in double precision, on any engine."""
        return over_partitions(self._checked_scores, bags).astype(np.float64)

    def _score(self, bags: Bags) -> Array:
        return self._linear_scores(bags)

    def _probabilities(self, scores: Array) -> Array:
        return expit(scores) if self._has_label_sets else softmax(log_expit(scores), axis=1)


def _checked_threshold(threshold: Any) -> float:
    if isinstance(threshold, Real) and 0 < float(threshold) <= 1:
        return float(threshold)
    raise InputError(f"threshold is {threshold!r}: expected a probability above 0, 1 at most.")

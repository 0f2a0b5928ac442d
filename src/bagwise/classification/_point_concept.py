"""DiverseDensity (DD) and EMDD (EM-DD): a point in feature space near positive instances."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bagwise._common.memory import as_float64
from bagwise._common.types import Array, Bools, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin, one_vs_rest_probabilities
from bagwise.base._parameters import COUNT, with_parameters
from bagwise.labels import Labels
from bagwise.pairwise import kernel_width
from bagwise.solvers.likelihood import diverse_density
from bagwise.solvers.result import SolverResult

NEAREST = 1e-8  # as in loops.diverse_density: keeps probabilities below 1


@with_parameters
class PointConceptClassifier(OneVsRestMixin, BagEstimator):
    """A point and feature weights per class, each learned from many starting points.

    Two classes need one concept, for the positive class; more need one per class, against the rest.
    A subclass defines its pooling and `_separate`, from the instances, the start of each bag,
    whether it is of the class, and the starting points: the solution is (point, feature weights).
    """

    keeps = "one concept"
    _parameter_constraints: dict[str, Any] = {"n_start_bags": [None, COUNT]}

    _probabilities = staticmethod(one_vs_rest_probabilities)
    _accepts_sparse = False
    _in_canonical_order = True
    _advice = "raise max_iter or tol"
    max_rounds = None  # of EM-DD

    n_start_bags: int | None = None
    _: KW_ONLY
    gamma: Any = "scale"
    max_iter: int = 200
    tol: float = 1e-4
    pos_label: Any = None
    random_state: Any = None

    def _solve(self, bags: Bags, labels: Labels, weight: Any, rng: Any) -> list[SolverResult]:
        rows = as_float64(bags.instances)
        # A constant feature keeps its value and its first weight: leave it out of the search.
        varies = np.ptp(rows, axis=0) > 0
        constant, rows = rows[0], np.ascontiguousarray(rows[:, varies])
        width = kernel_width(self.gamma, bags)

        def solve(signs: Ints) -> SolverResult:
            points = rows[np.isin(bags.bag_index, self._start_bags(signs > 0, rng))]
            return diverse_density(
                rows,
                bags.offsets,
                signs > 0,
                np.unique(points, axis=0),
                width,
                max_iter=self.max_iter,
                tol=self.tol,
                max_rounds=self.max_rounds,
            )

        results = self._one_vs_rest(labels, solve)
        self.concepts_ = np.tile(constant, (len(results), 1))
        self.weights_ = np.full(self.concepts_.shape, width)
        for i, result in enumerate(results):
            self.concepts_[i, varies], self.weights_[i, varies] = result.solution
        return results

    def _start_bags(self, positive: Bools, rng: np.random.RandomState) -> Ints:
        found = np.flatnonzero(positive)
        if self.n_start_bags is None or self.n_start_bags >= len(found):
            return found
        return rng.choice(found, self.n_start_bags, replace=False)

    def _score(self, bags: Bags) -> Array:
        """Log-odds that each instance is positive, by the concept of each class."""
        concepts = zip(self.concepts_, self.weights_, strict=True)
        # Direct differences keep the precision of small distances.
        distances = NEAREST + np.column_stack([(bags.instances - t) ** 2 @ w for t, w in concepts])
        return -(distances + np.log(-np.expm1(-distances)))


@with_parameters
class DiverseDensity(PointConceptClassifier):
    r"""The most likely point concept under noisy-or (DD, Maron and Lozano-Pérez 1998).

    An instance x is positive with probability :math:`p(x) = \exp(-\sum_k w_k (x_k - t_k)^2)`, and
    a bag is positive if one of its instances is. The point t and the weights w minimise

    .. math:: -\sum_{B\,\text{positive}} \log\Bigl(1 - \prod_{x \in B} (1 - p(x))\Bigr)
        - \sum_{B\,\text{negative}} \sum_{x \in B} \log (1 - p(x))

    by L-BFGS from every instance of every positive bag. More than two classes are handled
    one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    n_start_bags : int or None, default=None
        Number of positive bags, drawn at random, whose instances are starting points; all by
        default.
    gamma : {"scale", "auto"} or float, default="scale"
        The weight of each feature at the start; "scale" is ``1 / (n_features * variance of the
        instances)``, "auto" ``1 / n_features``.
    max_iter : int, default=200
        Maximum number of steps from each starting point.
    tol : float, default=1e-4
        A descent stops when a step lowers the objective by less than this fraction.
    {pos_label}
    random_state : int, RandomState or None, default=None
        For drawing bags to start from.

    Attributes
    ----------
    {classes_}
    {pos_label_}
    concepts_ : ndarray of shape (n_concepts, n_features)
        The points; one for two classes, else one each.
    weights_ : ndarray of shape (n_concepts, n_features)
        The weights of the features.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each step of the best descent, summed over the concepts.
    n_iter_ : int
        Number of steps of the best descent; the largest number over all concepts.
    {n_features_in_}

    See Also
    --------
    EMDD : Only the nearest instance of a bag counts; usually faster.

    Notes
    -----
    Scores are log-odds and pool by noisy-or: a bag is positive with probability
    :math:`1 - \prod (1 - p)`. Descents run in parallel on all cores. Cost: starts x steps x
    instances x features. Memory: one copy of the instances, and two of the starting points.

    References
    ----------
    Maron, Lozano-Pérez. A framework for multiple-instance learning. NIPS 1997 (1998).

    Examples
    --------
    >>> from bagwise.classification import DiverseDensity
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = DiverseDensity().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "noisy-or"


@with_parameters
class EMDD(PointConceptClassifier):
    r"""The most likely point concept, a bag being its best instance (EM-DD, Zhang, Goldman 2001).

    An instance x is positive with probability :math:`p(x) = \exp(-\sum_k w_k (x_k - t_k)^2)`, and
    a bag with the probability of its nearest instance. The point t and the weights w minimise

    .. math:: -\sum_{B\,\text{positive}} \log \max_{x \in B} p(x)
        - \sum_{B\,\text{negative}} \log \bigl(1 - \max_{x \in B} p(x)\bigr)

    by alternation: choose the nearest instance of each bag, then improve t and w by L-BFGS for
    these instances, until the objective no longer falls. It starts from every instance of every
    positive bag and keeps the best result. More than two classes are handled one-vs-rest.
    Standardise the instances first.

    Parameters
    ----------
    n_start_bags : int or None, default=None
        Number of positive bags, drawn at random, whose instances are starting points; all by
        default. The paper drew 10.
    gamma : {"scale", "auto"} or float, default="scale"
        The weight of each feature at the start; "scale" is ``1 / (n_features * variance of the
        instances)``, "auto" ``1 / n_features``.
    max_rounds : int, default=50
        Maximum number of iterations from each starting point.
    max_iter : int, default=100
        Maximum number of L-BFGS steps per iteration.
    tol : float, default=1e-4
        Rounds and steps stop when they lower the objective by less than this fraction.
    {pos_label}
    random_state : int, RandomState or None, default=None
        For drawing bags to start from.

    Attributes
    ----------
    {classes_}
    {pos_label_}
    concepts_ : ndarray of shape (n_concepts, n_features)
        The points; one for two classes, else one each.
    weights_ : ndarray of shape (n_concepts, n_features)
        The weights of the features.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each round from the best start, summed over the concepts.
    n_iter_ : int
        Number of rounds from the best start; the largest number over all concepts.
    {n_features_in_}

    See Also
    --------
    DiverseDensity : All instances of a bag count, by noisy-or.

    Notes
    -----
    The concept is chosen by its likelihood on the training bags alone. (The figures of the paper
    come from concepts chosen by their error on the test bags.) Descents run in parallel on all
    cores. Cost: starts x rounds x (instances + steps x bags) x features. Memory: one copy of the
    instances, and two of the starting points.

    References
    ----------
    Zhang, Goldman. EM-DD: an improved multiple-instance learning technique. NIPS 2001.

    Examples
    --------
    >>> from bagwise.classification import EMDD
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = EMDD().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "max"
    _parameter_constraints = {"max_rounds": [COUNT]}

    max_rounds: int = 50  # type: ignore[assignment]
    max_iter: int = 100

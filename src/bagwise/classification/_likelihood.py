"""Classifiers that maximise a likelihood of bags.

DiverseDensity (DD) and EMDD (EM-DD) learn a point in feature space near positive instances,
MILBoost boosted trees on instances whose noisy-or is the probability of the bag.
"""

from dataclasses import KW_ONLY
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.memory import as_float64
from bagwise._common.sklearn import Interval
from bagwise._common.types import Array, Bools, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin, one_vs_rest_probabilities
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, with_parameters
from bagwise.labels import Labels
from bagwise.pairwise import kernel_width
from bagwise.solvers.likelihood import diverse_density, mil_boost
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


@with_parameters
class MILBoost(OneVsRestMixin, BagEstimator):
    r"""Boosted trees on instances, fitted to the noisy-or of their bag (MILBoost, Viola 2005).

    A sum of trees F gives each instance the probability :math:`p(x) = 1 / (1 + e^{-F(x)})`, and
    the bag B the probability :math:`P_B = 1 - \prod_{x \in B} (1 - p(x))`. Trees are added to lower

    .. math:: -\sum_{B\,\text{positive}} \log P_B - \sum_{B\,\text{negative}} \log (1 - P_B)

    each the one that agrees best with the negative gradient, :math:`p (1 - P_B) / P_B` in a
    positive bag and :math:`-p` in a negative one, with a step chosen by line search. More than two
    classes are handled one-vs-rest.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees per class.
    max_depth : int, default=1
        Depth of the trees; 1 for stumps. At most 12.
    learning_rate : float, default=0.5
        The share of the best step that each tree takes.
    tol : float, default=1e-6
        Boosting ends early when no tree agrees with the gradient by more than this, per bag.
    {pos_label}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    start_ : ndarray of shape (n_machines,)
        Log-odds of every instance before the first tree; one model for two classes, else one per
        class.
    features_, thresholds_ : list of ndarray of shape (n_trees, 2 ** max_depth - 1)
        The splits of the trees of each model, in the order of a heap: the children of node v are
        2v + 1 and 2v + 2, the left one for values up to the threshold.
    leaves_ : list of ndarray of shape (n_trees, 2 ** max_depth)
        The values of the leaves, which are added to the log-odds.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each tree, summed over the models.
    n_iter_ : int
        Number of trees; the largest number over all models.
    {n_features_in_}

    Notes
    -----
    The value of a leaf is the mean sign of its instances, weighted by the gradient, between -1 and
    1; the paper's classifiers return the sign alone. The first score is the constant that makes
    the bags most likely; from zero, noisy-or would call every large bag positive. Monotone
    transformations of a feature change only the thresholds: no standardisation is needed.

    The default learning rate and depth were chosen on Fox. Cost: the features are sorted once;
    then trees x depth x instances x features. Memory: one and a half copies of the instances.

    References
    ----------
    Viola, Platt, Zhang. Multiple instance boosting for object detection. NIPS 2005.

    Examples
    --------
    >>> from bagwise.classification import MILBoost
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = MILBoost().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "noisy-or"
    _may_be_infinite = ("thresholds_",)  # inf: the node is not split
    keeps = "standard"
    _probabilities = staticmethod(one_vs_rest_probabilities)
    _accepts_sparse = False
    _keys_by_value = True  # instances in the same leaves have equal scores
    _value_range = (0.0, np.inf)  # trees compare values and never multiply them
    _in_canonical_order = True
    _advice = "raise n_estimators"

    _parameter_constraints = {
        "n_estimators": [COUNT],
        "max_depth": [Interval(Integral, 1, 12, closed="both")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "tol": [NOT_NEGATIVE],
    }

    n_estimators: int = 100
    _: KW_ONLY
    max_depth: int = 1
    learning_rate: float = 0.5
    tol: float = 1e-6
    pos_label: Any = None

    def _solve(self, bags: Bags, labels: Labels, weight: Any, rng: Any) -> list[SolverResult]:
        columns = np.ascontiguousarray(as_float64(bags.instances).T)
        order = np.empty(columns.shape, np.int32)  # for all classes
        for ranks, column in zip(order, columns, strict=True):  # one by one: argsort returns int64
            ranks[:] = np.argsort(column, kind="stable")
        results = self._one_vs_rest(
            labels,
            lambda signs: mil_boost(
                columns,
                order,
                bags.offsets,
                signs > 0,
                n_estimators=self.n_estimators,
                max_depth=self.max_depth,
                learning_rate=self.learning_rate,
                tol=self.tol,
                track=partial(self._track, task="tree"),
            ),
            task=None,
        )
        self.start_ = np.array([result.solution[0] for result in results])
        self.features_, self.thresholds_, self.leaves_ = (
            [result.solution[part] for result in results] for part in (1, 2, 3)
        )
        return results

    def _keep_progress(self, *progress: Any) -> None:
        super()._keep_progress(*progress)
        self.n_iter_ = max(map(len, self.leaves_))  # 0 if not even the first tree helps

    def _score(self, bags: Bags) -> Array:
        """Log-odds that each instance is positive, by the trees of each class."""
        rows = np.ascontiguousarray(bags.instances, np.float64)
        trees = zip(self.features_, self.thresholds_, self.leaves_, strict=True)
        return self.start_ + np.column_stack(
            [loops.boosted_trees.predict_trees(rows, *parts) for parts in trees]
        )

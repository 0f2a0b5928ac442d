"""Classifiers by distances between bags.

In CitationKNN the nearest bags vote, and the bags that have this bag among their nearest.
ClassToBag (M-C2B) learns a metric per class, in which its instances are near its bags.
"""

from dataclasses import KW_ONLY
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.random import sample_without_replacement

from bagwise import loops
from bagwise._common.memory import as_float64
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Bools, Ints
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator, finite_scores
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, with_parameters
from bagwise.labels import Labels
from bagwise.pairwise import DISTANCES, distances_between
from bagwise.solvers.metric.bag_metrics import minimise_norm_ratio, widest_directions
from bagwise.solvers.result import SolverResult

SAME = 1 + 1e-9  # distances up to this multiple of another count as equal to it
BLOCK = 2**22  # distances in memory at a time


@with_parameters
class CitationKNN(BagClassifierMixin, BagEstimator):
    """Classify a bag by its references and its citers (Wang and Zucker 2000).

    The references of a bag are its nearest training bags; its citers are the training bags that
    have it among their own nearest. All of them vote, a bag that is both votes twice. Works with
    one label per bag and with label sets.

    Parameters
    ----------
    n_references : int, default=2
        How many nearest training bags vote. Bags at the same distance as the last one vote too,
        so that the order of the bags is irrelevant.
    n_citers : int, default=4
        A training bag cites a bag that is as near as its `n_citers`-th nearest training bag; 0 for
        no citers, the plain nearest-neighbour rule.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="minmin"
        The distance between bags: minimal Hausdorff by default, see
        :func:`bagwise.pairwise.bag_distances`.
    metric : str or callable, default="euclidean"
        The distance between instances.

    Attributes
    ----------
    {classes_}
    {label_kind_}
    training_bags_ : Bags
        The training bags with a known label set.
    label_sets_ : ndarray of int8 of shape (n_training_bags, n_classes)
        Their labels.
    citation_radius_ : ndarray of shape (n_training_bags,)
        How near a bag must be for each training bag to cite it.
    {n_features_in_}

    Notes
    -----
    ``predict_proba`` is the share of the votes. For label sets each label is predicted separately,
    and its probability is given by the rule of succession, ``(votes for + 1) / (votes + 2)``, which
    is never 0 or 1. ``decision_function`` is the share of each class; for two classes, the
    difference of both shares; for label sets, the share minus one half.

    Ties between classes go to the first in ``classes_`` (for two classes: the negative one, as in
    the paper). A label of a label set is predicted when more than half of the votes have it.
    Cost: one product of the instance tables to fit and one to predict.

    References
    ----------
    Wang, Zucker. Solving the multiple-instance problem: a lazy learning approach. ICML 2000.

    Zhou, Xue, Jiang. Locating regions of interest in CBIR with multi-instance learning
    techniques. AI 2005.

    Examples
    --------
    >>> from bagwise.classification import CitationKNN
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]], [[2.6]]]
    >>> model = CitationKNN(kind="hausdorff").fit(bags, ["no", "no", "yes", "yes", "yes"])
    >>> model.predict([[[2.8]]])
    array(['yes'], dtype='<U3')
    """

    _learns_label_sets = True
    _may_be_infinite = ("citation_radius_",)  # a bag that cites no bag, or all
    _min_classes = 1
    _parameter_constraints = {
        "n_references": [COUNT],
        "n_citers": [Interval(Integral, 0, None, closed="left")],
        "kind": [StrOptions(set(DISTANCES))],
    }

    n_references: int = 2
    n_citers: int = 4
    _: KW_ONLY
    kind: str = "minmin"
    metric: Any = "euclidean"

    @property
    def keeps(self) -> str:  # type: ignore[override]
        """Multi-instance assumption: one near pair of instances is enough, or all of them count."""
        return "collective" if self.kind == "meanmin" else "one concept"

    def _solve(self, bags: Bags, labels: Labels, weight: Any, rng: Any) -> None:
        self.citation_radius_ = self._citation_radius(bags)
        self.training_bags_, self.label_sets_ = bags, labels.indicator

    def _score(self, bags: Bags) -> Array:
        """Share of the votes for each class; for label sets, minus one half."""
        return self._bag_probabilities(bags) - (0.5 if self._has_label_sets else 0.0)

    def _has_probabilities(self) -> bool:
        return True

    def _bag_probabilities(self, bags: Bags) -> Array:
        return self._shares(*self._votes(bags)[:2])

    def _shares(self, votes_for: Array, votes: Array) -> Array:
        return (votes_for + 1) / (votes + 2) if self._has_label_sets else votes_for / votes

    def _key_rows(self, bags: Bags, label: Any) -> Ints:
        column = self._column_of(label)
        if column is None:
            columns = self._bag_probabilities(bags).argmax(axis=1)[bags.bag_index]
        else:
            columns = np.full(bags.n_instances, column)
        share, near = np.empty(bags.n_instances), np.empty(bags.n_instances)
        n_rows = max(1, BLOCK // len(self.training_bags_))
        for start in range(0, bags.n_instances, n_rows):
            rows = slice(start, start + n_rows)
            table = bags.instances[rows]
            alone = Bags(table, np.arange(table.shape[0] + 1))
            votes_for, votes, distances = self._votes(alone)
            # Distance to the nearest training bag with each label; inf if there is none.
            carriers = self.label_sets_.T == 1
            nearest = np.array([distances[:, own].min(axis=1, initial=np.inf) for own in carriers])
            chosen = np.arange(table.shape[0]), columns[rows]
            share[rows] = self._shares(votes_for, votes)[chosen]
            near[rows] = nearest.T[chosen]
        order = np.lexsort((near, -share))
        rank = np.empty(bags.n_instances)
        rank[order] = np.arange(bags.n_instances)
        return loops.segments.argmax(-rank, bags.offsets)

    def _citation_radius(self, bags: Bags) -> Array:
        if self.n_citers == 0:
            return np.full(len(bags), -np.inf)
        if self.n_citers >= len(bags):
            return np.full(len(bags), np.inf)
        between = distances_between(bags, kind=self.kind, metric=self.metric)
        np.fill_diagonal(between, np.inf)
        return np.partition(between, self.n_citers - 1, axis=1)[:, self.n_citers - 1]

    def _votes(self, bags: Bags) -> tuple[Array, Array, Array]:
        """Votes for each label, number of votes, and distances to the training bags."""
        there = distances_between(bags, self.training_bags_, kind=self.kind, metric=self.metric)
        back = there
        if self.kind in ("maxmin", "meanmin"):
            back = distances_between(
                self.training_bags_, bags, kind=self.kind, metric=self.metric
            ).T
        last = min(self.n_references, len(self.training_bags_)) - 1
        references = there <= SAME * np.partition(there, last, axis=1)[:, [last]]
        voices = references.astype(float) + (back <= SAME * self.citation_radius_)
        return voices @ self.label_sets_, voices.sum(axis=1, keepdims=True), there


@with_parameters
class ClassToBag(BagClassifierMixin, BagEstimator):
    r"""Distance of a class to a bag, in a metric learned for the class (M-C2B, Wang 2012).

    The distance of class c to bag B is the mean, over all instances x of the bags with label c, of
    the distance to the nearest instance of B, :math:`|U_c^\top (x - x_B)|`. Each :math:`U_c`
    minimises the ratio of these distances, not squared, to the bags with label c and to all other
    bags:

    .. math:: \min_U \frac{\sum_x \sum_{B \ni c} |U^\top (x - x_B)|}
        {\sum_x \sum_{B \not\ni c} |U^\top (x - x_B)|}

    Works with one label per bag and with label sets. Standardise the instances first.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the learned space; by default three quarters of ``n_features``.
    reg : float, default=0.3
        A penalty on the size of U in the numerator, as a share of the numerator for U = I. It
        avoids directions in which no two instances of the class differ.
    max_pairs : int, default=10000
        Maximum number of pairs of an instance and a bag in each of the two sums; a random sample
        is drawn if there are more.
    max_iter : int, default=100
        Maximum number of steps per class.
    tol : float, default=1e-4
        The fit of a class stops when a step lowers the ratio by less than this fraction.
    random_state : int, RandomState or None, default=None
        For drawing pairs.

    Attributes
    ----------
    {classes_}
    {label_kind_}
    components_ : ndarray of shape (n_classes, n_components, n_features)
        The transpose of each :math:`U_c`, scaled so that the mean distance to bags without the
        class is 1.
    thresholds_ : ndarray of shape (n_classes,)
        Half way between the mean distances to training bags with and without the class.
    training_bags_ : Bags
        The training bags with a known label set.
    label_sets_ : ndarray of int8 of shape (n_training_bags, n_classes)
        Their labels.
    objective_curve_ : ndarray of shape (n_iterations,)
        The ratio after each step, summed over the classes.
    n_iter_ : int
        Number of steps; the largest number over all classes.
    {n_features_in_}

    Notes
    -----
    The score of a class is its threshold less its distance. The nearest instance in a bag is found
    once, before the metric is learned, and a bag is not compared with its own instances. For a
    class of all bags, or of a single bag, the metric is the directions in which instances differ
    most. A label that no bag has gets the lowest score. The default dimension and penalty were
    chosen on one split of MSRC v2.

    Cost of a step: two products of pairs x features x features, and the eigenvectors of a matrix of
    features x features; about 15 steps are made. Prediction: one product of the new instances with
    those of each class.

    References
    ----------
    Wang, Nie, Huang. Robust and discriminative distance for multi-instance learning. CVPR 2012.

    Examples
    --------
    >>> from bagwise.classification import ClassToBag
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5], [2.7]]]
    >>> model = ClassToBag().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]], [[0.1]]])
    array(['yes', 'no'], dtype='<U3')
    """

    _accepts_sparse = False
    keeps = "several concepts"
    _learns_label_sets = True
    _may_be_infinite = ("thresholds_",)  # inf: a class that no bag has
    _min_classes = 1
    _in_canonical_order = True
    _advice = "raise max_iter or tol"
    _orthonormal = True  # the published algorithm has no such constraint
    _parameter_constraints = {"max_pairs": [COUNT], "tol": [NOT_NEGATIVE]}

    n_components: int | None = None
    _: KW_ONLY
    reg: float = 0.3
    max_pairs: int = 10_000
    max_iter: int = 100
    tol: float = 1e-4
    random_state: Any = None

    def _solve(self, bags: Bags, labels: Labels, weight: Any, rng: Any) -> list[SolverResult]:
        bags = bags.with_instances(as_float64(bags.instances))
        results = [
            self._learn(bags, carries == 1, rng)
            for carries in self._track(labels.indicator.T, "class")
        ]
        self.training_bags_, self.label_sets_ = bags, labels.indicator
        self.components_ = np.array([result.solution[0].T for result in results])
        self.thresholds_ = self._thresholds()
        return results

    def _score(self, bags: Bags) -> Array:
        """Threshold of each class minus its distance; always finite."""
        thresholds = np.where(np.isfinite(self.thresholds_), self.thresholds_, 0.0)
        return finite_scores(thresholds - self._distances(bags))

    def _key_rows(self, bags: Bags, label: Any) -> Ints:
        column = self._column_of(label)
        if column is None:
            scores = loops.ties.settled(self._score(bags), axis=1)
            columns = scores.argmax(axis=1)[bags.bag_index]
        else:
            columns = np.full(bags.n_instances, column)
        near = np.empty(bags.n_instances)
        for c in np.unique(columns):
            rows = np.flatnonzero(columns == c)
            alone = Bags(bags.instances[rows], np.arange(len(rows) + 1))
            near[rows] = -self._distances_of_class(c, alone)
        return loops.segments.argmax(near, bags.offsets)

    def _learn(self, bags: Bags, carries: Bools, rng: np.random.RandomState) -> SolverResult:
        """Learn the metric of one class; the widest directions if there is nothing to compare."""
        rows = np.flatnonzero(carries[bags.bag_index])
        differences = partial(self._differences, bags, rows, rng=rng)
        inside, outside = np.flatnonzero(carries), np.flatnonzero(~carries)
        default = max(1, 3 * bags.n_features // 4)
        n_components = min(self.n_components or default, bags.n_features)
        A, B = differences(inside), differences(outside)
        if not A.any() or not B.any():
            plain = np.eye(bags.n_features)[:, :n_components]
            if A.any() or B.any():
                plain = widest_directions(B if B.any() else A, n_components)
            return SolverResult((plain,), [1.0], converged=True)
        return minimise_norm_ratio(
            A,
            B,
            n_components=n_components,
            orthonormal=self._orthonormal,
            reg=self.reg,
            max_iter=self.max_iter,
            tol=self.tol,
        )

    def _differences(
        self, bags: Bags, rows: Ints, others: Ints, *, rng: np.random.RandomState
    ) -> Array:
        """``x - x_B`` for the rows x and the other bags B, but not for a row and its own bag."""
        n_pairs = len(rows) * len(others)
        if n_pairs > self.max_pairs:
            pairs = np.sort(sample_without_replacement(n_pairs, self.max_pairs, random_state=rng))
        else:
            pairs = np.arange(n_pairs)
        x, other = rows[pairs // len(others)], others[pairs % len(others)]
        foreign = bags.bag_index[x] != other
        x, other = x[foreign].astype(np.int64), other[foreign].astype(np.int64)
        X = bags.instances
        alone = np.arange(len(X) + 1)
        near = loops.set_distances.closest_instances(X, bags.offsets, x, other, alone)[1]
        return X[x] - X[near]

    def _distances(self, bags: Bags) -> Array:
        """Distance of each class to each bag, of shape (n_bags, n_classes)."""
        each = [self._distances_of_class(c, bags) for c in range(len(self.classes_))]
        return np.column_stack(each)

    def _distances_of_class(self, c: int, bags: Bags) -> Array:
        """Distance of one class to each bag; infinite if no training bag has the class."""
        own = self._instances_of_class(c)
        if len(own) == 0:
            return np.full(len(bags), np.inf)
        together = Bags(own, [0, len(own)])
        moved = bags.with_instances(bags.instances @ self.components_[c].T)
        return distances_between(together, moved, kind="meanmin")[0]

    def _instances_of_class(self, c: int) -> Array:
        """The instances of the training bags of a class, in the metric of the class."""
        train = self.training_bags_
        return train.instances[self.label_sets_[train.bag_index, c] == 1] @ self.components_[c].T

    def _thresholds(self) -> Array:
        train, carries = self.training_bags_, self.label_sets_ == 1
        distances = self._distances(train)
        # A bag is at distance zero from its own instances: they are left out of the mean.
        n_own = (train.sizes[:, None] * carries).sum(axis=0)
        foreign = n_own - train.sizes[:, None] * carries
        distances = distances * np.divide(
            n_own, foreign, out=np.ones_like(distances), where=foreign > 0
        )
        sums = [np.where(which, distances, 0.0).sum(axis=0) for which in (carries, ~carries)]
        counts = [np.maximum(which.sum(axis=0), 1) for which in (carries, ~carries)]
        return 0.5 * (sums[0] / counts[0] + sums[1] / counts[1])

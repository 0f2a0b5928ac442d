"""CitationKNN: the nearest bags vote, and the bags that have this bag among their nearest."""

from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator
from bagwise.base._parameters import COUNT, with_parameters
from bagwise.labels import Labels
from bagwise.pairwise import DISTANCES, distances_between

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
            nearest = _nearest_of_each_label(distances, self.label_sets_)
            chosen = np.arange(table.shape[0]), columns[rows]
            share[rows] = self._shares(votes_for, votes)[chosen]
            near[rows] = nearest[chosen]
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


def _nearest_of_each_label(distances: Array, label_sets: Ints) -> Array:
    """Distance of each bag to the nearest training bag with each label; inf if there is none."""
    nearest = np.full((len(distances), label_sets.shape[1]), np.inf)
    for k in range(label_sets.shape[1]):
        carriers = label_sets[:, k] == 1
        if carriers.any():
            nearest[:, k] = distances[:, carriers].min(axis=1)
    return nearest

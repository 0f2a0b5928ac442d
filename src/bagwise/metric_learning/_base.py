"""Base classes of metric learners: the linear map, the metric, nearest centroids."""

from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy import linalg
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from bagwise._common.sklearn import Options
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, BagTransformerMixin, fit_method
from bagwise.compute import to_numpy
from bagwise.compute.arrays import product
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels
from bagwise.solvers.metric.multi_instance_kmeans import Candidates
from bagwise.validation import is_table

BLOCK = 2**22  # scores computed at once

ONE_OR_ANY: list[Any] = [None, Options(Integral, {1})]  # instances of a bag with the same label


class MetricLearner(BagTransformerMixin, BagEstimator):
    """Learn a linear map of the instances; Euclidean distances after it are the learned metric."""

    label_kind_: str = "sets"
    _learns_label_sets = True
    _min_classes = 1
    _advice = "raise max_iter or tol"

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric.

        Parameters
        ----------
        {X}
        y : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag: candidates for its instances. Bags whose label set is unknown
            (None, or a row of -1) have no candidates.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _check_labels(self, y: Any, bags: Bags) -> Labels:
        labels: Labels = super()._check_labels(y, bags)
        self.label_kind_ = labels.kind
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def transform(self, X: Any) -> Any:
        """Map the instances: Euclidean distances between the results are the learned ones.

        Parameters
        ----------
        {X}

        Returns
        -------
        Bags, or 2-D array for a 2-D table
        """
        mapped = self._evaluate(X, self._mapped, by_partition=False)
        return mapped.instances if is_table(X) else mapped

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """Return the learned distance as a function of two vectors.

        For many distances, transform the data first: this takes one matrix product for all of them.

        Returns
        -------
        callable
            ``metric(a, b)`` is not negative, symmetric and satisfies the triangle inequality; it
            can be 0 between different vectors.
        """
        check_is_fitted(self)

        def metric(a: ArrayLike, b: ArrayLike) -> float:
            pair = np.stack([np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)])
            if pair.shape != (2, self.n_features_in_):
                raise InputError(f"give two vectors of {self.n_features_in_} features.")
            left, right = self._map(pair)
            return float(np.linalg.norm(left - right))

        return metric

    def _mapped(self, bags: Bags) -> Bags:
        return bags.with_instances(self._map(bags.instances))

    def _features(self, instances: Any) -> Any:
        """Features to which the components apply: the instances, or their kernel features."""
        return instances

    def _map(self, instances: Any) -> Array:
        return self._project(self._features(instances), self.components_)

    def _project(self, features: Any, components: Array) -> Array:
        rows = to_numpy(product(features, components))
        offset = getattr(self, "mean_", None)
        return rows if offset is None else rows - components @ offset


class CentroidPredictor(MetricLearner):
    """A metric learner that predicts the label of the nearest centroid."""

    def predict_instances(self, X: Any) -> Array:
        """Predict the label of the nearest centroid of each instance (Eq. 15).

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags; their label sets are not needed.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``; never a label without training instances.
        """
        return self.classes_[self._evaluate(X, self._nearest_centroid)]

    def _nearest_centroid(self, bags: Bags) -> Ints:
        components = as_few_rows(self.components_)
        centroids = self._project(self.centroids_, components)
        # Centre the centroids: |a|^2 - 2ab of vectors far from 0 would cancel.
        origin = centroids[self.category_sizes_ > 0].mean(axis=0)
        centroids -= origin
        penalty = self._penalty(centroids)

        def score(block: Any) -> Array:
            return penalty - 2 * ((self._project(block, components) - origin) @ centroids.T)

        return best_column(score, self._features(bags.instances), len(penalty), np.argmin)

    def _penalty(self, mapped_centroids: Array, weight: float = 1.0) -> Array:
        """Weighted squared length of each centroid; infinite for a label without instances."""
        penalty = weight * row_norms(mapped_centroids, squared=True)
        penalty[self.category_sizes_ == 0] = np.inf
        return penalty


class EveryBag:
    """A metric learner that also uses the instances of bags without a known label."""

    def _training_set(
        self: Any, bags: Bags, y: Any, sample_weight: Any
    ) -> tuple[Bags, Any, Floats]:
        labels = self._check_labels(y, bags)
        if not (labels.indicator == 1).any():
            raise LabelError("no bag has a label: there is nothing to learn from.")
        self.classes_ = labels.classes
        return bags, labels, np.ones(len(bags))

    def _candidates(self: Any, bags: Bags, labels: Labels) -> Candidates:
        one_each = self.instances_per_label == 1
        return Candidates.from_indicator(bags.offsets, labels.indicator, one_each=one_each)


class LabelAssigner(EveryBag, CentroidPredictor):
    """A metric learner that assigns training instances to the labels of their bags.

    A subclass defines the parameters `instances_per_label`, `n_init` and `max_iter`.
    """

    _advice = "raise max_iter"

    def _search(self, rng: RandomState) -> dict[str, Any]:
        """Options of the search for assignments."""
        track = partial(self._track, task="assigning")
        return {"n_init": self.n_init, "max_iter": self.max_iter, "rng": rng, "track": track}


def as_few_rows(components: Array) -> Array:
    """Reduce a map to at most n_features rows, with the same distances: R of L' = QR.

    Parameters
    ----------
    components : ndarray of shape (n_rows, n_features)
        The map; often one row per label.

    Returns
    -------
    ndarray of shape (min(n_rows, n_features), n_features)
    """
    n_rows, n_columns = components.shape
    if n_rows <= n_columns:
        return components
    return linalg.qr(components, mode="r", check_finite=False)[0][:n_columns]


def best_column(score: Callable[[Any], Array], rows: Any, n_columns: int, choose: Any) -> Ints:
    """Find the best column for each row, in blocks of rows.

    Parameters
    ----------
    score : callable
        Maps a block of rows to scores, one column per label.
    rows : ndarray or CSR of shape (n_rows, n_features)
        The rows.
    n_columns : int
        Number of labels.
    choose : callable
        ``numpy.argmax`` or ``numpy.argmin``.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    blocks = gen_batches(rows.shape[0], max(1, BLOCK // n_columns))
    return np.concatenate([choose(score(rows[block]), axis=1) for block in blocks])

"""What metric learners share: the map, the metric, nearest centroids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from bagwise._validation import is_table
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.engines import over_partitions, to_numpy
from bagwise.engines.arrays import product
from bagwise.exceptions import InputError

__all__ = ["CentroidPredictorMixin", "MetricLearner", "best_column", "with_dense_instances"]

BLOCK = 2**22  # scores computed at once


class MetricLearner(TransformerMixin, BagEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A linear map of the instances, in which their Euclidean distance is the learned one."""

    components_: NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def transform(self, X: Any) -> Any:
        """Map the instances: Euclidean distances between the results are the learned ones.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        Bags, or 2-D array for a 2-D table
        """
        bags = self._check_bags(X)
        rows = self._map(bags.instances)
        return rows if is_table(X) else bags.with_instances(rows)

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """The learned distance as a plain function of two vectors, for any code that takes one.

        For many distances transform the data first: that is one product for all of them.

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
                raise InputError(
                    f"the metric compares two vectors of {self.n_features_in_} features: got shape "
                    f"{pair.shape[1:]}."
                )
            left, right = self._map(pair)
            return float(np.linalg.norm(left - right))

        return metric

    def _features(self, instances: Any) -> Any:
        """What the components multiply: the instances, or their kernel features."""
        return instances

    def _map(self, instances: Any) -> NDArray[Any]:
        rows = to_numpy(product(self._features(instances), self.components_))
        offset = getattr(self, "mean_", None)
        return rows if offset is None else rows - self.components_ @ offset


def with_dense_instances(bags: Bags) -> Bags:
    """Fill sparse instances up, for a learner that moves all of them.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    Bags
    """
    if not sparse.issparse(bags.instances):
        return bags
    return bags.with_instances(bags.instances.toarray())


class CentroidPredictorMixin:
    """The label of the nearest centroid of the training instances."""

    classes_: NDArray[Any]
    centroids_: NDArray[Any]
    category_sizes_: NDArray[np.int64]

    def predict_instances(self, X: Any) -> NDArray[Any]:
        """Name each instance after the nearest centroid (Eq. 15).

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags; their label sets are not asked for.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``; never a label that no training instance was given.
        """
        bags = self._check_bags(X)  # type: ignore[attr-defined]
        return self.classes_[over_partitions(self._nearest_here, bags)]

    def _nearest_here(self, bags: Bags) -> NDArray[np.intp]:
        return self._nearest_centroid(self._map(bags.instances))  # type: ignore[attr-defined]

    def _mapped_centroids(self) -> NDArray[Any]:
        mapped = safe_sparse_dot(self.centroids_, self.components_.T)  # type: ignore[attr-defined]
        offset = getattr(self, "mean_", None)
        return mapped if offset is None else mapped - self.components_ @ offset  # type: ignore[attr-defined]

    def _nearest_centroid(self, rows: NDArray[Any]) -> NDArray[np.intp]:
        centroids = self._mapped_centroids()
        penalty = row_norms(centroids, squared=True)
        penalty[self.category_sizes_ == 0] = np.inf
        return best_column(lambda block: penalty - 2 * (block @ centroids.T), rows, np.argmin)


def best_column(
    score: Callable[[NDArray[Any]], NDArray[Any]], rows: NDArray[Any], choose: Any
) -> NDArray[np.intp]:
    """Find the best column for each row, a block of rows at a time.

    Parameters
    ----------
    score : callable
        From a block of rows to their scores, a column per label.
    rows : ndarray of shape (n_rows, n_features)
        The rows.
    choose : callable
        ``numpy.argmax`` or ``numpy.argmin``.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    size = max(1, BLOCK // max(rows.shape[1], 1))
    parts = [choose(score(rows[i : i + size]), axis=1) for i in range(0, len(rows), size)]
    return np.concatenate(parts)

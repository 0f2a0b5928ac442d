"""Base class of transformers from bags to a 2-D array; sums over the instances of each bag."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from bagwise._common.memory import require_memory
from bagwise._common.types import Floats
from bagwise.bags import Bags
from bagwise.base import BagEstimator, UnlabelledFit
from bagwise.loops import threads

BLOCK = 2**18  # values per block, which stay in the cache between features and sums


class BagEmbedding(UnlabelledFit, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BagEstimator):
    """A transformer from bags to a 2-D array.

    A subclass defines ``_learn(bags)``, ``_embedded(bags)`` and ``_n_features_out``.
    """

    _embedded: Callable[[Bags], Floats]

    def transform(self, X: Any) -> Floats:
        """Represent each bag by a row.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n_bags, n_columns)
        """
        return self._evaluate(X, self._embedded)


def sums_by_bag(bags: Bags, features: Callable[[Any], Floats], n_columns: int) -> Floats:
    """Sum the features of the instances of each bag, in blocks of instances.

    Parameters
    ----------
    bags : Bags
        The bags, none of them empty.
    features : callable
        From instances (n_rows, n_features) to features (n_rows, n_columns).
    n_columns : int
        Number of features.

    Returns
    -------
    ndarray of shape (n_bags, n_columns)
    """
    require_memory(
        8.0 * len(bags) * n_columns,
        purpose=f"the embedding of {len(bags):,} bags in {n_columns:,} columns",
        remedy="lower n_components, or use fewer bags at a time",
    )
    out = np.zeros((len(bags), n_columns))
    n_rows = max(1, BLOCK // max(n_columns, bags.n_features))

    def work(first: int, last: int) -> None:
        for start in range(bags.offsets[first], bags.offsets[last], n_rows):
            stop = min(start + n_rows, bags.offsets[last])
            low, high = np.searchsorted(bags.offsets, [start, stop - 1], side="right") - 1
            begins = np.maximum(bags.offsets[low : high + 1] - start, 0)
            block = features(bags.rows(slice(start, stop)))
            out[low : high + 1] += np.add.reduceat(block, begins, axis=0)

    n_values = float(bags.n_instances) * max(n_columns, bags.n_features)
    with threads.blas_cores(1):
        threads.run_blocks(work, threads.bag_bounds(bags.offsets, n_values))
    return out

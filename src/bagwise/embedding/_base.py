"""Base class of transformers from bags to a 2-D array."""

from collections.abc import Callable
from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from bagwise._common.types import Floats
from bagwise.bags import Bags
from bagwise.base import BagEstimator, UnlabelledFit


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

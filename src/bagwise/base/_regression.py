"""Mixin that derives the predicted target of each bag from `_score`."""

from typing import Any

from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from bagwise import loops
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._estimator import fit_method
from bagwise.base._scoring import pool
from bagwise.validation import check_numbers


class BagRegressorMixin(RegressorMixin):
    """Public methods of a bag regressor; an estimator implements `_score`.

    As in `BagClassifierMixin`, ``_score(bags)`` returns a column of scores of the instances if
    `instance_pooling` names a pooling, and of the bags if it is None.

    Attributes
    ----------
    instance_pooling : str or None
        How instance scores are pooled: "max", "mean", "sum", "lse" or "softmax".
    """

    instance_pooling: str | None = None
    _score: Any  # function of validated bags, see above

    @fit_method
    def fit(self: Any, X: Any, y: Any) -> Any:
        """Fit the model.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,)
            The target of each bag.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _check_labels(self, y: Any, bags: Bags) -> Floats:
        """Validate y."""
        return check_numbers(y, bags)

    def predict(self, X: Any) -> Floats:
        """Predict the number of each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
        """
        return self._evaluate(X, lambda bags: self._bag_scores(bags)[:, 0])

    @available_if(lambda self: self.instance_pooling is not None)
    def score_instances(self, X: Any) -> Floats:
        """Score each instance; pooled by `instance_pooling` they give the number of the bag.

        Not available if `instance_pooling` is None, as in `AutoBagRegressor`.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,)
            Aligned with ``bags.instances``, in units of the target.
        """
        return self._evaluate(X, lambda bags: self._score(bags)[:, 0])

    @available_if(lambda self: self.instance_pooling is not None)
    def key_instances(self, X: Any) -> Ints:
        """Find the instance of each bag with the highest score, if the model scores instances.

        `AutoBagRegressor`, and `SetKernelRegressor` with the minimax kernel, do not: the method is
        then not available, and `bagwise.predictions.instance_attributions` replaces it.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            The row of the key instance inside its bag, 0-based.
        """
        return self._evaluate(X, self._key_rows)

    def _key_rows(self, bags: Bags) -> Ints:
        return loops.segments.argmax(self._score(bags)[:, 0], bags.offsets)

    def _bag_scores(self, bags: Bags) -> Array:
        """Predictions of shape (n_bags, 1)."""
        scores = self._score(bags)
        pooling = self.instance_pooling
        return scores if pooling is None else pool(scores, bags.offsets, pooling)

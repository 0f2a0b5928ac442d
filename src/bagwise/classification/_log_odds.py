"""Models whose instance scores are log-odds: from scores to probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax

from bagwise.base import InstancePredictorMixin

__all__ = ["LogOddsMixin"]


class LogOddsMixin(InstancePredictorMixin):
    """Log-odds of instances, and probabilities: one machine for two classes, else one per class.

    A class offers `_log_odds`, of shape (n_instances, n_machines), and its pooling.
    """

    def score_instances(self, X: Any) -> NDArray[np.float64]:
        """Log-odds that each instance is positive, for the machine of each class.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, n_classes)
            One score for two classes (positive: ``classes_[1]``), else one per class.
        """
        scores = self._log_odds(self._check_bags(X).instances)  # type: ignore[attr-defined]
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class for each bag; for more than two classes made to sum to 1.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
        """
        return _probabilities(self.decision_function(X))

    def predict_proba_instances(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class for each instance, as if it were a bag of its own.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
        """
        return _probabilities(self.score_instances(X))

    def _log_odds(self, instances: NDArray[Any]) -> NDArray[np.float64]:
        raise NotImplementedError


def _probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    """Of the positive class and the other; or of each class against the rest, over their sum."""
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    return softmax(log_expit(scores), axis=1)

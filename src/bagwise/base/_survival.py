"""Models of the time to an event: a risk per bag, and the survival function that belongs to it."""

import inspect
from typing import Any, TypeVar

import numpy as np

from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base._scoring import BagRegressorMixin
from bagwise.solvers.survival import concordance, cumulative_hazard, step_values
from bagwise.validation import check_times

# Methods that a classifier and a survival model have, or only one of them.
METHODS = [
    *("predict", "score", "score_instances", "key_instances", "_key_rows"),
    *("decision_function", "predict_proba", "predict_instances", "predict_proba_instances"),
    "predict_survival_function",
    *("_instance_scores", "_scores_instances"),
]

Estimator = TypeVar("Estimator")


class StepFunction:
    """A survival function: `y[k]` from the time `x[k]` on, 1 before."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self.x, self.y = x, y

    def __call__(self, time: Any) -> Floats:
        """Values at these times."""
        return step_values(self.x, self.y, time)


class SurvivalMixin(BagRegressorMixin):
    """Public methods of a model of the time to an event; an estimator implements `_score`.

    As in `BagRegressorMixin`, ``_score(bags)`` returns scores of instances or of bags: log risks.
    ``fit`` calls `_keep_baseline`.

    Attributes
    ----------
    unique_times_ : ndarray of shape (n_times,)
        The distinct times of the training bags.
    cumulative_hazard_ : ndarray of shape (n_times,)
        The cumulative hazard of a bag of log risk 0 at these times, by Breslow's estimate.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = tags.regressor_tags = None  # y is no number
        return tags

    def _check_labels(self, y: Any, bags: Bags) -> Array:
        """Validate y."""
        return check_times(y, bags)

    def _keep_baseline(self, risk: Floats, y: Array, weight: Floats | None = None) -> None:
        """Store the baseline hazard, given the log risks of the training bags."""
        found = cumulative_hazard(risk, y["event"], y["time"], weight)
        self.unique_times_, self.cumulative_hazard_ = found

    def predict_survival_function(self, X: Any, return_array: bool = False) -> Array:
        """Probability that the event of a bag has not happened by a time.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        return_array : bool, default=False
            Whether to return the probabilities at ``unique_times_`` as an array.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_times) if `return_array`
            Functions of time, with the steps ``y`` at the times ``x``, as in scikit-survival.
        """
        curves = np.exp(-np.exp(self.predict(X))[:, None] * self.cumulative_hazard_)
        if return_array:
            return curves
        functions = np.empty(len(curves), dtype=object)
        functions[:] = [StepFunction(self.unique_times_, curve) for curve in curves]
        return functions

    def score(self, X: Any, y: Any) -> float:
        """Harrell's C: the share of comparable pairs of bags that the risk puts in order.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        y : structured array of shape (n_bags,)
            The times to the event, as in ``fit``.

        Returns
        -------
        float
            1 is best, 1/2 random; NaN if no two bags are comparable.
        """
        bags = self._check_bags(X)
        times = check_times(y, bags, need_event=False)
        return concordance(times["event"], times["time"], self.predict(bags))


def also_for_times(cls: type[Estimator]) -> type[Estimator]:
    """Decorate a classifier: with ``loss="cox"`` it has the methods of a survival model instead."""
    for name in METHODS:
        own, other = (inspect.getattr_static(each, name, None) for each in (cls, SurvivalMixin))
        setattr(cls, name, _ByLoss(name, own, other))
    return cls


class _ByLoss:
    """A method that depends on the loss of the model, which may lack it."""

    def __init__(self, name: str, of_classes: Any, of_times: Any) -> None:
        self.name, self.of_classes, self.of_times = name, of_classes, of_times

    def __get__(self, model: Any, cls: Any = None) -> Any:
        found = self.of_times if getattr(model, "loss", None) == "cox" else self.of_classes
        if found is None and model is not None:
            raise AttributeError(f"{cls.__name__}(loss={model.loss!r}) has no {self.name}.")
        return (found or self.of_times).__get__(model, cls)

"""One class against the rest: what the classic multi-instance SVMs share."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_sample_weight

from bagwise._sklearn import Interval, StrOptions
from bagwise._validation import check_bag_labels, check_bags
from bagwise._warnings import warn_user
from bagwise.base import BagClassifierMixin, fit_method
from bagwise.base._kernel_machine import KernelMachine
from bagwise.compiled.threads import one_core_if_small
from bagwise.exceptions import InputError
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult, total_curve

__all__ = ["OneVsRestSVM", "class_weights"]


class OneVsRestSVM(BagClassifierMixin, KernelMachine):
    """A linear or kernel machine per class, scored by the best instance of a bag.

    Two classes make one machine, whose positive bags are those of ``classes_[1]``; more make one
    per class, against the rest. A subclass offers its parameters and `_solve`.
    """

    _parameter_constraints: dict[str, Any] = {
        **KernelMachine._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
    }

    instance_pooling = "max"

    C: float
    class_weight: Any
    tol: float

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Learn one machine (two classes) or one per class.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        y : array-like of shape (n_bags,)
            The class of each bag.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = check_bag_labels(y, bags, min_classes=2)
        classes, codes = labels.classes, labels.codes
        costs = self.C * class_weights(self.class_weight, classes[codes])
        rows = bags.instances.astype(np.float64, copy=False)
        space = self._space(rows)
        positives = [1] if len(classes) == 2 else range(len(classes))
        with one_core_if_small(rows):
            results = [
                self._solve(space, bags.offsets, codes == positive, costs)
                for positive in self._track(positives, "class")
            ]
        if not all(result.converged for result in results):
            self._warn()
        coef = np.array([result.solution[0] for result in results])  # (n_machines, n_instances)
        intercept = np.array([float(result.solution[1]) for result in results])
        self._keep(space, coef, intercept)
        self.classes_ = classes
        self.n_iter_ = max(result.n_iter for result in results)
        self.objective_curve_ = total_curve(results)
        return self

    def _solve(
        self,
        space: FeatureSpace,
        offsets: NDArray[np.int64],
        positive: NDArray[np.bool_],
        costs: NDArray[np.float64],
    ) -> SolverResult:
        """Learn positive bags from the others; ``solution`` is (coef of instances, intercept)."""
        raise NotImplementedError

    def _warn(self) -> None:
        budget = f" in max_iter={self.max_iter} rounds" if hasattr(self, "max_iter") else ""
        warn_user(
            f"{type(self).__name__} did not settle{budget} to tol={self.tol}: raise max_iter where "
            "there is one, scale the instances, or lower C.",
            ConvergenceWarning,
        )


def class_weights(class_weight: Any, labels: NDArray[Any]) -> NDArray[np.float64]:
    """The weight of each bag by its class; all positive."""
    weights = compute_sample_weight(class_weight, labels)
    if not np.all(weights > 0):
        label = labels.tolist()[int(np.argmin(weights))]
        raise InputError(
            f"class_weight gives the class {label!r} the weight {weights.min():g}: give each class "
            "a positive weight, or leave its bags out."
        )
    return weights

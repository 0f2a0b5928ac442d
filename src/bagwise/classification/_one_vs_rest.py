"""Base class of the classic multi-instance SVMs, one class against the rest."""

from functools import partial
from typing import Any

from bagwise._common.memory import as_float64
from bagwise._common.types import Floats
from bagwise.bags import Bags
from bagwise.base import OneVsRestMixin
from bagwise.base._kernel_machine import KernelMachine
from bagwise.labels import Labels
from bagwise.solvers.margin.feature_space import KEPT
from bagwise.solvers.margin.threshold import at_threshold
from bagwise.solvers.result import SolverResult

# Number of Nystroem features if the kernel matrix of all instances is not kept. It is lowered, down
# to the minimum, if the features would have more than MOST_VALUES values.
LANDMARKS, LEAST_LANDMARKS, MOST_VALUES = 300, 100, 30_000_000


class OneVsRestSVM(OneVsRestMixin, KernelMachine):
    """A linear or kernel SVM per class; a bag has the score of its best instance.

    Two classes need one SVM, for the positive class; more need one per class, against the rest. A
    subclass defines `_separate`, the parameters of the kernel, and `C`, `pos_label`, `threshold`,
    `n_landmarks`, `class_weight`, `tol` and `random_state`.
    """

    instance_pooling = "max"
    keeps = "standard"
    _advice = "raise max_iter, scale the instances, or lower C"

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> list[SolverResult]:
        rows = as_float64(bags.instances)
        seed = int(rng.randint(2**31 - 1))
        space = self._space(rows, n_landmarks=self._n_features_of(rows), seed=seed)
        threshold = self._threshold(len(labels.classes))
        learn = partial(at_threshold, self._separate, threshold=threshold, seed=seed)
        results = self._one_vs_rest(
            labels, lambda signs: learn(space, bags.offsets, signs > 0, self.C * weight)
        )
        self._keep_each(space, results)
        return results

    def _n_features_of(self, rows: Any) -> int | None:
        """Number of Nystroem features that approximate the kernel; None for the exact kernel."""
        if self.n_landmarks != "auto":
            return self.n_landmarks
        n_rows = rows.shape[0]
        if n_rows <= KEPT:
            return None
        return min(LANDMARKS, max(LEAST_LANDMARKS, MOST_VALUES // n_rows))

    def _threshold(self, n_classes: int) -> str:
        if self.threshold != "auto":
            return str(self.threshold)
        # With several classes the highest score wins, whatever its sign.
        return "out_of_fold" if self.kernel != "linear" and n_classes == 2 else "zero"

    def _separate(self, *problem: Any) -> SolverResult:
        """Separate one class from the rest.

        Parameters
        ----------
        *problem : FeatureSpace, offsets, positive, costs
            The instances; for each bag its start, whether it is of the class, and its cost.

        Returns
        -------
        SolverResult
            ``solution`` is (coefficients of the instances, intercept).
        """
        raise NotImplementedError

"""WellSVM with the settings of the paper, which does not centre the rows."""

from dataclasses import KW_ONLY, replace
from typing import Any

from bagwise.base._parameters import with_parameters
from bagwise.semi_supervised import WellSVMClassifier
from bagwise.solvers.result import SolverResult
from bagwise.solvers.wellsvm.well_svm import PartialLabels, canonical_order
from reproduction.rivals.solvers.well_svm_alternation import refine


@with_parameters
class PublishedWellSVM(WellSVMClassifier):
    """`WellSVMClassifier` with the choice whether to centre the rows.

    Parameters
    ----------
    C1, C2, balance, threshold, kernel, gamma, offset, tol, max_cuts, random_state, verbose
        As in `WellSVMClassifier`.
    center : bool, default=True
        Whether to centre the rows, in the feature space of the kernel.
    refine : bool, default=False
        Whether to end with an alternation, as the authors' program does: fit an SVM to the labels,
        assign labels by its sorted scores, at most ten times. The result is used if its objective
        as a semi-supervised SVM is lower than that of the mixture.
    """

    _parameter_constraints = {"refine": ["boolean"]}

    C1: float = 1.0
    C2: Any = "auto"
    _: KW_ONLY
    balance: Any = None
    threshold: str = "auto"
    kernel: Any = "linear"
    gamma: Any = "scale"
    center: bool = True
    offset: float = 0.2
    refine: bool = False
    tol: float = 1e-2
    max_cuts: int = 50
    random_state: Any = 0
    verbose: int = 0

    def _generate(self, rows: Any, labels: PartialLabels, seed: int) -> SolverResult:
        result = super()._generate(rows, labels, seed)
        if not self.refine or len(labels.unknown) == 0:
            return result
        refined = refine(
            rows,
            labels,
            self._costs(labels),
            result.solution,
            order=canonical_order(rows, labels.signs),
            tol=self.tol / 10,
            seed=seed,
        )
        return replace(result, solution=refined)

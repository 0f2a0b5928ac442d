"""Models that only papers ask for; TOML files name these functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from bagwise import compiled
from bagwise.bags import Bags
from bagwise.classification import (
    BalancedSparseMIL,
    CitationKNN,
    InstanceMarginSVM,
    SetKernelSVM,
    SparseMIL,
)
from bagwise.embedding import BagDissimilarity
from bagwise.pairwise import kernel_width
from bagwise.preprocessing import InstanceTransformer
from bagwise.semi_supervised import WellSVMClassifier
from bagwise.solvers.margin.max_margin import Machine, MarginProblem, bag_problem, max_margin
from bagwise.solvers.result import SolverResult

__all__ = [
    "MeanInterceptSVM",
    "MinimaxSVM",
    "OffsetFreeSVM",
    "SummedBalancedSparseMIL",
    "SummedSparseMIL",
    "TruncatedSparseMIL",
    "annotator",
    "dissimilarity_svm",
    "on_dense_rows",
]

SUPPORT = 1e-7  # the multiplier above which misvm takes a point for a support vector
MOST_ROUNDS = 50  # of misvm's mi-SVM


class MinimaxSVM(SetKernelSVM):
    """The minimax kernel with the width of a kernel between instances, as in bagwise 0.1."""

    def _width(self, bags: Bags) -> float:
        return kernel_width(self.gamma, bags)


class MeanInterceptSVM(InstanceMarginSVM):
    """mi-SVM with the intercept of misvm: the mean of y - w.x over all support vectors.

    The intercept of the SVM is that of the support vectors whose multipliers are below C; misvm
    averages over the others, too. As mi-SVM labels instances by the sign of their scores, the
    labels differ, and the machine of the last round is kept, not that of the lowest objective.
    """

    def _solve(
        self, space: Any, offsets: NDArray[Any], positive: NDArray[Any], costs: NDArray[Any]
    ) -> SolverResult:
        bag = np.repeat(np.arange(len(positive)), np.diff(offsets))
        inside, cost = positive[bag], costs[bag]
        everything = sparse.eye_array(len(bag), format="csr")
        signs, curve = np.where(inside, 1, -1), []
        for _ in range(MOST_ROUNDS):
            problem = MarginProblem.separate(everything, signs, cost)
            machine = _as_misvm(max_margin(space, problem, tol=self.tol), problem)
            curve.append(machine.objective(signs, cost))
            guess = np.where(inside & (machine.scores >= 0), 1, -1)
            best = offsets[:-1] + compiled.segments.argmax(machine.scores, offsets)
            guess[best[positive]] = 1
            if np.array_equal(guess, signs):
                break
            signs = guess
        return SolverResult((machine.coef, np.array(machine.intercept)), curve, True)


class OffsetFreeSVM(WellSVMClassifier):
    """The SVM without offset; the protocols give it the labelled rows only."""


class SummedSparseMIL(SparseMIL):
    """sMIL as in misvm: a bag is the sum of its instances, in training and in prediction.

    In the paper of sMIL, and here, a positive bag is the mean of its instances in training, and a
    bag is scored by its best instance.
    """

    least = 0.0  # multipliers up to this one are dropped

    def _solve(
        self, space: Any, offsets: NDArray[Any], positive: NDArray[Any], costs: NDArray[Any]
    ) -> SolverResult:
        problem = _summed(offsets, positive, costs)
        machine = max_margin(space, problem, tol=self.tol)
        kept = machine.multipliers * (machine.multipliers > self.least)
        if not kept.any():
            return SolverResult((np.zeros_like(machine.coef), np.array(0.0)), [0.0], True)
        coef = problem.combine.T @ (problem.signs * kept)
        return replace(machine, coef=coef).result()

    def predict(self, X: Any) -> Any:
        """Predict the class of each bag by the score of the sum of its instances."""
        return super().predict(_sums(X))


class TruncatedSparseMIL(SummedSparseMIL):
    """The same, without multipliers up to 1e-7, as in misvm: with a small C, the constant 0."""

    least = SUPPORT


class SummedBalancedSparseMIL(BalancedSparseMIL):
    """sbMIL as in misvm: sMIL is trained on sums of instances before it ranks them."""

    def _solve(
        self, space: Any, offsets: NDArray[Any], positive: NDArray[Any], costs: NDArray[Any]
    ) -> SolverResult:
        ranking = max_margin(space, _summed(offsets, positive, costs), tol=self.tol).scores
        bag = np.repeat(np.arange(len(positive)), np.diff(offsets))
        ranked = -np.sort(-ranking[positive[bag]])
        n_positive = max(round(self.eta * len(ranked)), int(positive.sum()))
        chosen = positive[bag] & (ranking >= ranked[n_positive - 1])
        everything = sparse.eye_array(len(bag), format="csr")
        problem = MarginProblem.separate(everything, np.where(chosen, 1, -1), costs[bag])
        return max_margin(space, problem, tol=self.tol).result()


def annotator(
    metric: Any = None, n_references: int = 20, n_citers: int = 20, kind: str = "minmin"
) -> Pipeline:
    """Citation-kNN in a learned metric.

    Parameters
    ----------
    metric : metric learner, default=None
        The Euclidean metric by default.
    n_references, n_citers : int, default=20
        How many bags vote.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="minmin"
        The distance between bags.

    Returns
    -------
    Pipeline
    """
    first = InstanceTransformer() if metric is None else metric
    return make_pipeline(first, CitationKNN(n_references, n_citers, kind=kind))


def dissimilarity_svm(kind: str = "meanmin", C: float = 1.0) -> Pipeline:
    """MInD: a linear SVM on the distances to the training bags.

    Parameters
    ----------
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="meanmin"
        The distance between bags.
    C : float, default=1.0
        Weight of the errors.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(BagDissimilarity(kind), SVC(C=C, kernel="linear"))


def on_dense_rows(model: Any) -> Pipeline:
    """Give a model that needs dense instances those of sparse bags, such as tokens.

    Parameters
    ----------
    model : estimator
        What is fitted.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(
        InstanceTransformer(FunctionTransformer(_dense, accept_sparse=True)), model
    )


def _dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows


def _as_misvm(machine: Machine, problem: MarginProblem) -> Machine:
    """The machine with the mean of y - w.x over its support vectors as intercept."""
    support = machine.multipliers > SUPPORT
    plain = machine.scores - machine.intercept
    shift = float(np.mean((problem.signs - problem.combine @ plain)[support]))
    return replace(machine, intercept=shift, scores=plain + shift)


def _summed(offsets: NDArray[Any], positive: NDArray[Any], costs: NDArray[Any]) -> MarginProblem:
    """The problem of sMIL in which the sum of its instances stands for a positive bag."""
    problem = bag_problem(offsets, positive, costs, slack_per_bag=False)
    sizes = np.ones(len(problem.signs))
    sizes[problem.signs > 0] = np.diff(offsets)[positive]
    combine = sparse.csr_array(sparse.diags_array(sizes) @ problem.combine)
    margins = np.where(problem.signs > 0, 2 / sizes - 1, 1.0)
    return replace(problem, combine=combine, margins=margins)


def _sums(X: Any) -> Bags:
    """Bags of one instance, the sum."""
    bags = X if isinstance(X, Bags) else Bags.from_arrays(X)
    sums = np.add.reduceat(bags.instances, bags.offsets[:-1], axis=0)
    return Bags(sums, np.arange(len(bags) + 1))

"""Models used only by reproduced papers; the TOML files refer to them by name."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from bagwise import loops
from bagwise.annotation import ORedLogisticRegression
from bagwise.bags import Bags
from bagwise.base._set_kernel import width_of
from bagwise.classification import (
    BalancedSparseMIL,
    CitationKNN,
    ClassToBag,
    InstanceMarginSVM,
    MINet,
    SetKernelSVM,
    SparseMIL,
)
from bagwise.embedding import BagDissimilarity
from bagwise.pairwise import kernel_width
from bagwise.preprocessing import InstanceTransformer
from bagwise.solvers.margin.max_margin import Machine, MarginProblem, bag_problem, max_margin
from bagwise.solvers.result import SolverResult
from reproduction.bag_data import load_corel5k_test_regions
from reproduction.rivals import PublishedWellSVM

__all__ = [
    "MeanInterceptSVM",
    "MeanInterceptSparseMIL",
    "MinimaxSVM",
    "OffsetFreeSVM",
    "PublishedClassToBag",
    "SelectedORLR",
    "SummedBalancedSparseMIL",
    "SummedSparseMIL",
    "TruncatedSparseMIL",
    "annotator",
    "authors_metric",
    "dissimilarity_svm",
    "on_dense_rows",
]

SUPPORT = 1e-7  # misvm's threshold on the multipliers of support vectors
MOST_ROUNDS = 50  # maximum number of iterations of misvm's mi-SVM


class MinimaxSVM(SetKernelSVM):
    """SVM with the minimax kernel and the width of an instance kernel, as in bagwise 0.1."""

    def _width(self, bags: Bags) -> float:
        return kernel_width(self.gamma, bags)


class SelectedORLR(ORedLogisticRegression):
    """ORLR whose kernel width, then penalty, are selected by the likelihood of held-out bags.

    The given setting is kept unless another one is better by more than one standard error.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, instance_labels: Any = None) -> Any:
        """Select the settings by three-fold cross-validation, and fit with them."""
        width = width_of(self.gamma, X)
        reg = 0.01 if isinstance(self.reg, str) else self.reg
        for name, middle in (("gamma", width), ("reg", reg)):
            grid = {name: [factor * middle for factor in (1.0, 0.5, 2.0)]}
            model = ORedLogisticRegression(**self.get_params()).set_params(tol=2e-3)
            folds = KFold(3, shuffle=True, random_state=0)
            search = GridSearchCV(model, grid, scoring=_held_out, cv=folds, refit=_first)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the final fit raises the same warnings
                self.set_params(**search.fit(X, y).best_params_)
        return super().fit(X, y, sample_weight, instance_labels)


def _first(results: dict[str, Any]) -> int:
    """The first candidate that is not behind the best one by the standard error over folds."""
    scores = np.array([results[f"split{i}_test_score"] for i in range(3)])
    behind = scores[:, [scores.sum(axis=0).argmax()]] - scores
    return int(np.flatnonzero(behind.mean(axis=0) <= behind.std(axis=0) / np.sqrt(3))[0])


def _held_out(model: ORedLogisticRegression, bags: Bags, label_sets: Any) -> float:
    """Mean log-likelihood of the label sets that are possible."""
    values = model.log_likelihood(bags, label_sets)
    return float(values[np.isfinite(values)].mean())


class MeanInterceptSVM(InstanceMarginSVM):
    """mi-SVM with the intercept of misvm: the mean of y - w.x over all support vectors.

    The usual intercept uses only the support vectors whose multipliers are below C; misvm averages
    over all of them. mi-SVM labels instances by the sign of their scores, so the labels differ.
    The model of the last iteration is kept, not the one with the lowest objective.
    """

    def _separate(self, bags: Any) -> SolverResult:
        space, offsets, positive, costs = bags
        bag = np.repeat(np.arange(len(positive)), np.diff(offsets))
        inside, cost = positive[bag], costs[bag]
        everything = sparse.eye_array(len(bag), format="csr")
        signs, curve = np.where(inside, 1, -1), []
        for _ in range(MOST_ROUNDS):
            problem = MarginProblem.separate(everything, signs, cost)
            machine = _as_misvm(max_margin(space, problem, tol=self.tol), problem)
            curve.append(machine.objective(signs, cost))
            guess = np.where(inside & (machine.scores >= 0), 1, -1)
            best = offsets[:-1] + loops.segments.argmax(machine.scores, offsets)
            guess[best[positive]] = 1
            if np.array_equal(guess, signs):
                break
            signs = guess
        return SolverResult((machine.coef, np.array(machine.intercept)), curve, True)


class OffsetFreeSVM(PublishedWellSVM):
    """SVM without intercept; the protocols fit it on the labelled rows only."""


class SummedSparseMIL(SparseMIL):
    """sMIL as in misvm: a bag is the sum of its instances, in training and in prediction.

    In the sMIL paper, and in bagwise, a positive bag is the mean of its instances in training, and
    a bag is scored by its highest-scoring instance.
    """

    least = 0.0  # multipliers up to this value are dropped

    def _separate(self, bags: Any) -> SolverResult:
        space, offsets, positive, costs = bags
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
    """sMIL as in misvm, without multipliers up to 1e-7: with a small C, all scores are 0."""

    least = SUPPORT


class MeanInterceptSparseMIL(SummedSparseMIL):
    """sMIL as in misvm, with its intercept: the mean of y - w.x over all support vectors."""

    def _separate(self, bags: Any) -> SolverResult:
        space, offsets, positive, costs = bags
        problem = _summed(offsets, positive, costs)
        return _as_misvm(max_margin(space, problem, tol=self.tol), problem).result()


class PublishedClassToBag(ClassToBag):
    """M-C2B by the algorithm of Wang et al. 2012: no penalty, U not orthonormal."""

    _orthonormal = False


class PaperMINet(MINet):
    """MINet trained by gradient descent with momentum 0.9, for all epochs."""

    _training_tol = None

    def _optimizer(self, weights: Any, **options: Any) -> Any:
        import torch

        return torch.optim.SGD(weights, lr=self.learning_rate, momentum=0.9, **options)


class SummedBalancedSparseMIL(BalancedSparseMIL):
    """sbMIL as in misvm: sMIL is trained on sums of instances before it ranks them."""

    def _separate(self, bags: Any) -> SolverResult:
        space, offsets, positive, costs = bags
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
        Metric of the instances; Euclidean by default.
    n_references, n_citers : int, default=20
        Numbers of bags that vote.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="minmin"
        The distance between bags.

    Returns
    -------
    Pipeline
    """
    first = InstanceTransformer() if metric is None else metric
    return make_pipeline(first, CitationKNN(n_references, n_citers, kind=kind))


def authors_metric() -> InstanceTransformer:
    """The metric of the authors of MIMLCA for Corel5K, learned from the 4,500 training pictures.

    Returns
    -------
    InstanceTransformer
    """
    L = load_corel5k_test_regions().authors_metric
    return InstanceTransformer(FunctionTransformer(_project, kw_args={"L": L}))


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
    """Convert sparse instances, such as tokens, to dense ones for a model that needs them.

    Parameters
    ----------
    model : estimator
        The model that needs dense instances.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(
        InstanceTransformer(FunctionTransformer(_dense, accept_sparse=True)), model
    )


def _project(rows: Any, L: NDArray[Any]) -> Any:
    return rows @ L


def _dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows


def _as_misvm(machine: Machine, problem: MarginProblem) -> Machine:
    """Replace the intercept of an SVM by the mean of y - w.x over its support vectors."""
    support = machine.multipliers > SUPPORT
    plain = machine.scores - machine.intercept
    shift = float(np.mean((problem.signs - problem.combine @ plain)[support]))
    return replace(machine, intercept=shift, scores=plain + shift)


def _summed(offsets: NDArray[Any], positive: NDArray[Any], costs: NDArray[Any]) -> MarginProblem:
    """The sMIL problem in which a positive bag is represented by the sum of its instances."""
    problem = bag_problem(offsets, positive, costs, slack_per_bag=False)
    sizes = np.ones(len(problem.signs))
    sizes[problem.signs > 0] = np.diff(offsets)[positive]
    combine = sparse.csr_array(sparse.diags_array(sizes) @ problem.combine)
    margins = np.where(problem.signs > 0, 2 / sizes - 1, 1.0)
    return replace(problem, combine=combine, margins=margins)


def _sums(X: Any) -> Bags:
    """Bags of one instance each: the sum of the bag's instances."""
    bags = X if isinstance(X, Bags) else Bags.from_arrays(X)
    sums = np.add.reduceat(bags.instances, bags.offsets[:-1], axis=0)
    return Bags(sums, np.arange(len(bags) + 1))

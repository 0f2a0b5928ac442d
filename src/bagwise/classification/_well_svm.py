"""WellMISVM: a convex multi-instance SVM that weighs several choices of key instances (Li 2013)."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Bools, Ints
from bagwise.bags import Bags
from bagwise.base import OneVsRestMixin
from bagwise.base._label_machine import LabelMachine
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.compute import is_here, over_partitions
from bagwise.labels import Labels
from bagwise.solvers.result import SolverResult
from bagwise.solvers.wellsvm.well_svm import KeyInstances, canonical_order, supervised, well_svm


@with_parameters
class WellMISVM(OneVsRestMixin, LabelMachine):
    r"""Weakly labelled SVM for multi-instance learning (WellSVM, Li 2013).

    One *key instance* s(i) represents a positive bag i; every instance of a negative bag is
    negative. The choice of key instances is relaxed to a convex problem,

    .. math:: \max_{0 \le \alpha \le C} \; \min_{s} \; \sum_i \alpha_i - \tfrac12
        \Bigl|\sum_{i \in +} \alpha_i \varphi(x_{i, s(i)})
        - \sum_{j \in -} \alpha_j \varphi(x_j)\Bigr|^2

    whose solution mixes a few choices. More than two classes are handled one-vs-rest.

    Parameters
    ----------
    C1 : float, default=1.0
        Cost of a margin error of a positive bag.
    C2 : float or "auto", default="auto"
        Cost of a margin error of an instance of a negative bag; "auto" balances both sides,
        ``C1 * n_positive_bags / n_negative_instances``.
    {pos_label}
    threshold : {"bags", "zero"}, default="bags"
        Where a score becomes positive: where it separates the training bags best (in balanced
        accuracy), or at 0. The margins hold for each choice separately, not for the mixture that
        scores an instance, so that 0 can be far off.
    kernel : str or callable, default="rbf"
        "linear", another of scikit-learn's names ("rbf", "poly", ...), a function of two vectors,
        or "precomputed" (instances by instances).
    {gamma}
    offset : float, default=1.0
        Value of the constant feature whose weight is the offset of the SVM, in units of the root
        mean squared length of the instances; 0 for none.
    tol : float, default=1e-2
        Violation of a new choice, and decrease of the objective, to stop at; relative.
    max_cuts : int, default=50
        Maximum number of selections of key instances.
    random_state : int, RandomState or None, default=0
        For the order of the coordinate descent (and the Nystroem approximation).
    {verbose}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    coef_ : ndarray of shape (n_machines, n_features)
        The weights of the features (linear kernel); one SVM for two classes, else one per class.
    support_ : ndarray of shape (n_support,)
        Training instances with non-zero weight (other kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those instances.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        Their weights.
    nystroem_ : Nystroem
        The approximation of the kernel, if there were more than 7,000 instances.
    {gamma_}
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    label_vectors_ : list of ndarray of int64 of shape (n_cuts, n_positive_bags)
        For each SVM, the choices: the row of the key instance inside each positive bag.
    label_weights_ : list of ndarray of shape (n_cuts,)
        The weights of the choices, with sum 1.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each choice, summed over the SVMs.
    duality_gap_ : float
        Relative distance of the objective to the lowest bound over the generated choices, the last
        one included. Not a bound over all choices: the search for the most violated one is local.
    n_iter_ : int
        Number of choices; the largest number over all SVMs.
    {n_features_in_}

    Notes
    -----
    Cost of a pass: the size of the instance table (or the square of the instances, with a kernel),
    times a few dozen passes. Beyond 7,000 instances 500 Nystroem features replace the kernel: the
    cost is linear in the bags, and the scores are less accurate. Standardise the instances first.
    They are centred, in the feature space of the kernel; sparse rows stay sparse in memory. Bags on
    a Dask cluster are collected, since coordinate descent is sequential.

    References
    ----------
    Li, Tsang, Kwok, Zhou. Convex and scalable weakly labeled SVMs. JMLR 14 (2013).

    Examples
    --------
    >>> from bagwise.classification import WellMISVM
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = WellMISVM().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "max"
    keeps = "standard"
    largest_gram, n_landmarks = 7_000, 500
    _runs_elsewhere = ("cluster",)

    _parameter_constraints = {
        "C2": [StrOptions({"auto"}), POSITIVE],
        "threshold": [StrOptions({"bags", "zero"})],
    }

    C1: float = 1.0
    C2: Any = "auto"
    _: KW_ONLY
    pos_label: Any = None
    threshold: str = "bags"
    kernel: Any = "rbf"
    gamma: Any = "scale"
    offset: float = 1.0
    tol: float = 1e-2
    max_cuts: int = 50
    random_state: Any = 0
    verbose: int = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Array, rng: Any) -> None:
        bags = bags if is_here(bags) else bags.collect()  # type: ignore[attr-defined]
        choices = [KeyInstances(bags.offsets, labels.signs(k) > 0) for k in labels.positives]
        results = self._learn(bags.instances, choices, int(rng.randint(2**31 - 1)))
        self.label_vectors_ = [_keys(r, c) for r, c in zip(results, choices, strict=True)]
        self.label_weights_ = [result.solution.weights for result in results]
        if self.threshold == "bags":
            best = over_partitions(self._bag_scores, bags)
            each = zip(best.T, choices, strict=True)
            shifts = [_threshold(scores, choice.positive) for scores, choice in each]
            self.intercept_ = self.intercept_ - np.array(shifts)

    def _generate(self, rows: Any, choices: KeyInstances, seed: int) -> SolverResult:
        positive, n_negative = choices.positive, len(choices.negatives)
        n_positive = int(positive.sum())
        C2 = self.C2 if self.C2 != "auto" else self.C1 * n_positive / n_negative
        costs = np.repeat([float(self.C1), float(C2)], [n_positive, n_negative])
        sizes = np.diff(choices.offsets)
        inside = np.repeat(positive, sizes)
        order = canonical_order(rows, inside)
        # Start as if all instances of a positive bag were positive and shared its cost.
        each = np.where(inside, self.C1 / np.repeat(sizes, sizes), C2)
        signs = np.where(inside, 1, -1).astype(np.int8)
        tol = self.tol if sizes[positive].max() > 1 else self.tol / 100  # nothing to choose
        scores, _ = supervised(rows, order, signs[order], each[order], tol=tol, seed=seed)
        return well_svm(
            rows,
            choices,
            costs,
            choices.choose(scores, costs, scores),
            order=_variable_order(order, choices),
            tol=tol,
            max_cuts=self.max_cuts,
            seed=seed,
        )


def _threshold(scores: Array, positive: Bools) -> float:
    """Midpoint of the widest gap between bag scores with the highest balanced accuracy."""
    order = np.argsort(scores, kind="stable")
    ranked, sides = scores[order], positive[order]
    below = np.cumsum(~sides) / np.sum(~sides) - np.cumsum(sides) / np.sum(sides)
    gaps = np.diff(ranked)
    useful = gaps > 0
    if not useful.any():
        return 0.0
    accuracy = np.where(useful, below[:-1], -np.inf)
    best = accuracy >= accuracy.max() - 1e-12
    at = int(np.argmax(np.where(best, gaps, -np.inf)))
    return float((ranked[at] + ranked[at + 1]) / 2)


def _variable_order(order: Ints, choices: KeyInstances) -> Ints:
    """Sort the variables by the last of their instances in `order`."""
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    bags = loops.segments.maximum(place, choices.offsets)[choices.positive]
    return np.argsort(np.concatenate([bags, place[choices.negatives]])).astype(np.int64)


def _keys(result: SolverResult, choices: KeyInstances) -> Ints:
    """Choices of key instances, as rows inside the positive bags."""
    starts = choices.offsets[:-1][choices.positive]
    mixture = result.solution
    picks = np.broadcast_to(mixture.picks, mixture.signs.shape)[: len(starts)]
    return np.ascontiguousarray((picks - starts[:, None]).T)

"""WellMISVM: a convex multi-instance SVM that weighs several choices of key instances (Li 2013)."""

from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from bagwise import compiled
from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Bools, Ints
from bagwise._validation import check_bag_labels, check_bags
from bagwise.bags import Bags
from bagwise.base import OneVsRestMixin, fit_method
from bagwise.base._label_machine import LabelMachine, TrainingRows
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.compiled.threads import one_core_if_small
from bagwise.engines import by_place, local_instances, over_partitions, over_tasks, require_local
from bagwise.solvers.wellsvm.well_svm import (
    KeyInstances,
    MixtureResult,
    canonical_order,
    supervised,
    well_svm,
)


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
    {degree}
    {coef0}
    center : bool, default=True
        Whether to centre the instances, in the feature space of the kernel; sparse rows stay sparse
        in memory.
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
        The approximation of the kernel, if there were more than 20,000 instances.
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
    times a few dozen passes. Standardise the instances first. On a cluster the classes are learned
    in parallel, each on a worker that holds all instances.

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
    degree: float = 3
    coef0: float = 1.0
    center: bool = True
    offset: float = 1.0
    tol: float = 1e-2
    max_cuts: int = 50
    random_state: Any = 0
    verbose: int = 0

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Fit one SVM (two classes) or one per class.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,)
            The class of each bag.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = self._with_positive(check_bag_labels(y, bags, min_classes=2))
        choices = self._one_vs_rest(
            labels, lambda signs: KeyInstances(bags.offsets, signs > 0), task=None
        )
        training, results = self._learn(bags, choices)
        self._keep_machines(local_instances(bags), training, results)
        self.classes_, self.pos_label_ = labels.classes, labels.pos_label
        self.label_vectors_ = [_keys(r, c) for r, c in zip(results, choices, strict=True)]
        self.label_weights_ = [result.solution.weights for result in results]
        if self.threshold == "bags":
            best = over_partitions(self._bag_scores, bags)
            each = zip(best.T, choices, strict=True)
            shifts = [_threshold(scores, choice.positive) for scores, choice in each]
            self.intercept_ = self.intercept_ - np.array(shifts)
        return self

    def _learn(
        self, bags: Bags, choices: list[KeyInstances]
    ) -> tuple[TrainingRows, list[MixtureResult]]:
        """Fit the SVMs; return their training rows and the results."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.kernel != "linear":
            require_local(
                bags,
                f"bags on a cluster are fitted with kernel='linear', not {self.kernel!r}: choose "
                "it, or gather the bags with bags.collect().",
            )
        here = partial(self._machines, choices=choices, seed=seed)
        return by_place(bags, here, partial(self._machines_on_workers, choices=choices, seed=seed))

    def _machines_on_workers(
        self, bags: Bags, choices: list[KeyInstances], seed: int
    ) -> tuple[TrainingRows, list[MixtureResult]]:
        # Coordinate descent is sequential: an SVM is not split over workers, but the SVMs of the
        # classes are solved in parallel.
        found = over_tasks(partial(_machines_there, clone(self), seed=seed), bags, choices)
        return found[0][0], [result for _, results in found for result in results]

    def _machines(
        self, bags: Bags, choices: list[KeyInstances], seed: int
    ) -> tuple[TrainingRows, list[MixtureResult]]:
        with one_core_if_small(bags.instances):
            training = self._present(bags.instances, seed)
            each = self._track(choices, "class")
            return training, [self._solve(training.rows, choice, seed) for choice in each]

    def _solve(self, rows: Any, choices: KeyInstances, seed: int) -> MixtureResult:
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
        f, _ = supervised(
            rows, order, signs[order], each[order], order=np.arange(len(order)), tol=tol, seed=seed
        )
        scores = compiled.dual_descent.score(rows, f)
        first = choices.choose(scores, costs, scores)
        result = well_svm(
            rows, choices, costs, first, order=_variable_order(order, choices), tol=tol,
            max_cuts=self.max_cuts, seed=seed,
        )  # fmt: skip
        machine = result.solution
        picks, signs = machine.picks[:n_positive], machine.signs[:n_positive]  # positive bags only
        return replace(result, solution=machine._replace(picks=picks, signs=signs))


def _machines_there(
    model: WellMISVM, bags: Bags, choices: list[KeyInstances], seed: int
) -> tuple[TrainingRows, list[MixtureResult]]:
    """Fit the SVMs on a worker; the returned training rows keep only their metadata."""
    training, results = model.set_params(verbose=0)._machines(bags, choices, seed)
    rows = training.rows
    few = {
        name: getattr(rows, name)[:1]
        for name in ("values", "score_factors", "sum_factors", "squares")
    }
    rows = rows._replace(**few, data=rows.data[:0], indices=rows.indices[:0])
    return training._replace(rows=rows), results


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
    bags = compiled.segments.maximum(place, choices.offsets)[choices.positive]
    return np.argsort(np.concatenate([bags, place[choices.negatives]])).astype(np.int64)


def _keys(result: MixtureResult, choices: KeyInstances) -> Ints:
    """Choices of key instances, as rows inside the positive bags."""
    starts = choices.offsets[:-1][choices.positive]
    picks = np.broadcast_to(result.solution.picks, result.solution.signs.shape)
    return np.ascontiguousarray((picks - starts[:, None]).T)

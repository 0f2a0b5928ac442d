r"""Multi-instance SVMs for two classes of bags: mi-SVM, MI-SVM, sMIL and sbMIL.

mi-SVM and MI-SVM choose instances (Andrews 2003). With f(x) = w . phi(x) + b, both minimise 1/2
|w|^2 plus C times slacks. Negative bags contain negative instances only. For a positive bag,

- mi-SVM imputes the label of each instance, at least one positive, with a slack per instance;
- MI-SVM has one slack, for the witness, max_j f(x_j).

Both alternate: fit the SVM for given labels or witnesses, then choose the best labels or witnesses
for the SVM. Neither half raises the objective, so the alternation ends when a choice is repeated.

sMIL and sbMIL are for sparse positive bags (Bunescu and Mooney 2007). A positive bag of n instances
contains at least one positive instance. If it contains exactly one, the mean score of the bag is (1
- (n - 1)) / n = 2/n - 1. So sMIL requires

    w . phi(B) / |B| + b >= 2 / |B| - 1 - xi_B,        and f(x) <= -1 + xi_x

for every positive bag B and every instance x of a negative bag. Negative instances far outnumber
positive bags; a weight below 1 for their slacks, which the paper does not have, balances the
classes. The problem is convex, without alternation. sbMIL ranks the instances of positive bags by
sMIL, labels the top ones positive and the others negative, and trains an ordinary SVM.

The intercept of a multi-instance SVM balances slacks of instances, while a bag is scored by its
best instance. The scores rank bags well, but zero is a poor threshold for bags: `at_threshold`
shifts the intercept, by the scores of training or held-out bags.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import offsets_of
from bagwise.solvers.margin.feature_space import FeatureSpace, check_costs, selection
from bagwise.solvers.margin.max_margin import Machine, MarginProblem, bag_problem, max_margin
from bagwise.solvers.result import SolverResult

TIE = 100.0  # scores this near, in units of tol, count as equal
N_FOLDS = 5
PER_FOLD = 2  # least number of bags of each class in a fold
SCORE_BITS = 20  # scores that differ by less than 1e-6 of the largest are equal


class LabelledBags(NamedTuple):
    """Bags of two classes, and their costs.

    Attributes
    ----------
    space : FeatureSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive; both kinds must occur.
    costs : ndarray of shape (n_bags,)
        C of each bag, or of each of its instances.
    """

    space: FeatureSpace
    offsets: Ints
    positive: Bools
    costs: Floats

    @property
    def sizes(self) -> Ints:
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    @property
    def bag_index(self) -> Ints:
        """The bag of each instance."""
        return np.repeat(np.arange(len(self.positive)), self.sizes)

    def take(self, chosen: Bools) -> "LabelledBags":
        """Some of the bags; their kernel matrix is not computed again."""
        space = self.space.take(np.flatnonzero(chosen[self.bag_index]))
        starts = offsets_of(self.sizes[chosen])
        return LabelledBags(space, starts, self.positive[chosen], self.costs[chosen])


def instance_margin(bags: LabelledBags, *, max_iter: int, tol: float) -> SolverResult:
    """Learn by mi-SVM: every instance has a label and a slack.

    Parameters
    ----------
    bags : LabelledBags
        The bags, with C of the instances of each bag.
    max_iter : int
        Maximum number of SVMs to fit.
    tol : float
        Tolerance on the margins.

    Returns
    -------
    SolverResult
        ``solution`` is (coef, intercept), with coef of shape (n_instances,); the curve is the
        objective with the best labels for each SVM.
    """
    inside, cost = bags.positive[bags.bag_index], bags.costs[bags.bag_index]
    everything = sparse.eye_array(len(cost), format="csr")

    def solve(signs: Ints, before: Machine | None) -> Machine:
        problem = MarginProblem.separate(everything, signs, cost)
        start = None if before is None else before.start(_carried(signs, before, cost))
        return max_margin(bags.space, problem, tol=tol, start=start)

    def judge(machine: Machine) -> tuple[Ints, float]:
        signs = np.where(inside & (machine.scores > tol), 1, -1)
        # Instances on the margin have equal scores: prefer the one with the largest coefficient.
        tilted = machine.scores + TIE * tol * machine.coef / cost
        rows = loops.segments.argmax(loops.ties.settled(tilted), bags.offsets)
        signs[(bags.offsets[:-1] + rows)[bags.positive]] = 1
        return signs, machine.objective(signs, cost)

    return alternate(solve, judge, np.where(inside, 1, -1), max_iter)


def bag_margin(
    bags: LabelledBags, *, slack_per_bag: bool, max_iter: int, tol: float, witnesses: Any = None
) -> SolverResult:
    """Learn by MI-SVM: a positive bag is represented by its witness.

    Parameters
    ----------
    bags : LabelledBags
        The bags, with C of each bag.
    slack_per_bag : bool
        Whether the instances of a negative bag share one slack, or have one each.
    max_iter : int
        Maximum number of SVMs to fit.
    tol : float
        Tolerance on the margins.
    witnesses : ndarray of int of shape (n_positive_bags,), default=None
        The row of the initial witness of each positive bag; by default the mean of the bag is used.

    Returns
    -------
    SolverResult
        ``solution`` is (coef, intercept), with coef of shape (n_instances,); the curve is the
        objective with the best witnesses for each SVM.
    """
    space, offsets, positive, costs = bags
    problem = bag_problem(offsets, positive, costs, slack_per_bag=slack_per_bag)
    negatives = problem.combine[problem.signs < 0]

    def solve(chosen_rows: Ints, before: Machine | None) -> Machine:
        if before is None and witnesses is None:
            return max_margin(space, problem, tol=tol)
        chosen = selection(chosen_rows, offsets[-1])
        combine = sparse.vstack([negatives, chosen], format="csr")
        start = None if before is None else before.restart(problem.signs)
        return max_margin(space, replace(problem, combine=combine), tol=tol, start=start)

    @cache
    def tilt() -> Floats:
        """Scores by the difference of the class means, the SVM of vanishing C; at most 1."""
        scores = space.scores(problem.mean_difference())
        return scores / max(float(np.abs(scores).max()), np.finfo(float).tiny)

    def judge(machine: Machine) -> tuple[Ints, float]:
        scores = machine.scores
        first, second, _ = loops.segments.top2(scores, offsets)
        if np.any(positive & (first - second < TIE * tol)):
            # For example if the means are not separable from the negatives, and w = 0.
            scores = scores + TIE * tol * tilt()
        rows = loops.segments.argmax(loops.ties.settled(scores), offsets)
        best = (offsets[:-1] + rows)[positive]
        scores = np.concatenate([negatives @ machine.scores, machine.scores[best]])
        return best, 0.5 * machine.squared_norm + problem.loss(scores)

    first = np.full(positive.sum(), -1) if witnesses is None else witnesses
    return alternate(solve, judge, first, max_iter)


def alternate(
    solve: Callable[[Ints, Machine | None], Machine],
    judge: Callable[[Machine], tuple[Ints, float]],
    guess: Ints,
    max_iter: int,
) -> SolverResult:
    """Alternate between an SVM and a choice of labels or witnesses, until a choice is repeated.

    Parameters
    ----------
    solve : callable
        Takes a choice and the SVM of the previous round, or None; returns the SVM.
    judge : callable
        Returns the best choice for an SVM, and the objective with it.
    guess : ndarray of int
        The initial choice.
    max_iter : int
        Maximum number of SVMs to fit.

    Returns
    -------
    SolverResult
        The SVM with the lowest objective; not converged if no choice was repeated, or if an SVM
        did not converge, which ends the search.
    """
    seen: set[bytes] = set()
    machine: Machine | None = None
    curve: list[float] = []
    while guess.tobytes() not in seen and len(curve) < max_iter:
        seen.add(guess.tobytes())
        machine = solve(guess, machine)
        guess, objective = judge(machine)
        if not curve or objective < min(curve):
            best = machine
        curve.append(objective)
        if not machine.converged:  # later ones would not converge either
            break
    solution = best.coef, np.array(best.intercept)
    return SolverResult(solution, curve, best.converged and guess.tobytes() in seen)


def _carried(signs: Ints, before: Machine, cost: Floats) -> Floats:
    """Multipliers for new signs: C or 0 for instances whose sign changed, depending on slack."""
    changed = signs * before.coef < 0
    inside = signs * before.scores < 1
    return np.where(changed, np.where(inside, cost, 0.0), np.abs(before.coef))


def sparse_mil(
    bags: LabelledBags, *, negative_weight: float | str, tol: float, eta: float | None = None
) -> SolverResult:
    """Learn by sMIL: the mean of a positive bag scores as if one of its instances were positive.

    With `eta`, by sbMIL: an SVM on instance labels imputed by sMIL.

    Parameters
    ----------
    bags : LabelledBags
        The bags, with C of each bag.
    negative_weight : float or "auto"
        Cost of an instance of a negative bag, as a multiple of its C; "auto" is the number
        of positive bags divided by the number of negative instances.
    tol : float
        Tolerance on the margins.
    eta : float, default=None
        Share of the instances of positive bags that sbMIL labels positive; at least one per
        positive bag on average.

    Returns
    -------
    SolverResult
        ``solution`` is (coef, intercept), with coef of shape (n_instances,).
    """
    space, offsets, positive, costs = bags
    balance = float(positive.sum() / bags.sizes[~positive].sum())
    weight = balance if isinstance(negative_weight, str) else negative_weight
    check_costs(1.0, negative_weight=weight)
    weighted = np.where(positive, costs, weight * costs)
    problem = bag_problem(offsets, positive, weighted, slack_per_bag=False)
    margins = problem.margins.copy()
    margins[problem.signs > 0] = 2 / bags.sizes[positive] - 1
    ranking = max_margin(space, replace(problem, margins=margins), tol=tol)
    if eta is None:
        return ranking.result()
    inside = positive[bags.bag_index]
    ranked = -np.sort(-ranking.scores[inside])
    n_positive = max(int(np.rint(eta * len(ranked))), int(positive.sum()))
    # Choose instances that tie with the last one too, so that the order does not matter.
    chosen = inside & (ranking.scores >= ranked[n_positive - 1] - 100 * tol)
    everything = sparse.eye_array(len(chosen), format="csr")
    problem = MarginProblem.separate(everything, np.where(chosen, 1, -1), costs[bags.bag_index])
    return max_margin(space, problem, tol=tol).result()


Solve = Callable[[LabelledBags], SolverResult]


def at_threshold(
    solve: Solve, bags: LabelledBags, *, threshold: str, seed: int, groups: Array | None = None
) -> SolverResult:
    """Fit a model and shift its intercept, so that scores above the threshold become positive.

    Parameters
    ----------
    solve : callable
        Takes labelled bags and returns a model: ``solution`` is (coefficients of the instances,
        intercept).
    bags : LabelledBags
        The bags.
    threshold : {"zero", "training", "out_of_fold"}
        Keep the intercept, or separate the scores of the training bags, or separate their
        out-of-fold scores. With fewer than 10 bags of a class, or groups with and without positive
        bags, "out_of_fold" is "training".
    seed : int
        Seed of the folds.
    groups : ndarray of shape (n_bags,), default=None
        The group of each bag; bags of one group stay in one fold.

    Returns
    -------
    SolverResult
        The result of `solve` on all bags, with another intercept.
    """
    result, positive = solve(bags), bags.positive
    if threshold == "zero":
        return result
    coef, intercept = result.solution
    unit = np.arange(len(positive))  # which bags stay together
    if groups is not None:
        unit = np.unique(groups, return_inverse=True)[1]
    n_bags = np.bincount(unit)
    has_positive = np.bincount(unit, weights=positive) > 0
    n_fewest = min(int(has_positive.sum()), int((~has_positive).sum()))
    if threshold == "out_of_fold" and n_fewest >= N_FOLDS * PER_FOLD:
        means = np.bincount(unit, weights=_mean_scores(bags)) / n_bags
        folds = even_folds(means, has_positive, seed)[unit]
        scores = out_of_fold_scores(solve, bags, folds)
    else:
        scores = bag_scores(bags, coef) + intercept
    shifted = intercept - most_accurate_threshold(scores, positive, bags.costs)
    return replace(result, solution=(coef, shifted))


def most_accurate_threshold(scores: Array, positive: Bools, weights: Array) -> float:
    """Find the threshold of highest accuracy.

    Candidates are the midpoints between adjacent scores. Ties are broken by the distance to zero,
    the threshold of the model, then in favour of the lower threshold. Scores that differ by less
    than 1e-6 of the largest count as equal.

    Parameters
    ----------
    scores : ndarray of shape (n_bags,)
        The scores.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive; both kinds must occur.
    weights : ndarray of shape (n_bags,)
        Weight of each bag.

    Returns
    -------
    float
        The threshold; zero if all scores are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers.margin.misvm import most_accurate_threshold
    >>> scores, positive = np.array([-3.0, -2.0, -1.5, -1.0]), np.array([False, False, True, True])
    >>> most_accurate_threshold(scores, positive, np.ones(4))
    -1.75
    """
    settled = loops.ties.settled(scores, bits=SCORE_BITS)
    order = np.argsort(settled, kind="stable")
    ranked, sides, shares = scores[order], positive[order], weights[order] / weights.sum()
    apart = np.diff(settled[order]) > 0
    if not apart.any():
        return 0.0
    # Relative to "all positive", each bag below the threshold adds or loses its weight.
    gained = loops.ties.settled(np.cumsum(np.where(sides, -shares, shares))[:-1])
    best = np.flatnonzero(apart & (gained == gained[apart].max()))
    middles = (ranked[best] + ranked[best + 1]) / 2
    return float(middles[np.argmin(loops.ties.settled(np.abs(middles), bits=SCORE_BITS))])


def out_of_fold_scores(solve: Solve, bags: LabelledBags, folds: Ints) -> Floats:
    """Score each bag by a model trained on the other folds.

    Parameters
    ----------
    solve, bags
        As in `at_threshold`; the kernel matrix of the instances is shared by all folds.
    folds : ndarray of int of shape (n_bags,)
        The fold of each bag.

    Returns
    -------
    ndarray of shape (n_bags,)
    """
    scores = np.empty(len(folds))
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        found = solve(bags.take(~held_out))
        coef = np.zeros(bags.offsets[-1])
        coef[~held_out[bags.bag_index]], intercept = found.solution
        scores[held_out] = (bag_scores(bags, coef) + intercept)[held_out]
    return scores


def bag_scores(bags: LabelledBags, coef: Floats) -> Floats:
    """Score bags by their best instance, without intercept.

    Parameters
    ----------
    bags : LabelledBags
        The bags.
    coef : ndarray of shape (n_instances,)
        Coefficients of the model.

    Returns
    -------
    ndarray of shape (n_bags,)
    """
    return loops.segments.maximum(bags.space.scores(coef), bags.offsets)


def even_folds(values: Floats, positive: Bools, seed: int) -> Ints:
    """Assign bags to folds, stratified by class and by a value.

    The bags of a class are sorted by value; each run of `N_FOLDS` bags is assigned to the folds at
    random, one bag per fold. The folds do not depend on the order of the bags.

    Parameters
    ----------
    values : ndarray of shape (n_bags,)
        A value per bag.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    seed : int
        Seed of the random assignment.

    Returns
    -------
    ndarray of int of shape (n_bags,)
        The fold of each bag, from 0 to `N_FOLDS` - 1.
    """
    rng = np.random.RandomState(seed)
    folds = np.empty(len(values), dtype=np.int64)
    for side in (False, True):
        bags = np.flatnonzero(positive == side)
        bags = bags[np.argsort(loops.ties.settled(values[bags]), kind="stable")]
        n_hands = -(-len(bags) // N_FOLDS)
        dealt = np.concatenate([rng.permutation(N_FOLDS) for _ in range(n_hands)])
        folds[bags] = dealt[: len(bags)]
    return folds


def _mean_scores(bags: LabelledBags) -> Floats:
    """Mean scores of bags by the difference of the class means, which avoids ties at margins."""
    inside = bags.positive[bags.bag_index]
    shares = np.where(inside, 1 / inside.sum(), -1 / (~inside).sum())
    return loops.segments.mean(bags.space.scores(shares), bags.offsets)

r"""mi-SVM and MI-SVM: support vector machines that choose instances (Andrews 2003).

With f(x) = w . phi(x) + b, both minimise 1/2 |w|^2 plus C times slacks. Negative bags hold negative
instances only. Of a positive bag,

- mi-SVM guesses the label of each instance, at least one positive, and pays for every instance;
- MI-SVM pays for one instance, the witness, max_j f(x_j).

Both alternate: the machine for given labels or witnesses, then those that suit the machine best.
Neither half raises the objective, so the alternation ends when a guess comes back.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
from scipy import sparse

from bagwise import compiled
from bagwise._types import Bools, Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace, selection
from bagwise.solvers.margin.max_margin import Machine, MarginProblem, bag_problem, max_margin
from bagwise.solvers.result import SolverResult

TIE = 100.0  # scores this near, in units of tol, count as equal


def instance_margin(
    space: FeatureSpace, offsets: Ints, positive: Bools, costs: Floats, *, max_iter: int, tol: float
) -> SolverResult:
    """Learn by mi-SVM: every instance has a label and a slack.

    Parameters
    ----------
    space : FeatureSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive; some are, some are not.
    costs : ndarray of shape (n_bags,)
        C of the instances of each bag.
    max_iter : int
        Most machines to solve.
    tol : float
        Tolerance of the margins.

    Returns
    -------
    SolverResult
        ``solution`` is (coef, intercept), with coef of shape (n_instances,); the curve is the
        objective with the labels that suit each machine best.
    """
    bag = np.repeat(np.arange(len(positive)), np.diff(offsets))
    inside, cost = positive[bag], costs[bag]
    everything = sparse.eye_array(len(bag), format="csr")

    def solve(signs: Ints, before: Machine | None) -> Machine:
        problem = MarginProblem.separate(everything, signs, cost)
        start = None if before is None else before.start(_carried(signs, before, cost))
        return max_margin(space, problem, tol=tol, start=start)

    def judge(machine: Machine) -> tuple[Ints, float]:
        signs = np.where(inside & (machine.scores > tol), 1, -1)
        # Instances held at their margin score alike: of those the least held down is the best.
        tilted = machine.scores + TIE * tol * machine.coef / cost
        best = offsets[:-1] + compiled.segments.argmax(compiled.ties.settled(tilted), offsets)
        signs[best[positive]] = 1
        return signs, machine.objective(signs, cost)

    return alternate(solve, judge, np.where(inside, 1, -1), max_iter)


def bag_margin(
    space: FeatureSpace,
    offsets: Ints,
    positive: Bools,
    costs: Floats,
    *,
    slack_per_bag: bool,
    max_iter: int,
    tol: float,
    witnesses: Ints | None = None,
) -> SolverResult:
    """Learn by MI-SVM: a positive bag is its witness.

    Parameters
    ----------
    space : FeatureSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive; some are, some are not.
    costs : ndarray of shape (n_bags,)
        C of each bag.
    slack_per_bag : bool
        Whether the instances of a negative bag share one slack, or have one each.
    max_iter : int
        Most machines to solve.
    tol : float
        Tolerance of the margins.
    witnesses : ndarray of int of shape (n_positive_bags,), default=None
        The first witness of each positive bag, a row; by default the mean of the bag.

    Returns
    -------
    SolverResult
        ``solution`` is (coef, intercept), with coef of shape (n_instances,); the curve is the
        objective with the witnesses that suit each machine best.
    """
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
        """Scores by the difference of the class means, the machine of vanishing C; at most 1."""
        scores = space.scores(problem.mean_difference())
        return scores / max(float(np.abs(scores).max()), np.finfo(float).tiny)

    def judge(machine: Machine) -> tuple[Ints, float]:
        scores = machine.scores
        first, second, _ = compiled.segments.top2(scores, offsets)
        if np.any(positive & (first - second < TIE * tol)):
            # As when the means cannot be told from the negatives, and w = 0.
            scores = scores + TIE * tol * tilt()
        rows = compiled.segments.argmax(compiled.ties.settled(scores), offsets)
        best = (offsets[:-1] + rows)[positive]
        scores = np.concatenate([negatives @ machine.scores, machine.scores[best]])
        return best, 0.5 * machine.squared_norm + problem.loss(scores, 0.0)

    first = np.full(positive.sum(), -1) if witnesses is None else witnesses
    return alternate(solve, judge, first, max_iter)


def alternate(
    solve: Callable[[Ints, Machine | None], Machine],
    judge: Callable[[Machine], tuple[Ints, float]],
    guess: Ints,
    max_iter: int,
) -> SolverResult:
    """Solve for a guess and guess anew, until a guess has been seen before; keep the best.

    Parameters
    ----------
    solve : callable
        Takes a guess and the machine of the round before, or None; returns the machine.
    judge : callable
        Gives the guess that suits a machine best, and the objective with it.
    guess : ndarray of int
        The first guess.
    max_iter : int
        Most machines to solve.

    Returns
    -------
    SolverResult
        Of the machine with the lowest objective; not converged if no guess came back, or if a
        machine did not converge, which ends the search.
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
        if not machine.converged:  # it spent its whole budget, and so would all that follow
            break
    solution = best.coef, np.array(best.intercept)
    return SolverResult(solution, curve, best.converged and guess.tobytes() in seen)


def _carried(signs: Ints, before: Machine, cost: Floats) -> Floats:
    """Multipliers for new signs: those of an instance that changed sides follow from its slack."""
    changed = signs * before.coef < 0
    inside = signs * before.scores < 1
    return np.where(changed, np.where(inside, cost, 0.0), np.abs(before.coef))

r"""The convex subproblem of the classic multi-instance SVMs: any margins, shared slacks.

.. math:: \min_{w, b, \xi \ge 0} \tfrac12 |w|^2 + \sum_g C_g \xi_g \quad\text{s.t.}\quad
    y_i (w \cdot \phi_i + b) \ge p_i - \xi_{g(i)}

The ordinary SVM has one point per group and p = 1. LIBSVM and LIBLINEAR support neither shared
slacks nor other margins nor warm starts; LIBLINEAR penalises the intercept, and LIBSVM needs
millions of steps if C is large and there are fewer features than points.

The method is the proximal point algorithm on the dual (the augmented Lagrangian of the primal).
Each step is a smooth convex problem, solved by a semismooth Newton method. Let z = p - y f be the
margin violations and A the set of feasible multipliers: a >= 0, with sum at most C_g in group g. A
step from (a_k, b_k) minimises over (w, b)

    1/2 |w|^2 + max_{a in A} (a . z - |a - a_k|^2 / (2 sigma)) + rho/2 (b - b_k)^2

whose inner maximum is at a = Proj_A(a_k + sigma z). The resulting multipliers solve the dual for
margins that differ from the required ones by (a - a_k) / sigma; `tol` bounds that difference.

References
----------
Rockafellar. Augmented Lagrangians and applications of the proximal point algorithm in convex
programming. Mathematics of Operations Research, 1976.

Yan, Li. An efficient augmented Lagrangian method for support vector machine. Optimization Methods
and Software, 2020.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace, Points, Ties, selection
from bagwise.solvers.result import SolverResult

GROWTH = 4.0  # factor of sigma per proximal step
RESTART = 1e-3  # a warm start begins with this fraction of the last sigma
MAX_PROXIMAL = 60
MAX_NEWTON = 200

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class MarginProblem:
    """Points and their required margins.

    Attributes
    ----------
    combine : CSR of shape (n_points, n_instances)
        The points as averages of instances.
    signs : ndarray of shape (n_points,)
        y: 1 or -1, the same throughout a group; both occur.
    margins : ndarray of shape (n_points,)
        p.
    groups : ndarray of int of shape (n_points,)
        The slack of each point: 0, 0, 1, ..., non-decreasing.
    costs : ndarray of shape (n_groups,)
        C of each slack, positive.
    """

    combine: sparse.csr_array
    signs: Floats
    margins: Floats
    groups: Ints
    costs: Floats

    @classmethod
    def separate(cls, combine: sparse.csr_array, signs: Array, costs: Floats) -> "MarginProblem":
        """The ordinary SVM: a slack for each point, and margins of 1."""
        n = len(signs)
        return cls(combine, signs.astype(np.float64), np.ones(n), np.arange(n), costs)

    @cached_property
    def offsets(self) -> Ints:
        """Where each group begins."""
        return np.searchsorted(self.groups, np.arange(len(self.costs) + 1))

    def take(self, chosen: Ints) -> "MarginProblem":
        """Select points, given in increasing order."""
        present, groups = np.unique(self.groups[chosen], return_inverse=True)
        signs, margins = self.signs[chosen], self.margins[chosen]
        return MarginProblem(self.combine[chosen], signs, margins, groups, self.costs[present])

    @cached_property
    def group_signs(self) -> Floats:
        """The sign of each group."""
        return self.signs[self.offsets[:-1]]

    def loss(self, scores: Floats) -> float:
        """Total cost of the slacks."""
        missed = np.maximum.reduceat(self.margins - self.signs * scores, self.offsets[:-1])
        return float(self.costs @ np.maximum(missed, 0.0))

    def mean_difference(self) -> Floats:
        """Mean of the positive minus mean of the negative points, as coefficients of instances.

        This is the direction of w as the costs go to zero.
        """
        positive = self.signs > 0
        shares = np.where(positive, 1 / positive.sum(), -1 / (~positive).sum())
        return self.combine.T @ shares

    def best_intercept(self, plain: Floats) -> tuple[float, float]:
        """The intercept of least cost for given w, the middle of an interval; and that cost."""
        needed = np.maximum.reduceat(self.margins - self.signs * plain, self.offsets[:-1])
        best = best_intercept(self.group_signs * needed, self.group_signs, self.costs)
        return best, float(self.costs @ np.maximum(needed - self.group_signs * best, 0.0))


def best_intercept(corners: Floats, signs: Floats, costs: Floats, noise: float = 1e-12) -> float:
    """Find the intercept b that minimises a sum of hinges; the middle if there is an interval.

    Parameters
    ----------
    corners : ndarray of shape (n,)
        The b at which each hinge changes slope.
    signs : ndarray of shape (n,)
        1 for a hinge that is positive below its corner, -1 for one that is positive above.
    costs : ndarray of shape (n,)
        The slope of each hinge.
    noise : float, default=1e-12
        Slopes this small, relative to the sum of all, count as zero.

    Returns
    -------
    float
    """
    order = np.argsort(corners, kind="stable")
    # The slope starts at minus the costs of the positive hinges and grows by a cost at each corner.
    slopes = np.cumsum(costs[order]) - costs[signs > 0].sum()
    flat = noise * costs.sum()
    low = int(np.argmax(slopes >= -flat))  # where the cost stops decreasing
    high = int(np.argmax(slopes > flat))  # where it starts to increase
    return 0.5 * float(corners[order[low]] + corners[order[high]])


@dataclass(frozen=True)
class Start:
    """A warm start: the solution of a similar problem on the same points.

    Attributes
    ----------
    multipliers : ndarray of shape (n_points,)
        a.
    coef : ndarray of shape (n_points,)
        w as coefficients of the points.
    intercept : float
        b.
    sigma : float
        Length of the first proximal step; raised to the default length if it is shorter.
    """

    multipliers: Floats
    coef: Floats
    intercept: float
    sigma: float


@dataclass(frozen=True)
class Machine:
    """The solution of a `MarginProblem`.

    Attributes
    ----------
    coef : ndarray of shape (n_instances,)
        w as coefficients of the instances.
    intercept : float
        b.
    scores : ndarray of shape (n_instances,)
        Scores of all instances.
    squared_norm : float
        |w|^2.
    multipliers : ndarray of shape (n_points,)
        a.
    sigma : float
        Length of the last proximal step.
    objective_curve : ndarray
        The objective after each proximal step.
    converged : bool
        False if the iteration limit was reached.
    """

    coef: Floats
    intercept: float
    scores: Floats
    squared_norm: float
    multipliers: Floats
    sigma: float
    objective_curve: Floats
    converged: bool

    def objective(self, signs: Array, costs: Floats) -> float:
        """1/2 |w|^2 plus the hinge loss of all instances with these signs."""
        slacks = np.maximum(0.0, 1 - signs * self.scores)
        return 0.5 * self.squared_norm + float(costs @ slacks)

    def start(self, multipliers: Floats) -> Start:
        """A warm start for new signs of the instances, with these multipliers."""
        return Start(multipliers, self.coef, self.intercept, RESTART * self.sigma)

    def restart(self, signs: Floats) -> Start:
        """A warm start for the same groups and signs, if some points have changed."""
        a = self.multipliers
        return Start(a, signs * a, self.intercept, RESTART * self.sigma)

    def result(self) -> SolverResult:
        """Convert to a `SolverResult` with solution (coef, intercept)."""
        solution = self.coef, np.array(self.intercept)
        return SolverResult(solution, self.objective_curve, self.converged)


def bag_problem(
    offsets: Ints, positive: Bools, costs: Floats, *, slack_per_bag: bool
) -> MarginProblem:
    """The convex problem in which a positive bag is represented by the mean of its instances.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive; both kinds must occur.
    costs : ndarray of shape (n_bags,)
        C of each bag.
    slack_per_bag : bool
        Whether the instances of a negative bag share one slack, or have one each.

    Returns
    -------
    MarginProblem
        The points are all instances of negative bags, then the means of positive bags.
    """
    sizes = np.diff(offsets)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    negatives = np.flatnonzero(~positive[bag])
    groups, cost = np.arange(len(negatives)), costs[bag[negatives]]
    if slack_per_bag:
        groups, cost = np.unique(bag[negatives], return_inverse=True)[1], costs[~positive]
    n_positive = int(positive.sum())
    means = sparse.csr_array((1 / sizes[bag], np.arange(len(bag)), offsets))[positive]
    return MarginProblem(
        combine=sparse.vstack([selection(negatives, len(bag)), means], format="csr"),
        signs=np.repeat([-1.0, 1.0], [len(negatives), n_positive]),
        margins=np.ones(len(negatives) + n_positive),
        groups=np.concatenate([groups, len(cost) + np.arange(n_positive)]),
        costs=np.concatenate([cost, costs[positive]]),
    )


def max_margin(
    space: FeatureSpace, problem: MarginProblem, *, tol: float, start: Start | None = None
) -> Machine:
    """Solve a max-margin problem.

    A problem of many points is solved on a subset; points that violate their margin are added
    until there are none, which solves the whole problem.

    Parameters
    ----------
    space : FeatureSpace
        The instances.
    problem : MarginProblem
        The points and their margins.
    tol : float
        Tolerance on the margins.
    start : Start, default=None
        Warm start.

    Returns
    -------
    Machine
    """
    tol, nothing = max(tol, space.least_tol), np.zeros(len(problem.signs))
    start = Start(nothing, nothing, 0.0, 0.0) if start is None else start
    chosen = _first_choice(problem, start.multipliers, space.at_once)
    while True:
        part = problem.take(chosen)
        points = space.points(part.combine)
        here = Start(start.multipliers[chosen], start.coef[chosen], start.intercept, start.sigma)
        found, sigma, curve, converged = _proximal_point(points, part, here, tol)
        a = np.zeros(len(problem.signs))
        a[chosen] = found
        coef = problem.combine.T @ (problem.signs * a)
        plain = space.scores(coef)
        at_points = problem.combine @ plain
        b = part.best_intercept(at_points[chosen])[0]
        failed = _failed(problem, at_points + b, chosen, tol)
        if len(failed) == 0:
            b = problem.best_intercept(at_points)[0]
            squared_norm = float(coef @ plain)
            return Machine(coef, b, plain + b, squared_norm, a, sigma, curve, converged)
        chosen = np.union1d(chosen, failed)
        start = Start(a, problem.signs * a, b, RESTART * sigma)


def _first_choice(problem: MarginProblem, a: Floats, at_once: int) -> Ints:
    """All points; if there are too many, those with multipliers and every n-th of each sign."""
    if len(a) <= at_once:
        return np.arange(len(a))
    of_sign = [np.flatnonzero(problem.signs == sign) for sign in (-1.0, 1.0)]
    even = [rows[:: 1 + 4 * len(rows) // at_once] for rows in of_sign]
    return np.unique(np.concatenate([*even, np.flatnonzero(a)]))


def _failed(problem: MarginProblem, scores: Floats, chosen: Ints, tol: float) -> Ints:
    """Points to add: those that need more slack than their group has, and the next in order."""
    missed = problem.margins - problem.signs * scores
    slacks = np.zeros(len(problem.costs))
    np.maximum.at(slacks, problem.groups[chosen], missed[chosen])
    excess = missed - slacks[problem.groups]
    excess[chosen] = -np.inf
    n_failed = int(np.count_nonzero(excess > tol))
    left = len(excess) - len(chosen)
    wanted = min(max(2 * n_failed, len(chosen) // 2), len(chosen), left) if n_failed else 0
    return np.argsort(-excess, kind="stable")[:wanted]


def _proximal_point(
    points: Points, problem: MarginProblem, start: Start, tol: float
) -> tuple[Floats, float, Floats, bool]:
    """Return multipliers, last sigma, objective after each step, and whether `tol` was reached."""
    # The multiplier of a single active point is about 1 / |phi|^2, and at most C.
    natural = float(problem.costs.max())
    if points.mean_square > 0:
        natural = min(natural, 1 / points.mean_square)
    a, sigma = start.multipliers, max(start.sigma, 16 * natural)
    coef, plain, b = start.coef, points.product(start.coef), start.intercept
    last: _State | None = None
    curve: list[float] = []
    for _ in range(MAX_PROXIMAL):
        step = _Step(points, problem, a, b, sigma, natural**2 / sigma)
        last = _newton(step, step.at((coef, plain, b)), last, 0.1 * tol)
        a, coef, plain, b = last.a, last.coef, last.plain, last.b
        uneven = points.mean_square * step.rho * abs(b - step.b)
        moved = max(float(np.abs(a - step.a).max()) / sigma, uneven)
        curve.append(0.5 * float(coef @ plain) + problem.best_intercept(plain)[1])
        # The tolerance cannot be below the rounding error of the sums.
        reach = max(tol, 256 * EPS * points.mean_square * float(a.sum()))
        if max(moved, last.error) <= reach:
            return a, sigma, np.array(curve), True
        # Longer steps converge faster, but the rounding error of sigma z must stay below `left`.
        left = max(reach, moved)
        if last.error > left:
            sigma /= GROWTH
        elif last.error < 0.1 * left:
            sigma *= GROWTH
    return a, sigma, np.array(curve), False


class _State(NamedTuple):
    """A point (w, b) in a proximal step, and what follows from its multipliers.

    Attributes
    ----------
    coef, plain, b
        w as coefficients of the points and as scores of the points; b.
    a : ndarray of shape (n_points,)
        The multipliers Proj_A(a_k + sigma z).
    pieces : _Pieces
        The quadratic piece of the objective.
    made_coef, made : ndarray of shape (n_points,)
        The w of these multipliers, as coefficients and as scores of the points.
    slope_b : float
        The gradient in b.
    error : float
        The distance of w from the w of the multipliers.
    """

    coef: Floats
    plain: Floats
    b: float
    a: Floats
    pieces: "_Pieces"
    made_coef: Floats
    made: Floats
    slope_b: float
    error: float


class _Pieces(NamedTuple):
    """A quadratic piece of the objective.

    Attributes
    ----------
    free, full : ndarray of bool
        The free multipliers and the full groups.
    chosen : ndarray of int
        The free points.
    ties : Ties
        The ties between those in full groups.
    """

    free: Bools
    full: Bools
    chosen: Ints
    ties: Ties


@dataclass(frozen=True)
class _Step:
    """The smooth problem of a proximal step from (a, b)."""

    points: Points
    problem: MarginProblem
    a: Floats
    b: float
    sigma: float
    rho: float

    def at(self, where: tuple[Any, Any, float], pieces: Any = None, found: Any = None) -> _State:
        """Compute the gradient at (w, b), and the multipliers: on these pieces, if given.

        `where` has `coef`, `plain` and b; `found` is the projection onto feasible multipliers, if
        it is known.
        """
        coef, plain, b = where
        signs, problem = self.problem.signs, self.problem
        values = self.a + self.sigma * (problem.margins - signs * (plain + b))
        if pieces is None:
            caps = problem.offsets, problem.costs
            a, free, full = found or loops.simplex.project(values, *caps)
            chosen = np.flatnonzero(free)
            groups = problem.groups[chosen]
            tied = np.flatnonzero(full[groups])
            starts = np.flatnonzero(np.diff(groups[tied], prepend=-1))
            counts = np.diff(starts, append=len(tied))
            pieces = _Pieces(free, full, chosen, Ties(tied, starts, counts))
        else:
            a = self.a.copy()
            # The projection keeps the sum of tied multipliers.
            moved = (values - self.a)[pieces.chosen, None]
            a[pieces.chosen] += pieces.ties.untie(moved)[:, 0]
        made_coef = signs * a
        made = self.points.product(made_coef)
        slope_b = self.rho * (b - self.b) - float(made_coef.sum())
        error = max(float(np.abs(plain - made).max()), self.points.mean_square * abs(slope_b))
        return _State(coef, plain, b, a, pieces, made_coef, made, slope_b, error)

    def target(self, here: _State) -> tuple[Floats, Floats, float]:
        """Coefficients, scores and b at the end of a full Newton step.

        With P the derivative of the projection, the step solves

            dw + sigma Phi' P (Phi dw + 1 db) = -(w - Phi' Y a),
            rho db + sigma 1' P (Phi dw + 1 db) = -(gradient in b),

        so w + dw = Phi' (Y a - u), where u = sigma P (Phi dw + 1 db) is zero except on the free
        points.
        """
        chosen, ties = here.pieces.chosen, here.pieces.ties
        right = np.column_stack([np.ones(len(chosen)), (here.plain - here.made)[chosen]])
        by_b, by_w = self.points.solve(chosen, ties, 1 / self.sigma, right).T
        slope, bend = float(here.slope_b - by_w.sum()), self.rho + max(float(by_b.sum()), 0.0)
        # If no free point depends on b, its step is unbounded; no margin needs a longer step.
        missed = self.problem.margins - self.problem.signs * (here.plain + here.b)
        far = 1 + 2 * float(np.abs(missed).max())
        db = -slope / bend if abs(slope) < far * bend else -math.copysign(far, slope)
        u = np.zeros(len(here.a))
        u[chosen] = db * by_b - by_w
        return here.made_coef - u, here.made - self.points.product(u), here.b + db

    def towards(self, here: _State, coef: Floats, plain: Floats, b: float) -> tuple[_State, bool]:
        """Search along the segment to (w, b); also return whether the full step was taken."""
        dcoef, way, way_b = coef - here.coef, plain - here.plain, b - here.b
        reach = way + way_b  # the change of each score
        # Bound on the rounding error of the slope: z is exact to EPS |f|.
        largest = (1 + float(np.abs(plain).max())) * self.sigma
        noise = EPS * float((largest + np.abs(here.coef)) @ np.abs(reach))
        signs, problem = self.problem.signs, self.problem
        length, found = loops.simplex.step_length(
            self.a + self.sigma * (problem.margins - signs * (here.plain + here.b)),
            signs * reach,
            self.sigma,
            float(here.coef @ way) + self.rho * (here.b - self.b) * way_b,
            float(dcoef @ way) + self.rho * way_b * way_b,
            noise,
            problem.offsets,
            problem.costs,
        )
        there = here.coef + length * dcoef, here.plain + length * way, here.b + length * way_b
        return self.at(there, found=found), length == 1.0


def _newton(step: _Step, here: _State, last: _State | None, tol: float) -> _State:
    """Minimise the objective of a proximal step.

    The objective is piecewise quadratic: once the pieces no longer change, one step reaches the
    minimum, and further steps only reduce rounding errors.
    """
    if last is not None:
        # The pieces of the last step are often still correct; a larger sigma obscures that.
        there = step.at(step.target(step.at(here[:3], last.pieces)))
        here = there if there.error < here.error else here
    for _ in range(MAX_NEWTON):
        if here.error <= tol:
            break
        before = here
        here, is_full = step.towards(here, *step.target(here))
        same = all(map(np.array_equal, here.pieces[:2], before.pieces[:2]))
        if is_full and same and here.error > 0.5 * before.error:
            break
    return here

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

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import sparse

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.solvers.line_search import line_search
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
    def separate(cls, combine: sparse.csr_array, signs: Array, costs: Floats) -> MarginProblem:
        """The ordinary SVM: a slack for each point, and margins of 1."""
        n = len(signs)
        return cls(combine, signs.astype(np.float64), np.ones(n), np.arange(n), costs)

    @cached_property
    def offsets(self) -> Ints:
        """Where each group begins."""
        return np.searchsorted(self.groups, np.arange(len(self.costs) + 1))

    def take(self, chosen: Ints) -> MarginProblem:
        """Select points, given in increasing order."""
        present, groups = np.unique(self.groups[chosen], return_inverse=True)
        signs, margins = self.signs[chosen], self.margins[chosen]
        return MarginProblem(self.combine[chosen], signs, margins, groups, self.costs[present])

    def needed(self, plain: Floats) -> Floats:
        """The largest margin violation in each group, at scores without intercept."""
        return loops.segments.maximum(self.margins - self.signs * plain, self.offsets)

    @cached_property
    def group_signs(self) -> Floats:
        """The sign of each group."""
        return self.signs[self.offsets[:-1]]

    def loss(self, plain: Floats, intercept: float) -> float:
        """Total cost of the slacks."""
        missed = self.needed(plain) - self.group_signs * intercept
        return float(self.costs @ np.maximum(missed, 0.0))

    def mean_difference(self) -> Floats:
        """Mean of the positive minus mean of the negative points, as coefficients of instances.

        This is the direction of w as the costs go to zero.
        """
        positive = self.signs > 0
        shares = np.where(positive, 1 / positive.sum(), -1 / (~positive).sum())
        return self.combine.T @ shares

    def best_intercept(self, plain: Floats) -> float:
        """The intercept of least cost for given w; the middle if there is an interval."""
        corners = self.group_signs * self.needed(plain)
        return best_intercept(corners, self.group_signs, self.costs)


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
        b = part.best_intercept(at_points[chosen])
        failed = _failed(problem, at_points + b, chosen, tol)
        if len(failed) == 0:
            b = problem.best_intercept(at_points)
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
    a, sigma = start.multipliers, max(start.sigma, natural)
    here = _Place(start.coef, points.product(start.coef), start.intercept)
    pieces: _Pieces | None = None
    curve: list[float] = []
    for _ in range(MAX_PROXIMAL):
        step = _Step(points, problem, a, here.b, sigma, natural**2 / sigma)
        here, a, pieces, error = _newton(step, here, pieces, 0.1 * tol)
        uneven = points.mean_square * step.rho * abs(here.b - step.b)
        moved = max(float(np.abs(a - step.a).max()) / sigma, uneven)
        loss = problem.loss(here.plain, problem.best_intercept(here.plain))
        curve.append(0.5 * float(here.coef @ here.plain) + loss)
        # The tolerance cannot be below the rounding error of the sums.
        reach = max(tol, 256 * EPS * points.mean_square * float(a.sum()))
        if max(moved, error) <= reach:
            return a, sigma, np.array(curve), True
        # Longer steps converge faster, but the rounding error of sigma z must stay below `left`.
        left = max(reach, moved)
        if error > left:
            sigma /= GROWTH
        elif error < 0.1 * left:
            sigma *= GROWTH
    return a, sigma, np.array(curve), False


@dataclass(frozen=True)
class _Place:
    """A point (w, b), with w as coefficients of the points and as scores of the points."""

    coef: Floats
    plain: Floats
    b: float

    def towards(self, other: _Place, length: float) -> _Place:
        return _Place(
            self.coef + length * (other.coef - self.coef),
            self.plain + length * (other.plain - self.plain),
            self.b + length * (other.b - self.b),
        )


@dataclass(frozen=True)
class _Pieces:
    """A quadratic piece of the objective, given by the free multipliers and the full groups."""

    free: Bools
    full: Bools

    def equals(self, other: _Pieces) -> bool:
        return np.array_equal(self.free, other.free) and np.array_equal(self.full, other.full)


@dataclass(frozen=True)
class _Step:
    """The smooth problem of a proximal step from (a, b)."""

    points: Points
    problem: MarginProblem
    a: Floats
    b: float
    sigma: float
    rho: float

    def missed(self, here: _Place) -> Floats:
        """Margin violation z of each point."""
        return self.problem.margins - self.problem.signs * (here.plain + here.b)

    def multipliers(self, here: _Place) -> tuple[Floats, _Pieces]:
        """Compute Proj_A(a + sigma z), and the piece on which it is linear."""
        target = self.a + self.sigma * self.missed(here)
        a, free, full = loops.simplex.project(target, self.problem.offsets, self.problem.costs)
        return a, _Pieces(free, full)

    def made(self, here: _Place, a: Floats) -> tuple[_Place, float]:
        """The w for multipliers `a`, with the gradient in b; and the distance of `here` from it."""
        coef = self.problem.signs * a
        plain = self.points.product(coef)
        slope_b = self.rho * (here.b - self.b) - float(coef.sum())
        error = float(np.abs(here.plain - plain).max())
        return _Place(coef, plain, slope_b), max(error, self.points.mean_square * abs(slope_b))

    def slope(self, here: _Place, there: _Place, length: float) -> float:
        """Derivative of the objective along the segment from `here` to `there`."""
        place = here.towards(there, length)
        way, way_b = there.plain - here.plain, there.b - here.b
        pull = (self.problem.signs * self.multipliers(place)[0]) @ (way + way_b)
        return float(place.coef @ way - pull + self.rho * (place.b - self.b) * way_b)

    def rounding(self, here: _Place, there: _Place) -> float:
        """Bound on the rounding error of the slope: z is exact to EPS |f|."""
        way = np.abs(there.plain - here.plain + (there.b - here.b))
        largest = 1 + float(np.abs(there.plain).max())
        return EPS * (self.sigma * largest * float(way.sum()) + float(np.abs(here.coef) @ way))


def _newton(
    step: _Step, here: _Place, last: _Pieces | None, tol: float
) -> tuple[_Place, Floats, _Pieces, float]:
    """Minimise the objective of a proximal step.

    Returns the minimiser, its multipliers, its pieces, and the distance of its scores from those of
    the multipliers. The objective is piecewise quadratic: once the pieces no longer change, one
    step reaches the minimum, and further steps only reduce rounding errors.
    """
    a, pieces = step.multipliers(here)
    made, error = step.made(here, a)
    if last is not None:
        # The pieces of the last step are often still correct; a larger sigma obscures that.
        there = _on_pieces(step, here, last)
        there_a, there_pieces = step.multipliers(there)
        there_made, there_error = step.made(there, there_a)
        if there_error < error:
            here, a, pieces, made, error = there, there_a, there_pieces, there_made, there_error
    for _ in range(MAX_NEWTON):
        if error <= tol:
            break
        there = _newton_target(step, here, made, pieces)
        # If the slope may be due to rounding, take the full step.
        slope_here = step.slope(here, there, 0.0)
        length = 1.0
        if slope_here <= -step.rounding(here, there):
            length = line_search(partial(step.slope, here, there), slope_here)
        here = here.towards(there, length)
        before, error_before = pieces, error
        a, pieces = step.multipliers(here)
        made, error = step.made(here, a)
        if length == 1.0 and pieces.equals(before) and error > 0.5 * error_before:
            break
    return here, a, pieces, error


def _on_pieces(step: _Step, here: _Place, pieces: _Pieces) -> _Place:
    """Minimiser under the assumption that these pieces, those of `step.a`, are correct."""
    chosen, ties = _chosen(step, pieces)
    a = step.a.copy()
    a[chosen] += step.sigma * ties.untie(step.missed(here)[chosen, None])[:, 0]
    return _newton_target(step, here, step.made(here, a)[0], pieces)


def _newton_target(step: _Step, here: _Place, made: _Place, pieces: _Pieces) -> _Place:
    """End point of a full Newton step; `made` holds Y a, K Y a and the gradient in b.

    With P the derivative of the projection, the step solves

        dw + sigma Phi' P (Phi dw + 1 db) = -(w - Phi' Y a),
        rho db + sigma 1' P (Phi dw + 1 db) = -(gradient in b),

    so w + dw = Phi' (Y a - u), where u = sigma P (Phi dw + 1 db) is zero except on the free points.
    """
    chosen, ties = _chosen(step, pieces)
    right = np.column_stack([np.ones(len(chosen)), (here.plain - made.plain)[chosen]])
    by_b, by_w = step.points.solve(chosen, ties, 1 / step.sigma, right).T
    slope, bend = float(made.b - by_w.sum()), step.rho + max(float(by_b.sum()), 0.0)
    # If no free point depends on b, its step is unbounded; no margin needs a longer step than this.
    far = 1 + 2 * float(np.abs(step.missed(here)).max())
    db = -slope / bend if abs(slope) < far * bend else -math.copysign(far, slope)
    u = np.zeros(len(pieces.free))
    u[chosen] = db * by_b - by_w
    return _Place(made.coef - u, made.plain - step.points.product(u), here.b + db)


def _chosen(step: _Step, pieces: _Pieces) -> tuple[Ints, Ties]:
    """The free points, and the ties between those in full groups."""
    chosen = np.flatnonzero(pieces.free)
    groups = step.problem.groups[chosen]
    tied = np.flatnonzero(pieces.full[groups])
    starts = np.flatnonzero(np.diff(groups[tied], prepend=-1))
    return chosen, Ties(tied, starts, np.diff(starts, append=len(tied)))

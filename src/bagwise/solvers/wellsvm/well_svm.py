"""WellSVM: a support vector machine for weakly labelled data (Li 2013).

    max_a min_(y in B) 1'a - 1/2 |v(a, y)|^2,    v(a, y) = sum_i a_i y_i phi(x_i),   0 <= a_i <= C_i

is solved by cutting planes: for a working set of label vectors y_1 .. y_T the *master* problem
finds their weights mu and a (label-kernel learning); a *generator* then looks for a more violated
label vector in B. The set B of admissible label vectors depends on the setting:

- semi-supervised (`PartialLabels`): some y_i are known, the others have a given balance;
- clustering (`BoundedLabels`): -beta <= 1'y <= beta;
- multi-instance (`KeyInstances`): one instance of each positive bag is chosen, instead of signs.

The generator maximises |v(a, y)|^2, a convex function, over B by local search. So the bound of the
stopping criterion holds for the label vectors found, not for all of B.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.compute.arrays import with_fixed_signs
from bagwise.solvers.result import SolverResult

if TYPE_CHECKING:  # numba is imported with the first compiled function
    from bagwise.loops.dual_descent import Rows

Column = tuple[Ints, Ints]  # row and sign of each variable

TINY = np.finfo(float).tiny
INEXACT = 0.1  # tolerance of a subproblem, relative to the gap of the outer problem
LEVEL = 0.7  # position of the level between the lower and the upper bound
MAX_PASSES = 1000  # over the variables, for one mu
MOST_PASSES = 20_000  # over the variables, for one fit
MAX_STEPS = 100  # of the level method, for one working set
ASCENT = 10  # steps of the label search
GROWTH = 0.05  # least relative growth of the violation per step of the label search
MAX_PLANES = 8  # kept from one working set to the next


class Mixture(NamedTuple):
    """The fitted model: the weighted mean of the SVMs of several label vectors.

    Attributes
    ----------
    f : ndarray of shape (width,)
        The model as a vector in the space of the rows.
    coef : ndarray of shape (n_rows,)
        The coefficient of each row in f.
    picks : ndarray of shape (n_variables, n_cuts) or (n_variables, 1)
        The row of each variable; one column per label vector if they differ.
    signs : ndarray of shape (n_variables, n_cuts)
        The label of each variable.
    weights : ndarray of shape (n_cuts,)
        mu.
    gap : ndarray of shape ()
        Relative distance of the objective from the lower bound.
    """

    f: Floats
    coef: Floats
    picks: Ints
    signs: Ints
    weights: Floats
    gap: Floats


@dataclass(frozen=True)
class PartialLabels:
    """Label vectors with known signs, and a given number of -1 among the others.

    Attributes
    ----------
    signs : ndarray of int8 of shape (n_rows,)
        +1 or -1; 0 if the label is unknown.
    n_negative : int
        Number of -1 among the unknown labels.
    """

    signs: Ints
    n_negative: int

    @cached_property
    def unknown(self) -> Ints:
        """The rows without label."""
        return np.flatnonzero(self.signs == 0)

    def choose(self, scores: Floats, alpha: Floats, tie: Floats) -> Column:
        """Keep the known labels; the lowest scores among the others become negative."""
        signs, u = self.signs.copy(), self.unknown
        signs[u] = split(alpha[u] * scores[u], tie[u], self.n_negative)
        return np.arange(len(signs)), signs


@dataclass(frozen=True)
class BoundedLabels:
    """Label vectors with at least `n_least` rows of each sign.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    n_least : int
        Least number of rows of each sign.
    """

    n_rows: int
    n_least: int

    def choose(self, scores: Floats, alpha: Floats, tie: Floats) -> Column:
        """Take the sign of each score, or the ranks of the scores if a sign has too few rows."""
        r = alpha * scores
        negative = int(np.sum((r < 0) | ((r == 0) & (tie < 0))))
        negative = min(max(negative, self.n_least), self.n_rows - self.n_least)
        return np.arange(self.n_rows), split(r, tie, negative)


@dataclass(frozen=True)
class KeyInstances:
    """A key instance represents each positive bag; all instances of other bags are used.

    Attributes
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    """

    offsets: Ints
    positive: Bools

    @cached_property
    def negatives(self) -> Ints:
        """The instances of negative bags."""
        return np.flatnonzero(~np.repeat(self.positive, np.diff(self.offsets)))

    def choose(self, scores: Floats, alpha: Floats, tie: Floats) -> Column:
        """Choose the best instance of each positive bag (r = H s + tau / 2 of Eq. 25)."""
        rows = loops.segments.argmax(loops.ties.settled(scores), self.offsets)
        best = self.offsets[:-1] + rows
        keys = best[self.positive]
        signs = np.repeat(np.array([1, -1], np.int8), [len(keys), len(self.negatives)])
        return np.concatenate([keys, self.negatives]), signs


LabelSet = PartialLabels | BoundedLabels | KeyInstances  # B, the admissible label vectors


def split(r: Floats, tie: Floats, n_negative: int) -> Ints:
    """Maximise r'y over signs with a given number of -1: the lowest by (r, tie) are negative.

    Parameters
    ----------
    r, tie : ndarray of shape (n,)
        Primary and secondary sort key.
    n_negative : int
        Number of -1.

    Returns
    -------
    ndarray of int8 of shape (n,)
    """
    if n_negative <= 0 or n_negative >= len(r):
        return np.full(len(r), 1 if n_negative <= 0 else -1, np.int8)
    r = loops.ties.settled(r)
    bound = np.partition(r, n_negative - 1)[n_negative - 1]
    signs = np.where(r < bound, -1, 1).astype(np.int8)
    tied = np.flatnonzero(r == bound)
    missing = n_negative - int(np.sum(r < bound))
    signs[tied[np.argsort(tie[tied], kind="stable")[:missing]]] = -1
    return signs


def canonical_order(rows: Rows, group: Array) -> Ints:
    """Sort the rows in an order that does not depend on their input order.

    Parameters
    ----------
    rows : Rows
        The rows.
    group : ndarray of shape (n_rows,)
        Primary sort key, such as the label.

    Returns
    -------
    ndarray of int64 of shape (n_rows,)
    """
    if rows.kind == loops.dual_descent.GRAM:
        key = rows.values.sum(axis=1) + rows.squares
    else:
        vector = np.zeros(rows.width)
        vector[: rows.n_features] = np.random.RandomState(0).normal(size=rows.n_features)
        key = loops.dual_descent.score(rows, vector)
    return np.lexsort((key, group)).astype(np.int64)


def aligned_start(rows: Rows, labels: LabelSet, order: Ints, n_starts: int, seed: int) -> Column:
    """Choose the best aligned of random labels and the signs of the first principal component.

    Rows with many features are nearly orthogonal: each row then keeps its label, and a search from
    random labels ends at once. The principal component does not depend on single rows.

    Parameters
    ----------
    rows : Rows
        The rows.
    labels : LabelSet
        B, which contains the result.
    order : ndarray of int64 of shape (n_rows,)
        The rows in canonical order.
    n_starts : int
        Number of random draws.
    seed : int
        Seed of the draws.

    Returns
    -------
    tuple of ndarray
        Row and sign of each variable.
    """
    rng = np.random.RandomState(seed)
    n, highest, best = len(order), -np.inf, np.zeros(len(order))
    for start in range(n_starts + 1):
        scores = np.empty(n)
        scores[order] = rng.permutation(n) - (n - 1) / 2  # half of them below 0
        if start == n_starts:
            scores = _principal(rows, scores)
        signs = labels.choose(scores, np.ones(n), scores)[1].astype(np.float64)
        v = loops.dual_descent.combine(rows, signs)
        aligned = loops.dual_descent.square(rows, signs, v)
        if aligned > highest:
            highest, best = aligned, scores
    return labels.choose(best, np.ones(n), best)


def _principal(rows: Rows, start: Floats) -> Floats:
    """Scores of the rows on their first principal component, accurate enough for signs."""

    def gram(scores: Floats) -> Floats:
        return loops.dual_descent.score(rows, loops.dual_descent.combine(rows, scores.ravel()))

    n = len(start)
    if n > 2:
        operator = LinearOperator((n, n), matvec=gram, dtype=np.float64)
        with suppress(ArpackError):  # all rows are 0, or many components are equal
            found = eigsh(operator, 1, v0=start, tol=0.01, maxiter=20)[1]
            return with_fixed_signs(found)[:, 0]
    return gram(start)


def supervised(
    rows: Rows, pick: Ints, signs: Ints, costs: Floats, *, tol: float, seed: int
) -> tuple[Floats, Floats]:
    """Fit an ordinary SVM without intercept.

    Parameters
    ----------
    rows : Rows
        The rows.
    pick : ndarray of int64 of shape (n_variables,)
        The row of each variable.
    signs : ndarray of int8 of shape (n_variables,)
        The label of each variable.
    costs : ndarray of shape (n_variables,)
        C of each variable.
    tol : float
        Relative duality gap at which to stop.
    seed : int
        Seed of the shuffling of the variables, which are in a canonical order.

    Returns
    -------
    scores : ndarray of shape (n_rows,)
        The scores of all rows.
    alpha : ndarray of shape (n_variables,)
        The dual variables.
    """
    alpha, how = np.zeros(len(pick)), {"tol": tol, "max_passes": MAX_PASSES, "seed": seed}
    solve, order = loops.dual_descent.descend_alone, np.arange(len(pick))
    f = solve(rows, pick, signs, costs, alpha, order=order, **how)
    return loops.dual_descent.score(rows, f), alpha


def well_svm(
    rows: Rows,
    labels: LabelSet,
    costs: Floats,
    first: Column,
    *,
    alpha: Floats | None = None,
    order: Ints,
    tol: float,
    max_cuts: int,
    stable: float = 0.0,
    n_random: int = 0,
    seed: int = 0,
    track: Callable[[Any], Any] = iter,
) -> SolverResult:
    """Fit the model from an initial label vector (Algorithms 2 to 4).

    Parameters
    ----------
    rows : Rows
        The rows.
    labels : LabelSet
        B.
    costs : ndarray of shape (n_variables,)
        C of each variable.
    first : tuple of ndarray
        Row and sign of each variable under the initial label vector, which is in B.
    alpha : ndarray of shape (n_variables,), default=None
        Dual variables to start from.
    order : ndarray of int64 of shape (n_variables,)
        Canonical order of the variables, which is then shuffled.
    tol : float
        Duality gap of the master problem, violation of a new label vector, and decrease of the
        objective at which to stop, all relative to the objective.
    max_cuts : int
        Maximum number of label vectors in the working set.
    stable : float, default=0.0
        Also stop if each of the last two label vectors changed less than this share of the labels
        that B assigns to the scores of the model.
    n_random : int, default=0
        Random starts of the search for a violated label vector. They tighten the relaxation but do
        not improve the model: far from f, label vectors of opposite signs cancel.
    seed : int, default=0
        Seed of the shuffling.
    track : callable, default=iter
        Wraps the rounds, to show progress.

    Returns
    -------
    SolverResult
        ``solution`` is a `Mixture`; the curve is the objective after each cut.
    """
    master = _Master(rows, costs, order, first, alpha, seed)
    curve: list[float] = []
    converged, gap, step = False, np.inf, 0.1
    chosen, changes = np.zeros(len(costs), np.int8), [1.0]
    for _ in track(range(max_cuts)):
        before = curve[-1] if curve else np.inf
        # A loose tolerance first; a final pass at the tight one.
        for exactly in sorted({max(tol / 2, INEXACT * step), tol / 2}, reverse=True):
            objective = master.solve(exactly)
            scores = loops.dual_descent.score(rows, master.f)
            column, highest = _violated(master, labels, scores, tol, n_random)
            violation = max(0.0, highest - master.squares.max()) / 2 / max(objective, TINY)
            converged = violation <= tol or before - objective <= tol * objective
            if stable > 0:
                signs = labels.choose(scores, np.ones(len(costs)), scores)[1]
                changed = float(np.mean(signs != chosen))
                converged = converged or max(changed, changes[-1]) < stable
            if not converged and len(curve) + 1 < max_cuts:
                break
            if master.is_spent:
                converged = converged and master.gap <= tol * objective
                break
        step = min(step, max(0.0, before - objective) / max(objective, TINY))
        gap = master.gap / max(objective, TINY) + violation
        curve.append(min(objective, before))
        if stable > 0:
            chosen = signs
            changes.append(changed)
        if converged or master.is_spent:
            break
        if len(curve) < max_cuts:
            master.add(column)
    found = Mixture(master.f, master.coef(), master.pick, master.signs, master.mu, np.array(gap))
    return SolverResult(found, curve, converged)


class _Master:
    """Label-kernel learning on a working set: min over mu of J(mu) = max_a sum_t mu_t G(a, y_t).

    Any feasible a bounds J from below by the plane 1'a - 1/2 sum_t mu_t |v_t|^2. The level method
    stores these planes and moves to the nearest mu where none exceeds a level between the bounds.
    """

    def __init__(
        self, rows: Rows, costs: Floats, order: Ints, first: Column, alpha: Floats | None, seed: int
    ) -> None:
        self.rows, self.costs, self.order, self.seed = rows, costs, order, seed
        self.alpha = np.zeros(len(costs)) if alpha is None else alpha.copy()
        self.pick, self.signs = first[0][:, None].astype(np.int64), first[1][:, None]
        self.mu = np.ones(1)
        self.f = self.vector(first)
        self.E = np.zeros((len(self.f), 1))
        self.squares = np.array([self.square(first, self.f)])
        self.groups = loops.dual_descent.sign_groups(self.pick, self.signs, order)
        self.highest, self.gap = np.inf, 0.0  # lowest primal value so far, and its gap
        self.planes: list[Floats] = []  # 1'a - |v_t|^2 / 2 for each t and each a so far
        self.alphas: deque[Floats] = deque(maxlen=MAX_PLANES)  # the last few a
        self.n_passes = 0

    @property
    def is_spent(self) -> bool:
        """Whether the limit on passes over the variables is reached."""
        return self.n_passes >= MOST_PASSES

    def coef(self) -> Floats:
        """Weight of each row in f."""
        total = np.zeros(self.rows.n_rows)
        for t, weight in enumerate(self.mu):
            total += weight * self.spread(self.column(t))
        return total

    def column(self, t: int) -> Column:
        """Label vector t of the working set."""
        return self.pick[:, t % self.pick.shape[1]], self.signs[:, t]

    def spread(self, column: Column, alpha: Floats | None = None) -> Floats:
        """Coefficient of each row: the sum of a_i y_i over its variables."""
        total = np.zeros(self.rows.n_rows)
        np.add.at(total, column[0], (self.alpha if alpha is None else alpha) * column[1])
        return total

    def vector(self, column: Column) -> Floats:
        """v(a, y)."""
        return loops.dual_descent.combine(self.rows, self.spread(column))

    def square(self, column: Column, v: Floats) -> float:
        """|v(a, y)|^2."""
        return loops.dual_descent.square(self.rows, self.spread(column), v)

    def add(self, column: Column) -> None:
        """Add a label vector to the working set, with weight 0."""
        pick, signs = column
        if self.pick.shape[1] > 1 or (pick != self.pick[:, 0]).any():
            wide = np.broadcast_to(self.pick, (len(pick), self.signs.shape[1]))
            self.pick = np.column_stack([wide, pick])
        self.signs = np.column_stack([self.signs, signs])
        self.groups = loops.dual_descent.sign_groups(self.pick, self.signs, self.order)
        self.mu = np.append(self.mu, 0.0)
        v = self.vector(column)
        self.E = np.column_stack([self.E, v - self.f])
        self.squares = np.append(self.squares, self.square(column, v))
        # Planes of the smaller working set still bound J: append the entry of the new column.
        planes = self.planes[-MAX_PLANES:]
        self.planes = [
            np.append(plane, self._entry(alpha, column))
            for alpha, plane in zip(self.alphas, planes, strict=True)
        ]

    def _entry(self, alpha: Floats, column: Column) -> float:
        """1'a - |v(a, y)|^2 / 2 for an earlier a."""
        coef = self.spread(column, alpha)
        v = loops.dual_descent.combine(self.rows, coef)
        return float(alpha.sum()) - loops.dual_descent.square(self.rows, coef, v) / 2

    def solve(self, tol: float) -> float:
        """Move mu and a to their saddle point, up to a relative gap; return the objective."""
        best, apart = self.mu, 1.0
        for step in range(MAX_STEPS + 1):
            if step > 0 or not self.planes:
                primal = self._ascend(max(tol / 2, INEXACT * apart))
                self.planes.append(self._plane())
                self.alphas.append(self.alpha.copy())
                if primal < self.highest:
                    self.highest, best = primal, self.mu
            A = np.array(self.planes) / self.highest
            lowest, _ = loops.simplex.least(A)
            apart = 1 - lowest
            if apart <= tol or self.is_spent or step == MAX_STEPS:
                break
            level = lowest + LEVEL * apart
            self._move(loops.simplex.nearest_below(A, self.mu, level))
        if best is not self.mu:
            self._move(best)
            self.highest = self._ascend(tol / 2)
        self.gap = max(0.0, self.highest - float(self._plane().min()))
        return self.highest

    def _ascend(self, tol: float) -> float:
        found = loops.dual_descent.descend(
            self.rows,
            self.pick,
            self.signs,
            self.mu,
            self.costs,
            self.alpha,
            self.f,
            self.E,
            order=self.order,
            tol=tol,
            max_passes=MAX_PASSES,
            seed=self.seed,
            groups=self.groups,
        )
        self.n_passes += found.n_passes
        for t in range(len(self.mu)):
            self.squares[t] = self.square(self.column(t), self.f + self.E[:, t])
        return found.primal

    def _plane(self) -> Floats:
        """1'a - |v_t|^2 / 2 of each t: the plane in mu of the current a."""
        return self.alpha.sum() - self.squares / 2

    def _move(self, mu: Floats) -> None:
        """Change the weights mu: the v_t do not change, but their weighted mean f does."""
        shift = self.E @ mu
        self.mu = mu
        self.f += shift
        self.E -= shift[:, None]


def _violated(
    master: _Master, labels: LabelSet, tie: Floats, tol: float, n_random: int
) -> tuple[Column, float]:
    """Find a label vector of B with large |v(a, y)|^2; return it and that square.

    The search starts from f, whose scores are `tie`, from the worst label vector of the working set
    (Prop. 4 and 6), and from random scores. It moves to the best label vector for the linear score
    of the last one, as long as the square grows.
    """
    ranked = np.argsort(-master.squares)
    base = float(master.squares[ranked[0]])
    best, highest = master.column(int(ranked[0])), base
    starts = [tie]
    if len(ranked) > 1:
        worst = master.f + master.E[:, ranked[0]]
        starts.append(loops.dual_descent.score(master.rows, worst))
    starts += list(np.random.RandomState(len(ranked)).normal(size=(n_random, len(tie))))
    for scores in starts:
        before = 0.0
        for _ in range(ASCENT):
            column = labels.choose(scores, master.alpha, tie)
            v = master.vector(column)
            found = master.square(column, v)
            if found > highest:
                best, highest = column, found
            if found - before <= max(tol / 10 * before, GROWTH * (found - base)):
                break
            before = found
            scores = loops.dual_descent.score(master.rows, v)
    return best, highest

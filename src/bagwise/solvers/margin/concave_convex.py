"""The concave-convex procedure for the objective of pdMISVM, to improve the result of the ADMM.

    J(W, b) = 1/2 sum_m |w_m|^2 + C sum_i v_i sum_{m != y_i} (1 + max_j s_ij^m - max_j s_ij^{y_i})_+

-max_j s_ij^{y_i} is concave: if the best instance (witness) of the bag's class is fixed, the rest
is convex, and its minimum is not above J at the start. The convex problem is solved in the dual,
over the instances that have been the best of a wrong class in some iteration.
"""

import numpy as np
from sklearn.utils.extmath import row_norms

from bagwise import compiled
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.compiled.arguments import read_only
from bagwise.solvers.result import SolverResult

CAPACITY = 12  # instances stored per bag and wrong class
BIAS = 1.0  # square of the constant feature for b, in units of the mean squared norm
MAX_ROUNDS = 20  # each with fixed witnesses
TOL = 1e-3  # stopping: relative decrease of J, and relative duality gap of the convex problem


def concave_convex(
    bags: Bags,
    codes: Ints,
    start: tuple[Array, ...],
    *,
    costs: Floats,
    fit_intercept: bool,
    rng: np.random.RandomState,
) -> SolverResult:
    """Lower J from a starting point; never return a worse one.

    Parameters
    ----------
    bags : Bags
        The bags.
    codes : ndarray of shape (n_bags,)
        The class of each bag.
    start : tuple (W, b)
        Starting point, of shape (n_classes, n_features) and (n_classes,).
    costs : ndarray of shape (n_bags,)
        C times the weight of each bag.
    fit_intercept : bool
        Whether b is updated.
    rng : RandomState
        For the order of the coordinate descent.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J after each round.
    """
    W, b = start
    convex = _ConvexProblem(bags, codes, costs, len(W), fit_intercept, rng)
    scores = convex.X @ W.T + b
    lowest, solution = convex.objective(W, scores), start
    curve: list[float] = []
    converged = False
    while len(curve) < MAX_ROUNDS and not converged:
        W, b, scores = convex.solve(scores)
        found = convex.objective(W, scores)
        curve.append(found)
        converged = found > (1 - TOL) * lowest
        if found < lowest:
            lowest, solution = found, (W.astype(bags.dtype), b.copy())
    return SolverResult(solution, np.minimum.accumulate(curve), converged)


class _ConvexProblem:
    """The dual variables of the convex problem; each round starts from those of the last."""

    def __init__(
        self,
        bags: Bags,
        codes: Ints,
        costs: Floats,
        n_classes: int,
        fit_intercept: bool,
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.offsets, self.codes = read_only(bags.instances, bags.offsets, codes)
        self.costs, self.rng = costs, rng
        self.own = np.arange(len(codes)), codes
        self.squares = row_norms(self.X, squared=True)
        self.scale = BIAS * float(self.squares.mean()) if fit_intercept else 0.0
        self.members = np.full((len(codes), n_classes, CAPACITY), -1, np.int64)
        self.mass = np.zeros((len(codes), n_classes, CAPACITY + 1))
        self.mass[:, :, CAPACITY] = costs[:, None]

    def objective(self, W: Array, scores: Array) -> float:
        """J at W, given the scores of the instances."""
        best = compiled.segments.maximum(scores, self.offsets)
        return 0.5 * float((W**2).sum()) + self._loss(best, best[self.own])

    def solve(self, scores: Array, tol: float = TOL) -> tuple[Array, Array, Array]:
        """Fix the witnesses at the given scores and minimise; return W, b and new scores."""
        witness = self._best_rows(scores)[self.own]
        W, b = self._primal(witness)
        for _ in range(100):
            self._admit(scores)
            for _ in range(20):
                order = self.rng.permutation(len(self.codes))
                worst = compiled.group_descent.descend(
                    order, self.X, W, b, self.scale, self.codes, witness, self.members,
                    self.mass, self.squares,
                )  # fmt: skip
                if worst < 0.1 * tol:
                    break
            scores = self.X @ W.T + b
            if self._gap(W, b, scores, witness) < tol:
                break
        return W, b, scores

    def _loss(self, best: Array, own: Array) -> float:
        """Hinge loss of the margins between the true class and each other class."""
        margins = 1.0 + best - own[:, None]
        margins[self.own] = 0.0
        return float((self.costs[:, None] * np.maximum(margins, 0)).sum())

    def _best_rows(self, scores: Array) -> Ints:
        return compiled.segments.argmax(scores, self.offsets) + self.offsets[:-1, None]

    def _primal(self, witness: Ints) -> tuple[Array, Array]:
        """W and b for the current dual variables and these witnesses."""
        n_classes = self.mass.shape[1]
        W, b = np.zeros((n_classes, self.X.shape[1])), np.zeros(n_classes)
        for i, m, e in np.argwhere((self.mass[:, :, :CAPACITY] > 0) & (self.members >= 0)):
            step, y = self.mass[i, m, e], self.codes[i]
            W[y] += step * self.X[witness[i]]
            W[m] -= step * self.X[self.members[i, m, e]]
            b[y] += step * self.scale
            b[m] -= step * self.scale
        return W, b

    def _admit(self, scores: Array) -> None:
        """Add the best instance of each bag and class to its group, if there is a free slot."""
        best = self._best_rows(scores)
        new = ~(self.members == best[:, :, None]).any(axis=2)
        for i, m in np.argwhere(new):
            idle = np.flatnonzero(self.mass[i, m, :CAPACITY] <= 0)
            if len(idle):
                self.members[i, m, idle[0]] = best[i, m]

    def _gap(self, W: Array, b: Array, scores: Array, witness: Ints) -> float:
        """Relative duality gap of the convex problem, including the penalty on b."""
        best = compiled.segments.maximum(scores, self.offsets)
        norm = float((W**2).sum()) + (float((b**2).sum()) / self.scale if self.scale else 0.0)
        primal = 0.5 * norm + self._loss(best, scores[witness, self.codes])
        wrong = np.arange(len(W)) != self.codes[:, None]
        dual = float(self.mass[:, :, :CAPACITY].sum(axis=2)[wrong].sum()) - 0.5 * norm
        return (primal - dual) / max(abs(primal), 1e-12)

"""The concave-convex procedure for the objective of pdMISVM, to polish where the ADMM froze.

    J(W, b) = 1/2 sum_m |w_m|^2 + C sum_i v_i sum_{m != y_i} (1 + max_j s_ij^m - max_j s_ij^{y_i})_+

-max_j s_ij^{y_i} is concave: with the best instance of the own class held fixed the rest is convex,
and its minimum is not above J at the start. The convex problem is solved in the dual, over the
instances that ever were the best of a wrong class.
"""

import numpy as np
from sklearn.utils.extmath import row_norms

from bagwise import compiled
from bagwise._types import Array, Floats, Ints
from bagwise.solvers.result import SolverResult

CAPACITY = 12  # instances remembered per bag and wrong class
BIAS = 1.0  # squared constant feature that carries b, in mean squared norms of instances


def objective(W: Array, best: Array, codes: Ints, weights: Floats, C: float) -> float:
    """J, from the largest score per bag and class.

    Parameters
    ----------
    W : ndarray of shape (n_classes, n_features)
        The hyperplanes.
    best : ndarray of shape (n_bags, n_classes)
        Largest score in each bag, intercept included.
    codes : ndarray of shape (n_bags,)
        The class of each bag.
    weights : ndarray of shape (n_bags,)
        The weight of each bag.
    C : float
        Cost of a margin error.

    Returns
    -------
    float
    """
    margins = 1.0 + best - np.take_along_axis(best, codes[:, None], axis=1)
    np.put_along_axis(margins, codes[:, None], 0.0, axis=1)
    return 0.5 * float((W**2).sum()) + C * float((weights[:, None] * np.maximum(margins, 0)).sum())


def concave_convex(
    X: Array,
    offsets: Ints,
    codes: Ints,
    W: Array,
    b: Array,
    *,
    C: float,
    weights: Floats,
    fit_intercept: bool,
    rng: np.random.RandomState,
    max_rounds: int = 20,
    tol: float = 1e-3,
) -> SolverResult:
    """Lower J from a starting point; never return a worse one.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    codes : ndarray of shape (n_bags,)
        The class of each bag.
    W, b : ndarray of shape (n_classes, n_features), (n_classes,)
        The start.
    C : float
        Cost of a margin error.
    weights : ndarray of shape (n_bags,)
        The weight of each bag.
    fit_intercept : bool
        Whether b may move.
    rng : RandomState
        For the order of the coordinate descent.
    max_rounds : int, default=20
        Rounds of fixing the own witnesses.
    tol : float, default=1e-3
        Relative decrease of J, and relative duality gap of the convex problem, to stop at.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; `objective_curve` is J after each round.
    """
    scores = X @ W.T + b
    best = compiled.segments.maximum(scores, offsets)
    lowest, solution = objective(W, best, codes, weights, C), (W, b)
    convex = _ConvexProblem(X, offsets, codes, len(W), C * weights, fit_intercept, rng)
    curve: list[float] = []
    converged = False
    while len(curve) < max_rounds and not converged:
        W, b, scores = convex.solve(scores, tol)
        found = objective(W, compiled.segments.maximum(scores, offsets), codes, weights, C)
        curve.append(found)
        converged = found > (1 - tol) * lowest
        if found < lowest:
            lowest, solution = found, (W.astype(X.dtype), b.copy())
    return SolverResult(solution, np.minimum.accumulate(curve), len(curve), converged)


class _ConvexProblem:
    """The dual variables of the convex problem, kept warm from round to round."""

    def __init__(
        self,
        X: Array,
        offsets: Ints,
        codes: Ints,
        n_classes: int,
        costs: Floats,
        fit_intercept: bool,
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.offsets, self.codes, self.costs, self.rng = X, offsets, codes, costs, rng
        self.squares = row_norms(X, squared=True)
        self.scale = BIAS * float(self.squares.mean()) if fit_intercept else 0.0
        n_bags = len(codes)
        self.members = np.full((n_bags, n_classes, CAPACITY), -1, np.int64)
        self.mass = np.zeros((n_bags, n_classes, CAPACITY + 1))
        self.mass[:, :, CAPACITY] = costs[:, None]

    def solve(self, scores: Array, tol: float) -> tuple[Array, Array, Array]:
        """Fix the own witnesses at the given scores and minimise; return W, b and new scores."""
        own = np.arange(len(self.codes)), self.codes
        witness = (compiled.segments.argmax(scores, self.offsets) + self.offsets[:-1, None])[own]
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

    def _primal(self, witness: Ints) -> tuple[Array, Array]:
        """W and b that belong to the dual variables, for these own witnesses."""
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
        """Let the best instance of each bag and class into its group."""
        best = compiled.segments.argmax(scores, self.offsets) + self.offsets[:-1, None]
        new = ~(self.members == best[:, :, None]).any(axis=2)
        for i, m in np.argwhere(new):
            idle = np.flatnonzero(self.mass[i, m, :CAPACITY] <= 0)
            if len(idle):
                self.members[i, m, idle[0]] = best[i, m]

    def _gap(self, W: Array, b: Array, scores: Array, witness: Ints) -> float:
        """Relative duality gap of the convex problem (with its penalty on b)."""
        best = compiled.segments.maximum(scores, self.offsets)
        margins = 1.0 + best - scores[witness, self.codes][:, None]
        np.put_along_axis(margins, self.codes[:, None], 0.0, axis=1)
        norm = float((W**2).sum()) + (float((b**2).sum()) / self.scale if self.scale else 0.0)
        loss = float((self.costs[:, None] * np.maximum(margins, 0)).sum())
        primal = 0.5 * norm + loss
        wrong = np.arange(len(W)) != self.codes[:, None]
        dual = float(self.mass[:, :, :CAPACITY].sum(axis=2)[wrong].sum()) - 0.5 * norm
        return (primal - dual) / max(abs(primal), 1e-12)

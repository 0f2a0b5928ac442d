"""ORed logistic regression (Pham, Raich, Fern 2014): instance labels from bag label sets.

    max_W  sum_b weight_b log P(Y_b | X_b, W) - reg/2 |W|^2

where an instance has label c with probability softmax(W x + b)_c and the label set of a bag is the
union of the labels of its instances. By Fisher's identity the gradient needs the posterior labels
of the instances only, which `bagwise.compiled.label_subsets` finds exactly in time linear in the
size of the bag: so L-BFGS maximises the likelihood itself, and EM is kept for comparison.

Some labels of instances may be known (a person looked at them): the likelihood is then that of the
label set and of the known labels, log P(Y_b, y_i for i known | X_b, W).

Value and gradient are sums over parts, blocks of whole bags, wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.utils.extmath import safe_sparse_dot

from bagwise import compiled
from bagwise.bags import Bags
from bagwise.compiled.threads import SMALL, block_bounds, n_threads, run_blocks
from bagwise.engines import (
    Checkpoint,
    Journal,
    Parts,
    codes_by_bag,
    codes_of_instances,
    digest,
    persist,
    place,
    to_numpy,
)
from bagwise.solvers.lbfgs import lbfgs
from bagwise.solvers.result import SolverResult

__all__ = ["Demands", "Part", "infer", "ored_logistic"]

Array = NDArray[Any]
Vector = NDArray[np.float64]

BLOCK = 2**23  # scores held at once
LARGEST_TABLE = 2**29  # bytes that exact inference on one bag may hold


@dataclass(frozen=True)
class Demands:
    """Bags, and which labels the instances of each must show together.

    Attributes
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    set_offsets, set_labels : ndarray of shape (n_bags + 1,) and (n_labels,)
        The label set of bag b is ``set_labels[set_offsets[b]:set_offsets[b + 1]]``.
    known : ndarray of bool of shape (n_bags,)
        Whether the label set is known at all.
    background : bool
        Whether the last class may be shown in any bag, and is in no label set.
    max_operations : float
        Instance x subset x label of one bag beyond which its posterior is approximated.
    instance_labels : ndarray of int64 of shape (n_instances,) or (0,)
        The class of each instance, -1 where it is not known; empty where none is.
    """

    offsets: NDArray[np.int64]
    set_offsets: NDArray[np.int64]
    set_labels: NDArray[np.int64]
    known: NDArray[np.bool_]
    background: bool
    max_operations: float
    instance_labels: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        offsets: NDArray[np.int64],
        indicator: NDArray[np.int8],
        *,
        background: bool,
        max_operations: float,
        instance_labels: NDArray[np.int64] | None = None,
    ) -> Demands:
        """Read label sets given as zeros and ones; a row of -1: nothing is known."""
        if instance_labels is None:
            instance_labels = np.empty(0, np.int64)
        known = np.all(indicator >= 0, axis=1)
        bags, labels = np.nonzero(indicator == 1)
        set_offsets = np.searchsorted(bags, np.arange(len(indicator) + 1))
        return cls(offsets, set_offsets, labels, known, background, max_operations, instance_labels)

    @cached_property
    def impossible(self) -> NDArray[np.bool_]:
        """Bags whose label set has probability zero: more labels than instances, or none at all.

        Labels that a known instance shows, and the known instances, do not count.
        """
        n, k = np.diff(self.offsets), np.diff(self.set_offsets)
        n_open, k_open = n - self.n_known, k
        if self.n_known.any():
            rows = np.flatnonzero(self.instance_labels >= 0)
            bag, set_of = np.repeat(np.arange(len(n)), n)[rows], np.repeat(np.arange(len(k)), k)
            labels = self.instance_labels[rows]
            width = 1 + max(labels.max(), self.set_labels.max(initial=0))
            met = np.isin(set_of * width + self.set_labels, bag * width + labels)
            k_open = k - np.bincount(set_of[met], minlength=len(k))
        return self.known & ((k_open > n_open) | ((k == 0) & (not self.background)))

    @cached_property
    def n_known(self) -> NDArray[np.int64]:
        """How many instances of each bag have a known label."""
        if not len(self.instance_labels):
            return np.zeros(len(self.known), np.int64)
        counts = np.concatenate([[0], np.cumsum(self.instance_labels >= 0)])
        return counts[self.offsets[1:]] - counts[self.offsets[:-1]]

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Which instances say something: those of a known label set, or of a known label."""
        told = np.repeat(self.known, np.diff(self.offsets))
        return told | (self.instance_labels >= 0) if len(self.instance_labels) else told

    @cached_property
    def operations(self) -> Vector:
        """Cost of exact inference per bag: instance x reachable subset x label."""
        pairs = np.column_stack([np.diff(self.offsets), np.diff(self.set_offsets)])
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        costs = [compiled.label_subsets.operations(int(n), int(k)) for n, k in distinct]
        return np.array(costs)[which.reshape(-1)]

    @cached_property
    def how(self) -> NDArray[np.int8]:
        """How the posterior of each bag is found; exactly, unless time or memory forbid it."""
        n, k = np.diff(self.offsets).astype(float), np.diff(self.set_offsets)
        rows = 2 * np.sqrt(n) + 4  # of the checkpointed table
        dear = (self.operations > self.max_operations) | (8 * rows * 2.0**k > LARGEST_TABLE)
        ways = compiled.label_subsets
        how = np.where(dear, ways.APPROXIMATE, ways.EXACT)
        how[self.impossible] = np.where(k == 0, ways.FREE, ways.RESTRICTED)[self.impossible]
        how[~self.known] = ways.FREE
        return how.astype(np.int8)

    @property
    def approximate(self) -> NDArray[np.bool_]:
        """Bags whose posterior is found by belief propagation."""
        return self.how == compiled.label_subsets.APPROXIMATE

    def parts(self, n_classes: int) -> Iterator[tuple[slice, slice]]:
        """Bags and their instances, in parts whose scores are not too large to hold."""
        n_parts = int(np.ceil(self.offsets[-1] * n_classes / BLOCK))
        bounds = block_bounds(self.offsets, max(1, n_parts)).tolist()
        for start, stop in pairwise(bounds):
            yield slice(start, stop), slice(self.offsets[start], self.offsets[stop])


def infer(
    demands: Demands,
    part: slice,
    scores: Array,
    *,
    weights: Vector | None = None,
) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """Find the posterior labels of instances given the label sets of their bags.

    Parameters
    ----------
    demands : Demands
        The bags and their label sets.
    part : slice
        The bags to look at.
    scores : ndarray of shape (n_instances of the part, n_classes)
        W x + b.
    weights : ndarray of shape (n_bags of the part,), default=None
        When given, softmax minus posterior times the weight of the bag is returned instead of the
        posterior: the derivative of minus the log-likelihood by the scores.

    Returns
    -------
    posterior : ndarray of shape (n_instances of the part, n_classes)
    log_likelihood : ndarray of shape (n_bags of the part,)
        log P(Y, known labels | X); 0 where nothing is known, -inf where that is impossible.
    settled : ndarray of bool of shape (n_bags of the part,)
        False where belief propagation ran out of sweeps.
    """
    offsets = demands.offsets[part.start : part.stop + 1]
    offsets = offsets - offsets[0]
    n_bags = len(offsets) - 1
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    out, log_likelihood, settled = np.empty_like(scores), np.empty(n_bags), np.ones(n_bags, bool)
    arguments = (
        offsets,
        scores,
        demands.set_offsets[part.start : part.stop + 1],
        demands.set_labels,
        demands.background,
        demands.how[part],
        np.ones(n_bags) if weights is None else weights,
        weights is not None,
        demands.instance_labels[demands.offsets[part.start] : demands.offsets[part.stop]],
        out,
        log_likelihood,
        settled,
    )
    cost = np.minimum(demands.operations[part], demands.max_operations)
    cost = np.cumsum(np.concatenate([[0.0], cost + 10.0 * np.diff(offsets) * scores.shape[1]]))
    n_blocks = n_threads() if cost[-1] > 10 * SMALL else 1
    # More blocks than threads: a few bags may cost as much as all others.
    bounds = block_bounds(cost, n_blocks if n_blocks == 1 else 4 * n_blocks)
    run_blocks(lambda a, b: compiled.label_subsets.expect(a, b, *arguments), bounds)
    return out, log_likelihood, settled


def ored_logistic(
    bags: Bags,
    indicator: NDArray[np.int8],
    n_classes: int,
    *,
    background: bool,
    max_operations: float,
    weights: Vector,
    reg: float,
    fit_intercept: bool,
    solver: str,
    max_iter: int,
    tol: float,
    instance_labels: NDArray[np.int64] | None = None,
    start: tuple[Array, Array] | None = None,
    track: Callable[[range], Any] = iter,
    checkpoint: Any = None,
) -> SolverResult:
    """Maximise the penalised likelihood of the label sets.

    Parameters
    ----------
    bags : Bags
        The bags, wherever they are.
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets.
    n_classes : int
        Number of classes, background included.
    background : bool
        Whether the last class may be shown in any bag, and is in no label set.
    max_operations : float
        Instance x subset x label of one bag beyond which its posterior is approximated.
    weights : ndarray of shape (n_bags,)
        Weights of the bags.
    reg : float
        lambda, against the sum over bags.
    fit_intercept : bool
        Whether b is fitted; it is not penalised.
    solver : {"lbfgs", "em", "gem"}
        L-BFGS on the likelihood, EM with a full M-step, or the paper's EM with one gradient step.
    max_iter : int
        Budget of iterations.
    tol : float
        Largest entry of the gradient, per instance, at the end.
    instance_labels : ndarray of int64 of shape (n_instances,), default=None
        The class of each instance, -1 where it is not known.
    start : tuple (W, b), default=None
        Where to begin; zeros by default.
    track : callable, default=iter
        Wraps the range of iterations, to show progress.
    checkpoint : path, default=None
        Where to save now and then, and to resume from.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; the curve is minus the penalised log-likelihood, which falls.
    """
    demands = Demands.of(
        bags.offsets, indicator, background=background, max_operations=max_operations,
        instance_labels=instance_labels,
    )  # fmt: skip
    known = [] if instance_labels is None else [codes_by_bag(instance_labels, bags.offsets)]
    parts = place(
        bags, Part, indicator, weights, demands.how, *known, background=background,
        fit_intercept=fit_intercept, n_classes=n_classes, max_operations=max_operations,
    )  # fmt: skip
    settings = "ORLR", reg, solver, background, max_operations, fit_intercept, n_classes
    journal = Journal(parts, None if checkpoint is None else Checkpoint(checkpoint, settings))
    origin = np.zeros(bags.n_features)
    if fit_intercept:
        sums = persist(parts, lambda: to_numpy(parts.total("sums")))
        origin = _coarse(sums / float(weights @ bags.sizes))
    problem = _Problem(parts, reg, float(weights @ bags.sizes), journal, origin)
    theta = np.zeros((n_classes, bags.n_features + 1))
    if start is not None:
        theta[:, :-1], theta[:, -1] = start
        theta[:, -1] += theta[:, :-1] @ origin
    run = {"lbfgs": _climb, "em": _alternate, "gem": _step_by_step}[solver]
    theta, curve, converged = run(problem, theta, max_iter, tol, track)
    theta = problem.uncentred(theta)
    journal.close()
    dtype = np.dtype(str(bags.dtype).removeprefix("torch."))
    solution = theta[:, :-1].astype(dtype), theta[:, -1].astype(dtype)
    return SolverResult(solution, np.array(curve) * problem.scale, len(curve), converged)


class Part:
    """A block of whole bags, its label sets, and for EM the posterior of its instances.

    Parameters
    ----------
    bags : Bags
        The bags.
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets.
    weights : ndarray of shape (n_bags,)
        Their weights.
    how : ndarray of int8 of shape (n_bags,)
        How the posterior of each is found.
    known : csr_array, default=None
        The class of each instance where it is known, by `codes_by_bag`.
    background : bool
        Whether there is a last class that any bag may show.
    fit_intercept : bool
        Whether b is fitted.
    n_classes : int
        Number of classes, background included.
    max_operations : float
        Instance x subset x label of one bag beyond which its posterior is approximated.
    """

    on_tensors = "tensor_orlr"

    def __init__(
        self,
        bags: Bags,
        indicator: NDArray[np.int8],
        weights: Vector,
        how: NDArray[np.int8],
        known: Any = None,
        *,
        background: bool,
        fit_intercept: bool,
        n_classes: int,
        max_operations: float,
    ) -> None:
        self.bags, self.X, self.weights = bags, bags.instances, weights
        self.demands = Demands.of(
            bags.offsets, indicator, background=background, max_operations=max_operations,
            instance_labels=None if known is None else codes_of_instances(known, bags.offsets),
        )  # fmt: skip
        self.fit_intercept, self.n_classes = fit_intercept, n_classes
        self.indicator = indicator

    def identity(self) -> str:
        """Which bags these are."""
        return digest(self.bags, self.indicator, self.weights, self.demands.instance_labels)

    def state(self) -> dict[str, Array]:
        """Nothing that a checkpoint has to hold: the posterior follows from theta."""
        return {}

    def sums(self) -> Array:
        """Weighted sum of the instances."""
        if np.all(self.weights == 1):
            return np.asarray(self.X.sum(axis=0, dtype=np.float64)).ravel()
        total, weights = np.zeros(self.X.shape[1]), np.repeat(self.weights, self.bags.sizes)
        step = max(1, BLOCK // self.X.shape[1])
        for start in range(0, len(weights), step):  # a block becomes float64, not all instances
            total += weights[start : start + step] @ self.X[start : start + step]
        return total

    def likelihood(self, theta: Vector) -> tuple[float, Vector]:
        """Minus the log-likelihood of the label sets, and its gradient by theta = [W b]."""
        value, gradient = 0.0, np.zeros_like(theta)
        for part, rows in self.demands.parts(self.n_classes):
            weights = self.weights[part]
            residual, log_likelihood, _ = infer(
                self.demands, part, self._scores(theta, rows), weights=weights
            )
            value -= float(weights @ log_likelihood)
            self._collect(residual, rows, gradient)
        return value, gradient

    def expect(self, theta: Vector) -> None:
        """The E-step: keep the posterior labels of all instances."""
        found = [
            infer(self.demands, part, self._scores(theta, rows))[0]
            for part, rows in self.demands.parts(self.n_classes)
        ]
        self.posterior = np.concatenate(found)

    def surrogate(self, theta: Vector) -> tuple[float, Vector]:
        """Minus the auxiliary function (Eq. 7) for the kept posterior, and its gradient."""
        value, gradient = 0.0, np.zeros_like(theta)
        each = np.repeat(self.weights, np.diff(self.demands.offsets)) * self.demands.counts
        for _, rows in self.demands.parts(self.n_classes):
            log_p = log_softmax(self._scores(theta, rows).astype(np.float64), axis=1)
            posterior = self.posterior[rows]
            value -= float(each[rows] @ np.sum(posterior * log_p, axis=1))
            residual = (np.exp(log_p) - posterior) * each[rows, None]  # Eq. 14
            self._collect(residual, rows, gradient)
        return value, gradient

    def _scores(self, theta: Vector, rows: slice) -> Array:
        W = np.asarray(theta[:, :-1], dtype=self.X.dtype)
        return safe_sparse_dot(self.X[rows], W.T, dense_output=True) + theta[:, -1]

    def _collect(self, residual: Vector, rows: slice, gradient: Vector) -> None:
        part = np.asarray(residual, dtype=self.X.dtype)
        gradient[:, :-1] += safe_sparse_dot(self.X[rows].T, part, dense_output=True).T
        if self.fit_intercept:
            gradient[:, -1] += residual.sum(axis=0)


@dataclass(frozen=True)
class _Problem:
    """Minus the penalised log-likelihood per instance, as a function of theta = [W b + W origin].

    `scale` is the weight of all instances: values and gradients are per instance, as `tol` is.
    The intercept is the one of instances centred at `origin`. It is not penalised, so the problem
    is the same; but far from 0 a step in W would change all scores by the same large amount.
    """

    parts: Parts
    reg: float
    scale: float
    journal: Journal
    origin: Vector

    def uncentred(self, theta: Vector) -> Vector:
        """[W b], for instances as they are."""
        theta = theta.copy()
        theta[:, -1] -= theta[:, :-1] @ self.origin
        return theta

    def likelihood(self, theta: Vector) -> tuple[float, Vector]:
        """Value and gradient."""
        return self._found(
            "likelihood", theta, lambda: self.parts.total("likelihood", self.uncentred(theta))
        )

    def surrogate_at(self, theta: Vector) -> Callable[[Vector], tuple[float, Vector]]:
        """The auxiliary function (Eq. 7) of the posterior at theta."""
        expected = False

        def surrogate(new: Vector) -> tuple[float, Vector]:
            def find() -> tuple[float, Vector]:
                nonlocal expected
                known, expected = expected, False  # a lost worker takes its posterior along
                if not known:
                    self.parts.total("expect", self.uncentred(theta))
                found = self.parts.total("surrogate", self.uncentred(new))
                expected = True
                return found

            return self._found("surrogate", new, find)

        return surrogate

    def _found(
        self, kind: str, theta: Vector, find: Callable[[], tuple[float, Vector]]
    ) -> tuple[float, Vector]:
        found = self.journal.ask(kind, theta, lambda: persist(self.parts, find))
        return self._penalised(theta, found)

    def _penalised(self, theta: Vector, found: tuple[float, Vector]) -> tuple[float, Vector]:
        value, gradient = found
        W = theta[:, :-1]
        gradient = gradient.copy()
        gradient[:, :-1] += self.reg * W - np.outer(gradient[:, -1], self.origin)
        return (value + 0.5 * self.reg * float(np.sum(W**2))) / self.scale, gradient / self.scale


def _coarse(values: Vector) -> Vector:
    """Values to ten digits: sums over other partitions, which round differently, give the same."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**32) / 2.0**32, exponent)


Outcome = tuple[Vector, list[float], bool]


def _climb(problem: _Problem, theta: Vector, max_iter: int, tol: float, track: Any) -> Outcome:
    """L-BFGS on the likelihood of the label sets."""
    steps = iter(track(range(max_iter)))
    curve: list[float] = []

    def after(intermediate_result: Any) -> None:
        curve.append(float(intermediate_result.fun))
        next(steps)  # StopIteration ends the search, as scipy documents

    next(steps, None)
    found, converged = _minimise(problem.likelihood, theta, max_iter, tol, after)
    return found, curve, converged


def _alternate(problem: _Problem, theta: Vector, max_iter: int, tol: float, track: Any) -> Outcome:
    """EM: posterior labels, then a logistic regression on them."""
    value, gradient = problem.likelihood(theta)
    curve: list[float] = []
    for _ in track(range(max_iter)):
        if np.abs(gradient).max() <= tol:
            break
        theta, _ = _minimise(problem.surrogate_at(theta), theta, 100, 0.1 * tol)
        value, gradient = problem.likelihood(theta)
        curve.append(value)
    return theta, curve, bool(np.abs(gradient).max() <= tol)


def _step_by_step(
    problem: _Problem, theta: Vector, max_iter: int, tol: float, track: Any
) -> Outcome:
    """The paper's EM: one gradient step on the auxiliary function, by backtracking (Eq. 13)."""
    value, gradient = problem.likelihood(theta)
    curve: list[float] = []
    length = 1.0
    for _ in track(range(max_iter)):
        if np.abs(gradient).max() <= tol:
            break
        surrogate = problem.surrogate_at(theta)
        before, _ = surrogate(theta)
        square = float(np.sum(gradient**2))
        length *= 4.0
        while surrogate(theta - length * gradient)[0] > before - 0.5 * length * square:
            length *= 0.5
            if length * np.sqrt(square) < 1e-14:
                return theta, curve, False
        theta = theta - length * gradient
        value, gradient = problem.likelihood(theta)
        curve.append(value)
    return theta, curve, bool(np.abs(gradient).max() <= tol)


def _minimise(
    function: Callable[[Vector], tuple[float, Vector]],
    theta: Vector,
    max_iter: int,
    tol: float,
    after: Any = None,
) -> tuple[Vector, bool]:
    found = lbfgs(
        function,
        theta,
        max_iter=max_iter,
        ftol=64 * np.finfo(float).eps,
        gtol=tol,
        callback=after,
        maxls=50,
    )
    return found.x, bool(found.success)

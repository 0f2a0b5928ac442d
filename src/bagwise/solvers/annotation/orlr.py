"""Instance labels from bag label sets, by logistic regression: ORed and noisy-or.

ORed logistic regression (Pham, Raich, Fern 2014): an instance has one label.

    max_W  sum_b weight_b log P(Y_b | X_b, W) - reg/2 |W|^2

where an instance has label c with probability softmax(W x + b)_c and the label set of a bag is the
union of the labels of its instances. By Fisher's identity the gradient needs only the posterior
labels of the instances, which `bagwise.loops.label_sets` computes exactly in time linear in
the size of the bag. L-BFGS can thus maximise the likelihood directly, faster than EM.

Some instance labels may be known from an annotator: the likelihood is then of the label set
and of the known labels, log P(Y_b, y_i for i known | X_b, W).

Label sets may be wrong: `missing` is the probability that the label of an instance is not reported,
`spurious` that a label is listed which no instance reports. Both may be learned by EM:

    spurious = E[spurious labels] / E[labels that no instance reports],
    missing = E[instances that report no label] / E[instances with a label],

the latter on held-out bags: a flexible model explains every label set of its training bags.

Value and gradient are sums over parts: blocks of whole bags, in memory, on a device or on workers.

Noisy-or logistic regression: an instance may have several labels, or none.

    max_W  sum_b weight_b sum_c log P(Y_bc | X_b, W) - reg/2 |W|^2
    P(c in Y_b) = 1 - prod_i (1 - p_ic),   p_ic = 1 / (1 + exp(-(w_c . x_i + b_c)))

Each label is a separate problem; all are solved together, since they need the same products with
the instances. By Fisher's identity the derivative of the loss with respect to the score of an
instance is p_ic minus its posterior: p_ic / P(c in Y) if the bag carries the label, 0 otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from bagwise import loops
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.compute import NO_CHECKPOINT, Checkpoint, Parts, place, to_numpy
from bagwise.compute.arrays import linear_gradient, linear_scores
from bagwise.loops.arguments import read_only
from bagwise.loops.threads import bag_bounds, run_blocks
from bagwise.solvers.annotation import orlr_parts
from bagwise.solvers.result import SolverResult, lbfgs

FIRST_MISSING, FIRST_SPURIOUS = 0.1, 0.01  # starting point of EM
RATE_RANGE = 1e-6, 0.5
RARE = 1e-4  # rate of spurious labels in the first fit of W
SPURIOUS_STEPS, SPURIOUS_CHANGE = 20, 0.02  # maximum number of EM steps; relative change at the end
MISSING_STEPS, MISSING_CHANGE = 6, 0.1
NEGLIGIBLE = 0.01  # rate of missing labels at which EM stops
MISSING_TOL = 1e-4
N_FOLDS = 3
FIRST_ITERATIONS, ITERATIONS_PER_STEP = 150, 60
TINY = 1e-300


Outcome = tuple[Floats, list[float], bool]


def ored_logistic(
    bags: Bags,
    sets: orlr_parts.BagLabelSets,
    *,
    weights: Floats | None = None,
    reg: float = 1.0,
    learn: Sequence[str] = (),
    fit_intercept: bool = True,
    solver: str = "lbfgs",
    max_iter: int = 1000,
    tol: float = 1e-5,
    start: tuple[Array, Array] | None = None,
    random_state: Any = None,
    track: Callable[[range], Any] = iter,
    checkpoint: Any = None,
) -> SolverResult:
    """Maximise the penalised likelihood of the label sets.

    Parameters
    ----------
    bags : Bags
        The bags: in memory, on a device or on workers.
    sets : BagLabelSets
        What is known of their labels.
    weights : ndarray of shape (n_bags,), default=None
        Weights of the bags.
    reg : float, default=1.0
        lambda, relative to the sum over bags; b is not penalised.
    learn : sequence of {"missing", "spurious"}, default=()
        The rates of `sets` that are learned, from the given ones.
    fit_intercept : bool, default=True
        Whether b is fitted; otherwise it is 0, and a class without data is one of the classes that
        an instance may have, as in the paper.
    solver : {"lbfgs", "gem"}, default="lbfgs"
        L-BFGS on the likelihood, or the paper's generalised EM; both find the same maximum.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Largest entry of the gradient, per instance, at which to stop.
    start : tuple (W, b), default=None
        Starting point; zeros by default.
    random_state : RandomState, default=None
        Draws the folds on which `missing` is learned.
    track : callable, default=iter
        Wraps the range of iterations, to show progress.
    checkpoint : path, default=None
        File to save intermediate results in, and to resume from.

    Returns
    -------
    SolverResult
        ``solution = (W, b, (missing, spurious))``, with b = -inf for a class without data; the
        curve is minus the penalised log-likelihood.
    """
    weights = np.ones(len(bags)) if weights is None else weights
    if "missing" in learn:
        usual = replace(sets, spurious=0.0) if "spurious" in learn else sets
        ends = {"reg": reg, "max_iter": max_iter, "tol": max(tol, MISSING_TOL)}
        sets = replace(sets, missing=_learn_missing(bags, usual, weights, random_state, **ends))
    # Classes without data are left out: their probability is zero.
    seen = sets.seen_classes if fit_intercept else np.ones(sets.n_classes, bool)
    sets, rates = sets.of_classes(seen), (sets.missing, sets.spurious)
    limits = sets.background, sets.max_operations, sets.n_classes
    settings = "ORLR", reg, *limits, rates, [*learn], fit_intercept, solver
    with place(bags, orlr_parts.ORLRPart, sets, weights) as parts:
        problem = PenalisedLoss.of(parts, bags, weights, reg, (rates,), fit_intercept)
        theta = np.zeros((sets.n_classes, bags.n_features + 1))
        if start is not None:
            theta = problem.centred(np.column_stack(start)[seen].astype(np.float64))
        problem, theta, is_resumed = problem.resumed(theta, checkpoint, settings)
        if rates[1] > RARE and start is None and not is_resumed:
            # From W = 0, labels of rare classes would be taken for spurious ones before W has
            # learned to recognise these classes.
            near = replace(problem, arguments=((rates[0], RARE),), checkpoint=NO_CHECKPOINT)
            theta, _, _ = minimise(near, theta, min(FIRST_ITERATIONS, max_iter), 5 * tol, iter)
        if "spurious" in learn:
            problem, theta = _learn_spurious(problem, theta, max_iter, tol)
        n_left = max_iter - len(problem.before)
        run = minimise if solver == "lbfgs" else generalised_em
        theta, curve, converged = run(problem, theta, n_left, tol, track)
        if problem.before and not curve:  # already converged after the last change of the rates
            curve = [problem.loss(theta)[0]]
        result = problem.result(theta, curve, converged, bags)
    W, b = result.solution
    coef = np.zeros((len(seen), W.shape[1]), W.dtype)
    intercept = np.full_like(b, -np.inf, shape=len(seen))
    coef[seen], intercept[seen] = W, b
    return replace(result, solution=(coef, intercept, np.array(problem.arguments[0])))


@dataclass(frozen=True)
class PenalisedLoss:
    """Penalised loss per instance, summed over parts, as a function of theta = [W b + W origin].

    `scale` is the total weight of the instances: values, gradients and `tol` are per instance. The
    intercept is for instances centred at `origin`. It is not penalised, so the problem is the
    same. Without centring, if the mean is far from 0, a step in W would shift all scores.
    `arguments` are further arguments of the parts: the error rates of ORLR. `before` is the curve
    of earlier iterations.
    """

    parts: Parts
    reg: float
    scale: float
    origin: Floats
    arguments: tuple[Any, ...] = ()
    fit_intercept: bool = True
    checkpoint: Checkpoint = NO_CHECKPOINT
    before: tuple[float, ...] = ()

    @classmethod
    def of(
        cls, parts: Parts, bags: Bags, weights: Floats, reg: float, more: Any = (), b: bool = True
    ) -> Self:
        """Build the loss of placed bags; their weighted mean is the origin if b is fitted."""
        scale = float(weights @ bags.sizes)
        origin = parts.total("sums") / scale if b else np.zeros(bags.n_features)
        return cls(parts, reg, scale, origin, more, b)

    def centred(self, theta: Floats) -> Floats:
        """Convert [W b] of the original instances to theta."""
        return np.column_stack([theta[:, :-1], theta[:, -1] + theta[:, :-1] @ self.origin])

    def uncentred(self, theta: Floats) -> Floats:
        """Convert theta to [W b] of the original instances."""
        return np.column_stack([theta[:, :-1], theta[:, -1] - theta[:, :-1] @ self.origin])

    def total(self, method: str, theta: Floats, *more: Any) -> Any:
        """Sum of the results of a method of the parts."""
        return self.parts.total(method, self.uncentred(theta), *more, *self.arguments)

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient at the centred theta."""
        W, b = theta[:, :-1], theta[:, -1]
        there = np.column_stack([W, b - W @ self.origin])
        value, gradient = self.parts.total("loss", there, *self.arguments)
        gradient = gradient.copy()
        gradient[:, :-1] += self.reg * W - np.outer(gradient[:, -1], self.origin)
        gradient[:, -1] *= self.fit_intercept
        return (value + 0.5 * self.reg * float(np.sum(W**2))) / self.scale, gradient / self.scale

    def surrogate(self, theta: Floats, before: Floats) -> float:
        """The auxiliary function of EM (Pham 2014, Eq. 7) for the posterior at `before`."""
        value = self.total("surrogate", theta, self.uncentred(before))
        return (value + 0.5 * self.reg * float(np.sum(theta[:, :-1] ** 2))) / self.scale

    def resumed(self, theta: Floats, path: Any, settings: Any) -> tuple[Self, Floats, bool]:
        """The problem and the iterate of the checkpoint, if there is one."""
        problem = replace(self, checkpoint=Checkpoint(path, settings))
        saved: dict[str, Any] = {"theta": theta, "curve": [], "arguments": self.arguments}
        if not problem.checkpoint.load(saved, self.parts):
            return problem, theta, False
        arguments = tuple(tuple(each) for each in saved["arguments"].tolist())
        before = tuple(saved["curve"].tolist())
        return replace(problem, arguments=arguments, before=before), saved["theta"], True

    def keep(self, theta: Floats, curve: list[float]) -> None:
        """Save an iterate in the checkpoint, if it is time."""
        saved = {"theta": theta, "curve": [*self.before, *curve], "arguments": self.arguments}
        self.checkpoint.save(saved, self.parts)

    def result(
        self, theta: Floats, curve: list[float], converged: bool, bags: Bags
    ) -> SolverResult:
        """W and b of the original instances, in their precision; removes the checkpoint."""
        self.checkpoint.remove()
        theta = self.uncentred(theta).astype(np.dtype(str(bags.dtype).removeprefix("torch.")))
        curves = np.array([*self.before, *curve]) * self.scale
        return SolverResult((theta[:, :-1], theta[:, -1]), curves, converged)


def _learn_spurious(
    problem: PenalisedLoss, theta: Floats, max_iter: int, tol: float
) -> tuple[PenalisedLoss, Floats]:
    """Update the rate of spurious labels and W alternately; leave one iteration for the end."""
    for _ in range(SPURIOUS_STEPS):
        missing, last = problem.arguments[0]
        _, _, n_spurious, n_left = problem.total("reports", theta)
        rate = float(np.clip(n_spurious / max(n_spurious + n_left, TINY), *RATE_RANGE))
        problem = replace(problem, arguments=((missing, rate),))
        n_iter = min(ITERATIONS_PER_STEP, max_iter - 1 - len(problem.before))
        if abs(rate - last) <= SPURIOUS_CHANGE * rate or n_iter < 1:
            break
        theta, more, _ = minimise(problem, theta, n_iter, tol, iter)
        problem = replace(problem, before=(*problem.before, *more))
    return problem, theta


def _learn_missing(
    bags: Bags, sets: orlr_parts.BagLabelSets, weights: Floats, rng: Any, **ends: Any
) -> float:
    """Estimate the rate of missing labels by EM, with the E-step on held-out bags."""
    fold_of = rng.permutation(len(bags)) % N_FOLDS
    starts: list[Any] = [None] * len(np.unique(fold_of))
    for _ in range(MISSING_STEPS if len(starts) > 1 else 0):
        last, counts = sets.missing, np.zeros(4)
        for fold, start in enumerate(starts):
            inside = np.flatnonzero(~sets.impossible & (fold_of != fold))
            data = {"weights": weights[inside], "start": start}
            W, b, rates = ored_logistic(bags[inside], sets[inside], **data, **ends).solution
            seen = np.isfinite(b)
            starts[fold] = W, np.where(seen, b, 0.0)
            # A bag with a label that is absent from the other folds has probability zero.
            absent = (sets.indicator[:, ~seen[: sets.indicator.shape[1]]] == 1).any(axis=1)
            out = np.flatnonzero((fold_of == fold) & ~absent)
            if len(out):
                unnamed = replace(sets[out], instance_codes=orlr_parts.NO_CODES)
                with place(bags[out], orlr_parts.ORLRPart, unnamed, weights[out]) as parts:
                    counts += parts.total("reports", np.column_stack([W, b]), tuple(rates))
        if counts[:2].sum() == 0:
            break
        sets = replace(sets, missing=float(np.clip(counts[0] / counts[:2].sum(), *RATE_RANGE)))
        if abs(sets.missing - last) <= MISSING_CHANGE * last or sets.missing <= NEGLIGIBLE:
            break
    return sets.missing


def minimise(
    problem: PenalisedLoss, theta: Floats, max_iter: int, tol: float, track: Any
) -> Outcome:
    """Minimise a penalised loss by L-BFGS.

    Parameters
    ----------
    problem : PenalisedLoss
        The loss.
    theta : ndarray of shape (n_classes, n_features + 1)
        Starting point, centred.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Largest entry of the gradient, per instance, at which to stop.
    track : callable
        Wraps the range of iterations, to show progress.

    Returns
    -------
    theta : ndarray of shape (n_classes, n_features + 1)
    curve : list of float
        The loss after each iteration.
    converged : bool
    """
    steps = iter(track(range(max_iter)))
    curve: list[float] = []

    def after(intermediate_result: Any) -> None:
        curve.append(float(intermediate_result.fun))
        if problem.checkpoint.path is not None:
            problem.keep(intermediate_result.x.reshape(theta.shape), curve)
        next(steps)  # StopIteration ends the search, as scipy documents

    next(steps, None)
    # ftol is at the level of rounding, so that gtol decides about convergence.
    ends = {"ftol": 64 * np.finfo(float).eps, "gtol": tol, "maxls": 50}
    found = lbfgs(problem.loss, theta, max_iter=max_iter, callback=after, **ends)
    return found.x, curve, bool(found.success)


def generalised_em(
    problem: PenalisedLoss, theta: Floats, max_iter: int, tol: float, track: Any
) -> Outcome:
    """The paper's solver: one gradient step on the auxiliary function, with backtracking (Eq. 13).

    Parameters and results as for `minimise`.
    """
    curve: list[float] = []
    (_, gradient), length = problem.loss(theta), 1.0
    for _ in track(range(max_iter)):
        square = float(np.sum(gradient**2))
        if np.abs(gradient).max() <= tol:
            break
        length, before = 4 * length, problem.surrogate(theta, theta)
        while problem.surrogate(theta - length * gradient, theta) > before - length / 2 * square:
            length /= 2
            if length * np.sqrt(square) < 1e-14:  # the level of rounding
                return theta, curve, False
        theta = theta - length * gradient
        value, gradient = problem.loss(theta)
        curve.append(value)
        problem.keep(theta, curve)
    return theta, curve, bool(np.abs(gradient).max() <= tol)


def noisy_or_logistic(
    bags: Bags,
    indicator: Ints,
    *,
    weights: Floats,
    reg: float,
    max_iter: int = 1000,
    tol: float = 1e-5,
    track: Callable[[range], Any] = iter,
    checkpoint: Any = None,
) -> SolverResult:
    """Maximise the penalised likelihood of the label sets.

    Parameters
    ----------
    bags : Bags
        The bags: in memory, on a device or on workers.
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets, -1 for a label that is unknown. Each label is in some set and known to be
        absent from another: there is no maximum otherwise.
    weights : ndarray of shape (n_bags,)
        Weights of the bags.
    reg : float
        lambda, relative to the sum over bags; b is not penalised.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Largest entry of the gradient, per instance, at which to stop.
    track : callable, default=iter
        Wraps the range of iterations, to show progress.
    checkpoint : path, default=None
        File to save intermediate results in, and to resume from.

    Returns
    -------
    SolverResult
        ``solution = (W, b)``; the curve is minus the penalised log-likelihood.
    """
    n_labels = indicator.shape[1]
    dtype = np.dtype(str(bags.dtype).removeprefix("torch."))
    if n_labels == 0:
        nothing = np.zeros((0, bags.n_features), dtype), np.zeros(0, dtype)
        return SolverResult(nothing, [0.0], converged=True)
    with place(bags, NoisyOrPart, indicator, weights) as parts:
        problem = PenalisedLoss.of(parts, bags, weights, reg)
        # W = 0, and b as if one instance of each bag that carries the label had it.
        theta = np.zeros((n_labels, bags.n_features + 1))
        share = weights @ (indicator == 1) / problem.scale
        theta[:, -1] = np.log(share) - np.log1p(-np.minimum(share, 0.5))
        problem, theta, _ = problem.resumed(theta, checkpoint, ("noisy-or", reg, n_labels))
        n_left = max_iter - len(problem.before)
        return problem.result(*minimise(problem, theta, n_left, tol, track), bags)


class NoisyOrPart(orlr_parts.LinearPart):
    """Bags with the likelihood of their label sets; on a device only its products are computed."""

    @cached_property
    def _blocks(self) -> list[tuple[slice, slice, Ints, Ints]]:
        """Blocks of bags: their bags and instances, their offsets, and the bags of each thread."""
        n_labels, found = self.indicator.shape[1], []
        for bags, rows in orlr_parts.blocks_of_bags(self.bags.offsets, n_labels):
            offsets = self.bags.offsets[bags.start : bags.stop + 1] - rows.start
            found.append((bags, rows, offsets, bag_bounds(offsets, offsets[-1] * n_labels)))
        return found

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Minus the log-likelihood of the label sets, and its gradient in theta = [W b]."""
        value, gradient = 0.0, np.zeros_like(theta)
        for bags, rows, offsets, bounds in self._blocks:
            scores = linear_scores(self.X[rows], theta)
            scores = scores if isinstance(scores, np.ndarray) else to_numpy(scores)
            residual = np.empty_like(scores)
            indicator = np.ascontiguousarray(self.indicator[bags])
            arguments = *read_only(offsets, indicator, self.weights[bags]), scores, residual
            value += sum(run_blocks(loops.segments.noisy_or_loss, bounds, *arguments))
            gradient += linear_gradient(self.X[rows], residual)
        return value, gradient


NoisyOrPart.tensor_part = NoisyOrPart

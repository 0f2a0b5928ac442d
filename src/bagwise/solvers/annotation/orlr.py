"""ORed logistic regression (Pham, Raich, Fern 2014): instance labels from bag label sets.

    max_W  sum_b weight_b log P(Y_b | X_b, W) - reg/2 |W|^2

where an instance has label c with probability softmax(W x + b)_c and the label set of a bag is the
union of the labels of its instances. By Fisher's identity the gradient needs only the posterior
labels of the instances, which `bagwise.loops.label_sets` computes exactly in time linear in
the size of the bag. L-BFGS can thus maximise the likelihood directly, faster than EM.

Some instance labels may be known from an annotator: the likelihood is then that of the label set
and of the known labels, log P(Y_b, y_i for i known | X_b, W).

Label sets may be wrong: `missing` is the probability that the label of an instance is not reported,
`spurious` that a label is listed which no instance reports. Both may be learned by EM:

    spurious = E[spurious labels] / E[labels that no instance reports],
    missing = E[instances that report no label] / E[instances with a label],

the latter on held-out bags: a flexible model explains every label set of its training bags.

Value and gradient are sums over parts: blocks of whole bags, in memory, on a device or on workers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.compute import Checkpoint, Parts, codes_by_bag, place
from bagwise.solvers.annotation.orlr_parts import NO_CODES, BagLabelSets, ORLRPart
from bagwise.solvers.lbfgs import lbfgs
from bagwise.solvers.result import SolverResult

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
    indicator: Ints,
    *,
    weights: Floats | None = None,
    instance_codes: Ints | None = None,
    reg: float = 1.0,
    background: bool = False,
    missing: float | str = 0.0,
    spurious: float | str = 0.0,
    fit_intercept: bool = True,
    solver: str = "lbfgs",
    max_iter: int = 1000,
    tol: float = 1e-5,
    max_operations: float = 1e9,
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
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets.
    weights : ndarray of shape (n_bags,), default=None
        Weights of the bags.
    instance_codes : ndarray of int64 of shape (n_instances,), default=None
        The class of each instance, -1 if unknown.
    reg : float, default=1.0
        lambda, relative to the sum over bags.
    background : bool, default=False
        Whether there is a background class: the last one, allowed in any bag, in no label set.
    missing : float or "learn", default=0.0
        Probability that the label of an instance is not reported.
    spurious : float or "learn", default=0.0
        Probability that a label is listed which no instance reports.
    fit_intercept : bool, default=True
        Whether b is fitted; it is not penalised.
    solver : {"lbfgs", "gem"}, default="lbfgs"
        L-BFGS on the likelihood, or the paper's generalised EM, with one gradient step per M-step.
        Both maximise the same likelihood; L-BFGS is faster.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Largest entry of the gradient, per instance, at which to stop.
    max_operations : float, default=1e9
        Cost of a bag, instances x subsets x labels, beyond which its posterior is approximated.
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
    options = {"background": background, "max_operations": max_operations}
    options["fit_intercept"] = fit_intercept
    if isinstance(missing, str):
        usual = 0.0 if isinstance(spurious, str) else spurious
        ends = {"reg": reg, "max_iter": max_iter, "tol": max(tol, MISSING_TOL)}
        fit: Any = partial(ored_logistic, spurious=usual, **ends)  # type: ignore[arg-type]
        data = bags, indicator, weights, instance_codes
        missing = _learn_missing(fit, *data, random_state, usual, options)
    # Classes without data are left out: their probability is zero.
    seen = np.append((indicator == 1).any(axis=0), np.ones(int(background), bool))
    known = []
    if instance_codes is not None:
        seen[instance_codes[instance_codes >= 0]] = True
        instance_codes = np.where(instance_codes < 0, -1, (np.cumsum(seen) - 1)[instance_codes])
        known = [codes_by_bag(instance_codes, bags.offsets)]
    indicator, n_classes = indicator[:, seen[: indicator.shape[1]]], int(seen.sum())
    rates = missing, FIRST_SPURIOUS if isinstance(spurious, str) else spurious
    settings = "ORLR", reg, solver, options, n_classes, missing, spurious
    with place(bags, ORLRPart, indicator, weights, *known, rates=rates, **options) as parts:
        problem = PenalisedLoss.of(parts, bags, weights, reg, fit_intercept, (rates,))
        theta = np.zeros((n_classes, bags.n_features + 1))
        if start is not None:
            theta = problem.centred(np.column_stack(start)[seen].astype(np.float64))
        run = minimise if solver == "lbfgs" else gradient_em
        problem, theta, is_resumed = problem.resumed(theta, checkpoint, settings)
        if rates[1] > RARE and start is None and not is_resumed:
            # From W = 0, labels of rare classes would be taken for spurious ones before W has
            # learned to recognise these classes.
            near = replace(problem, arguments=((missing, RARE),), checkpoint=None)
            theta, _, _ = run(near, theta, min(FIRST_ITERATIONS, max_iter), 5 * tol, iter)
        if spurious == "learn":
            problem, theta = _learn_spurious(problem, theta, run, max_iter, tol)
        theta, curve, converged = run(problem, theta, max_iter - len(problem.before), tol, track)
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
    intercept is that of instances centred at `origin`. It is not penalised, so the problem is the
    same. Without centring, if the mean is far from 0, a step in W would shift all scores.
    `arguments` are further arguments of the parts: the error rates of ORLR. `before` is the curve
    of earlier iterations.
    """

    parts: Parts
    reg: float
    scale: float
    origin: Floats
    arguments: tuple[Any, ...] = ()
    checkpoint: Checkpoint | None = None
    before: tuple[float, ...] = ()

    @classmethod
    def of(
        cls, parts: Parts, bags: Bags, weights: Floats, reg: float, centre: bool, more: Any = ()
    ) -> Self:
        """Build the loss of placed bags; their weighted mean is the origin."""
        scale = float(weights @ bags.sizes)
        origin = parts.total("sums") / scale if centre else np.zeros(bags.n_features)
        return cls(parts, reg, scale, origin, more)

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
        value, gradient = self.total("loss", theta)
        gradient = gradient.copy()
        gradient[:, :-1] += self.reg * theta[:, :-1] - np.outer(gradient[:, -1], self.origin)
        return self._penalised(value, theta), gradient / self.scale

    def surrogate(self, theta: Floats, posterior_at: Floats) -> float:
        """The auxiliary function (Eq. 7) of EM for the posterior at another theta."""
        value = self.total("surrogate", theta, self.uncentred(posterior_at))
        return self._penalised(value, theta)

    def _penalised(self, value: float, theta: Floats) -> float:
        return (value + 0.5 * self.reg * float(np.sum(theta[:, :-1] ** 2))) / self.scale

    def resumed(self, theta: Floats, path: Any, settings: Any) -> tuple[Self, Floats, bool]:
        """The problem and the iterate of the checkpoint, if there is one."""
        if path is None:
            return self, theta, False
        checkpoint = Checkpoint(path, settings)
        problem = replace(self, checkpoint=checkpoint)
        saved: dict[str, Any] = {"theta": theta, "curve": [], "arguments": self.arguments}
        if not checkpoint.load(saved, self.parts):
            return problem, theta, False
        arguments = tuple(tuple(each) for each in saved["arguments"].tolist())
        before = tuple(saved["curve"].tolist())
        return replace(problem, arguments=arguments, before=before), saved["theta"], True

    def keep(self, theta: Floats, curve: list[float]) -> None:
        """Save an iterate in the checkpoint, if it is time."""
        if self.checkpoint is not None:
            saved = {"theta": theta, "curve": [*self.before, *curve], "arguments": self.arguments}
            self.checkpoint.save(saved, self.parts)

    def result(
        self, theta: Floats, curve: list[float], converged: bool, bags: Bags
    ) -> SolverResult:
        """W and b of the original instances, in their precision; removes the checkpoint."""
        if self.checkpoint is not None:
            self.checkpoint.remove()
        theta = self.uncentred(theta).astype(np.dtype(str(bags.dtype).removeprefix("torch.")))
        curves = np.array([*self.before, *curve]) * self.scale
        return SolverResult((theta[:, :-1], theta[:, -1]), curves, converged)


def _learn_spurious(
    problem: PenalisedLoss, theta: Floats, run: Callable[..., Outcome], max_iter: int, tol: float
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
        theta, more, _ = run(problem, theta, n_iter, tol, iter)
        problem = replace(problem, before=(*problem.before, *more))
    return problem, theta


def _learn_missing(
    fit: Callable[..., SolverResult],
    bags: Bags,
    indicator: Ints,
    weights: Floats,
    codes: Ints | None,
    rng: Any,
    spurious: float,
    options: dict[str, Any],
) -> float:
    """Estimate the rate of missing labels by EM, with the E-step on held-out bags."""
    fold_of, rate = rng.permutation(len(bags)) % N_FOLDS, FIRST_MISSING
    starts: list[Any] = [None] * len(np.unique(fold_of))
    sets = BagLabelSets(bags.offsets, indicator, options["background"], missing=rate)
    sets = replace(sets, spurious=spurious, instance_codes=NO_CODES if codes is None else codes)
    for _ in range(MISSING_STEPS if len(starts) > 1 else 0):
        counts, rates = np.zeros(4), (rate, spurious)
        for fold, start in enumerate(starts):
            inside = np.flatnonzero(~sets.impossible & (fold_of != fold))
            known = None if codes is None else sets.take(inside).instance_codes
            data = {"weights": weights[inside], "instance_codes": known, "start": start}
            result = fit(bags[inside], indicator[inside], missing=rate, **data, **options)
            W, b, _ = result.solution
            seen = np.isfinite(b)
            starts[fold] = W, np.where(seen, b, 0.0)
            # A bag with a label that is absent from the other folds has probability zero.
            absent = (indicator[:, ~seen[: indicator.shape[1]]] == 1).any(axis=1)
            out = np.flatnonzero((fold_of == fold) & ~absent)
            if len(out):
                with place(bags[out], ORLRPart, indicator[out], weights[out], **options) as parts:
                    counts += parts.total("reports", np.column_stack([W, b]), rates)
        if counts[:2].sum() == 0:
            break
        last, rate = rate, float(np.clip(counts[0] / counts[:2].sum(), *RATE_RANGE))
        if abs(rate - last) <= MISSING_CHANGE * last or rate <= NEGLIGIBLE:
            break
    return rate


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
        problem.keep(intermediate_result.x.reshape(theta.shape), curve)
        next(steps)  # StopIteration ends the search, as scipy documents

    next(steps, None)
    # ftol is at the level of rounding, so that gtol decides about convergence.
    ends = {"ftol": 64 * np.finfo(float).eps, "gtol": tol, "maxls": 50}
    found = lbfgs(problem.loss, theta, max_iter=max_iter, callback=after, **ends)
    return found.x, curve, bool(found.success)


def gradient_em(
    problem: PenalisedLoss, theta: Floats, max_iter: int, tol: float, track: Any
) -> Outcome:
    """The paper's generalised EM: one gradient step on the auxiliary function, with backtracking.

    Parameters and results are those of `minimise`.
    """
    _, gradient = problem.loss(theta)
    curve: list[float] = []
    length, square = 1.0, float(np.sum(gradient**2))
    for _ in track(range(max_iter)):
        if np.abs(gradient).max() <= tol:
            break
        length, before = 4.0 * length, problem.surrogate(theta, theta)
        # Eq. 13: halve the step until the function decreases enough.
        while problem.surrogate(theta - length * gradient, theta) > before - 0.5 * length * square:
            length *= 0.5
            if length * np.sqrt(square) < 1e-14:  # the level of rounding
                return theta, curve, False
        theta = theta - length * gradient
        value, gradient = problem.loss(theta)
        square = float(np.sum(gradient**2))
        curve.append(value)
        problem.keep(theta, curve)
    return theta, curve, bool(np.abs(gradient).max() <= tol)

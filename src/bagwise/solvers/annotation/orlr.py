"""ORed logistic regression (Pham, Raich, Fern 2014): instance labels from bag label sets.

    max_W  sum_b weight_b log P(Y_b | X_b, W) - reg/2 |W|^2

where an instance has label c with probability softmax(W x + b)_c and the label set of a bag is the
union of the labels of its instances. By Fisher's identity the gradient needs only the posterior
labels of the instances, which `bagwise.compiled.label_sets` computes exactly in time linear in
the size of the bag. L-BFGS can thus maximise the likelihood directly; EM is kept for comparison.

Some instance labels may be known from an annotator: the likelihood is then that of the label set
and of the known labels, log P(Y_b, y_i for i known | X_b, W).

Label sets may be wrong: `missing` is the probability that the label of an instance is not reported,
`spurious` that a label is listed which no instance reports. The latter may be learned by EM:

    spurious = E[spurious labels] / E[labels that no instance reports].

Value and gradient are sums over parts: blocks of whole bags, in memory, on a device or on workers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.engines import Checkpoint, Parts, codes_by_bag, place
from bagwise.solvers.annotation.orlr_parts import CORRECT, ORLRPart, Rates
from bagwise.solvers.lbfgs import Objective, lbfgs
from bagwise.solvers.result import SolverResult

FIRST_RATES: Rates = (0.1, 0.01)  # starting point of EM
RATE_RANGE = 1e-6, 0.5
RATE_CHANGE = 0.02  # relative change of a rate at which EM stops
RARE = 1e-4  # rate of spurious labels in the first fit of W
EM_STEPS = 20
FIRST_ITERATIONS, ITERATIONS_PER_STEP = 150, 60
TINY = 1e-300

Outcome = tuple[Floats, list[float], bool]


def ored_logistic(
    bags: Bags,
    indicator: Ints,
    *,
    background: bool,
    max_operations: float,
    weights: Floats,
    reg: float,
    fit_intercept: bool,
    solver: str,
    max_iter: int,
    tol: float,
    instance_codes: Ints | None = None,
    missing: float = 0.0,
    spurious: float | str = 0.0,
    start: tuple[Array, Array] | None = None,
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
    background : bool
        Whether there is a background class: the last one, allowed in any bag, in no label set.
    max_operations : float
        Cost of a bag, instances x subsets x labels, beyond which its posterior is approximated.
    weights : ndarray of shape (n_bags,)
        Weights of the bags.
    reg : float
        lambda, relative to the sum over bags.
    fit_intercept : bool
        Whether b is fitted; it is not penalised.
    solver : {"lbfgs", "em", "gem"}
        L-BFGS on the likelihood, EM with a full M-step, or the paper's EM with one gradient step.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Largest entry of the gradient, per instance, at which to stop.
    instance_codes : ndarray of int64 of shape (n_instances,), default=None
        The class of each instance, -1 if unknown.
    missing : float, default=0.0
        Probability that the label of an instance is not reported.
    spurious : float or "learn", default=0.0
        Probability that a label is listed which no instance reports.
    start : tuple (W, b), default=None
        Starting point; zeros by default.
    track : callable, default=iter
        Wraps the range of iterations, to show progress.
    checkpoint : path, default=None
        File to save intermediate results in, and to resume from.

    Returns
    -------
    SolverResult
        ``solution = (W, b, (missing, spurious))``; the curve is minus the penalised
        log-likelihood.
    """
    n_classes = indicator.shape[1] + background
    by_bag = [] if instance_codes is None else [codes_by_bag(instance_codes, bags.offsets)]
    settings = (
        "ORLR", reg, solver, background, max_operations, fit_intercept, n_classes, missing, spurious
    )  # fmt: skip
    rates = first_rates(missing, spurious)
    with place(
        bags, ORLRPart, indicator, weights, *by_bag, background=background,
        fit_intercept=fit_intercept, max_operations=max_operations, rates=rates,
    ) as parts:  # fmt: skip
        problem = _Problem.of(
            parts, bags, weights, reg=reg, fit_intercept=fit_intercept,
            checkpoint=None if checkpoint is None else Checkpoint(checkpoint, settings),
        )  # fmt: skip
        problem = replace(problem, rates=rates)
        theta = np.zeros((n_classes, bags.n_features + 1))
        if start is not None:
            theta = problem.centred(np.column_stack(start).astype(np.float64))
        run = minimise if solver == "lbfgs" else partial(_em, gradient_step=solver == "gem")
        before: list[float] = []
        saved: dict[str, Any] = {"theta": theta, "curve": [], "rates": rates}
        is_resumed = problem.checkpoint is not None and problem.checkpoint.load(saved, parts)
        if is_resumed:
            theta, before = saved["theta"], saved["curve"].tolist()
            problem = replace(problem, rates=tuple(saved["rates"].tolist()))
        elif rates[1] > RARE and start is None:
            # From W = 0, labels of rare classes would be taken for spurious ones before W has
            # learned to recognise these classes.
            near = replace(problem, rates=(rates[0], RARE))
            theta, _, _ = run(near, theta, min(FIRST_ITERATIONS, max_iter), 5 * tol, iter)
        if spurious == "learn":
            problem, theta, more = _learn_spurious(problem, theta, run, max_iter, tol)
            before += more
        theta, curve, converged = run(problem, theta, max_iter - len(before), tol, track)
        if before and not curve:  # already converged after the last change of the rates
            curve = [problem.loss(theta)[0]]
        curve = before + curve
        theta = problem.uncentred(theta)
        if problem.checkpoint is not None:
            problem.checkpoint.remove()
    dtype = np.dtype(str(bags.dtype).removeprefix("torch."))
    solution = theta[:, :-1].astype(dtype), theta[:, -1].astype(dtype), np.array(problem.rates)
    return SolverResult(solution, np.array(curve) * problem.scale, converged)


@dataclass(frozen=True)
class PenalisedLoss:
    """Penalised loss per instance, summed over parts, as a function of theta = [W b + W origin].

    `scale` is the total weight of the instances: values, gradients and `tol` are per instance. The
    intercept is that of instances centred at `origin`. It is not penalised, so the problem is the
    same. Without centring, if the mean is far from 0, a step in W would shift all scores.
    """

    parts: Parts
    reg: float
    scale: float
    origin: Floats
    checkpoint: Checkpoint | None = None

    @classmethod
    def of(
        cls,
        parts: Parts,
        bags: Bags,
        weights: Floats,
        *,
        reg: float,
        fit_intercept: bool,
        checkpoint: Checkpoint | None,
    ) -> Self:
        """Build the loss of placed bags, with the weighted mean of the instances as origin."""
        scale, origin = float(weights @ bags.sizes), np.zeros(bags.n_features)
        if fit_intercept:
            origin = _coarse(parts.total("sums") / scale)
        return cls(parts, reg, scale, origin, checkpoint)

    def centred(self, theta: Floats) -> Floats:
        """Convert [W b] of the original instances to theta."""
        theta = theta.copy()
        theta[:, -1] += theta[:, :-1] @ self.origin
        return theta

    def uncentred(self, theta: Floats) -> Floats:
        """Convert theta to [W b] of the original instances."""
        theta = theta.copy()
        theta[:, -1] -= theta[:, :-1] @ self.origin
        return theta

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient at the centred theta."""
        return self._penalised("loss", theta)

    def keep(self, theta: Floats, curve: list[float], **more: Any) -> None:
        """Save an iterate in the checkpoint, if it is time."""
        if self.checkpoint is not None:
            self.checkpoint.save({"theta": theta, "curve": curve, **more}, self.parts)

    def _penalised(self, method: str, theta: Floats, *more: Any) -> tuple[float, Floats]:
        value, gradient = self.parts.total(method, self.uncentred(theta), *more)
        W, gradient = theta[:, :-1], gradient.copy()
        gradient[:, :-1] += self.reg * W - np.outer(gradient[:, -1], self.origin)
        return (value + 0.5 * self.reg * float(np.sum(W**2))) / self.scale, gradient / self.scale


@dataclass(frozen=True)
class _Problem(PenalisedLoss):
    """Minus the penalised log-likelihood of ORLR per instance, at given error rates."""

    rates: Rates = CORRECT

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient at the centred theta."""
        return self._penalised("loss", theta, self.rates)

    def keep(self, theta: Floats, curve: list[float], **more: Any) -> None:
        """Save an iterate and the rates in the checkpoint, if it is time."""
        super().keep(theta, curve, rates=self.rates, **more)

    def reports(self, theta: Floats) -> Floats:
        """Expected counts of missing and spurious labels at theta: see `_Part.reports`."""
        return self.parts.total("reports", self.uncentred(theta), self.rates)

    def surrogate_at(self, theta: Floats) -> Objective:
        """The auxiliary function (Eq. 7) for the posterior at theta."""
        self.parts.do("expect", self.uncentred(theta), self.rates)
        self.parts.renew()
        return partial(self._penalised, "surrogate")


def first_rates(missing: float | str, spurious: float | str) -> Rates:
    """Initial error rates: the given ones, or the starting point of EM for "learn".

    Parameters
    ----------
    missing, spurious : float or "learn"
        Probabilities of missing and of spurious labels.

    Returns
    -------
    tuple of float
    """
    return (
        FIRST_RATES[0] if isinstance(missing, str) else missing,
        FIRST_RATES[1] if isinstance(spurious, str) else spurious,
    )


def _learn_spurious(
    problem: _Problem, theta: Floats, run: Callable[..., Outcome], max_iter: int, tol: float
) -> tuple[_Problem, Floats, list[float]]:
    """Update the rate of spurious labels and W alternately; leave one iteration for the end."""
    missing, curve = problem.rates[0], list[float]()
    for _ in range(EM_STEPS):
        _, _, spurious, left = problem.reports(theta)
        rate = float(np.clip(spurious / max(spurious + left, TINY), *RATE_RANGE))
        change = abs(rate - problem.rates[1]) / rate
        problem = replace(problem, rates=(missing, rate))
        n_iter = min(ITERATIONS_PER_STEP, max_iter - 1 - len(curve))
        if change <= RATE_CHANGE or n_iter < 1:
            break
        theta, more, _ = run(problem, theta, n_iter, tol, iter)
        curve += more
    return problem, theta, curve


def _coarse(values: Floats) -> Floats:
    """Round to ten digits, so that sums over different partitions give the same values."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**32) / 2.0**32, exponent)


# ftol is at the level of rounding, so that gtol decides about convergence.
_search = partial(lbfgs, ftol=64 * np.finfo(float).eps, maxls=50)


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
    found = _search(problem.loss, theta, max_iter=max_iter, gtol=tol, callback=after)
    return found.x, curve, bool(found.success)


def _em(
    problem: _Problem, theta: Floats, max_iter: int, tol: float, track: Any, gradient_step: bool
) -> Outcome:
    """EM: posterior labels in the E-step, a logistic regression on them in the M-step.

    `gradient_step` selects the generalized EM of the paper: the M-step is one gradient step on the
    auxiliary function, with backtracking (Eq. 13).
    """
    value, gradient = problem.loss(theta)
    curve: list[float] = []
    length = 1.0
    for _ in track(range(max_iter)):
        if np.abs(gradient).max() <= tol:
            break
        surrogate = problem.surrogate_at(theta)
        if gradient_step:
            length = _backtrack(surrogate, theta, gradient, 4.0 * length)
            if length == 0:
                break
            theta = theta - length * gradient
        else:
            theta = _search(surrogate, theta, max_iter=100, gtol=0.1 * tol).x
        value, gradient = problem.loss(theta)
        curve.append(value)
        problem.keep(theta, curve)
    return theta, curve, bool(np.abs(gradient).max() <= tol)


def _backtrack(surrogate: Objective, theta: Floats, gradient: Floats, length: float) -> float:
    """Halve the step until the function decreases enough; return 0 at the level of rounding."""
    before, _ = surrogate(theta)
    square = float(np.sum(gradient**2))
    while surrogate(theta - length * gradient)[0] > before - 0.5 * length * square:
        length *= 0.5
        if length * np.sqrt(square) < 1e-14:
            return 0.0
    return length

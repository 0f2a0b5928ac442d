"""ORed logistic regression (Pham, Raich, Fern 2014): instance labels from bag label sets.

    max_W  sum_b weight_b log P(Y_b | X_b, W) - reg/2 |W|^2

where an instance has label c with probability softmax(W x + b)_c and the label set of a bag is the
union of the labels of its instances. By Fisher's identity the gradient needs the posterior labels
of the instances only, which `bagwise.compiled.label_subsets` finds exactly in time linear in the
size of the bag: so L-BFGS maximises the likelihood itself, and EM is kept for comparison.

Some labels of instances may be known (a person looked at them): the likelihood is then that of the
label set and of the known labels, log P(Y_b, y_i for i known | X_b, W).

Label sets may be wrong: `missing` is the probability that the label of an instance is not reported,
`spurious` that a label is listed which no instance reports. The latter may be learned by EM:

    spurious = E[spurious labels] / E[labels that no instance reports].

Value and gradient are sums over parts, blocks of whole bags, wherever they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from bagwise._types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.engines import Checkpoint, Journal, Parts, codes_by_bag, place, retry_on_new_parts
from bagwise.solvers.annotation.orlr_parts import CORRECT, ORLRPart, Rates
from bagwise.solvers.lbfgs import Objective, lbfgs
from bagwise.solvers.result import SolverResult

FIRST_RATES: Rates = (0.1, 0.01)  # where EM begins
RATE_RANGE = 1e-6, 0.5
RATE_CHANGE = 0.02  # of a rate, relative, below which it is kept
RARE = 1e-4  # the rate of spurious labels under which W is fitted first
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
        The bags, wherever they are.
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets.
    background : bool
        Whether there is one more class, the last, that any bag may show and no label set holds.
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
        Maximum number of iterations.
    tol : float
        Largest entry of the gradient, per instance, at the end.
    instance_codes : ndarray of int64 of shape (n_instances,), default=None
        The class of each instance, -1 where it is not known.
    missing : float, default=0.0
        Probability that the label of an instance is not reported.
    spurious : float or "learn", default=0.0
        Probability that a label is listed which no instance reports.
    start : tuple (W, b), default=None
        Where to begin; zeros by default.
    track : callable, default=iter
        Wraps the range of iterations, to show progress.
    checkpoint : path, default=None
        Where to save now and then, and to resume from.

    Returns
    -------
    SolverResult
        ``solution = (W, b, (missing, spurious))``; the curve is minus the penalised
        log-likelihood, which falls.
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
        if rates[1] > RARE and start is None:
            # From W = 0, labels of rare classes would be taken for spurious ones before W has
            # learned to tell these classes.
            near = replace(problem, rates=(rates[0], RARE))
            theta, _, _ = run(near, theta, min(FIRST_ITERATIONS, max_iter), 5 * tol, iter)
        if spurious == "learn":
            problem, theta, before = _learn_spurious(problem, theta, run, max_iter, tol)
        theta, curve, converged = run(problem, theta, max_iter - len(before), tol, track)
        if before and not curve:  # nothing was left to do after the last change of the rates
            curve = [problem.loss(theta)[0]]
        curve = before + curve
        theta = problem.uncentred(theta)
        problem.journal.close()
    dtype = np.dtype(str(bags.dtype).removeprefix("torch."))
    solution = theta[:, :-1].astype(dtype), theta[:, -1].astype(dtype), np.array(problem.rates)
    return SolverResult(solution, np.array(curve) * problem.scale, converged)


@dataclass(frozen=True)
class PenalisedLoss:
    """A loss of parts per instance, penalised, as a function of theta = [W b + W origin].

    `scale` is the weight of all instances: values and gradients are per instance, as `tol` is.
    The intercept is the one of instances centred at `origin`. It is not penalised, so the problem
    is the same; but far from 0 a step in W would change all scores by the same large amount.
    """

    parts: Parts
    reg: float
    scale: float
    journal: Journal
    origin: Floats

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
        """The loss of placed bags, with the weighted mean of their instances as the origin."""
        journal = Journal(parts, checkpoint)
        scale, origin = float(weights @ bags.sizes), np.zeros(bags.n_features)
        if fit_intercept:
            origin = _coarse(retry_on_new_parts(parts, lambda: parts.total("sums")) / scale)
        return cls(parts, reg, scale, journal, origin)

    def centred(self, theta: Floats) -> Floats:
        """Theta, from [W b] for instances as they are."""
        theta = theta.copy()
        theta[:, -1] += theta[:, :-1] @ self.origin
        return theta

    def uncentred(self, theta: Floats) -> Floats:
        """[W b], for instances as they are."""
        theta = theta.copy()
        theta[:, -1] -= theta[:, :-1] @ self.origin
        return theta

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient by the centred theta."""
        return self._penalised(
            "loss", theta, lambda: self.parts.total("loss", self.uncentred(theta))
        )

    def _penalised(
        self, kind: str, theta: Floats, find: Callable[[], tuple[float, Floats]]
    ) -> tuple[float, Floats]:
        value, gradient = self.journal.evaluate(
            kind, theta, lambda: retry_on_new_parts(self.parts, find)
        )
        W, gradient = theta[:, :-1], gradient.copy()
        gradient[:, :-1] += self.reg * W - np.outer(gradient[:, -1], self.origin)
        return (value + 0.5 * self.reg * float(np.sum(W**2))) / self.scale, gradient / self.scale


@dataclass(frozen=True)
class _Problem(PenalisedLoss):
    """Minus the penalised log-likelihood of ORLR per instance, at given rates of errors."""

    rates: Rates = CORRECT

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient by the centred theta."""
        return self._penalised(
            f"loss {self.rates}",
            theta,
            lambda: self.parts.total("loss", self.uncentred(theta), self.rates),
        )

    def reports(self, theta: Floats) -> Floats:
        """What is expected of wrong reports at theta: see `_Part.reports`."""
        return retry_on_new_parts(
            self.parts, lambda: self.parts.total("reports", self.uncentred(theta), self.rates)
        )

    def surrogate_at(self, theta: Floats) -> Objective:
        """The auxiliary function (Eq. 7) of the posterior at theta."""
        posterior_is_current = False

        def surrogate(new: Floats) -> tuple[float, Floats]:
            def find() -> tuple[float, Floats]:
                nonlocal posterior_is_current
                if not posterior_is_current:
                    self.parts.do("expect", self.uncentred(theta), self.rates)
                posterior_is_current = False  # where a worker is lost, its posterior is lost too
                found = self.parts.total("surrogate", self.uncentred(new))
                posterior_is_current = True
                return found

            return self._penalised("surrogate", new, find)

        return surrogate


def first_rates(missing: float | str, spurious: float | str) -> Rates:
    """The given rates; for those that are learned, where EM begins.

    Parameters
    ----------
    missing, spurious : float or "learn"
        The parameters.

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
    """Improve the rate of spurious labels, then W, in turn; leave one iteration over."""
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
    """Values to ten digits: sums over other partitions, which round differently, give the same."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**32) / 2.0**32, exponent)


# ftol: until rounding is all that is left; then gtol decides.
_search = partial(lbfgs, ftol=64 * np.finfo(float).eps, maxls=50)


def minimise(
    problem: PenalisedLoss, theta: Floats, max_iter: int, tol: float, track: Any
) -> Outcome:
    """L-BFGS on the likelihood of the label sets.

    Parameters
    ----------
    problem : PenalisedLoss
        The loss.
    theta : ndarray of shape (n_classes, n_features + 1)
        Where to begin, centred.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Largest entry of the gradient, per instance, at the end.
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
        next(steps)  # StopIteration ends the search, as scipy documents

    next(steps, None)
    found = _search(problem.loss, theta, max_iter=max_iter, gtol=tol, callback=after)
    return found.x, curve, bool(found.success)


def _em(
    problem: _Problem, theta: Floats, max_iter: int, tol: float, track: Any, gradient_step: bool
) -> Outcome:
    """EM: posterior labels, then a logistic regression on them.

    With `gradient_step` the generalized EM of the paper: the M step is one gradient step on the
    auxiliary function, by backtracking (Eq. 13).
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
    return theta, curve, bool(np.abs(gradient).max() <= tol)


def _backtrack(surrogate: Objective, theta: Floats, gradient: Floats, length: float) -> float:
    """Halve the step until the function falls enough; 0 where rounding is all that is left."""
    before, _ = surrogate(theta)
    square = float(np.sum(gradient**2))
    while surrogate(theta - length * gradient)[0] > before - 0.5 * length * square:
        length *= 0.5
        if length * np.sqrt(square) < 1e-14:
            return 0.0
    return length

r"""Counts of hidden concepts: a bag is positive if it has enough instances of each of them.

Each instance has a hidden label z: background, or one of K concepts, with log-linear probabilities,

    p(z = k | x) = exp(f(x) w_k) / (1 + sum_l exp(f(x) w_l)),

and :math:`\pi = P(N_k \ge t_k \text{ for all } k)` is exact, by a recursion over the counts. With
`dependence` rho > 1 (only t = 1), near copies in a bag count less:
P(N_k >= 1) = 1 - exp(-|rates_k|_rho) with rates -log(1 - p_k); rho = 1 with one concept is the
recursion, rho = inf the best instance. The concepts are then multiplied.

The label of a bag is wrong with probability `WRONG`: P(y = 1) = eps + (1 - 2 eps) pi.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bagwise import loops
from bagwise._common.types import Bools, Floats, Ints
from bagwise.loops.threads import over_bags
from bagwise.solvers.result import SolverResult, lbfgs

WRONG = 0.02  # also keeps the gradient finite; flipped labels (15 %) need no larger value
SHORT = 15  # steps from each start, of which the best one is continued


def concept_probabilities(scores: Floats) -> Floats:
    """Log-probabilities of background and the concepts, of shape (n_instances, n_concepts + 1)."""
    logits = np.column_stack([np.zeros(len(scores)), scores])
    return logits - logsumexp(logits, axis=1, keepdims=True)


def enough_of_each(
    log_p: Floats, offsets: Ints, needed: Sequence[int], dependence: float = 1.0
) -> tuple[Floats, Floats]:
    """Probability that a bag has enough instances of each concept, and its gradient.

    Parameters
    ----------
    log_p : ndarray of shape (n_instances, n_concepts + 1)
        As of `concept_probabilities`.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    needed : sequence of int
        How many instances of each concept.
    dependence : float, default=1.0
        rho; above 1 all of `needed` are 1.

    Returns
    -------
    pi : ndarray of shape (n_bags,)
    slopes : ndarray of shape (n_instances, n_concepts)
        The derivative of the pi of its bag by the logits of each instance.
    """
    if dependence > 1:
        return _dependent(log_p, offsets, dependence)
    p, pi = np.exp(log_p), np.empty(len(offsets) - 1)
    joint = np.empty_like(p)
    over_bags(loops.concept_lattice.at_least, offsets, p, np.array(needed), pi, joint)
    return pi, (joint - p * np.repeat(pi, np.diff(offsets))[:, None])[:, 1:]


def _dependent(log_p: Floats, offsets: Ints, rho: float) -> tuple[Floats, Floats]:
    segments, sizes, K = loops.segments, np.diff(offsets), log_p.shape[1] - 1
    p = np.exp(log_p[:, 1:])
    rest = [logsumexp(np.delete(log_p, k + 1, axis=1), axis=1) for k in range(K)]
    log_none = np.column_stack(rest)  # log(1 - p_k), without cancellation
    rates = np.maximum(-log_none, np.finfo(float).tiny)
    largest = segments.maximum(rates, offsets)
    shares = rates / np.repeat(largest, sizes, axis=0)
    norm = segments.sum(shares**rho, offsets) ** (1 / rho)  # relative to the largest rate
    found = -np.expm1(-largest * norm)  # P(N_k >= 1), of shape (n_bags, K)
    pi = found.prod(axis=1)
    slopes = np.zeros_like(p)
    for k in range(K):
        # d pi / d |rates| of the bag, times d |rates| / d rate_i
        others = np.delete(found, k, axis=1).prod(axis=1) * (1 - found[:, k])
        outer = np.repeat(others / norm[:, k] ** (rho - 1), sizes) * shares[:, k] ** (rho - 1)
        # d rate / d p_k = 1 / (1 - p_k); d p_k / d logit_l = p_k (1{k = l} - p_l)
        outer *= np.exp(np.minimum(log_p[:, k + 1] - log_none[:, k], 700.0))
        slopes -= outer[:, None] * p
        slopes[:, k] += outer
    return pi, slopes


def label_probability(pi: Floats) -> Floats:
    """Probability of a positive label, which is wrong with probability `WRONG`."""
    return WRONG + (1 - 2 * WRONG) * pi


def concept_counts(
    F: Floats,
    offsets: Ints,
    positive: Bools,
    needed: Sequence[int],
    starts: Iterable[Floats],
    *,
    dependence: float = 1.0,
    reg: float,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> SolverResult:
    """Minimise the mean loss of the bags + reg / 2 |W|^2: a few steps per start, then the best one.

    Parameters
    ----------
    F : ndarray of shape (n_instances, n_columns)
        The features, with a constant one.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    needed : sequence of int
        How many instances of each concept a positive bag has.
    starts : iterable of ndarray of shape (n_columns, n_concepts)
        Weights to start from.
    dependence : float, default=1.0
        rho of the module's docstring.
    reg : float
        Penalty of the weights.
    max_iter : int, default=200
        Maximum number of L-BFGS steps of the last run.
    tol : float, default=1e-6
        Relative decrease of the loss at which it ends.

    Returns
    -------
    SolverResult
        ``solution`` is W, of shape (n_columns, n_concepts).
    """
    sizes = np.diff(offsets)

    def loss(W: Floats) -> tuple[float, Floats]:
        log_p = concept_probabilities(F @ W)
        pi, slopes = enough_of_each(log_p, offsets, needed, dependence)
        chance = label_probability(np.where(positive, pi, 1 - pi))  # of the label that was given
        value = -np.log(chance).mean() + reg / 2 * np.vdot(W, W)
        by_pi = (1 - 2 * WRONG) * np.where(positive, -1.0, 1.0) / chance / len(positive)
        return float(value), F.T @ (np.repeat(by_pi, sizes)[:, None] * slopes) + reg * W

    def run(start: Floats, steps: int) -> SolverResult:
        curve: list[float] = []

        def keep(intermediate_result: Any) -> None:
            curve.append(intermediate_result.fun)

        found = lbfgs(loss, start, max_iter=steps, ftol=tol, gtol=1e-6, callback=keep)
        return SolverResult(found.x, curve or [found.fun], found.success)

    short = [run(start, SHORT) for start in starts]
    best = min(short, key=lambda result: result.objective_curve[-1])
    last = run(best.solution, max_iter)
    curve = np.concatenate([best.objective_curve, last.objective_curve])
    return SolverResult(last.solution, curve, last.converged)


def mixture_weights(likelihood: Floats, *, max_iter: int = 2000, tol: float = 1e-9) -> Floats:
    """Weights of a mixture that maximise the likelihood of its observations, by EM.

    Parameters
    ----------
    likelihood : ndarray of shape (n_observations, n_members)
        The likelihood of each observation under each member.
    max_iter : int, default=2000
        Maximum number of iterations.
    tol : float, default=1e-9
        Largest change of a weight at which to stop.

    Returns
    -------
    ndarray of shape (n_members,)
        Non-negative, with the sum 1.
    """
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(max_iter):
        before = weights
        weights = weights * (likelihood / (likelihood @ weights)[:, None]).mean(axis=0)
        if np.abs(weights - before).max() <= tol:
            break
    return weights

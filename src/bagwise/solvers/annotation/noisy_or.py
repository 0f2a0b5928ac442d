"""Noisy-or logistic regression: an instance may have several labels, or none.

    max_W  sum_b weight_b sum_c log P(Y_bc | X_b, W) - reg/2 |W|^2
    P(c in Y_b) = 1 - prod_i (1 - p_ic),   p_ic = 1 / (1 + exp(-(w_c . x_i + b_c)))

Each label is a separate problem; all are solved together, since they need the same products with
the instances. By Fisher's identity the derivative of the loss with respect to the score of an
instance is p_ic minus its posterior: p_ic / P(c in Y) if the bag carries the label, 0 otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.types import Floats, Ints
from bagwise.bags import Bags
from bagwise.compute import place, to_numpy
from bagwise.compute.arrays import linear_gradient, linear_scores
from bagwise.loops.threads import bag_bounds, run_blocks
from bagwise.solvers.annotation.orlr import PenalisedLoss, minimise
from bagwise.solvers.annotation.orlr_parts import LinearPart, blocks_of_bags
from bagwise.solvers.result import SolverResult


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
        Their label sets. Each label is in some set and not in all: there is no maximum otherwise.
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


class NoisyOrPart(LinearPart):
    """Bags with the likelihood of their label sets; on a device only its products are computed."""

    @cached_property
    def _blocks(self) -> list[tuple[slice, slice, Ints, Ints]]:
        """Blocks of bags: their bags and instances, their offsets, and the bags of each thread."""
        n_labels, found = self.indicator.shape[1], []
        for bags, rows in blocks_of_bags(self.bags.offsets, n_labels):
            offsets = self.bags.offsets[bags.start : bags.stop + 1] - rows.start
            found.append((bags, rows, offsets, bag_bounds(offsets, offsets[-1] * n_labels)))
        return found

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Minus the log-likelihood of the label sets, and its gradient in theta = [W b]."""
        value, gradient = 0.0, np.zeros_like(theta)
        for bags, rows, offsets, bounds in self._blocks:
            scores = to_numpy(linear_scores(self.X[rows], theta))
            residual = np.empty_like(scores)
            arguments = offsets, scores, self.indicator[bags] == 1, self.weights[bags], residual
            value += sum(run_blocks(loops.segments.noisy_or_loss, bounds, *arguments))
            gradient += linear_gradient(self.X[rows], residual)
        return value, gradient


NoisyOrPart.tensor_part = NoisyOrPart

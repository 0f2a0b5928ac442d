"""The per-bag updates of the one-sided primal-dual MI-SVM as a Triton kernel.

The same updates as in ``bagwise.loops.one_sided``; a bag and a tile of columns per program.
"""

from __future__ import annotations

from typing import Any

from bagwise.compute.jit import jit, tl
from bagwise.compute.tensors import torch

COLUMNS = 16  # most columns per program
TILE = 1024  # scores per program in registers at once


def update_bags(part: Any, settings: Any) -> Any:
    """Update the state of a part in place; `part.changed` becomes its residual.

    Parameters
    ----------
    part : TritonOneSidedPart
        The part.
    settings : tensor of float64 of shape (2 * n_columns + 3,)
        Factor and shift of each column, C, mu, and the next mu.

    Returns
    -------
    tensor of float64 of shape (4, n_columns)
        Squared gaps, their scale, the hinge and the sum of the residual of each column.
    """
    n_bags, n_columns = part.max_t.shape
    report = part.max_t.new_empty(n_bags, 4, n_columns)
    columns = min(COLUMNS, max(2, 1 << (n_columns - 1).bit_length()))
    bags = part.offsets, part.column_signs, part.weights
    state = part.scores, part.changed, part.theta, part.max_t, part.sigma
    sizes = {"n_columns": n_columns, "ROWS": TILE // columns, "COLUMNS": columns}
    with torch.cuda.device_of(report):
        _update_bags[(n_bags, -(-n_columns // columns))](*bags, settings, *state, report, **sizes)
    return report.sum(dim=0)


@jit
def _update_bags(
    offsets,
    signs,
    weights,
    settings,
    scores,
    changes,
    thetas,
    maxima,
    sigmas,
    report,
    n_columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    bag = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < n_columns
    begin = tl.load(offsets + bag)
    last = tl.load(offsets + bag + 1)
    weight = tl.load(weights + bag)
    factor = tl.load(settings + column, mask=is_column, other=0.0)
    shift = tl.load(settings + n_columns + column, mask=is_column, other=0.0)
    cost = tl.load(settings + 2 * n_columns)
    mu = tl.load(settings + 2 * n_columns + 1)
    next_mu = tl.load(settings + 2 * n_columns + 2)
    at = bag * n_columns + column
    sign = tl.load(signs + at, mask=is_column, other=1.0)
    max_t = tl.load(maxima + at, mask=is_column, other=0.0)
    sigma = tl.load(sigmas + at, mask=is_column, other=0.0)

    # Update the scores; find their maximum, and the first maximum of phi.
    best = tl.full((COLUMNS,), float("-inf"), tl.float64)
    highest = best
    top = tl.full((COLUMNS,), -1, tl.int64)
    for start in range(begin, last, ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & is_column[None, :]
        entry = row * n_columns + column[None, :]
        score = tl.load(scores + entry, mask=inside, other=0.0)
        change = tl.load(changes + entry, mask=inside, other=0.0).to(tl.float64)
        moved = score.to(tl.float64) + factor[None, :] * change + shift[None, :]
        score = moved.to(score.dtype)
        tl.store(scores + entry, score, mask=inside)
        theta = tl.load(thetas + entry, mask=inside, other=0.0).to(tl.float64)
        score = tl.where(inside, score.to(tl.float64), float("-inf"))
        best = tl.maximum(best, tl.max(score, axis=0))
        phi = score - theta / mu
        high = tl.max(phi, axis=0)
        where = tl.min(tl.where(phi == high[None, :], row, last), axis=0)
        top = tl.where(high > highest, where, top)
        highest = tl.maximum(highest, high)
    tl.debug_barrier()  # the scores are read again

    at_rest = max_t - sigma / mu
    reached = tl.minimum(sign * at_rest + cost / mu, 1.0)
    q = tl.where(sign * at_rest >= 1.0, at_rest, sign * reached)
    wanted = q + sigma / mu
    raised = wanted >= highest
    # The mean of `wanted` and all phi of the bag above it, by Newton's method from below.
    level = wanted
    count = tl.full((COLUMNS,), float("inf"), tl.float64)
    n_open = tl.max(tl.where(raised, 0, 1), axis=0)
    while n_open > 0:
        above = tl.zeros((COLUMNS,), tl.float64)
        total = wanted
        for start in range(begin, last, ROWS):
            row = (start + tl.arange(0, ROWS))[:, None]
            inside = (row < last) & is_column[None, :]
            entry = row * n_columns + column[None, :]
            score = tl.load(scores + entry, mask=inside, other=0.0).to(tl.float64)
            theta = tl.load(thetas + entry, mask=inside, other=0.0).to(tl.float64)
            phi = score - theta / mu
            over = inside & (phi > level[None, :])
            above += tl.sum(tl.where(over, 1.0, 0.0).to(tl.float64), axis=0)
            total += tl.sum(tl.where(over, phi, 0.0), axis=0)
        is_open = (above < count) & is_column
        level = tl.where(is_open, total / (above + 1.0), level)
        count = tl.where(is_open, above, count)
        n_open = tl.max(tl.where(is_open, 1, 0), axis=0)
    level = tl.where(raised, (highest + wanted) / 2, level)

    gaps = tl.zeros((COLUMNS,), tl.float64)
    sums = tl.zeros((COLUMNS,), tl.float64)
    for start in range(begin, last, ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & is_column[None, :]
        entry = row * n_columns + column[None, :]
        score = tl.load(scores + entry, mask=inside, other=0.0).to(tl.float64)
        theta = tl.load(thetas + entry, mask=inside, other=0.0).to(tl.float64)
        phi = score - theta / mu
        lifted = raised[None, :] & (row == top[None, :])
        t = tl.where(lifted | (phi > level[None, :]), level[None, :], phi)
        gap = tl.where(inside, t - score, 0.0)
        dual = tl.where(t == phi, 0.0, theta + mu * gap)
        residual = (weight * (gap + dual / next_mu)).to(changes.dtype.element_ty)
        tl.store(thetas + entry, dual.to(thetas.dtype.element_ty), mask=inside)
        tl.store(changes + entry, residual, mask=inside)
        gaps += tl.sum(gap * gap, axis=0)
        sums += tl.sum(tl.where(inside, residual.to(tl.float64), 0.0), axis=0)
    missed = q - level
    tl.store(maxima + at, level, mask=is_column)
    tl.store(sigmas + at, sigma + mu * missed, mask=is_column)
    place = report + bag * 4 * n_columns + column
    hinge = tl.maximum(1.0 - sign * best, 0.0)
    tl.store(place, weight * (gaps + missed * missed), mask=is_column)
    tl.store(place + n_columns, weight * (1.0 + q * q), mask=is_column)
    tl.store(place + 2 * n_columns, weight * hinge, mask=is_column)
    tl.store(place + 3 * n_columns, sums, mask=is_column)

"""The per-bag updates of pdMISVM as Triton kernels: one program per bag, for all classes.

The same updates as in ``bagwise.loops.primal_dual``: one pass over the scores of a bag updates
them and finds the three largest of each class; then the variables per class are updated in
registers, and the residual is written. The order of summation is fixed, so fits are reproducible.
"""

from __future__ import annotations

from typing import Any

from bagwise.compute.jit import jit, tl
from bagwise.compute.tensors import torch

TILE = 1024  # scores per program in registers at once


def tile_of(n_classes: int) -> tuple[int, int]:
    """Rows and columns of the tile of scores that a program processes at once.

    Parameters
    ----------
    n_classes : int
        Number of columns used.

    Returns
    -------
    n_rows, n_columns : int
        Powers of two.
    """
    n_columns = max(2, 1 << (n_classes - 1).bit_length())
    return max(4, TILE // n_columns), n_columns


def moments(offsets: Any, values: Any) -> Any:
    """Sum the values and their squares, for each bag and column.

    Parameters
    ----------
    offsets : tensor of int64 of shape (n_bags + 1,)
        Where each bag begins.
    values : tensor of shape (n_instances, n_columns)
        The values.

    Returns
    -------
    tensor of float64 of shape (2, n_bags, n_columns)
    """
    n_bags, n_columns = len(offsets) - 1, values.shape[1]
    out = values.new_empty((2, n_bags, n_columns), dtype=torch.float64)
    rows, columns = tile_of(n_columns)
    with torch.cuda.device_of(values):
        _moments[(n_bags,)](offsets, values, out, n_bags, n_columns, ROWS=rows, COLUMNS=columns)
    return out


def update_bags(part: Any, settings: Any) -> Any:
    """Update the state of a part in place, and write its residual.

    Parameters
    ----------
    part : TritonPrimalDualPart
        The part.
    settings : tensor of float64 of shape (2 * n_classes + 3,)
        Factor and shift of each class, C, mu, and the next mu.

    Returns
    -------
    tensor of float64 of shape (3 + n_classes,)
        Squared gaps, their scale, the hinge; then the sums of the residual of each class.
    """
    n_bags, n_classes = part.lam.shape
    report = part.lam.new_empty(n_bags, 3 + n_classes)
    rows, columns = tile_of(n_classes)
    bags, scores = (part.offsets, part.codes, part.weights), (part.scores, part.changed)
    sizes = {"n_classes": n_classes, "ROWS": rows, "COLUMNS": columns, "MASK": part.mask}
    with torch.cuda.device_of(report):
        _update_bags[(n_bags,)](
            *bags, settings, *scores, part.places, part.variables, part.residual, report, **sizes
        )
    return report.sum(dim=0)


@jit
def _moments(offsets, values, out, n_bags, n_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    bag = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    is_column = column < n_columns
    last = tl.load(offsets + bag + 1)
    first = tl.zeros((COLUMNS,), tl.float64)
    second = tl.zeros((COLUMNS,), tl.float64)
    for start in range(tl.load(offsets + bag), last, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < last)[:, None] & is_column[None, :]
        at = row[:, None] * n_columns + column[None, :]
        value = tl.load(values + at, mask=inside, other=0.0).to(tl.float64)
        first += tl.sum(value, axis=0)
        second += tl.sum(value * value, axis=0)
    at = bag * n_columns + column
    tl.store(out + at, first, mask=is_column)
    tl.store(out + n_bags * n_columns + at, second, mask=is_column)


@jit
def _insert(value, row, top_0, top_1, top_2, row_0, row_1):
    """Insert the value of a later row into the three largest values and the rows of two."""
    over_0, over_1, over_2 = value > top_0, value > top_1, value > top_2
    top_2 = tl.where(over_1, top_1, tl.where(over_2, value, top_2))
    row_1 = tl.where(over_0, row_0, tl.where(over_1, row, row_1))
    top_1 = tl.where(over_0, top_0, tl.where(over_1, value, top_1))
    row_0 = tl.where(over_0, row, row_0)
    top_0 = tl.where(over_0, value, top_0)
    return top_0, top_1, top_2, row_0, row_1


@jit
def _at(column, own, values):
    """Value in the column of the bag's class."""
    return tl.sum(tl.where(column == own, values, 0.0), axis=0)


@jit
def _slack(n, sign, threshold):
    """Eq. 13; without cost the constraint holds exactly."""
    shrunk = tl.where(sign * n > threshold, n - threshold * sign, 0.0)
    return tl.where((threshold == 0.0) | (sign * n < 0.0), n, shrunk)


@jit
def _fit_copy(
    top_0, top_1, top_2, row_0, row_1, here, place, dual, wanted, multiplier, mu, next_mu, weight
):
    """Update a copy of the scores (T or U, Eq. 19), which differs from them at one instance.

    `here` is the score at `place`. Returns place, dual, maximum, multiplier, squared gaps, and the
    residual at the new and the old place.
    """
    changed = here - dual / mu
    is_first = row_0 == place
    is_second = row_1 == place
    largest = tl.where(is_first, top_1, top_0)
    row = tl.where(is_first, row_1, row_0)
    runner_up = tl.where(is_first | is_second, top_2, top_1)
    stays = (changed > largest) | ((changed == largest) & (place < row)) | (row < 0)
    new = tl.where(stays, place, row)
    first = tl.where(stays, changed, largest)
    second = tl.where(stays, largest, tl.maximum(changed, runner_up))
    target = (first + wanted + multiplier / mu) / 2
    step = target - tl.where(stays, here, largest)
    now = tl.where(stays, dual, 0.0) + mu * step
    at_new = weight * (step + now / next_mu)
    at_old = tl.where(stays, 0.0, -weight * dual / mu)
    highest = tl.maximum(target, second)
    missed = wanted - highest
    gaps = step * step + tl.where(stays, 0.0, (dual / mu) * (dual / mu)) + missed * missed
    return new, now, highest, multiplier + mu * missed, gaps, at_new, at_old


@jit
def _update_bags(
    offsets,
    codes,
    weights,
    settings,
    scores,
    changes,
    places,
    variables,
    residual,
    report,
    n_classes,
    MASK: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    bag = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    is_column = column < n_classes
    begin = tl.load(offsets + bag)
    last = tl.load(offsets + bag + 1)
    own = tl.load(codes + bag)
    weight = tl.load(weights + bag)
    factor = tl.load(settings + column, mask=is_column, other=0.0)
    shift = tl.load(settings + n_classes + column, mask=is_column, other=0.0)
    cost = tl.load(settings + 2 * n_classes)
    mu = tl.load(settings + 2 * n_classes + 1)
    next_mu = tl.load(settings + 2 * n_classes + 2)
    places += bag * 2 * n_classes + column  # of T, of U
    variables += bag * 9 * n_classes + column  # those of T, of U (see `Copy`), and lam
    place_t = tl.load(places, mask=is_column, other=-1)
    place_u = tl.load(places + n_classes, mask=is_column, other=-1)

    # One pass over the scores: update them, find the largest, look up the old places.
    lowest = tl.full((COLUMNS,), float("-inf"), tl.float64)
    nowhere = tl.full((COLUMNS,), -1, tl.int64)
    top_0, top_1, top_2, row_0, row_1 = lowest, lowest, lowest, nowhere, nowhere
    here_t = tl.zeros((COLUMNS,), tl.float64)
    here_u = tl.zeros((COLUMNS,), tl.float64)
    for start in range(begin, last, ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & is_column[None, :]
        entry = row * n_classes + column[None, :]
        score = tl.load(scores + entry, mask=inside, other=0.0)
        change = tl.load(changes + entry, mask=inside, other=0.0)
        moved = score.to(tl.float64) + factor[None, :] * change.to(tl.float64) + shift[None, :]
        score = moved.to(score.dtype)
        tl.store(scores + entry, score, mask=inside)
        value = score.to(tl.float64)
        here_t += tl.sum(tl.where(row == place_t[None, :], value, 0.0), axis=0)
        of_own = tl.sum(tl.where(column[None, :] == own, value, 0.0), axis=1)[:, None]
        here_u += tl.sum(tl.where(row == place_u[None, :], of_own, 0.0), axis=0)
        value = tl.where(inside, value, float("-inf"))
        for _ in tl.static_range(3):
            best = tl.max(value, axis=0)
            where = tl.min(tl.where(value == best[None, :], row, last), axis=0)
            top_0, top_1, top_2, row_0, row_1 = _insert(
                best, where, top_0, top_1, top_2, row_0, row_1
            )
            value = tl.where(row == where[None, :], float("-inf"), value)

    # The variables of each class.
    theta = tl.load(variables, mask=is_column, other=0.0)
    max_t = tl.load(variables + n_classes, mask=is_column, other=0.0)
    q = tl.load(variables + 2 * n_classes, mask=is_column, other=0.0)
    sigma = tl.load(variables + 3 * n_classes, mask=is_column, other=0.0)
    xi = tl.load(variables + 4 * n_classes, mask=is_column, other=0.0)
    max_u = tl.load(variables + 5 * n_classes, mask=is_column, other=0.0)
    r = tl.load(variables + 6 * n_classes, mask=is_column, other=0.0)
    omega = tl.load(variables + 7 * n_classes, mask=is_column, other=0.0)
    lam = tl.load(variables + 8 * n_classes, mask=is_column, other=0.0)
    is_own = column == own
    sign = tl.where(is_own, 1.0, -1.0).to(tl.float64)
    threshold = cost / mu + tl.zeros((COLUMNS,), tl.float64)
    if MASK:
        threshold = tl.where(is_own, 0.0, threshold)
    e = _slack(sign - q + r - lam / mu, sign, threshold)
    fixed = sign - e - lam / mu
    q = (fixed + r + max_t - sigma / mu) / 2  # Eq. 15
    r = (q - fixed + max_u - omega / mu) / 2  # Eq. 16
    gap = e - (sign - q + r)
    gaps = gap * gap
    tl.store(variables + 2 * n_classes, q, mask=is_column)
    tl.store(variables + 6 * n_classes, r, mask=is_column)
    tl.store(variables + 8 * n_classes, lam + mu * gap, mask=is_column)

    new_t, theta, max_t, sigma, apart, at_new_t, at_old_t = _fit_copy(
        top_0, top_1, top_2, row_0, row_1, here_t, place_t, theta, q, sigma, mu, next_mu, weight
    )
    gaps += apart
    tl.store(places, new_t, mask=is_column)
    tl.store(variables, theta, mask=is_column)
    tl.store(variables + n_classes, max_t, mask=is_column)
    tl.store(variables + 3 * n_classes, sigma, mask=is_column)
    # U, Eq. 20: the same for the scores of the bag's class
    own_0, own_1, own_2 = _at(column, own, top_0), _at(column, own, top_1), _at(column, own, top_2)
    at_0 = tl.sum(tl.where(is_own, row_0, 0), axis=0)
    at_1 = tl.sum(tl.where(is_own, row_1, 0), axis=0)
    new_u, xi, max_u, omega, apart, at_new_u, at_old_u = _fit_copy(
        own_0, own_1, own_2, at_0, at_1, here_u, place_u, xi, r, omega, mu, next_mu, weight
    )
    gaps += apart
    tl.store(places + n_classes, new_u, mask=is_column)
    tl.store(variables + 4 * n_classes, xi, mask=is_column)
    tl.store(variables + 5 * n_classes, max_u, mask=is_column)
    tl.store(variables + 7 * n_classes, omega, mask=is_column)
    at_new_u = tl.where(is_column, at_new_u, 0.0)
    at_old_u = tl.where(is_column, at_old_u, 0.0)
    sums = at_new_t + at_old_t + tl.where(is_own, tl.sum(at_new_u + at_old_u, axis=0), 0.0)
    for start in range(begin, last, ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & is_column[None, :]
        value = tl.where(row == new_t[None, :], at_new_t[None, :], 0.0)
        value += tl.where(row == place_t[None, :], at_old_t[None, :], 0.0)
        of_u = tl.where(row == new_u[None, :], at_new_u[None, :], 0.0)
        of_u += tl.where(row == place_u[None, :], at_old_u[None, :], 0.0)
        of_u = tl.sum(of_u, axis=1)[:, None]
        value += tl.where(is_own[None, :], of_u, 0.0)
        entry = row * n_classes + column[None, :]
        tl.store(residual + entry, value.to(residual.dtype.element_ty), mask=inside)

    best_own = _at(column, own, top_0)
    hinge = tl.where(is_own, 0.0, tl.maximum(1.0 + top_0 - best_own, 0.0))
    place = bag * (3 + n_classes)
    tl.store(report + place, weight * tl.sum(tl.where(is_column, gaps, 0.0), axis=0))
    tl.store(report + place + 1, weight * tl.sum(tl.where(is_column, 1.0 + q * q, 0.0), axis=0))
    tl.store(report + place + 2, weight * tl.sum(tl.where(is_column, hinge, 0.0), axis=0))
    tl.store(report + place + 3 + column, sums, mask=is_column)

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
    n_bags, n_classes = part.q.shape
    report = part.q.new_empty(n_bags, 3 + n_classes)
    rows, columns = tile_of(n_classes)
    with torch.cuda.device_of(report):
        _update_bags[(n_bags,)](
            part.offsets, part.codes, part.weights, settings, part.scores, part.changed,
            part.place_t, part.theta, part.max_t, part.place_u, part.xi, part.max_u,
            part.q, part.r, part.lam, part.sigma, part.omega, part.residual, report, n_classes,
            SHARED=part.problem.shared, MASK=part.mask, ROWS=rows, COLUMNS=columns,
        )  # fmt: skip
    return report.sum(dim=0)


@jit
def _moments(  # type: ignore[no-untyped-def]
    offsets, values, out, n_bags, n_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
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
def _insert(value, row, top_0, top_1, top_2, row_0, row_1):  # type: ignore[no-untyped-def]
    """Insert the value of a later row into the three largest values and the rows of two."""
    over_0, over_1, over_2 = value > top_0, value > top_1, value > top_2
    top_2 = tl.where(over_1, top_1, tl.where(over_2, value, top_2))
    row_1 = tl.where(over_0, row_0, tl.where(over_1, row, row_1))
    top_1 = tl.where(over_0, top_0, tl.where(over_1, value, top_1))
    row_0 = tl.where(over_0, row, row_0)
    top_0 = tl.where(over_0, value, top_0)
    return top_0, top_1, top_2, row_0, row_1


@jit
def _at(column, own, values):  # type: ignore[no-untyped-def]
    """Value in the column of the bag's class."""
    return tl.sum(tl.where(column == own, values, 0.0), axis=0)


@jit
def _slack(n, sign, threshold):  # type: ignore[no-untyped-def]
    """Eq. 13; without cost the constraint holds exactly."""
    shrunk = tl.where(sign * n > threshold, n - threshold * sign, 0.0)
    return tl.where((threshold == 0.0) | (sign * n < 0.0), n, shrunk)


@jit
def _fit_copy(  # type: ignore[no-untyped-def]
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
def _update_bags(  # type: ignore[no-untyped-def]
    offsets, codes, weights, settings, scores, changes, places_t, thetas, maxima_t,
    places_u, xis, maxima_u, qs, rs, lams, sigmas, omegas, residual, report, n_classes,
    SHARED: tl.constexpr, MASK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
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
    at = bag * n_classes + column
    place_t = tl.load(places_t + at, mask=is_column, other=-1)
    place_u = tl.load(places_u + at, mask=is_column, other=-1)

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
        if not SHARED:
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
    q = tl.load(qs + at, mask=is_column, other=0.0)
    r = tl.load(rs + at, mask=is_column, other=0.0)
    lam = tl.load(lams + at, mask=is_column, other=0.0)
    theta = tl.load(thetas + at, mask=is_column, other=0.0)
    sigma = tl.load(sigmas + at, mask=is_column, other=0.0)
    max_t = tl.load(maxima_t + at, mask=is_column, other=0.0)
    is_own = column == own
    if SHARED:
        nu = 2.0 * mu / n_classes
        through = nu / (mu + nu)
        minus = tl.full((COLUMNS,), -1.0, tl.float64)
        threshold = cost / nu + tl.zeros((COLUMNS,), tl.float64)
        e = _slack(minus - q + _at(column, own, q) - lam / nu, minus, threshold)
        target = e + 1.0 + lam / nu
        alone = max_t - sigma / mu
        coupled = tl.where(is_own | (column >= n_classes), 0.0, target + alone)
        z_own = _at(column, own, alone) + through * tl.sum(coupled, axis=0)
        z_own = z_own / (1.0 + (n_classes - 1) * through)
        q = tl.where(is_own, z_own, alone + through * (z_own - target - alone))
        gap = tl.where(is_own, 0.0, e - (minus - q + z_own))
        lam += nu * gap
    else:
        omega = tl.load(omegas + at, mask=is_column, other=0.0)
        max_u = tl.load(maxima_u + at, mask=is_column, other=0.0)
        sign = tl.where(is_own, 1.0, -1.0).to(tl.float64)
        threshold = cost / mu + tl.zeros((COLUMNS,), tl.float64)
        if MASK:
            threshold = tl.where(is_own, 0.0, threshold)
        e = _slack(sign - q + r - lam / mu, sign, threshold)
        fixed = sign - e - lam / mu
        q = (fixed + r + max_t - sigma / mu) / 2  # Eq. 15
        r = (q - fixed + max_u - omega / mu) / 2  # Eq. 16
        gap = e - (sign - q + r)
        lam += mu * gap
        tl.store(rs + at, r, mask=is_column)
    gaps = gap * gap
    tl.store(qs + at, q, mask=is_column)
    tl.store(lams + at, lam, mask=is_column)

    new_t, theta, max_t, sigma, apart, at_new_t, at_old_t = _fit_copy(
        top_0, top_1, top_2, row_0, row_1, here_t, place_t, theta, q, sigma, mu, next_mu, weight
    )
    gaps += apart
    tl.store(places_t + at, new_t, mask=is_column)
    tl.store(thetas + at, theta, mask=is_column)
    tl.store(maxima_t + at, max_t, mask=is_column)
    tl.store(sigmas + at, sigma, mask=is_column)
    sums = at_new_t + at_old_t
    if not SHARED:  # U, Eq. 20: the same for the scores of the bag's class
        xi = tl.load(xis + at, mask=is_column, other=0.0)
        new_u, xi, max_u, omega, apart, at_new_u, at_old_u = _fit_copy(
            _at(column, own, top_0), _at(column, own, top_1), _at(column, own, top_2),
            tl.sum(tl.where(is_own, row_0, 0), axis=0), tl.sum(tl.where(is_own, row_1, 0), axis=0),
            here_u, place_u, xi, r, omega, mu, next_mu, weight,
        )  # fmt: skip
        gaps += apart
        tl.store(places_u + at, new_u, mask=is_column)
        tl.store(xis + at, xi, mask=is_column)
        tl.store(maxima_u + at, max_u, mask=is_column)
        tl.store(omegas + at, omega, mask=is_column)
        at_new_u = tl.where(is_column, at_new_u, 0.0)
        at_old_u = tl.where(is_column, at_old_u, 0.0)
        sums += tl.where(is_own, tl.sum(at_new_u + at_old_u, axis=0), 0.0)
    for start in range(begin, last, ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & is_column[None, :]
        value = tl.where(row == new_t[None, :], at_new_t[None, :], 0.0)
        value += tl.where(row == place_t[None, :], at_old_t[None, :], 0.0)
        if not SHARED:
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

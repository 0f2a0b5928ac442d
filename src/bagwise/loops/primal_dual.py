"""The per-bag updates of pdMISVM (Brand 2021, Algorithm 1, lines 9 to 16) on collapsed state.

The copies T and U of the scores differ from the scores in one instance per bag and class, and so
do their multipliers. So each (bag, class) stores one index and one number instead of a column.
"""

import numpy as np

from bagwise.loops.compilation import compiled

_compiled = compiled()
# Short functions of many arrays, for which a call would cost as much as their work.
_inlined = compiled(inline="always")


@_compiled
def moments(start, stop, offsets, values, codes, weights, extra, first, second):  # type: ignore[no-untyped-def]
    """Weighted sums of `values` and their squares, per bag and class.

    An instance has the weight ``weights[bag]``, times ``1 + extra`` in the class of its bag, whose
    fit includes `extra` more copies of the scores.
    """
    for bag in range(start, stop):
        for m in range(values.shape[1]):
            first[bag, m] = second[bag, m] = 0.0
        for i in range(offsets[bag], offsets[bag + 1]):
            for m in range(values.shape[1]):
                first[bag, m] += values[i, m]
                second[bag, m] += values[i, m] * values[i, m]
        for m in range(values.shape[1]):
            times = weights[bag] * (1.0 + extra if codes[bag] == m else 1.0)
            first[bag, m] *= times
            second[bag, m] *= times


@_compiled
def update_bags(  # type: ignore[no-untyped-def]
    start, stop, offsets, scores, change, factor, shift, codes, weights,
    cost, mu, next_mu, shared, mask,
    place_t, theta, max_t, place_u, xi, max_u, q, r, lam, sigma, omega,
    class_start, rank, entry_instances, entry_values, report,
):  # fmt: skip
    """Update the scores, then E, Q, R, T, U and the multipliers of each bag.

    `scores` becomes ``scores + factor * change + shift``. `entry_instances` and `entry_values`
    receive the non-zeros of T - S + Theta/mu (and the same for U), the target of the next fit of W.
    `report` receives, per bag: squared gaps of the constraints, their scale, the hinge loss.
    """
    n_classes = scores.shape[1]
    n_bags = len(offsets) - 1
    top = np.empty((3, n_classes))
    row = np.empty((3, n_classes), np.int64)
    for bag in range(start, stop):
        _refresh(offsets[bag], offsets[bag + 1], scores, factor, change, shift, top, row)
        y, weight = codes[bag], weights[bag]
        gaps = scale = hinge = 0.0
        if shared:
            gaps += _share(bag, y, n_classes, cost, mu, q, r, lam, sigma, max_t)
        for m in range(n_classes):
            if not shared:
                sign = 1.0 if m == y else -1.0
                threshold = 0.0 if mask and m == y else cost / mu
                gaps += _margin(bag, m, sign, threshold, mu, q, r, lam, max_t, sigma, max_u, omega)
            gaps += _fit_copy(  # T, Eq. 19
                bag, m, m, class_start[m] + 2 * bag, scores, top, row, mu, next_mu, weight,
                place_t, theta, max_t, q, sigma, entry_instances, entry_values,
            )  # fmt: skip
            scale += 1.0 + q[bag, m] * q[bag, m]
            if m != y:
                hinge += max(0.0, 1.0 + top[0, m] - top[0, y])
            if not shared:
                at = class_start[y] + 2 * n_bags + 2 * (rank[bag] * n_classes + m)
                gaps += _fit_copy(  # U, Eq. 20, on the scores of the own class
                    bag, m, y, at, scores, top, row, mu, next_mu, weight,
                    place_u, xi, max_u, r, omega, entry_instances, entry_values,
                )  # fmt: skip
        report[bag, 0], report[bag, 1] = weight * gaps, weight * scale
        report[bag, 2] = weight * hinge


@_compiled
def project(  # type: ignore[no-untyped-def]
    start, stop, X, first_row, codes, class_start, rank, entry_instances, entry_values, shared, out
):
    """Add X' times the entries of the bags start:stop to `out` (classes x features).

    X starts with the instance `first_row` and includes all instances of these bags.
    The loop is bag by bag, so that a row of X is read from memory once for all classes. The entries
    of U, which are mostly at one instance, are summed first.
    """
    n_classes, n_bags = out.shape[0], len(codes)
    joined_row, joined_value = np.empty(2 * n_classes, np.int64), np.empty(2 * n_classes)
    for bag in range(start, stop):
        for m in range(n_classes):
            for at in range(class_start[m] + 2 * bag, class_start[m] + 2 * bag + 2):
                _add_row(X, entry_instances[at] - first_row, entry_values[at], out, m)
        if shared:
            continue
        first = class_start[codes[bag]] + 2 * n_bags + 2 * rank[bag] * n_classes
        n_joined = 0
        for at in range(first, first + 2 * n_classes):
            for e in range(n_joined + 1):
                if e == n_joined:
                    joined_row[e], joined_value[e] = entry_instances[at], 0.0
                    n_joined += 1
                if joined_row[e] == entry_instances[at]:
                    joined_value[e] += entry_values[at]
                    break
        for e in range(n_joined):
            _add_row(X, joined_row[e] - first_row, joined_value[e], out, codes[bag])


@_compiled
def _add_row(X, i, value, out, m):  # type: ignore[no-untyped-def]
    if value != 0.0:
        times = X.dtype.type(value)
        for k in range(X.shape[1]):
            out[m, k] += times * X[i, k]


@_inlined
def _refresh(first, last, scores, factor, change, shift, top, row):  # type: ignore[no-untyped-def]
    """Update the scores of a bag, and find the three largest of each class."""
    top[:] = -np.inf
    row[:] = -1
    for i in range(first, last):
        for m in range(scores.shape[1]):
            value = scores[i, m] + factor[m] * change[i, m] + shift[m]
            scores[i, m] = value
            if value > top[2, m]:
                _insert(top, row, m, value, i)


@_compiled
def _insert(top, row, m, value, i):  # type: ignore[no-untyped-def]
    if value > top[0, m]:
        top[2, m], row[2, m] = top[1, m], row[1, m]
        top[1, m], row[1, m] = top[0, m], row[0, m]
        top[0, m], row[0, m] = value, i
    elif value > top[1, m]:
        top[2, m], row[2, m] = top[1, m], row[1, m]
        top[1, m], row[1, m] = value, i
    else:
        top[2, m], row[2, m] = value, i


@_compiled
def _two_largest(top, row, m, changed, value):  # type: ignore[no-untyped-def]
    """Row and value of the largest entry of a column with one entry changed, and the second one."""
    a = 1 if row[0, m] == changed else 0
    b = a + 1
    if row[b, m] == changed:
        b += 1
    largest, runner_up = top[a, m], top[b, m]
    if value > largest or (value == largest and changed < row[a, m]) or row[a, m] < 0:
        return changed, value, largest
    return row[a, m], largest, max(value, runner_up)


@_compiled
def _slack(n, sign, threshold):  # type: ignore[no-untyped-def]
    """E by Eq. 13; with zero cost the constraint is met exactly."""
    if threshold == 0.0 or sign * n < 0.0:
        return n
    return n - threshold * sign if sign * n > threshold else 0.0


@_inlined
def _margin(bag, m, sign, threshold, mu, q, r, lam, max_t, sigma, max_u, omega):  # type: ignore[no-untyped-def]
    """Update E, Q, R and their multiplier (Eqs. 13 to 16); return the squared gap."""
    e = _slack(sign - q[bag, m] + r[bag, m] - lam[bag, m] / mu, sign, threshold)
    fixed = sign - e - lam[bag, m] / mu
    q[bag, m] = (fixed + r[bag, m] + max_t[bag, m] - sigma[bag, m] / mu) / 2  # Eq. 15
    r[bag, m] = (q[bag, m] - fixed + max_u[bag, m] - omega[bag, m] / mu) / 2  # Eq. 16
    gap = e - (sign - q[bag, m] + r[bag, m])
    lam[bag, m] += mu * gap
    return gap * gap


@_inlined
def _fit_copy(  # type: ignore[no-untyped-def]
    bag, m, column, at, scores, top, row, mu, next_mu, weight,
    place, dual, highest, wanted, multiplier, entry_instances, entry_values,
):  # fmt: skip
    """Update the copy of the scores of a bag: near the scores, with its maximum near `wanted`.

    The copy differs from the scores at one instance, its `place`. Returns the squared gaps.
    """
    old, before = place[bag, m], dual[bag, m]
    new, first, second = _two_largest(top, row, column, old, scores[old, column] - before / mu)
    target = (first + wanted[bag, m] + multiplier[bag, m] / mu) / 2
    step = target - scores[new, column]
    place[bag, m] = new
    dual[bag, m] = (before if new == old else 0.0) + mu * step
    highest[bag, m] = max(target, second)
    gap = wanted[bag, m] - highest[bag, m]
    multiplier[bag, m] += mu * gap
    apart = _move(at, old, new, before, step, mu, next_mu, weight, entry_instances, entry_values)
    return apart + gap * gap


@_inlined
def _move(at, old, new, dual, step, mu, next_mu, weight, entry_instances, entry_values):  # type: ignore[no-untyped-def]
    """Write the non-zeros of copy - scores + dual/mu; return the squared gap copy - scores."""
    moved = new != old
    now = (0.0 if moved else dual) + mu * step
    entry_instances[at], entry_values[at] = new, weight * (step + now / next_mu)
    entry_instances[at + 1], entry_values[at + 1] = old, -weight * dual / mu if moved else 0.0
    return step * step + (dual / mu) ** 2 * moved


@_compiled
def _share(bag, y, n_classes, cost, mu, q, r, lam, sigma, max_t):  # type: ignore[no-untyped-def]
    """Update E, Z and their multiplier, shared splitting: e_m = -1 - z_m + z_y for m != y.

    K - 1 of these constraints contain z_y, but only one ties z_y to the scores. With equal
    penalties the scores would hardly move z_y, so the penalty of the former is nu = 2 mu / K. The
    quadratic in z is an arrowhead: solve for z_y first, then for each z_m. `r` stores e. Returns
    the squared gap.
    """
    nu = 2.0 * mu / n_classes
    through = nu / (mu + nu)  # weight of e_m in the equation of z_y once z_m is eliminated, over mu
    total = max_t[bag, y] - sigma[bag, y] / mu
    for m in range(n_classes):
        if m != y:
            r[bag, m] = _slack(-1.0 - q[bag, m] + q[bag, y] - lam[bag, m] / nu, -1.0, cost / nu)
            target = r[bag, m] + 1.0 + lam[bag, m] / nu
            total += through * (target + max_t[bag, m] - sigma[bag, m] / mu)
    q[bag, y] = total / (1.0 + (n_classes - 1) * through)
    gaps = 0.0
    for m in range(n_classes):
        if m != y:
            target = r[bag, m] + 1.0 + lam[bag, m] / nu
            alone = max_t[bag, m] - sigma[bag, m] / mu
            q[bag, m] = alone + through * (q[bag, y] - target - alone)
            gap = r[bag, m] - (-1.0 - q[bag, m] + q[bag, y])
            lam[bag, m] += nu * gap
            gaps += gap * gap
    return gaps

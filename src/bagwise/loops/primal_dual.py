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
def update_bags(
    start, stop, offsets, codes, weights, mask, settings, scores, change, t, u, lam, entries, report
):
    """Update the scores, then E, Q, R, T, U and the multipliers of each bag.

    `t` and `u` are the two `Copy`, `entries` receives the target of the next fit of W. `report`
    receives, per bag: squared gaps of the constraints, their scale, the hinge loss.
    """
    n_bags, n_classes = lam.shape
    top, row = np.empty((3, n_classes)), np.empty((3, n_classes), np.int64)
    for bag in range(start, stop):
        _refresh(offsets[bag], offsets[bag + 1], scores, change, settings, top, row)
        y, weight = codes[bag], weights[bag]
        first = entries.starts[y] + 2 * (n_bags + entries.ranks[bag] * n_classes)
        gaps = scale = hinge = 0.0
        for m in range(n_classes):
            sign = 1.0 if m == y else -1.0
            threshold = 0.0 if mask and m == y else settings.cost / settings.mu
            gaps += _margin(bag, m, sign, threshold, settings.mu, t, u, lam)
            at = entries.starts[m] + 2 * bag
            gaps += _fit_copy(bag, m, m, at, weight, scores, top, row, settings, t, entries)
            scale += 1.0 + t.wanted[bag, m] * t.wanted[bag, m]
            if m != y:
                hinge += max(0.0, 1.0 + top[0, m] - top[0, y])
            at = first + 2 * m  # U: the same on the scores of the own class, Eq. 20
            gaps += _fit_copy(bag, m, y, at, weight, scores, top, row, settings, u, entries)
        report[bag, 0], report[bag, 1] = weight * gaps, weight * scale
        report[bag, 2] = weight * hinge


@_compiled
def project(start, stop, X, first_row, codes, entries, out):
    """Add X' times the entries of the bags start:stop to `out` (classes x features).

    X starts with the instance `first_row` and includes all instances of these bags.
    The loop is bag by bag, so that a row of X is read from memory once for all classes. The entries
    of U, which are mostly at one instance, are summed first.
    """
    n_classes, n_bags = out.shape[0], len(codes)
    for bag in range(start, stop):
        for m in range(n_classes):
            for at in range(entries.starts[m] + 2 * bag, entries.starts[m] + 2 * bag + 2):
                _add_row(X, entries.instances[at] - first_row, entries.values[at], out, m)
        y = codes[bag]
        first = entries.starts[y] + 2 * (n_bags + entries.ranks[bag] * n_classes)
        here, total = entries.instances[first], 0.0
        for at in range(first, first + 2 * n_classes):
            if entries.values[at] != 0.0:
                if entries.instances[at] != here:
                    _add_row(X, here - first_row, total, out, y)
                    here, total = entries.instances[at], 0.0
                total += entries.values[at]
        _add_row(X, here - first_row, total, out, y)


@_compiled
def _add_row(X, i, value, out, m):
    if value != 0.0:
        times = X.dtype.type(value)
        for k in range(X.shape[1]):
            out[m, k] += times * X[i, k]


@_inlined
def _refresh(first, last, scores, change, settings, top, row):
    """Update the scores of a bag, and find the three largest of each class."""
    top[:] = -np.inf
    row[:] = -1
    for i in range(first, last):
        for m in range(scores.shape[1]):
            value = scores[i, m] + settings.factor[m] * change[i, m] + settings.shift[m]
            scores[i, m] = value
            if value > top[2, m]:
                _insert(top, row, m, value, i)


@_compiled
def _insert(top, row, m, value, i):
    """Insert a value above the third largest into the three largest."""
    at = 2
    while at > 0 and value > top[at - 1, m]:
        top[at, m], row[at, m] = top[at - 1, m], row[at - 1, m]
        at -= 1
    top[at, m], row[at, m] = value, i


@_compiled
def _two_largest(top, row, m, changed, value):
    """Row and value of the largest entry of a column with one entry changed, and the second one."""
    a = 1 if row[0, m] == changed else 0
    b = a + 1
    if row[b, m] == changed:
        b += 1
    largest, runner_up = top[a, m], top[b, m]
    if value > largest or (value == largest and changed < row[a, m]) or row[a, m] < 0:
        return changed, value, largest
    return row[a, m], largest, max(value, runner_up)


@_inlined
def _margin(bag, m, sign, threshold, mu, t, u, lam):
    """Update E, Q, R and their multiplier (Eqs. 13 to 16); return the squared gap."""
    e = sign - t.wanted[bag, m] + u.wanted[bag, m] - lam[bag, m] / mu
    if threshold > 0.0 and sign * e >= 0.0:  # without cost the constraint is met exactly
        e = e - threshold * sign if sign * e > threshold else 0.0
    fixed = sign - e - lam[bag, m] / mu
    q = (fixed + u.wanted[bag, m] + t.highest[bag, m] - t.multiplier[bag, m] / mu) / 2  # Eq. 15
    r = (q - fixed + u.highest[bag, m] - u.multiplier[bag, m] / mu) / 2  # Eq. 16
    t.wanted[bag, m], u.wanted[bag, m] = q, r
    gap = e - (sign - q + r)
    lam[bag, m] += mu * gap
    return gap * gap


@_inlined
def _fit_copy(bag, m, column, at, weight, scores, top, row, settings, copy, entries):
    """Update a copy of the scores: near the scores, with its maximum near the one wanted (Eq. 19).

    Writes the non-zeros of copy - scores + dual/mu at the position `at` of the entries. Returns the
    squared gaps.
    """
    mu, old, before = settings.mu, copy.place[bag, m], copy.dual[bag, m]
    new, first, second = _two_largest(top, row, column, old, scores[old, column] - before / mu)
    target = (first + copy.wanted[bag, m] + copy.multiplier[bag, m] / mu) / 2
    step, moved = target - scores[new, column], new != old
    dual = (0.0 if moved else before) + mu * step
    highest = max(target, second)
    gap = copy.wanted[bag, m] - highest
    copy.place[bag, m], copy.dual[bag, m], copy.highest[bag, m] = new, dual, highest
    copy.multiplier[bag, m] += mu * gap
    entries.instances[at], entries.values[at] = new, weight * (step + dual / settings.next_mu)
    entries.instances[at + 1] = old
    entries.values[at + 1] = -weight * before / mu if moved else 0.0
    return step * step + (before / mu) ** 2 * moved + gap * gap

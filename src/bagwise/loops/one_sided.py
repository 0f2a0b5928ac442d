"""The per-bag updates of the one-sided primal-dual MI-SVM: margins, copies of the scores, duals."""

import numpy as np

from bagwise.loops.compilation import compiled

_compiled = compiled()
ROWS = 256  # rows of a block of `project`


@_compiled
def update_bags(
    start, stop, offsets, signs, weights, settings, scores, change, theta, max_t, sigma, report
):
    """Update the scores, then q, t and the multipliers of each bag.

    `change` receives the weighted t - s + theta/mu, the target of the next fit of w: zero except
    where t differs from the scores, or did before. `report` receives, per bag: squared gaps of the
    constraints, their scale, the hinge loss.
    """
    factor, shift, cost, mu, next_mu = settings
    largest = 0
    for bag in range(start, stop):
        largest = max(largest, offsets[bag + 1] - offsets[bag])
    phi = np.empty(largest)
    for bag in range(start, stop):
        first, size = offsets[bag], offsets[bag + 1] - offsets[bag]
        gaps = scale = hinge = 0.0
        for m in range(scores.shape[1]):
            best = highest = -np.inf
            row = 0
            for j in range(size):
                i = first + j
                score = scores[i, m] + factor[m] * change[i, m] + shift[m]
                scores[i, m] = score
                best = max(best, score)
                phi[j] = score - theta[i, m] / mu
                if phi[j] > highest:
                    highest, row = phi[j], j
            sign = signs[bag, m]
            q = near_margin(max_t[bag, m] - sigma[bag, m] / mu, sign, cost / mu)
            wanted = q + sigma[bag, m] / mu
            if wanted >= highest:
                level = 0.5 * (highest + wanted)
            else:
                level = clip_level(phi[:size], wanted)
            for j in range(size):
                i = first + j
                t = phi[j]
                if (wanted >= highest and j == row) or t > level:
                    t = level
                gap = t - scores[i, m]
                # If t = phi, the new multiplier is 0; this avoids rounding.
                dual = 0.0 if t == phi[j] else theta[i, m] + mu * gap
                theta[i, m] = dual
                change[i, m] = weights[bag] * (gap + dual / next_mu)
                gaps += gap * gap
            gap = q - level
            max_t[bag, m] = level
            sigma[bag, m] += mu * gap
            gaps += gap * gap
            scale += 1.0 + q * q
            hinge += max(0.0, 1.0 - sign * best)
        report[bag, 0], report[bag, 1] = weights[bag] * gaps, weights[bag] * scale
        report[bag, 2] = weights[bag] * hinge


@_compiled
def project(start, stop, X, residual, out):
    """Add residual' X of the rows start:stop to `out`; most of the residual is zero.

    Blocks of rows stay in the cache for all columns of the residual. Four rows are added at a time,
    so that `out` is read and written a quarter as often.
    """
    rows = np.empty(ROWS, np.int64)
    for first in range(start, stop, ROWS):
        last = min(first + ROWS, stop)
        for m in range(residual.shape[1]):
            n, total = 0, out[m]
            for i in range(first, last):
                rows[n] = i
                n += residual[i, m] != 0.0
            for e in range(0, n - n % 4, 4):
                a, b, c, d = X[rows[e]], X[rows[e + 1]], X[rows[e + 2]], X[rows[e + 3]]
                r_a, r_b = residual[rows[e], m], residual[rows[e + 1], m]
                r_c, r_d = residual[rows[e + 2], m], residual[rows[e + 3], m]
                for k in range(X.shape[1]):
                    total[k] += (r_a * a[k] + r_b * b[k]) + (r_c * c[k] + r_d * d[k])
            for e in range(n - n % 4, n):
                a, r_a = X[rows[e]], residual[rows[e], m]
                for k in range(X.shape[1]):
                    total[k] += r_a * a[k]


@_compiled
def near_margin(value, sign, threshold):
    """The q that minimises ``threshold * (1 - sign * q)_+ + (q - value)^2 / 2``."""
    margin = sign * value
    if margin >= 1.0:
        return value
    return sign * min(1.0, margin + threshold)


@_compiled
def clip_level(phi, wanted):
    """The level tau < max phi that minimises |min(phi, tau) - phi|^2 + (wanted - tau)^2.

    It is the mean of `wanted` and all phi above it. Newton's method: from below the solution, the
    level rises in each step, and the number of phi above it decreases until it is constant.
    """
    level, count = wanted, len(phi) + 1
    while True:
        total, above = wanted, 0
        for value in phi:
            if value > level:
                total += value
                above += 1
        if above >= count:
            return level
        level, count = total / (above + 1), above

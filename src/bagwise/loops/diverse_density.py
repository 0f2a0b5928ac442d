"""Diverse density: the noisy-or likelihood of a point concept, and descent from many starts.

A concept is ``z = (t, s)``: the point t and the square roots s of the feature weights. An instance
x is positive with probability ``exp(-d)``, ``d = sum_k s_k^2 (x_k - t_k)^2``; a bag with
probability ``1 - prod_j (1 - exp(-d_j))``. With one selected instance per bag, this is the M-step
of EM-DD.
"""

import numpy as np

from bagwise._common.types import Bools, Floats, Ints
from bagwise.loops.arguments import read_only
from bagwise.loops.compilation import compiled

# An instance at the concept itself is positive with probability 1 - 1e-8, not 1: if a negative bag
# contains a copy of it, the likelihood should be small, not zero.
NEAREST = 1e-8
MEMORY = 8  # pairs kept by L-BFGS

# Neither BLAS nor reordered sums: a search from many starts amplifies rounding errors, and would
# reach another optimum on another processor. Sums use four accumulators in a fixed order instead.
_compiled = compiled()


@_compiled
def _dot(a, b):
    """Dot product of two vectors."""
    n = len(a) - len(a) % 4
    s0 = s1 = s2 = s3 = 0.0
    for k in range(0, n, 4):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
    for k in range(n, len(a)):
        s0 += a[k] * b[k]
    return (s0 + s1) + (s2 + s3)


@_compiled
def _distance(x, t, weight):
    """Weighted squared distance between x and t."""
    n = len(t) - len(t) % 4
    s0 = s1 = s2 = s3 = 0.0
    for k in range(0, n, 4):
        d0, d1, d2, d3 = x[k] - t[k], x[k + 1] - t[k + 1], x[k + 2] - t[k + 2], x[k + 3] - t[k + 3]
        s0 += weight[k] * d0 * d0
        s1 += weight[k + 1] * d1 * d1
        s2 += weight[k + 2] * d2 * d2
        s3 += weight[k + 3] * d3 * d3
    for k in range(n, len(t)):
        d0 = x[k] - t[k]
        s0 += weight[k] * d0 * d0
    return (s0 + s1) + (s2 + s3)


@_compiled
def _log_expm1(value):
    """``log(exp(value) - 1)`` for value > 0."""
    return value if value > 36.0 else np.log(np.expm1(value))


@_compiled
def _density(X, rows, offsets, positive, z, gradient, distance):
    n_features = X.shape[1]
    t, s, weight = z[:n_features], z[n_features:], np.empty(n_features)
    first, second = gradient[:n_features], gradient[n_features:]
    for k in range(n_features):
        weight[k] = s[k] * s[k]
        first[k] = second[k] = 0.0
    value = 0.0
    for bag in range(len(offsets) - 1):
        start, stop = offsets[bag], offsets[bag + 1]
        # log S, S = -log prod(1 - p): in logarithms, so that distant bags have a non-zero slope.
        largest = -np.inf
        for j in range(start, stop):
            distance[j] = _distance(X[rows[j]], t, weight) + NEAREST
            largest = max(largest, _log_doubt(distance[j]))
        total = 0.0
        for j in range(start, stop):
            total += np.exp(_log_doubt(distance[j]) - largest)
        log_doubt = largest + np.log(total)
        doubt = np.exp(log_doubt)
        if positive[bag]:
            # -log(1 - exp(-S)), and minus the logarithm of its slope -1 / (exp(S) - 1)
            flat = log_doubt if log_doubt < -30.0 else _log_expm1(doubt)
            value += doubt - flat
        else:
            value += doubt
        for j in range(start, stop):
            # dS / dd_j = -1 / (exp(d_j) - 1)
            slope = -_log_expm1(distance[j])
            coefficient = np.exp(slope - flat) if positive[bag] else -np.exp(slope)
            if abs(coefficient) > 1e-18:
                x = X[rows[j]]
                for k in range(n_features):
                    difference = x[k] - t[k]
                    first[k] += coefficient * difference
                    second[k] += coefficient * difference * difference
    for k in range(n_features):
        first[k] *= -2.0 * weight[k]
        second[k] *= 2.0 * s[k]
    return value


@_compiled
def _log_doubt(d):
    """``log(-log(1 - exp(-d)))``."""
    return -d if d > 36.0 else np.log(-np.log1p(-np.exp(-d)))


@_compiled
def _combine(out, a, x, b, y):
    """Set out to a x + b y."""
    for k in range(len(out)):
        out[k] = a * x[k] + b * y[k]


@_compiled
def minimise(X, rows, offsets, positive, z, curve, tol):
    """Minimise from z in place by L-BFGS and fill `curve`; return the steps and convergence."""
    size = len(z)
    steps, changes = np.empty((MEMORY, size)), np.empty((MEMORY, size))
    scale, share = np.empty(MEMORY), np.empty(MEMORY)
    gradient, new_gradient = np.empty(size), np.empty(size)
    trial, direction = np.empty(size), np.empty(size)
    work = np.empty(len(rows))
    value = _density(X, rows, offsets, positive, z, gradient, work)
    held = 0
    for iteration in range(len(curve)):
        curve[iteration] = value
        _combine(direction, -1.0, gradient, 0.0, gradient)
        for back in range(min(held, MEMORY)):
            m = (held - 1 - back) % MEMORY
            share[m] = scale[m] * _dot(steps[m], direction)
            _combine(direction, 1.0, direction, -share[m], changes[m])
        if held > 0:
            m = (held - 1) % MEMORY
            length = scale[m] * _dot(changes[m], changes[m])
            for k in range(size):
                direction[k] /= length
        for forth in range(min(held, MEMORY)):
            m = (held - min(held, MEMORY) + forth) % MEMORY
            missing = share[m] - scale[m] * _dot(changes[m], direction)
            _combine(direction, 1.0, direction, missing, steps[m])
        slope = _dot(gradient, direction)
        if not slope < 0.0:
            return iteration + 1, True
        step = 1.0 if held > 0 else min(1.0, 1.0 / np.sqrt(-slope))
        accepted = False
        new_value = value
        for _ in range(40):
            _combine(trial, 1.0, z, step, direction)
            new_value = _density(X, rows, offsets, positive, trial, new_gradient, work)
            if new_value <= value + 1e-4 * step * slope:
                accepted = True
                break
            # The minimum of the parabola through both values and the slope, within limits.
            bend = new_value - value - step * slope
            factor = -0.5 * step * slope / bend if np.isfinite(bend) else 0.1
            step *= min(max(factor, 0.1), 0.5)
        if not accepted:
            return iteration + 1, True
        m = held % MEMORY
        _combine(steps[m], 1.0, trial, -1.0, z)
        _combine(changes[m], 1.0, new_gradient, -1.0, gradient)
        curvature = _dot(steps[m], changes[m])
        if curvature > 1e-10 * _dot(changes[m], changes[m]):
            scale[m] = 1.0 / curvature
            held += 1
        gain = value - new_value
        for k in range(size):
            z[k], gradient[k] = trial[k], new_gradient[k]
        value = new_value
        curve[iteration] = value
        if gain <= tol * max(value, tol):
            return iteration + 1, True
    return len(curve), False


@_compiled
def _nearest(X, offsets, t, weight, rows):
    for bag in range(len(offsets) - 1):
        best = np.inf
        rows[bag] = offsets[bag]  # if all distances are NaN
        for j in range(offsets[bag], offsets[bag + 1]):
            distance = _distance(X[j], t, weight)
            if distance < best:
                best, rows[bag] = distance, j


def minimise_in_rounds(
    X: Floats, offsets: Ints, positive: Bools, z: Floats, curve: Floats, max_iter: int, tol: float
) -> tuple[int, bool]:
    """EM-DD: `minimise` on the nearest instance of each bag, in rounds; return their number too."""
    n_bags, n_features = len(offsets) - 1, X.shape[1]
    (alone,) = read_only(np.arange(n_bags + 1))
    rows, work, gradient = np.empty(n_bags, np.int64), np.empty(n_bags), np.empty(len(z))

    def select(z: Floats) -> float:
        _nearest(X, offsets, z[:n_features], z[n_features:] ** 2, rows)
        return float(_density(X, rows, alone, positive, z, gradient, work))

    value, trial, steps = select(z), z.copy(), np.empty(max_iter)
    for turn in range(len(curve)):
        minimise(X, rows, alone, positive, trial, steps, tol)
        new_value = select(trial)
        ended = not new_value < value - tol * max(value, tol)
        if new_value < value:
            z[:], value = trial, new_value
        curve[turn] = value
        if ended:
            return turn + 1, True
    return len(curve), False

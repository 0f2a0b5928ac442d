"""Posterior labels of instances, given that their union is exactly the label set of the bag.

The state after i instances is the subset L of the k labels of the bag that they have, as a bit
mask. With q_i(c) the probability of label c inside the label set (rows sum to 1):

    forward   A_0 = [empty],  A_i[L] = q_i(L) A_{i-1}[L] + sum_{c in L} q_i(c) A_{i-1}[L - c]
    backward  B_n = [all],    B_{i-1}[L] = sum_c q_i(c) B_i[L + c]
    joint     P(y_i = c, all) = q_i(c) sum_{L without c} (A_{i-1}[L] + A_{i-1}[L + c]) B_i[L + c]

All terms are non-negative, so nothing cancels. The last column of q is a background label, allowed
but not required in every bag: it leaves the state unchanged.

If the label of an instance is known, its q is a point mass: the recursions are the same.

Label sets may be wrong. The label of an instance is not reported with probability `missing`, and a
label that no instance reports is nevertheless listed with probability `spurious`. An instance that
is not reported leaves the state unchanged, like background. The backward pass starts from
B_n[L] = spurious^(k - |L|), since any of the labels may be listed by mistake.
"""

import numpy as np

from bagwise.compiled.compilation import compiled

# Inference method of a bag.
FREE = 0  # the label set is unknown: plain softmax
EXACT = 1  # forward-backward over subsets
APPROXIMATE = 2  # loopy belief propagation
RESTRICTED = 3  # the label set is impossible: softmax inside the set

TABLE = 2**20  # values of the forward table stored at once; a larger one is recomputed in parts
UNDERFLOW = 1e-250  # probability below which the pass is repeated with logarithms
TINY = 1e-300
SETTLED = 1e-10
MAX_SWEEPS = 2000

_compiled = compiled()
# Sums may be reordered, so that they use vector instructions; infinities are handled as usual.
_vectorised = compiled(fastmath={"reassoc", "contract", "nsz"})


@_compiled
def operations(n, k, spurious=False):  # type: ignore[no-untyped-def]
    """Cost of one pass over a bag: instances x subsets x labels, without unreachable subsets."""
    if not is_sparse_lattice(n, k, spurious):
        return float(n) * k * 2.0**k
    return _reachable(n, k, spurious) * k


@_compiled
def is_sparse_lattice(n, k, spurious=False):  # type: ignore[no-untyped-def]
    """Whether so few subsets are reachable that looping over a list of them is faster."""
    return 8.0 * _reachable(n, k, spurious) < float(n) * 2.0**k


@_compiled
def _reachable(n, k, spurious):  # type: ignore[no-untyped-def]
    """Number of subsets that i instances can reach and n - i can complete, summed over i.

    With `spurious` a subset need not be completed.
    """
    total, choose = 0.0, 1.0
    for level in range(k + 1):
        last = n if spurious else min(n, n - k + level)
        total += choose * max(0, last - max(1, level) + 1)
        choose = choose * (k - level) / (level + 1)
    return total


@_compiled
def posteriors(  # type: ignore[no-untyped-def]
    start, stop, offsets, scores, set_offsets, set_labels, background, missing, spurious, how,
    weights, gradient, instance_codes, out, log_likelihood, settled, counts,
):  # fmt: skip
    """Posterior of each instance's label and log-probability of the label sets, bags start:stop.

    `scores` are the logits. With `gradient`, `out` receives (softmax - posterior) times the weight
    of the bag, the gradient of minus the log-likelihood in the scores; otherwise the posterior.
    `instance_codes` are the labels of the instances, -1 if unknown, or empty if all are unknown;
    the probability is then that of the label set and the known labels.

    `counts` receives the expected counts of each bag: instances whose label was not reported,
    instances whose label was reported, and spurious labels.
    """
    n_classes = scores.shape[1]
    n_labels = n_classes - 1 if background else n_classes
    softmax, every_class = np.empty(n_classes), np.arange(n_classes)
    for bag in range(start, stop):
        first, last = offsets[bag], offsets[bag + 1]
        labels = set_labels[set_offsets[bag] : set_offsets[bag + 1]]
        if how[bag] == FREE:  # any class, the background included
            labels = every_class
        n, k = last - first, len(labels)
        log_q = np.full((n, k + 1), -np.inf)
        q, posterior = np.zeros((n, k + 1)), np.zeros((n, k + 1))
        codes = instance_codes[first:last] if len(instance_codes) else instance_codes
        counts[bag] = 0.0
        free = how[bag] == FREE
        unreported = 0.0 if free else missing
        has_background = background and not free
        inside = _restrict(scores[first:last], labels, has_background, unreported, codes, log_q, q)
        if how[bag] == EXACT:
            chance, counts[bag, 2] = _exact(q, log_q, k, spurious, posterior)
        elif how[bag] == APPROXIMATE:
            chance, settled[bag], counts[bag, 2] = _propagate(q, k, spurious, posterior)
        else:
            chance = 0.0 if free else -np.inf
            posterior[:] = q
        if not free:
            chance += (n_labels - k) * np.log1p(-spurious)
        total = 0.0
        for i in range(n):
            norm = _softmax(scores[first + i], softmax)
            total += inside[i] - norm
            row = out[first + i]
            for c in range(n_classes):
                row[c] = softmax[c] * weights[bag] if gradient else 0.0
            sign = -weights[bag] if gradient else 1.0
            for c in range(k):
                row[labels[c]] += sign * posterior[i, c]
            if unreported > 0.0:
                code = codes[i] if len(codes) else -1
                share = _spread(sign * posterior[i, k], code, background, missing, softmax, row)
                counts[bag, 0] += share * posterior[i, k]
                counts[bag, 1] += posterior[i, :k].sum()
            elif has_background:
                row[n_classes - 1] += sign * posterior[i, k]
        log_likelihood[bag] = total + chance


@_compiled
def _spread(mass, code, background, missing, softmax, row):  # type: ignore[no-untyped-def]
    """Distribute the probability that an instance reports nothing over its possible labels.

    Returns the share that is due to an unreported label, not to background.
    """
    last = len(softmax) - 1
    if code >= 0:
        row[code] += mass
        return 0.0 if background and code == last else 1.0
    nothing = softmax[last] if background else 0.0
    total = missing + (1.0 - missing) * nothing
    for c in range(last if background else last + 1):
        row[c] += mass * missing * softmax[c] / total
    if background:
        row[last] += mass * nothing / total
    return missing * (1.0 - nothing) / total


@_compiled
def _softmax(scores, out):  # type: ignore[no-untyped-def]
    top = scores[0]
    for c in range(1, len(scores)):
        top = max(top, scores[c])
    total = 0.0
    for c in range(len(scores)):
        out[c] = np.exp(scores[c] - top)
        total += out[c]
    for c in range(len(scores)):
        out[c] /= total
    return top + np.log(total)


@_compiled
def _restrict(scores, labels, background, missing, codes, log_q, q):  # type: ignore[no-untyped-def]
    """Normalise within the label set, or to the known label; return the log-sum of each row.

    The last column is the probability of reporting nothing: background, or a missing label.
    """
    n, k, last = len(scores), len(labels), scores.shape[1] - 1
    inside, softmax = np.empty(n), np.empty(last + 1)
    for i in range(n):
        for c in range(k):
            log_q[i, c] = scores[i, labels[c]] + np.log1p(-missing)
        if background:
            log_q[i, k] = scores[i, last]
        code = codes[i] if len(codes) else -1
        if code >= 0:
            for c in range(k):
                if labels[c] != code:
                    log_q[i, c] = -np.inf
            if code != last or not background:
                log_q[i, k] = np.log(missing) + scores[i, code] if missing > 0.0 else -np.inf
        elif missing > 0.0:
            unreported = np.log(missing) + _softmax(scores[i], softmax)
            named = log_q[i, k] + np.log1p(-missing)
            log_q[i, k] = np.logaddexp(unreported, named)
        inside[i] = _softmax(log_q[i], q[i])
        for c in range(k + 1):
            log_q[i, c] -= inside[i]
    return inside


@_compiled
def _exact(q, log_q, k, spurious, posterior):  # type: ignore[no-untyped-def]
    """Forward-backward; returns log A_n[all], and the expected number of spurious labels.

    With `spurious`, A_n[all] is the sum of A_n[L] spurious^(k - |L|) over all subsets.
    """
    if k == 0 or (k == 1 and q[:, 1].sum() == 0.0):  # there is nothing to choose
        posterior[:] = q
        return 0.0, 0.0
    listed = is_sparse_lattice(len(q), k, spurious > 0.0)
    total, excess = _forward_backward(q, k, listed, False, spurious, posterior)
    if total > UNDERFLOW:
        _normalise(posterior)
        return np.log(total), excess
    total, excess = _forward_backward(log_q, k, True, True, spurious, posterior)
    _normalise(posterior)
    return total, excess


@_compiled
def _normalise(posterior):  # type: ignore[no-untyped-def]
    for i in range(len(posterior)):
        posterior[i] /= posterior[i].sum()


@_compiled
def _forward_backward(q, k, listed, log, spurious, posterior):  # type: ignore[no-untyped-def]
    """Fill `posterior` with the joint; return the results of `_complete`.

    With `log` the probabilities in `q`, the tables and the first result are logarithms.

    A small forward table is stored as a whole. A large one is stored at every s-th instance only,
    s = sqrt(n), and recomputed part by part.
    """
    n, size = len(q), 1 << k
    end = n + k if spurious > 0.0 else n  # spurious labels may complete any subset
    s = n if (n + 1) * size <= TABLE else int(np.ceil(np.sqrt(n)))
    n_parts = (n + s - 1) // s
    nothing = -np.inf if log else 0.0
    order, levels = _by_size(k) if listed else (np.empty(0, np.int64), np.empty(0, np.int64))
    table = np.empty((s + 1, size))
    kept = np.empty((n_parts, size))
    table[0] = nothing
    table[0, 0] = 0.0 if log else 1.0
    for part in range(n_parts):
        kept[part] = table[0]
        stop = min(s, n - part * s)
        _forward(q, part * s, stop, end, k, order, levels, log, table)
        if part < n_parts - 1:
            table[0] = table[stop]
    after, before = np.full(size, nothing), np.empty(size)
    total, excess = _complete(table[n - (n_parts - 1) * s], n, k, spurious, log, after)
    if total <= (-np.inf if log else UNDERFLOW):
        return total, excess
    for part in range(n_parts - 1, -1, -1):
        stop = min(s, n - part * s)
        if part < n_parts - 1:
            table[0] = kept[part]
            _forward(q, part * s, stop, end, k, order, levels, log, table)
        for j in range(stop - 1, -1, -1):
            i = part * s + j
            if log:
                _backward_log(
                    q[i], k, i, end, order, levels, table[j], after, before, total, posterior[i]
                )
            elif listed:
                _backward_listed(
                    q[i], k, i, end, order, levels, table[j], after, before, posterior[i]
                )
            else:
                _backward(q[i], k, table[j], after, before, posterior[i])
            after, before = before, after
    return total, excess


@_compiled
def _complete(a, n, k, spurious, log, after):  # type: ignore[no-untyped-def]
    """Fill `after` with B_n; return the sum of A_n B_n, and the expected k - |L|."""
    size = 1 << k
    if spurious == 0.0:
        after[size - 1] = 0.0 if log else 1.0
        return a[size - 1], 0.0
    top = 0.0
    for state in range(size):
        absent = k - _count(state)
        after[state] = absent * np.log(spurious) if log else spurious**absent
    if log:
        top = -np.inf
        for state in range(size):
            if _count(state) <= n:  # larger subsets are not computed
                top = max(top, a[state] + after[state])
        if top == -np.inf:
            return top, 0.0
    total = excess = 0.0
    for state in range(size):
        size_of = _count(state)
        if size_of <= n:
            chance = np.exp(a[state] + after[state] - top) if log else a[state] * after[state]
            total += chance
            excess += (k - size_of) * chance
    if total == 0.0:
        return total, 0.0
    return (top + np.log(total) if log else total), excess / total


@_compiled
def _forward(q, first, steps, end, k, order, levels, log, table):  # type: ignore[no-untyped-def]
    """Fill rows 1 .. steps of the table: A after the instances first + 1 .. first + steps."""
    for j in range(steps):
        i = first + j
        if log:
            _forward_log(q[i], k, i + 1, end, order, levels, table[j], table[j + 1])
        elif len(order):
            _forward_listed(q[i], k, i + 1, end, order, levels, table[j], table[j + 1])
        else:
            _forward_all(q[i], k, table[j], table[j + 1])


@_vectorised
def _forward_all(q, k, a, new):  # type: ignore[no-untyped-def]
    size = 1 << k
    first = 3 if k >= 3 else 0
    if first:
        _forward_lowest(q, k, a, new)
    else:
        for state in range(size):
            new[state] = q[k] * a[state]
    for c in range(first, k):
        bit, chance = 1 << c, q[c]
        for block in range(0, size, 2 * bit):
            for state in range(block, block + bit):
                new[state + bit] += chance * (a[state] + a[state + bit])


@_vectorised
def _forward_lowest(q, k, a, new):  # type: ignore[no-untyped-def]
    """Forward step of the first three labels: their runs of 1, 2, 4 states are short for a loop."""
    g, q0, q1, q2 = q[k], q[0], q[1], q[2]
    for s in range(0, 1 << k, 8):
        a0, a1, a2, a3 = a[s], a[s + 1], a[s + 2], a[s + 3]
        a4, a5, a6, a7 = a[s + 4], a[s + 5], a[s + 6], a[s + 7]
        new[s] = g * a0
        new[s + 1] = g * a1 + q0 * (a0 + a1)
        new[s + 2] = g * a2 + q1 * (a0 + a2)
        new[s + 3] = g * a3 + q0 * (a2 + a3) + q1 * (a1 + a3)
        new[s + 4] = g * a4 + q2 * (a0 + a4)
        new[s + 5] = g * a5 + q0 * (a4 + a5) + q2 * (a1 + a5)
        new[s + 6] = g * a6 + q1 * (a4 + a6) + q2 * (a2 + a6)
        new[s + 7] = g * a7 + q0 * (a6 + a7) + q1 * (a5 + a7) + q2 * (a3 + a7)


@_vectorised
def _backward(q, k, a, b, new, joint):  # type: ignore[no-untyped-def]
    size = 1 << k
    total = 0.0
    for state in range(size):
        total += a[state] * b[state]
    joint[k] = q[k] * total
    first = 3 if k >= 3 else 0
    if first:
        _backward_lowest(q, k, a, b, new, joint)
    else:
        for state in range(size):
            new[state] = q[k] * b[state]
    for c in range(first, k):
        bit, chance = 1 << c, q[c]
        total = 0.0
        for block in range(0, size, 2 * bit):
            for state in range(block, block + bit):
                ahead = b[state + bit]
                total += (a[state] + a[state + bit]) * ahead
                new[state] += chance * ahead
                new[state + bit] += chance * ahead
        joint[c] = chance * total


@_vectorised
def _backward_lowest(q, k, a, b, new, joint):  # type: ignore[no-untyped-def]
    g, q0, q1, q2 = q[k], q[0], q[1], q[2]
    sum0 = sum1 = sum2 = 0.0
    for s in range(0, 1 << k, 8):
        a0, a1, a2, a3 = a[s], a[s + 1], a[s + 2], a[s + 3]
        a4, a5, a6, a7 = a[s + 4], a[s + 5], a[s + 6], a[s + 7]
        b0, b1, b2, b3 = b[s], b[s + 1], b[s + 2], b[s + 3]
        b4, b5, b6, b7 = b[s + 4], b[s + 5], b[s + 6], b[s + 7]
        sum0 += (a0 + a1) * b1 + (a2 + a3) * b3 + (a4 + a5) * b5 + (a6 + a7) * b7
        sum1 += (a0 + a2) * b2 + (a1 + a3) * b3 + (a4 + a6) * b6 + (a5 + a7) * b7
        sum2 += (a0 + a4) * b4 + (a1 + a5) * b5 + (a2 + a6) * b6 + (a3 + a7) * b7
        new[s] = g * b0 + q0 * b1 + q1 * b2 + q2 * b4
        new[s + 1] = (g + q0) * b1 + q1 * b3 + q2 * b5
        new[s + 2] = (g + q1) * b2 + q0 * b3 + q2 * b6
        new[s + 3] = (g + q0 + q1) * b3 + q2 * b7
        new[s + 4] = (g + q2) * b4 + q0 * b5 + q1 * b6
        new[s + 5] = (g + q0 + q2) * b5 + q1 * b7
        new[s + 6] = (g + q1 + q2) * b6 + q0 * b7
        new[s + 7] = (g + q0 + q1 + q2) * b7
    joint[0], joint[1], joint[2] = q0 * sum0, q1 * sum1, q2 * sum2


@_compiled
def _by_size(k):  # type: ignore[no-untyped-def]
    """All subsets in order of size, and the position at which each size begins."""
    size = 1 << k
    counts = np.zeros(k + 2, np.int64)
    for state in range(size):
        counts[_count(state) + 1] += 1
    levels = np.cumsum(counts)
    place, order = levels.copy(), np.empty(size, np.int64)
    for state in range(size):
        level = _count(state)
        order[place[level]] = state
        place[level] += 1
    return order, levels


@_compiled
def _count(state):  # type: ignore[no-untyped-def]
    bits = 0
    while state:
        state &= state - 1
        bits += 1
    return bits


@_compiled
def _range(i, n, k, levels):  # type: ignore[no-untyped-def]
    """Positions of the subsets that i instances can reach and n - i can complete."""
    return levels[max(0, k - (n - i))], levels[min(k, i) + 1]


@_compiled
def _clear_above(i, k, order, levels, nothing, new):  # type: ignore[no-untyped-def]
    """Initialise the subsets of i + 1 labels, which the next step also reads."""
    if i < k:
        for state in order[levels[i + 1] : levels[i + 2]]:
            new[state] = nothing


@_compiled
def _forward_listed(q, k, i, n, order, levels, a, new):  # type: ignore[no-untyped-def]
    _clear_above(i, k, order, levels, 0.0, new)
    begin, end = _range(i, n, k, levels)
    for state in order[begin:end]:
        total, inside = 0.0, q[k]
        for c in range(k):  # without branches, which would be unpredictable
            chance = q[c] * (state >> c & 1)
            inside += chance
            total += chance * a[state & ~(1 << c)]
        new[state] = total + inside * a[state]


@_compiled
def _backward_listed(q, k, i, n, order, levels, a, b, new, joint):  # type: ignore[no-untyped-def]
    """Backward step; `b` is B after instance i + 1, non-zero only at subsets reachable by then."""
    begin, end = _range(i + 1, n, k, levels)
    for state in order[_range(i, n, k, levels)[0] : end]:
        new[state] = 0.0
    joint[:] = 0.0
    for state in order[begin:end]:
        ahead, here, inside = b[state], a[state], q[k]
        joint[k] += here * ahead
        for c in range(k):
            less, share = state & ~(1 << c), ahead * (state >> c & 1)
            inside += q[c] * (state >> c & 1)
            joint[c] += (a[less] + here) * share
            new[less] += q[c] * share
        new[state] += inside * ahead
    for c in range(k + 1):
        joint[c] *= q[c]


@_compiled
def _forward_log(q, k, i, n, order, levels, a, new):  # type: ignore[no-untyped-def]
    _clear_above(i, k, order, levels, -np.inf, new)
    begin, end = _range(i, n, k, levels)
    for state in order[begin:end]:
        new[state] = -np.inf
        top = q[k] + a[state]
        for c in range(k):
            if state >> c & 1:
                top = max(top, q[c] + max(a[state], a[state ^ (1 << c)]))
        if top == -np.inf:
            continue
        total = np.exp(q[k] + a[state] - top)
        for c in range(k):
            if state >> c & 1:
                total += np.exp(q[c] + a[state] - top) + np.exp(q[c] + a[state ^ (1 << c)] - top)
        new[state] = top + np.log(total)


@_compiled
def _backward_log(q, k, i, n, order, levels, a, b, new, norm, joint):  # type: ignore[no-untyped-def]
    new[:] = -np.inf
    joint[:] = 0.0
    begin, end = _range(i, n, k, levels)
    for state in order[begin:end]:
        top = q[k] + b[state]
        for c in range(k):
            top = max(top, q[c] + b[state | (1 << c)])
        if top == -np.inf:
            continue
        total = np.exp(q[k] + b[state] - top)
        joint[k] += np.exp(q[k] + a[state] + b[state] - norm)
        for c in range(k):
            ahead = q[c] + b[state | (1 << c)]
            total += np.exp(ahead - top)
            joint[c] += np.exp(a[state] + ahead - norm)
        new[state] = top + np.log(total)


@_compiled
def _propagate(q, k, spurious, belief):  # type: ignore[no-untyped-def]
    """Loopy belief propagation with the constraint that some instance has each label of the set.

    mu[i, c]: probability that instance i has label c, without the constraint on c; m[i, c]:
    probability that an instance other than i has c, or that c is spurious. Returns the Bethe
    approximation of log P(all), whose derivative in log q is the belief, whether the messages
    converged, and the expected number of spurious labels.
    """
    n = len(q)
    m = np.ones((n, k))
    mu, later = np.empty((n, k)), np.empty(n + 1)
    belief[:] = q
    settled = False
    for sweep in range(MAX_SWEEPS):
        for i in range(n):
            total = _total(q[i], k, m[i])
            for c in range(k):
                others = max(total - q[i, c] / m[i, c], 0.0)
                mu[i, c] = min(q[i, c] / max(q[i, c] + others, TINY), 1.0 - 1e-16)
        change = 0.0
        damping = 0.0 if sweep < 20 else 0.5
        for c in range(k):
            later[n] = 0.0
            for i in range(n - 1, -1, -1):
                later[i] = later[i + 1] + np.log1p(-mu[i, c])
            earlier = np.log1p(-spurious)
            for i in range(n):
                new = max(-np.expm1(earlier + later[i + 1]), TINY)
                earlier += np.log1p(-mu[i, c])
                if damping > 0.0:
                    new = np.exp(damping * np.log(m[i, c]) + (1.0 - damping) * np.log(new))
                m[i, c] = new
        for i in range(n):
            total = _total(q[i], k, m[i])
            for c in range(k + 1):
                new = q[i, c] / (m[i, c] if c < k else 1.0) / total
                change = max(change, abs(new - belief[i, c]))
                belief[i, c] = new
        if change < SETTLED:
            settled = True
            break
    value, excess = _bethe(q, k, spurious, mu, m)
    return value, settled, excess


@_compiled
def _total(q, k, m):  # type: ignore[no-untyped-def]
    """Sum of the unnormalised beliefs of an instance."""
    total = q[k]
    for c in range(k):
        total += q[c] / m[c]
    return total


@_compiled
def _bethe(q, k, spurious, mu, m):  # type: ignore[no-untyped-def]
    """Sum of log Z over instances and labels minus pairs, and expected count of spurious labels."""
    value = excess = 0.0
    for i in range(len(q)):
        for c in range(k):
            value += np.log(m[i, c])
        value += np.log(_total(q[i], k, m[i]))
    for c in range(k):
        absent = 0.0
        for i in range(len(q)):
            absent += np.log1p(-mu[i, c])
            value -= np.log(mu[i, c] + (1.0 - mu[i, c]) * m[i, c])
        chance = max(-np.expm1(np.log1p(-spurious) + absent), TINY)
        value += np.log(chance)
        excess += spurious * np.exp(absent) / chance
    return value, excess

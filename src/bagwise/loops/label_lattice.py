"""Forward-backward recursion over what the instances of a bag have in common: a lattice of states.

After i instances the state s is the set of labels of the bag they have. Label c leads from s to
s --c-->, and "no label" (the last column of q, e.g. background) leaves the state as it is. With
q_i(c) the probability of label c for instance i (rows sum to 1):

    forward   A_0 = [start],   A_i[t] = sum over s, c with s --c--> = t of q_i(c) A_{i-1}[s]
    backward  B_n = finish,    B_{i-1}[s] = sum_c q_i(c) B_i[s --c-->]
    joint     P(y_i = c, bag) = q_i(c) sum_s A_{i-1}[s] B_i[s --c-->]

All terms are non-negative, so nothing cancels. Here a state is a set of labels, a bit mask, and
s --c--> is s + c. A set that has c already stays as it is or, with `once`, cannot have it again.

States are processed in blocks of eight: the lowest three bits select a state of the block, the
others the block. Blocks without a state that i instances can reach and n - i can complete are
skipped: with n = k, most are. Without bits for three labels, the start has the missing bits.
"""

import numpy as np

from bagwise.loops.compilation import compiled

TABLE = 2**20  # values of the forward table stored at once; a larger one is recomputed in parts
UNDERFLOW = 1e-250  # probability below which the pass is repeated with logarithms

_compiled = compiled()
# Sums may be reordered, so that they use vector instructions; infinities are handled as usual.
_vectorised = compiled(fastmath={"reassoc", "contract", "nsz"})
_unsigned = np.uint64  # an index of this type is not checked for being negative


@_compiled
def operations(sizes, n_labels, spurious):
    """Cost of one pass over each bag: instances x states x labels, without unreachable states.

    With `spurious` a state need not be completed.
    """
    out = np.empty(len(sizes))
    for bag in range(len(sizes)):
        n, k = sizes[bag], n_labels[bag]
        total, choose = 0.0, 1.0
        for level in range(k + 1):
            last = n if spurious else min(n, n - k + level)
            total += choose * max(0, last - max(1, level) + 1)
            choose *= (k - level) / (level + 1)
        out[bag] = k * total
    return out


@_compiled
def normalise(log_q):
    """Subtract from each row the logarithm of its sum; return the sum of these logarithms."""
    total = 0.0
    for i in range(len(log_q)):
        norm = log_sum(log_q[i])
        log_q[i] -= norm
        total += norm
    return total


@_compiled
def log_sum(log_values):
    """Logarithm of a sum, from the logarithms of its terms."""
    top, total = log_values.max(), 0.0
    for c in range(len(log_values)):
        total += np.exp(log_values[c] - top)
    return top + np.log(total)


@_compiled
def sum_over_labelings(log_q, finish, once, table, posterior):
    """Sum the weights of all labelings of a bag, and find the posterior label of each instance.

    Parameters
    ----------
    log_q : ndarray of shape (n, k + 1)
        Log-probabilities of the labels, and of none of them; rows sum to 1.
    finish : ndarray of shape (k + 1,)
        Logarithm of the weight of a labeling that has m of the labels.
    once : bool
        Whether at most one instance has each label.
    table : int
        Number of values of the forward table stored at once: see `TABLE`.
    posterior : ndarray of shape (n, k + 1)
        Receives the probability of each label for each instance; rows sum to 1.

    Returns
    -------
    log_total : float
    absent : float
        The expected number of labels that no instance has.
    """
    k = log_q.shape[1] - 1
    width = max(k, 3)
    logs = np.full((len(log_q), width + 1), -np.inf)
    logs[:, :k] = log_q[:, :k]
    logs[:, width] = log_q[:, k]
    joint = np.empty_like(logs)
    q = np.exp(logs)
    total, absent = _pass(q, k, np.exp(finish), finish, once, table, None, joint)
    if total > UNDERFLOW:
        total = np.log(total)
    else:
        total, absent = _pass(logs, k, finish, finish, once, table, True, joint)
        joint = np.exp(joint - total)
    for i in range(len(posterior)):
        posterior[i, :k] = joint[i, :k]
        posterior[i, k] = joint[i, width]
        posterior[i] /= posterior[i].sum()
    return total, absent


# `log` is None, or True if values are logarithms: numba compiles a version for each.


@_compiled
def _times(x, y, log):
    return x * y if log is None else x + y


@_compiled
def _plus(x, y, log):
    if log is None:
        return x + y
    if x == -np.inf or y == -np.inf:
        return max(x, y)
    return max(x, y) + np.log1p(np.exp(-abs(x - y)))


@_compiled
def _pass(q, k, finish, log_finish, once, table, log, joint):
    """Fill `joint`; return the sum over labelings, and the expected number of absent labels.

    A small forward table is stored as a whole. A large one is stored at every s-th instance only,
    s = sqrt(n), and recomputed part by part.
    """
    n, width = len(q), q.shape[1] - 1
    start, size = (1 << width) - (1 << k), 1 << width
    zero = 0.0 if log is None else -np.inf
    counts = np.zeros(size >> 3, np.int64)  # number of bits of each block
    for block in range(1, len(counts)):
        counts[block] = counts[block >> 1] + (block & 1)
    least = 0  # number of labels that a labeling needs
    while least < k and log_finish[least] == -np.inf:
        least += 1
    # After i instances, a state that counts has between low + i and high + i bits: see `_skipped`.
    low, high = least + width - k - n, width - k
    s = n if (n + 1) * size <= table else int(np.ceil(np.sqrt(n)))
    n_parts = (n + s - 1) // s
    a, kept = np.empty((s + 1, size)), np.empty((n_parts, size))
    a[0] = zero
    a[0, start] = 1.0 if log is None else 0.0
    for part in range(n_parts):
        kept[part] = a[0]
        stop = min(n, (part + 1) * s)
        for i in range(part * s, stop):
            j = i - part * s
            _forward(q[i], width, low + i + 1, high + i + 1, counts, once, log, a[j], a[j + 1])
        if stop < n:
            a[0] = a[s]
    end = a[n - (n_parts - 1) * s]
    after, before = np.full(size, zero), np.empty(size)
    total = absent = zero
    for state in range(start & 7, size):
        if not _skipped(counts[state >> 3], low + n, high + n) and state & start == start:
            m = counts[state >> 3] + (state & 1) + (state >> 1 & 1) + (state >> 2 & 1) - width + k
            after[state] = finish[m]
            weight = _times(end[state], finish[m], log)
            total = _plus(total, weight, log)
            if m < k:
                absent = _plus(absent, _times(weight, _value(k - m, log), log), log)
    if total == zero:
        return total, 0.0
    sums = np.empty(8 * (width + 1))
    for part in range(n_parts - 1, -1, -1):
        stop = min(n, (part + 1) * s)
        if stop < n:
            a[0] = kept[part]
            for i in range(part * s, stop):
                j = i - part * s
                _forward(q[i], width, low + i + 1, high + i + 1, counts, once, log, a[j], a[j + 1])
        for i in range(stop - 1, part * s - 1, -1):
            row, past = joint[i], a[i - part * s]
            _backward(
                q[i], width, low + i, high + i, counts, once, log, past, after, before, row, sums
            )
            after, before = before, after
    return total, absent / total if log is None else np.exp(absent - total)


@_compiled
def _value(x, log):
    return float(x) if log is None else np.log(x)


@_compiled
def _skipped(count, low, high):
    """Whether no state of a block has between low and high bits; `count`: the bits of the block."""
    return count > high or count + 3 < low


@_vectorised
def _forward(q, k, low, high, counts, once, log, a, new):
    """Compute A after an instance from A before it."""
    for h in range(len(counts)):
        block = _unsigned(h) << _unsigned(3)
        if _skipped(counts[h], low, high):
            if counts[h] == high + 1:  # the next step reads it
                for j in range(8):
                    new[block + _unsigned(j)] = 0.0 if log is None else -np.inf
            continue
        for j in range(8):
            here = a[block + _unsigned(j)]
            value = _times(q[k], here, log)
            for c in range(3):
                if j >> c & 1:
                    before = a[block + _unsigned(j - (1 << c))]
                    if not once:
                        before = _plus(before, here, log)
                    value = _plus(value, _times(q[c], before, log), log)
            new[block + _unsigned(j)] = value
        for c in range(3, k):
            bit = _unsigned(1) << _unsigned(c)
            if block & bit:
                less, chance = block - bit, q[c]
                for j in range(8):
                    before, state = a[less + _unsigned(j)], block + _unsigned(j)
                    if not once:
                        before = _plus(before, a[state], log)
                    new[state] = _plus(new[state], _times(chance, before, log), log)


@_vectorised
def _backward(q, k, low, high, counts, once, log, a, b, new, joint, sums):
    """Compute B before an instance from B after it, and the joint probability of its labels."""
    zero = 0.0 if log is None else -np.inf
    none = sum0 = sum1 = sum2 = zero
    sums[:] = zero  # of each further label, for each of the eight states of a block
    for h in range(len(counts)):
        block = _unsigned(h) << _unsigned(3)
        if _skipped(counts[h], low, high):
            if counts[h] + 3 == low - 1:  # the next step reads it
                for j in range(8):
                    new[block + _unsigned(j)] = zero
            continue
        for j in range(8):
            past, ahead = a[block + _unsigned(j)], b[block + _unsigned(j)]
            value = _times(q[k], ahead, log)
            none = _plus(none, _times(past, ahead, log), log)
            if not (once and j & 1):
                ahead = b[block + _unsigned(j | 1)]
                value = _plus(value, _times(q[0], ahead, log), log)
                sum0 = _plus(sum0, _times(past, ahead, log), log)
            if not (once and j & 2):
                ahead = b[block + _unsigned(j | 2)]
                value = _plus(value, _times(q[1], ahead, log), log)
                sum1 = _plus(sum1, _times(past, ahead, log), log)
            if not (once and j & 4):
                ahead = b[block + _unsigned(j | 4)]
                value = _plus(value, _times(q[2], ahead, log), log)
                sum2 = _plus(sum2, _times(past, ahead, log), log)
            new[block + _unsigned(j)] = value
        for c in range(3, k):
            bit = _unsigned(1) << _unsigned(c)
            if not (once and block & bit):
                more, chance, place = block | bit, q[c], _unsigned(8 * c)
                for j in range(8):
                    ahead, state = b[more + _unsigned(j)], block + _unsigned(j)
                    new[state] = _plus(new[state], _times(chance, ahead, log), log)
                    at = place + _unsigned(j)
                    sums[at] = _plus(sums[at], _times(a[state], ahead, log), log)
    sums[0], sums[8], sums[16], sums[8 * k] = sum0, sum1, sum2, none
    for c in range(k + 1):
        total = zero
        for j in range(8):
            total = _plus(total, sums[8 * c + j], log)
        joint[c] = _times(q[c], total, log)

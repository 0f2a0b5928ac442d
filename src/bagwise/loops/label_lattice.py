"""Forward-backward recursion over what the instances of a bag have in common: a lattice of states.

After i instances the state s is the set of labels of the bag they have. Label c leads from s to
s --c-->, and "no label" (the last column of q, e.g. background) leaves the state as it is. With
q_i(c) the probability of label c for instance i (rows sum to 1):

    forward   A_0 = [start],   A_i[t] = sum over s, c with s --c--> = t of q_i(c) A_{i-1}[s]
    backward  B_n = finish,    B_{i-1}[s] = sum_c q_i(c) B_i[s --c-->]
    joint     P(y_i = c, bag) = q_i(c) sum_s A_{i-1}[s] B_i[s --c-->]

All terms are non-negative, so nothing cancels. There are two forms of a state.

Sets (`sum_over_labelings`): a state is a bit mask of labels, and s --c--> is s + c. A set that has
c already stays as it is or, with `once`, cannot have it again. States are processed in blocks of
eight: the lowest three bits select a state of the block, the others the block. Without bits for
three labels, the start has the missing bits.

Counts (`sum_over_counts`): a state is the number of instances of each label, in mixed radix. A
counter ends at the largest count that is allowed; if none is, at the smallest one, and more
instances leave it there. S = prod(cap_c + 1). The first counter, the longest one, changes within a
block.

Blocks without a state that i instances can reach and n - i can complete are skipped: with as many
instances as are needed, most are.
"""

import numpy as np

from bagwise.loops.compilation import compiled

TABLE = 2**20  # values of the forward table stored at once; a larger one is recomputed in parts
UNDERFLOW = 1e-250  # probability below which the pass is repeated with logarithms
SMALL, LOST = 1e-30, 1e-200  # sum of states that is scaled; part that A and B share
FEW = 64  # number of states up to which all are visited, without blocks
NO_LIMIT = -1  # upper bound of a count

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


# Counts


@_compiled
def plan(sizes, lower, upper, background, max_operations, caps, saturates, spare, states):
    """Choose the counters of each bag, and count its states before anything is allocated.

    A label without a bound needs no counter, nor does one whose bound is implied by the others. If
    every label is bounded and there is no background, one label is what the counters of the others
    leave, if that needs fewer states.

    Parameters
    ----------
    sizes : ndarray of shape (n_bags,)
        Number of instances.
    lower, upper : ndarray of shape (n_bags, n_labels)
        Bounds of the counts; an upper bound may be `NO_LIMIT`.
    background : bool
        Whether instances may have none of the labels.
    max_operations : float
        Cost beyond which all bounds are kept: the bag will be approximated.
    caps : ndarray of int64 of shape (n_bags, n_labels)
        Receives the last value of each counter; -1 for a label that is not counted, -2 for one that
        no instance can have.
    saturates : ndarray of bool of shape (n_bags, n_labels)
        Receives whether further instances leave a counter at its last value.
    spare : ndarray of int64 of shape (n_bags,)
        Receives the label that is left, -1 if there is none.
    states : ndarray of float64 of shape (n_bags,)
        Receives the number of states; 0 if no labeling is allowed.
    """
    k = lower.shape[1]
    most = np.empty(k, np.int64)
    for bag in range(len(sizes)):
        n, needed, room = sizes[bag], lower[bag].sum(), 0
        n_free, possible = int(background), needed <= n
        for c in range(k):
            top = n if upper[bag, c] == NO_LIMIT else min(upper[bag, c], n)
            left = n - needed + lower[bag, c]  # what the other labels leave
            saturates[bag, c] = top >= left
            most[c] = max(min(top, left), 0)
            room += top
            possible &= lower[bag, c] <= top
            if saturates[bag, c] and lower[bag, c] == 0:
                n_free += 1
        spare[bag], full = -1, 1.0
        for c in range(k):
            if needed == n:  # each label has exactly the least number
                most[c], saturates[bag, c], n_free = lower[bag, c], False, 0
            free = saturates[bag, c] and lower[bag, c] == 0
            caps[bag, c] = lower[bag, c] if saturates[bag, c] else most[c]
            if most[c] == 0 or upper[bag, c] == 0:
                caps[bag, c] = -2
            elif free:
                caps[bag, c] = -1
            full *= caps[bag, c] + 1.0 if caps[bag, c] > 0 else 1.0
        states[bag] = full if possible and (background or room >= n) else 0.0
        if n_free or not states[bag]:
            continue
        every, n_possible = 1.0, 0
        for c in range(k):
            every *= most[c] + 1.0
            n_possible += most[c] > 0
        last = most.argmax()
        every /= most[last] + 1.0
        exact = needed == n or n_possible <= 2 or n * every * n_possible <= max_operations
        if exact and every < full:
            states[bag], spare[bag] = every, last
            for c in range(k):
                caps[bag, c] = -1 if c == last else most[c] if most[c] > 0 else -2
                saturates[bag, c] = False


@_compiled
def sum_over_counts(log_q, counters, bounds, table, posterior):
    """Sum the weights of the labelings whose counts are in a box; find the posterior labels.

    Parameters
    ----------
    log_q : ndarray of shape (n, k + 1)
        Log-probabilities of the labels that are counted, and of all others; rows sum to 1.
    counters : ndarray of int64 of shape (k, 3)
        The least count, the last value of the counter, and whether it saturates.
    bounds : tuple of int
        The least and the largest number of instances that are counted.
    table : int
        Number of values of the forward table stored at once: see `TABLE`.
    posterior : ndarray of shape (n, k + 1)
        Receives the probability of each label for each instance; rows sum to 1.

    Returns
    -------
    float
        log of the sum; -inf if it is 0.
    """
    k, size = len(counters), 1.0
    for c in range(k):
        size *= counters[c, 1] + 1.0
    if size <= FEW and (len(log_q) + 1) * size <= table:
        total, shared = _few_states(np.exp(log_q), counters, bounds, posterior)
        if shared >= LOST:
            return total
    order, longest = np.arange(k), counters[:, 1].argmax()
    order[0], order[longest] = longest, 0  # the first changes within a block
    chosen = counters[order]
    logs, joint = np.empty_like(log_q), np.empty_like(log_q)
    for c in range(k):
        logs[:, c] = log_q[:, order[c]]
    logs[:, k] = log_q[:, k]
    total, shared = _count_pass(np.exp(logs), chosen, bounds, table, None, joint)
    if shared < LOST:
        total, shared = _count_pass(logs, chosen, bounds, table, True, joint)
    for c in range(k):
        posterior[:, order[c]] = joint[:, c]
    posterior[:, k] = joint[:, k]
    return total


@_compiled
def _few_states(q, counters, bounds, joint):
    """As `_count_pass`, for few states; one more receives what is beyond a bound."""
    n, k, size = len(q), len(counters), 1
    for c in range(k):
        size *= counters[c, 1] + 1
    then, after, before = np.empty((size, k), np.int64), np.zeros(size + 1), np.zeros(size + 1)
    for state in range(size):
        step, n_counted, enough = 1, 0, True
        for c in range(k):
            value = state // step % (counters[c, 1] + 1)
            n_counted += value
            enough &= value >= counters[c, 0]
            then[state, c] = state if counters[c, 2] else size
            if value < counters[c, 1]:
                then[state, c] = state + step
            step *= counters[c, 1] + 1
        if enough and bounds[0] <= n_counted <= bounds[1]:
            after[state] = 1.0
    a = np.zeros((n + 1, size + 1))
    a[0, 0] = 1.0
    total, shared = 0.0, 1.0
    for i in range(n):
        past, new = a[i], a[i + 1]
        for state in range(size):
            mass = past[state]
            if mass > 0.0:
                new[state] += mass * q[i, k]
                for c in range(k):
                    new[then[state, c]] += mass * q[i, c]
        total += _scaled(new[:size])
    found = (a[n] * after).sum()
    if found == 0.0:
        return -np.inf, 0.0
    for i in range(n - 1, -1, -1):
        past, row = a[i], joint[i]
        row[:] = 0.0
        for state in range(size):
            mass, value = past[state], q[i, k] * after[state]
            row[k] += mass * value
            for c in range(k):
                more = q[i, c] * after[then[state, c]]
                row[c] += mass * more
                value += more
            before[state] = value
        common = row.sum()
        shared = min(shared, common)
        if common == 0.0:
            return -np.inf, 0.0
        row /= common
        _scaled(before[:size])
        after, before = before, after
    return total + np.log(found), shared


@_compiled
def _count_pass(q, counters, bounds, table, log, joint):
    """Fill `joint`, whose rows sum to 1; return log of the sum, and what A and B share at least.

    A and B are scaled when they are small. What underflows does not matter if they share enough of
    their mass at each instance.
    """
    n, k = len(q), len(counters)
    caps, zero = counters[:, 1], 0.0 if log is None else -np.inf
    width, n_blocks = caps[0] + 1, np.int64(1)
    steps = np.zeros(k, np.int64)  # from a state to that with one more instance
    steps[0] = 1
    for c in range(1, k):
        steps[c] = n_blocks * width
        n_blocks *= caps[c] + 1
    # Of each block: its counters, the instances it has, and those it needs.
    values = np.zeros((n_blocks, k), np.int64)
    spent, owed = np.zeros(n_blocks, np.int64), np.zeros(n_blocks, np.int64)
    for h in range(n_blocks):
        for c in range(1, k):
            values[h, c] = h * width // steps[c] % (caps[c] + 1)
            spent[h] += values[h, c]
            owed[h] += max(counters[c, 0] - values[h, c], 0)
    lattice = counters, steps, values, spent, owed
    size = n_blocks * width
    s = n if (n + 1) * size <= table else int(np.ceil(np.sqrt(n)))
    n_parts = (n + s - 1) // s
    a, kept = np.empty((s + 1, size)), np.empty((n_parts, size))
    a[0] = zero
    a[0, 0] = 1.0 if log is None else 0.0
    total, shared = 0.0, 1.0
    for part in range(n_parts):
        kept[part] = a[0]
        stop = min(n, (part + 1) * s)
        for i in range(part * s, stop):
            j = i - part * s
            total += _count_forward(q[i], i + 1, n, lattice, log, a[j], a[j + 1])
        if stop < n:
            a[0] = a[s]
    end = a[n - (n_parts - 1) * s]
    after, before, found = np.full(size, zero), np.empty(size), zero
    for h in range(n_blocks):
        for j in range(counters[0, 0] if owed[h] == 0 else width, width):
            if bounds[0] <= spent[h] + j <= bounds[1]:
                after[h * width + j] = 1.0 if log is None else 0.0
                found = _plus(found, end[h * width + j], log)
    if found == zero:
        joint[:] = 0.0
        return -np.inf, 0.0
    total += found if log is not None else np.log(found)
    for part in range(n_parts - 1, -1, -1):
        stop = min(n, (part + 1) * s)
        if stop < n:
            a[0] = kept[part]
            for i in range(part * s, stop):
                j = i - part * s
                _count_forward(q[i], i + 1, n, lattice, log, a[j], a[j + 1])
        for i in range(stop - 1, part * s - 1, -1):
            past = a[i - part * s]
            common = _count_backward(q[i], i, n, lattice, log, past, after, before, joint[i])
            if log is None:
                shared = min(shared, common)
                if common == 0.0:
                    return -np.inf, 0.0
            after, before = before, after
    return total, shared


@_vectorised
def _count_forward(q, i, n, lattice, log, a, new):
    """Compute A after i instances from A before the last of them; return the log of its scale."""
    counters, steps, values, spent, owed = lattice
    k, cap, width = len(counters), counters[0, 1], counters[0, 1] + 1
    zero = 0.0 if log is None else -np.inf
    for h in range(len(spent)):
        base, low = h * width, max(0, counters[0, 0] - (n - i - owed[h]))
        high = min(cap, i - spent[h])
        if owed[h] > n - i or low > high:
            new[base : base + width] = zero
            continue
        new[base : base + low] = zero
        new[base + high + 1 : base + width] = zero
        stay = q[k]
        for c in range(1, k):
            if counters[c, 2] and values[h, c] == counters[c, 1]:
                stay = _plus(stay, q[c], log)
        first, stop, one = _unsigned(base + low), _unsigned(base + high + 1), _unsigned(1)
        for j in range(first, stop):
            new[j] = _times(stay, a[j], log)
        for j in range(max(first, _unsigned(base) + one), stop):
            new[j] = _plus(new[j], _times(q[0], a[j - one], log), log)
        if high == cap and counters[0, 2]:
            new[base + cap] = _plus(new[base + cap], _times(q[0], a[base + cap], log), log)
        for c in range(1, k):
            if values[h, c] > 0:
                chance, step = q[c], _unsigned(steps[c])
                for j in range(first, stop):
                    new[j] = _plus(new[j], _times(chance, a[j - step], log), log)
    return 0.0 if log is not None else _scaled(new)


@_vectorised
def _scaled(values):
    """Divide values by their sum if it is small; return its logarithm, or 0."""
    total = 0.0
    for j in range(len(values)):
        total += values[j]
    if total >= SMALL or total == 0.0:
        return 0.0
    for j in range(len(values)):
        values[j] /= total
    return np.log(total)


@_vectorised
def _count_backward(q, i, n, lattice, log, a, b, new, joint):
    """Compute B before instance i from B after it, and the posterior label of the instance.

    Returns what A and B share: the sum of their products.
    """
    counters, steps, values, spent, owed = lattice
    k, cap, width = len(counters), counters[0, 1], counters[0, 1] + 1
    zero = 0.0 if log is None else -np.inf
    joint[:] = zero
    for h in range(len(spent)):
        base, low = h * width, max(0, counters[0, 0] - (n - i - owed[h]))
        high = min(cap, i - spent[h])
        if owed[h] > n - i or low > high:
            new[base : base + width] = zero
            continue
        new[base : base + low] = zero
        new[base + high + 1 : base + width] = zero
        first, stop, one = _unsigned(base + low), _unsigned(base + high + 1), _unsigned(1)
        stay, total = q[k], zero
        for c in range(1, k):
            if counters[c, 2] and values[h, c] == counters[c, 1]:
                stay = _plus(stay, q[c], log)
        for j in range(first, stop):
            new[j] = _times(stay, b[j], log)
            total = _plus(total, _times(a[j], b[j], log), log)
        joint[k] = _plus(joint[k], total, log)
        same, total = total, zero
        for j in range(first, min(stop, _unsigned(base + cap))):
            new[j] = _plus(new[j], _times(q[0], b[j + one], log), log)
            total = _plus(total, _times(a[j], b[j + one], log), log)
        if high == cap and counters[0, 2]:
            last = base + cap
            new[last] = _plus(new[last], _times(q[0], b[last], log), log)
            total = _plus(total, _times(a[last], b[last], log), log)
        joint[0] = _plus(joint[0], total, log)
        for c in range(1, k):
            chance, step, total = q[c], _unsigned(steps[c]), zero
            if values[h, c] < counters[c, 1]:
                for j in range(first, stop):
                    new[j] = _plus(new[j], _times(chance, b[j + step], log), log)
                    total = _plus(total, _times(a[j], b[j + step], log), log)
            elif counters[c, 2]:
                total = same
            joint[c] = _plus(joint[c], total, log)
    for c in range(k + 1):
        joint[c] = _times(q[c], joint[c], log)
    if log is None:
        common = joint.sum()
        if common > 0.0:
            joint /= common
        _scaled(new)
        return common
    joint[:] = np.exp(joint - log_sum(joint))
    return 0.0

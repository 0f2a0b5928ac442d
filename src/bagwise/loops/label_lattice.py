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

Values are probabilities or, for the bags in which these underflow, logarithms: numba compiles the
functions for logarithms on their first use.

Blocks without a state that i instances can reach and n - i can complete are skipped: with as many
instances as are needed, most are.
"""

import math

import numpy as np

from bagwise._common.types import Bools, Floats, Ints
from bagwise.loops.arguments import Counters, Labelings, Plan
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


def operations(sizes: Ints, n_labels: Ints, spurious: bool) -> Floats:
    """Cost of one pass over each bag: instances x states x labels, without unreachable states.

    With `spurious` a state need not be completed.
    """
    n, k = np.asarray(sizes, np.float64), np.asarray(n_labels, np.float64)
    total, choose = np.zeros(len(n)), np.ones(len(n))
    for level in range(int(k.max(initial=0)) + 1):
        last = n if spurious else np.minimum(n, n - k + level)
        reached = np.maximum(0.0, last - max(1, level) + 1)
        total += np.where(level <= k, choose * reached, 0.0)
        choose *= np.maximum(k - level, 0.0) / (level + 1)
    return k * total


def labelings(sizes: Ints, n_labels: Ints) -> Labelings:
    """Arrays for bags of so many instances and labels, to be filled."""
    offsets, places = np.zeros((2, len(sizes) + 1), np.int64)
    sizes.cumsum(out=offsets[1:])
    (sizes * (n_labels + 1)).cumsum(out=places[1:])
    log_q, posterior = np.empty((2, places[-1]))
    return Labelings(offsets, places, log_q, posterior)


def normalise(bags: Labelings, n_labels: Ints) -> Floats:
    """Subtract from each row of log q the logarithm of its sum, and set the posterior to q.

    Returns
    -------
    ndarray of shape (n_bags,)
        The sum of these logarithms.
    """
    n, totals = np.diff(bags.offsets), np.zeros(len(n_labels))
    widths = np.repeat(n_labels + 1, n)
    first, log_q, q = widths.cumsum() - widths, bags.log_q, bags.posterior
    norms = np.maximum.reduceat(log_q, first)
    np.exp(np.subtract(log_q, np.repeat(norms, widths), out=q), out=q)
    norms += np.log(np.add.reduceat(q, first))
    log_q -= np.repeat(norms, widths)
    np.exp(log_q, out=q)
    np.add.at(totals, np.repeat(np.arange(len(n)), n), norms)
    return totals


def sum_over_labelings(
    bags: Labelings, chosen: Bools, lacking: Floats, *, once: bool = False, table: int = TABLE
) -> tuple[Floats, Floats]:
    """Sum the weights of all labelings of bags, and find the posterior label of each instance.

    Parameters
    ----------
    bags : Labelings
        The bags; the posteriors of those that are chosen are filled.
    chosen : ndarray of bool of shape (n_bags,)
        Which bags.
    lacking : ndarray of shape (n_bags, n)
        Logarithm of the weight of a labeling that lacks m of the labels.
    once : bool, default=False
        Whether at most one instance has each label.
    table : int
        Number of values of the forward table stored at once.

    Returns
    -------
    log_totals : ndarray of shape (n_bags,)
        0 for other bags.
    absent : ndarray of shape (n_bags,)
        The expected number of labels that no instance has.
    """
    totals, absent = np.where(chosen, np.nan, 0.0), np.zeros(len(chosen))
    for log in None, True:
        if np.isnan(totals).any():
            _sum_over_sets(*bags, lacking, once or None, table, log, totals, absent)
    return totals, absent


# `log` is None, or True if values are logarithms, and so is `once`: numba compiles a version for
# each. A bag whose total is NaN is to be summed.


@_compiled
def _times(x, y, log):
    return x * y if log is None else x + y


@_compiled
def log_plus(x, y):
    """Logarithm of a sum, from the logarithms of its terms."""
    if x == -np.inf or y == -np.inf:
        return max(x, y)
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


@_compiled
def _plus(x, y, log):
    return x + y if log is None else log_plus(x, y)


@_vectorised
def _sum_over_sets(offsets, places, log_q, posterior, lacking, once, table, log, totals, absent):
    for bag in range(len(totals)):
        if not np.isnan(totals[bag]):
            continue
        n = offsets[bag + 1] - offsets[bag]
        k = (places[bag + 1] - places[bag]) // n - 1
        if once is None and k == 1:
            free = -np.inf
            for i in range(n):
                free = max(free, log_q[places[bag] + 2 * i + 1])
            if free == -np.inf:  # there is nothing to choose
                totals[bag] = lacking[bag, 0]
                continue
        width = max(k, 3)
        q, joint = np.empty((n, width + 1)), np.empty((n, width + 1))
        for i in range(n):
            first = places[bag] + i * (k + 1)
            for c in range(k, width):
                q[i, c] = 0.0 if log is None else -np.inf
            for c in range(k + 1):
                value = log_q[first + c]
                q[i, c if c < k else width] = math.exp(value) if log is None else value
        total, lost = _pass(q, k, lacking[bag], once, table, log, joint)
        if log is None:
            if not total > UNDERFLOW:
                continue
            totals[bag] = math.log(total)
        else:
            totals[bag] = total
        absent[bag] = lost
        for i in range(n):
            first, norm = places[bag] + i * (k + 1), 0.0
            for c in range(k + 1):
                value = joint[i, c if c < k else width]
                posterior[first + c] = value if log is None else math.exp(value - total)
                norm += posterior[first + c]
            for c in range(k + 1):
                posterior[first + c] /= norm


@_vectorised
def _pass(q, k, lacking, once, table, log, joint):
    """Fill `joint`; return the sum over labelings, and the expected number of absent labels.

    A small forward table is stored as a whole. A large one is stored at every s-th instance only,
    s = sqrt(n), and recomputed part by part.
    """
    n, width = len(q), q.shape[1] - 1
    start, size = (1 << width) - (1 << k), 1 << width
    zero = 0.0 if log is None else -np.inf
    counts = np.empty(size >> 3, np.int64)  # number of bits of each block
    counts[0] = 0
    for block in range(1, len(counts)):
        counts[block] = counts[block >> 1] + (block & 1)
    least = 0  # number of labels that a labeling needs
    while least < k and lacking[k - least] == -np.inf:
        least += 1
    # After i instances, a state that counts has between low + i and high + i bits: see `_skipped`.
    low, high = least + width - k - n, width - k
    s = n if (n + 1) * size <= table else math.ceil(math.sqrt(n))
    n_parts = (n + s - 1) // s
    a, kept, b = np.empty((s + 1, size)), np.empty((n_parts, size)), np.empty((2, size))
    sums, total, absent = np.empty(8 * (width + 1)), zero, zero
    for state in range(size):
        kept[0, state] = b[n & 1, state] = zero
    kept[0, start] = 1.0 if log is None else 0.0
    for turn in range(2 * n_parts - 1):  # forward through all parts, then back
        part = min(turn, 2 * (n_parts - 1) - turn)
        first, stop = part * s, min(n, (part + 1) * s)
        for state in range(size):
            a[0, state] = kept[part, state]
        for i in range(first, stop):
            j = i - first
            _forward(q[i], width, low + i + 1, high + i + 1, counts, once, log, a[j], a[j + 1])
        if turn < n_parts - 1:
            for state in range(size):
                kept[part + 1, state] = a[s, state]
            continue
        if turn == n_parts - 1:
            for state in range(start & 7, size):
                seen = not _skipped(counts[state >> 3], low + n, high + n)
                if seen and state & start == start:
                    m = width - counts[state >> 3]
                    m -= (state & 1) + (state >> 1 & 1) + (state >> 2 & 1)
                    weight = math.exp(lacking[m]) if log is None else lacking[m]
                    b[n & 1, state] = weight
                    weight = _times(a[stop - first, state], weight, log)
                    total = _plus(total, weight, log)
                    if m > 0:
                        times = float(m) if log is None else math.log(m)
                        absent = _plus(absent, _times(weight, times, log), log)
            if total == zero:
                break
        for i in range(stop - 1, first - 1, -1):
            after, before = b[(i + 1) & 1], b[i & 1]
            row, past = joint[i], a[i - first]
            _backward(
                q[i], width, low + i, high + i, counts, once, log, past, after, before, row, sums
            )
    if total == zero:
        return total, 0.0
    return total, absent / total if log is None else math.exp(absent - total)


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
                    if once is None:
                        before = _plus(before, here, log)
                    value = _plus(value, _times(q[c], before, log), log)
            new[block + _unsigned(j)] = value
        for c in range(3, k):
            bit = _unsigned(1) << _unsigned(c)
            if block & bit:
                less, chance = block - bit, q[c]
                for j in range(8):
                    before, state = a[less + _unsigned(j)], block + _unsigned(j)
                    if once is None:
                        before = _plus(before, a[state], log)
                    new[state] = _plus(new[state], _times(chance, before, log), log)


@_vectorised
def _backward(q, k, low, high, counts, once, log, a, b, new, joint, sums):
    """Compute B before an instance from B after it, and the joint probability of its labels."""
    zero = 0.0 if log is None else -np.inf
    for at in range(8 * (k + 1)):  # of each label, for each of the eight states of a block
        sums[at] = zero
    for h in range(len(counts)):
        block = _unsigned(h) << _unsigned(3)
        if _skipped(counts[h], low, high):
            if counts[h] + 3 == low - 1:  # the next step reads it
                for j in range(8):
                    new[block + _unsigned(j)] = zero
            continue
        for j in range(8):
            past, ahead = a[block + _unsigned(j)], b[block + _unsigned(j)]
            value, own = _times(q[k], ahead, log), _unsigned(8 * k + j)
            sums[own] = _plus(sums[own], _times(past, ahead, log), log)
            for c in range(3):
                if once is None or not j >> c & 1:
                    ahead, own = b[block + _unsigned(j | (1 << c))], _unsigned(8 * c + j)
                    value = _plus(value, _times(q[c], ahead, log), log)
                    sums[own] = _plus(sums[own], _times(past, ahead, log), log)
            new[block + _unsigned(j)] = value
        for c in range(3, k):
            bit = _unsigned(1) << _unsigned(c)
            if once is None or not block & bit:
                more, chance, place = block | bit, q[c], _unsigned(8 * c)
                for j in range(8):
                    ahead, state = b[more + _unsigned(j)], block + _unsigned(j)
                    new[state] = _plus(new[state], _times(chance, ahead, log), log)
                    own = place + _unsigned(j)
                    sums[own] = _plus(sums[own], _times(a[state], ahead, log), log)
    for c in range(k + 1):
        total = zero
        for j in range(8):
            total = _plus(total, sums[8 * c + j], log)
        joint[c] = _times(q[c], total, log)


# Counts


def plan(sizes: Ints, lower: Ints, upper: Ints, background: bool, max_operations: float) -> Plan:
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

    Returns
    -------
    Plan
    """
    n, needed = sizes[:, None], lower.sum(axis=1, keepdims=True)
    top = np.where(upper == NO_LIMIT, n, np.minimum(upper, n))
    left = n - needed + lower  # what the other labels leave
    exact = needed == n  # each label has exactly the least number
    saturates = (top >= left) & ~exact
    most = np.where(exact, lower, np.maximum(np.minimum(top, left), 0))
    free = saturates & (lower == 0)
    caps = np.where(free, -1, np.where(saturates, lower, most))
    caps[(most == 0) | (upper == 0)] = -2
    full = np.where(caps > 0, caps + 1.0, 1.0).prod(axis=1)
    possible = (needed <= n).all(axis=1) & (lower <= top).all(axis=1)
    possible &= background | (top.sum(axis=1) >= sizes)
    # If nothing is free, the label with the largest counter is spared.
    rows, last = np.arange(len(n)), most.argmax(axis=1)
    others = most + 1.0
    others[rows, last] = 1.0
    every, n_possible = others.prod(axis=1), (most > 0).sum(axis=1)
    spared = possible & (every < full) & (exact[:, 0] | ~(background | free.any(axis=1)))
    spared &= exact[:, 0] | (n_possible <= 2) | (sizes * every * n_possible <= max_operations)
    own = np.where(most > 0, most, -2)
    own[rows, last] = -1
    caps, saturates = np.where(spared[:, None], own, caps), saturates & ~spared[:, None]
    states = np.where(possible, np.where(spared, every, full), 0.0)
    return Plan(caps, saturates, np.where(spared, last, -1), states)


def sum_over_counts(
    bags: Labelings, chosen: Bools, counts: Counters, *, table: int = TABLE
) -> Floats:
    """Sum the weights of the labelings whose counts are in a box; find the posterior labels.

    Parameters
    ----------
    bags : Labelings
        The bags, after `normalise`; the posteriors of those that are chosen are filled.
    chosen : ndarray of bool of shape (n_bags,)
        Which bags.
    counts : Counters
        Bounds of the counts.
    table : int
        Number of values of the forward table stored at once.

    Returns
    -------
    ndarray of shape (n_bags,)
        log of the sum; -inf if it is 0, and 0 for other bags.
    """
    totals = np.where(chosen, np.nan, 0.0)
    if chosen.any():
        _few_states(*bags, *counts, table, totals)
    for log in None, True:
        if np.isnan(totals).any():
            _sum_over_blocks(*bags, *counts, table, log, totals)
    return totals


@_compiled
def _few_states(offsets, places, log_q, posterior, label_offsets, counters, counted, table, totals):
    """Sum over the bags with few states; one more state receives what is beyond a bound."""
    for bag in range(len(totals)):
        n, first = offsets[bag + 1] - offsets[bag], label_offsets[bag]
        k, size = label_offsets[bag + 1] - first, 1
        for c in range(first, first + k):
            size = min(size * (counters[c, 1] + 1), FEW + 1)
        if not np.isnan(totals[bag]) or size > FEW or (n + 1) * size > table:
            continue
        then, a = np.empty((size, k), np.int64), np.empty((n + 1, size + 1))
        b, joint = np.empty((2, size + 1)), np.empty(k + 1)
        for state in range(size):
            step, n_counted, enough = 1, 0, True
            for c in range(k):
                least, last = counters[first + c, 0], counters[first + c, 1]
                value = state // step % (last + 1)
                n_counted += value
                enough &= value >= least
                then[state, c] = state if counters[first + c, 2] else size
                if value < last:
                    then[state, c] = state + step
                step *= last + 1
            enough &= counted[bag, 0] <= n_counted <= counted[bag, 1]
            b[n & 1, state] = 1.0 if enough else 0.0
            a[0, state] = 0.0
        a[0, 0], b[0, size], b[1, size] = 1.0, 0.0, 0.0
        total, found, shared = 0.0, 0.0, 1.0
        for i in range(n):
            at, past, new = places[bag] + i * (k + 1), a[i], a[i + 1]
            for state in range(size + 1):
                new[state] = 0.0
            for state in range(size):
                mass = past[state]
                if mass > 0.0:
                    new[state] += mass * posterior[at + k]
                    for c in range(k):
                        new[then[state, c]] += mass * posterior[at + c]
            total += _scaled(new[:size])
        for state in range(size):
            found += a[n, state] * b[n & 1, state]
        for i in range(n - 1, -1, -1):
            at, past = places[bag] + i * (k + 1), a[i]
            after, before = b[(i + 1) & 1], b[i & 1]
            for c in range(k + 1):
                joint[c] = 0.0
            for state in range(size):
                mass, value = past[state], posterior[at + k] * after[state]
                joint[k] += mass * value
                for c in range(k):
                    more = posterior[at + c] * after[then[state, c]]
                    joint[c] += mass * more
                    value += more
                before[state] = value
            common = 0.0
            for c in range(k + 1):
                common += joint[c]
            shared = min(shared, common)
            if common == 0.0:
                break
            for c in range(k + 1):
                posterior[at + c] = joint[c] / common
            _scaled(before[:size])
        if shared >= LOST:
            totals[bag] = total + math.log(found)


@_compiled
def _sum_over_blocks(
    offsets, places, log_q, posterior, label_offsets, counters, counted, table, log, totals
):
    for bag in range(len(totals)):
        if not np.isnan(totals[bag]):
            continue
        n, first = offsets[bag + 1] - offsets[bag], label_offsets[bag]
        k, longest = label_offsets[bag + 1] - first, 0
        order, chosen = np.empty(k + 1, np.int64), np.empty((k, 3), np.int64)
        q, joint = np.empty((n, k + 1)), np.empty((n, k + 1))
        for c in range(k + 1):
            order[c] = c
            if c < k and counters[first + c, 1] > counters[first + longest, 1]:
                longest = c
        order[0], order[longest] = longest, 0  # the first changes within a block
        for c in range(k):
            for j in range(3):
                chosen[c, j] = counters[first + order[c], j]
        for i in range(n):
            for c in range(k + 1):
                value = log_q[places[bag] + i * (k + 1) + order[c]]
                q[i, c] = math.exp(value) if log is None else value
        low, high = counted[bag, 0], counted[bag, 1]
        total, shared = _count_pass(q, chosen, low, high, table, log, joint)
        if log is None and shared < LOST:
            continue
        totals[bag] = total
        for i in range(n):
            for c in range(k + 1):
                posterior[places[bag] + i * (k + 1) + order[c]] = joint[i, c]


@_compiled
def _count_pass(q, counters, lowest, highest, table, log, joint):
    """Fill `joint`, whose rows sum to 1; return log of the sum, and what A and B share at least.

    A and B are scaled when they are small. What underflows does not matter if they share enough of
    their mass at each instance.
    """
    n, k = len(q), len(counters)
    width, n_blocks, zero = counters[0, 1] + 1, 1, 0.0 if log is None else -np.inf
    steps = np.empty(k, np.int64)  # from a state to that with one more instance
    steps[0] = 1
    for c in range(1, k):
        steps[c] = n_blocks * width
        n_blocks *= counters[c, 1] + 1
    # Of each block: its counters, the instances it has, and those it needs.
    values = np.empty((n_blocks, k), np.int64)
    spent, owed = np.empty(n_blocks, np.int64), np.empty(n_blocks, np.int64)
    for h in range(n_blocks):
        spent[h] = owed[h] = 0
        for c in range(1, k):
            values[h, c] = h * width // steps[c] % (counters[c, 1] + 1)
            spent[h] += values[h, c]
            owed[h] += max(counters[c, 0] - values[h, c], 0)
    lattice = counters, steps, values, spent, owed
    size = n_blocks * width
    s = n if (n + 1) * size <= table else math.ceil(math.sqrt(n))
    n_parts = (n + s - 1) // s
    a, kept, b = np.empty((s + 1, size)), np.empty((n_parts, size)), np.empty((2, size))
    total, found, shared = 0.0, zero, 1.0
    for state in range(size):
        kept[0, state] = b[n & 1, state] = zero
    kept[0, 0] = 1.0 if log is None else 0.0
    for turn in range(2 * n_parts - 1):  # forward through all parts, then back
        part = min(turn, 2 * (n_parts - 1) - turn)
        first, stop = part * s, min(n, (part + 1) * s)
        for state in range(size):
            a[0, state] = kept[part, state]
        for i in range(first, stop):
            scale = _count_forward(q[i], i + 1, n, lattice, log, a[i - first], a[i - first + 1])
            total += scale if turn < n_parts else 0.0
        if turn < n_parts - 1:
            for state in range(size):
                kept[part + 1, state] = a[s, state]
            continue
        if turn == n_parts - 1:
            for h in range(n_blocks):
                for j in range(counters[0, 0] if owed[h] == 0 else width, width):
                    if lowest <= spent[h] + j <= highest:
                        state = h * width + j
                        b[n & 1, state] = 1.0 if log is None else 0.0
                        found = _plus(found, a[stop - first, state], log)
            if found == zero:
                break
        for i in range(stop - 1, first - 1, -1):
            after, before = b[(i + 1) & 1], b[i & 1]
            common = _count_backward(
                q[i], i, n, lattice, log, a[i - first], after, before, joint[i]
            )
            shared = min(shared, common)
    if found == zero:
        for i in range(n):
            for c in range(k + 1):
                joint[i, c] = 0.0
        return -np.inf, 0.0
    return total + (math.log(found) if log is None else found), shared


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
            low, high = width, width - 1
        first, stop, one = _unsigned(base + low), _unsigned(base + high + 1), _unsigned(1)
        for j in range(_unsigned(base), first):
            new[j] = zero
        for j in range(stop, _unsigned(base + width)):
            new[j] = zero
        if low > high:
            continue
        stay = q[k]
        for c in range(1, k):
            if counters[c, 2] and values[h, c] == counters[c, 1]:
                stay = _plus(stay, q[c], log)
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
    return math.log(total)


@_vectorised
def _count_backward(q, i, n, lattice, log, a, b, new, joint):
    """Compute B before instance i from B after it, and the posterior label of the instance.

    Returns what A and B share: the sum of their products.
    """
    counters, steps, values, spent, owed = lattice
    k, cap, width = len(counters), counters[0, 1], counters[0, 1] + 1
    zero = 0.0 if log is None else -np.inf
    for c in range(k + 1):
        joint[c] = zero
    for h in range(len(spent)):
        base, low = h * width, max(0, counters[0, 0] - (n - i - owed[h]))
        high = min(cap, i - spent[h])
        if owed[h] > n - i or low > high:
            low, high = width, width - 1
        first, stop, one = _unsigned(base + low), _unsigned(base + high + 1), _unsigned(1)
        for j in range(_unsigned(base), first):
            new[j] = zero
        for j in range(stop, _unsigned(base + width)):
            new[j] = zero
        if low > high:
            continue
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
    total = zero
    for c in range(k + 1):
        joint[c] = _times(q[c], joint[c], log)
        total = _plus(total, joint[c], log)
    for c in range(k + 1):
        if log is not None:
            joint[c] = math.exp(joint[c] - total)
        elif total > 0.0:
            joint[c] /= total
    if log is None:
        _scaled(new)
    return total

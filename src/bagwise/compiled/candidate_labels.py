"""Labels of instances among the candidate labels of their bags: scores and posteriors.

Bag i has the rows ``offsets[i]:offsets[i + 1]`` and the candidate labels
``labels[label_offsets[i]:label_offsets[i + 1]]``. Values of a row and a candidate form one block
of rows by candidates, as in ``bagwise.compiled.assignment``.

If a label has at most one row of a bag, an outcome is a matching M of rows and labels, with weight
prod_{(j, c) in M} w_jc times a factor that depends on its size. The state after j rows is the set S
of labels that they use, a bit mask:

    forward   A_0 = [empty],   A_j[S] = A_{j-1}[S] + sum_{c in S} w_jc A_{j-1}[S - c]
    backward  B_n[S] = factor of |S|,   B_{j-1}[S] = B_j[S] + sum_{c not in S} w_jc B_j[S + c]

in logarithms; rows and labels are swapped if there are fewer rows. If a label may have several
rows, the recursion is that of ``bagwise.compiled.label_subsets``.
"""

import numpy as np

from bagwise.compiled.compilation import compiled
from bagwise.compiled.label_subsets import _exact, _propagate, _softmax

# Inference method of a bag.
NOTHING = 0  # no candidates: the rows have no label
MATCHING = 1  # at most one row per label: all matchings
SUBSETS = 2  # each label has some row: forward-backward over subsets
APPROXIMATE = 3  # each label has some row: belief propagation
RESTRICTED = 4  # more labels than rows: each row independently
BEST = 5  # too many matchings: the caller takes the best one

LARGEST_PRODUCT = 1e250

_compiled = compiled()
_vectorised = compiled(fastmath={"reassoc", "contract", "nsz"})


@_vectorised
def predictive_scores(  # type: ignore[no-untyped-def]
    start, stop, offsets, Z, labels, label_offsets, pair_offsets, sums, counts, inverse_b, random,
    share, out,
):  # fmt: skip
    """Log-density of each row of the bags start:stop under each candidate, up to a constant.

    With `random` effects the predictive density of a label is N(s / (n + 1/b), 1 + 1 / (n + 1/b))
    in each direction, n and s without the row's own `share`; with fixed effects it is N(s / n, 1).
    """
    q = Z.shape[1]
    for bag in range(start, stop):
        first, last = label_offsets[bag], label_offsets[bag + 1]
        place = pair_offsets[bag]
        for row in range(offsets[bag], offsets[bag + 1]):
            for candidate in range(first, last):
                c = labels[candidate]
                own = share[place] if random else 0.0
                n = max(counts[c] - own, 0.0)
                total, log_var = 0.0, 0.0
                if random:
                    product = 1.0
                    for j in range(q):
                        gain = 1.0 / (n + inverse_b[j])
                        apart = Z[row, j] - (sums[c, j] - own * Z[row, j]) * gain
                        total += apart * apart / (1.0 + gain)
                        product *= 1.0 + gain
                        if product > LARGEST_PRODUCT:
                            log_var += np.log(product)
                            product = 1.0
                    log_var += np.log(product)
                else:
                    scale = 1.0 / n if n > 0.0 else 0.0
                    for j in range(q):
                        apart = Z[row, j] - sums[c, j] * scale
                        total += apart * apart
                out[place] = -0.5 * (total + log_var)
                place += 1


@_compiled
def posteriors(  # type: ignore[no-untyped-def]
    start, stop, offsets, null_scores, label_offsets, pair_offsets, scores, how, may_be_null,
    log_shown, log_absent, posterior, null_posterior, log_likelihood,
):  # fmt: skip
    """Probability of each candidate for each row of the bags start:stop, and of none of them.

    `scores` and `null_scores` are log-densities plus log-priors. For matchings `log_shown` and
    `log_absent` are the log-probabilities that a label has a row, and that it has none; if
    `log_absent` is -inf, as many rows as possible have a label.
    """
    for bag in range(start, stop):
        first, n = offsets[bag], offsets[bag + 1] - offsets[bag]
        k = label_offsets[bag + 1] - label_offsets[bag]
        block = slice(pair_offsets[bag], pair_offsets[bag + 1])
        null = null_scores[first : first + n]
        if how[bag] == BEST:
            continue
        if how[bag] == NOTHING:
            null_posterior[first : first + n] = 1.0
            log_likelihood[bag] = null.sum()
            continue
        weights, found = scores[block].reshape(n, k), np.zeros((n, k + 1))
        if how[bag] == MATCHING:
            ratios = weights - null.reshape(n, 1)
            factor = _size_factors(n, k, log_shown, log_absent)
            log_likelihood[bag] = null.sum() + _match(ratios, factor, found)
        else:
            log_likelihood[bag] = _cover(weights, null, how[bag], may_be_null, found)
        for i in range(n):
            null_posterior[first + i] = found[i, k]
            for c in range(k):
                posterior[block.start + i * k + c] = found[i, c]


@_compiled
def _cover(weights, null, how, may_be_null, posterior):  # type: ignore[no-untyped-def]
    """Posterior if each label has at least one row; unrestricted if there are too few rows."""
    n, k = weights.shape
    log_q, q = np.full((n, k + 1), -np.inf), np.empty((n, k + 1))
    total = 0.0
    for i in range(n):
        log_q[i, :k] = weights[i]
        if may_be_null:
            log_q[i, k] = null[i]
        norm = _softmax(log_q[i], q[i])
        total += norm
        log_q[i] -= norm
    if how == SUBSETS:
        return total + _exact(q, log_q, k, 0.0, posterior)[0]
    if how == APPROXIMATE:
        return total + _propagate(q, k, 0.0, posterior)[0]
    posterior[:] = q
    return total


@_compiled
def _size_factors(n, k, log_shown, log_absent):  # type: ignore[no-untyped-def]
    """Log-factor of a matching of each size: prior of the labels shown, in random rows."""
    most = min(n, k)
    factor = np.full(most + 1, -np.inf)
    log_placings = 0.0  # log of the placings of m labels in n rows, n! / (n - m)!
    for m in range(most + 1):
        if m == most or log_absent > -np.inf:
            absent = (k - m) * log_absent if log_absent > -np.inf else 0.0
            factor[m] = m * log_shown + absent - log_placings
        if m < most:
            log_placings += np.log(n - m)
    return factor


@_compiled
def _match(weights, factor, posterior):  # type: ignore[no-untyped-def]
    """Fill `posterior`, of shape (n, k + 1), and return the log of the sum over all matchings."""
    n, k = weights.shape
    swapped = n < k
    w = weights.T.copy() if swapped else weights
    n_steps, m = w.shape
    size = 1 << m
    forward = np.full((n_steps + 1, size), -np.inf)
    forward[0, 0] = 0.0
    for j in range(n_steps):
        for s in range(size):
            value = forward[j, s]
            for c in range(m):
                if s >> c & 1:
                    value = _log_add(value, w[j, c] + forward[j, s ^ (1 << c)])
            forward[j + 1, s] = value
    after, before = np.empty(size), np.empty(size)
    total = -np.inf
    for s in range(size):
        after[s] = factor[_n_bits(s)]
        total = _log_add(total, forward[n_steps, s] + after[s])
    for j in range(n_steps - 1, -1, -1):
        for s in range(size):
            before[s] = after[s]
        for c in range(m):
            joint = -np.inf
            for s in range(size):
                if not s >> c & 1:
                    ahead = w[j, c] + after[s | (1 << c)]
                    before[s] = _log_add(before[s], ahead)
                    joint = _log_add(joint, forward[j, s] + ahead)
            row, column = (c, j) if swapped else (j, c)
            posterior[row, column] = np.exp(joint - total)
        after, before = before, after
    for i in range(n):
        posterior[i, k] = max(0.0, 1.0 - posterior[i, :k].sum())
        posterior[i] /= posterior[i].sum()
    return total


@_compiled
def _log_add(a, b):  # type: ignore[no-untyped-def]
    if a == -np.inf:
        return b
    if b == -np.inf:
        return a
    return max(a, b) + np.log1p(np.exp(-abs(a - b)))


@_compiled
def _n_bits(state):  # type: ignore[no-untyped-def]
    bits = 0
    while state:
        state &= state - 1
        bits += 1
    return bits

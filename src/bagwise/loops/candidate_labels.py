"""Labels of instances among the candidate labels of their bags: scores and posteriors.

Bag i has the rows ``offsets[i]:offsets[i + 1]`` and the candidate labels
``labels[label_offsets[i]:label_offsets[i + 1]]``. Values of a row and a candidate form one block
of rows by candidates, as in ``bagwise.loops.assignment``.

The posterior of a bag is a sum over labelings of its rows (``bagwise.loops.label_lattice``). If
a label has at most one row of a bag, a labeling is a matching of rows and labels, with a factor
that depends on its size; rows and labels are swapped if there are fewer rows.
"""

import numpy as np

from bagwise.loops import label_sets
from bagwise.loops.compilation import compiled
from bagwise.loops.label_lattice import TABLE, normalise, sum_over_labelings

# Inference method of a bag. With SUBSETS and APPROXIMATE each label has some row.
NOTHING = label_sets.FREE  # no candidates: the rows have no label
SUBSETS = label_sets.EXACT
APPROXIMATE = label_sets.APPROXIMATE
RESTRICTED = label_sets.RESTRICTED  # more labels than rows: each row independently
MATCHING = 4  # at most one row per label: all matchings
BEST = 5  # too many matchings: the caller takes the best one

LARGEST_PRODUCT = 1e250
TINY = 1e-300

_compiled = compiled()
_vectorised = compiled(fastmath={"reassoc", "contract", "nsz"})


@_vectorised
def predictive_scores(start, stop, block, labels, Z, share, model, out):
    """Log-density of each row of the bags start:stop under each candidate, up to a constant.

    With random effects the predictive density of a label is N(s / (n + 1/b), 1 + 1 / (n + 1/b)) in
    each direction, n and s without the row's own `share`; with fixed effects it is N(s / n, 1).
    """
    offsets, label_offsets, pair_offsets = block
    sums, counts, inverse_b, random = model
    q = Z.shape[1]
    for bag in range(start, stop):
        first, last = label_offsets[bag], label_offsets[bag + 1]
        place = pair_offsets[bag]
        for row in range(offsets[bag], offsets[bag + 1]):
            for candidate in range(first, last):
                c = labels[candidate]
                own = share[place] if random else 0.0
                n = max(counts[c] - own, TINY)
                total, log_var, product = 0.0, 0.0, 1.0
                for j in range(q):
                    gain = 1.0 / (n + inverse_b[j])
                    apart = Z[row, j] - (sums[c, j] - own * Z[row, j]) * gain
                    variance = 1.0 + gain if random else 1.0
                    total += apart * apart / variance
                    product *= variance
                    if product > LARGEST_PRODUCT:
                        log_var += np.log(product)
                        product = 1.0
                out[place] = -0.5 * (total + log_var + np.log(product))
                place += 1


@_compiled
def posteriors(start, stop, block, scores, null_scores, how, prior, found):
    """Probability of each candidate for each row of the bags start:stop, and of none of them.

    `scores` and `null_scores` are log-densities plus log-priors.
    """
    for bag in range(start, stop):
        first, stop_row = block.offsets[bag], block.offsets[bag + 1]
        n, k = stop_row - first, block.label_offsets[bag + 1] - block.label_offsets[bag]
        pairs = slice(block.pair_offsets[bag], block.pair_offsets[bag + 1])
        null = null_scores[first:stop_row]
        if how[bag] == BEST:
            continue
        if how[bag] == NOTHING:
            found.null[first:stop_row] = 1.0
            found.log_likelihood[bag] = null.sum()
            continue
        weights, posterior = scores[pairs].reshape(n, k), np.empty((n, k + 1))
        if how[bag] == MATCHING:
            factors = _size_factors(n, k, prior.log_shown, prior.log_absent)
            value = null.sum() + _match(weights - null.reshape(n, 1), factors, posterior)
        else:
            log_q = np.full((n, k + 1), -np.inf)
            log_q[:, :k] = weights
            if prior.may_be_null:
                log_q[:, k] = null
            value = label_sets.given_set(log_q, how[bag], 0.0, None, (0, n), posterior)[0]
        found.log_likelihood[bag] = value
        found.null[first:stop_row] = posterior[:, k]
        found.posterior[pairs] = posterior[:, :k].copy().reshape(n * k)


@_compiled
def _size_factors(n, k, log_shown, log_absent):
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
def _match(ratios, factors, posterior):
    """Fill `posterior`, of shape (n, k + 1), and return the log of the sum over all matchings."""
    n, k = ratios.shape
    swapped = n < k
    w = ratios.T if swapped else ratios
    log_q, found = np.zeros((w.shape[0], w.shape[1] + 1)), np.empty((w.shape[0], w.shape[1] + 1))
    log_q[:, :-1] = w
    total = normalise(log_q)
    total += sum_over_labelings(log_q, factors, True, TABLE, found)[0]
    for i in range(n):
        for c in range(k):
            posterior[i, c] = found[c, i] if swapped else found[i, c]
        posterior[i, k] = max(0.0, 1.0 - posterior[i, :k].sum()) if swapped else found[i, k]
    return total

"""Labels of instances among the candidate labels of their bags: scores and posteriors.

Bag i has the rows ``offsets[i]:offsets[i + 1]`` and the candidate labels
``labels[label_offsets[i]:label_offsets[i + 1]]``. Values of a row and a candidate form one block
of rows by candidates, as in ``bagwise.loops.assignment``.

The posterior of a bag is a sum over labelings of its rows (``bagwise.loops.label_lattice``). If
a label has at most one row of a bag, a labeling is a matching of rows and labels, with a factor
that depends on its size; rows and labels are swapped if there are fewer rows.
"""

import numpy as np
from scipy.special import gammaln

from bagwise._common.types import Floats, Ints
from bagwise.loops import label_sets
from bagwise.loops.arguments import CandidateOffsets, CandidatePosterior, CandidatePrior
from bagwise.loops.compilation import compiled
from bagwise.loops.label_lattice import labelings, normalise, sum_over_labelings

# Inference method of a bag. With SUBSETS and APPROXIMATE each label has some row.
NOTHING = label_sets.FREE  # no candidates: the rows have no label
SUBSETS = label_sets.EXACT
APPROXIMATE = label_sets.APPROXIMATE
RESTRICTED = label_sets.RESTRICTED  # more labels than rows: each row independently
MATCHING = 4  # at most one row per label: all matchings
BEST = 5  # too many matchings: the caller takes the best one

LARGEST_PRODUCT = 1e250
TINY = 1e-300

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


def posteriors(
    start: int,
    stop: int,
    block: CandidateOffsets,
    scores: Floats,
    null_scores: Floats,
    how: Ints,
    prior: CandidatePrior,
    found: CandidatePosterior,
) -> None:
    """Probability of each candidate for each row of the bags start:stop, and of none of them.

    `scores` and `null_scores` are log-densities plus log-priors.
    """
    places, ends = slice(start, stop), slice(start, stop + 1)
    sizes, k = np.diff(block.offsets[ends]), np.diff(block.label_offsets[ends])
    rows, how = slice(*block.offsets[[start, stop]]), how[places]
    n, matched = np.where(how == BEST, 0, sizes), how == MATCHING
    swapped = matched & (n < k)
    n_labels = np.where(swapped, n, k)
    bags = labelings(np.where(swapped, k, n), n_labels)
    n_rows = np.diff(bags.offsets)
    # The last column of the table of each bag: none of the candidates.
    last = np.repeat(n_labels + 1, n_rows).cumsum() - 1
    is_last = np.zeros(len(bags.log_q), bool)
    is_last[last] = True
    place = np.flatnonzero(~is_last)
    pair = np.flatnonzero(np.repeat(n > 0, sizes * k)) + block.pair_offsets[start]
    ratios, null, null_scores = scores[pair], np.full(len(last), -np.inf), null_scores[rows]
    plain = np.repeat(~swapped, n_rows), np.repeat(~swapped & (n > 0), sizes)
    null[plain[0]] = null_scores[plain[1]]
    null[np.repeat(~matched & (k > 0) & (not prior.may_be_null), n_rows)] = -np.inf
    if matched.any():
        row = np.repeat(np.arange(len(null_scores)), np.repeat(np.where(n > 0, k, 0), sizes))
        first = np.cumsum(n * k) - n * k
        for bag in np.flatnonzero(swapped):
            mine = slice(first[bag], first[bag] + n[bag] * k[bag])
            place[mine] = place[mine].reshape(k[bag], n[bag]).T.ravel()
        ratios = ratios - np.where(np.repeat(swapped, n * k), null_scores[row], 0.0)
        null[~plain[0]] = 0.0
    bags.log_q[place], bags.log_q[last] = ratios, null
    values = normalise(bags, n_labels)
    if matched.any():
        factors = _size_factors(n, k, prior.log_shown, prior.log_absent)
        values += sum_over_labelings(bags, matched, factors, once=True)[0]
        of_bag = np.repeat(np.arange(len(n)), sizes)
        values += swapped * np.bincount(of_bag, null_scores, len(n))
        some = np.bincount(row, bags.posterior[place], len(null_scores))
        found.null[rows] = np.maximum(0.0, 1.0 - some)
    sets = np.where(matched, RESTRICTED, how)
    found.log_likelihood[places] = values + label_sets.given_sets(bags, n_labels, sets, 0.0)[0]
    found.posterior[pair] = bags.posterior[place]
    found.null[rows][plain[1]] = bags.posterior[last[plain[0]]]


def _size_factors(n: Ints, k: Ints, log_shown: float, log_absent: float) -> Floats:
    """Log-factor of a matching that lacks 0, 1, ... of the rows or labels that could be matched.

    Prior of the labels shown, in random rows.
    """
    n, k = n[:, None], k[:, None]
    lacking = np.arange(np.minimum(n, k).max() + 1)
    m = np.maximum(np.minimum(n, k) - lacking, 0)
    factors = m * log_shown - (gammaln(n + 1) - gammaln(n - m + 1))  # placings, n! / (n - m)!
    if log_absent > -np.inf:
        return factors + (k - m) * log_absent
    return np.where(lacking == 0, factors, -np.inf)

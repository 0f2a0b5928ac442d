"""Posterior labels of instances, given what is known of their bag: its label set, or counts.

The recursion is the one of ``bagwise.loops.label_lattice``, on the labels that are counted and on
all that are free together: labels that may have any number of instances, such as a background
class. In a label set, each label is counted up to one. If the label of an instance is known, its
probabilities are a point mass.

Label sets may be wrong. The label of an instance is not reported with probability `missing`, and a
label that no instance reports is nevertheless listed with probability `spurious`. An instance that
is not reported leaves the state unchanged, like a free label. The weight of a final state that
lacks m labels of the set is spurious^m, since any of the labels may be listed by mistake.
"""

import numpy as np

from bagwise.loops.compilation import compiled
from bagwise.loops.label_lattice import TABLE, normalise, sum_over_counts, sum_over_labelings

# Inference method of a bag.
FREE = 0  # the label set is unknown: plain softmax
EXACT = 1  # forward-backward over subsets
APPROXIMATE = 2  # loopy belief propagation
RESTRICTED = 3  # the label set is impossible: softmax inside the set
COUNTED = 4  # forward-backward over counts

TINY = 1e-300
SETTLED = 1e-10
MAX_SWEEPS = 2000

_compiled = compiled()


@_compiled
def posteriors(start, stop, sets, scores, weights, found):
    """Posterior of each instance's label and log-probability of the label sets, bags start:stop.

    `sets` are `LabelSets`, `found` is the `Inference` to be filled, `scores` are the logits. With
    weights of the bags, `found.posterior` receives (softmax - posterior) times the weight of the
    bag, the gradient of minus the log-likelihood in the scores. With known labels of instances, the
    probability is that of the label set and the known labels.
    """
    missing, gradient, n_classes = sets.missing, len(weights) > 0, scores.shape[1]
    for bag in range(start, stop):
        first, n, how = sets.offsets[bag], sets.offsets[bag + 1] - sets.offsets[bag], sets.how[bag]
        of_bag = slice(sets.set_offsets[bag], sets.set_offsets[bag + 1])
        labels = np.arange(n_classes) if how == FREE else sets.labels[of_bag]
        free = sets.free[sets.free_offsets[bag] : sets.free_offsets[bag + 1]]
        log_reported = 0.0 if how == FREE else np.log1p(-missing)
        may_be_silent = len(free) > 0 or (how != FREE and missing > 0.0)
        k = len(labels)
        codes = sets.codes[first : first + n] if len(sets.codes) else np.full(n, -1)
        log_p, log_q = scores[first : first + n].copy(), np.full((n, k + 1), -np.inf)
        normalise(log_p)
        for i in range(n):
            for c in range(k):
                if codes[i] < 0 or codes[i] == labels[c]:
                    log_q[i, c] = log_p[i, labels[c]] + log_reported
            if may_be_silent:
                log_q[i, k] = _log_silent(log_p[i], free, missing, codes[i])
        log_silent = log_q[:, k].copy()
        posterior = np.empty((n, k + 1))
        bounds = sets.counted[bag, 0], sets.counted[bag, 1]
        value, found.settled[bag], n_spurious = given_set(
            log_q, how, sets.spurious, _taken(sets.counters, of_bag), bounds, posterior
        )
        if how == RESTRICTED:
            value = -np.inf
        elif how != FREE:
            value += sets.n_absent[bag] * np.log1p(-sets.spurious)
        elif codes.max() < 0:
            value = 0.0  # nothing is known: without the error of rounding
        found.log_likelihood[bag] = value
        found.counts[bag] = 0.0
        found.counts[bag, 2] = n_spurious
        sign = -weights[bag] if gradient else 1.0
        for i in range(n):
            row = found.posterior[first + i]
            for c in range(n_classes):
                row[c] = -sign * np.exp(log_p[i, c]) if gradient else 0.0
            reported = 0.0
            for c in range(k):
                row[labels[c]] += sign * posterior[i, c]
                reported += posterior[i, c]
            if may_be_silent:
                silent = posterior[i, k]
                share = _spread(
                    sign * silent, log_p[i], log_silent[i], free, missing, codes[i], row
                )
                found.counts[bag, 0] += share * silent
                found.counts[bag, 1] += reported


# `counters` is None for label sets: numba then compiles no recursion over counts.


@_compiled
def _taken(counters, which):
    if counters is None:
        return None
    return counters[which]


@_compiled
def given_set(log_q, how, spurious, counters, bounds, posterior):
    """Fill the posterior of a bag from log-weights of its labels and of none, which it normalises.

    Without `counters`, each label has one or more instances; see `sum_over_counts`. Returns the
    log-probability of the label set, whether belief propagation settled, and the expected number of
    spurious labels.
    """
    total, k = normalise(log_q), log_q.shape[1] - 1
    if how == APPROXIMATE:
        value, settled, n_spurious = propagate(log_q, spurious, counters, posterior)
        return total + value, settled, n_spurious
    posterior[:] = np.exp(log_q)
    if counters is not None and how == COUNTED and k > 0:
        return total + sum_over_counts(log_q, counters, bounds, TABLE, posterior), True, 0.0
    if how != EXACT or k == 0 or (k == 1 and log_q[:, 1].max() == -np.inf):
        return total, True, 0.0  # there is nothing to choose
    finish = np.full(k + 1, -np.inf)
    finish[k] = 0.0
    if spurious > 0.0:
        finish[:] = np.arange(k, -1, -1) * np.log(spurious)
    value, n_spurious = sum_over_labelings(log_q, finish, False, TABLE, posterior)
    return total + value, True, n_spurious


@_compiled
def _log_silent(log_p, free, missing, code):
    """Log-weight of a free label or of no report, and of the label of the instance if known."""
    log_missing = np.log(missing) if missing > 0.0 else -np.inf
    log_free = -np.inf
    for c in free:
        if c == code:
            return log_p[code]
        log_free = np.logaddexp(log_free, log_p[c])
    if code >= 0:
        return log_p[code] + log_missing
    return np.logaddexp(log_missing, log_free + np.log1p(-missing))


@_compiled
def _spread(mass, log_p, log_silent, free, missing, code, row):
    """Distribute the probability of free labels and of no report over the labels of an instance.

    `log_silent` is the sum of their weights. Returns the share that is due to an unreported label.
    """
    if code >= 0:
        row[code] += mass
        for c in free:
            if c == code:
                return 0.0
        return 1.0
    if log_silent == -np.inf:
        return 0.0
    unreported = 0.0  # not missing * exp(...), which is NaN for very unlikely candidates
    if missing > 0.0:
        unreported = missing * np.exp(-log_silent)
        for c in range(len(row)):
            row[c] += mass * unreported * np.exp(log_p[c])
    some = 0.0
    for c in free:
        share = np.exp(log_p[c] - log_silent)
        row[c] += mass * (share - unreported * np.exp(log_p[c]))
        some += share * missing
    return unreported - some


@_compiled
def propagate(log_q, spurious, counters, belief):
    """Loopy belief propagation between the labels of instances and the bounds of the counts.

    mu[i, c]: probability that instance i has label c, without the constraint on c; r[i, c]: ratio
    of the probabilities that the count of c is allowed if i has c, and if not. In a label set, that
    some instance has c or c is spurious. Returns the Bethe approximation of log P(all), whose
    derivative in log q is the belief, whether the messages converged, and the expected number of
    spurious labels.
    """
    q = np.exp(log_q)
    n, k = len(q), q.shape[1] - 1
    r = np.ones((n, k + 1))  # without a constraint on the last column
    mu, rest, totals = np.empty((n, k)), np.empty((n, k)), np.ones(n)  # q is normalised
    news, chances = np.empty(n), np.empty(k)
    belief[:] = q
    settled = False
    for sweep in range(MAX_SWEEPS + 1):
        for i in range(n):
            for c in range(k):
                others = max(totals[i] - q[i, c] * r[i, c], 0.0)
                norm = max(q[i, c] + others, TINY)
                mu[i, c] = min(q[i, c] / norm, 1.0 - 1e-16)
                rest[i, c] = max(others / norm, 1e-16)
        damping = 0.0 if sweep < 20 else 0.5
        for c in range(k):
            chances[c] = _ratios(mu[:, c], rest[:, c], spurious, counters, c, news)
            if settled or sweep == MAX_SWEEPS:
                continue
            for i in range(n):
                new = news[i]
                if damping > 0.0:
                    new = np.exp(damping * np.log(r[i, c]) + (1.0 - damping) * np.log(new))
                r[i, c] = new
        if settled or sweep == MAX_SWEEPS:
            break
        change = 0.0
        for i in range(n):
            totals[i] = (q[i] * r[i]).sum()
            for c in range(k + 1):
                new = q[i, c] * r[i, c] / totals[i]
                change = max(change, abs(new - belief[i, c]))
                belief[i, c] = new
        settled = change < SETTLED
    # Sum of log Z over instances and labels, minus pairs.
    value, excess = np.log(totals).sum() + chances.sum(), 0.0
    for c in range(k):
        value -= np.log(mu[:, c] * r[:, c] + rest[:, c]).sum()
        if spurious > 0.0:
            excess += spurious * np.exp(np.log1p(-mu[:, c]).sum() - chances[c])
    return value, settled, excess


@_compiled
def _ratios(mu, rest, spurious, counters, c, news):
    """Fill the messages of one label; return the log-probability that its count is allowed."""
    n = len(mu)
    if counters is not None and (counters[c, 1] > 1 or not counters[c, 2]):
        log_q, posterior = np.empty((n, 2)), np.empty((n, 2))
        for i in range(n):
            log_q[i, 0], log_q[i, 1] = np.log(max(mu[i], TINY)), np.log(rest[i])
        value = sum_over_counts(log_q, counters[c : c + 1], (np.int64(0), n), TABLE, posterior)
        for i in range(n):
            odds = posterior[i, 0] / max(posterior[i, 1], TINY) * rest[i] / max(mu[i], TINY)
            news[i] = min(max(odds, TINY), 1.0 / TINY)
        return max(value, np.log(TINY))
    later = np.empty(n + 1)
    later[n] = 0.0
    for i in range(n - 1, -1, -1):
        later[i] = later[i + 1] + np.log1p(-mu[i])
    earlier = np.log1p(-spurious)
    for i in range(n):
        news[i] = 1.0 / max(-np.expm1(earlier + later[i + 1]), TINY)
        earlier += np.log1p(-mu[i])
    return np.log(max(-np.expm1(earlier), TINY))

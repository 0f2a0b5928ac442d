"""Posterior labels of instances, given that their union is exactly the label set of the bag.

The recursion is the one of ``bagwise.loops.label_lattice``, on the labels of the set and "no label
reported": a background class, allowed but not required in every bag. If the label of an instance is
known, its probabilities are a point mass.

Label sets may be wrong. The label of an instance is not reported with probability `missing`, and a
label that no instance reports is nevertheless listed with probability `spurious`. An instance that
is not reported leaves the state unchanged, like background. The weight of a final state that lacks
m labels of the set is spurious^m, since any of the labels may be listed by mistake.
"""

import numpy as np

from bagwise.loops.compilation import compiled
from bagwise.loops.label_lattice import TABLE, normalise, sum_over_labelings

# Inference method of a bag.
FREE = 0  # the label set is unknown: plain softmax
EXACT = 1  # forward-backward over subsets
APPROXIMATE = 2  # loopy belief propagation
RESTRICTED = 3  # the label set is impossible: softmax inside the set

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
    background, missing, gradient = sets.background, sets.missing, len(weights) > 0
    n_classes = scores.shape[1]
    n_labels = n_classes - 1 if background else n_classes
    for bag in range(start, stop):
        first, n, how = sets.offsets[bag], sets.offsets[bag + 1] - sets.offsets[bag], sets.how[bag]
        labels = sets.labels[sets.set_offsets[bag] : sets.set_offsets[bag + 1]]
        if how == FREE:  # any class, the background included
            labels = np.arange(n_classes)
        log_reported = 0.0 if how == FREE else np.log1p(-missing)
        may_be_silent = how != FREE and (background or missing > 0.0)
        k = len(labels)
        codes = sets.codes[first : first + n] if len(sets.codes) else np.full(n, -1)
        log_p, log_q = scores[first : first + n].copy(), np.full((n, k + 1), -np.inf)
        normalise(log_p)
        for i in range(n):
            for c in range(k):
                if codes[i] < 0 or codes[i] == labels[c]:
                    log_q[i, c] = log_p[i, labels[c]] + log_reported
            if may_be_silent:
                log_q[i, k] = _log_silent(log_p[i], background, missing, codes[i])
        posterior = np.empty((n, k + 1))
        value, found.settled[bag], n_spurious = given_set(log_q, how, sets.spurious, posterior)
        if how == RESTRICTED:
            value = -np.inf
        elif how != FREE:
            value += (n_labels - k) * np.log1p(-sets.spurious)
        elif codes.max() < 0:
            value = 0.0  # nothing is known: without the error of rounding
        found.log_likelihood[bag] = value
        found.counts[bag] = 0.0
        found.counts[bag, 2] = n_spurious
        sign = -weights[bag] if gradient else 1.0
        for i in range(n):
            row = found.posterior[first + i]
            row[:] = -sign * np.exp(log_p[i]) if gradient else np.zeros(n_classes)
            for c in range(k):
                row[labels[c]] += sign * posterior[i, c]
            if may_be_silent:
                silent = posterior[i, k]
                share = _spread(sign * silent, log_p[i], background, missing, codes[i], row)
                found.counts[bag, 0] += share * silent
                found.counts[bag, 1] += posterior[i, :k].sum()


@_compiled
def given_set(log_q, how, spurious, posterior):
    """Fill the posterior of a bag from log-weights of its labels and of none, which it normalises.

    Returns the log-probability of the label set, whether belief propagation settled, and the
    expected number of spurious labels.
    """
    total, k = normalise(log_q), log_q.shape[1] - 1
    if how == APPROXIMATE:
        value, settled, n_spurious = propagate(log_q, spurious, posterior)
        return total + value, settled, n_spurious
    posterior[:] = np.exp(log_q)
    if how != EXACT or k == 0 or (k == 1 and log_q[:, 1].max() == -np.inf):
        return total, True, 0.0  # there is nothing to choose
    finish = np.full(k + 1, -np.inf)
    finish[k] = 0.0
    if spurious > 0.0:
        finish[:] = np.arange(k, -1, -1) * np.log(spurious)
    value, n_spurious = sum_over_labelings(log_q, finish, False, TABLE, posterior)
    return total + value, True, n_spurious


@_compiled
def _log_silent(log_p, background, missing, code):
    """Log-weight of reporting nothing, jointly with the label of the instance if that is known."""
    last = len(log_p) - 1
    log_missing = np.log(missing) if missing > 0.0 else -np.inf
    if code >= 0:
        return log_p[code] + (0.0 if background and code == last else log_missing)
    return (
        np.logaddexp(log_missing, log_p[last] + np.log1p(-missing)) if background else log_missing
    )


@_compiled
def _spread(mass, log_p, background, missing, code, row):
    """Distribute the probability that an instance reports nothing over its possible labels.

    Returns the share that is due to an unreported label, not to background.
    """
    last = len(log_p) - 1
    if missing == 0.0:
        code = last  # the background
    if code >= 0:
        row[code] += mass
        return 0.0 if background and code == last else 1.0
    nothing = np.exp(log_p[last]) if background else 0.0
    total = missing + (1.0 - missing) * nothing
    for c in range(last if background else last + 1):
        row[c] += mass * missing * np.exp(log_p[c]) / total
    if background:
        row[last] += mass * nothing / total
    return missing * (1.0 - nothing) / total


@_compiled
def propagate(log_q, spurious, belief):
    """Loopy belief propagation with the constraint that some instance has each label of the set.

    mu[i, c]: probability that instance i has label c, without the constraint on c; m[i, c]:
    probability that an instance other than i has c, or that c is spurious. Returns the Bethe
    approximation of log P(all), whose derivative in log q is the belief, whether the messages
    converged, and the expected number of spurious labels.
    """
    q = np.exp(log_q)
    n, k = len(q), q.shape[1] - 1
    m = np.ones((n, k + 1))  # without a constraint on the last column
    mu, later, totals = np.empty((n, k)), np.empty(n + 1), q.sum(axis=1)
    belief[:] = q
    settled = False
    for sweep in range(MAX_SWEEPS):
        for i in range(n):
            for c in range(k):
                others = max(totals[i] - q[i, c] / m[i, c], 0.0)
                mu[i, c] = min(q[i, c] / max(q[i, c] + others, TINY), 1.0 - 1e-16)
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
        change = 0.0
        for i in range(n):
            totals[i] = (q[i] / m[i]).sum()
            for c in range(k + 1):
                new = q[i, c] / m[i, c] / totals[i]
                change = max(change, abs(new - belief[i, c]))
                belief[i, c] = new
        if change < SETTLED:
            settled = True
            break
    # Sum of log Z over instances and labels, minus pairs.
    value, excess = np.log(totals).sum() + np.log(m).sum(), 0.0
    for c in range(k):
        absent = np.log1p(-mu[:, c]).sum()
        chance = max(-np.expm1(np.log1p(-spurious) + absent), TINY)
        value += np.log(chance) - np.log(mu[:, c] + (1.0 - mu[:, c]) * m[:, c]).sum()
        excess += spurious * np.exp(absent) / chance
    return value, settled, excess

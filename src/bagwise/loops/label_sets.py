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

import math

import numpy as np

from bagwise._common.types import Bools, Floats, Ints
from bagwise.loops.arguments import Counters, Inference, Labelings, LabelSets
from bagwise.loops.compilation import compiled
from bagwise.loops.label_lattice import (
    labelings,
    log_plus,
    normalise,
    sum_over_counts,
    sum_over_labelings,
)

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


def posteriors(
    start: int, stop: int, sets: LabelSets, scores: Floats, weights: Floats, found: Inference
) -> None:
    """Posterior of each instance's label and log-probability of the label sets, bags start:stop.

    `sets` are `LabelSets`, `found` is the `Inference` to be filled, `scores` are the logits. With
    weights of the bags, `found.posterior` receives (softmax - posterior) times the weight of the
    bag, the gradient of minus the log-likelihood in the scores. With known labels of instances, the
    probability is that of the label set and the known labels.
    """
    block, n_classes = slice(start, stop), scores.shape[1]
    how, label_offsets = sets.how[block], sets.set_offsets[start : stop + 1]
    n_labels = np.where(how == FREE, n_classes, np.diff(label_offsets))
    bags = labelings(np.diff(sets.offsets[start : stop + 1]), n_labels)
    rows = slice(sets.offsets[start], sets.offsets[stop])
    log_p, log_silent = scores[rows].copy(), np.empty(bags.offsets[-1])
    log_p -= log_p.max(axis=1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    _weigh(start, sets, n_labels, *bags, log_p, log_silent)
    values, counts = normalise(bags, n_labels), None
    if sets.counters is not None:
        counts = Counters(label_offsets, sets.counters, sets.counted[block])
    chances, found.settled[block], spurious = given_sets(bags, n_labels, how, sets.spurious, counts)
    chances += sets.n_absent[block] * np.log1p(-sets.spurious)
    chances[how == RESTRICTED] = -np.inf
    unknown = how == FREE
    if len(sets.codes):
        unknown &= np.maximum.reduceat(sets.codes[rows], bags.offsets[:-1]) < 0
    values[unknown] = 0.0  # without the error of rounding
    found.log_likelihood[block] = values + np.where(how == FREE, 0.0, chances)
    found.counts[block, :2], found.counts[block, 2] = 0.0, spurious
    _spread(start, sets, n_labels, weights, *bags, log_p, log_silent, found)


def given_sets(
    bags: Labelings, n_labels: Ints, how: Ints, spurious: float, counts: Counters | None = None
) -> tuple[Floats, Bools, Floats]:
    """Fill the posteriors of bags after `normalise`, from log-weights of their labels and of none.

    Without `counts`, each label has one or more instances. Returns the log-probability of what is
    known of each bag, whether belief propagation settled, and the expected number of spurious
    labels.
    """
    settled = np.ones(len(how), bool)
    chosen = (how == EXACT) & (n_labels > 0)
    lacking = np.full((len(how), n_labels[chosen].max(initial=0) + 1), -np.inf)
    lacking[:, 0] = 0.0
    if spurious > 0.0:
        lacking[:] = np.arange(lacking.shape[1]) * np.log(spurious)
    values, n_spurious = sum_over_labelings(bags, chosen, lacking)
    if counts is not None:
        values += sum_over_counts(bags, (how == COUNTED) & (n_labels > 0), counts)
    for bag in np.flatnonzero(how == APPROXIMATE):
        q = bags.posterior[bags.places[bag] : bags.places[bag + 1]].reshape(-1, n_labels[bag] + 1)
        own = None if counts is None else counts.counters[counts.offsets[bag] :][: n_labels[bag]]
        values[bag], settled[bag], n_spurious[bag] = propagate(q, spurious, own)
    return values, settled, n_spurious


def propagate(q: Floats, spurious: float, counters: Ints | None) -> tuple[float, bool, float]:
    """Loopy belief propagation between the labels of instances and the bounds of the counts.

    mu[i, c]: probability that instance i has label c, without the constraint on c; r[i, c]: ratio
    of the probabilities that the count of c is allowed if i has c, and if not. In a label set, that
    some instance has c or c is spurious. Replaces the probabilities q by the beliefs. Returns the
    Bethe approximation of log P(all), whose derivative in log q is the belief, whether the messages
    converged, and the expected number of spurious labels.
    """
    belief, p = q.copy(), q[:, :-1]
    r, totals = np.ones(q.shape), np.ones((len(q), 1))  # no constraint on the last column
    settled = False
    for sweep in range(MAX_SWEEPS + 1):
        others = np.maximum(totals - p * r[:, :-1], 0.0)
        norm = np.maximum(p + others, TINY)
        mu, rest = np.minimum(p / norm, 1.0 - 1e-16), np.maximum(others / norm, 1e-16)
        ratios, chances = _ratios(mu, rest, spurious, counters)
        if settled or sweep == MAX_SWEEPS:
            break
        r[:, :-1] = ratios if sweep < 20 else np.sqrt(r[:, :-1]) * np.sqrt(ratios)
        new = q * r
        totals = new.sum(axis=1, keepdims=True)
        new /= totals
        settled, belief = bool(np.abs(new - belief).max() < SETTLED), new
    # Sum of log Z over instances and labels, minus pairs.
    value = np.log(totals).sum() + chances.sum() - np.log(mu * r[:, :-1] + rest).sum()
    excess = spurious * np.exp(np.log1p(-mu).sum(axis=0) - chances).sum() if spurious else 0.0
    q[:] = belief
    return float(value), settled, float(excess)


def _ratios(
    mu: Floats, rest: Floats, spurious: float, counters: Ints | None
) -> tuple[Floats, Floats]:
    """The messages of all labels, and the log-probabilities that their counts are allowed."""
    n, k = mu.shape
    before, after = np.zeros((2, n + 1, k))  # log-probabilities that no earlier, no later one has c
    log_none = np.log1p(-mu)
    log_none.cumsum(axis=0, out=before[1:])
    log_none[::-1].cumsum(axis=0, out=after[1:])
    before += np.log1p(-spurious)
    ratios = 1.0 / np.maximum(-np.expm1(before[:-1] + after[-2::-1]), TINY)
    chances = np.log(np.maximum(-np.expm1(before[-1]), TINY))
    if counters is not None and (some := (counters[:, 1] > 1) | (counters[:, 2] == 0)).any():
        m, pair = int(some.sum()), np.stack([np.maximum(mu, TINY), rest], axis=2)[:, some]
        bags = labelings(np.full(m, n), np.ones(m, np.int64))
        bags.log_q[:] = np.log(pair).swapaxes(0, 1).ravel()
        bags.posterior[:] = np.exp(bags.log_q)
        each = Counters(np.arange(m + 1), counters[some], np.tile([0, n], (m, 1)))
        values = sum_over_counts(bags, np.ones(m, bool), each)
        yes, no = bags.posterior.reshape(m, n, 2).transpose(2, 1, 0)
        odds = yes / np.maximum(no, TINY) * pair[..., 1] / pair[..., 0]
        ratios[:, some] = np.clip(odds, TINY, 1.0 / TINY)
        chances[some] = np.maximum(values, np.log(TINY))
    return ratios, chances


@_compiled
def _weigh(start, sets, n_labels, offsets, places, log_q, posterior, log_p, log_silent):
    """Fill log-weights of the labels of each bag and of none of them, for bags from `start` on."""
    missing = sets.missing
    log_missing = math.log(missing) if missing > 0.0 else -np.inf
    for bag in range(len(n_labels)):
        known, k = sets.how[start + bag] != FREE, n_labels[bag]
        base, here = sets.set_offsets[start + bag], sets.offsets[start + bag]
        free = sets.free[sets.free_offsets[start + bag] : sets.free_offsets[start + bag + 1]]
        log_reported = math.log1p(-missing) if known else 0.0
        for row in range(offsets[bag], offsets[bag + 1]):
            i, at = here + row - offsets[bag], places[bag] + (row - offsets[bag]) * (k + 1)
            code, silent = sets.codes[i] if len(sets.codes) else -1, -np.inf
            for c in range(k):
                label = sets.labels[base + c] if known else c
                may_be = code < 0 or code == label
                log_q[at + c] = log_p[row, label] + log_reported if may_be else -np.inf
            if len(free) > 0 or (known and missing > 0.0):  # a free label, or no report
                for c in free:
                    silent = log_plus(silent, log_p[row, c])
                silent = log_plus(log_missing, silent + math.log1p(-missing))
                if code >= 0:
                    silent = log_p[row, code] + log_missing
                    for c in free:
                        if c == code:
                            silent = log_p[row, code]
            log_q[at + k] = log_silent[row] = silent


@_compiled
def _spread(
    start, sets, n_labels, weights, offsets, places, log_q, posterior, log_p, log_silent, found
):
    """Distribute the probabilities of counted labels, and of none, over the classes."""
    missing, gradient, n_classes = sets.missing, len(weights) > 0, log_p.shape[1]
    for bag in range(len(n_labels)):
        known, k = sets.how[start + bag] != FREE, n_labels[bag]
        base, here = sets.set_offsets[start + bag], sets.offsets[start + bag]
        free = sets.free[sets.free_offsets[start + bag] : sets.free_offsets[start + bag + 1]]
        sign = -weights[start + bag] if gradient else 1.0
        for row in range(offsets[bag], offsets[bag + 1]):
            i, at = here + row - offsets[bag], places[bag] + (row - offsets[bag]) * (k + 1)
            code = sets.codes[i] if len(sets.codes) else -1
            out, reported = found.posterior[i], 0.0
            for c in range(n_classes):
                out[c] = -sign * math.exp(log_p[row, c]) if gradient else 0.0
            for c in range(k):
                out[sets.labels[base + c] if known else c] += sign * posterior[at + c]
                reported += posterior[at + c]
            if len(free) == 0 and (missing == 0.0 or not known):
                continue
            silent, unreported, some = posterior[at + k], 0.0, 0.0
            mass = sign * silent
            if code >= 0:
                out[code] += mass
                unreported = 1.0
                for c in free:
                    if c == code:
                        unreported = 0.0
            elif log_silent[row] > -np.inf:
                if missing > 0.0:  # not missing * exp(...), NaN for very unlikely candidates
                    unreported = missing * math.exp(-log_silent[row])
                    for c in range(n_classes):
                        out[c] += mass * unreported * math.exp(log_p[row, c])
                for c in free:
                    share = math.exp(log_p[row, c] - log_silent[row])
                    out[c] += mass * (share - unreported * math.exp(log_p[row, c]))
                    some += share * missing
            found.counts[start + bag, 0] += (unreported - some) * silent
            found.counts[start + bag, 1] += reported

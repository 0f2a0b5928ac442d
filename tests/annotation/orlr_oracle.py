"""Reference implementations of posterior labels: slow and simple."""

import itertools

import numba
import numpy as np
from scipy.special import log_softmax

from bagwise import Bags
from bagwise.compute.arrays import linear_scores
from bagwise.compute.parts import Parts
from bagwise.loops import label_sets
from bagwise.loops.arguments import Inference, LabelSets, read_only
from bagwise.solvers.annotation.orlr import PenalisedLoss
from bagwise.solvers.annotation.orlr_parts import CORRECT, ORLRPart, infer


def drawn(n_bags=40, n_classes=4, seed=0, spread=3.0):
    """Bags whose instances lie around the mean of their class; label sets are the unions."""
    rng = np.random.default_rng(seed)
    means = spread * np.random.default_rng(1).normal(size=(n_classes, 3))
    sizes = rng.integers(1, 7, n_bags)
    kinds = rng.integers(n_classes, size=sizes.sum())
    bags = Bags(
        means[kinds] + rng.normal(size=(len(kinds), 3)), np.concatenate([[0], np.cumsum(sizes)])
    )
    sets = np.zeros((n_bags, n_classes), int)
    sets[bags.bag_index, kinds] = 1
    return bags, sets, kinds


def drawn_and_known(n_bags=40, spread=1.5):
    """The same, and the class of a third of the instances; -1 for the others."""
    bags, sets, kinds = drawn(n_bags, spread=spread)
    known = np.where(np.random.default_rng(2).random(len(kinds)) < 1 / 3, kinds, -1)
    return bags, sets, kinds, known


def posterior(
    scores, labels, *, background=False, missing=0.0, spurious=0.0, how=label_sets.EXACT,
    gradient=False, codes=(),
):  # fmt: skip
    """Posterior (or gradient), log P(Y) and whether messages settled, of one bag."""
    found = inference(scores, labels, background, missing, spurious, how, gradient, codes)
    return found[:3]


def inference(scores, labels, background, missing, spurious, how, gradient, codes):
    """The same, and the expected counts of wrong reports."""
    scores = np.ascontiguousarray(scores, dtype=float)
    n, n_classes = scores.shape
    offsets = [np.array([0, len(each)]) for each in (scores, labels)]
    labels, codes = read_only(np.asarray(labels, dtype=np.int64), np.array(codes, np.int64))
    free = read_only(np.array([n_classes - 1] if background else [], np.int64))
    where = np.array([[0, n]]), np.array([0, int(background)]), *free
    n_absent = np.array([n_classes - background - len(labels)])
    known = np.array([how], np.int8), codes, None
    rates = float(missing), float(spurious)
    sets = LabelSets(*offsets, labels, *known, *read_only(where[0]), *where[1:], n_absent, *rates)
    found = Inference(np.empty_like(scores), np.empty(1), np.ones(1, bool), np.empty((1, 3)))
    label_sets.posteriors(0, 1, sets, scores, np.ones(int(gradient)), found)
    return found.posterior, found.log_likelihood[0], found.settled[0], found.counts[0]


def by_enumeration(scores, labels, background=False, known=None):
    """Sum over all labelings: the posterior (n x C) and log P(Y).

    `known` holds the label of each instance, -1 where any is possible: log P(Y, known labels).
    """
    log_p = log_softmax(scores, axis=1)
    n, n_classes = scores.shape
    allowed = [*labels, n_classes - 1] if background else list(labels)
    joint, total = np.zeros(scores.shape), 0.0
    for labeling in itertools.product(allowed, repeat=n):
        agrees = known is None or all(k in (-1, y) for k, y in zip(known, labeling, strict=True))
        if agrees and set(labels) <= set(labeling):
            chance = np.exp(log_p[np.arange(n), labeling].sum())
            joint[np.arange(n), labeling] += chance
            total += chance
    return joint / total, np.log(total)


def surrogate(problem, theta, before):
    """The auxiliary function of EM (Pham 2014, Eq. 7) for the posterior at `before`."""
    part = problem.parts.part
    here, there = (linear_scores(part.X, problem.uncentred(at)) for at in (theta, before))
    posterior = infer(part.bag_sets, slice(0, len(part.bags)), there).posterior
    weights = np.repeat(part.weights, part.bags.sizes)
    value = -weights @ (posterior * log_softmax(here, axis=1)).sum(axis=1)
    return (value + problem.reg / 2 * np.sum(theta[:, :-1] ** 2)) / problem.scale


def generalised_em(bags, sets, tol=1e-6, max_iter=5000):
    """The paper's solver: one gradient step on the auxiliary function, with backtracking (Eq. 13).

    Returns W and the objective after each step.
    """
    weights = np.ones(len(bags))
    parts = Parts(ORLRPart(bags, sets, weights))
    problem = PenalisedLoss.of(parts, bags, weights, 1.0, (CORRECT,))
    theta, length, curve = np.zeros((sets.n_classes, bags.n_features + 1)), 1.0, []
    for _ in range(max_iter):
        value, gradient = problem.loss(theta)
        curve.append(value)
        if np.abs(gradient).max() <= tol:
            break
        length, before, square = 4 * length, surrogate(problem, theta, theta), np.sum(gradient**2)
        while surrogate(problem, theta - length * gradient, theta) > before - length / 2 * square:
            length /= 2
        theta = theta - length * gradient
    return theta[:, :-1], curve


def with_wrong_sets(scores, labels, background, missing, spurious, known=None):
    """Sum over all labelings and all instances that report their label.

    Returns the posterior (n x C), log P(Y) and the expected numbers of instances that do not
    report their label, of those that do, and of labels listed by mistake.
    """
    p = np.exp(log_softmax(scores, axis=1))
    n, n_classes = scores.shape
    n_labels = n_classes - background
    joint, counts, total = np.zeros(scores.shape), np.zeros(3), 0.0
    for labeling in itertools.product(range(n_classes), repeat=n):
        if known is not None and any(
            k not in (-1, y) for k, y in zip(known, labeling, strict=True)
        ):
            continue
        has_label = np.array(labeling) < n_labels
        for reports in itertools.product([False, True], repeat=n):
            if (np.array(reports) & ~has_label).any():
                continue  # background reports nothing
            shown = {y for y, reported in zip(labeling, reports, strict=True) if reported}
            if not shown <= set(labels):
                continue
            n_reported, n_spurious = sum(reports), len(labels) - len(shown)
            n_missing = has_label.sum() - n_reported
            chance = p[np.arange(n), labeling].prod()
            chance *= (1 - missing) ** n_reported * missing**n_missing
            chance *= spurious**n_spurious * (1 - spurious) ** (n_labels - len(labels))
            joint[np.arange(n), labeling] += chance
            counts += chance * np.array([n_missing, n_reported, n_spurious])
            total += chance
    return joint / total, np.log(total), counts / total


@numba.njit(cache=True)
def paper_dp(p):
    """P(y_i = c, Y) by the forward algorithm of the paper (Eq. 12), once for each instance.

    `p` holds the probabilities of the labels of Y (n x k); quadratic in n.
    """
    n, k = p.shape
    size = 1 << k
    joint = np.zeros((n, k))
    for i in range(n):
        table = np.zeros(size)
        table[0] = 1.0
        for j in range(n):
            if j == i:  # swapped to the end
                continue
            new = np.zeros(size)
            for state in range(size):
                for c in range(k):
                    if state >> c & 1:
                        new[state] += p[j, c] * (table[state] + table[state ^ (1 << c)])
            table = new
        for c in range(k):  # Eq. 11
            joint[i, c] = p[i, c] * (table[size - 1] + table[(size - 1) ^ (1 << c)])
    return joint


def by_counts(scores, lower, upper, known=None):
    """Sum over all labelings whose counts are in the box: the posterior (n x C) and log P.

    `upper` is -1 where there is no limit. Classes without bounds follow those with bounds.
    """
    log_p = log_softmax(scores, axis=1)
    n, n_classes = scores.shape
    labelings = np.array(list(itertools.product(range(n_classes), repeat=n)))
    counts = np.column_stack([(labelings == c).sum(axis=1) for c in range(len(lower))])
    allowed = ((counts >= lower) & ((counts <= upper) | (np.array(upper) < 0))).all(axis=1)
    if known is not None:
        allowed &= ((labelings == known) | (np.array(known) < 0)).all(axis=1)
    labelings = labelings[allowed]
    chances = np.exp(log_p[np.arange(n), labelings].sum(axis=1))
    joint = np.array([chances @ (labelings == c) for c in range(n_classes)]).T
    return joint / chances.sum(), np.log(chances.sum())

r"""Counts of hidden concepts: a bag is positive if it has enough instances of each of them.

Each instance has a hidden label z: background, or one of K concepts, with log-linear probabilities,

    p(z = k | x) = exp(f(x) w_k) / (1 + sum_l exp(f(x) w_l)),

and :math:`\pi = P(N_k \ge t_k \text{ for all } k)` is exact, by a recursion over the counts. With
`dependence` rho > 1 (only t = 1), near copies in a bag count less:
P(N_k >= 1) = 1 - exp(-|rates_k|_rho) with rates -log(1 - p_k); rho = 1 with one concept is the
recursion, rho = inf the best instance. The concepts are then multiplied.

The label of a bag is wrong with probability `WRONG`: P(y = 1) = eps + (1 - 2 eps) pi.

`Search` compares settings by the likelihood of held-out bags, one setting at a time; all that were
tried are then mixed. Each member of the mixture is monotone, so no instance lowers it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bagwise import loops
from bagwise._common.types import Bools, Floats, Ints
from bagwise.loops.arguments import Counters, Labelings
from bagwise.solvers.result import SolverResult, lbfgs

WRONG = 0.02  # also keeps the gradient finite; flipped labels (15 %) need no larger value
SHORT = 15  # steps from each start, of which the best one is continued
STEEP, DEEP = 6.0, 4.0  # a start has the logit STEEP * k(x, an instance) - DEEP for each concept
RANKED, RANDOM = 8, 3  # number of starts from promising instances, and from random ones
POOL = 100  # instances of positive bags that are ranked
LIGHT = 0.1  # a member of the mixture with a lower weight is dropped


def concept_probabilities(scores: Floats) -> Floats:
    """Log-probabilities of background and the concepts, of shape (n_instances, n_concepts + 1)."""
    logits = np.column_stack([np.zeros(len(scores)), scores])
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))  # faster than logsumexp


def enough_of_each(
    log_p: Floats, offsets: Ints, needed: Sequence[int], dependence: float = 1.0
) -> tuple[Floats, Floats]:
    """Probability that a bag has enough instances of each concept, and its gradient.

    Parameters
    ----------
    log_p : ndarray of shape (n_instances, n_concepts + 1)
        As of `concept_probabilities`.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    needed : sequence of int
        How many instances of each concept.
    dependence : float, default=1.0
        rho; above 1 all of `needed` are 1.

    Returns
    -------
    pi : ndarray of shape (n_bags,)
    slopes : ndarray of shape (n_instances, n_concepts)
        The derivative of the pi of its bag by the logits of each instance.
    """
    if dependence > 1:
        return _dependent(log_p, offsets, dependence)
    n_bags, K = len(offsets) - 1, len(needed)
    log_q = np.roll(log_p, -1, axis=1).ravel()  # background last
    bags = Labelings(np.array(offsets), (K + 1) * offsets, log_q, np.exp(log_q))
    counters = np.ones((n_bags, K, 3), np.int64)  # least count, last value; more may follow
    counters[:, :, :2] = np.array(needed)[:, None]
    counted = np.column_stack([np.zeros_like(offsets[1:]), np.diff(offsets)])
    counts = Counters(K * np.arange(n_bags + 1), counters.reshape(-1, 3), counted)
    pi = np.exp(loops.label_lattice.sum_over_counts(bags, counted[:, 1] > 0, counts))
    posterior = bags.posterior.reshape(log_p.shape)
    change = posterior[:, :-1] - np.exp(log_p[:, 1:])
    return pi, change * np.repeat(pi, np.diff(offsets))[:, None]


def _dependent(log_p: Floats, offsets: Ints, rho: float) -> tuple[Floats, Floats]:
    segments, sizes, K = loops.segments, np.diff(offsets), log_p.shape[1] - 1
    p = np.exp(log_p[:, 1:])
    rest = [logsumexp(np.delete(log_p, k + 1, axis=1), axis=1) for k in range(K)]
    log_none = np.column_stack(rest)  # log(1 - p_k), without cancellation
    rates = np.maximum(-log_none, np.finfo(float).tiny)
    largest = segments.maximum(rates, offsets)
    shares = rates / np.repeat(largest, sizes, axis=0)
    norm = segments.sum(shares**rho, offsets) ** (1 / rho)  # relative to the largest rate
    found = -np.expm1(-largest * norm)  # P(N_k >= 1), of shape (n_bags, K)
    pi = found.prod(axis=1)
    slopes = np.zeros_like(p)
    for k in range(K):
        # d pi / d |rates| of the bag, times d |rates| / d rate_i
        others = np.delete(found, k, axis=1).prod(axis=1) * (1 - found[:, k])
        outer = np.repeat(others / norm[:, k] ** (rho - 1), sizes) * shares[:, k] ** (rho - 1)
        # d rate / d p_k = 1 / (1 - p_k); d p_k / d logit_l = p_k (1{k = l} - p_l)
        outer *= np.exp(np.minimum(log_p[:, k + 1] - log_none[:, k], 700.0))
        slopes -= outer[:, None] * p
        slopes[:, k] += outer
    return pi, slopes


def label_probability(pi: Floats) -> Floats:
    """Probability of a positive label, which is wrong with probability `WRONG`."""
    return WRONG + (1 - 2 * WRONG) * pi


def concept_counts(
    F: Floats,
    offsets: Ints,
    positive: Bools,
    needed: Sequence[int],
    starts: Iterable[Floats],
    *,
    dependence: float = 1.0,
    reg: float,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> SolverResult:
    """Minimise the mean loss of the bags + reg / 2 |W|^2: a few steps per start, then the best one.

    Parameters
    ----------
    F : ndarray of shape (n_instances, n_columns)
        The features, with a constant one.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    needed : sequence of int
        How many instances of each concept a positive bag has.
    starts : iterable of ndarray of shape (n_columns, n_concepts)
        Weights to start from.
    dependence : float, default=1.0
        rho of the module's docstring.
    reg : float
        Penalty of the weights.
    max_iter : int, default=200
        Maximum number of L-BFGS steps of the last run.
    tol : float, default=1e-6
        Relative decrease of the loss at which it ends.

    Returns
    -------
    SolverResult
        ``solution`` is W, of shape (n_columns, n_concepts).
    """
    sizes = np.diff(offsets)

    def loss(W: Floats) -> tuple[float, Floats]:
        log_p = concept_probabilities(F @ W)
        pi, slopes = enough_of_each(log_p, offsets, needed, dependence)
        chance = label_probability(np.where(positive, pi, 1 - pi))  # of the label that was given
        value = -np.log(chance).mean() + reg / 2 * np.vdot(W, W)
        by_pi = (1 - 2 * WRONG) * np.where(positive, -1.0, 1.0) / chance / len(positive)
        return float(value), F.T @ (np.repeat(by_pi, sizes)[:, None] * slopes) + reg * W

    def run(start: Floats, steps: int) -> SolverResult:
        curve: list[float] = []

        def keep(intermediate_result: Any) -> None:
            curve.append(intermediate_result.fun)

        found = lbfgs(loss, start, max_iter=steps, ftol=tol, gtol=1e-6, callback=keep)
        return SolverResult(found.x, curve or [found.fun], found.success)

    short = [run(start, SHORT) for start in starts]
    best = min(short, key=lambda result: result.objective_curve[-1])
    last = run(best.solution, max_iter)
    curve = np.concatenate([best.objective_curve, last.objective_curve])
    return SolverResult(last.solution, curve, last.converged)


def mixture_weights(likelihood: Floats, *, max_iter: int = 2000, tol: float = 1e-9) -> Floats:
    """Weights of a mixture that maximise the likelihood of its observations, by EM.

    Parameters
    ----------
    likelihood : ndarray of shape (n_observations, n_members)
        The likelihood of each observation under each member.
    max_iter : int, default=2000
        Maximum number of iterations.
    tol : float, default=1e-9
        Largest change of a weight at which to stop.

    Returns
    -------
    ndarray of shape (n_members,)
        Non-negative, with the sum 1.
    """
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(max_iter):
        before = weights
        weights = weights * (likelihood / (likelihood @ weights)[:, None]).mean(axis=0)
        if np.abs(weights - before).max() <= tol:
            break
    return weights


def concept_starts(
    F: Floats, n_linear: int, offsets: Ints, positive: Bools, n_concepts: int, rng: Any
) -> list[Floats]:
    """Weights to start from: each concept is near an instance of a positive bag.

    The instances are those whose similarities to the bags, multiplied over the concepts, correlate
    best with the labels, and random ones.

    Parameters
    ----------
    F : ndarray of shape (n_instances, n_columns)
        Kernel features, `n_linear` linear ones, and a constant one.
    n_linear : int
        Number of linear features.
    offsets, positive : ndarray
        As in `concept_counts`.
    n_concepts : int
        Number of concepts.
    rng : RandomState
        Draws the instances that are considered.

    Returns
    -------
    list of ndarray of shape (n_columns, n_concepts)
    """
    kernel = F[:, : F.shape[1] - 1 - n_linear]
    pool = np.flatnonzero(np.repeat(positive, np.diff(offsets)))
    pool = rng.permutation(pool)[:POOL]
    near = loops.segments.maximum(kernel @ kernel[pool].T, offsets)  # (n_bags, n_pool)
    chosen = [
        pool[np.resize(group, n_concepts)] for group in _promising(near, positive, n_concepts)
    ]
    chosen += [rng.choice(pool, n_concepts) for _ in range(RANDOM)]
    starts = np.zeros((len(chosen), F.shape[1], n_concepts))
    starts[:, -1] = -DEEP
    for start, rows in zip(starts, chosen, strict=True):
        start[: kernel.shape[1]] = STEEP * kernel[rows].T
    return list(starts)


def _promising(near: Floats, positive: Bools, size: int) -> list[list[int]]:
    """Groups of columns whose product correlates best with the labels."""
    y, n_columns = positive - positive.mean(), near.shape[1]
    means, squares = near.T @ near / len(near), (near**2).T @ near**2 / len(near)
    spread = np.sqrt(np.maximum(squares - means**2, 1e-12))
    fit = (near.T * y) @ near / spread  # of all pairs; on the diagonal of one column, squared
    if size == 1:
        return [[column] for column in np.argsort(-fit.diagonal(), kind="stable")[:RANKED].tolist()]
    groups: list[list[int]] = []
    used = np.zeros(n_columns)
    for pair in np.argsort(-fit, axis=None, kind="stable"):
        group = list(divmod(int(pair), n_columns))
        if group[0] >= group[1] or used[group].max() == 2 or len(groups) == RANKED:
            continue
        while len(group) < min(size, n_columns):
            products = near[:, group].prod(axis=1, keepdims=True) * near
            gain = y @ products / np.maximum(products.std(axis=0), 1e-6)
            gain[group] = -np.inf
            group.append(int(gain.argmax()))
        used[group] += 1
        groups.append(group)
    return groups


@dataclass(frozen=True)
class Setting:
    """One model of the mixture.

    Attributes
    ----------
    needed : tuple of int
        How many instances of each concept a positive bag has.
    dependence : float
        rho of the module's docstring.
    width : float
        Width of the kernel, relative to the median squared distance of instances.
    linear : bool
        Whether the score has a linear part.
    reg : float
        Penalty of the weights.
    """

    needed: tuple[int, ...] = (1,)
    dependence: float = 1.0
    width: float = 3.0
    linear: bool = False
    reg: float = 3e-4


@dataclass
class Search:
    """Settings and their fits, compared by the likelihood of held-out bags.

    Attributes
    ----------
    features : callable
        From a width to the features: kernel features, linear ones, and a constant one.
    n_linear : int
        Number of linear features.
    offsets, positive : ndarray
        As in `concept_counts`.
    folds : ndarray of int of shape (n_bags,)
        The fold that holds out each bag, numbered from 0; -1 for bags that are always trained on.
    rng : RandomState
        Draws the starts.
    tried : dict of Setting to (ndarray of shape (n_held_out,), list of ndarray)
        The likelihood of each held-out label, and the weights of each fold.
    settings, members, weights, specificity
        The mixture: settings, results on all bags, weights, of which the last one is that of the
        base rate, and the specificity of the concepts of each member.
    """

    features: Callable[[float], Floats]
    n_linear: int
    offsets: Ints
    positive: Bools
    folds: Ints
    rng: np.random.RandomState
    tried: dict[Setting, tuple[Floats, list[Floats]]] = field(default_factory=dict)
    settings: list[Setting] = field(default_factory=list)
    members: list[SolverResult] = field(default_factory=list)
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    specificity: list[Floats] = field(default_factory=list)

    def run(self, start: Setting, choices: Mapping[str, Sequence[Any]]) -> None:
        """Choose one setting after the other, mix all that were tried, and fit those to all bags.

        Parameters
        ----------
        start : Setting
            The first setting.
        choices : dict of str to sequence
            Values to try, by the name of the setting, in this order.
        """
        self._score(start, None)
        for name, values in choices.items():
            if name == "dependence" and max(start.needed) > 1:
                continue  # it is for one instance of each concept
            if self.folds.max() < 0:
                break
            warm = None if name == "needed" else start
            found = [replace(start, **{name: value}) for value in values]
            start = max([start, *found], key=lambda setting: self._score(setting, warm))
        self.settings, self.weights = self._mixture()
        every = np.ones(len(self.positive), dtype=bool)
        starts = [self.tried[setting][1] or None for setting in self.settings]
        self.members = [self._fit(s, every, W) for s, W in zip(self.settings, starts, strict=True)]
        for setting, member in zip(self.settings, self.members, strict=True):
            log_p = concept_probabilities(self._part(setting, every)[0] @ member.solution)
            about = setting.needed, setting.dependence
            self.specificity.append(specificity(log_p, self.offsets, self.positive, *about))

    def table(self) -> dict[str, list[Any]]:
        """A column per setting, and the mean log-likelihood of the held-out bags."""
        names = {"needed": "concepts"} | {n: n for n in ("dependence", "width", "linear")}
        columns: dict[str, list[Any]] = {
            title: [getattr(setting, name) for setting in self.tried]
            for name, title in names.items()
        }
        columns["C"] = [1 / (setting.reg * len(self.positive)) for setting in self.tried]
        likelihoods = [found for found, _ in self.tried.values()]
        means = [float(np.log(each).mean()) if len(each) else np.nan for each in likelihoods]
        return columns | {"log_likelihood": means}

    def _score(self, setting: Setting, warm: Setting | None) -> float:
        """Mean log-likelihood of the held-out bags, by fits that start at those of `warm`."""
        if setting not in self.tried:
            n_folds = self.folds.max() + 1
            starts = [None] * n_folds if warm is None else self._moved(warm, setting)
            fits = [
                self._fit(setting, self.folds != fold, starts[fold]).solution
                for fold in range(n_folds)
            ]
            likelihood = np.zeros(len(self.folds))
            for fold, W in enumerate(fits):
                held_out = self.folds == fold
                F, offsets, positive = self._part(setting, held_out)
                log_p = concept_probabilities(F @ W)
                pi, _ = enough_of_each(log_p, offsets, setting.needed, setting.dependence)
                likelihood[held_out] = label_probability(np.where(positive, pi, 1 - pi))
            self.tried[setting] = likelihood[self.folds >= 0], fits
        return float(np.log(self.tried[setting][0]).sum())

    def _fit(self, setting: Setting, which: Bools, starts: list[Floats] | None) -> SolverResult:
        """Fit a setting to some of the bags."""
        F, offsets, positive = self._part(setting, which)
        if starts is None:
            K = len(setting.needed)
            starts = concept_starts(F, self.n_linear, offsets, positive, K, self.rng)
        rho, reg = setting.dependence, setting.reg
        return concept_counts(F, offsets, positive, setting.needed, starts, dependence=rho, reg=reg)

    def _part(self, setting: Setting, which: Bools) -> tuple[Floats, Ints, Bools]:
        """Features, offsets and labels of some of the bags."""
        sizes = np.diff(self.offsets)
        F = self.features(setting.width)[np.repeat(which, sizes)]
        if not setting.linear:
            F[:, -1 - self.n_linear : -1] = 0.0
        return F, np.concatenate([[0], sizes[which].cumsum()]), self.positive[which]

    def _moved(self, before: Setting, after: Setting) -> list[list[Floats]]:
        """Weights of the folds of a setting, as starts of another one."""
        found = self.tried[before][1]
        if before.width == after.width:
            return [[W] for W in found]
        old, new = self.features(before.width), self.features(after.width)
        gram = new.T @ new + 1e-3 * len(new) * np.eye(new.shape[1])
        moved: Any = np.linalg.solve(gram, new.T @ old)
        return [[moved @ W] for W in found]

    def _mixture(self) -> tuple[list[Setting], Floats]:
        """Members that make the held-out bags most likely, and weights with that of the base rate.

        The heaviest member stays, whatever its weight; of the others those below `LIGHT` go.
        """
        settings = list(self.tried)
        if self.folds.max() < 0:
            return settings[:1], np.array([1.0, 0.0])
        share, labels = self.positive.mean(), self.positive[self.folds >= 0]
        base = np.where(labels, share, 1 - share)
        weights = mixture_weights(np.column_stack([*(f for f, _ in self.tried.values()), base]))
        keep = weights >= LIGHT
        keep[weights[:-1].argmax()] = True
        weights = np.where(keep, weights, 0.0) / weights[keep].sum()
        used = np.flatnonzero(keep[:-1])
        return [settings[i] for i in used], weights[[*used, -1]]


def instance_posterior(
    log_p: Floats, offsets: Ints, positive: Bools, needed: Sequence[int], dependence: float
) -> tuple[Floats, Floats]:
    """Probability of the label of each bag, alone and with the concept of an instance.

    By P(z = k | y) = p_k + d log P(y) / d logit_k, which is exact for independent instances.

    Parameters
    ----------
    log_p, offsets, needed, dependence
        As in `enough_of_each`.
    positive : ndarray of bool of shape (n_bags,)
        The labels.

    Returns
    -------
    joint : ndarray of shape (n_instances, n_concepts)
        P(z = k, y).
    total : ndarray of shape (n_instances, 1)
        P(y) for the bag of each instance.
    """
    pi, slopes = enough_of_each(log_p, offsets, needed, dependence)
    total = label_probability(np.where(positive, pi, 1 - pi))
    by_pi = (1 - 2 * WRONG) * np.where(positive, 1.0, -1.0) / total
    total, by_pi = (np.repeat(values, np.diff(offsets))[:, None] for values in (total, by_pi))
    return np.clip(np.exp(log_p[:, 1:]) + by_pi * slopes, 0, 1) * total, total


def specificity(
    log_p: Floats, offsets: Ints, positive: Bools, needed: Sequence[int], dependence: float
) -> Floats:
    """How much rarer each concept is in negative bags, relative to the concept that is rarest.

    A bag can satisfy a superfluous concept by any background: it has the value 0.

    Parameters
    ----------
    log_p, offsets, positive, needed, dependence
        As in `instance_posterior`.

    Returns
    -------
    ndarray of shape (n_concepts,)
        1 - P(enough of the concept in a negative bag) / P(the same in a positive bag), divided by
        its largest value.
    """
    found = []
    for k, count in enumerate(needed):
        rest = logsumexp(np.delete(log_p, k + 1, axis=1), axis=1)
        own = np.column_stack([rest, log_p[:, k + 1]])
        pi, _ = enough_of_each(own, offsets, (count,), dependence)
        pi = np.maximum(pi, np.finfo(float).tiny)
        found.append(1 - pi[~positive].mean() / pi[positive].mean())
    best = max(found)
    return np.clip(np.array(found) / best, 0, 1) if best > 0 else np.ones(len(needed))

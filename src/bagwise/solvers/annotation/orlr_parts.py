"""ORLR on a block of bags: label sets, posterior labels, and the likelihood with its gradient.

For numpy arrays ``bagwise.compiled.label_sets`` computes the posterior labels. For torch tensors
the same recursion runs on batches of bags with similar numbers of labels, one instance of each bag
per step; on a GPU it is one kernel (``orlr_kernels``). The few bags in which it underflows, or that
are approximated, are passed to the compiled code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from bagwise import compiled
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compiled.arguments import read_only
from bagwise.compiled.threads import SMALL, block_bounds, n_threads, run_blocks
from bagwise.engines import Part, codes_of_instances, digest, readable_table, to_numpy
from bagwise.engines.arrays import beside, column_sums, exp, float64, like, log_softmax, product
from bagwise.engines.tensors import Replay, has_kernels, torch

BLOCK = 2**23  # scores in memory at once
LARGEST_TABLE = 2**29  # bytes that exact inference on one bag may use
TENSOR_TABLE = 2**27  # values of the forward table of a group of bags
# Largest number of labels in each group. Larger sets need less memory in the compiled code.
SET_SIZES = 3, 6, 9, 12
RECORDED = 2**22  # number of scores up to which kernels take longer to launch than to run
UNDERFLOW = 1e-250

Rates = tuple[float, float]  # probabilities that a label is missing, and that it is spurious
CORRECT: Rates = (0.0, 0.0)


@dataclass(frozen=True)
class BagLabelSets:
    """The label set of each bag, and the known labels of its instances.

    The label set of bag b is ``set_labels[set_offsets[b]:set_offsets[b + 1]]``.

    Attributes
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    indicator : ndarray of shape (n_bags, n_labels)
        The label sets as zeros and ones; a row of -1 if the label set is unknown.
    background : bool
        Whether the last class is a background class: allowed in any bag, in no label set.
    max_operations : float
        Cost of a bag, instances x subsets x labels, beyond which its posterior is approximated.
    instance_codes : ndarray of int64 of shape (n_instances,) or (0,), default=()
        The class of each instance, -1 if unknown; empty if all are unknown.
    missing : float, default=0.0
        Probability that the label of an instance is not reported.
    spurious : float, default=0.0
        Probability that a label is listed which no instance reports.
    """

    offsets: Ints
    indicator: Ints
    background: bool
    max_operations: float
    instance_codes: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    missing: float = 0.0
    spurious: float = 0.0

    def with_rates(self, missing: float, spurious: float) -> BagLabelSets:
        """These label sets with other error rates."""
        if (missing, spurious) == (self.missing, self.spurious):
            return self
        return replace(self, missing=missing, spurious=spurious)

    @cached_property
    def has_label_set(self) -> Bools:
        """Whether the label set of each bag is known."""
        return np.all(self.indicator >= 0, axis=1)

    @cached_property
    def set_labels(self) -> Ints:
        """The labels of all label sets, bag by bag."""
        return np.ascontiguousarray(np.nonzero(self.indicator == 1)[1])

    @cached_property
    def set_offsets(self) -> Ints:
        """Where the label set of each bag begins."""
        return offsets_of(np.count_nonzero(self.indicator == 1, axis=1))

    @cached_property
    def impossible(self) -> Bools:
        """Bags whose label set has probability zero: more labels than instances, or none at all.

        Known instances, and the labels that they account for, do not count. If labels may be
        spurious, no set is too large; if labels may be missing, a set may be empty.
        """
        n, k = np.diff(self.offsets), np.diff(self.set_offsets)
        bag, label = self._known_instances
        set_of = np.repeat(np.arange(len(k)), k)
        width = self.indicator.shape[1] + 1  # number of classes, with background
        met = np.isin(set_of * width + self.set_labels, bag * width + label)
        k_open = k - np.bincount(set_of[met], minlength=len(k))
        too_few = (k_open > n - self.n_known_instances) & (self.spurious == 0)
        never_empty = not self.background and self.missing == 0
        return self.has_label_set & (too_few | ((k == 0) & never_empty))

    @cached_property
    def n_known_instances(self) -> Ints:
        """Number of instances of each bag whose label is known."""
        return np.bincount(self._known_instances[0], minlength=len(self.has_label_set))

    @cached_property
    def _known_instances(self) -> tuple[Ints, Ints]:
        """Bag and label of each instance whose label is known."""
        rows = np.flatnonzero(self.instance_codes >= 0)
        return np.searchsorted(self.offsets, rows, side="right") - 1, self.instance_codes[rows]

    @property
    def is_counted(self) -> Bools:
        """Which instances enter the likelihood: those with a known label set or label."""
        counted = np.repeat(self.has_label_set, np.diff(self.offsets))
        return counted | (self.instance_codes >= 0) if len(self.instance_codes) else counted

    @cached_property
    def operations(self) -> Floats:
        """Cost of exact inference per bag: instances x reachable subsets x labels."""
        n, k = np.diff(self.offsets), np.diff(self.set_offsets)
        return compiled.label_lattice.operations(n, k, self.spurious > 0)

    @cached_property
    def how(self) -> Ints:
        """Inference method of each bag: exact, unless it takes too much time or memory."""
        n, k = np.diff(self.offsets).astype(float), np.diff(self.set_offsets)
        rows = 2 * np.sqrt(n) + 4  # of the checkpointed table
        too_costly = (self.operations > self.max_operations) | (8 * rows * 2.0**k > LARGEST_TABLE)
        ways = compiled.label_sets
        how = np.where(too_costly, ways.APPROXIMATE, ways.EXACT)
        how[self.impossible] = np.where(k == 0, ways.FREE, ways.RESTRICTED)[self.impossible]
        how[~self.has_label_set] = ways.FREE
        return how.astype(np.int8)

    @property
    def approximate(self) -> Bools:
        """Which posteriors are approximated by belief propagation."""
        return self.how == compiled.label_sets.APPROXIMATE

    def blocks(self, n_classes: int) -> Iterator[tuple[slice, slice]]:
        """Slices of bags and of their instances, in blocks whose scores fit in memory."""
        return blocks_of_bags(self.offsets, n_classes)


def blocks_of_bags(offsets: Ints, n_classes: int) -> Iterator[tuple[slice, slice]]:
    """Slices of bags and of their instances, in blocks whose scores fit in memory.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    n_classes : int
        Number of scores per instance.

    Yields
    ------
    tuple of slice
    """
    n_blocks = int(np.ceil(offsets[-1] * n_classes / BLOCK))
    bounds = block_bounds(offsets, max(1, n_blocks)).tolist()
    for start, stop in pairwise(bounds):
        yield slice(start, stop), slice(offsets[start], offsets[stop])


def posteriors(bag_sets: BagLabelSets, block: slice, scores: Array) -> tuple[Floats, Floats, Bools]:
    """Posterior labels of instances given the label sets of their bags.

    Parameters
    ----------
    bag_sets : BagLabelSets
        The bags and their label sets.
    block : slice
        The bags of the block.
    scores : ndarray of shape (n_instances of the block, n_classes)
        W x + b.

    Returns
    -------
    posterior : ndarray of shape (n_instances of the block, n_classes)
    log_likelihood : ndarray of shape (n_bags of the block,)
        log P(Y, known labels | X); 0 if nothing is known, -inf if the labels are impossible.
    settled : ndarray of bool of shape (n_bags of the block,)
        False if belief propagation ran out of sweeps.
    """
    return _infer(bag_sets, block, scores, None)[:3]


def report_counts(bag_sets: BagLabelSets, block: slice, scores: Array) -> Floats:
    """Expected counts of missing and spurious labels, for the EM step of the error rates.

    Parameters
    ----------
    bag_sets : BagLabelSets
        The bags and their label sets.
    block : slice
        The bags of the block.
    scores : ndarray of shape (n_instances of the block, n_classes)
        W x + b.

    Returns
    -------
    ndarray of shape (n_bags of the block, 3)
        Instances whose label was not reported, instances whose label was, and spurious labels.
    """
    return _infer(bag_sets, block, scores, None)[3]


def loss_residuals(
    bag_sets: BagLabelSets, block: slice, scores: Array, weights: Floats
) -> tuple[Floats, Floats]:
    """Derivative of the loss with respect to the scores, and the log-likelihood of each bag.

    The derivative is softmax minus posterior, times the weight of the bag. Convergence of belief
    propagation is not returned: a fit continues without it.
    """
    return _infer(bag_sets, block, scores, weights)[:2]


def _infer(
    bag_sets: BagLabelSets, block: slice, scores: Array, weights: Floats | None
) -> tuple[Floats, Floats, Bools, Floats]:
    """Posteriors (with `weights`: residuals), log-likelihoods, convergence of bags, counts."""
    offsets = bag_sets.offsets[block.start : block.stop + 1]
    offsets = offsets - offsets[0]
    n_bags = len(offsets) - 1
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    out, log_likelihood, settled = np.empty_like(scores), np.empty(n_bags), np.ones(n_bags, bool)
    counts = np.empty((n_bags, 3))
    cost = np.minimum(bag_sets.operations[block], bag_sets.max_operations)
    cost = np.cumsum(np.concatenate([[0.0], cost + 10.0 * np.diff(offsets) * scores.shape[1]]))
    n_blocks = n_threads() if cost[-1] > 10 * SMALL else 1
    # More blocks than threads: a few bags may cost as much as all others.
    bounds = block_bounds(cost, n_blocks if n_blocks == 1 else 4 * n_blocks)
    labels, codes = read_only(
        bag_sets.set_labels,
        bag_sets.instance_codes[slice(*bag_sets.offsets[[block.start, block.stop]])],
    )
    run_blocks(
        compiled.label_sets.posteriors, bounds, offsets, scores,
        bag_sets.set_offsets[block.start : block.stop + 1], labels,
        bag_sets.background, float(bag_sets.missing), float(bag_sets.spurious), bag_sets.how[block],
        np.ones(n_bags) if weights is None else weights, weights is not None, codes, out,
        log_likelihood, settled, counts,
    )  # fmt: skip
    log_likelihood[bag_sets.impossible[block]] = -np.inf
    return out, log_likelihood, settled, counts


class LinearPart(Part):
    """A block of whole bags, with the scores X W' + b of their instances and their gradient.

    Parameters
    ----------
    bags : Bags
        The bags.
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets.
    weights : ndarray of shape (n_bags,)
        Their weights.
    fit_intercept : bool
        Whether b is fitted.
    """

    def __init__(
        self, bags: Bags, indicator: Ints, weights: Floats, *, fit_intercept: bool
    ) -> None:
        self.bags, self.X, self.weights = bags, readable_table(bags), weights
        self.indicator, self.fit_intercept = indicator, fit_intercept

    def identity(self) -> str:
        """Digest of the bags, their label sets and weights."""
        return digest(self.bags, self.indicator, self.weights)

    def sums(self) -> Array:
        """Weighted sum of the instances."""
        weights = None if np.all(self.weights == 1) else np.repeat(self.weights, self.bags.sizes)
        return to_numpy(column_sums(self.X, weights))

    def _scores(self, theta: Floats, rows: slice) -> Any:
        """X W' + b, in float64."""
        scores = float64(product(self.X[rows], like(theta[:, :-1], self.X)))
        return scores + like(theta[:, -1], scores)

    def _add_gradient(self, gradient: Floats, residual: Any, rows: slice) -> None:
        gradient[:, :-1] += to_numpy(product(self.X[rows].T, like(residual, self.X).T)).T
        if self.fit_intercept:
            gradient[:, -1] += to_numpy(residual.sum(axis=0))


class _Part(LinearPart):
    """A block of whole bags with their label sets.

    Parameters
    ----------
    bags : Bags
        The bags.
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets, without the background class.
    weights : ndarray of shape (n_bags,)
        Their weights.
    instance_codes : csr_array, default=None
        The known classes of instances, from `codes_by_bag`.
    background : bool
        Whether the last class is a background class, allowed in any bag.
    fit_intercept : bool
        Whether b is fitted.
    max_operations : float
        Cost of a bag, instances x subsets x labels, beyond which its posterior is approximated.
    rates : tuple of float
        Probabilities that a label is missing, and that it is spurious, in the first call.

    Attributes
    ----------
    posterior : array of shape (n_instances, n_classes)
        The posterior of the last `expect`, for `surrogate`. Checkpoints do not store it, since it
        follows from theta.
    """

    def __init__(
        self,
        bags: Bags,
        indicator: Ints,
        weights: Floats,
        instance_codes: Any = None,
        *,
        background: bool,
        fit_intercept: bool,
        max_operations: float,
        rates: Rates = CORRECT,
    ) -> None:
        super().__init__(bags, indicator, weights, fit_intercept=fit_intercept)
        sets = BagLabelSets(bags.offsets, indicator, background, max_operations)
        if instance_codes is not None:
            sets = replace(sets, instance_codes=codes_of_instances(instance_codes, bags.offsets))
        self.bag_sets = sets.with_rates(*rates)
        self.n_classes = indicator.shape[1] + background
        self.posterior: Any = None

    def identity(self) -> str:
        """Digest of the bags, their label sets, weights and known instance labels."""
        return digest(self.bags, self.indicator, self.weights, self.bag_sets.instance_codes)

    def expect(self, theta: Floats, rates: Rates = CORRECT) -> None:
        """The E-step: keep the posterior labels of all instances for `surrogate`."""
        raise NotImplementedError

    def reports(self, theta: Floats, rates: Rates) -> Floats:
        """Weighted sum of `report_counts`, and weighted number of labels that are not listed."""
        sets = self._at(rates)
        listed = sets.has_label_set
        left = np.where(listed, self.indicator.shape[1] - np.diff(sets.set_offsets), 0)
        total = np.append(np.zeros(3), self.weights @ left)
        for bags, rows in sets.blocks(self.n_classes):
            counts = report_counts(sets, bags, to_numpy(self._scores(theta, rows)))
            total[:3] += self.weights[bags] @ counts
        return total

    def _at(self, rates: Rates) -> BagLabelSets:
        self.bag_sets = self.bag_sets.with_rates(*rates)
        return self.bag_sets

    def loss(self, theta: Floats, rates: Rates = CORRECT) -> tuple[float, Floats]:
        """Minus the log-likelihood of the label sets, and its gradient in theta = [W b]."""
        self._at(rates)
        value, gradient = 0.0, np.zeros_like(theta)
        for bags, rows in self._blocks():
            residual, log_likelihood = self._residual(bags, self._scores(theta, rows))
            value -= float(self.weights[bags] @ log_likelihood)
            self._add_gradient(gradient, residual, rows)
        return value, gradient

    def surrogate(self, theta: Floats) -> tuple[float, Floats]:
        """Minus the auxiliary function (Eq. 7) for the stored posterior, and its gradient."""
        value, gradient = 0.0, np.zeros_like(theta)
        for _, rows in self._blocks():
            log_p, posterior = log_softmax(self._scores(theta, rows)), self.posterior[rows]
            each = like(self._instance_weights[rows, None], log_p)
            value -= float((each * posterior * log_p).sum())
            self._add_gradient(gradient, (exp(log_p) - posterior) * each, rows)  # Eq. 14
        return value, gradient

    @cached_property
    def _instance_weights(self) -> Floats:
        return np.repeat(self.weights, self.bags.sizes) * self.bag_sets.is_counted

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        """Slices of bags and of their instances, in blocks whose scores fit in memory."""
        raise NotImplementedError

    def _residual(self, bags: slice, scores: Any) -> tuple[Any, Floats]:
        """Weighted softmax minus posterior of the instances, and log P(Y | X) of the bags."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Group:
    """Bags with at most k labels each, the largest first, as one padded batch.

    Padding labels are in the initial subset. Rows are the instances of the group, bag by bag; the
    last of the k + 1 columns is the background.
    """

    k: int
    bags: Any  # (n_bags,)
    sizes: Any  # (n_bags,)
    first: Any  # (n_bags,) first row of each bag
    start: Any  # (n_bags,) the padding labels, as a bit mask
    n_unlisted: Any  # (n_bags,) number of labels that are not in the set
    n_running: list[int]  # number of bags with a j-th row
    rows: Any  # (n_rows,) index among all instances
    place: Any  # (n_rows, k + 1) flat index of the score of a label; for padding, any of the row
    allowed: Any  # (n_rows, k + 1) whether the row may have the label


class TensorORLRPart(_Part):
    """All bags on a device, in groups of bags with similar numbers of labels.

    An evaluation waits for the device once, when its result is copied. Only then is it known
    whether the recursion underflowed; the few such bags are passed to the compiled code.
    """

    def __init__(self, bags: Bags, *per_bag: Any, **options: Any) -> None:
        super().__init__(bags, *per_bag, **options)
        self.instance_codes = beside(self.bag_sets.instance_codes, self.X)
        self.bag_weights = beside(self.weights, self.X)
        n_labels = (self.indicator == 1).sum(axis=1)
        fast = (self.bag_sets.how == compiled.label_sets.EXACT) & (n_labels <= SET_SIZES[-1])
        self.others = np.flatnonzero(~fast)
        size = np.searchsorted(SET_SIZES, n_labels)
        self._recursion: Any = subset_recursion
        if has_kernels(self.X):
            from bagwise.solvers.annotation import orlr_kernels

            self._recursion = orlr_kernels.subset_recursion
        self._ends: dict[tuple[int, float], Any] = {}
        self._recording = CORRECT, Replay()
        self.groups = [
            self._group(k, some)
            for i, k in enumerate(SET_SIZES)
            for some in self._cut(k, np.flatnonzero(fast & (size == i)))
        ]

    def expect(self, theta: Floats, rates: Rates = CORRECT) -> None:
        """The E-step: keep the posterior labels of all instances."""
        self._at(rates)
        scores = self._scores(theta, slice(None))
        norm = torch.logsumexp(scores, dim=1)
        self.posterior, _, failed = self._posteriors(scores, norm, self.others)
        if bool(failed.any()):
            self.posterior = self._posteriors(scores, norm, self._hard(failed))[0]

    def loss(self, theta: Floats, rates: Rates = CORRECT) -> tuple[float, Floats]:
        """Minus the log-likelihood of the label sets, and its gradient in theta = [W b]."""
        self._at(rates)
        there = beside(theta, self.X)  # one copy to the device, one back with the result
        evaluate = partial(self._loss, hard=self.others)
        if len(self.others) or self.X.shape[0] * self.n_classes > RECORDED:
            result, failed = evaluate(there)
        else:
            if self._recording[0] != rates:
                self._recording = rates, Replay()
            result, failed = self._recording[1].run(evaluate, there)
        found = to_numpy(result)
        if found[1] > 0:
            found = to_numpy(self._loss(there, self._hard(failed))[0])
        return float(found[0]), found[2:].reshape(theta.shape)

    def _loss(self, theta: Any, hard: Ints) -> tuple[Any, Any]:
        """Value, number of failed bags and gradient, as one tensor; and which bags failed."""
        scores = self._scores(theta, slice(None))
        norm = torch.logsumexp(scores, dim=1)
        posterior, log_likelihood, failed = self._posteriors(scores, norm, hard)
        residual = (scores - norm[:, None]).exp_().sub_(posterior).mul_(self._row_weights)
        of_b = residual.sum(dim=0) if self.fit_intercept else torch.zeros_like(residual[0])
        of_W = float64(residual.to(self.X.dtype).T @ self.X)
        value = -(self.bag_weights @ log_likelihood)
        head = torch.stack([value, failed.sum().to(value.dtype)])
        gradient = torch.cat([of_W, of_b[:, None]], dim=1)
        return torch.cat([head, gradient.ravel()]), failed

    def _hard(self, failed: Any) -> Ints:
        return np.union1d(self.others, np.flatnonzero(to_numpy(failed)))

    @cached_property
    def _instance_weights(self) -> Any:
        return beside(np.repeat(self.weights, self.bags.sizes) * self.bag_sets.is_counted, self.X)

    @property
    def _row_weights(self) -> Any:
        return self._instance_weights[:, None]

    def _scores(self, theta: Any, rows: slice) -> Any:
        """X W' + b, in float64."""
        there = beside(theta, self.X)
        scores = float64(self.X[rows] @ there[:, :-1].to(self.X.dtype).T)
        return scores + there[:, -1]

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        yield slice(None), slice(None)

    def _posteriors(self, scores: Any, norm: Any, hard: Ints) -> tuple[Any, Any, Any]:
        """Posterior of every instance, log P(Y | X) of every bag, and which bags underflowed.

        The `hard` bags are passed to the compiled code.
        """
        posterior = torch.zeros_like(scores)
        log_likelihood = scores.new_zeros(len(self.bags))
        failed = torch.zeros(len(self.bags), dtype=torch.bool, device=scores.device)
        for group in self.groups:
            self._expect_group(group, scores, norm, posterior, log_likelihood, failed)
        if len(hard):
            self._expect_compiled(hard, scores, posterior, log_likelihood)
            failed[beside(hard, scores)] = False
        return posterior, log_likelihood, failed

    def _expect_group(
        self, group: _Group, scores: Any, norm: Any, posterior: Any, log_likelihood: Any,
        failed: Any,
    ) -> None:  # fmt: skip
        """Write the posteriors and likelihoods of a group of bags, and whether they failed."""
        k, rows = group.k, group.rows
        missing, spurious = self.bag_sets.missing, self.bag_sets.spurious
        log_q = scores.take(group.place).masked_fill_(~group.allowed, -torch.inf)
        if missing > 0:
            log_q += np.log1p(-missing)
            silent = self._log_mass(rows, scores, norm) + np.log(missing)
            log_q[:, k] = torch.logaddexp(log_q[:, k], silent)
        inside = torch.logsumexp(log_q, dim=1)
        q = (log_q - inside[:, None]).exp_()
        joint, total, sums = self._recursion(q, inside - norm[rows], group, self._end(k))
        joint /= joint.sum(dim=1, keepdim=True)
        if missing > 0:
            posterior[rows] = self._silent(rows, scores, norm) * joint[:, k, None]
            joint[:, k] = 0.0
        # Padding adds zeros.
        posterior.view(-1).scatter_add_(0, group.place.view(-1), joint.view(-1))
        log_likelihood[group.bags] = sums + total.log() + group.n_unlisted * np.log1p(-spurious)
        failed[group.bags] = ~(total > UNDERFLOW)

    def _end(self, k: int) -> Any:
        """Weight of each subset after the last instance: labels it lacks are spurious."""
        key = k, float(self.bag_sets.spurious)
        if key not in self._ends:
            lacking = np.array([k - subset.bit_count() for subset in range(1 << k)])
            self._ends[key] = beside(key[1] ** lacking, self.X)
        return self._ends[key]

    def _log_mass(self, rows: Any, scores: Any, norm: Any) -> Any:
        """Log of the unnormalised probability of any label, or of the known label."""
        if not len(self.instance_codes):
            return norm[rows]
        label = self.instance_codes[rows]
        known = scores[rows, label.clip(min=0)]
        return torch.where(label < 0, norm[rows], known)

    def _silent(self, rows: Any, scores: Any, norm: Any) -> Any:
        """Class probabilities of instances whose label is not reported: see `_spread`."""
        chance = (scores[rows] - norm[rows, None]).exp()
        if self.bag_sets.background:
            chance[:, :-1] *= self.bag_sets.missing
        chance = chance / chance.sum(dim=1, keepdim=True)
        if not len(self.instance_codes):
            return chance
        label = self.instance_codes[rows, None]
        own = (torch.arange(chance.shape[1], device=chance.device) == label).to(chance.dtype)
        return torch.where(label < 0, chance, own)

    def _expect_compiled(
        self, chosen: Ints, scores: Any, posterior: Any, log_likelihood: Any
    ) -> None:
        sizes = self.bags.sizes[chosen]
        offsets = offsets_of(sizes)
        rows = np.repeat(self.bags.offsets[:-1][chosen] - offsets[:-1], sizes)
        place = torch.as_tensor(rows + np.arange(offsets[-1]), device=scores.device)
        codes = self.instance_codes[place] if len(self.instance_codes) else self.instance_codes
        bag_sets = replace(
            self.bag_sets, offsets=offsets, indicator=self.indicator[chosen],
            instance_codes=to_numpy(codes),
        )  # fmt: skip
        found, value, _ = posteriors(bag_sets, slice(0, len(chosen)), to_numpy(scores[place]))
        posterior[place] = torch.as_tensor(found, device=scores.device)
        log_likelihood[torch.as_tensor(chosen, device=scores.device)] = torch.as_tensor(
            value, device=scores.device
        )

    def _cut(self, k: int, mine: Ints) -> list[Ints]:
        """Split bags, the largest first, into groups whose tables fit in memory."""
        mine = mine[np.argsort(-self.bags.sizes[mine], kind="stable")]
        part = np.cumsum(self.bags.sizes[mine] << k) // TENSOR_TABLE
        return np.split(mine, np.flatnonzero(np.diff(part)) + 1) if len(mine) else []

    def _group(self, k: int, mine: Ints) -> _Group:
        sizes, n_classes = self.bags.sizes[mine], self.n_classes
        first = offsets_of(sizes)
        bag = np.repeat(np.arange(len(mine)), sizes)
        rows = self.bags.offsets[:-1][mine][bag] + np.arange(first[-1]) - first[bag]
        columns = np.full((len(mine), k + 1), -1)
        of, label = np.nonzero(self.indicator[mine] == 1)
        n_labels = np.bincount(of, minlength=len(mine))
        columns[of, np.arange(len(of)) - offsets_of(n_labels)[of]] = label
        if self.bag_sets.background:
            columns[:, k] = n_classes - 1
        start = (1 << k) - (1 << n_labels)  # bits of the padding labels
        allowed = columns[bag] >= 0
        if len(self.bag_sets.instance_codes):
            code = self.bag_sets.instance_codes[rows, None]
            allowed &= (code < 0) | (code == columns[bag])
        place = rows[:, None] * n_classes + np.maximum(columns[bag], 0)
        move = partial(beside, other=self.X)
        return _Group(
            k=k,
            bags=move(mine),
            sizes=move(sizes),
            first=move(first[:-1]),
            start=move(start),
            n_unlisted=move(float64(self.indicator.shape[1] - n_labels)),
            n_running=np.searchsorted(-sizes, -np.arange(sizes[0])).tolist(),
            rows=move(rows),
            place=move(place),
            allowed=move(allowed),
        )


class ORLRPart(_Part):
    """Bags in this process or on a worker, with compiled inference."""

    tensor_part = TensorORLRPart

    def expect(self, theta: Floats, rates: Rates = CORRECT) -> None:
        """The E-step: keep the posterior labels of all instances."""
        self._at(rates)
        found = [
            posteriors(self.bag_sets, bags, self._scores(theta, rows))[0]
            for bags, rows in self._blocks()
        ]
        self.posterior = np.concatenate(found)

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        return self.bag_sets.blocks(self.n_classes)

    def _residual(self, bags: slice, scores: Array) -> tuple[Array, Floats]:
        return loss_residuals(self.bag_sets, bags, scores, self.weights[bags])


def subset_recursion(q: Any, inside: Any, group: _Group, end: Any) -> tuple[Any, Any, Any]:
    """Run the recursion over label subsets for a group of bags; see ``orlr_kernels``."""
    k, n_bags = group.k, len(group.sizes)
    joint, bag = torch.empty_like(q), torch.arange(n_bags, device=q.device)
    a, sums = q.new_zeros(n_bags, 1 << k), q.new_zeros(n_bags)
    a[bag, group.start] = 1.0
    table = []
    for j, m in enumerate(group.n_running):
        table.append(a[:m])
        rows = group.first[:m] + j
        sums[:m] += inside[rows]
        a = torch.cat([_forward(a[:m], q[rows], k), a[m:]])
    total = a @ end
    b = end.repeat(n_bags, 1)
    for j in range(len(table) - 1, -1, -1):
        m = group.n_running[j]
        rows = group.first[:m] + j
        joint[rows], b[:m] = _backward(table[j], b[:m], q[rows], k)
    return joint, total, sums


def _halves(table: Any, c: int) -> tuple[Any, Any]:
    """Views of the subsets without and with label c."""
    split = table.view(len(table), -1, 2, 1 << c)
    return split[:, :, 0], split[:, :, 1]


def _forward(a: Any, q: Any, k: int) -> Any:
    """The forward table A after one more instance."""
    new = q[:, k, None] * a
    for c in range(k):
        without, having = _halves(a, c)
        _halves(new, c)[1].add_(q[:, c, None, None] * (without + having))
    return new


def _backward(a: Any, b: Any, q: Any, k: int) -> tuple[Any, Any]:
    """Joint probability of an instance's label and the label set; backward table B before it."""
    new = q[:, k, None] * b
    joint = [(a * b).sum(dim=1)]
    for c in range(k):
        without, having = _halves(a, c)
        ahead = _halves(b, c)[1]
        joint.insert(c, ((without + having) * ahead).sum(dim=(1, 2)))
        step = q[:, c, None, None] * ahead
        for half in _halves(new, c):
            half.add_(step)
    return torch.stack(joint, dim=1) * q, new

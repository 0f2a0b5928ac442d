"""ORLR on a block of bags: label sets, posterior labels, and the likelihood with its gradient.

``bagwise.loops.label_sets`` computes the posterior labels of numpy arrays. On a GPU, one kernel
(``orlr_kernels``) runs the recursion on batches of bags with similar numbers of labels; the few
bags in which it underflows, or that are approximated, are passed to the compiled code.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.compute import Part, digest, readable_table, to_numpy
from bagwise.compute.arrays import (
    beside,
    column_sums,
    float64,
    linear_gradient,
    linear_scores,
    log_softmax,
)
from bagwise.compute.tensors import Replay, has_kernels, torch
from bagwise.loops.arguments import Inference, LabelSets, Plan, read_only
from bagwise.loops.threads import SMALL, block_bounds, n_threads, run_blocks

BLOCK = 2**23  # scores in memory at once
LARGEST_TABLE = 2**29  # bytes that exact inference on one bag may use
TENSOR_TABLE = 2**27  # values of the forward table of a group of bags
# Largest number of labels in each group. Larger sets need less memory in the compiled code.
SET_SIZES = 3, 6, 9, 12
RECORDED = 2**22  # number of scores up to which kernels take longer to launch than to run
UNDERFLOW = 1e-250

Rates = tuple[float, float]  # probabilities that a label is missing, and that it is spurious
CORRECT: Rates = (0.0, 0.0)
NO_CODES = np.empty(0, np.int64)


@dataclass(frozen=True)
class BagLabelSets:
    """What is known of each bag: its label set or counts, and labels of its instances.

    Labels are counted (in a set up to one), absent, or free: they may have any number of instances.
    The counted labels of bag b are ``set_labels[set_offsets[b]:set_offsets[b + 1]]``.

    Attributes
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    indicator : ndarray of shape (n_bags, n_labels)
        1 if the label is in the bag, 0 if it is not, -1 if that is unknown.
    background : bool
        Whether the last class is a background class: free in any bag, in no label set.
    max_operations : float, default=1e9
        Cost of a bag, instances x states x labels, beyond which its posterior is approximated.
    instance_codes : ndarray of int64 of shape (n_instances,) or (0,), default=()
        The class of each instance, -1 if unknown; empty if all are unknown.
    missing : float, default=0.0
        Probability that the label of an instance is not reported.
    spurious : float, default=0.0
        Probability that a label is listed which no instance reports.
    bounds : ndarray of int64 of shape (n_bags, n_labels, 2), default=None
        The least and the largest count of each label (-1: no limit); None for label sets.
    """

    offsets: Ints
    indicator: Ints
    background: bool
    max_operations: float = 1e9
    instance_codes: Ints = field(default_factory=lambda: NO_CODES)
    missing: float = 0.0
    spurious: float = 0.0
    bounds: Ints | None = None

    @property
    def sizes(self) -> Ints:
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    def _planned(self, sizes: Ints, lower: Ints, upper: Ints) -> Plan:
        """The counters of counts between these bounds."""
        limits = self.background, self.max_operations
        return loops.label_lattice.plan(sizes, lower, upper, *limits)

    @cached_property
    def plan(self) -> Plan:
        """The counters of each bag; not for label sets."""
        return self._planned(self.sizes, *np.moveaxis(cast(Ints, self.bounds), 2, 0))

    @cached_property
    def states(self) -> Floats:
        """Number of states of each bag, S."""
        return np.exp2(self.n_labels) if self.bounds is None else self.plan.states

    @cached_property
    def n_labels(self) -> Ints:
        """Number of labels of each bag that are counted."""
        return np.count_nonzero(self._counted, axis=1)

    @cached_property
    def _counted(self) -> Bools:
        return self.indicator == 1 if self.bounds is None else self.plan.caps > 0

    @cached_property
    def has_label_set(self) -> Bools:
        """Whether something is known of the labels of each bag."""
        if self.bounds is not None:
            return np.any((self.bounds[..., 0] > 0) | (self.bounds[..., 1] >= 0), axis=1)
        return np.any(self.indicator >= 0, axis=1)

    @cached_property
    def set_labels(self) -> Ints:
        """The labels that are counted, bag by bag."""
        return np.ascontiguousarray(np.nonzero(self._counted)[1])

    @cached_property
    def set_offsets(self) -> Ints:
        """Where the counted labels of each bag begin."""
        return offsets_of(self.n_labels)

    @cached_property
    def free(self) -> Bools:
        """Which classes are free in each bag, the background included: (n_bags, n_classes)."""
        some = self.indicator == -1 if self.bounds is None else self.plan.caps == -1
        if self.background:
            room = np.ones(len(some), bool)
            if self.bounds is not None:
                room = self.bounds[..., 0].sum(axis=1) < self.sizes
            some = np.column_stack([some, room])
        return some & self.has_label_set[:, None]

    @cached_property
    def free_labels(self) -> tuple[Ints, Ints]:
        """The free classes, bag by bag, and where those of each bag begin."""
        return np.nonzero(self.free)[1], offsets_of(np.count_nonzero(self.free, axis=1))

    @cached_property
    def counters(self) -> Ints | None:
        """The counters of the labels that are counted, bag by bag; None for label sets."""
        if self.bounds is None:
            return None
        each = self.bounds[..., 0], self.plan.caps, self.plan.saturates
        return np.column_stack([values[self._counted] for values in each]).astype(np.int64)

    @cached_property
    def counted(self) -> Ints:
        """The least and the largest number of instances that are counted, of each bag."""
        found = np.column_stack([np.zeros_like(self.sizes), self.sizes])
        if self.bounds is not None:  # what is left has the spare label
            rows = np.flatnonzero(self.plan.spare >= 0)
            low, high = self.bounds[rows, self.plan.spare[rows]].T
            high = np.where(high < 0, self.sizes[rows], np.minimum(high, self.sizes[rows]))
            found[rows] = self.sizes[rows, None] - np.column_stack([high, low])
        return found

    @cached_property
    def known_instances(self) -> tuple[Ints, Ints]:
        """Bag and label of each instance whose label is known."""
        rows = np.flatnonzero(self.instance_codes >= 0)
        return np.searchsorted(self.offsets, rows, side="right") - 1, self.instance_codes[rows]

    @cached_property
    def impossible(self) -> Bools:
        """Bags of probability zero, such as label sets with more labels than instances, or none.

        Known instances, and the labels that they account for, do not count. If labels may be
        spurious, no set is too large; if labels may be missing, a set may be empty.
        """
        n_bags, (bag, label) = len(self.sizes), self.known_instances
        n_open = self.sizes - np.bincount(bag, minlength=n_bags)
        if self.bounds is not None:
            known = np.zeros((n_bags, self.n_classes), np.int64)
            np.add.at(known, (bag, label), 1)
            known = known[:, : self.indicator.shape[1]]
            lower, upper = np.moveaxis(self.bounds, 2, 0)
            too_many = ((upper >= 0) & (known > upper)).any(axis=1)
            upper = np.where(upper < 0, -1, np.maximum(upper - known, 0))
            plan = self._planned(n_open, np.maximum(lower - known, 0), upper)
            return self.has_label_set & (too_many | (plan.states == 0))
        labelled = self.indicator[bag, np.minimum(label, self.indicator.shape[1] - 1)] == 1
        labelled &= label < self.indicator.shape[1]
        met = np.unique(np.column_stack([bag, label])[labelled], axis=0)[:, 0]
        too_few = (self.n_labels - np.bincount(met, minlength=n_bags) > n_open) & (
            self.spurious == 0
        )
        empty = (self.n_labels == 0) & ~self.free.any(axis=1) & (self.missing == 0)
        return self.has_label_set & (too_few | empty)

    @cached_property
    def operations(self) -> Floats:
        """Cost of exact inference per bag: instances x reachable states x labels."""
        if self.bounds is not None:
            return self.sizes * self.states * (self.n_labels + 1)
        return loops.label_lattice.operations(self.sizes, self.n_labels, self.spurious > 0)

    @cached_property
    def how(self) -> Ints:
        """Inference method of each bag: exact, unless it takes too much time or memory."""
        ways, k, exact = loops.label_sets, self.n_labels, loops.label_sets.EXACT
        if self.bounds is not None:
            caps, saturates, spare, _ = self.plan
            is_set = (spare < 0) & ((caps < 0) | ((caps == 1) & saturates)).all(axis=1)
            exact = np.where(is_set, ways.EXACT, ways.COUNTED)
        n_bytes = 8 * (2 * np.sqrt(self.sizes) + 4) * self.states  # of the checkpointed table
        too_costly = self.operations > self.max_operations
        if self.bounds is not None:
            too_costly &= k > 1  # belief propagation would count the same
        how = np.where(too_costly | (n_bytes > LARGEST_TABLE), ways.APPROXIMATE, exact)
        how[self.impossible] = np.where(k == 0, ways.FREE, ways.RESTRICTED)[self.impossible]
        how[~self.has_label_set] = ways.FREE
        return how.astype(np.int8)

    @cached_property
    def n_absent(self) -> Ints:
        """Number of labels that are known to be absent from each bag."""
        return np.count_nonzero(self.indicator == 0, axis=1)

    @property
    def too_large(self) -> Bools:
        """Bags with a counter whose table is too large even for belief propagation."""
        most = np.ones(len(self.set_labels)) if self.counters is None else self.counters[:, 1]
        largest = np.zeros(len(self.sizes))
        np.maximum.at(largest, np.repeat(np.arange(len(self.sizes)), self.n_labels), most)
        return 8 * (2 * np.sqrt(self.sizes) + 4) * (largest + 1) > LARGEST_TABLE

    @property
    def approximate(self) -> Bools:
        """Which posteriors are approximated by belief propagation."""
        return self.how == loops.label_sets.APPROXIMATE

    @property
    def n_classes(self) -> int:
        """Number of classes, the background included."""
        return int(self.indicator.shape[1] + self.background)

    @property
    def seen_classes(self) -> Bools:
        """Whether a class may be in some bag, is the background or that of a known instance."""
        possible = (self.indicator != 0) & self.has_label_set[:, None]
        seen = np.append(possible.any(axis=0), np.ones(int(self.background), bool))
        seen[self.known_instances[1]] = True
        return seen

    def of_classes(self, chosen: Bools) -> Self:
        """The same with some of the classes; all that are seen are chosen."""
        codes, number = self.instance_codes, np.cumsum(chosen) - 1
        codes = np.where(codes < 0, -1, number[codes])
        indicator = self.indicator[:, chosen[: self.indicator.shape[1]]]
        bounds = None if self.bounds is None else self.bounds[:, chosen[: self.indicator.shape[1]]]
        return replace(self, indicator=indicator, instance_codes=codes, bounds=bounds)

    def __getitem__(self, key: Any) -> Self:
        """Some of the bags: a slice, positions or a mask."""
        chosen = np.arange(len(self.sizes))[key]
        offsets, rows = offsets_of(self.sizes[chosen]), self.rows_of(chosen)
        codes = self.instance_codes[rows] if len(self.instance_codes) else self.instance_codes
        some = {"indicator": self.indicator[chosen], "instance_codes": codes}
        some["bounds"] = None if self.bounds is None else self.bounds[chosen]
        return replace(self, offsets=offsets, **some)

    def rows_of(self, chosen: Ints) -> Ints:
        """Positions of the instances of some bags, bag by bag."""
        sizes = self.sizes[chosen]
        shift = self.offsets[:-1][chosen] - offsets_of(sizes)[:-1]
        return np.repeat(shift, sizes) + np.arange(sizes.sum())


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
    for start, stop in pairwise(block_bounds(offsets, max(1, n_blocks)).tolist()):
        yield slice(start, stop), slice(offsets[start], offsets[stop])


def infer(
    bag_sets: BagLabelSets, block: slice, scores: Array, weights: Floats | None = None
) -> Inference:
    """Posterior labels of instances given the label sets of their bags.

    Parameters
    ----------
    bag_sets : BagLabelSets
        The bags and their label sets.
    block : slice
        The bags of the block.
    scores : ndarray of shape (n_instances of the block, n_classes)
        W x + b.
    weights : ndarray of shape (n_bags of the block,), default=None
        With weights, the derivative of the loss in the scores replaces the posterior.

    Returns
    -------
    Inference
    """
    ends = slice(block.start, block.stop + 1)
    offsets = bag_sets.offsets[ends]
    rows, n_bags = slice(offsets[0], offsets[-1]), len(offsets) - 1
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    found = Inference(
        np.empty_like(scores), np.empty(n_bags), np.ones(n_bags, bool), np.empty((n_bags, 3))
    )
    cost = np.minimum(bag_sets.operations[block], bag_sets.max_operations)
    cost = np.append(0.0, np.cumsum(cost + 10.0 * np.diff(offsets) * scores.shape[1]))
    n_blocks = n_threads() if cost[-1] > 10 * SMALL else 1
    # More blocks than threads: a few bags may cost as much as all others.
    bounds = block_bounds(cost, n_blocks if n_blocks == 1 else 4 * n_blocks)
    free, free_offsets = bag_sets.free_labels
    labels, codes, counters, counted, free = read_only(
        bag_sets.set_labels,
        bag_sets.instance_codes[rows],
        bag_sets.counters,
        bag_sets.counted[block],
        free,
    )
    where, how = (offsets - offsets[0], bag_sets.set_offsets[ends]), bag_sets.how[block]
    free_of = free_offsets[ends], free, bag_sets.n_absent[block]
    known = labels, how, codes, counters, counted, *free_of
    sets = LabelSets(*where, *known, float(bag_sets.missing), float(bag_sets.spurious))
    weights = np.empty(0) if weights is None else weights
    run_blocks(loops.label_sets.posteriors, bounds, sets, scores, weights, found)
    found.log_likelihood[bag_sets.impossible[block]] = -np.inf
    return found


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
    """

    def __init__(self, bags: Bags, indicator: Ints, weights: Floats) -> None:
        self.bags, self.X, self.weights = bags, readable_table(bags), weights
        self.indicator = indicator

    def identity(self) -> str:
        """Digest of the bags, their label sets and weights."""
        return digest(self.bags, self.indicator, self.weights)

    def sums(self) -> Array:
        """Weighted sum of the instances."""
        weights = None if np.all(self.weights == 1) else np.repeat(self.weights, self.bags.sizes)
        return to_numpy(column_sums(self.X, weights))


class ORLRPart(LinearPart):
    """A block of whole bags with their label sets.

    Parameters
    ----------
    bags : Bags
        The bags.
    sets : BagLabelSets
        What is known of their labels.
    weights : ndarray of shape (n_bags,)
        Their weights.
    """

    def __init__(self, bags: Bags, sets: BagLabelSets, weights: Floats) -> None:
        super().__init__(bags, sets.indicator, weights)
        self.bag_sets, self.n_classes = sets, sets.n_classes

    def identity(self) -> str:
        """Digest of the bags, their label sets, weights and known instance labels."""
        sets = self.bag_sets
        bounds = () if sets.bounds is None else (sets.bounds,)
        return digest(self.bags, self.indicator, self.weights, sets.instance_codes, *bounds)

    def reports(self, theta: Floats, rates: Rates) -> Floats:
        """Expected numbers of wrong reports: see `Inference`; and of labels that are not listed."""
        self._set_rates(rates)
        sets, total = self.bag_sets, np.zeros(4)
        for bags, rows in blocks_of_bags(sets.offsets, self.n_classes):
            counts = infer(sets, bags, to_numpy(linear_scores(self.X[rows], theta))).counts
            counts = np.column_stack([counts, sets.n_absent[bags]])
            total += self.weights[bags] @ np.where(sets.impossible[bags, None], 0.0, counts)
        return total

    def loss(self, theta: Floats, rates: Rates = CORRECT) -> tuple[float, Floats]:
        """Minus the log-likelihood of the label sets, and its gradient in theta = [W b]."""
        self._set_rates(rates)
        value, gradient = 0.0, np.zeros_like(theta)
        for bags, rows in blocks_of_bags(self.bag_sets.offsets, self.n_classes):
            # Whether belief propagation settled does not matter: a fit continues without it.
            found = infer(
                self.bag_sets, bags, linear_scores(self.X[rows], theta), self.weights[bags]
            )
            value -= float(self.weights[bags] @ found.log_likelihood)
            gradient += linear_gradient(self.X[rows], found.posterior)
        return value, gradient

    def surrogate(self, theta: Floats, before: Floats, rates: Rates = CORRECT) -> float:
        """Minus the auxiliary function of EM (Pham 2014, Eq. 7) for the posterior at `before`."""
        self._set_rates(rates)
        sets, value = self.bag_sets, 0.0
        counted = np.repeat(sets.has_label_set, sets.sizes)
        counted |= sets.instance_codes >= 0 if len(sets.instance_codes) else False
        weights = np.repeat(self.weights, sets.sizes) * counted
        for bags, rows in blocks_of_bags(sets.offsets, self.n_classes):
            here, there = (to_numpy(linear_scores(self.X[rows], at)) for at in (theta, before))
            posterior = infer(sets, bags, there).posterior
            value -= float(weights[rows] @ (posterior * log_softmax(here)).sum(axis=1))
        return value

    def _set_rates(self, rates: Rates) -> None:
        if rates != (self.bag_sets.missing, self.bag_sets.spurious):
            self.bag_sets = replace(self.bag_sets, missing=rates[0], spurious=rates[1])


@dataclass(frozen=True)
class _Group:
    """Bags with at most k labels each, the largest first, as one padded batch.

    Padding labels are in the initial subset. Rows are the instances of the group, bag by bag; the
    last of the k + 1 columns is "no label reported".
    """

    k: int
    bags: Any  # (n_bags,)
    sizes: Any  # (n_bags,)
    first: Any  # (n_bags,) first row of each bag
    start: Any  # (n_bags,) the padding labels, as a bit mask
    n_unlisted: Any  # (n_bags,) number of labels that are not in the set
    rows: Any  # (n_rows,) index among all instances
    place: Any  # (n_rows, k) flat index of the score of a label; for padding, any of the row
    allowed: Any  # (n_rows, k) whether the row may have the label
    free: Any  # (n_rows, n_classes) labels that are not counted; None if there are none


class TensorORLRPart(ORLRPart):
    """All bags on a device, in groups of bags with similar numbers of labels.

    An evaluation waits for the device once, when its result is copied. Only then is it known
    whether the recursion underflowed; the few such bags are passed to the compiled code, and so are
    all bags if there are no kernels for the device.
    """

    recursion: Any = None  # the function of `orlr_kernels`

    def __init__(self, bags: Bags, sets: BagLabelSets, weights: Floats) -> None:
        super().__init__(bags, sets, weights)
        if self.recursion is None and has_kernels(self.X):
            from bagwise.solvers.annotation import orlr_kernels

            self.recursion = orlr_kernels.subset_recursion
        self.bag_weights = beside(self.weights, self.X)
        self.row_weights = beside(np.repeat(self.weights, bags.sizes)[:, None], self.X)
        n_labels = self.bag_sets.n_labels
        fast = (self.bag_sets.how == loops.label_sets.EXACT) & (n_labels <= SET_SIZES[-1])
        fast &= self.recursion is not None
        self.others = np.flatnonzero(~fast)
        size = np.searchsorted(SET_SIZES, n_labels)
        self.groups = [
            self._group(k, some)
            for i, k in enumerate(SET_SIZES)
            for some in self._cut(k, np.flatnonzero(fast & (size == i)))
        ]
        self._recording = CORRECT, Replay()

    def loss(self, theta: Floats, rates: Rates = CORRECT) -> tuple[float, Floats]:
        """Minus the log-likelihood of the label sets, and its gradient in theta = [W b]."""
        self._set_rates(rates)
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
            hard = np.union1d(self.others, np.flatnonzero(to_numpy(failed)))
            found = to_numpy(self._loss(there, hard)[0])
        return float(found[0]), found[2:].reshape(theta.shape)

    def _loss(self, theta: Any, hard: Ints) -> tuple[Any, Any]:
        """Value, number of failed bags and gradient, as one tensor; and which bags failed.

        The `hard` bags are passed to the compiled code.
        """
        scores = linear_scores(self.X, theta)
        log_p = log_softmax(scores)
        posterior, log_likelihood = torch.zeros_like(scores), scores.new_zeros(len(self.bags))
        failed = torch.zeros(len(self.bags), dtype=torch.bool, device=scores.device)
        for group in self.groups:
            self._infer_group(group, log_p, posterior, log_likelihood, failed)
        if len(hard):
            bags, rows = (beside(at, scores) for at in (hard, self.bag_sets.rows_of(hard)))
            block, theirs = slice(0, len(hard)), self.bag_sets[hard]
            found = infer(theirs, block, to_numpy(scores[rows]))
            posterior[rows] = beside(found.posterior, posterior)
            log_likelihood[bags] = beside(found.log_likelihood, posterior)
            failed[bags] = False
        residual = log_p.exp_().sub_(posterior).mul_(self.row_weights)
        of_W = float64(residual.to(self.X.dtype).T @ self.X)
        value = -(self.bag_weights @ log_likelihood)
        head = torch.stack([value, failed.sum().to(value.dtype)])
        gradient = torch.cat([of_W, residual.sum(dim=0)[:, None]], dim=1)
        return torch.cat([head, gradient.ravel()]), failed

    def _infer_group(
        self, group: _Group, log_p: Any, posterior: Any, log_likelihood: Any, failed: Any
    ) -> None:
        """Write the posteriors and likelihoods of a group of bags, and whether they failed."""
        k, rows, sets = group.k, group.rows, self.bag_sets
        listed = log_p.take(group.place).masked_fill_(~group.allowed, -torch.inf)
        log_none = log_p.new_full((len(rows), 1), -torch.inf)
        may_be_silent = group.free is not None or sets.missing > 0
        if may_be_silent:
            silent = log_p[rows] + self._log_silent  # log P(a label, and it is not reported)
            if group.free is not None:
                silent = silent.where(~group.free, log_p[rows])
            if len(sets.instance_codes):
                code = beside(sets.instance_codes, self.X)[rows, None]
                other = torch.arange(self.n_classes, device=silent.device) != code
                silent.masked_fill_(other & (code >= 0), -torch.inf)
            log_none = torch.logsumexp(silent, dim=1, keepdim=True)
        log_q = torch.cat([listed + np.log1p(-sets.missing), log_none], dim=1)
        inside = torch.logsumexp(log_q, dim=1)
        q = (log_q - inside[:, None]).exp_()
        joint, total, sums = self.recursion(q, inside, group, self._ends[k])
        joint /= joint.sum(dim=1, keepdim=True)
        if may_be_silent:
            share = (silent - log_none).exp_().nan_to_num_(0.0)  # nan if every label is reported
            posterior[rows] = share * joint[:, k:]
        posterior.view(-1).scatter_add_(0, group.place.view(-1), joint[:, :k].reshape(-1))
        log_spared = group.n_unlisted * np.log1p(-sets.spurious)
        log_likelihood[group.bags] = sums + total.log() + log_spared
        failed[group.bags] = ~(total > UNDERFLOW)

    def _set_rates(self, rates: Rates) -> None:
        super()._set_rates(rates)
        # Log-probability that a label is not reported, and the weights of the final subsets: the
        # labels they lack are spurious.
        with np.errstate(divide="ignore"):
            self._log_silent = float(np.log(rates[0]))
        self._ends = {
            k: beside(rates[1] ** np.array([k - s.bit_count() for s in range(1 << k)]), self.X)
            for k in SET_SIZES
        }

    def _cut(self, k: int, mine: Ints) -> list[Ints]:
        """Split bags, the largest first, into groups whose tables fit in memory."""
        mine = mine[np.argsort(-self.bags.sizes[mine], kind="stable")]
        part = np.cumsum(self.bags.sizes[mine] << k) // TENSOR_TABLE
        return np.split(mine, np.flatnonzero(np.diff(part)) + 1) if len(mine) else []

    def _group(self, k: int, mine: Ints) -> _Group:
        sizes, rows = self.bags.sizes[mine], self.bag_sets.rows_of(mine)
        columns = np.full((len(mine), k), -1)
        of, label = np.nonzero(self.indicator[mine] == 1)
        n_labels = np.bincount(of, minlength=len(mine))
        columns[of, np.arange(len(of)) - offsets_of(n_labels)[of]] = label
        columns = np.repeat(columns, sizes, axis=0)
        allowed = columns >= 0
        if len(self.bag_sets.instance_codes):
            code = self.bag_sets.instance_codes[rows, None]
            allowed &= (code < 0) | (code == columns)
        move, free = partial(beside, other=self.X), self.bag_sets.free[mine]
        return _Group(
            k=k,
            bags=move(mine),
            sizes=move(sizes),
            first=move(offsets_of(sizes)[:-1]),
            start=move((1 << k) - (1 << n_labels)),
            n_unlisted=move(float64(self.bag_sets.n_absent[mine])),
            rows=move(rows),
            place=move(rows[:, None] * self.n_classes + np.maximum(columns, 0)),
            allowed=move(allowed),
            free=move(np.repeat(free, sizes, axis=0)) if free.any() else None,
        )


ORLRPart.tensor_part = TensorORLRPart

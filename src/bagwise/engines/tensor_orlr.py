"""The part of ORLR on torch tensors: the subset recursion of many bags at once.

The recursion of ``bagwise.compiled.label_subsets``: bags with equally many labels go side by side,
one instance of each per step. Bags in which it underflows, or that are approximated, are few; the
compiled kernel does them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise import compiled
from bagwise.bags import Bags
from bagwise.engines.arrays import to_numpy
from bagwise.engines.parts import codes_of_instances, digest
from bagwise.engines.tensors import torch

__all__ = ["Part"]

TABLE = 2**27  # values of the forward table of a group of bags
LARGEST_SET = 12  # labels; a table for more is better kept by the kernel
UNDERFLOW = 1e-250


@dataclass(frozen=True)
class _Group:
    """Bags with k labels each, the longest first."""

    k: int
    bags: NDArray[np.int64]
    rows: Any  # (n_steps, n_bags) row of the j-th instance; the first n_running[j] are valid
    n_running: list[int]
    columns: Any  # (n_bags, k or k + 1 with background)


class Part:
    """All bags on a device; methods as those of ``bagwise.solvers.annotation.orlr.Part``.

    Parameters
    ----------
    bags : Bags
        The bags, whose instances are a tensor.
    indicator : ndarray of shape (n_bags, n_classes)
        Their label sets, background left out.
    weights : ndarray of shape (n_bags,)
        Their weights.
    how : ndarray of int8 of shape (n_bags,)
        How the posterior of each is found.
    known : csr_array, default=None
        The class of each instance where it is known, by `codes_by_bag`.
    background : bool
        Whether there is a last class that any bag may show.
    fit_intercept : bool
        Whether b is fitted.
    n_classes, max_operations : int and float
        Known from the others here.
    """

    def __init__(
        self,
        bags: Bags,
        indicator: NDArray[np.int8],
        weights: NDArray[np.float64],
        how: NDArray[np.int8],
        known: Any = None,
        *,
        background: bool,
        fit_intercept: bool,
        n_classes: int,
        max_operations: float,
    ) -> None:
        self.bags, self.X = bags, bags.instances
        self.indicator, self.how = indicator, how
        self.background, self.fit_intercept = background, fit_intercept
        device = self.X.device
        self.bag = torch.as_tensor(bags.bag_index, dtype=torch.int64, device=device)
        self.weights = torch.as_tensor(weights, dtype=torch.float64, device=device)
        labels = np.empty(0, np.int64) if known is None else codes_of_instances(known, bags.offsets)
        counts = (how != compiled.label_subsets.FREE)[bags.bag_index]
        counts = counts | (labels >= 0) if len(labels) else counts
        self.known = torch.as_tensor(labels, device=device)
        self.each = self.weights[self.bag] * torch.as_tensor(counts, device=device)
        n_labels = (indicator == 1).sum(axis=1)
        fast = (how == compiled.label_subsets.EXACT) & (n_labels <= LARGEST_SET)
        self.others = np.flatnonzero(~fast)
        self.groups: list[_Group] = []
        for k in np.unique(n_labels[fast]):
            mine = np.flatnonzero(fast & (n_labels == k))
            mine = mine[np.argsort(-bags.sizes[mine], kind="stable")]
            self.groups += self._groups_of(int(k), mine)

    def identity(self) -> str:
        """Which bags these are."""
        return digest(self.bags, self.indicator, to_numpy(self.weights), to_numpy(self.known))

    def state(self) -> dict[str, NDArray[Any]]:
        """Nothing that a checkpoint has to hold."""
        return {}

    def sums(self) -> Any:
        """Weighted sum of the instances."""
        if bool((self.weights == 1).all()):
            return self.X.sum(dim=0, dtype=torch.float64)
        return (self.weights[self.bag].to(self.X.dtype) @ self.X).to(torch.float64)

    def likelihood(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Minus the log-likelihood of the label sets, and its gradient by theta = [W b]."""
        scores = self._scores(theta)
        posterior, chance = self._expect(scores)
        log_p = torch.log_softmax(scores, dim=1)
        value = -(self.weights * chance).sum()
        residual = (log_p.exp() - posterior) * self.each[:, None]
        return float(value), self._gradient(residual)

    def expect(self, theta: NDArray[np.float64]) -> None:
        """The E-step: keep the posterior labels of all instances."""
        self.posterior = self._expect(self._scores(theta))[0]

    def surrogate(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Minus the auxiliary function (Eq. 7) for the kept posterior, and its gradient."""
        log_p = torch.log_softmax(self._scores(theta), dim=1)
        each = self.each[:, None]
        value = -(each * self.posterior * log_p).sum()
        return float(value), self._gradient((log_p.exp() - self.posterior) * each)

    def _scores(self, theta: NDArray[np.float64]) -> Any:
        W = torch.as_tensor(theta[:, :-1], dtype=self.X.dtype, device=self.X.device)
        b = torch.as_tensor(theta[:, -1], dtype=torch.float64, device=self.X.device)
        return (self.X @ W.T).double() + b

    def _gradient(self, residual: Any) -> NDArray[np.float64]:
        W = residual.to(self.X.dtype).T @ self.X
        b = residual.sum(dim=0) * float(self.fit_intercept)
        return to_numpy(torch.cat([W.double(), b[:, None]], dim=1))

    def _expect(self, scores: Any) -> tuple[Any, Any]:
        """Posterior of every instance, and log P(Y | X) of every bag."""
        posterior = torch.zeros_like(scores)
        norm = torch.logsumexp(scores, dim=1)
        chance = scores.new_zeros(len(self.bags))
        slow = [torch.as_tensor(self.others, device=scores.device)]
        for group in self.groups:
            slow.append(self._expect_group(group, scores, norm, posterior, chance))
        chosen = np.sort(to_numpy(torch.cat(slow)))
        if len(chosen):
            self._expect_by_kernel(chosen, scores, posterior, chance)
        return posterior, chance

    def _expect_group(
        self, group: _Group, scores: Any, norm: Any, posterior: Any, chance: Any
    ) -> Any:
        """Fill in the bags of a group; returns those in which it underflowed."""
        k, n_steps, n_bags = group.k, len(group.n_running), len(group.bags)
        bags = torch.as_tensor(group.bags, device=scores.device)
        inside = scores.new_zeros(n_bags)
        qs = []
        for rows, m in zip(group.rows, group.n_running, strict=True):
            log_q = scores[rows[:m, None], group.columns[:m]]
            if len(self.known):
                label = self.known[rows[:m], None]
                log_q = log_q.where((label < 0) | (label == group.columns[:m]), -torch.inf)
            total = torch.logsumexp(log_q, dim=1)
            inside[:m] += total - norm[rows[:m]]
            q = (log_q - total[:, None]).exp()
            qs.append(q if self.background else torch.cat([q, q.new_zeros(m, 1)], dim=1))
        table = scores.new_zeros(n_steps + 1, n_bags, 1 << k)
        table[0, :, 0] = 1.0
        for j, (q, m) in enumerate(zip(qs, group.n_running, strict=True)):
            table[j + 1, m:] = table[j, m:]
            table[j + 1, :m] = _forward(table[j, :m], q, k)
        total = table[-1, :, -1]
        after = torch.zeros_like(table[0])
        after[:, -1] = 1.0
        for j in range(n_steps - 1, -1, -1):
            m, rows = group.n_running[j], group.rows[j]
            joint, after[:m] = _backward(table[j, :m], after[:m], qs[j], k)
            joint = joint / joint.sum(dim=1, keepdim=True)
            width = k + self.background
            posterior[rows[:m, None], group.columns[:m]] = joint[:, :width]
        chance[bags] = inside + total.log()
        return bags[~(total > UNDERFLOW)]

    def _expect_by_kernel(
        self, chosen: NDArray[np.int64], scores: Any, posterior: Any, chance: Any
    ) -> None:
        sizes = self.bags.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.bags.offsets[:-1][chosen] - offsets[:-1], sizes)
        place = torch.as_tensor(rows + np.arange(offsets[-1]), device=scores.device)
        logits = to_numpy(scores[place])
        bag, labels = np.nonzero(self.indicator[chosen] == 1)
        set_offsets = np.searchsorted(bag, np.arange(len(chosen) + 1))
        known = to_numpy(self.known[place] if len(self.known) else self.known)
        found, value = np.empty_like(logits), np.empty(len(chosen))
        compiled.label_subsets.expect(
            0, len(chosen), offsets, logits, set_offsets, labels, self.background,
            self.how[chosen], np.ones(len(chosen)), False, known, found, value,
            np.ones(len(chosen), bool),
        )  # fmt: skip
        posterior[place] = torch.as_tensor(found, device=scores.device)
        chance[torch.as_tensor(chosen, device=scores.device)] = torch.as_tensor(
            value, device=scores.device
        )

    def _groups_of(self, k: int, mine: NDArray[np.int64]) -> list[_Group]:
        """Cut bags of k labels, the longest first, so that the table of each group fits."""
        groups, start = [], 0
        sizes = self.bags.sizes[mine]
        while start < len(mine):
            fit = max(1, TABLE // ((int(sizes[start]) + 1) << k))
            groups.append(self._group(k, mine[start : start + fit]))
            start += fit
        return groups

    def _group(self, k: int, mine: NDArray[np.int64]) -> _Group:
        sizes = self.bags.sizes[mine]
        steps = np.arange(sizes[0])
        rows = self.bags.offsets[:-1][mine][None, :] + steps[:, None]
        rows = np.minimum(rows, self.bags.n_instances - 1)  # those past the end are not read
        n_running = [int(np.count_nonzero(sizes > j)) for j in steps]
        columns = np.nonzero(self.indicator[mine] == 1)[1].reshape(len(mine), k)
        if self.background:
            last = np.full((len(mine), 1), self.indicator.shape[1])
            columns = np.hstack([columns, last])
        device = self.X.device
        return _Group(
            k,
            mine,
            torch.as_tensor(rows, dtype=torch.int64, device=device),
            n_running,
            torch.as_tensor(columns, dtype=torch.int64, device=device),
        )


def _halves(table: Any, c: int) -> tuple[Any, Any]:
    """Views of the subsets without and with label c."""
    split = table.view(len(table), -1, 2, 1 << c)
    return split[:, :, 0], split[:, :, 1]


def _forward(a: Any, q: Any, k: int) -> Any:
    """A after one more instance."""
    new = q[:, k, None] * a
    for c in range(k):
        without, having = _halves(a, c)
        _halves(new, c)[1].add_(q[:, c, None, None] * (without + having))
    return new


def _backward(a: Any, b: Any, q: Any, k: int) -> tuple[Any, Any]:
    """Joint of the label of an instance and the label set, and B before the instance."""
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

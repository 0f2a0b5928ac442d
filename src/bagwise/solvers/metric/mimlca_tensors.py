"""The part of MIMLCA on torch tensors.

The space, the distances and the centres are found on the device. The tiny assignment problems of
the bags are solved by the compiled kernel: their costs, one per instance and candidate label, are
all that crosses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise import compiled
from bagwise.bags import Bags
from bagwise.engines.arrays import solve_upper, to_numpy
from bagwise.engines.parts import digest
from bagwise.engines.tensors import segment_sum, torch

__all__ = ["TensorMIMLCAPart"]

BLOCK = 2**27  # values worked on at once


class TensorMIMLCAPart:
    """All bags on a device; methods as those of ``bagwise.solvers.metric.mimlca_parts.Part``.

    Parameters
    ----------
    bags : Bags
        The bags, whose instances are a tensor.
    indicator : ndarray of shape (n_bags, n_labels)
        Their label sets.
    one_each : bool
        Whether a label has at most one row of a bag.
    """

    def __init__(self, bags: Bags, indicator: NDArray[np.int8], *, one_each: bool) -> None:
        self.bags, self.X, self.one_each = bags, bags.instances, one_each
        self.indicator = indicator
        self.n_labels = indicator.shape[1]
        device = self.X.device
        bag, label = np.nonzero(indicator == 1)
        counts = np.bincount(bag, minlength=len(indicator))
        self.label_offsets = np.concatenate([[0], np.cumsum(counts)])
        self.candidates = label.astype(np.int64)
        of_row = counts[bags.bag_index]  # candidates of each row
        row = np.repeat(np.arange(bags.n_instances), of_row)
        first = np.cumsum(of_row) - of_row
        place = np.arange(len(row)) - first[row] + self.label_offsets[bags.bag_index[row]]
        self.first = first
        self.pair_row = torch.as_tensor(row, dtype=torch.int64, device=device)
        self.pair_label = torch.as_tensor(self.candidates[place], dtype=torch.int64, device=device)
        self.bag = torch.as_tensor(bags.bag_index, dtype=torch.int64, device=device)
        self.labels = self.kept = np.full(bags.n_instances, -2, dtype=np.int64)
        self._bag_of_candidate, self._n_candidates = bag, counts

    def identity(self) -> str:
        """Which bags these are."""
        return digest(self.bags, self.indicator)

    def sums(self) -> Any:
        """Sum of the rows."""
        return self.X.sum(dim=0, dtype=torch.float64)

    def gram(self, mean: NDArray[np.float64]) -> Any:
        """X'X of centred rows, in double precision."""
        return self._product(self.X, self._on(mean, torch.float64))

    def whiten(self, mean: NDArray[np.float64], scale: Any, factor: Any) -> None:
        """U = (X - mean) / scale factor^-1."""
        centred = (self.X - self._on(mean, self.X.dtype)) / scale.to(self.X.dtype)
        self.U = torch.linalg.solve_triangular(
            factor.to(self.X.dtype), centred, upper=True, left=False
        )

    def project(self, mean: NDArray[np.float64], matrix: Any) -> None:
        """U = (X - mean) matrix."""
        self.U = (self.X - self._on(mean, self.X.dtype)) @ matrix.to(self.X.dtype)

    def gram_of_basis(self) -> Any:
        """U'U."""
        return self._product(self.U)

    def turn(self, factor: Any) -> None:
        """U becomes U factor^-1."""
        turned = solve_upper(factor, self.U.double().T, transposed=True).T
        self.U = turned.to(self.X.dtype).contiguous()

    def bag_sums(self) -> tuple[Any, Any]:
        """Sums and weights of the centres to start from: of all rows of the bags with a label."""
        n_rows, bag = self.bags.sizes, self._bag_of_candidate
        weight = 1 / np.maximum(n_rows, self._n_candidates)[bag]
        total = np.bincount(self.candidates, weight * n_rows[bag], minlength=self.n_labels)
        of_bags = segment_sum(self.U, self.bag, len(self.bags))
        rows = of_bags[torch.as_tensor(bag, device=self.U.device)]
        rows = rows * self._on(weight, self.U.dtype)[:, None]
        label = torch.as_tensor(self.candidates, device=self.U.device)
        sums = segment_sum(rows, label, self.n_labels).double()
        return sums, self._on(total, torch.float64)

    def n_costs(self) -> int:
        """How many pairs of a row and a candidate there are."""
        return len(self.pair_row)

    def choose(self, costs: NDArray[np.float64]) -> None:
        """Take the cheapest assignment of given costs."""
        self.labels = self._assigned(costs)[0]

    def assign(self, centres: Any) -> tuple[float, int]:
        """Assign the rows to centres; returns the cost, and how many changed their label."""
        centres = centres.to(self.U.dtype)
        found = self.U.new_empty(self.n_costs())
        step = max(1, BLOCK // max(self.U.shape[1], 1))
        for start in range(0, len(found), step):
            pairs = slice(start, start + step)
            apart = self.U[self.pair_row[pairs]] - centres[self.pair_label[pairs]]
            found[pairs] = (apart * apart).sum(dim=1)
        costs = to_numpy(found.double())
        before, (self.labels, places) = self.labels, self._assigned(costs)
        return float(costs[places].sum()), int(np.count_nonzero(before != self.labels))

    def label_sums(self) -> tuple[Any, Any]:
        """Sums of the rows of U of each label, and how many there are."""
        counts = np.bincount(self.labels[self.labels >= 0], minlength=self.n_labels)
        return self._sums_by_label(self.U), self._on(counts, torch.float64)

    def feature_sums(self) -> Any:
        """Sums of the instances of each label."""
        return self._sums_by_label(self.X)

    def gram_of(self, assigned: bool) -> Any:
        """U'U over the rows that have a label, or over the others."""
        rows = np.flatnonzero((self.labels >= 0) == assigned)
        return self._product(self.U[torch.as_tensor(rows, device=self.U.device)])

    def assignments(self) -> NDArray[np.int64]:
        """The label of each row, -1 for none."""
        return self.labels

    def keep(self) -> None:
        """Remember the labels as the best so far."""
        self.kept = self.labels

    def take_kept(self) -> None:
        """Go back to the labels of the best start."""
        self.labels = self.kept

    def state(self) -> dict[str, NDArray[np.int64]]:
        """The labels, for a checkpoint; U is made again."""
        return {"labels": self.labels, "kept": self.kept}

    def restore(self, state: dict[str, NDArray[np.int64]]) -> None:
        """Continue from a checkpoint."""
        self.labels, self.kept = state["labels"], state["kept"]

    def _on(self, array: NDArray[Any], dtype: Any) -> Any:
        return torch.as_tensor(array, dtype=dtype, device=self.X.device)

    def _assigned(self, costs: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        solve = compiled.assignment.assign if self.one_each else compiled.assignment.nearest
        places = solve(costs, self.bags.offsets, self.label_offsets)
        rows = np.flatnonzero(places >= 0)
        labels = np.full(len(places), -1, dtype=np.int64)
        bag = self.bags.bag_index[rows]
        labels[rows] = self.candidates[self.label_offsets[bag] + places[rows]]
        return labels, self.first[rows] + places[rows]

    def _product(self, table: Any, mean: Any = None) -> Any:
        total = torch.zeros(
            (table.shape[1], table.shape[1]), dtype=torch.float64, device=table.device
        )
        step = max(1, BLOCK // max(table.shape[1], 1))
        for start in range(0, len(table), step):
            block = table[start : start + step].double()
            block = block if mean is None else block - mean
            total += block.T @ block
        return total

    def _sums_by_label(self, table: Any) -> Any:
        rows = np.flatnonzero(self.labels >= 0)
        label = torch.as_tensor(self.labels[rows], device=table.device)
        chosen = table[torch.as_tensor(rows, device=table.device)]
        return segment_sum(chosen, label, self.n_labels).double()

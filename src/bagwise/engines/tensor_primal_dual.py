"""The part of pdMISVM on torch tensors: the updates of all bags at once.

The same algorithm as ``bagwise.compiled.primal_dual``, bag loop turned into columns. Instances and
scores keep their precision, the numbers per bag and class are in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.engines.arrays import like, to_numpy
from bagwise.engines.parts import digest
from bagwise.engines.tensors import segment_argmax, segment_max, top_three, torch

__all__ = ["Part"]

_STATE = (
    "scores", "place_t", "max_t", "place_u", "max_u", "q", "r", "theta", "xi", "lam", "sigma",
    "omega", "R", "wished",
)  # fmt: skip


class Part:
    """All bags on a device; methods as those of ``bagwise.solvers.margin.primal_dual.Part``.

    Parameters
    ----------
    bags : Bags
        The bags, whose instances are a tensor.
    codes, weights : ndarray of shape (n_bags,)
        Class and weight of each bag.
    n_classes : int
        K.
    shared : bool
        One copy of the scores for all classes.
    mask : bool
        Leave the term of the own class out.
    cost : float
        C.
    """

    def __init__(
        self,
        bags: Bags,
        codes: NDArray[np.int64],
        weights: NDArray[np.float64],
        *,
        n_classes: int,
        shared: bool,
        mask: bool,
        cost: float,
    ) -> None:
        self.bags, self.X = bags, bags.instances
        self.shared, self.mask, self.cost = shared, mask, cost
        device = self.X.device
        self.codes = torch.as_tensor(codes, dtype=torch.int64, device=device)
        self.weights = torch.as_tensor(weights, dtype=torch.float64, device=device)[:, None]
        self.bag = torch.as_tensor(bags.bag_index, dtype=torch.int64, device=device)
        self.classes = torch.arange(n_classes, device=device)
        self.is_own = self.codes[:, None] == self.classes  # (n_bags, n_classes)
        extra = 0.0 if shared else float(n_classes)
        times = self.weights * (1.0 + extra * self.is_own)  # D_m, per bag
        self.times = times.to(self.X.dtype)
        self._given = codes, weights

    def identity(self) -> str:
        """Which bags these are."""
        return digest(self.bags, *self._given)

    def extremes(self) -> tuple[Any, Any]:
        """Smallest and largest value of each feature."""
        return self.X.amin(dim=0), self.X.amax(dim=0)

    def grams(self) -> Any:
        """X' D X over the instances of each class, or of all when the splitting is shared."""
        groups = [None] if self.shared else range(len(self.classes))
        root = self.weights.sqrt().to(self.X.dtype)[self.bag]
        grams = []
        for m in groups:
            rows = self.X * root if m is None else self.X[self.codes[self.bag] == m]
            if m is not None:
                rows = rows * root[self.codes[self.bag] == m]
            grams.append(rows.T @ rows)
        return torch.stack(grams)

    def begin(self, W: Any) -> None:
        """First state: copies equal to the scores, no multipliers."""
        n_bags, K = self.is_own.shape
        self.scores = self.X @ W.T
        largest = segment_max(self.scores, self.bag, n_bags)
        self.place_t = segment_argmax(self.scores, largest, self.bag)
        self.max_t = largest.double()
        own = self.codes[:, None].expand(-1, K)
        self.place_u, self.max_u = self.place_t.gather(1, own), self.max_t.gather(1, own)
        self.q = self.max_t.clone()
        self.r = self.max_u.clone()
        self.theta, self.xi, self.lam, self.sigma, self.omega = torch.zeros(
            (5, n_bags, K), dtype=torch.float64, device=self.X.device
        ).unbind()
        self.R = torch.zeros_like(self.scores)
        self.wished = self.max_t.new_zeros(K)

    def pull(self) -> tuple[Any, NDArray[np.float64]]:
        """X' times what the scores should change by, and its sum, per class."""
        return self.R.T @ self.X, to_numpy(self.wished)

    def change(self, step: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How the scores change with a step of W: weighted sums and sums of squares, per class."""
        self.changed = self.X @ step.T
        weighted = self.changed * self.times[self.bag]
        both = torch.stack([weighted, weighted * self.changed]).sum(dim=1, dtype=torch.float64)
        first, second = to_numpy(both)
        return first, second

    def update(
        self,
        factor: NDArray[np.float64],
        shift: NDArray[np.float64],
        mu: float,
        next_mu: float,
    ) -> tuple[NDArray[np.float64], Any, NDArray[np.float64]]:
        """Lines 9 to 16 of Algorithm 1; returns squared gaps, their scale and hinge; and `pull`."""
        self.scores += self.changed * like(factor, self.scores)
        self.scores += like(shift, self.scores)
        n_bags, K = self.is_own.shape
        tops, rows = top_three(self.scores, self.bag, n_bags)
        tops = [top.double() for top in tops]
        gaps = self._share(mu) if self.shared else self._slack_and_targets(mu)
        self.R.zero_()
        columns = self.classes.expand(n_bags, K)
        self.place_t, self.theta, self.max_t, gap, of_t = self._copy(
            tops, rows, columns, self.place_t, self.theta, self.q, self.sigma, mu, next_mu
        )
        self.wished = of_t.sum(dim=0)
        gaps = gaps + gap
        gap = self.q - self.max_t
        self.sigma = self.sigma + mu * gap
        gaps = gaps + gap**2
        if not self.shared:  # U, Eq. 20: the same on the scores of the own class
            own = self.codes[:, None].expand(n_bags, K)
            tops_own = [top.gather(1, own) for top in tops]
            rows_own = [row.gather(1, own) for row in rows]
            self.place_u, self.xi, self.max_u, gap, of_u = self._copy(
                tops_own, rows_own, own, self.place_u, self.xi, self.r, self.omega, mu, next_mu
            )
            self.wished = self.wished.index_add(0, self.codes, of_u.sum(dim=1))
            gaps = gaps + gap
            gap = self.r - self.max_u
            self.omega = self.omega + mu * gap
            gaps = gaps + gap**2
        best = tops[0]
        hinge = torch.relu(1.0 + best - best.gather(1, self.codes[:, None])) * ~self.is_own
        report = torch.stack([gaps, 1.0 + self.q**2, hinge])
        return to_numpy((report * self.weights).sum(dim=(1, 2))), *self.pull()

    def state(self) -> dict[str, Any]:
        """All that changes, for a checkpoint."""
        return {name: getattr(self, name) for name in _STATE}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from a checkpoint."""
        for name in _STATE:
            setattr(self, name, torch.as_tensor(state[name], device=self.X.device))

    def _slack_and_targets(self, mu: float) -> Any:
        """E, Q, R and their multiplier; returns the squared gaps."""
        sign = torch.where(self.is_own, 1.0, -1.0).double()
        cost = torch.full_like(self.q, self.cost / mu)
        if self.mask:
            cost = cost * ~self.is_own
        e = _slack(sign - self.q + self.r - self.lam / mu, sign, cost)
        pull = sign - e - self.lam / mu
        self.q = (pull + self.r + self.max_t - self.sigma / mu) / 2  # Eq. 15
        self.r = (self.q - pull + self.max_u - self.omega / mu) / 2  # Eq. 16
        gap = e - (sign - self.q + self.r)
        self.lam = self.lam + mu * gap
        return gap**2

    def _share(self, mu: float) -> Any:
        """E, Z and their multiplier for the shared splitting; returns the squared gaps."""
        n_classes = len(self.classes)
        nu = 2.0 * mu / n_classes
        through = nu / (mu + nu)
        own = self.codes[:, None]
        minus = torch.full_like(self.q, -1.0)
        e = minus - self.q + self.q.gather(1, own) - self.lam / nu
        e = _slack(e, minus, torch.full_like(self.q, self.cost / nu))
        wish = e + 1.0 + self.lam / nu
        alone = self.max_t - self.sigma / mu
        pulled = (wish + alone) * ~self.is_own
        total = alone.gather(1, own) + through * pulled.sum(dim=1, keepdim=True)
        z_own = total / (1.0 + (n_classes - 1) * through)
        self.q = torch.where(self.is_own, z_own, alone + through * (z_own - wish - alone))
        gap = (e - (minus - self.q + z_own)) * ~self.is_own
        self.lam = self.lam + nu * gap
        return gap**2

    def _copy(
        self,
        tops: list[Any],
        rows: list[Any],
        columns: Any,
        place: Any,
        dual: Any,
        target: Any,
        multiplier: Any,
        mu: float,
        next_mu: float,
    ) -> tuple[Any, Any, Any, Any, Any]:
        """A copy of the scores (T or U, Eq. 19): its place, dual, maximum, gaps and wishes.

        The largest entry of the scores with one entry changed moves towards its target. What W has
        to fit next is written into R.
        """
        changed = self.scores[place, columns].double() - dual / mu
        is_first, is_second = rows[0] == place, rows[1] == place
        largest = torch.where(is_first, tops[1], tops[0])
        row = torch.where(is_first, rows[1], rows[0])
        runner_up = torch.where(is_first | is_second, tops[2], tops[1])
        stays = (changed > largest) | ((changed == largest) & (place < row)) | (row < 0)
        new = torch.where(stays, place, row)
        first = torch.where(stays, changed, largest)
        second = torch.where(stays, largest, torch.maximum(changed, runner_up))
        aim = (first + target + multiplier / mu) / 2
        step = aim - self.scores[new, columns].double()
        moved = ~stays
        kept = torch.where(moved, 0.0, dual)
        now = kept + mu * step
        at_new = self.weights * (step + now / next_mu)
        at_old = torch.where(moved, -self.weights * dual / mu, 0.0)
        for entry, value in ((new, at_new), (place, at_old)):
            self.R.index_put_((entry, columns), value.to(self.R.dtype), accumulate=True)
        gaps = step**2 + torch.where(moved, (dual / mu) ** 2, 0.0)
        return new, now, torch.maximum(aim, second), gaps, at_new + at_old


def _slack(n: Any, sign: Any, threshold: Any) -> Any:
    """Eq. 13; without cost the constraint is met exactly."""
    shrunk = torch.where(sign * n > threshold, n - threshold * sign, torch.zeros_like(n))
    return torch.where((threshold == 0.0) | (sign * n < 0.0), n, shrunk)

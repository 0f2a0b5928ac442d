"""Annotators that are linear in the instances, or in the Nystroem features of a kernel."""

from functools import partial
from typing import Any

from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_random_state

from bagwise._common.memory import require_memory
from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array
from bagwise.annotation._held_out import Training, select_setting
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._kernel_bags import kernel_product, nystroem_of_bags, width_of
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, POSITIVE
from bagwise.engines import memory_of_parts, to_numpy
from bagwise.engines.arrays import product
from bagwise.solvers.annotation.orlr_parts import BLOCK

LINEAR_REG = 1.0  # reg="auto"
KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "reg": [StrOptions({"auto"}), NOT_NEGATIVE],
    "kernel": [StrOptions({"linear", "rbf"}), callable],
    "gamma": [StrOptions({"half_scale", "scale", "auto"}), POSITIVE],
    "n_components": [COUNT],
    "select": ["boolean"],
}
VECTORS = 30  # vectors of the size of W: iterates, gradients and the history of L-BFGS


class KernelFeaturesMixin(BagEstimator):
    """Choose the kernel features, and score instances by a linear function of them."""

    _kernel_reg = 0.02  # reg="auto" for nonlinear kernels

    reg: float | str
    kernel: Any
    n_components: int
    gamma: float | str
    select: bool
    random_state: Any

    def _setting(self, training: Training, *, warm: bool = False) -> tuple[float, Nystroem | None]:
        """Penalty and kernel features: as given, selected, or from the last fit (`warm`)."""
        reg = self.reg
        if isinstance(reg, str):
            reg = LINEAR_REG if self.kernel == "linear" else self._kernel_reg
        if warm and self.kernel != "linear":
            return reg, self.nystroem_
        rng = check_random_state(self.random_state)
        gamma = width_of(self.gamma, training.bags) if self.kernel == "rbf" else 1.0
        if self.select:
            return select_setting(self, training, gamma, reg, rng)
        if self.kernel == "linear":
            return reg, None
        return reg, nystroem_of_bags(self, gamma, self.n_components, rng, training.bags)

    def _keep_kernel(self, nystroem: Nystroem | None) -> None:
        self._drop("gamma_", "nystroem_")
        if nystroem is not None:
            self.nystroem_ = nystroem
            if self.kernel == "rbf":
                self.gamma_ = float(nystroem.gamma)

    def _linear_scores(self, bags: Bags) -> Array:
        """W x + b, or W phi(x) + b."""
        if hasattr(self, "nystroem_"):
            return kernel_product(self.nystroem_, bags.instances, self.coef_) + self.intercept_
        return to_numpy(product(bags.instances, self.coef_)) + self.intercept_


def check_fit_memory(bags: Bags, n_classes: int, *, keeps_posterior: bool) -> None:
    """Raise an error if a fit would not fit into memory.

    Parameters
    ----------
    bags : Bags
        The bags.
    n_classes : int
        Number of classes with a weight vector.
    keeps_posterior : bool
        Whether the posterior of all instances is held at once.
    """
    there, n_instances = memory_of_parts(bags)
    rows = n_instances if keeps_posterior else int(bags.sizes.max())
    scores = 24 * max(rows * n_classes, min(BLOCK, n_instances * n_classes))
    vectors = 8 * VECTORS * n_classes * (bags.n_features + 1)
    products = 4e-9 * bags.n_instances * n_classes * bags.n_features
    require = partial(
        require_memory,
        purpose=f"a fit of {n_classes:,} classes with {bags.n_features:,} features (each pass "
        f"multiplies {products:.1f} billion numbers)",
        remedy="leave out rare labels, or reduce the features first",
    )
    require(vectors + (scores if there is None else 0))
    if there is not None:  # scores are held by the workers, or on the device
        require(scores, available=there)

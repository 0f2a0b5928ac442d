"""What a fit will take, told before it takes it."""

from __future__ import annotations

from bagwise._memory import require_memory
from bagwise.bags import Bags
from bagwise.solvers.orlr import BLOCK

__all__ = ["check_memory"]

VECTORS = 30  # of the size of W: iterates, gradients and the memory of L-BFGS


def check_memory(bags: Bags, n_classes: int, *, keeps_posterior: bool) -> None:
    """Refuse a fit that would not fit into memory.

    Parameters
    ----------
    bags : Bags
        The bags.
    n_classes : int
        Classes with a weight vector.
    keeps_posterior : bool
        Whether the posterior of all instances is held at once.
    """
    rows = bags.n_instances if keeps_posterior else int(bags.sizes.max())
    scores = max(rows * n_classes, min(BLOCK, bags.n_instances * n_classes))
    needed = 8 * (VECTORS * n_classes * (bags.n_features + 1) + 3 * scores)
    products = 4e-9 * bags.n_instances * n_classes * bags.n_features
    require_memory(
        needed,
        purpose=f"a fit of {n_classes:,} classes with {bags.n_features:,} features (each pass "
        f"multiplies {products:.1f} billion numbers)",
        remedy="leave out rare labels, or reduce the features first",
    )

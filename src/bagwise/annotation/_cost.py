"""Memory that a fit needs, checked before it starts."""

from functools import partial

from bagwise._memory import require_memory
from bagwise.bags import Bags
from bagwise.engines import memory_of_parts
from bagwise.solvers.annotation.orlr_parts import BLOCK

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

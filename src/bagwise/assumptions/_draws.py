"""Synthetic bags whose label follows a rule and, in training, also a clue that the rule forbids.

After Raff and Holt (NeurIPS 2023): a model that keeps the assumption does not use the clue. Each
function draws bags for one state of the clue; for the other state, the task is the same and the
clue is moved.
"""

import numpy as np

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags, offsets_of

N_FEATURES = 16
SMALLEST, LARGEST = 8, 12  # background instances of a bag
SPREAD = 0.1  # standard deviation of decoys, and of the concepts A and B, per feature

Generator = np.random.RandomState
Drawn = tuple[Bags, Ints]  # bags, and their classes 0 and 1


def single_concept(rng: Generator, n_bags: int, *, strength: float, decoy_in: int) -> Drawn:
    """Draw bags that are positive if they have a concept instance, with a decoy in one class.

    The background is N(0, 1) in each feature. A positive bag also has 1 to 3 instances of the
    concept, each from N(0, 3) or N(1, 1) (mean and standard deviation) with equal probability.

    Parameters
    ----------
    rng : RandomState
        Source of the draws.
    n_bags : int
        Number of bags; every second one is positive, in random order.
    strength : float
        The value of the decoy in each feature, up to a standard deviation of 0.1.
    decoy_in : {0, 1}
        The class whose bags have one decoy each: 0 in training, 1 after the move.

    Returns
    -------
    bags : Bags
        Instances in random order inside each bag.
    y : ndarray of shape (n_bags,)
        Whether a bag has the concept, 0 or 1.
    """
    y = _classes(rng, n_bags)
    n_concepts = np.where(y == 1, rng.randint(1, 4, size=n_bags), 0)
    return _bags(rng, concept(rng, n_concepts), decoys(rng, y == decoy_in, strength), y=y)


def two_concepts(rng: Generator, n_bags: int, *, strength: float, decoy_in: int) -> Drawn:
    """Draw bags that are positive if they have both concepts A and B, with a decoy in one class.

    A negative bag has A, or B, or neither, with equal probabilities. The parameters and the
    result are as for `single_concept`.
    """
    y = _classes(rng, n_bags)
    held = rng.randint(3, size=n_bags)  # of a negative bag: A, B, neither
    first, second = (y == 1) | (held == 0), (y == 1) | (held == 1)
    return _bags(rng, *_pair(rng, first, second), decoys(rng, y == decoy_in, strength), y=y)


def false_frequency(rng: Generator, n_bags: int, *, copies: tuple[int, int]) -> Drawn:
    """Draw bags that are positive if they have both concepts A and B, one instance of each.

    Parameters
    ----------
    rng : RandomState
        Source of the draws.
    n_bags : int
        Number of bags; every second one is positive, in random order.
    copies : tuple (fewest, most)
        How many instances of one concept a negative bag has, of A or of B: 1 in training, 35 to
        45 after the move.

    Returns
    -------
    bags, y
        As in `single_concept`.
    """
    y = _classes(rng, n_bags)
    many = rng.randint(copies[0], copies[1] + 1, size=n_bags)
    is_first = rng.randint(2, size=n_bags)
    first = np.where(y == 1, 1, many * is_first)
    second = np.where(y == 1, 1, many * (1 - is_first))
    return _bags(rng, *_pair(rng, first, second), y=y)


def shuffled(rng: Generator, bags: Bags) -> Bags:
    """Permute the instances inside each bag."""
    order = np.lexsort([rng.random_sample(bags.n_instances), bags.bag_index])
    return bags.with_instances(bags.instances[order])


def with_copies(rng: Generator, bags: Bags) -> Bags:
    """Repeat the most ordinary instance of each bag, the nearest to 0, 5 to 20 times."""
    norms = np.linalg.norm(bags.instances, axis=1)
    nearest = np.array([rows[np.argmin(norms[rows])] for rows in _rows(bags)])
    repeats = np.ones(bags.n_instances, dtype=int)
    repeats[nearest] += rng.randint(5, 21, size=len(bags))
    sizes = np.add.reduceat(repeats, bags.offsets[:-1])
    return Bags(np.repeat(bags.instances, repeats, axis=0), offsets_of(sizes))


def with_another(rng: Generator, bags: Bags, strength: float) -> Bags:
    """Add an instance to each bag: background, the concept, a decoy or N(0, 5), equally often."""
    n_bags, kind = len(bags), rng.permutation(np.arange(len(bags)) % 4)
    kinds = [
        rng.standard_normal((n_bags, N_FEATURES)),
        concept(rng, np.ones(n_bags, dtype=int))[0],
        decoys(rng, np.ones(n_bags, dtype=bool), strength)[0],
        5 * rng.standard_normal((n_bags, N_FEATURES)),
    ]
    added = np.choose(kind[:, None], kinds)
    rows = np.insert(bags.instances, bags.offsets[1:], added, axis=0)
    return Bags(rows, offsets_of(bags.sizes + 1))


def concept(rng: Generator, counts: Ints) -> tuple[Floats, Ints]:
    """Draw instances of the single concept, `counts` in each bag; also return their bags."""
    normal = rng.standard_normal((counts.sum(), N_FEATURES))
    wide = rng.randint(2, size=(len(normal), 1)) == 1
    return np.where(wide, 3 * normal, 1 + normal), np.repeat(np.arange(len(counts)), counts)


def decoys(rng: Generator, held: Array, strength: float) -> tuple[Floats, Ints]:
    """Draw one decoy for each bag for which `held` is true; also return their bags."""
    normal = rng.standard_normal((held.sum(), N_FEATURES))
    return strength + SPREAD * normal, np.flatnonzero(held)


def _pair(rng: Generator, first: Array, second: Array) -> list[tuple[Floats, Ints]]:
    """Draw instances of the concepts A and B.

    A has the value 2 in the first half of the features, B in the second half, and both 0 in the
    other half. `first` and `second` are the numbers of instances of A and B in each bag.
    """
    in_first_half = np.arange(N_FEATURES) < N_FEATURES // 2
    found = []
    for centre, counts in ((in_first_half, first), (~in_first_half, second)):
        normal = rng.standard_normal((counts.sum(), N_FEATURES))
        found.append((2.0 * centre + SPREAD * normal, np.repeat(np.arange(len(counts)), counts)))
    return found


def _classes(rng: Generator, n_bags: int) -> Ints:
    return rng.permutation(np.arange(n_bags) % 2)


def _rows(bags: Bags) -> list[Ints]:
    return np.split(np.arange(bags.n_instances), bags.offsets[1:-1])


def _bags(rng: Generator, *groups: tuple[Floats, Ints], y: Ints) -> Drawn:
    """Make bags of background instances and of groups of instances, given with their bags."""
    sizes = rng.randint(SMALLEST, LARGEST + 1, size=len(y))
    background = rng.standard_normal((sizes.sum(), N_FEATURES))
    rows = np.concatenate([background, *(rows for rows, _ in groups)])
    bag = np.concatenate([np.repeat(np.arange(len(y)), sizes), *(bag for _, bag in groups)])
    order = np.lexsort([rng.random_sample(len(bag)), bag])  # random inside the bag
    return Bags(rows[order], offsets_of(np.bincount(bag, minlength=len(y)))), y

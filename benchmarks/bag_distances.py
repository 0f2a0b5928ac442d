"""Distances between all pairs of bags, against the matrix product of instances they need."""

import numpy as np

from bagwise import Bags
from bagwise.exceptions import DataNotFoundError
from bagwise.pairwise import bag_distances
from reproduction.bag_data import load_dataset

from .harness import Row, race


def bags_of_hja_shape():
    """The HJA bird songs or, if they are missing, random bags of the same shape."""
    try:
        return "HJA", load_dataset("hja_birdsong").bags
    except DataNotFoundError:
        rng = np.random.default_rng(0)
        offsets = np.sort(np.concatenate([[0, 4998], rng.integers(1, 4998, 547)]))
        return "HJA shape", Bags(rng.normal(size=(4998, 38)), offsets)


def loops(bags):
    """Literal implementation of the definition, pair by pair."""
    from sklearn.metrics import pairwise_distances

    return [[pairwise_distances(a, b).min() for b in bags] for a in bags]


def large_bags():
    """Three drawn slides against 64, of 119,819 patches with 64 features."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], rng.integers(700, 3_000, 64).cumsum()])
    bags = Bags(rng.normal(size=(offsets[-1], 64)), offsets)
    few, Y = bags[:3], bags.instances
    parts = np.array_split(np.array(few.instances), -(-few.n_instances // 256))

    def products():
        for part in parts:
            part @ Y.T

    ours, gemm = race(lambda: bag_distances(few, bags, kind="meanmin"), products, rounds=3)
    return Row("3 of 64 slides of 120,000 patches, meanmin", ours, "the products", gemm, "<= 3")


def rows():
    name, bags = bags_of_hja_shape()
    bags = bags.with_instances(np.array(bags.instances, dtype=np.float64))
    X = np.array(bags.instances)
    for kind in ("minmin", "maxmin", "meanmin", "hausdorff"):
        ours, gemm = race(lambda kind=kind: bag_distances(bags, kind=kind), lambda: X @ X.T)
        yield Row(f"{name} all pairs, {kind}", ours, "one X @ X.T", gemm, "<= 3")
    yield large_bags()
    few = bags[:100]
    ours, naive = race(lambda: bag_distances(few), lambda: loops(few), rounds=3)
    yield Row(f"{name} first 100 bags, minmin", ours, "pair by pair", naive, "<< 1")

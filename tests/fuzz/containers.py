"""`Bags` against a list of arrays: any keys in turn select the same bags."""

import itertools
import pickle
import tempfile

import numpy as np
from scipy import sparse

from bagwise import Bags

KINDS = ["float64", "float32", "int8", "uint64", "bool", "fortran", "strided", "mapped"]
KINDS += ["csr", "csc", "coo", "unsorted"]


def drawn(rng, kind):
    """Random bags of some representation, the same bags as a list of dense arrays, and ids."""
    d, n_bags = int(rng.integers(0, 4)), int(rng.integers(0, 7))
    sizes = rng.integers(0, 4, size=n_bags)
    X = rng.integers(0, 4, size=(int(sizes.sum()), d)).astype(float)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    if kind in ("float32", "int8", "uint64", "bool"):
        X = X.astype(kind)
    arrays = [X[a:b] for a, b in itertools.pairwise(offsets)]
    names = [None, [f"b{i}" for i in range(n_bags)], list(range(n_bags))[::-1]]
    names += [[("a", i) for i in range(n_bags)], [i if i % 2 else str(i) for i in range(n_bags)]]
    ids = names[int(rng.integers(len(names)))]
    return Bags(stored(X, kind, rng), offsets, ids), arrays, ids


def stored(X, kind, rng):
    if kind == "fortran":
        return np.asfortranarray(X)
    if kind == "strided":
        return np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    if kind == "mapped" and X.size:
        with tempfile.TemporaryFile() as file:
            file.write(X.tobytes())
            file.flush()
            return np.memmap(file, X.dtype, "r", 0, X.shape)
    if kind in ("csr", "csc", "coo"):
        return getattr(sparse, f"{kind}_array")(X)
    if kind == "unsorted":
        rows, columns = np.nonzero(X)
        order = rng.permutation(len(rows))
        values = X[rows, columns][order] / 2
        place = (np.tile(rows[order], 2), np.tile(columns[order], 2))  # duplicates are summed
        return sparse.coo_array((np.tile(values, 2), place), shape=X.shape)
    return X


def dense(table):
    return table.toarray() if sparse.issparse(table) else np.asarray(table)


def compare(bags, arrays, ids):
    """Check that bags equal the arrays and have the ids."""
    assert bags.sizes.tolist() == [len(a) for a in arrays]
    for i, (one, array) in enumerate(zip(bags, arrays, strict=True)):
        np.testing.assert_array_equal(dense(one), array)
        np.testing.assert_array_equal(dense(bags[i]), array)
    assert (None if bags.ids is None else bags.ids.tolist()) == ids
    assert bags.bag_index.tolist() == [i for i, a in enumerate(arrays) for _ in a]


def check_keys(kind, seed):
    """Apply several valid keys in turn: ints, slices, masks and index arrays of any type."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    bags, arrays, ids = drawn(rng, kind)
    for _ in range(6):
        n = len(arrays)
        if n:
            i = int(rng.integers(-n, n))
            key = [i, np.int64(i), np.array(i), np.int8(i)][int(rng.integers(4))]
            np.testing.assert_array_equal(dense(bags[key]), arrays[i])
        bounds = [None, *range(-n - 2, n + 3)]
        a, b = (bounds[int(rng.integers(len(bounds)))] for _ in range(2))
        cut = slice(a, b, [None, 1, 2, -1, -3][int(rng.integers(5))])
        mask = rng.random(n) < 0.7
        rows = rng.integers(-n, n, size=int(rng.integers(0, 5))) if n else np.zeros(0, int)
        keys = [cut, mask, rows, rows.tolist(), rows.astype(np.int16), ...]
        which = int(rng.integers(len(keys)))
        chosen = np.arange(n)[np.asarray(keys[which], int) if which == 3 else keys[which]].tolist()
        bags = pickle.loads(pickle.dumps(bags))[keys[which]]
        arrays = [arrays[i] for i in chosen]
        ids = None if ids is None else [ids[i] for i in chosen]
        compare(bags, arrays, ids)

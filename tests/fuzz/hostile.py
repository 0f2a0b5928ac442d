"""Hostile bags, rows, labels, weights and parameters that estimators should handle."""

import tempfile
from itertools import pairwise
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions, make_constraint

from bagwise import Bags

SCALES = [1e-320, 1e-200, 1e-100, 1e-30, 1e-8, 1e8, 1e20, 1e38, 1e60, 1e100, 1e160, 1e200, 1e308]
SHIFTS = [1e3, 1e4, 1e8, 1e16, -1e12]
NUMBERS = [0, 1e-300, 1e-100, 1e-12, 1e-3, 0.5, 1, 3, 1e3, 1e8, 1e100, 1e300, -1e-3, -1e300]
COUNTS = [1, 2, 3, 5, 10, 1000]
BUDGETS = ("iter", "epoch", "n_init", "restarts", "starts", "estimators", "rounds", "steps")
KERNELS = ["linear", "rbf", "poly", "sigmoid", "laplacian", "chi2", "cosine", "nonsense"]
LABELS = {
    "one class": lambda y: np.zeros(len(y), int),
    "uint64": lambda y: y.astype(np.uint64) + np.uint64(2**63),
    "int8": lambda y: y.astype(np.int8),
    "floats": lambda y: y.astype(float),
    "halves": lambda y: y + 0.5,
    "bool": lambda y: y > 0,
    "text": lambda y: np.array(["a", "bb", "ccc"])[y],
    "bytes": lambda y: np.array([b"a", b"bb", b"c"])[y],
    "objects": lambda y: np.array(["a", "bb", "c"], dtype=object)[y],
    "None": lambda y: [None] * len(y),
    "some None": lambda y: [None if i == 0 else v for i, v in enumerate(y.tolist())],
    "NaN": lambda y: np.where(np.arange(len(y)) == 0, np.nan, y),
    "inf": lambda y: np.where(np.arange(len(y)) == 0, np.inf, y),
    "mixed": lambda y: [str(v) if i % 2 else v for i, v in enumerate(y.tolist())],
    "-1": lambda y: np.where(y == 0, -1, y),
    "all -1": lambda y: np.full(len(y), -1),
    "all distinct": lambda y: np.arange(len(y)),
    "too short": lambda y: y[:-1],
    "too long": lambda y: np.append(y, 0),
    "empty": lambda y: y[:0],
    "number": lambda y: 1,
    "string": lambda y: "yes",
    "column": lambda y: y[:, None],
    "3-D": lambda y: y[:, None, None],
    "structured": lambda y: np.array([(int(v), 1.0) for v in y], dtype=[("a", int), ("b", float)]),
    "generator": lambda y: (v for v in y.tolist()),
    "complex": lambda y: y + 1j,
    "dates": lambda y: np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]")[y],
    "tuples": lambda y: [(int(v), "x") for v in y],
    "dicts": lambda y: [{"a": int(v)} for v in y],
    "huge numbers": lambda y: y * 8e307,
    "set": lambda y: set(y.tolist()),
    "indicator": lambda y: np.eye(3, dtype=int)[y],
    "label sets": lambda y: [set("ab"[: v + 1]) for v in y.tolist()],
    "empty sets": lambda y: [set() for _ in y],
    "unknown sets": lambda y: [None if i % 2 else {"a", "b"} for i in range(len(y))],
    "unknown rows": lambda y: np.where((y == 0)[:, None], -1, np.eye(3, dtype=int)[y]),
    "all labels": lambda y: np.ones((len(y), 3), int),
    "no labels": lambda y: np.zeros((len(y), 3), int),
    "sparse sets": lambda y: sparse.csr_array(np.eye(3, dtype=int)[y]),
    "float sets": lambda y: np.eye(3)[y] * 0.5,
    "NaN sets": lambda y: np.where(np.eye(3)[y] > 0, np.nan, 0),
    "many classes": lambda y: np.eye(len(y), 40, dtype=int),
}
WEIGHTS = {
    "zero": np.zeros_like,
    "one zero": lambda w: np.where(np.arange(len(w)) == 0, 0, w),
    "negative": lambda w: np.where(np.arange(len(w)) == 0, -1, w),
    "NaN": lambda w: w * np.nan,
    "inf": lambda w: w * np.inf,
    "huge": lambda w: w * 1e300,
    "large": lambda w: w * 1e50,
    "tiny": lambda w: w * 1e-300,
    "small": lambda w: w * 1e-50,
    "uneven": lambda w: 10.0 ** np.linspace(-60, 60, len(w)),
    "short": lambda w: w[:-1],
    "text": lambda w: ["a"] * len(w),
    "number": lambda w: 2.0,
}


def draw_sizes(rng, n_bags):
    kind = rng.choice(["small", "ones", "one bag", "huge bag"], p=[0.85, 0.1, 0.03, 0.02])
    if kind == "ones":
        return kind, np.ones(n_bags, int)
    if kind == "one bag":
        return kind, np.array([5])
    sizes = rng.integers(1, 6, n_bags)
    if kind == "huge bag":
        sizes[rng.integers(n_bags)] = rng.choice([50_000, 50_000, 200_000])
    return kind, sizes


def twisted_values(rng, X):
    """Make a table hostile; return it and a description of the change."""
    kind = rng.choice(list(VALUES))
    with np.errstate(all="ignore"):
        return kind, VALUES[kind](rng, X.copy())


def _scaled(rng, X):
    return X * rng.choice(SCALES)


def _scaled_feature(rng, X):
    X[:, rng.integers(X.shape[1])] *= rng.choice(SCALES)
    return X


def _one_value(rng, X):
    X[rng.integers(len(X)), rng.integers(X.shape[1])] = rng.choice([*SCALES, -1e308, -1e60, 1e30])
    return X


def _single(rng, X):
    return (X * 10.0 ** rng.choice([-44, -30, -15, -8, 3, 8, 12, 18, 30, 37])).astype(np.float32)


def _not_finite(rng, X):
    X[rng.integers(len(X)), rng.integers(X.shape[1])] = rng.choice([np.nan, np.inf, -np.inf])
    return X


def _constant_feature(rng, X):
    X[:, rng.integers(X.shape[1])] = rng.choice([0.0, 1.0, -3.0, 1e8])
    return X


def _mixed_scales(rng, X):
    return X * 10.0 ** rng.uniform(-30, 30, X.shape[1])


VALUES = {
    "scaled": _scaled,
    "one feature scaled": _scaled_feature,
    "one value": _one_value,
    "features of mixed scale": _mixed_scales,
    "shifted": lambda rng, X: X + rng.choice(SHIFTS),
    "shifted float32": lambda rng, X: (X + rng.choice(SHIFTS)).astype(np.float32),
    "scaled float32": _single,
    "constant feature": _constant_feature,
    "zeros": lambda rng, X: X * 0,
    "constant": lambda rng, X: X * 0 + rng.choice([1.0, 1e-8, 1e30]),
    "equal rows": lambda rng, X: np.repeat(X[:1], len(X), axis=0),
    "few distinct rows": lambda rng, X: X[rng.integers(min(3, len(X)), size=len(X))],
    "whole numbers": lambda rng, X: np.round(X),
    "collinear": lambda rng, X: X[:, :1] * np.arange(1, X.shape[1] + 1),
    "not finite": _not_finite,
    "float16": lambda rng, X: X.astype(np.float16),
    "int8": lambda rng, X: np.round(X * 10).astype(np.int8),
    "int64": lambda rng, X: np.round(X * rng.choice([10, 1e17])).astype(np.int64),
    "uint64": lambda rng, X: np.abs(X * 1e18).astype(np.uint64),
    "bool": lambda rng, X: X > 0,
    "objects": lambda rng, X: X.astype(object),
    "text": lambda rng, X: X.astype(str),
    "complex": lambda rng, X: X + 1j,
    "structured": lambda rng, X: np.zeros(len(X), dtype=[("a", float), ("b", int)]),
    "dates": lambda rng, X: (X * 1e4).astype("datetime64[s]"),
    "longdouble": lambda rng, X: X.astype(np.longdouble),
    "no features": lambda rng, X: X[:, :0],
    "no rows": lambda rng, X: X[:0],
    "Fortran order": lambda rng, X: np.asfortranarray(X),
    "negative strides": lambda rng, X: X[::-1, ::-1],
    "strided": lambda rng, X: np.repeat(X, 2, axis=1)[:, ::2],
    "big endian": lambda rng, X: X.astype(">f8"),
    "read-only": lambda rng, X: _locked(X),
    "memory map": lambda rng, X: _mapped(X),
    "sparse": lambda rng, X: sparse.csr_array(np.where(X > 0.3, X, 0)),
    "sparse, explicit zeros": lambda rng, X: _explicit_zeros(X),
    "sparse, empty rows": lambda rng, X: sparse.csr_array(
        X * (np.arange(len(X)) % 3 == 0)[:, None]
    ),
    "sparse, int64 indices": lambda rng, X: _wide_indices(sparse.csr_array(np.where(X > 0, X, 0))),
    "sparse, unsorted": lambda rng, X: _unsorted(X),
    "sparse, duplicates": lambda rng, X: _duplicates(X),
    "sparse, scaled": lambda rng, X: sparse.csr_array(np.where(X > 0.3, X, 0) * rng.choice(SCALES)),
    "sparse, no entries": lambda rng, X: sparse.csr_array(X.shape),
    "sparse coo": lambda rng, X: sparse.coo_array(np.where(X > 0.3, X, 0)),
}


def _locked(X):
    X.flags.writeable = False
    return X


def _mapped(X):
    stream = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the map
    mapped = np.memmap(stream, X.dtype, "w+", shape=X.shape)
    mapped[...] = X
    return mapped


def _explicit_zeros(X):
    table = sparse.csr_array(X)
    table.data[::2] = 0
    return table


def _wide_indices(table):
    table.indices, table.indptr = table.indices.astype(np.int64), table.indptr.astype(np.int64)
    return table


def _unsorted(X):
    table = sparse.csr_array(X)
    for start, stop in zip(table.indptr[:-1], table.indptr[1:], strict=True):
        table.indices[start:stop] = table.indices[start:stop][::-1].copy()
        table.data[start:stop] = table.data[start:stop][::-1].copy()
    table.has_sorted_indices = False
    return table


def _duplicates(X):
    n, d = X.shape
    indices = np.tile(np.arange(d), 2 * n).astype(np.int32)
    data = np.repeat(X, 2, axis=0).ravel() / 2
    return sparse.csr_array((data, indices, np.arange(n + 1, dtype=np.int32) * 2 * d), shape=(n, d))


CONTAINERS = {
    "Bags": lambda table, sizes: Bags(table, _offsets(sizes)),
    "list of arrays": lambda table, sizes: _cut(table, sizes),
    "nested lists": lambda table, sizes: [bag.tolist() for bag in _cut(table, sizes)],
    "tuple": lambda table, sizes: tuple(_cut(table, sizes)),
    "generator": lambda table, sizes: (bag for bag in _cut(table, sizes)),
    "table": lambda table, sizes: table,
    "frame": lambda table, sizes: _frame(table),
    "list of frames": lambda table, sizes: [_frame(bag) for bag in _cut(table, sizes)],
    "object array": lambda table, sizes: _object_array(_cut(table, sizes)),
    "3-D": lambda table, sizes: table[: len(table) // 2 * 2].reshape(-1, 2, table.shape[1]),
    "with an empty bag": lambda table, sizes: Bags(table, np.append(_offsets(sizes), sum(sizes))),
    "no bags": lambda table, sizes: Bags(table[:0], [0]),
    "empty list": lambda table, sizes: [],
    "None": lambda table, sizes: None,
    "string": lambda table, sizes: "bags",
    "ragged": lambda table, sizes: [table, table[:, :-1]],
    "dict": lambda table, sizes: {"a": table},
}


def _offsets(sizes):
    return np.concatenate([[0], np.cumsum(sizes)])


def _cut(table, sizes):
    bounds = _offsets(sizes)
    return [table[a:b] for a, b in pairwise(bounds)]


def _frame(table):
    import pandas as pd

    return pd.DataFrame(table, columns=[f"f{j}" for j in range(table.shape[1])])


def _object_array(parts):
    array = np.empty(len(parts), object)
    array[:] = parts
    return array


def draw_parameters(rng, cls):
    """Draw values of one to three parameters, within their constraints."""
    constraints = cls._parameter_constraints
    found = {}
    for name in rng.permutation(sorted(constraints))[: rng.integers(1, 4)]:
        if name in ("random_state", "verbose", "n_jobs", "checkpoint"):
            continue
        if constraints[name] == "no_validation":
            continue
        options = [value for c in constraints[name] for value in _values(rng, name, c)]
        if options:
            found[str(name)] = options[rng.integers(len(options))]
    return found


def _values(rng, name, constraint):
    if isinstance(constraint, StrOptions):
        return sorted(constraint.options)
    if isinstance(constraint, Interval):
        whole = constraint.type is Integral
        if whole and any(word in name for word in BUDGETS):
            values = [1, 2, 5]
        else:
            values = COUNTS if whole else NUMBERS
        return [v for v in values if constraint.is_satisfied_by(v)]
    if constraint == "boolean":
        return [True, False]
    if constraint is str:
        return KERNELS if "kernel" in name else []
    if constraint is None:
        return [None]
    if constraint is Real:
        return NUMBERS
    if constraint in ("array-like", "sparse matrix") or constraint in (dict, callable):
        return []
    make_constraint(constraint)
    return []

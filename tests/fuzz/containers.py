"""`Bags` against a list of arrays: every operation gives the same result or a proper error."""

import itertools
import pickle
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from bagwise import Bags
from bagwise.exceptions import BagwiseError
from fuzz import BAD, FINE, REFUSED, Outcome

KINDS = ["float64", "float32", "int8", "uint64", "bool", "fortran", "strided", "mapped"]
KINDS += ["csr", "csc", "coo", "unsorted", "tuples"]


def subjects():
    """Names of the operations on bags."""
    return ["indexing", "keys", "split", "arrays", "groups", "frames", "offsets"]


def case(subject, seed):
    """Apply one operation many times to random bags."""
    rng = np.random.default_rng([seed, subjects().index(subject)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            refused = globals()[subject](rng)
    except MismatchError as error:
        return Outcome(BAD, str(error.args[0]), " ".join(map(str, error.args[1:]))[:300])
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "bagwise" in f.filename and "fuzz" not in f.filename]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "fuzz"
        return Outcome(BAD, f"{type(error).__name__} in {where}", str(error)[:300])
    return Outcome(REFUSED if refused else FINE)


class MismatchError(Exception):
    """Bags and the list of arrays disagree."""


# Reference: a list of dense arrays


def drawn(rng, kind=None):
    """Random bags of some representation, the same bags as a list of dense arrays, and ids."""
    kind = kind or str(rng.choice(KINDS))
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


def compare(bags, arrays, ids, what):
    """Check that bags equal the arrays and have the ids."""
    if len(bags) != len(arrays) or bags.sizes.tolist() != [len(a) for a in arrays]:
        raise MismatchError(f"{what}: other sizes", bags.sizes, [len(a) for a in arrays])
    for i, array in enumerate(arrays):
        if not np.array_equal(dense(bags[i]), array):
            raise MismatchError(f"{what}: another bag", i, dense(bags[i]), array)
    for i, (one, array) in enumerate(zip(bags, arrays, strict=True)):
        if not np.array_equal(dense(one), array):
            raise MismatchError(f"{what}: iteration gives another bag", i)
    found = None if bags.ids is None else bags.ids.tolist()
    if found != ids:
        raise MismatchError(f"{what}: other ids", found, ids)
    index = [i for i, a in enumerate(arrays) for _ in range(len(a))]
    if bags.bag_index.tolist() != index:
        raise MismatchError(f"{what}: other bag_index")


# Operations


def indexing(rng):
    """Apply several valid keys in turn: ints, slices, masks, index arrays, tuples with ..."""
    bags, arrays, ids = drawn(rng)
    for _ in range(6):
        n = len(arrays)
        way = int(rng.integers(7))
        if way == 0 and n:
            i = int(rng.integers(-n, n))
            key = [i, np.int64(i), np.array(i), np.int8(i)][int(rng.integers(4))]
            if not np.array_equal(dense(bags[key]), arrays[i]):
                raise MismatchError("bags[int] is another bag", i)
            continue
        if way == 1:
            bounds = [None, *range(-n - 2, n + 3)]
            a, b = (bounds[int(rng.integers(len(bounds)))] for _ in range(2))
            step = [None, 1, 2, -1, -3][int(rng.integers(5))]
            key, rows = slice(a, b, step), list(range(n))[a:b:step]
        elif way == 2:
            mask = rng.random(n) < 0.5
            key = [mask, mask.tolist() if n else mask, np.array(mask)][int(rng.integers(3))]
            rows = np.flatnonzero(mask).tolist()
        elif way == 3:
            key, rows = ..., list(range(n))
        elif way == 4:
            bags, rows = pickle.loads(pickle.dumps(bags)), list(range(n))
            key = slice(None)
        else:
            rows = rng.integers(-n, n, size=int(rng.integers(0, 5))).tolist() if n else []
            key = [rows, np.array(rows, dtype=int), np.array(rows, dtype=np.int16)]
            key = key[int(rng.integers(3))]
            if way == 6 and rng.random() < 0.5:
                bags = bags.take(np.array(rows, dtype=int))
                key, rows = slice(None), rows
                arrays = [arrays[i] for i in rows]
                ids = None if ids is None else [ids[i] for i in rows]
                rows = list(range(len(arrays)))
        if rng.random() < 0.3:
            key = (key, [..., slice(None)][int(rng.integers(2))])
        bags = bags[key]
        arrays = [arrays[i] for i in rows]
        ids = None if ids is None else [ids[i] for i in rows]
        compare(bags, arrays, ids, "indexing")
    return False


def keys(rng):
    """Check that invalid keys raise an IndexError and nothing else."""
    bags, arrays, _ = drawn(rng)
    n = len(arrays)
    odd = [
        *(
            n,
            -n - 1,
            10**30,
            -(10**30),
            1.5,
            True,
            np.True_,
            None,
            "a",
            b"a",
            {0},
            {0: 1},
            object(),
        ),
        *((0, 0), (0, np.arange(2)), (slice(None), [0]), (0,), (), (0, ..., 0), ("a", ...)),
        *([[0], [0, 1]], [[0]], [0.5], ["a"], [None], [n], [-n - 1], np.zeros((1, 1), int)),
        *(np.ones(n + 1, bool), np.array([2**63], np.uint64), np.array([n], np.uint8)),
        *(np.array([(0,)], dtype=[("i", int)]), np.array(["2020"], "datetime64[Y]"), bags),
        *(slice("a", None), slice(None, None, 0), slice(0.5, 1), pd.Series(["a"]), [1 + 0j]),
    ]
    for _ in range(8):
        key = odd[int(rng.integers(len(odd)))]
        try:
            bags[key]
        except IndexError as error:
            if "bag" not in str(error) and "range" not in str(error) and "mask" not in str(error):
                raise MismatchError("an IndexError of somebody else", repr(key), error) from error
        else:
            raise MismatchError("an odd key was taken", repr(key))
    return True


def split(rng):
    """Check that values per instance are split like the bags."""
    bags, arrays, _ = drawn(rng)
    m = sum(map(len, arrays))
    values = rng.normal(size=(m, *rng.integers(0, 3, size=int(rng.integers(3))).tolist()))
    given = [values, values.tolist(), pd.Series(range(m)), np.arange(m)][int(rng.integers(4))]
    flat = np.arange(m) if isinstance(given, pd.Series) else np.asarray(given)
    parts = bags.split(given)
    joined = [np.asarray(part) for part in parts]
    if [len(p) for p in joined] != [len(a) for a in arrays]:
        raise MismatchError("split: other sizes")
    if m and not np.array_equal(np.concatenate(joined), flat):
        raise MismatchError("split: other values")
    for wrong in (np.zeros(m + 1), 3, "x", [[1], [1, 2]], np.zeros((m + 2, 2))):
        refused(lambda wrong=wrong: bags.split(wrong), repr(wrong))
    return False


def arrays(rng):
    """from_arrays: lists of tables, 3-D arrays, nested lists; or an error."""
    _, tables, ids = drawn(rng, str(rng.choice(["float64", "int8", "bool"])))
    if not tables:
        refused(lambda: Bags.from_arrays([]), "no bags")
        return True
    if ids is not None and rng.random() < 0.3:
        refused(lambda: Bags.from_arrays(tables, ids=ids[1:]), "ids too short")
    given = [
        tables,
        tuple(tables),
        (t for t in tables),
        [sparse.csr_array(t) for t in tables],
        [np.asfortranarray(t) for t in tables],
        [pd.DataFrame(t) for t in tables],
    ]
    compare(Bags.from_arrays(given[int(rng.integers(len(given)))], ids), tables, ids, "from_arrays")
    wrong = [
        *(
            3,
            "x",
            None,
            {"a": tables[0]},
            [3],
            ["x"],
            [None],
            [object()],
            [[1, 2]],
            [[[1], [1, 2]]],
        ),
        *(
            [*tables, np.zeros((1, tables[0].shape[1] + 1))],
            [np.zeros(3)],
            [np.zeros((1, 1, 1, 1))],
        ),
        *([np.zeros((1, 1), complex)], [np.zeros((1, 1), object)], [np.array([["a"]])]),
        *([np.zeros(1, [("x", float)])], [sparse.coo_array(np.ones(3))], pd.DataFrame({"x": [1]})),
        *([tables[0], sparse.csr_array(tables[0])], [np.ma.masked_array([[1.0]], [[True]])]),
        *([(i for i in range(3))], np.zeros((2, 2)), np.zeros((1, 1, 1, 1)), [b"x"], [{1, 2}]),
    ]
    odd = wrong[int(rng.integers(len(wrong)))]
    refused(lambda: Bags.from_arrays(odd), repr(odd))
    return False


def groups(rng):
    """from_groups: rows in any order, groups of any type."""
    n, d = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    X = rng.integers(0, 9, size=(n, d)).astype(float)
    codes = rng.integers(0, 4, size=n)
    types = [
        codes,
        codes.astype(str),
        codes.astype(float),
        [f"g{c}" for c in codes],
        [("g", int(c)) for c in codes],
        [int(c) if c % 2 else f"s{c}" for c in codes],
        pd.Series(codes),
        pd.Categorical(codes),
        codes.astype("datetime64[D]"),
        codes.astype(bool),
    ]
    which = int(rng.integers(len(types)))
    given = types[which]
    codes = codes.astype(bool).astype(int) if which == len(types) - 1 else codes
    order = list(dict.fromkeys(codes.tolist()))
    kind = str(rng.choice(["float64", "csr", "unsorted", "fortran"]))
    bags = Bags.from_groups(stored(X, kind, rng), given)
    expected = [X[codes == c] for c in order]
    compare(bags, expected, None if bags.ids is None else bags.ids.tolist(), "from_groups")
    if len(bags.ids) != len(order):
        raise MismatchError("from_groups: other ids")
    wrong = [None, 3, "x", np.zeros((n, 1)), np.zeros(n + 1), [[1]] * n, np.full(n, np.nan)]
    wrong += [
        [None] * n,
        {1, 2},
        [{}] * n,
        np.zeros(n, [("x", int)]),
        [np.zeros(2)] * n,
        [pd.NA] * n,
    ]
    odd = wrong[int(rng.integers(len(wrong)))]
    refused(lambda: Bags.from_groups(X, odd), repr(odd))
    return False


def frames(rng):
    """from_frame: the columns of a frame, or an error."""
    n = int(rng.integers(1, 9))
    codes = rng.integers(0, 3, size=n)
    frame = pd.DataFrame({"bag": codes, "x": rng.integers(0, 9, size=n), "y": rng.normal(size=n)})
    order = list(dict.fromkeys(codes.tolist()))
    expected = [frame[["x", "y"]].to_numpy(float)[codes == c] for c in order]
    compare(Bags.from_frame(frame, "bag"), expected, order, "from_frame")
    wrong = [
        lambda: Bags.from_frame(frame, "absent"),
        lambda: Bags.from_frame(frame, "bag", ["absent"]),
        lambda: Bags.from_frame(frame, "bag", ["x", "x"]),
        lambda: Bags.from_frame(frame, "bag", []),
        lambda: Bags.from_frame(frame.assign(z="text"), "bag"),
        lambda: Bags.from_frame(frame.assign(z=pd.Timestamp(0)), "bag"),
        lambda: Bags.from_frame(frame.assign(z=1 + 2j), "bag"),
        lambda: Bags.from_frame(frame.assign(bag=None), "bag"),
        lambda: Bags.from_frame(frame.assign(z=[[1]] * n), "bag"),
        lambda: Bags.from_frame(frame.to_numpy(), "bag"),
        lambda: Bags.from_frame(frame.to_records(), "bag"),
        lambda: Bags.from_frame(frame["x"], "bag"),
        lambda: Bags.from_frame(None, "bag"),
        lambda: Bags.from_frame({"bag": [1]}, "bag"),
        lambda: Bags.from_frame(frame[["bag"]], "bag"),
        lambda: Bags.from_frame(pd.concat([frame, frame], axis=1), "bag"),
        lambda: Bags.from_frame(frame, None),
        lambda: Bags.from_frame(frame, ["bag"]),
    ]
    which = int(rng.integers(len(wrong)))
    refused(wrong[which], f"frame {which}")
    return False


def offsets(rng):
    """Check that the constructor accepts only offsets that increase from 0 to the end."""
    n = int(rng.integers(0, 6))
    X = rng.normal(size=(n, 2))
    right = np.sort(np.concatenate([[0, n], rng.integers(0, n + 1, size=int(rng.integers(4)))]))
    arrays = [X[a:b] for a, b in itertools.pairwise(right)]
    given = [right, right.tolist(), right.astype(np.uint64), right.astype(np.int8)]
    compare(Bags(X, given[int(rng.integers(4))]), arrays, None, "offsets")
    wrong = [
        *([], [1, n], [0, n + 1], [0, -1, n], None, "x", 3, [[0, n]], [0.0, float(n)], ["0", "1"]),
        *([0, 2**63], np.array([0, 2**64 - 1], np.uint64), [[0], [1, 2]], [None], [0, np.nan]),
        *(np.zeros(2, [("x", int)]), {0, n}, (i for i in range(2)), [0, n + 1, n], object()),
    ]
    odd = wrong[int(rng.integers(len(wrong)))]
    refused(lambda: Bags(X, odd), repr(odd))
    for bad in (["a"] * (len(right) + 3), 3, "x", {"a"}, np.zeros((2, 2))):
        refused(lambda bad=bad: Bags(X, right, ids=bad), f"ids {bad!r}")
    refused(lambda: Bags(X, right, feature_names=["a"]), "feature_names")
    return False


def refused(call, what):
    try:
        call()
    except BagwiseError:
        return
    raise MismatchError("odd input was taken", what)

"""Rows without bags, read from the data home: digits, letters, the SSL benchmark and UCI sets."""

import string
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from bagwise._common.types import Array
from bagwise.datasets._registry import DatasetInfo, damaged, read_dataset
from bagwise.exceptions import InputError

__all__ = ["info_of", "load_isolet", "load_mnist", "load_ssl", "load_uci"]


def load_mnist(subset: str = "train") -> Bunch:
    """Load MNIST (from the data home).

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        60,000 or 10,000 digits.

    Returns
    -------
    Bunch
        - ``X``: (n, 784) uint8; ``images``: the same as (n, 28, 28);
        - ``y``: (n,) the digit; ``classes``: 0 to 9; ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.

    See Also
    --------
    make_digit_bags : ``make_digit_bags(digits=(mnist.X, mnist.y))`` makes MNIST-bags.
    """
    if subset not in ("train", "test"):
        raise InputError(f"subset is {subset!r}: expected 'train' or 'test'.")
    info = info_of(f"mnist_{subset}")
    arrays = read_dataset(info, ["X", "y"])
    images = arrays["X"]
    arrays["X"] = images.reshape(len(images), -1)
    return _rows(info, arrays, classes=np.arange(10), dtype=np.uint8, extras={"images": images})


def load_isolet() -> Bunch:
    """Load 1,560 spoken letters of ISOLET (from the data home).

    The subset distributed for feature selection, 60 rows per letter. The two-class 600 x 51 set
    of the WellSVM paper cannot be reconstructed from it.

    Returns
    -------
    Bunch
        - ``X``: (1560, 617); ``y``: (1560,) index into ``classes``, the letters A to Z;
        - ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    info = info_of("isolet")
    return _rows(
        info, read_dataset(info, ["X", "y"]), classes=np.array(list(string.ascii_uppercase))
    )


def load_ssl(name: str, *, one_hot: bool = False) -> Bunch:
    """Load a set of the semi-supervised benchmark with its splits (from the data home).

    Parameters
    ----------
    name : str
        "digit1", "usps", "coil2", "bci", "g241c", "coil", "g241d", "secstr", "text" of Chapelle,
        Schoelkopf & Zien (2006), or the older "g50c", "g10n", "uspst", "text1".
    one_hot : bool, default=False
        For "secstr", whose 15 columns are symbols, not quantities: expand them to the 315
        binary columns of the benchmark, sparse. The other sets have no such columns.

    Returns
    -------
    Bunch
        - ``X``: (n, d), sparse for "text" and "text1"; ``y``: (n,) numbered from 0 (-1/+1 became
          0/1);
        - ``labeled``: a dict; ``labeled[10][s]`` holds the 10 labelled rows of split ``s``, from
          0; all other rows are unlabelled. Keys are 10 and 100; 50 for the older sets; 100, 1000
          and 10000 for "secstr";
        - ``classes``: the values of y; ``feature_names``: None; ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.

    Examples
    --------
    Hide the labels of all but the labelled rows of the first split::

        data = load_ssl("g241c")
        y = np.full(len(data.y), -1)
        rows = data.labeled[10][0]
        y[rows] = data.y[rows]
    """
    info = info_of(f"ssl_{name}")
    sparse_parts = ["X_data", "X_indices", "X_indptr", "X_shape"]
    is_sparse = name in ("text", "text1")
    arrays = read_dataset(info, ["y", *(sparse_parts if is_sparse else ["X"])])
    if is_sparse:
        data, indices, indptr, shape = (arrays[part] for part in sparse_parts)
        try:
            arrays["X"] = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
        except (TypeError, ValueError) as error:
            raise damaged(info, f"a broken sparse matrix ({error})") from error
    if one_hot and name == "secstr":
        arrays["X"] = _binary_columns(arrays["X"], n_symbols=21)
    labeled = {
        int(key.removeprefix("labeled")): rows.astype(np.int64)
        for key, rows in arrays.items()
        if key.startswith("labeled")
    }
    return _rows(info, arrays, classes=np.unique(arrays["y"]), extras={"labeled": labeled})


def load_uci(name: str, *, one_hot: bool = False) -> Bunch:
    """Load a UCI set of the WellSVM paper (from the data home).

    Missing values are NaN and never imputed ("credit_a", "echocardiogram", "house_votes",
    "sick"). A nominal column holds the index of its value. "spectf" contains 80 rows twice: random
    splits leak. "haberman" counts years from 1958. "australian" of the paper (690 x 42) is probably
    "credit_a", and its "heart" (270 x 9) was not found.

    Parameters
    ----------
    name : str
        "adult", "australian", "credit_a", "diabetes", "echocardiogram", "flare",
        "german", "haberman", "heart_statlog", "house", "house_votes", "ionosphere", "kr_vs_kp",
        "liver", "magic", "optdigits", "sick", "spectf".
    one_hot : bool, default=False
        Expand nominal columns with more than two values into one column per value, and drop
        constant columns, if the set has nominal columns ("australian", "credit_a", "flare",
        "german", "haberman", "kr_vs_kp", "sick").

    Returns
    -------
    Bunch
        - ``X``: (n, d); ``y``: (n,) 0 or 1 (0 to 9 in "optdigits"; -1 unknown, once in
          "echocardiogram");
        - ``classes``, ``feature_names`` ("purpose=3" for an expanded column);
        - ``nominal``: number of values of each column of the file, 0 = numeric, or None;
        - ``is_train`` ("spectf"), ``alive_at_1`` ("echocardiogram") and ``part`` ("flare") if the
          set has them;
        - ``DESCR``.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    info = info_of(f"uci_{name}")
    arrays = read_dataset(info, ["X", "y"])
    given, nominal = arrays.get("feature_names"), arrays.get("nominal")
    names = None if given is None else [str(name) for name in given]
    if one_hot and names and nominal is not None and "X_onehot" in arrays:
        names = _expanded_names(arrays["X"], names, nominal)
        arrays["X"] = arrays["X_onehot"]
    extras = {key: rows for key, rows in arrays.items() if key in EXTRAS}
    return _rows(
        info,
        arrays,
        classes=arrays.get("classes", np.array(UNNAMED.get(name))),
        feature_names=names,
        extras={"nominal": nominal, **extras},
    )


UNNAMED = {  # classes of files without their names
    "adult": ["at most 50,000", "more"],
    "echocardiogram": ["not alive", "alive"],
    "magic": ["hadron", "gamma"],
}
EXTRAS = ("is_train", "alive_at_1", "part")  # per-row arrays of some UCI sets


@cache
def _known() -> dict[str, DatasetInfo]:
    text = Path(__file__).with_name("data_home.toml").read_text(encoding="utf-8")
    return {entry["name"]: DatasetInfo(**entry) for entry in tomllib.loads(text)["dataset"]}


def info_of(name: str) -> DatasetInfo:
    """Return the record of a data set, or raise an error with all names."""
    if name not in _known():
        raise InputError(f"no data set is called {name!r}: choose from {', '.join(_known())}.")
    return _known()[name]


def _rows(
    info: DatasetInfo,
    arrays: dict[str, Any],
    *,
    classes: Array,
    feature_names: list[str] | None = None,
    dtype: type = np.float64,
    extras: dict[str, Any] | None = None,
) -> Bunch:
    X, y = arrays["X"], arrays["y"]
    fits = X.ndim == 2 and y.shape == (X.shape[0],) and y.dtype.kind in "iu"
    if not fits or (feature_names is not None and len(feature_names) != X.shape[1]):
        raise damaged(info, f"X of shape {X.shape} and y of shape {y.shape} and type {y.dtype}")
    return Bunch(
        X=X.astype(dtype, copy=False),
        y=y.astype(np.int64),
        classes=classes,
        feature_names=feature_names,
        **(extras or {}),
        DESCR=info.details,
    )


def _binary_columns(symbols: Array, n_symbols: int) -> sparse.csr_array:
    """Expand each column of symbols into one column per symbol."""
    n, width = symbols.shape
    columns = symbols + n_symbols * np.arange(width)
    ends = width * np.arange(n + 1)
    return sparse.csr_array((np.ones(n * width), columns.ravel(), ends), (n, width * n_symbols))


def _expanded_names(X: Array, names: list[str], nominal: Array) -> list[str]:
    """Names of the columns of X_onehot: values that occur in nominal columns, columns that vary."""
    expanded = []
    for column, name, n_values in zip(X.T, names, nominal, strict=True):
        present = np.unique(column[~np.isnan(column)])
        if n_values > 2:
            expanded += [f"{name}={int(value)}" for value in present if len(present) > 1]
        elif len(present) > 1:
            expanded.append(name)
    return expanded

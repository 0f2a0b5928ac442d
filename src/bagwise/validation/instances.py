"""Validation of X: bags, rows and similarities, and the range of their values."""

import weakref
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.memory import require_memory
from bagwise._common.tables import ConvertedTable
from bagwise.bags import Bags
from bagwise.compute import check_each, check_place, in_blocks, is_here, row_blocks
from bagwise.compute.arrays import extremes
from bagwise.compute.mapped import release_pages
from bagwise.exceptions import InputError, InputTypeError, SparseInputError, warn_user

# Fourth powers (products of squared norms) stay within float64.
VALUE_RANGE = (1e-70, 1e70)
# The same range for float32; a table in memory with values outside becomes float64.
SINGLE_RANGE = (1e-9, 1e9)
# Squares stay within float32: for float32 tables that are not converted (mapped, on a device).
SINGLE_SQUARES = (1e-18, 1e18)
# A feature whose distance from 0 exceeds this multiple of its range is computed in float64.
FARTHEST = 100.0
SAMPLE = 5000  # rows
FLOATS = (np.float64, np.float32)
_KNOWN: dict[int, tuple[float, float]] = {}  # smallest and largest value of mapped tables, by id


def check_values(
    bags: Bags,
    value_range: tuple[float, float],
    *,
    fitting: bool,
    convert: bool = True,
    rows: bool = False,
    allow_nan: bool = False,
) -> Bags:
    """Reject NaN, infinity, and magnitudes outside the range of a model.

    Parameters
    ----------
    bags : Bags
        Bags of floats: arrays, CSR or a tensor.
    value_range : tuple of two floats
        The largest magnitude must be 0 or lie between the two.
    fitting : bool
        Whether a model is fitted: bags with only tiny values are then rejected; in a prediction
        they are accepted.
    convert : bool, default=True
        Whether float32 in memory may become float64.
    rows : bool, default=False
        Whether the bags are plain rows, for the messages.
    allow_nan : bool, default=False
        Whether bags with missing values are returned unchanged.

    Returns
    -------
    Bags
        The same bags; float32 in memory is converted to float64 if necessary.
    """
    from sklearn import get_config

    if get_config()["assume_finite"]:
        return bags
    low, high = _extremes(bags)
    largest = max(-low, high)
    if allow_nan and not np.isfinite(largest):
        return bags
    unit, step = ("row", "{}") if rows else ("instance", "InstanceTransformer({})")
    if not np.isfinite(largest):
        value, place = _first(bags, lambda values: ~np.isfinite(values), rows)
        kind = "NaN" if np.isnan(value) else "infinity"
        raise InputError(
            f"Input X contains {kind}: {place}. Leave the {unit} out or replace the value; for all "
            f"NaN, fill the gaps with {step.format('SimpleImputer()')} in a pipeline."
        )
    smallest_allowed, largest_allowed = value_range
    if str(bags.dtype).endswith("float32") and largest > 0 and value_range == VALUE_RANGE:
        converted = convert and not bags.is_mapped
        within = SINGLE_RANGE[0] <= largest <= SINGLE_RANGE[1]
        if converted and not (within and (not fitting or _keeps_digits(bags))):
            table = bags.instances.astype(np.float64)
            bags = bags.with_instances(table, feature_names=bags.feature_names)
        elif not converted:
            smallest_allowed, largest_allowed = SINGLE_SQUARES
    if largest > largest_allowed:
        value, place = _first(bags, lambda values: np.abs(values) > largest_allowed, rows)
        raise InputError(
            f"the value {value:.3g} is too large to compute with (squares of numbers above "
            f"{largest_allowed:.0e} overflow): {place}. Correct it, or scale the features by "
            f"{step.format('MaxAbsScaler()')} in a pipeline."
        )
    if fitting and 0 < largest < smallest_allowed:
        _, place = _first(bags, lambda values: np.abs(values) == largest, rows)
        raise InputError(
            f"the largest magnitude in X is {largest:.3g}: {place}. Squares of numbers "
            f"below {smallest_allowed:.0e} are lost: multiply the features by a constant first."
        )
    return bags


def _extremes(bags: Bags) -> tuple[float, float]:
    """Smallest and largest value, read in blocks; NaN if a value is NaN.

    A file is read once. Later selections of bags lie within the extremes of the file, and a sample
    of their first rows gives a lower bound of their largest magnitude.
    """
    table = bags.source
    if not bags.is_mapped:
        return _read_extremes(bags) if in_blocks(bags) else extremes(table)
    origin = getattr(table, "origin", table)  # before the conversion to floats
    if id(origin) not in _KNOWN and 2 * bags.n_instances > len(table):
        _KNOWN[id(origin)] = _read_extremes(Bags(table, [0, len(table)]))
        weakref.finalize(origin, _KNOWN.pop, id(origin), None)
    low, high = _KNOWN.get(id(origin), (np.nan, np.nan))
    if bags.n_instances == len(table) and id(origin) in _KNOWN:
        return low, high
    if max(-low, high) <= SINGLE_RANGE[1]:  # not NaN either
        sample = extremes(bags.rows(slice(0, SAMPLE)))
        release_pages(table)
        if max(-sample[0], sample[1]) >= SINGLE_RANGE[0]:
            return sample
    return _read_extremes(bags)


def _read_extremes(bags: Bags) -> tuple[float, float]:
    low, high = np.inf, -np.inf
    for _, block in row_blocks(bags):
        least, most = extremes(block)
        low, high = float(np.minimum(low, least)), float(np.maximum(high, most))  # keep NaN
    return low, high


def _keeps_digits(bags: Bags) -> bool:
    """Whether every feature of a float32 table has a range comparable to its magnitude.

    Sums of squares of values far from 0 lose the digits in which the values differ.
    """
    if bags.is_sparse:
        return True
    # A sample with a sufficient range decides; otherwise the whole table is read.
    sample = bags.rows(slice(None, None, 1 + bags.n_instances // SAMPLE))
    if _varies(sample.min(axis=0), sample.max(axis=0)).all():
        return True
    each = [(block.min(axis=0), block.max(axis=0)) for _, block in row_blocks(bags)]
    low, high = np.min([low for low, _ in each], axis=0), np.max([high for _, high in each], axis=0)
    return bool((_varies(low, high) | (low == high)).all())


def _varies(low: Any, high: Any) -> Any:
    """Mask of the features whose range is comparable to their magnitude, or that are 0."""
    low, high = low.astype(np.float64), high.astype(np.float64)
    return (np.abs(low) < FARTHEST * (high - low)) | ((low == 0) & (high == 0))


def _first(bags: Bags, is_wrong: Any, rows: bool) -> tuple[float, str]:
    """Find the first wrong value, and describe its position."""
    bags = bags.to("numpy")
    names = bags.feature_names
    if bags.is_sparse:
        table = bags.instances
        entry = np.flatnonzero(is_wrong(table.data))[0]
        row = int(np.searchsorted(table.indptr, entry, side="right")) - 1
        column, value = int(table.indices[entry]), table.data[entry]
    else:
        place, block = next((at, b) for at, b in row_blocks(bags) if is_wrong(b).any())
        first, column = (int(found[0]) for found in np.nonzero(is_wrong(block)))
        row, value = place.start + first, block[first, column]
    bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
    owner = f"{bags.name_of(bag)}, instance {row - bags.offsets[bag]}"
    feature = f"feature {column}" if names is None else f"feature {column} ({names[column]!r})"
    return value, f"{f'row {row}' if rows else owner}, {feature}"


# Validation of X: bags, rows and similarities


def check_bags(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    accept_sparse: bool | None = None,
    allow_nan: bool = False,
) -> Bags:
    """Convert any accepted input to `Bags` of finite floats, or raise an error that explains it.

    Parameters
    ----------
    estimator : estimator or None
        Stores the number and names of the features (``reset=True``), or is compared with them; None
        in a function that stores nothing.
    X : Bags, list of 2-D arrays, 3-D array, or 2-D array / data frame
        The bags; the rows of a 2-D table are bags of one instance.
    reset : bool
        True in ``fit``, False elsewhere.
    accept_sparse : bool, default=None
        Whether CSR instances are accepted; by default according to the tags of the estimator.
    allow_nan : bool, default=False
        Whether missing and infinite values are accepted, for the caller to check.

    Returns
    -------
    Bags
        At least one bag, no empty bag, float32 or float64, all values finite.
    """
    if estimator is None:
        estimator, accept_sparse = SimpleNamespace(), accept_sparse is not False
        if not isinstance(X, Bags):
            from sklearn.base import BaseEstimator

            estimator = BaseEstimator()
    if isinstance(X, Bags) and X._is_validated:
        return _check_features(estimator, X, reset=reset)
    bags = _as_bags(X)
    if bags is not None and not is_here(bags):
        return _checked_elsewhere(estimator, bags, reset=reset, allow_nan=allow_nan)
    if sparse.issparse(X) if bags is None else bags.is_sparse:
        if accept_sparse is None:
            from sklearn.utils import get_tags

            accept_sparse = get_tags(estimator).input_tags.sparse
        if not accept_sparse:
            raise SparseInputError(
                f"sparse instances were passed, but {type(estimator).__name__} needs dense ones: "
                "use bags.with_instances(bags.instances.toarray())."
            )
    if bags is None:
        rows = _checked_rows(estimator, X, reset=reset)
        names = getattr(estimator, "feature_names_in_", None)
        bags = Bags(rows, np.arange(rows.shape[0] + 1), feature_names=names)
    else:
        _check_structure(bags)
        bags = _check_features(estimator, _with_floats(bags), reset=reset)
    return bags if allow_nan else check_values(bags, _value_range(estimator), fitting=reset)


def check_rows(estimator: Any, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
    """Validate plain rows, for models that do not use bags.

    Parameters
    ----------
    estimator : estimator
        Stores the number and names of the features (``reset=True``), or is compared with them.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        The rows.
    reset : bool
        True in ``fit``, False elsewhere.
    min_rows : int, default=1
        Minimum number of rows that the model needs.

    Returns
    -------
    ndarray or CSR of shape (n_rows, n_features)
        float32 or float64, all values finite.
    """
    if not is_table(X):
        raise InputError(
            f"{type(estimator).__name__} works on rows, and bags were passed: give bags.instances, "
            "or one row per bag (bagwise.embedding)."
        )
    from sklearn.utils import get_tags

    if sparse.issparse(X) and not get_tags(estimator).input_tags.sparse:
        raise SparseInputError(
            f"{type(estimator).__name__} needs dense rows, got sparse ones: use X.toarray()."
        )
    rows = _checked_rows(estimator, X, reset=reset, min_rows=min_rows)
    bags = Bags(rows, np.arange(rows.shape[0] + 1))
    rows = check_values(bags, _value_range(estimator), fitting=reset, rows=True).instances
    return _narrow(rows) if sparse.issparse(rows) else rows


def is_table(X: Any) -> bool:
    """Tell whether X is a 2-D table, whose rows are bags of one instance.

    Parameters
    ----------
    X : object
        The input of an estimator.

    Returns
    -------
    bool
    """
    return not isinstance(X, Bags) and _dimensions(X) < 3


def check_similarity(similarity: Any, n_instances: int) -> Any:
    """Validate a matrix of similarities between instances.

    Parameters
    ----------
    similarity : array-like or CSR of shape (n_instances, n_instances)
        Symmetric, finite and nowhere negative.
    n_instances : int
        The number of instances.

    Returns
    -------
    ndarray or CSR
        A copy with zeros on the diagonal.
    """
    from sklearn.utils import check_array

    try:
        checked = check_array(similarity, accept_sparse="csr", dtype=FLOATS, copy=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"the similarities cannot be used: {error}") from error
    if checked.shape != (n_instances, n_instances):
        raise InputError(
            f"the similarities have shape {checked.shape}: expected {n_instances} rows and columns."
        )
    asymmetry = abs(checked - checked.T).max()
    if checked.min() < 0 or asymmetry > 1e-6 * max(checked.max(), 1e-300):
        raise InputError(
            f"the similarities must be symmetric and nowhere negative: the smallest is "
            f"{checked.min():.3g}, the asymmetry {asymmetry:.3g}."
        )
    if sparse.issparse(checked):
        return checked - sparse.diags_array(checked.diagonal(), format="csr")
    np.fill_diagonal(checked, 0)
    return checked


def _as_bags(X: Any) -> Bags | None:
    """Convert ragged input to bags; None for a 2-D table, and for input scikit-learn rejects."""
    if isinstance(X, Bags):
        return X
    is_dict = isinstance(X, Mapping) and not hasattr(X, "shape")  # SciPy's DOK matrices are dicts
    if is_dict or type(X).__name__.endswith("GroupBy"):
        return Bags.from_arrays(X)  # which explains why it cannot
    is_object_array = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    if is_object_array and len(X) and np.ndim(X[0]) >= 1:  # arrays of different lengths
        return Bags.from_arrays(list(X))
    return None if is_table(X) else Bags.from_arrays(X)


def _dimensions(value: Any) -> int:
    if hasattr(value, "shape"):
        return len(value.shape)
    if isinstance(value, list | tuple):
        filled = (v for v in value if not (isinstance(v, list | tuple) and len(v) == 0))
        return 1 + _dimensions(next(filled, None))
    return 0


def _check_structure(bags: Bags) -> None:
    if len(bags) == 0:
        raise InputError("there are no bags: expected at least one.")
    if bags.n_features == 0:
        raise InputError("the instances have no features: expected at least one.")
    empty = np.flatnonzero(bags.sizes == 0)
    if len(empty):
        more = f" ({len(empty)} bags are empty in all)" if len(empty) > 1 else ""
        raise InputError(
            f"{bags.name_of(empty[0])} is empty{more}: leave it out with bags[bags.sizes > 0]."
        )


def _checked_elsewhere(estimator: Any, bags: Bags, *, reset: bool, allow_nan: bool) -> Bags:
    """Validate bags on a device or on Dask workers, where they are stored."""
    caller = "this function" if type(estimator) is SimpleNamespace else type(estimator).__name__
    bags = check_place(bags, caller, getattr(estimator, "_runs_elsewhere", ()))
    _check_structure(bags)
    _check_features(estimator, bags, reset=reset)
    if not allow_nan:
        check = partial(_check_values_there, value_range=_value_range(estimator), fitting=reset)
        check_each(check, bags)
    return bags


def _check_values_there(
    bags: Bags, value_range: tuple[float, float], *, fitting: bool, whole: bool
) -> None:
    """Check the values of all bags, or of a partition on its worker."""
    # Small values are rejected only for all bags: other partitions may have larger ones.
    check_values(bags, value_range, fitting=fitting and whole, convert=False)


def _with_floats(bags: Bags) -> Bags:
    """Convert instances to float32 or float64, and the indices of a CSR to 32 bits.

    Instances in a file are converted when they are read: 8-bit and 16-bit numbers to float32.
    """
    if bags.dtype in FLOATS and not bags.is_sparse:
        return bags
    from sklearn.utils import check_array

    if bags.is_mapped:
        return bags.with_source(ConvertedTable(bags.source), feature_names=bags.feature_names)
    if not bags.is_sparse:
        require_memory(
            8.0 * bags.n_instances * bags.n_features,
            purpose=f"a copy of the instances, of type {bags.dtype}, as float64",
            remedy="convert them to float32, or read them from a memory-mapped file",
        )
    table = _narrow(bags.instances) if bags.is_sparse else bags.instances
    rows = check_array(table, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=False)
    return bags.with_instances(rows, feature_names=bags.feature_names)


def _narrow(table: Any) -> Any:
    """Convert indices of a CSR to 32 bits if these suffice: most solvers accept no others."""
    if table.indices.dtype == np.int32 or max(*table.shape, table.nnz) >= np.iinfo(np.int32).max:
        return table
    indices, indptr = table.indices.astype(np.int32), table.indptr.astype(np.int32)
    return sparse.csr_array((table.data, indices, indptr), shape=table.shape)


def _checked_rows(estimator: Any, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
    """Validate a 2-D table by scikit-learn's checks, which handle data frames."""
    from sklearn.utils.validation import validate_data

    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=FLOATS,
            ensure_all_finite=False,
            ensure_min_samples=min_rows,
        )
    except (TypeError, ValueError) as error:
        hint = ""
        if "could not convert" in str(error) or "non-numeric" in str(error):
            hint = " For a table with a bag column: Bags.from_frame(df, bag=..., features=[...])."
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(f"{error}{hint}") from error


def _check_features(estimator: Any, bags: Bags, *, reset: bool) -> Bags:
    """Store the features, or compare them; bags without names get the names of the fit."""
    names = bags.feature_names
    if reset:
        estimator.n_features_in_ = bags.n_features
        vars(estimator).pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        return bags
    if bags.n_features != estimator.n_features_in_:
        raise InputError(
            f"X has {bags.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input: give the columns it was fitted on."
        )
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        return bags
    if names is None:
        warn_user(
            f"X does not have valid feature names, but {type(estimator).__name__} was fitted with "
            "feature names: give the bags the same feature_names."
        )
        # The steps of a pipeline and the members of an ensemble need not warn again.
        return bags.with_source(bags.source, feature_names=known) if is_here(bags) else bags
    if list(known) != names:
        place = next(i for i, (a, b) in enumerate(zip(known, names, strict=True)) if a != b)
        raise InputError(
            f"feature {place} is {names[place]!r}, but {type(estimator).__name__} was fitted with "
            f"{known[place]!r} there: give the same columns in the same order."
        )
    return bags


def _value_range(estimator: Any) -> tuple[float, float]:
    return getattr(estimator, "_value_range", VALUE_RANGE)

"""BagStatistics: represent a bag by statistics of its features."""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from bagwise import loops
from bagwise._common.memory import require_memory
from bagwise._common.sklearn import _check_feature_names_in
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._parameters import with_parameters
from bagwise.compute import bag_blocks
from bagwise.embedding._columns import USED_COLUMNS, fitted_columns
from bagwise.embedding._prototypes import BagEmbedding
from bagwise.exceptions import InputError

STATISTICS = ("mean", "min", "max", "std", "size")

Statistic = str | float


@with_parameters
class BagStatistics(BagEmbedding):
    """Represent each bag by statistics of each feature over its instances.

    The result is a 2-D array with one row per bag, for any scikit-learn model.
    ``make_pipeline(BagStatistics(), ExtraTreesClassifier())`` is a strong and fast bag classifier.

    Parameters
    ----------
    statistics : tuple or list, default=("mean", "min", "max", "std")
        Names, and quantiles as floats between 0 and 1: ``("mean", 0.1, 0.9, "size")``. "std" is
        divided by the number of instances; "size", the number of instances, is a single column.
        Quantiles are interpolated linearly.
    use_columns : sequence of str, default=None
        Columns of the bags (`Bags.columns`), such as age and site, to use besides the instances.
        Numbers are standardised, other values become indicators.

    Attributes
    ----------
    {n_features_in_}
    feature_names_in_ : ndarray of str
        Names of the features, if they have names.
    columns_ : transformer or None
        What becomes of `use_columns`.

    Notes
    -----
    Columns are grouped by statistic, in the order of the features: "mean_x0", "mean_x1", ...,
    "q0.1_x0", ..., "size". All are computed in double precision, in time linear in the number of
    values; quantiles sort the values of each bag. Sparse instances are made dense
    for quantiles only, one bag at a time; memory-mapped ones are read in place.

    Examples
    --------
    >>> from bagwise.embedding import BagStatistics
    >>> bags = [[[0.0], [1.0]], [[3.0]]]
    >>> statistics = BagStatistics(("mean", "max", "size"))
    >>> statistics.fit_transform(bags)
    array([[0.5, 1. , 2. ],
           [3. , 3. , 1. ]])
    >>> statistics.get_feature_names_out().tolist()
    ['mean_x0', 'max_x0', 'size']
    """

    _runs_elsewhere = ("cluster",)
    _value_range = (1e-150, 1e150)  # squares stay within float64

    _parameter_constraints = {"statistics": [tuple, list], "use_columns": USED_COLUMNS}

    statistics: Any = ("mean", "min", "max", "std")
    use_columns: Any = None

    def _learn(self, bags: Bags) -> None:
        _check_statistics(self.statistics)
        self.columns_ = fitted_columns(self.use_columns, bags)

    def _embedded(self, bags: Bags) -> Floats:
        rows = bag_statistics(bags, _check_statistics(self.statistics))
        return rows if self.columns_ is None else np.hstack([rows, self.columns_.transform(bags)])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns: the statistic, then the feature.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the features; by default those seen in `fit`, or "x0", "x1", ...

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        features = _check_feature_names_in(self, input_features)
        names: list[str] = []
        for statistic in _check_statistics(self.statistics):
            prefix = f"q{statistic}" if isinstance(statistic, float) else statistic
            names += ["size"] if prefix == "size" else [f"{prefix}_{name}" for name in features]
        own: Any = [] if self.columns_ is None else self.columns_.get_feature_names_out()
        return np.array([*names, *own], dtype=object)


def bag_statistics(bags: Bags, statistics: Sequence[Statistic]) -> Floats:
    """Statistics of each feature over the instances of each bag.

    Parameters
    ----------
    bags : Bags
        Validated bags, none of them empty.
    statistics : sequence of str and float
        Names of `STATISTICS`, and quantiles.

    Returns
    -------
    ndarray of shape (n_bags, n_columns)
        Columns grouped by statistic; "size" has one column, any other one per feature.
    """
    widths = [1 if statistic == "size" else bags.n_features for statistic in statistics]
    require_memory(
        8.0 * len(bags) * sum(widths),
        purpose=f"a table of {len(bags):,} bags and {sum(widths):,} statistics",
        remedy="choose fewer statistics, or use fewer bags at a time",
    )
    out = np.empty((len(bags), sum(widths)))
    ends = np.concatenate([[0], np.cumsum(widths)])
    for rows in bag_blocks(bags):
        some, wanted = bags[rows], set(statistics)
        if bags.is_sparse:
            found = _of_sparse(some, wanted)
        else:
            found = _of_columns(some.instances, some.offsets, wanted)
        found["size"] = some.sizes[:, None]
        for statistic, (first, last) in zip(statistics, pairwise(ends), strict=True):
            out[rows, first:last] = found[statistic]
    return out


def _of_columns(values: Array, offsets: Ints, wanted: set[Statistic]) -> dict[Statistic, Array]:
    found: dict[Statistic, Array] = {}
    if wanted & {"mean", "std"}:
        found["mean"], found["std"] = loops.segments.mean_and_std(values, offsets)
    if "min" in wanted:
        found["min"] = loops.segments.minimum(values, offsets)
    if "max" in wanted:
        found["max"] = loops.segments.maximum(values, offsets)
    levels = [statistic for statistic in wanted if isinstance(statistic, float)]
    if levels:
        found |= dict(zip(levels, loops.segments.quantiles(values, offsets, levels), strict=True))
    return found


def _of_sparse(bags: Bags, wanted: set[Statistic]) -> dict[Statistic, Array]:
    """Statistics from the stored values, one run per bag and feature, and the number of zeros."""
    bag, column, values, offsets = _runs(bags)
    n_stored = np.diff(offsets)
    size = bags.sizes[bag]
    n_zeros = size - n_stored
    levels = sorted(statistic for statistic in wanted if isinstance(statistic, float))
    of_runs = _of_columns(values, offsets, wanted - set(levels))
    if "mean" in of_runs:
        mean = of_runs["mean"] * (n_stored / size)
        # Squares around the mean of all values: of the stored values (within), then of the zeros.
        within = n_stored * (np.square(of_runs["std"]) + np.square(of_runs["mean"] - mean))
        of_runs["std"] = np.sqrt((within + n_zeros * np.square(mean)) / size)
        of_runs["mean"] = mean
    for name, extreme in (("min", np.minimum), ("max", np.maximum)):
        if name in wanted:
            of_runs[name] = np.where(n_zeros > 0, extreme(of_runs[name], 0), of_runs[name])
    found: dict[Statistic, Array] = {}
    for statistic, of_run in of_runs.items():
        found[statistic] = np.zeros(bags.shape)
        found[statistic][bag, column] = of_run
    if levels:
        of_bags = [np.quantile(some.toarray().astype(np.float64), levels, axis=0) for some in bags]
        found |= dict(zip(levels, np.stack(of_bags, axis=1), strict=True))
    return found


def _runs(bags: Bags) -> tuple[Ints, Ints, Array, Ints]:
    """Stored values sorted by bag and feature: bag and feature of each run, values, offsets."""
    table = bags.instances  # `Bags` ensures that each entry is stored once
    by_bag = sparse.csr_array(
        (table.data.copy(), table.indices.copy(), table.indptr[bags.offsets]), shape=bags.shape
    )
    by_bag.sort_indices()
    bag = np.repeat(np.arange(len(bags)), np.diff(by_bag.indptr))
    begins = np.ones(by_bag.nnz, dtype=bool)
    begins[1:] = (np.diff(bag) != 0) | (np.diff(by_bag.indices) != 0)
    first = np.flatnonzero(begins)
    return bag[first], by_bag.indices[first], by_bag.data, np.append(first, by_bag.nnz)


def _check_statistics(statistics: Any) -> list[Statistic]:
    """Validate the statistics; return names and floats."""
    quantiles = [isinstance(item, Real) and 0 < float(item) < 1 for item in statistics]
    known = [item in STATISTICS or ok for item, ok in zip(statistics, quantiles, strict=True)]
    if not known or not all(known) or len(set(statistics)) < len(known):
        raise InputError(
            f"statistics is {statistics!r}: expected some of {STATISTICS}, and quantiles between "
            "0 and 1, such as 0.9, each only once."
        )
    return [float(item) if isinstance(item, Real) else item for item in statistics]

"""InstanceTransformer: apply a scikit-learn transformer to the instances of bags."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._common.sklearn import HasMethods
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base import BagEstimator, BagTransformerMixin, fit_method
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.compute import fold_bags, in_blocks, is_here, map_bags, map_rows, row_blocks
from bagwise.exceptions import InputError
from bagwise.validation import VALUE_RANGE, check_bags, check_length, check_values, is_table

EXACT = (MaxAbsScaler, MinMaxScaler, StandardScaler)  # partial_fit in blocks equals fit
COMPOSITES = (ColumnTransformer, FeatureUnion, Pipeline)  # their parts refuse missing values
ROUNDING = 4  # largest deviation that counts as rounding, in units of eps times the mean

PASS_THROUGH = FunctionTransformer(accept_sparse=True, feature_names_out="one-to-one")


@with_parameters
class InstanceTransformer(BagTransformerMixin, BagEstimator):
    """Apply a scikit-learn transformer to the instances: ``InstanceTransformer(StandardScaler())``.

    The transformer is fitted on the flat table of instances; bags stay whole and keep their ids.
    Bags in, `Bags` out; a 2-D table in, a 2-D table out. A memory-mapped table is read in blocks,
    if the transformer has ``partial_fit``, and transformed into another one, in a temporary file
    that is deleted with the last array that refers to it. On a cluster the partitions are
    transformed on their workers.

    A `StandardScaler` does not divide features by their standard deviation if they are constant up
    to rounding. Missing values (NaN) are rejected unless the transformer accepts them, like a
    `SimpleImputer`, or a pipeline that begins with one.

    Parameters
    ----------
    transformer : transformer, default=None
        Any scikit-learn transformer of rows; None passes the instances through.
    clip : float, default=None
        Transformed values are limited to between ``-clip`` and ``clip``: with a `StandardScaler`,
        standard deviations from the mean. A feature that hardly varies in training can put a new
        instance thousands of deviations away. None does not limit them.

    Attributes
    ----------
    transformer_ : transformer
        The fitted transformer.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of str
        Names of the features, if they have names.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise import Bags
    >>> from bagwise.preprocessing import InstanceTransformer
    >>> bags = Bags.from_arrays([[[0.0], [2.0]], [[4.0]]])
    >>> InstanceTransformer(StandardScaler()).fit_transform(bags).instances.ravel().round(2)
    array([-1.22,  0.  ,  1.22])
    """

    _runs_elsewhere = ("cluster",)
    _value_range = (0.0, np.inf)  # it may scale values that other estimators reject

    _parameter_constraints = {
        "transformer": [None, HasMethods(["fit", "transform"])],
        "clip": [None, POSITIVE],
    }

    transformer: Any = None
    _: KW_ONLY
    clip: float | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._given)
        tags.input_tags = inner.input_tags
        if isinstance(self.transformer, COMPOSITES):
            tags.input_tags.allow_nan = True
        tags.target_tags.required = inner.target_tags.required
        tags.transformer_tags = inner.transformer_tags
        return tags

    @fit_method
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer on the instances.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        y : array-like of shape (n_bags,), default=None
            Bag labels, passed to the transformer as the label of each of their instances.

        Returns
        -------
        self
        """
        bags = self._read(X, reset=True)
        fresh = clone(self._given)
        y_instances = None if y is None else np.asarray(check_length(y, bags))[bags.bag_index]
        if is_here(bags):
            fitted = _naming_bags(partial(_fitted_here, fresh, y_instances), bags)
        else:
            fitted = _fitted_on_workers(fresh, bags)
        self.transformer_ = _without_rounding(fitted, bags.dtype)
        return self

    def transform(self, X: Any) -> Any:
        """Transform the instances of each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        Bags, or 2-D array for a 2-D table
        """
        with_new_rows = partial(self._with_new_rows, as_table=is_table(X))
        function = partial(_naming_bags, with_new_rows)
        return self._evaluate(X, partial(map_bags, function), by_partition=False)

    def _check_bags(self, X: Any) -> Bags:
        check_is_fitted(self)
        return self._read(X, reset=False)

    def _with_new_rows(self, bags: Bags, *, as_table: bool = False) -> Any:
        # Rows may be computed later, after another fit: do not keep a reference to this object.
        new_rows = partial(_new_rows, self.transformer_, self.clip)
        whole = bags.is_sparse or not in_blocks(bags)
        rows = new_rows(_rows(bags)) if whole else map_rows(new_rows, bags)
        if as_table:
            return rows
        names = None
        if bags.feature_names is not None and hasattr(self, "get_feature_names_out"):
            names = self.get_feature_names_out(bags.feature_names)
        return bags.with_instances(rows, feature_names=names)

    @available_if(
        lambda self: hasattr(getattr(self, "transformer_", self._given), "get_feature_names_out")
    )
    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input columns; those seen in `fit` by default.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        return self.transformer_.get_feature_names_out(input_features)

    @property
    def _given(self) -> Any:
        return PASS_THROUGH if self.transformer is None else self.transformer

    def _read(self, X: Any, *, reset: bool) -> Bags:
        bags = check_bags(self, X, reset=reset, allow_nan=get_tags(self).input_tags.allow_nan)
        if isinstance(self.transformer, COMPOSITES):  # float32 far from 0 becomes float64
            bags = check_values(bags, VALUE_RANGE, fitting=reset, allow_nan=True)
        return bags


def _naming_bags(function: Any, bags: Bags) -> Any:
    """Call a function of bags; if it rejects missing values, the error names their bag."""
    try:
        return function(bags)
    except ValueError as error:
        if "contains NaN" in str(error):
            check_values(bags, InstanceTransformer._value_range, fitting=False)
        raise


def _fitted_here(transformer: Any, y_instances: Any, bags: Bags) -> Any:
    """Fit the transformer on the instances; in blocks if they are memory-mapped."""
    # A fold that is not memory-mapped is read in blocks only if this gives the same result.
    incremental = isinstance(transformer, EXACT) or (
        bags.is_mapped and hasattr(transformer, "partial_fit")
    )
    imputes_means = isinstance(transformer, SimpleImputer) and (
        (transformer.strategy, str(transformer.missing_values), transformer.add_indicator)
        == ("mean", "nan", False)
    )
    if bags.is_sparse or not in_blocks(bags) or not (incremental or imputes_means):
        return transformer.fit(_rows(bags), y_instances)
    if imputes_means:
        return _imputer_of_means(transformer, bags)
    for rows, block in row_blocks(bags):
        part = None if y_instances is None else y_instances[rows]
        transformer.partial_fit(block, part)
    return transformer


def _imputer_of_means(imputer: SimpleImputer, bags: Bags) -> SimpleImputer:
    """Fit an imputer in blocks; scikit-learn would copy the whole table."""
    sums, counts = np.zeros((2, bags.n_features))
    for _, block in row_blocks(bags):
        sums += np.nansum(block, axis=0, dtype=np.float64)
        counts += np.count_nonzero(~np.isnan(block), axis=0)
    means = np.full((1, bags.n_features), 0.0 if imputer.keep_empty_features else np.nan)
    np.divide(sums, counts, out=means[0], where=counts > 0)
    return imputer.fit(means.astype(bags.dtype))


def _fitted_on_workers(transformer: Any, bags: Bags) -> Any:
    """Fit the transformer on one partition after the other."""
    if not get_tags(transformer).requires_fit:
        return transformer.fit(np.zeros((1, bags.n_features)))
    if not hasattr(transformer, "partial_fit"):
        raise InputError(f"{type(transformer).__name__} has no partial_fit: fit on bags.collect().")
    return fold_bags(lambda model, some: model.partial_fit(_rows(some)), transformer, bags)


def _without_rounding(transformer: Any, dtype: Any) -> Any:
    """Keep a scaler from dividing by standard deviations that are only rounding errors.

    scikit-learn does this for double precision; values may have been rounded to single precision.
    """
    if isinstance(transformer, StandardScaler) and transformer.with_std:
        kind = np.finfo(dtype if np.dtype(dtype).kind == "f" else np.float64)
        rounding = ROUNDING * kind.eps * np.abs(transformer.mean_) + kind.tiny
        constant = np.sqrt(transformer.var_) <= rounding
        transformer.scale_ = np.where(constant, 1.0, transformer.scale_)
    return transformer


def _new_rows(transformer: Any, limit: float | None, rows: Any) -> Any:
    """Transform rows and clip their values; the result may be an array, sparse, or a data frame."""
    n_instances = rows.shape[0]
    rows = transformer.transform(rows)
    if rows.shape[0] != n_instances:
        raise InputError(
            f"{type(transformer).__name__} returned {rows.shape[0]} rows for {n_instances} "
            "instances: expected one row per instance. Remove instances before the pipeline."
        )
    if limit is None:
        return rows
    if sparse.issparse(rows):
        rows = rows.copy()
        np.clip(rows.data, -limit, limit, out=rows.data)
        return rows
    return rows.clip(-limit, limit)


def _rows(bags: Bags) -> Any:
    """Instances for a transformer; sparse ones are copied, since many transformers modify them."""
    return bags.instances.copy() if bags.is_sparse else bags.instances

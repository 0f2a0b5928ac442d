"""Row transformers of scikit-learn on instances, and pipelines with methods for instances."""

from dataclasses import KW_ONLY
from functools import partial, reduce
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    StandardScaler,
)
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._memory import require_memory
from bagwise._sklearn import HasMethods, Interval, RealNotInt, StrOptions
from bagwise._types import Array, Ints
from bagwise._validation import check_bags, check_length, is_mapped, is_table
from bagwise.bags import Bags
from bagwise.base import BagEstimator, fit_method
from bagwise.base._finite import numerical_errors, quietly, require_finite
from bagwise.base._fitted_state import FittedState, Floats, Model
from bagwise.base._parameters import COUNT, POSITIVE, with_parameters
from bagwise.engines import (
    by_place,
    each_partition,
    fold_bags,
    in_blocks,
    map_bags,
    map_rows,
    row_blocks,
)
from bagwise.exceptions import InputError
from bagwise.solvers.principal_components import Moments, principal_components, row_moments

__all__ = ["BagPipeline", "InstancePCA", "InstanceTransformer", "make_bag_pipeline"]


EXACT = (MaxAbsScaler, MinMaxScaler, StandardScaler)  # partial_fit in blocks equals fit
MOST = 64  # components that "auto" keeps
ROUNDING = 4  # deviations of so many units in the last place are taken for rounding

PASS_THROUGH = FunctionTransformer(accept_sparse=True, feature_names_out="one-to-one")


def _inner_has(name: str) -> Any:
    return lambda self: hasattr(self._inner, name)


@with_parameters
class InstanceTransformer(  # type: ignore[call-arg]
    TransformerMixin, BagEstimator, auto_wrap_output_keys=None
):
    """Apply a scikit-learn transformer to the instances: ``InstanceTransformer(StandardScaler())``.

    The transformer is fitted on the flat table of instances; bags stay whole and keep their ids.
    Bags in, `Bags` out; a 2-D table in, a 2-D table out. A memory-mapped table is read in blocks,
    if the transformer has ``partial_fit``, and transformed into another one, in a temporary file
    that is deleted with the last array that refers to it. On a cluster the partitions are
    transformed where they are.

    A `StandardScaler` does not divide features by their standard deviation if they are constant up
    to rounding. Missing values (NaN) are refused unless the transformer takes them,
    such as a `SimpleImputer`, or a pipeline that begins with one.

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
        Their names, where they had names.

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
    _value_range = (0.0, np.inf)  # its use is to scale values that others refuse

    _parameter_constraints = {
        "transformer": [None, HasMethods(["fit", "transform"])],
        "clip": [None, POSITIVE],
    }

    transformer: Any = None
    _: KW_ONLY
    clip: float | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"clip": None} | state)  # bagwise 0.1 had no clip

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.transformer is None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
            return tags
        inner = get_tags(self.transformer)
        tags.input_tags = inner.input_tags
        tags.input_tags.allow_nan = _takes_nan(self.transformer)
        tags.target_tags.required = inner.target_tags.required
        tags.transformer_tags = inner.transformer_tags
        return tags

    def _fitted_state(self) -> FittedState:
        return super()._fitted_state() | {"transformer_": Model("transform")}

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
        fresh = clone(PASS_THROUGH if self.transformer is None else self.transformer)
        y_instances = None if y is None else check_length(np.asarray(y), bags)[bags.bag_index]
        fitted = by_place(
            bags, partial(_fitted_here, fresh, y_instances), partial(_fitted_on_workers, fresh)
        )
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
        return self._evaluate(X, partial(map_bags, with_new_rows), by_partition=False)

    def _check_bags(self, X: Any) -> Bags:
        check_is_fitted(self)
        return self._read(X, reset=False)

    def _with_new_rows(self, bags: Bags, *, as_table: bool = False) -> Any:
        rows = self._transformed(bags)
        if as_table:
            return rows
        names = None
        if bags.feature_names is not None and hasattr(self, "get_feature_names_out"):
            names = self.get_feature_names_out(bags.feature_names)
        return bags.with_instances(rows, feature_names=names)

    def _transformed(self, bags: Bags) -> Any:
        def new_rows(rows: Any) -> Any:
            return _clipped(self.transformer_.transform(rows), self.clip)

        if bags.is_sparse or not in_blocks(bags):
            return new_rows(_rows(bags))
        return map_rows(new_rows, bags)

    @available_if(_inner_has("inverse_transform"))
    def inverse_transform(self, X: Any) -> Any:
        """Undo `transform`.

        Parameters
        ----------
        X : Bags or 2-D array
            What `transform` gave.

        Returns
        -------
        Bags, or 2-D array for a 2-D table
        """
        check_is_fitted(self)
        with numerical_errors(self, X):
            bags = check_bags(None, X, reset=True)
            rows = quietly(self.transformer_.inverse_transform, _rows(bags))
            require_finite(rows, "the result")
        return rows if is_table(X) else bags.with_instances(rows)

    @available_if(_inner_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns that `transform` gives.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns that go in; those seen in `fit` by default.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        return self.transformer_.get_feature_names_out(input_features)

    @property
    def _inner(self) -> Any:
        given = PASS_THROUGH if self.transformer is None else self.transformer
        return getattr(self, "transformer_", given)

    def _read(self, X: Any, *, reset: bool) -> Bags:
        return check_bags(self, X, reset=reset, allow_nan=get_tags(self).input_tags.allow_nan)


def _takes_nan(transformer: Any) -> bool:
    """Whether a transformer takes missing values, as its tags or those of its parts declare."""
    if transformer in (None, "passthrough", "drop"):
        return transformer == "drop"
    if isinstance(transformer, FeatureUnion):
        return all(_takes_nan(part) for _, part in transformer.transformer_list)
    if isinstance(transformer, ColumnTransformer):
        return all(_takes_nan(part) for _, part, _ in transformer.transformers)
    if not isinstance(transformer, Pipeline):
        return bool(get_tags(transformer).input_tags.allow_nan)
    for _, step in transformer.steps:
        if step in (None, "passthrough"):
            continue
        if not _takes_nan(step):
            return False
        # Scalers pass NaN on to the next step; what else takes it fills it in.
        if not type(step).__module__.startswith("sklearn.preprocessing."):
            return True
    return any(step not in (None, "passthrough") for _, step in transformer.steps)


@with_parameters
class InstancePCA(  # type: ignore[call-arg]
    TransformerMixin, BagEstimator, auto_wrap_output_keys=None
):
    """Project instances to their principal components (PCA), reading them in blocks.

    Use it for many features and few bags, such as features of foundation models. Features are
    standardised, and the eigenvectors of their correlation matrix are exact. The instances are read
    once, in blocks, so a memory-mapped table, or a fold of one, is never in memory; on a Dask
    cluster each worker reads its own.

    Parameters
    ----------
    n_components : int, float or "auto", default="auto"
        Number of components; a float between 0 and 1 is the share of the variance that they
        explain at least. "auto" is half as many as there are bags, at most 64: with more, a linear
        model separates the training bags whatever their labels are.
    standardize : bool, default=True
        Whether each feature is divided by its standard deviation.
    whiten : bool, default=False
        Whether each component is divided by its standard deviation.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions, in standardised features.
    explained_variance_ : ndarray of shape (n_components,)
        Variance along each.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Its share of the variance of all features.
    mean_ : ndarray of shape (n_features,)
        Mean of each feature.
    scale_ : ndarray of shape (n_features,)
        What each feature is divided by; 1 without `standardize`, and for constant features.
    {n_features_in_}
    feature_names_in_ : ndarray of str
        Their names, where they had names.

    See Also
    --------
    InstanceTransformer : ``InstanceTransformer(PCA(32))`` needs all instances in memory.

    Notes
    -----
    Time is n_instances * n_features^2 + n_features^3, memory 32 n_features^2 bytes beside blocks of
    32 MB.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.preprocessing import InstancePCA
    >>> rows = np.random.default_rng(0).normal(size=(60, 1)) @ np.ones((1, 5))
    >>> pca = InstancePCA(1).fit(Bags(rows, np.arange(0, 61, 6)))
    >>> pca.components_.shape, pca.explained_variance_ratio_.round(2).tolist()
    ((1, 5), [1.0])
    """

    _accepts_sparse = False
    _runs_elsewhere = ("cluster",)

    _parameter_constraints = {
        "n_components": [
            StrOptions({"auto"}),
            COUNT,
            Interval(RealNotInt, 0, 1, closed="neither"),
        ],
        "standardize": ["boolean"],
        "whiten": ["boolean"],
    }

    n_components: int | float | str = "auto"
    _: KW_ONLY
    standardize: bool = True
    whiten: bool = False

    def _fitted_state(self) -> FittedState:
        return super()._fitted_state() | {
            "components_": Floats("n_components", "n_features_in_"),
            "explained_variance_": Floats("n_components", low=0),
            "explained_variance_ratio_": Floats("n_components", low=0, high=1),
            "mean_": Floats("n_features_in_"),
            "scale_": Floats("n_features_in_", low=0),
        }

    @fit_method
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the instances.

        Parameters
        ----------
        {X}
        y : ignored
            Present for compatibility with pipelines.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        moments = reduce(Moments.merged, each_partition(row_moments, bags))
        found = principal_components(moments, standardize=self.standardize, dtype=bags.dtype)
        k = self._number(found.variances, bags)
        self.components_ = found.directions[:k]
        self.explained_variance_ = found.variances[:k]
        total = found.variances.sum()
        self.explained_variance_ratio_ = found.variances[:k] / (total if total > 0 else 1.0)
        self.mean_, self.scale_ = found.mean, found.scale
        return self

    def transform(self, X: Any) -> Any:
        """Project the instances of each bag.

        Parameters
        ----------
        {X}

        Returns
        -------
        Bags, or 2-D array for a 2-D table
        """
        as_table = is_table(X)
        return self._evaluate(
            X, partial(map_bags, partial(self._projected, as_table=as_table)), by_partition=False
        )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the components: "pca0", "pca1", ...

        Parameters
        ----------
        input_features : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.array([f"pca{k}" for k in range(len(self.components_))], dtype=object)

    def _number(self, variances: Array, bags: Bags) -> int:
        """How many components to keep."""
        wanted, n, d = self.n_components, bags.n_instances, bags.n_features
        if wanted == "auto":
            return max(1, min(MOST, len(bags) // 2, n, d))
        if isinstance(wanted, float):
            share = np.cumsum(variances) / max(variances.sum(), np.finfo(float).tiny)
            return min(d, 1 + int(np.searchsorted(share, wanted)))
        most = min(n, d)
        if int(wanted) > most:
            raise InputError(
                f"n_components={wanted}, but {n} instances of {d} features have {most} components "
                'at most: choose fewer, or "auto".'
            )
        return int(wanted)

    def _projected(self, bags: Bags, *, as_table: bool) -> Any:
        unit = self.scale_[:, None]
        if self.whiten:
            variance = self.explained_variance_
            unit = unit * np.sqrt(np.where(variance > 0, variance, 1))
        weights = (self.components_.T / unit).astype(bags.dtype)
        mean = self.mean_.astype(bags.dtype)
        rows = map_rows(lambda block: (block - mean) @ weights, bags)
        if as_table:
            return rows
        names = None if bags.feature_names is None else self.get_feature_names_out().tolist()
        return bags.with_instances(rows, feature_names=names)


def _last_step_has(name: str) -> Any:
    return available_if(lambda pipeline: hasattr(pipeline._final_estimator, name))


class BagPipeline(Pipeline):
    """A scikit-learn pipeline with the methods of its last step for instances.

    ``pipeline.key_instances(bags)`` transforms the bags by all steps but the last and calls
    ``key_instances`` of the last step; likewise for the other methods. A method is available where
    the last step has it. All else is scikit-learn's `Pipeline`. Use `make_bag_pipeline` to name
    the steps automatically.

    Parameters
    ----------
    steps : list of (name, estimator)
        Transformers of bags, and a final estimator.
    transform_input : list of str, default=None
        Metadata that the transformers transform too.
    memory : str or object with the joblib.Memory interface, default=None
        Where fitted transformers are cached.
    verbose : bool, default=False
        Whether to print the time of each step.

    See Also
    --------
    make_bag_pipeline : Names the steps by their classes.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> scale = InstanceTransformer(StandardScaler())
    >>> pipeline = make_bag_pipeline(scale, SingleInstanceClassifier())
    >>> pipeline.fit(bags, [0, 0, 1, 1]).key_instances([[[0.1], [3.0]]])
    array([1])
    """

    @_last_step_has("key_instances")
    def key_instances(self, X: Any, label: Any = None) -> Ints:
        """Find the instance that decided the label of each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label : object, default=None
            The class to explain; the predicted class of each bag by default.

        Returns
        -------
        ndarray of shape (n_bags,)
            Rows inside the bags, 0-based.
        """
        chosen = {} if label is None else {"label": label}  # regressors have no classes
        return self._final_estimator.key_instances(self._before_last(X), **chosen)

    @_last_step_has("score_instances")
    def score_instances(self, X: Any) -> Array:
        """Score the instances.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, n_classes)
        """
        return self._final_estimator.score_instances(self._before_last(X))

    @_last_step_has("predict_instances")
    def predict_instances(self, X: Any, **params: Any) -> Array:
        """Predict a label for each instance.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        **params : object
            Further arguments of the method of the last step.

        Returns
        -------
        ndarray of shape (n_instances,)
        """
        return self._final_estimator.predict_instances(self._before_last(X), **params)

    @_last_step_has("predict_proba_instances")
    def predict_proba_instances(self, X: Any) -> Array:
        """Estimate the probability of each class for each instance.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
        """
        return self._final_estimator.predict_proba_instances(self._before_last(X))

    @_last_step_has("annotate")
    def annotate(self, X: Any, label_sets: Any, **params: Any) -> Array:
        """Label each instance, given the label set of its bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label_sets : list of set or ndarray of shape (n_bags, n_classes)
            The labels of each bag.
        **params : object
            Further arguments of the method of the last step.

        Returns
        -------
        ndarray of shape (n_instances,)
        """
        return self._final_estimator.annotate(self._before_last(X), label_sets, **params)

    @_last_step_has("annotate_proba")
    def annotate_proba(self, X: Any, label_sets: Any, **params: Any) -> Array:
        """Estimate class probabilities of each instance, given the label set of its bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label_sets : list of set or ndarray of shape (n_bags, n_classes)
            The labels of each bag.
        **params : object
            Further arguments of the method of the last step.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
        """
        return self._final_estimator.annotate_proba(self._before_last(X), label_sets, **params)

    def _before_last(self, X: Any) -> Any:
        check_is_fitted(self)
        return self[:-1].transform(X) if len(self) > 1 else X


def make_bag_pipeline(
    *steps: Any, memory: Any = None, transform_input: list[str] | None = None, verbose: bool = False
) -> BagPipeline:
    """Make a `BagPipeline`; the steps are named by their classes.

    Parameters
    ----------
    *steps : estimator
        Transformers of bags, and a final estimator.
    memory : str or object with the joblib.Memory interface, default=None
        Where fitted transformers are cached.
    transform_input : list of str, default=None
        Metadata that the transformers transform too.
    verbose : bool, default=False
        Whether to print the time of each step.

    Returns
    -------
    BagPipeline

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.classification import SetKernelSVM
    >>> from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
    >>> list(make_bag_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM()).named_steps)
    ['instancetransformer', 'setkernelsvm']
    """
    named = make_pipeline(*steps).steps
    return BagPipeline(named, memory=memory, transform_input=transform_input, verbose=verbose)


def _fitted_here(transformer: Any, y_instances: Any, bags: Bags) -> Any:
    """Fit the transformer on the instances; those of a mapped file block by block."""
    if isinstance(transformer, SimpleImputer) and in_blocks(bags) and not bags.is_sparse:
        return _imputer_in_blocks(transformer, bags)
    # Blocks of a fold in memory only where they give the same result.
    incremental = isinstance(transformer, EXACT) or (
        is_mapped(bags.source) and hasattr(transformer, "partial_fit")
    )
    if bags.is_sparse or not (in_blocks(bags) and incremental):
        return transformer.fit(_rows(bags), y_instances)
    for rows, block in row_blocks(bags):
        part = None if y_instances is None else y_instances[rows]
        transformer.partial_fit(block, part)
    return transformer


def _imputer_in_blocks(imputer: SimpleImputer, bags: Bags) -> SimpleImputer:
    """Fit an imputer of means on blocks of rows; scikit-learn's would copy the whole table."""
    is_plain = imputer.missing_values != imputer.missing_values  # NaN is what is missing
    if imputer.strategy != "mean" or imputer.add_indicator or not is_plain:
        require_memory(
            3.0 * bags.n_instances * bags.n_features * bags.dtype.itemsize,
            purpose=f"the {imputer.strategy} of {bags.n_features:,} features of "
            f"{bags.n_instances:,} instances",
            remedy="impute the mean, which is computed in blocks",
        )
        return imputer.fit(np.asarray(bags.instances))
    sums, counts = np.zeros(bags.n_features), np.zeros(bags.n_features)
    for _, block in row_blocks(bags):
        sums += np.nansum(block, axis=0, dtype=np.float64)
        counts += np.count_nonzero(~np.isnan(block), axis=0)
    means = np.divide(sums, counts, out=np.full(bags.n_features, np.nan), where=counts > 0)
    if imputer.keep_empty_features:
        means[counts == 0] = 0.0
    # One row of the means has these means: this sets what else an imputer keeps.
    return imputer.fit(means[None].astype(bags.dtype))


def _fitted_on_workers(transformer: Any, bags: Bags) -> Any:
    """Fit the transformer on the partitions one after the other."""
    if not get_tags(transformer).requires_fit:
        return transformer.fit(np.zeros((1, bags.n_features)))
    if not hasattr(transformer, "partial_fit"):
        raise InputError(
            f"{type(transformer).__name__} has no partial_fit and cannot learn from bags on a "
            "cluster: fit it on bags.collect(), or on some of the bags."
        )
    return fold_bags(lambda model, some: model.partial_fit(_rows(some)), transformer, bags)


def _without_rounding(transformer: Any, dtype: Any) -> Any:
    """Let a scaler not divide by a deviation that rounding alone may have made.

    scikit-learn does so for rounding in double precision; values may have been rounded to single.
    """
    if isinstance(transformer, StandardScaler) and transformer.with_std:
        kind = np.finfo(dtype if np.dtype(dtype).kind == "f" else np.float64)
        rounding = ROUNDING * kind.eps * np.abs(transformer.mean_) + kind.tiny
        constant = np.sqrt(transformer.var_) <= rounding
        transformer.scale_ = np.where(constant, 1.0, transformer.scale_)
    return transformer


def _clipped(rows: Any, limit: float | None) -> Any:
    """Values within plus and minus the limit, of an array, a sparse array or a data frame."""
    if limit is None:
        return rows
    if sparse.issparse(rows):
        rows = rows.copy()
        np.clip(rows.data, -limit, limit, out=rows.data)
        return rows
    return rows.clip(-limit, limit)


def _rows(bags: Bags) -> Any:
    """The instances for a transformer; sparse ones as a copy, which many insist on writing to."""
    return bags.instances.copy() if bags.is_sparse else bags.instances

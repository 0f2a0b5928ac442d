"""InstancePCA: principal components of instances, computed in blocks."""

from dataclasses import KW_ONLY
from functools import partial, reduce
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise._common.sklearn import Interval, RealNotInt, StrOptions
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base import BagEstimator, BagTransformerMixin, UnlabelledFit
from bagwise.base._parameters import COUNT, with_parameters
from bagwise.compute import each_partition, map_bags, map_rows
from bagwise.exceptions import InputError
from bagwise.solvers.principal_components import Moments, principal_components, row_moments
from bagwise.validation import is_table

FEWEST, MOST = 16, 64  # limits on the number of components for "auto"


@with_parameters
class InstancePCA(UnlabelledFit, BagTransformerMixin, BagEstimator):
    """Project instances to their principal components (PCA), reading them in blocks.

    Use it for many features and few bags, such as features of foundation models. Features are
    standardised, and the eigenvectors of their correlation matrix are exact. The instances are read
    once, in blocks, so a memory-mapped table, or a fold of one, is never in memory; on a Dask
    cluster each worker reads its own.

    Parameters
    ----------
    n_components : int, float or "auto", default="auto"
        Number of components; a float between 0 and 1 is the smallest share of the variance that
        they explain. "auto" keeps components that vary more than those of independent features
        (parallel analysis), but 16 to 64 of them, and at most half the number of bags: with more, a
        linear model separates the training bags whatever their labels are.
    standardize : bool, default=True
        Whether each feature is divided by its standard deviation.
    whiten : bool, default=False
        Whether each component is divided by its standard deviation.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions, in standardised features.
    explained_variance_ : ndarray of shape (n_components,)
        Variance along each component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Share of each component in the variance of all features.
    mean_ : ndarray of shape (n_features,)
        Mean of each feature.
    scale_ : ndarray of shape (n_features,)
        Divisor of each feature; 1 without `standardize`, and for constant features.
    {n_features_in_}
    feature_names_in_ : ndarray of str
        Names of the features, if they have names.

    See Also
    --------
    InstanceTransformer : ``InstanceTransformer(PCA(32))`` needs all instances in memory.

    Notes
    -----
    Parallel analysis (Horn 1965) compares the variances along the components with those of
    independent features. The largest of these is near v (1 + sqrt(d / n))^2 for n instances of d
    features with mean variance v (Marchenko and Pastur 1967): components below it cannot be
    distinguished from noise.

    Time is n_instances * n_features^2 + n_features^3, memory 32 n_features^2 bytes plus blocks of
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
        "n_components": [StrOptions({"auto"}), COUNT, Interval(RealNotInt, 0, 1, closed="neither")],
        "standardize": ["boolean"],
        "whiten": ["boolean"],
    }

    n_components: int | float | str = "auto"
    _: KW_ONLY
    standardize: bool = True
    whiten: bool = False

    def _learn(self, bags: Bags) -> None:
        moments = reduce(Moments.merged, each_partition(row_moments, bags))
        found = principal_components(moments, standardize=self.standardize, dtype=bags.dtype)
        k = self._number(found.variances, bags)
        self.components_ = found.directions[:k]
        self.explained_variance_ = found.variances[:k]
        total = found.variances.sum()
        self.explained_variance_ratio_ = found.variances[:k] / (total if total > 0 else 1.0)
        self.mean_, self.scale_ = found.mean, found.scale

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
        """Number of components to keep."""
        wanted, n, d = self.n_components, bags.n_instances, bags.n_features
        if wanted == "auto":
            of_noise = variances.mean() * (1 + np.sqrt(d / n)) ** 2
            found = int(np.clip((variances > of_noise).sum(), FEWEST, MOST))
            return max(1, min(found, len(bags) // 2, n, d))
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
        rows = map_rows(partial(_project, mean, weights), bags)
        if as_table:
            return rows
        names = None if bags.feature_names is None else self.get_feature_names_out().tolist()
        return bags.with_instances(rows, feature_names=names)


def _project(mean: Array, weights: Array, rows: Array) -> Array:
    return (rows - mean) @ weights

"""Base classes of all estimators: validation, parameters, progress, fitted state."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from bagwise._common.sklearn import _fit_context
from bagwise._common.types import Floats as FloatArray
from bagwise.bags import Bags
from bagwise.base._finite import checked_fit, quietly, raise_translated, require_finite
from bagwise.base._order import in_canonical_order
from bagwise.base._parameters import CONSTRAINTS
from bagwise.compute import over_partitions
from bagwise.exceptions import InputError, LabelError, warn_user
from bagwise.labels import Labels
from bagwise.loops.threads import one_core_if_few
from bagwise.solvers.result import SolverResult, total_curve
from bagwise.validation import (
    VALUE_RANGE,
    check_bag_labels,
    check_bags,
    check_label_sets,
    check_rows,
    check_sample_weight,
)

BUDGETS = ("max_iter", "max_rounds", "max_epochs", "max_cuts", "tol")  # stopping criteria

Item = TypeVar("Item")
Fit = TypeVar("Fit", bound=Callable[..., Any])


def fit_method(fit: Fit) -> Fit:
    """Decorate ``fit`` to check the parameters before it and the fitted numbers after it.

    Parameters
    ----------
    fit : callable
        The ``fit`` of an estimator.

    Returns
    -------
    callable
    """
    return _fit_context(prefer_skip_nested_validation=True)(checked_fit(fit))


class BagEstimator(BaseEstimator):
    """Base class of all estimators: scikit-learn's `BaseEstimator` for bags, with progress.

    The mixins define ``fit``; an estimator defines ``_solve(bags, labels, weight, rng)``. It
    receives the bags with a known label and a positive weight, their `Labels` (the targets of a
    regression), their weights (`sample_weight` times `class_weight`), and a `RandomState` from
    `random_state`. It returns a `SolverResult`, whose solution becomes the attributes in
    `_solution`, or a list of results, or None; then it sets the attributes itself. Progress is
    stored from the results, with a warning if one did not converge.

    Parameters and attributes that several estimators share are described here: a line ``{gamma}``
    in the docstring of an estimator is replaced by the entry below.

    Parameters
    ----------
    X : Bags or anything accepted as bags
        The bags.
    y : array-like of shape (n_bags,)
        The class of each bag. Where the model learns label sets, also a 0/1 array of shape
        (n_bags, n_classes) or a list of sets; bags of unknown label set are left out.
    checkpoint : path
        A file to which the state of the fit is saved from time to time. If it exists, the fit
        resumes from it and ends with the same result. Removed when the fit is complete.
    gamma : {"scale", "auto"} or float
        Kernel width; "scale" is ``1 / (n_features * variance)``, "auto" ``1 / n_features``.
    verbose : int
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    label_kind_ : {"single", "sets"}
        Whether the model was fitted on one label per bag, or on label sets.
    n_features_in_ : int
        Number of features of an instance, or of a row.
    """

    _parameter_constraints: dict[str, Any] = CONSTRAINTS
    _accepts_sparse = True  # CSR instances
    _may_be_infinite: tuple[str, ...] = ()  # fitted attributes; others must be finite
    _runs_elsewhere: tuple[str, ...] = ()  # other supported locations: "device", "cluster"
    _value_range: tuple[float, float] = VALUE_RANGE  # limits of the largest magnitude in X
    _learns_label_sets = False  # whether `fit` accepts label sets as well as one label per bag
    _uses_of_sets = "whole"  # also "cells": unknown labels; "counts": numbers of instances
    _min_classes = 2  # number of distinct labels that `fit` needs
    _in_canonical_order = False  # whether `_solve` receives the bags sorted by their values
    _solution: tuple[str, ...] = ()  # the attributes that the parts of a solution become
    _solve: Any  # see above
    _advice = "raise max_iter, or standardise the instances"  # if a fit does not converge

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags

    def _fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Validate the input once, solve, and store the result."""
        bags = check_bags(self, X, reset=True)
        bags, labels, weight = self._training_set(bags, y, sample_weight)
        rng = check_random_state(getattr(self, "random_state", 0))
        with one_core_if_few(bags.n_instances * bags.n_features):
            result = self._solve(bags, labels, weight, rng)
        if isinstance(result, SolverResult):
            for name, value in zip(self._solution, result.solution, strict=bool(self._solution)):
                setattr(self, name, value)
        if result is not None:
            self._keep_progress(result, self._advice)
        return self

    def _training_set(self, bags: Bags, y: Any, sample_weight: Any) -> tuple[Bags, Any, FloatArray]:
        """Return the bags to learn from, their labels and their weights."""
        labels = self._check_labels(y, bags)
        weight = np.ones(len(bags.sizes))
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, bags)
        if isinstance(labels, Labels):
            weight = weight * labels.known
            if getattr(self, "class_weight", None) is not None:
                weight *= class_weights(self.class_weight, labels)
        used = weight > 0
        if not used.any():
            raise LabelError("no bag has a known label and a positive weight: label some bags.")
        if not used.all():
            bags, labels, weight = bags[used], labels[used], weight[used]
            _require_all_classes(labels)
        if self._in_canonical_order:
            bags, labels, weight = in_canonical_order(bags, labels, weight)
        return bags, labels, weight

    def _check_labels(self, y: Any, bags: Bags) -> Any:
        """Validate y."""
        may_be_sets = self._learns_label_sets and not getattr(y, "_is_validated", False)
        if not may_be_sets:
            return check_bag_labels(y, bags, min_classes=self._min_classes)
        known = self._uses_of_sets
        return check_label_sets(y, bags, min_classes=self._min_classes, known=known)

    def _check_bags(self, X: Any) -> Bags:
        """Validate the input of every method but ``fit``."""
        check_is_fitted(self)
        return check_bags(self, X, reset=False)

    def _evaluate(
        self,
        X: Any,
        compute: Callable[[Bags], Any],
        *,
        by_partition: bool = True,
        scores: bool = False,
    ) -> Any:
        """Validate X once, compute where the bags are stored, and check that the result is finite.

        Every public method of a fitted model calls it.

        Parameters
        ----------
        X : object
            The input as the user passed it.
        compute : callable
            Takes validated bags, returns an array with a row per bag or per instance.
        by_partition : bool, default=True
            Whether bags on a Dask cluster are given to `compute` partition by partition, on the
            workers.
        scores : bool, default=False
            Whether the result consists of scores, which may be infinite if ``intercept_`` may be.

        Returns
        -------
        object
            The result of `compute`.
        """
        try:
            bags = self._check_bags(X)
            compute = partial(quietly, compute)
            values = over_partitions(compute, bags) if by_partition else compute(bags)
            infinite = scores and "intercept_" in self._may_be_infinite
            return require_finite(values, "the result", infinite=infinite)
        except Exception as error:
            raise_translated(self, error)

    def _keep_progress(self, results: SolverResult | Sequence[SolverResult], advice: str) -> None:
        """Store ``n_iter_`` and ``objective_curve_``; warn if a solver did not converge.

        Parameters
        ----------
        results : SolverResult or sequence of SolverResult
            The result of each binary problem; curves are summed.
        advice : str
            Advice to the user in the warning.
        """
        each = [results] if isinstance(results, SolverResult) else results
        self.objective_curve_ = total_curve(each) if len(each) else np.zeros(0)
        self.n_iter_ = len(self.objective_curve_)
        if not all(result.converged for result in each):
            self._warn_not_converged(advice)

    def _warn_not_converged(self, advice: str) -> None:
        budgets = {name: getattr(self, name, None) for name in BUDGETS}
        given = [f"{name}={value}" for name, value in budgets.items() if value is not None]
        limits = f" ({', '.join(given)})" if given else ""
        warn_user(f"{type(self).__name__} did not converge{limits}: {advice}.", ConvergenceWarning)

    def _track(self, items: Iterable[Item], task: str, total: int | None = None) -> Iterator[Item]:
        """Iterate; if `verbose`, show the steps of the fit in a progress bar.

        Parameters
        ----------
        items : iterable
            The steps of the fit.
        task : str
            The name of a step.
        total : int, default=None
            The largest number of steps, if `items` has no length.

        Returns
        -------
        iterator
        """
        if getattr(self, "verbose", 0):
            from rich.console import Console
            from rich.progress import track

            name = f"{type(self).__name__}: {task}"
            items = track(items, name, total=total, console=Console(stderr=True))
        return iter(items)


def class_weights(class_weight: Any, labels: Labels) -> FloatArray:
    """Weight of each bag, by its class; an error unless all are positive.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    labels : Labels
        The labels of the bags.

    Returns
    -------
    ndarray of shape (n_bags,)
    """
    if class_weight is None:
        return np.ones(len(labels.known))
    if labels.has_sets:
        raise InputError("class_weight needs one label per bag: for label sets, weight the bags.")
    names = labels.classes[labels.codes]
    weights = compute_sample_weight(class_weight, names)
    if not np.all(weights > 0):
        label = names.tolist()[int(np.argmin(weights))]
        raise InputError(
            f"class_weight of the class {label!r} is {weights.min():g}: give it a positive weight."
        )
    return weights


def _require_all_classes(labels: Any) -> None:
    """Reject weights that leave out all bags of a class."""
    if isinstance(labels, Labels) and not labels.has_sets:
        for absent in np.setdiff1d(np.arange(len(labels.classes)), labels.codes):
            label = labels.classes.tolist()[absent]
            raise InputError(f"all bags of class {label!r} have weight 0: leave them out.")


class WeightedFit:
    """The common ``fit`` of an estimator that accepts weights of bags."""

    @fit_method
    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        {X}
        {y}
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags; a bag of weight 2 counts as two equal bags, and one of weight 0 is
            left out.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)


class UnlabelledFit:
    """The common ``fit`` of a transformer that needs no labels; it defines ``_learn(bags)``."""

    @fit_method
    def fit(self: Any, X: Any, y: Any = None) -> Any:
        """Fit the transformer to the bags.

        Parameters
        ----------
        {X}
        y : ignored
            Present for compatibility with pipelines.

        Returns
        -------
        self
        """
        self._learn(check_bags(self, X, reset=True))
        return self


class RowEstimator(BagEstimator):
    """Base class of estimators on plain rows (a 2-D X): each row is a bag of one instance."""

    def _check_bags(self, X: Any) -> Bags:
        """Validate the input of every method but ``fit``."""
        check_is_fitted(self)
        rows = check_rows(self, X, reset=False)
        return Bags(rows, np.arange(rows.shape[0] + 1))


class BagTransformerMixin(TransformerMixin):
    """Mixin of transformers from bags to bags, whose output is never a data frame."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(auto_wrap_output_keys=None, **options)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Do nothing: bags stay `Bags`, and other steps of a pipeline may return data frames.

        Parameters
        ----------
        transform : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        self
        """
        return self

"""Base classes of all estimators: validation, parameters, progress, fitted state."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bagwise._common.sklearn import CallbackSupportMixin, _fit_context, with_callbacks
from bagwise._common.types import Ints
from bagwise._common.warnings import warn_user
from bagwise._validation import VALUE_RANGE, check_bags, check_rows
from bagwise.bags import Bags, offsets_of
from bagwise.base._finite import checked_fit, numerical_errors, quietly, require_finite
from bagwise.base._parameters import CONSTRAINTS
from bagwise.compiled.row_order import ranks_by_column, row_ranks
from bagwise.engines import in_blocks, over_partitions, take_column, take_rows
from bagwise.exceptions import LabelError
from bagwise.labels import Labels
from bagwise.solvers.result import SolverResult, total_curve

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
    return with_callbacks(_fit_context(prefer_skip_nested_validation=True)(checked_fit(fit)))


def with_known_labels(bags: Bags, labels: Labels) -> tuple[Bags, Labels]:
    """Leave out bags without a known label or label set.

    Parameters
    ----------
    bags : Bags
        The bags.
    labels : Labels
        Their labels.

    Returns
    -------
    bags : Bags
        The bags with a known label or label set.
    labels : Labels
        Their labels.
    """
    if not labels.known.any():
        raise LabelError("no bag has a known label set: give at least one.")
    return bags[labels.known], labels[labels.known]


def order_within_bags(bags: Bags) -> Ints:
    """Sort the instances of each bag by their features.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    ndarray of shape (n_instances,)
        Row numbers, bag by bag.
    """
    return np.lexsort((_ranks(bags), bags.bag_index))


def in_canonical_order(bags: Bags, labels: Labels) -> tuple[Bags, Labels]:
    """Sort the bags, and the instances inside each bag, by their values.

    Through rounding, the result of a search with many starts depends on the order of summation, and
    the first of equal candidates wins. After sorting, neither depends on the order of the input.

    Parameters
    ----------
    bags : Bags
        The bags.
    labels : Labels
        Their labels, which break ties between equal bags.

    Returns
    -------
    bags : Bags
        The same bags, sorted.
    labels : Labels
        Their labels.
    """
    order, rows = canonical_order(bags, labels)
    return sorted_bags(bags, order, rows), labels[order]


def sorted_bags(bags: Bags, order: Ints, rows: Ints) -> Bags:
    """Apply the order found by `canonical_order`; instances in a file go to another file.

    Parameters
    ----------
    bags : Bags
        The bags.
    order, rows : ndarray of int
        Positions of bags and of instances.

    Returns
    -------
    Bags
        Without ids and feature names.
    """
    return Bags(take_rows(bags, rows), offsets_of(bags.sizes[order]))


def canonical_order(bags: Bags, labels: Labels) -> tuple[Ints, Ints]:
    """Find the order of bags, and of their instances, used by `in_canonical_order`.

    Parameters
    ----------
    bags : Bags
        The bags.
    labels : Labels
        Their labels, which break ties between equal bags.

    Returns
    -------
    order : ndarray of shape (n_bags,)
        Positions of bags.
    rows : ndarray of shape (n_instances,)
        Positions of instances, bag by bag in that order.
    """
    if labels.has_sets:
        codes = np.unique(labels.indicator, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        codes = labels.codes
    ranks = _ranks(bags)
    inside = np.lexsort((ranks, bags.bag_index))
    keys = [
        (*rank.tolist(), int(code))
        for rank, code in zip(bags.split(ranks[inside]), codes, strict=True)
    ]
    order = np.array(sorted(range(len(bags)), key=keys.__getitem__), dtype=np.intp)
    by_bag = bags.split(inside)
    return order, np.concatenate([by_bag[i] for i in order])


def _ranks(bags: Bags) -> Ints:
    """Ranks of the instances by their values; a table in a file is read column by column."""
    if bags.is_sparse or not in_blocks(bags):
        return row_ranks(bags.instances)
    return ranks_by_column(partial(take_column, bags), (bags.n_instances, bags.n_features))


class BagEstimator(CallbackSupportMixin, BaseEstimator):
    """Base class of all estimators: scikit-learn's `BaseEstimator` for bags, with progress."""

    _parameter_constraints: dict[str, Any] = CONSTRAINTS
    _accepts_sparse = True  # CSR instances
    _may_be_infinite: tuple[str, ...] = ()  # fitted attributes; others must be finite
    _runs_elsewhere: tuple[str, ...] = ()  # other supported locations: "device", "cluster"
    _value_range: tuple[float, float] = VALUE_RANGE  # limits of the largest magnitude in X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags

    def _drop(self, *names: str) -> None:
        """Delete attributes of an earlier fit that this fit does not set."""
        for name in names:
            self.__dict__.pop(name, None)

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
        with numerical_errors(self, X):
            bags = self._check_bags(X)
            compute = partial(quietly, compute)
            values = over_partitions(compute, bags) if by_partition else compute(bags)
            infinite = scores and "intercept_" in self._may_be_infinite
            return require_finite(values, "the result", infinite=infinite)

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
        self.n_iter_ = max((result.n_iter for result in each), default=0)
        self.objective_curve_ = total_curve(each) if len(each) else np.zeros(0)
        if not all(result.converged for result in each):
            self._warn_not_converged(advice)

    def _warn_not_converged(self, advice: str) -> None:
        budgets = {name: getattr(self, name, None) for name in BUDGETS}
        given = [f"{name}={value}" for name, value in budgets.items() if value is not None]
        warn_user(
            f"{type(self).__name__} did not converge ({', '.join(given)}): {advice}.",
            ConvergenceWarning,
        )

    def _track(self, items: Iterable[Item], task: str, total: int | None = None) -> Iterator[Item]:
        """Iterate; report each step to scikit-learn's callbacks and, if `verbose`, to a bar.

        Parameters
        ----------
        items : iterable
            The steps of the fit.
        task : str
            The name of a step.
        total : int, default=None
            The largest number of steps, if `items` has no length.

        Yields
        ------
        item
        """
        if total is None and isinstance(items, Sized):
            total = len(items)
        if hasattr(self, "_init_callback_context"):
            items = self._with_callbacks(items, task, total)
        if getattr(self, "verbose", 0):
            from rich.console import Console
            from rich.progress import track

            name = f"{type(self).__name__}: {task}"
            items = track(items, name, total=total, console=Console(stderr=True))
        yield from items

    def _with_callbacks(
        self, items: Iterable[Item], task: str, total: int | None
    ) -> Iterator[Item]:
        context = self._init_callback_context(max_subtasks=total)
        context.call_on_fit_task_begin(estimator=self)
        for item in items:
            step = context.subcontext(task_name=task)
            step.call_on_fit_task_begin(estimator=self)
            yield item
            if step.call_on_fit_task_end(estimator=self):
                break
        context.call_on_fit_task_end(estimator=self)


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

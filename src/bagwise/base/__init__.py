"""What estimators share: tags, the way from scores to answers, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise import compiled
from bagwise._sklearn import CallbackSupportMixin, _fit_context, with_callbacks
from bagwise._validation import VALUE_RANGE, check_bags, check_label, check_rows
from bagwise.bags import Bags
from bagwise.base.finite import check_answers, checked_fit
from bagwise.base.fitted_state import Classes, FittedState, Floats, Names, Text, Whole
from bagwise.compiled.row_order import row_ranks
from bagwise.engines import over_partitions

__all__ = [
    "BagClassifierMixin",
    "BagEstimator",
    "InstancePredictorMixin",
    "RowEstimator",
    "finite_scores",
    "fit_method",
    "in_canonical_order",
]

SCORE_BITS = 20  # scores of classes that differ by less than 1e-6 of the largest are equal

Item = TypeVar("Item")
Fit = TypeVar("Fit", bound=Callable[..., Any])


def fit_method(fit: Fit) -> Fit:
    """Decorate ``fit``: checks of parameters before it, of fitted numbers after it.

    Parameters
    ----------
    fit : callable
        The ``fit`` of an estimator.

    Returns
    -------
    callable
    """
    return with_callbacks(_fit_context(prefer_skip_nested_validation=True)(checked_fit(fit)))


def finite_scores(scores: NDArray[Any]) -> NDArray[Any]:
    """Replace infinite scores by the largest that can still be compared with others.

    A class that no training bag carries has the score minus infinity; scikit-learn's measures
    refuse that, and a search over folds in which a rare class is missing would fail.

    Parameters
    ----------
    scores : ndarray
        Scores of bags.

    Returns
    -------
    ndarray
    """
    largest = np.finfo(scores.dtype).max / 4  # differences stay finite
    return np.clip(scores, -largest, largest)


def in_canonical_order(
    bags: Bags, codes: NDArray[np.int64]
) -> tuple[Bags, NDArray[np.int64], NDArray[np.intp]]:
    """Sort the instances inside each bag and the bags, by their values.

    A search from many starts ends, by rounding alone, in another place when its sums run in
    another order; a tie is won by who comes first. After this neither depends on the user's order.

    Parameters
    ----------
    bags : Bags
        The bags.
    codes : ndarray of shape (n_bags,)
        The class of each bag; decides between equal bags.

    Returns
    -------
    bags : Bags
        The same bags, sorted.
    codes : ndarray of shape (n_bags,)
        Their classes.
    order : ndarray of shape (n_bags,)
        Where each came from.
    """
    ranks = row_ranks(bags.instances)
    inside = np.lexsort((ranks, bags.bag_index))
    keys = [
        (*rank.tolist(), int(code))
        for rank, code in zip(bags.split(ranks[inside]), codes, strict=True)
    ]
    order = np.array(sorted(range(len(bags)), key=keys.__getitem__), dtype=np.intp)
    by_bag = bags.split(inside)
    rows = np.concatenate([by_bag[i] for i in order])
    offsets = np.concatenate([[0], np.cumsum(bags.sizes[order])])
    return Bags(bags.instances[rows], offsets), codes[order], order


class BagEstimator(CallbackSupportMixin, BaseEstimator):
    """The root of all estimators: scikit-learn's, on bags, with progress."""

    _runs_elsewhere: tuple[str, ...] = ()  # "device", "cluster": where else bags may be
    _value_range: tuple[float, float] = VALUE_RANGE  # of the largest magnitude in X
    _may_be_infinite: tuple[str, ...] = ()  # fitted attributes and answers

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_answers(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fitted_state(self) -> FittedState:
        """Declare each fitted attribute and its kind; a subclass adds its own."""
        return {
            "n_features_in_": Whole(low=1),
            "feature_names_in_": Names("n_features_in_", optional=True),
            "n_iter_": Whole(optional=True),
            "objective_curve_": Floats(None, any_value=True, optional=True),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_single" in state:  # the name of `label_kind_` in bagwise 0.1
            state = dict(state)
            state["label_kind_"] = "single" if state.pop("_single") else "sets"
        super().__setstate__(state)

    def _check_bags(self, X: Any) -> Bags:
        """Door for everything but ``fit``."""
        check_is_fitted(self)
        sparse = self.__sklearn_tags__().input_tags.sparse
        return check_bags(self, X, reset=False, accept_sparse=sparse)

    def _track(self, items: Iterable[Item], task: str, total: int | None = None) -> Iterator[Item]:
        """Iterate, telling scikit-learn's callbacks (and, with `verbose`, a bar) of each step.

        Parameters
        ----------
        items : iterable
            The steps of the fit.
        task : str
            What a step is called.
        total : int, default=None
            How many there will be at most, where `items` has no length.

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
    """The root of estimators on plain rows (a 2-D X): bags have no say in them."""

    def _check_rows(self, X: Any) -> Any:
        """Door for everything but ``fit``."""
        check_is_fitted(self)
        sparse = self.__sklearn_tags__().input_tags.sparse
        return check_rows(self, X, reset=False, accept_sparse=sparse)


class BagClassifierMixin(ClassifierMixin):
    """One label per bag, from ``decision_function``.

    `label_kind_` is the kind of the labels in `fit`, as in `Labels.kind`. A class that learns from
    one kind only names it; others set it in `fit`.
    """

    classes_: NDArray[Any]
    label_kind_: str = "single"

    def _fitted_state(self) -> FittedState:
        return super()._fitted_state() | {
            "classes_": Classes(),
            "label_kind_": Text({"single", "sets"}, optional=True),
        }

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            Values of ``classes_``.
        """
        return self._labels_of(self.decision_function(X))

    def _labels_of(self, scores: NDArray[Any]) -> NDArray[Any]:
        return self.classes_[_columns(scores)]


def _columns(scores: NDArray[Any]) -> NDArray[np.intp]:
    """The class of the highest score; of scores equal up to the accuracy of solvers, the first.

    A machine whose solution is w = 0 has scores that differ by what its solver left, about 1e-9.
    """
    if scores.ndim == 1:
        return (scores > 0).astype(np.intp)
    return compiled.ties.settled(scores, axis=1, bits=SCORE_BITS).argmax(axis=1)


class InstancePredictorMixin:
    """Instance-level answers of a model whose bag scores are pooled instance scores.

    A class offers ``score_instances`` and names its pooling in `instance_pooling`; the bag scores,
    the instance labels and the key instances follow.
    """

    classes_: NDArray[Any]

    @property
    def instance_pooling(self) -> str:
        """How instance scores make the bag score: "max", "mean", "sum", "lse" or "noisy-or".

        "lse" is log-mean-exp; "noisy-or" takes log-odds of instances to those of the bag. A class
        may name another way, and then pools by itself.
        """
        raise NotImplementedError

    def score_instances(self, X: Any) -> NDArray[Any]:
        """Score each instance for each class; overridden by every model."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Score each bag: the pooled scores of its instances.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            One score per bag for two classes (positive: ``classes_[1]``), else one per class.
        """
        bags = self._check_bags(X)  # type: ignore[attr-defined]
        return over_partitions(self._score_bags, bags)

    def _score_bags(self, bags: Bags) -> NDArray[Any]:
        return self._pool(self.score_instances(bags), bags.offsets)

    def _pool(self, values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
        if self.instance_pooling == "lse":
            sizes = np.diff(offsets).astype(values.dtype)
            totals = compiled.segments.logsumexp(values, offsets)
            return totals - np.log(sizes).reshape(-1, *[1] * (totals.ndim - 1))
        pool = {
            "max": compiled.segments.maximum,
            "mean": compiled.segments.mean,
            "noisy-or": compiled.segments.noisy_or,
            "sum": compiled.segments.sum,
        }
        return pool[self.instance_pooling](values, offsets)

    @available_if(lambda self: hasattr(self, "score_instances"))
    def predict_instances(self, X: Any) -> NDArray[Any]:
        """Predict the class of each instance, from its own score.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``, aligned with ``bags.instances``.
        """
        scores = self.score_instances(X)
        return self._labels_of(scores)  # type: ignore[attr-defined]

    @available_if(lambda self: hasattr(self, "score_instances"))
    def key_instances(self, X: Any, label: Any = None) -> NDArray[np.int64]:
        """Find the instance that speaks most for a class in each bag.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        label : object, default=None
            The class; by default the class predicted for the bag. A model with one score for two
            classes has one key instance by default, the one with the highest score; with
            ``label=classes_[0]`` it is the one with the lowest.

        Returns
        -------
        ndarray of shape (n_bags,)
            The row of the key instance inside its bag, 0-based.
        """
        bags = self._check_bags(X)  # type: ignore[attr-defined]
        column = None if label is None else check_label(label, self.classes_)
        return over_partitions(partial(self._key_rows, column=column), bags)

    def _key_rows(self, bags: Bags, column: int | None) -> NDArray[np.int64]:
        scores = self.score_instances(bags)
        if scores.ndim == 1:
            return compiled.segments.argmax(-scores if column == 0 else scores, bags.offsets)
        rows = compiled.segments.argmax(scores, bags.offsets)
        if column is not None:
            return rows[:, column]
        predicted = _columns(self._pool(scores, bags.offsets))
        return np.take_along_axis(rows, predicted[:, None], axis=1)[:, 0]

"""Scores of any model for bags, and for selections of their instances."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.base._pipelines import label_kind, predicts_numbers
from bagwise.exceptions import InputError

BLOCK = 2**21  # values of instances per call of a model
MOST_BAGS = 20_000  # bags per call: kernel methods keep a row of values per bag
LARGEST = 1e100  # larger scores belong to a class that no training bag has, or every one

Selection = tuple[int, Bools]  # the number of a bag; masks of shape (n_selections, size of the bag)


def bag_scores(model: Any, bags: Bags | Sequence[Array]) -> Floats:
    """Score bags by ``decision_function``, ``predict_proba`` or, for a regressor, ``predict``.

    Parameters
    ----------
    model : object
        Any fitted model of bags.
    bags : Bags or list of ndarray
        The bags, in a format that the model accepts.

    Returns
    -------
    ndarray of shape (n_bags,) or (n_bags, n_classes)
        One score for two classes, for ``classes_[1]``; else one per class. Infinite scores,
        such as for a class that no training bag has, become 0.
    """
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(bags), dtype=np.float64)
    elif hasattr(model, "predict_proba"):
        scores = _probabilities(model, bags)
    elif predicts_numbers(model):
        scores = np.asarray(model.predict(bags), dtype=np.float64)
    else:
        raise InputError(
            f"{type(model).__name__} has neither decision_function nor predict_proba: give a "
            "fitted classifier or regressor of bags."
        )
    n_columns, classes = scores[:1].size, getattr(model, "classes_", None)
    too_many = n_columns > 2 and classes is not None and n_columns != len(classes)
    if scores.ndim > 2 or scores.shape[:1] != (len(bags),) or too_many:
        raise InputError(
            f"{type(model).__name__} gave scores of shape {scores.shape} for {len(bags)} bags: "
            "expected one per bag, or per bag and class (decision_function_shape='ovr')."
        )
    if np.isnan(scores).any():
        raise InputError(f"{type(model).__name__} gave NaN as the score of a bag.")
    return without_constants(scores)


def _probabilities(model: Any, bags: Bags | Sequence[Array]) -> Floats:
    found = model.predict_proba(bags)
    if isinstance(found, list):  # scikit-learn's forests on label sets: two columns per label
        # The last column is for 1, or for 0 if no training bag has the label.
        carried = [labels[-1] > 0 for labels in model.classes_]
        columns = [part[:, -1] * is_one for part, is_one in zip(found, carried, strict=True)]
        return np.column_stack(columns).astype(np.float64)
    values = np.asarray(found, dtype=np.float64)
    two_classes = values.ndim == 2 and values.shape[1] == 2 and label_kind(model) == "single"
    return values[:, 1] if two_classes else values


def without_constants(scores: Floats) -> Floats:
    """Replace scores that are infinite, or stand for infinity, by 0."""
    return np.where(np.abs(scores) < LARGEST, scores, 0.0)


def undecided_score(model: Any, n_classes: int) -> float:
    """Score at the boundary between classes: 0, or 1 / n_classes for probabilities.

    0 for a regressor; 0.5 for probabilities of label sets, where a label is present or absent.

    Parameters
    ----------
    model : object
        Any fitted model of bags.
    n_classes : int
        Number of columns of its scores; 1 for two classes.

    Returns
    -------
    float
    """
    if hasattr(model, "decision_function") or predicts_numbers(model):
        return 0.0
    return 0.5 if label_kind(model) == "sets" else 1.0 / max(n_classes, 2)


def selection_scores(model: Any, bags: Bags, selections: Iterable[Selection]) -> Floats:
    """Score selections of the instances of bags, many selections in one call.

    Parameters
    ----------
    model : object
        Any fitted model of bags.
    bags : Bags
        The bags.
    selections : iterable of (int, ndarray of bool of shape (n_selections, size of the bag))
        The number of a bag, and masks of the instances that are kept, at least one in each row.
        `in_parts` divides masks with too many rows.

    Returns
    -------
    ndarray of shape (n_selections,) or (n_selections, n_classes)
        Scores of all selections, in their order.
    """
    most_rows = max(1, BLOCK // bags.n_features)
    found: list[Floats] = []
    rows: list[Ints] = []
    sizes: list[Ints] = []

    def score() -> None:
        if rows:
            instances = bags.instances[np.concatenate(rows)]
            offsets = offsets_of(np.concatenate(sizes))
            some = Bags(instances, offsets, feature_names=bags.feature_names)
            found.append(bag_scores(model, some))
            rows.clear()
            sizes.clear()

    n_rows = n_bags = 0
    for bag, masks in selections:
        if n_rows + masks.sum() > most_rows or n_bags + len(masks) > MOST_BAGS:
            score()
            n_rows = n_bags = 0
        members = np.nonzero(masks)[1] + bags.offsets[bag]
        rows.append(members)
        sizes.append(masks.sum(axis=1))
        n_rows, n_bags = n_rows + len(members), n_bags + len(masks)
    score()
    return np.concatenate(found)


def in_parts(n_selections: int, size: int, n_features: int) -> Iterator[slice]:
    """Divide the selections from one bag such that the rows of a part fit into one call.

    Parameters
    ----------
    n_selections : int
        Number of selections.
    size : int
        Number of instances of the bag.
    n_features : int
        Number of features of an instance.

    Returns
    -------
    iterator of slice
    """
    step = min(MOST_BAGS, max(1, BLOCK // (size * n_features)))
    return (slice(k, min(k + step, n_selections)) for k in range(0, n_selections, step))

"""Cross-validation folds: shuffled, stratified by label, without splitting groups."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import check_random_state

from bagwise._common.types import Array, Ints
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags
from bagwise.compute import is_here
from bagwise.exceptions import DataWarning, InputError, LabelError
from bagwise.validation import check_bags, check_groups, check_label_sets, check_numbers

Fold = tuple[Ints, Ints]  # positions of training bags, of test bags
Splitter = int | Iterable[Any] | Any
Seed = int | np.random.RandomState | None


class Prepared(NamedTuple):
    """Checked input of a cross-validation.

    Attributes
    ----------
    bags : Bags
        The bags.
    y : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Labels, label sets as zeros and ones, or numbers.
    folds : list of (train, test)
        Positions of bags.
    groups : ndarray of shape (n_bags,) or None
        The group of each bag.
    classes : ndarray of shape (n_classes,) or None
        The sorted labels, or the labels of the columns of label sets; None if these are the column
        numbers, and for numbers.
    """

    bags: Bags
    y: Array
    folds: list[Fold]
    groups: Array | None
    classes: Array | None


def make_folds(
    y: Array,
    *,
    n_folds: int,
    n_repeats: int = 1,
    seed: int = 0,
    groups: Array | None = None,
    numbers: bool = False,
) -> list[Fold]:
    """Draw shuffled folds, stratified by label, that do not split groups.

    Label sets and numbers are not stratified.

    Parameters
    ----------
    y : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Labels or label sets.
    n_folds, n_repeats : int
        Number of folds, and of repetitions.
    seed : int, default=0
        Seed of the first draw.
    groups : ndarray of shape (n_bags,), default=None
        The group of each bag.
    numbers : bool, default=False
        Whether y is a number per bag instead of a label.

    Returns
    -------
    list of (train, test)
        Positions of bags, one pair per fold and repeat.
    """
    labels = None if numbers or y.ndim == 2 else y
    if labels is not None:
        _check_counts(labels, n_folds)
    unit, n_units = ("bag", len(y)) if groups is None else ("group", len(np.unique(groups)))
    if not 2 <= n_folds <= n_units:
        raise InputError(
            f"{n_folds} folds of {n_units} {unit}(s): expected at least 2 folds, and at most as "
            f"many as there are {unit}s."
        )
    if groups is None:
        kind = KFold if labels is None else StratifiedKFold
    else:
        kind = GroupKFold if labels is None else StratifiedGroupKFold
    folds: list[Fold] = []
    for repeat in range(n_repeats):
        splitter = kind(n_folds, shuffle=True, random_state=seed + repeat)
        folds += splitter.split(np.zeros(len(y)), labels, groups)
    if groups is not None:
        _check_parts(labels, folds)
    return folds


def prepare(
    X: Any,
    y: ArrayLike,
    cv: Splitter,
    groups: ArrayLike | None,
    *,
    repeats: int = 1,
    random_state: Seed = 0,
    numbers: bool = False,
) -> Prepared:
    """Check bags, labels and groups, and draw the folds.

    `cv` may also be a splitter or a list of folds. `numbers` tells whether y is a number per bag.
    """
    elsewhere = isinstance(X, Bags) and not is_here(X)  # the model checks whether it supports them
    bags = X if elsewhere else check_bags(None, X, reset=True, allow_nan=True, accept_sparse=True)
    targets, classes = (check_numbers(y, bags), None) if numbers else _targets(y, bags)
    together = None if groups is None else check_groups(groups, bags)
    cv = 5 if cv is None else cv
    if isinstance(cv, Integral):
        seed: Any = random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        drawn = {"n_folds": int(cv), "n_repeats": repeats, "seed": seed, "numbers": numbers}
        folds = make_folds(targets, groups=together, **drawn)
        return Prepared(bags, targets, folds, together, classes)
    if repeats != 1:
        raise InputError(
            f"repeats is {repeats}, and cv gives the folds: use a number of folds as cv, or a "
            "splitter that repeats, such as RepeatedStratifiedKFold."
        )
    splitter = check_cv(cv, targets, classifier=not numbers)
    folds = list(splitter.split(np.zeros(len(targets)), targets, together))
    return Prepared(bags, targets, folds, together, classes)


def _targets(y: Any, bags: Bags) -> tuple[Array, Array | None]:
    """Labels, or label sets as zeros and ones, and their classes (see `Prepared`)."""
    labels = check_label_sets(y, bags)
    if not labels.has_sets:
        return labels.values, labels.classes
    numbered = labels.classes.tolist() == list(range(len(labels.classes)))
    return labels.indicator.astype(int), None if numbered else labels.classes


def _check_counts(labels: Array, n_folds: int) -> None:
    """Refuse a label that would be missing in a fold."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise LabelError(f"all bags have the label {labels[0]!s}: there is nothing to learn.")
    if counts.min() < n_folds:
        raise LabelError(
            f"the label {classes[counts.argmin()]!s} has {counts.min()} bag(s) for {n_folds} "
            "folds: each fold needs one. Use fewer folds, or leave these bags out."
        )


def _check_parts(labels: Array | None, folds: list[Fold]) -> None:
    """Refuse folds from which nothing can be learned; warn of labels that a training part lacks."""
    if not all(len(train) and len(test) for train, test in folds):
        raise InputError("the groups leave a fold without bags: use fewer folds.")
    if labels is None:
        return
    unseen = [np.setdiff1d(labels[test], labels[train]) for train, test in folds]
    lacking = np.unique(np.concatenate(unseen))
    text = (
        "all bags with the label {} are in groups of one fold: a model cannot learn it from the "
        "others. Use smaller groups (not groups equal to the labels), or leave these bags out."
    )
    groups_are_labels = all(
        np.isin(labels[test], labels[train], invert=True).all() for train, test in folds
    )
    if groups_are_labels or any(len(np.unique(labels[train])) < 2 for train, _ in folds):
        raise LabelError(text.format(lacking[0]))
    for label in lacking:
        warn_user(text.format(label), DataWarning)

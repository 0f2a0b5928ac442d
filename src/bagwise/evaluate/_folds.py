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
    if numbers:
        y = y[:, None]
    _check_folds(y, n_folds, groups)
    stratified = y.ndim == 1
    if groups is not None:
        kind = StratifiedGroupKFold if stratified else GroupKFold
    else:
        kind = StratifiedKFold if stratified else KFold
    folds = [
        fold
        for repeat in range(n_repeats)
        for fold in kind(n_folds, shuffle=True, random_state=seed + repeat).split(
            np.zeros(len(y)), y if stratified else None, groups
        )
    ]
    if groups is not None:
        _check_parts(y, folds)
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
        seed = random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        folds = make_folds(
            targets, n_folds=int(cv), n_repeats=repeats, seed=seed, groups=together, numbers=numbers
        )
        return Prepared(bags, targets, folds, together, classes)
    if repeats != 1:
        raise InputError(
            f"repeats={repeats} repeats the folds, but cv gives them: use a number of folds as "
            "cv, or a splitter that repeats, such as RepeatedStratifiedKFold."
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


def _check_folds(y: Array, n_folds: int, groups: Array | None) -> None:
    kind = "bag" if groups is None else "group"
    n_units = len(y) if groups is None else len(np.unique(groups))
    if n_units == 1:
        raise InputError(f"there is only 1 {kind}: folds need at least 2 {kind}s.")
    if n_folds < 2:
        asked = "1 fold was" if n_folds == 1 else f"{n_folds} folds were"
        raise InputError(f"{asked} requested: at least 2 are needed.")
    if y.ndim == 1:
        classes, counts = np.unique(y, return_counts=True)
        if len(classes) < 2:
            (only,) = classes.tolist()
            raise LabelError(f"all bags have the label {only!r}: there is nothing to learn.")
        if counts.min() < n_folds:
            rare, n_bags = classes[counts.argmin()], counts.min()
            has, remedy = f"{n_bags} bags", f"Use at most {n_bags} folds, or leave these bags out."
            if n_bags == 1:
                has, remedy = "1 bag", "Leave this bag out, or add bags with this label."
            raise LabelError(
                f"the label {rare!s} has {has} for {n_folds} folds: each fold needs one. {remedy}"
            )
        if groups is not None:
            _check_groups(y, groups)
    if n_units < n_folds:
        raise InputError(f"there are {n_units} {kind}s for {n_folds} folds: use fewer folds.")


def _check_groups(y: Array, groups: Array) -> None:
    """Refuse groups equal to the labels; refuse, or warn about, a label that is in one group."""
    names, member = np.unique(groups, return_inverse=True)
    classes, code = np.unique(y, return_inverse=True)
    pairs = np.unique(np.column_stack([code, member]), axis=0)
    homes = np.bincount(pairs[:, 0])  # number of groups of each label
    if len(pairs) == len(names) == len(classes) > 1:
        raise InputError(
            "the groups are the labels: each label is in one group, and each group has one label. "
            "A model cannot learn a label whose group is held out; group by what bags have in "
            "common, such as a patient."
        )
    if homes.min() == 1 and len(names) > 1:
        label = homes.argmin()
        (home,) = pairs[pairs[:, 0] == label, 1]
        message = (
            f"all bags with the label {classes[label]!s} are in the group {names[home]!s}: a model "
            "cannot learn the label while this group is held out. Leave these bags out, or use "
            "smaller groups."
        )
        if len(classes) == 2:
            raise LabelError(message)
        warn_user(message, DataWarning)


def _check_parts(y: Array, folds: list[Fold]) -> None:
    """Refuse folds with an empty part, or with a single label in the training part."""
    for train, test in folds:
        if not len(test) or not len(train):
            raise InputError("the groups leave a fold without bags: use fewer folds.")
        if y.ndim == 1 and len(np.unique(y[train])) < 2:
            raise LabelError(
                f"without the groups of one fold, all bags have the label {y[train][0]!s}: use "
                "fewer folds, another seed, or smaller groups."
            )

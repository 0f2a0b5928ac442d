"""Cross-validation of models of bags, and its folds: shuffled, stratified, groups kept whole."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn import model_selection
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.base._pipelines import grade_order, groups_for, predicts_numbers
from bagwise.compute import is_here
from bagwise.evaluate._comparison import Comparison, Evaluation
from bagwise.evaluate._held_out_bags import HeldOutBags
from bagwise.evaluate._kept_folds import KeptFolds
from bagwise.evaluate._measures import as_sets, check_scoring, kind_of, measures_of, scores_of
from bagwise.exceptions import DataWarning, InputError, LabelError, counted, warn_user
from bagwise.loops.threads import one_core_if_few
from bagwise.validation import are_times, check_bags, check_groups, check_label_sets, check_targets
from bagwise.validation.leaks import warn_of_leaks

Fold = tuple[Ints, Ints]  # positions of training bags, of test bags
Splitter = int | Iterable[Any] | Any
Seed = int | np.random.RandomState | None
Judge = Callable[[Any, Bags, Array], Any]  # of a fitted model, its test bags and their labels


class Prepared(NamedTuple):
    """Checked input of a cross-validation.

    Attributes
    ----------
    bags : Bags
        The bags.
    y : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Labels, label sets as zeros and ones (-1: unknown), counts, numbers, or intervals.
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

    Label sets and numbers are not stratified; times to an event by whether it was observed.

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
        Whether y is a numeric target instead of a label.

    Returns
    -------
    list of (train, test)
        Positions of bags, one pair per fold and repeat.
    """
    labels = None if numbers or y.ndim == 2 else y
    if labels is not None:
        _check_counts(labels, n_folds)
    elif are_times(y) and groups is None and min(y["event"].sum(), (~y["event"]).sum()) >= n_folds:
        labels = y["event"]  # each fold has events, and censored bags
    unit, n_units = ("bag", len(y)) if groups is None else ("group", len(np.unique(groups)))
    if not 2 <= n_folds <= n_units:
        raise InputError(
            f"{n_folds} folds of {counted(n_units, unit)}: expected at least 2, and at most as "
            f"many as there are {unit}s: set cv= (--folds)."
        )
    kinds = model_selection.KFold, model_selection.StratifiedKFold
    if groups is not None:
        kinds = model_selection.GroupKFold, model_selection.StratifiedGroupKFold
    kind = kinds[labels is not None]
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

    `cv` may also be a splitter or a list of folds. `numbers` is whether y is a numeric target.
    """
    elsewhere = isinstance(X, Bags) and not is_here(X)  # the model checks whether it supports them
    bags = X if elsewhere else check_bags(None, X, reset=True, allow_nan=True, accept_sparse=True)
    targets, classes = (check_targets(y, bags), None) if numbers else _targets(y, bags)
    bags = check_groups(groups, bags)  # models take them from the bags
    together = bags.groups
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
            f"repeats is {repeats}, and cv gives the folds: use a number of folds as cv."
        )
    splitter = model_selection.check_cv(cv, targets, classifier=not numbers)
    folds = list(splitter.split(np.zeros(len(targets)), targets, together))
    return Prepared(bags, targets, folds, together, classes)


def _targets(y: Any, bags: Bags) -> tuple[Array, Array | None]:
    """Labels, or label sets as zeros and ones, and their classes (see `Prepared`)."""
    labels = check_label_sets(y, bags, known="counts")
    if not labels.has_sets:
        return labels.values, labels.classes
    numbered = labels.classes.tolist() == list(range(len(labels.classes)))
    values = labels.values if labels.kind == "counts" else labels.indicator.astype(int)
    return values, None if numbered else labels.classes


def _check_counts(labels: Array, n_folds: int) -> None:
    """Refuse a label that would be missing in a fold."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise LabelError(f"all bags have the label {labels[0]!s}: there is nothing to learn.")
    if counts.min() < n_folds:
        raise LabelError(
            f"the label {classes[counts.argmin()]!s} has {counted(counts.min(), 'bag')} for "
            f"{n_folds} folds: each fold needs one. Use fewer folds, or leave these bags out."
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


def evaluate(model: Any, X: Any, y: ArrayLike, **settings: Any) -> Evaluation:
    """Evaluate a model by cross-validation.

    Parameters
    ----------
    model : estimator
        A classifier or a regressor of bags, alone or in a pipeline; it is cloned.
    X : Bags or anything accepted as bags
        The bags.
    y : array-like of shape (n_bags,) or (n_bags, n_classes), or list of sets
        Labels, label sets (-1 for a label that is unknown: only what is known is scored) or
        `LabelCounts`; for a regressor numbers, or a matrix with a column for each of
        several numbers; for `CensoredBagRegressor` also intervals; for a survival model times.
    **settings : object
        `cv`, `repeats`, `groups`, `scoring`, `random_state` and `n_jobs`, as for `compare`.

    Returns
    -------
    Evaluation
        ``scores``, a dict with the scores of each measure, one per fold, NaN if undefined;
        ``mean(measure)`` and ``std(measure)`` over the folds; ``seconds``, the time of each fold.

    See Also
    --------
    compare : Evaluate several models on the same folds.

    Notes
    -----
    Measures for labels are accuracy, balanced accuracy and AUC (for several classes the mean of
    each against all others); for label sets one-error, coverage and average precision; for numbers
    R2, MAE (mean absolute error) and Spearman (rank correlation), for several numbers also of each
    of them. If a model is an `OrdinalBagClassifier`, labels are grades: quadratic kappa, MAE (in
    grades) and within one, the share of bags with an error of at most one grade. For intervals: C
    index, the share of pairs of bags with disjoint intervals in the right order, the
    log-likelihood (for normal errors), MAE of the exact numbers, and within bounds, the share of
    the others whose prediction is possible. For times to an event: C index (Harrell's), Uno's C,
    which does not depend on censoring, and the integrated Brier score of the survival functions
    (see `bagwise.metrics`). Models with ``predict_proba`` also have the log loss, for label sets
    the mean over all labels. Log loss, one-error, coverage and MAE are better when lower.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.evaluate import evaluate
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> result = evaluate(SingleInstanceClassifier(), data.bags, data.y, cv=4)
    >>> sorted(result.scores), len(result.scores["accuracy"])
    (['AUC', 'accuracy', 'balanced accuracy'], 4)
    """
    (found,) = compare({type(model).__name__: model}, X, y, **settings)
    return found


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    cv: Splitter = 5,
    repeats: int = 1,
    groups: ArrayLike | None = None,
    scoring: str | Iterable[str] | None = None,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    after_fold: Callable[[], None] = lambda: None,
    resume: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Evaluate several models by cross-validation on the same folds.

    Parameters
    ----------
    models : mapping of str to estimator
        The models by their names; they are cloned.
    X, y
        As for `evaluate`.
    cv : int, splitter or iterable of (train, test), default=5
        A number of folds, which are shuffled and, for labels, stratified; None for 5; or folds as
        in scikit-learn.
    repeats : int, default=1
        Number of repetitions, with new folds.
    groups : array-like of shape (n_bags,), default=None
        Bags of one group stay in one fold: the slides of a patient. By default the groups of the
        bags (`Bags.groups`). The folds inside a model do not divide them either.
    scoring : str or iterable of str, default=None
        Names of measures of bagwise (see `evaluate`), or of scorers of scikit-learn, such as
        ``["AUC", "f1_macro"]``. By default all measures of bagwise.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds.
    n_jobs : int, default=None
        Number of folds computed at the same time, as in scikit-learn.
    after_fold : callable, default: does nothing
        Called after each model has been scored on a fold, e.g. to show progress.
    resume : path, default=None
        A folder in which finished folds are kept: the same call, after an interruption, continues
        with the others. They are removed at the end.

    Warns
    -----
    DataWarning
        About leaks between training and test bags, as `find_leaks` finds them.

    Returns
    -------
    Comparison
        A sequence of the evaluations (see `evaluate`) in the order of `models`. ``table()`` has a
        row per model; ``differences(measure, reference=, rope=, confidence=)`` compares each model
        with the reference, by default the first, by `corrected_t_test`.

    See Also
    --------
    ranks : Compare models over several data sets.

    Examples
    --------
    >>> from bagwise.classification import CitationKNN, SetKernelSVM
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.evaluate import compare
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> models = {"nsk": SetKernelSVM(), "citation-knn": CitationKNN()}
    >>> comparison = compare(models, data.bags, data.y, cv=4, repeats=2)
    >>> comparison.table()["method"]
    ['nsk', 'citation-knn']
    >>> (difference,) = comparison.differences("accuracy")
    >>> difference.n_folds
    8
    """
    if not isinstance(models, Mapping) or not models:
        raise InputError(f"models is {models!r}: expected a dict of models by name.")
    are_regressors = {predicts_numbers(model) for model in models.values()}
    if len(are_regressors) > 1:
        raise InputError("some models are regressors: compare models that predict the same.")
    (numbers,) = are_regressors
    drawn: Any = {"repeats": repeats, "random_state": random_state, "numbers": numbers}
    prepared = prepare(X, y, cv, groups, **drawn)
    warn_of_leaks(prepared.bags, prepared.y, prepared.folds)
    classes: Any = None if numbers else np.unique(as_sets(prepared.y))
    orders = [grade_order(model, classes) for model in models.values()] if not numbers else []
    order = next((order for order in orders if order is not None), None)
    kind = kind_of(prepared.y, numbers=numbers, grades=order is not None)
    wanted = check_scoring(scoring, kind)
    several = numbers and prepared.y.ndim == 2
    names = list(getattr(y, "columns", range(prepared.y.shape[1]))) if several else []
    how: Any = {"classes": classes, "order": order, "targets": names}
    how["whole"] = prepared.y if kind == "times" else None
    judge = partial(scores_of, scoring=wanted, **how)
    kept = None if resume is None else KeptFolds(Path(resume), models, prepared, (wanted, how))
    told: Any = {"n_jobs": n_jobs, "after_fold": after_fold, "kept": kept}
    judged = cross_validate(models, prepared, judge, **told)
    if kept is not None:
        kept.clear()
    measure = partial(measures_of, kind=kind, **how)
    found = []
    for name, folds in zip(models, judged, strict=True):
        parts, seconds = zip(*folds, strict=True)
        measures = {m: [scores[m] for scores, _ in parts] for m in parts[0][0]}
        held_out = _held_out(prepared, [predicted for _, predicted in parts], kind, measure, how)
        found.append(Evaluation(name, measures, list(seconds), held_out))
    ratio = float(np.mean([len(test) / len(train) for train, test in prepared.folds]))
    return Comparison(found, ratio)


def _held_out(
    prepared: Prepared, parts: list[dict[str, Array]], kind: str, measure: Any, how: dict[str, Any]
) -> HeldOutBags:
    """Collect the predictions of the folds, a row per bag and repeat."""
    bags, y, folds, groups, classes = prepared
    rows = np.concatenate([test for _, test in folds])
    repeat, seen = np.empty(len(rows), dtype=np.int64), np.zeros(len(bags), dtype=np.int64)
    fold = np.repeat(np.arange(len(folds)), [len(test) for _, test in folds])
    for k, (_, test) in enumerate(folds):
        repeat[fold == k] = seen[test]
        seen[test] += 1
    if kind == "label sets":
        classes = np.arange(y.shape[1]) if classes is None else classes
    elif kind in ("labels", "grades"):
        classes = how["classes"]
    found = {m: np.concatenate([part[m] for part in parts]) for m in parts[0]}
    about = (as_sets(y)[rows], bags.names[rows], None if groups is None else groups[rows])
    names = how["order"] if kind == "grades" else how["targets"]
    return HeldOutBags(found, *about, rows, fold, repeat, classes, kind, measure, names or None)


def cross_validate(
    models: Mapping[str, Any],
    prepared: Prepared,
    judge: Judge,
    *,
    n_jobs: int | None = None,
    after_fold: Callable[[], None] = lambda: None,
    kept: KeptFolds | None = None,
) -> list[list[tuple[Any, float]]]:
    """Fit every model on every fold, and judge it on the test part.

    All models on the first fold come first, so that the time of the others can be estimated.
    `after_fold` is called in this process. Returns the judgements and the seconds, fold by fold,
    for each model; those that were `kept` are not computed again.
    """
    folds = prepared.folds
    cells = [(name, k) for k in range(len(folds)) for name in models]
    found: dict[Any, Any] = {} if kept is None else {cell: kept.read(*cell) for cell in cells}
    left = [cell for cell in cells if found.get(cell) is None]
    jobs = (delayed(_fit_and_judge)(clone(models[n]), prepared, folds[k], judge) for n, k in left)
    if kept is not None and len(left) < len(cells):
        n_kept = f"{len(cells) - len(left)} of {len(cells)}"
        warn_user(
            f"{n_kept} fits are of an interrupted evaluation: to repeat them, delete {kept.folder}."
        )
    for _ in range(len(cells) - len(left)):
        after_fold()
    done = Parallel(n_jobs=n_jobs, return_as="generator")(jobs)
    for cell, judged in zip(left, done, strict=True):
        found[cell] = judged
        if kept is not None:
            kept.write(*cell, judged)
        after_fold()
    return [[found[name, k] for k in range(len(folds))] for name in models]


def _fit_and_judge(model: Any, prepared: Prepared, fold: Fold, judge: Judge) -> tuple[Any, float]:
    bags, y, (train, test) = prepared.bags, prepared.y, fold
    start = time.perf_counter()
    seen = bags[train]
    with one_core_if_few(bags.n_instances * bags.n_features):
        model.fit(seen, y[train], **groups_for(model, seen))
        return judge(model, bags[test], y[test]), time.perf_counter() - start

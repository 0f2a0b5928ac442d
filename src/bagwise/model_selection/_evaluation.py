"""Cross-validation of models of bags, and their predictions for held-out bags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
    cross_validate,
)

from bagwise._types import Array, Bools, Ints
from bagwise._validation import check_bags, check_length
from bagwise.exceptions import InputError, LabelError
from bagwise.model_selection._measures import model_measures

Fold = tuple[Ints, Ints]  # positions of training bags, of test bags
Splitter = int | Iterable[Any] | Any


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model, fold by fold.

    Attributes
    ----------
    name : str
        The model.
    scores : dict of str to list of float
        The scores of each measure, one per fold; NaN where a fold leaves the measure undefined.
        Labels: accuracy, balanced accuracy and, for two classes, AUC. Label sets: one-error,
        coverage (both better when lower) and average precision.
    seconds : list of float
        The time to fit and to score, one per fold.
    """

    name: str
    scores: Mapping[str, list[float]]
    seconds: list[float]

    def mean(self, measure: str) -> float | None:
        """The mean of a measure over the folds; None where no fold defines it."""
        return self._over_folds(np.mean, measure)

    def std(self, measure: str) -> float | None:
        """The standard deviation of a measure over the folds; None where no fold defines it."""
        return self._over_folds(np.std, measure)

    def summary(self) -> dict[str, Any]:
        """The evaluation as plain values, e.g. for JSON; None where a score is undefined."""
        measures = {
            measure: {
                "mean": self.mean(measure),
                "sd": self.std(measure),
                "folds": [None if np.isnan(value) else value for value in values],
            }
            for measure, values in self.scores.items()
        }
        return {"name": self.name, **measures, "seconds": float(np.sum(self.seconds))}

    def _over_folds(self, statistic: Callable[..., Any], measure: str) -> float | None:
        known = [value for value in self.scores[measure] if not np.isnan(value)]
        return float(statistic(known)) if known else None


@dataclass(frozen=True)
class HeldOut:
    """Predictions for bags by models that were fitted without them.

    Parameters
    ----------
    predicted : ndarray of shape (n_bags,) or (n_bags, n_classes)
        What ``predict`` gave for each bag.
    scores : ndarray of shape (n_bags,) or (n_bags, n_classes), default=None
        What ``decision_function`` gave; minus infinity for a class that was not in the training
        part. Such a class has no AUC: it was never ranked.
    probabilities : ndarray of shape (n_bags, n_classes), default=None
        What ``predict_proba`` gave; 0 for a class that was not in the training part.
    how : str, default="held out"
        How the bags were held out, such as ``"5-fold cross-validation"``.
    baselines : mapping of str to HeldOut, default={}
        The predictions of other models for the same bags.
    classes : array-like of shape (n_classes,), default=None
        The labels of the columns; a single column of scores is that of the last. By default the
        classes of the model that is reported on, in its order.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.model_selection import HeldOut
    >>> HeldOut(np.array(["yes", "no"]), how="5-fold cross-validation").how
    '5-fold cross-validation'
    """

    predicted: Array
    scores: Array | None = None
    probabilities: Array | None = None
    how: str = "held out"
    baselines: Mapping[str, HeldOut] = field(default_factory=dict)
    classes: ArrayLike | None = None

    def expand(self, labelled: Bools) -> HeldOut:
        """Place the predictions for the labelled bags among all bags; the others have none.

        Parameters
        ----------
        labelled : ndarray of bool of shape (n_bags,)
            Which bags have predictions.

        Returns
        -------
        HeldOut
        """

        def expanded(values: Any, fill: Any, dtype: Any) -> Any:
            if values is None:
                return None
            whole = np.full((len(labelled), *values.shape[1:]), fill, dtype=dtype)
            whole[labelled] = values
            return whole

        sets = self.predicted.ndim == 2
        return replace(
            self,
            predicted=expanded(self.predicted, -1 if sets else None, np.int64 if sets else object),
            scores=expanded(self.scores, 0, np.float64),
            probabilities=expanded(self.probabilities, 0, np.float64),
        )


def evaluate(
    model: Any, X: Any, y: ArrayLike, *, cv: Splitter = 5, groups: ArrayLike | None = None
) -> Evaluation:
    """Evaluate a model by cross-validation.

    Parameters
    ----------
    model : estimator
        A classifier of bags, alone or in a pipeline; it is cloned.
    X : Bags or anything accepted as bags
        The bags.
    y : array-like of shape (n_bags,) or (n_bags, n_classes)
        Labels, or label sets as zeros and ones.
    cv : int, splitter or iterable of (train, test), default=5
        A number of folds, which are shuffled and, for labels, stratified; or folds as in
        scikit-learn.
    groups : array-like of shape (n_bags,), default=None
        Bags of one group stay in one fold: the slides of a patient.

    Returns
    -------
    Evaluation

    See Also
    --------
    compare : Evaluate several models on the same folds.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.model_selection import evaluate
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> result = evaluate(SingleInstanceClassifier(), data.bags, data.y, cv=4)
    >>> sorted(result.scores), len(result.scores["accuracy"])
    (['AUC', 'accuracy', 'balanced accuracy'], 4)
    """
    name = type(model).__name__
    return compare({name: model}, X, y, cv=cv, groups=groups)[0]


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    cv: Splitter = 5,
    groups: ArrayLike | None = None,
    after_fold: Callable[[], None] = lambda: None,
) -> list[Evaluation]:
    """Evaluate several models by cross-validation on the same folds.

    Parameters
    ----------
    models : mapping of str to estimator
        The models by their names; they are cloned.
    X, y, cv, groups
        As for `evaluate`.
    after_fold : callable, default: does nothing
        Called after each model has been scored on a fold, e.g. to show progress.

    Returns
    -------
    list of Evaluation
        In the order of `models`.
    """
    bags, labels, folds = _prepared(X, y, cv, groups)
    n_classes = len(np.unique(labels))

    def measured(model: Any, part: Any, part_labels: Array) -> dict[str, float]:
        measures = model_measures(model, part, part_labels, n_classes=n_classes)
        after_fold()
        return measures

    evaluations = []
    for name, model in models.items():
        result = cross_validate(
            model, bags, labels, cv=folds, scoring=measured, error_score="raise"
        )
        scores = {
            key.removeprefix("test_"): values.tolist()
            for key, values in result.items()
            if key.startswith("test_")
        }
        seconds = (result["fit_time"] + result["score_time"]).tolist()
        evaluations.append(Evaluation(name, scores, seconds))
    return evaluations


def held_out_predictions(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    cv: Splitter = 5,
    groups: ArrayLike | None = None,
    after_fold: Callable[[], None] = lambda: None,
) -> HeldOut:
    """Predict each bag by a model that was fitted without its fold.

    scikit-learn's ``cross_val_predict`` fits all folds once per method; here each fold is fitted
    once for ``predict``, ``decision_function`` and ``predict_proba`` together.

    Parameters
    ----------
    model : estimator
        A classifier of bags; it is cloned.
    X, y, cv, groups
        As for `evaluate`; each bag must be in one test part.
    after_fold : callable, default: does nothing
        Called after each fit.

    Returns
    -------
    HeldOut
        Its classes are the sorted labels; None for label sets, whose columns are those of `y`.
    """
    bags, labels, folds = _prepared(X, y, cv, groups)
    classes = np.unique(labels) if labels.ndim == 1 else None
    parts: dict[str, list[Array]] = {}
    unseen = {"predict": None, "decision_function": -np.inf, "predict_proba": 0.0}
    for train, test in folds:
        fitted = clone(model).fit(bags[train], labels[train])
        for method, fill in unseen.items():
            if hasattr(fitted, method):
                values = np.asarray(getattr(fitted, method)(bags[test]))
                if fill is not None and classes is not None:
                    values = _by_class(values, fitted.classes_, classes, fill)
                parts.setdefault(method, []).append(values)
        after_fold()
    tested = np.concatenate([test for _, test in folds])
    if not np.array_equal(np.sort(tested), np.arange(len(bags))):
        raise InputError("each bag has to be in one test part: give folds that divide the bags.")
    order = np.argsort(tested)
    found = {method: np.concatenate(values)[order] for method, values in parts.items()}
    scores, proba = found.get("decision_function"), found.get("predict_proba")
    predicted = found.get("predict")
    if predicted is None:  # a model of label sets that only scores labels
        ranked, threshold = (scores, 0.0) if scores is not None else (proba, 0.5)
        assert ranked is not None
        predicted = (ranked > threshold).astype(int)
    how = f"{len(folds)}-fold cross-validation{'' if groups is None else ', groups whole'}"
    return HeldOut(predicted, scores, proba, how, classes=classes)


def _by_class(values: Array, own: Array, classes: Array, fill: float) -> Array:
    """The columns of a model in those of all classes, where it has seen only some of them."""
    if len(own) == len(classes):
        return values
    if values.ndim == 1:  # two classes
        values = np.column_stack([-values, values])
    table = np.full((len(values), len(classes)), fill)
    table[:, np.searchsorted(classes, own)] = values
    return table


def evaluation_table(evaluations: list[Evaluation]) -> dict[str, list[str]]:
    """Make a table of evaluations: mean and standard deviation of each measure, and the time.

    Parameters
    ----------
    evaluations : list of Evaluation
        The result of `compare`.

    Returns
    -------
    dict of str to list of str
    """

    def cell(evaluation: Evaluation, measure: str) -> str:
        mean = evaluation.mean(measure)
        return "" if mean is None else f"{mean:.3f} ± {evaluation.std(measure):.3f}"

    table = {"method": [evaluation.name for evaluation in evaluations]}
    for measure in evaluations[0].scores:
        table[measure] = [cell(evaluation, measure) for evaluation in evaluations]
    table["time"] = [f"{sum(evaluation.seconds):.1f} s" for evaluation in evaluations]
    return table


def make_folds(
    y: Array, *, n_folds: int, n_repeats: int = 1, seed: int = 0, groups: Array | None = None
) -> list[Fold]:
    """Draw shuffled folds: stratified by label, and whole groups on one side.

    Label sets are not stratified.

    Parameters
    ----------
    y : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Labels or label sets.
    n_folds, n_repeats : int
        Number of folds, and how often they are drawn.
    seed : int, default=0
        Seed of the first draw.
    groups : ndarray of shape (n_bags,), default=None
        The group of each bag.

    Returns
    -------
    list of (train, test)
        Positions of bags, one pair per fold and repeat.
    """
    _check_folds(y, n_folds, groups)
    stratified = y.ndim == 1
    if groups is not None:
        kind = StratifiedGroupKFold if stratified else GroupKFold
    else:
        kind = StratifiedKFold if stratified else KFold
    return [
        fold
        for repeat in range(n_repeats)
        for fold in kind(n_folds, shuffle=True, random_state=seed + repeat).split(
            np.zeros(len(y)), y if stratified else None, groups
        )
    ]


def _prepared(
    X: Any, y: ArrayLike, cv: Splitter, groups: ArrayLike | None
) -> tuple[Any, Array, list[Fold]]:
    bags = check_bags(None, X, reset=True, allow_nan=True, accept_sparse=True)
    labels = check_length(np.asarray(y), bags)
    together = None if groups is None else np.asarray(groups)
    if isinstance(cv, int):
        return bags, labels, make_folds(labels, n_folds=cv, groups=together)
    splitter = check_cv(cv, labels, classifier=True)
    return bags, labels, list(splitter.split(np.zeros(len(labels)), labels, together))


def _check_folds(y: Array, n_folds: int, groups: Array | None) -> None:
    if n_folds < 2:
        raise InputError(f"{n_folds} folds were requested: at least 2 are needed.")
    if y.ndim == 1:
        classes, counts = np.unique(y, return_counts=True)
        if len(classes) < 2:
            raise LabelError(f"all bags have the label {classes[0]!r}: there is nothing to learn.")
        if counts.min() < n_folds:
            rare = classes[counts.argmin()]
            fewer = f"Use at most {counts.min()} folds, or leave" if counts.min() > 1 else "Leave"
            raise LabelError(
                f"the label {rare!s} has {counts.min()} bags for {n_folds} folds: each fold needs "
                f"one. {fewer} these bags out."
            )
    n_units = len(y) if groups is None else len(np.unique(groups))
    if n_units < n_folds:
        kind = "bags" if groups is None else "groups"
        raise InputError(f"there are {n_units} {kind} for {n_folds} folds: use fewer folds.")

"""Cross-validation of models of bags."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base._pipelines import fit_arguments, predicts_numbers
from bagwise.evaluate._folds import Fold, Prepared, Seed, Splitter, prepare
from bagwise.evaluate._measures import (
    MEASURES,
    check_scoring,
    did_you_mean,
    scores_of,
)
from bagwise.exceptions import InputError


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model, fold by fold.

    Attributes
    ----------
    name : str
        The model.
    scores : dict of str to list of float
        The scores of each measure, one per fold; NaN if the measure is undefined in a fold.
        Labels: accuracy, balanced accuracy, AUC (for several classes the mean of each against all
        others). Label sets: one-error, coverage and average precision. Numbers: R2, MAE (mean
        absolute error) and Spearman (rank correlation). Models with ``predict_proba`` also have the
        log loss, for label sets the mean over all labels. Log loss, one-error, coverage and MAE are
        better when lower. With `scoring`, the scores it names.
    seconds : list of float
        The time to fit and to score, one per fold.
    """

    name: str
    scores: Mapping[str, list[float]]
    seconds: list[float]

    def mean(self, measure: str) -> float | None:
        """The mean of a measure over the folds; None if the model lacks it in all folds."""
        return self._over_folds(np.mean, measure)

    def std(self, measure: str) -> float | None:
        """The standard deviation of a measure over the folds; None if the model lacks it."""
        return self._over_folds(np.std, measure)

    def summary(self) -> dict[str, Any]:
        """The evaluation as plain values, e.g. for JSON; None if a score is undefined."""
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
        if measure not in self.scores and measure not in MEASURES:
            raise InputError(
                f"Unknown measure {measure!r}.{did_you_mean(str(measure), self.scores)} Choose "
                f"from {', '.join(self.scores)}."
            )
        known = [value for value in self.scores.get(measure, ()) if not np.isnan(value)]
        return float(statistic(known)) if known else None


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    cv: Splitter = 5,
    repeats: int = 1,
    groups: ArrayLike | None = None,
    scoring: str | Iterable[str] | None = None,
    random_state: Seed = 0,
    n_jobs: int | None = None,
) -> Evaluation:
    """Evaluate a model by cross-validation.

    Parameters
    ----------
    model : estimator
        A classifier or a regressor of bags, alone or in a pipeline; it is cloned.
    X : Bags or anything accepted as bags
        The bags.
    y : array-like of shape (n_bags,) or (n_bags, n_classes), or list of sets
        Labels, or label sets; for a regressor, numbers.
    cv : int, splitter or iterable of (train, test), default=5
        A number of folds, which are shuffled and, for labels, stratified; None for 5; or folds as
        in scikit-learn.
    repeats : int, default=1
        Number of repetitions, with new folds.
    groups : array-like of shape (n_bags,), default=None
        Bags of one group stay in one fold: the slides of a patient. A model whose ``fit`` accepts
        `groups`, such as `AutoBagClassifier`, receives those of its training bags.
    scoring : str or iterable of str, default=None
        Names of measures of `Evaluation`, or of scorers of scikit-learn, such as
        ``["AUC", "f1_macro"]``. By default all measures of `Evaluation`.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds.
    n_jobs : int, default=None
        Number of folds computed at the same time, as in scikit-learn.

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
    >>> from bagwise.evaluate import evaluate
    >>> data = make_bags(n_bags=40, random_state=0)
    >>> result = evaluate(SingleInstanceClassifier(), data.bags, data.y, cv=4)
    >>> sorted(result.scores), len(result.scores["accuracy"])
    (['AUC', 'accuracy', 'balanced accuracy'], 4)
    """
    models = {type(model).__name__: model}
    numbers = predict_numbers(models)
    prepared = prepare(
        X, y, cv, groups, repeats=repeats, random_state=random_state, numbers=numbers
    )
    return evaluations(models, prepared, scoring=scoring, n_jobs=n_jobs)[0]


def cross_validate(
    models: Mapping[str, Any],
    prepared: Prepared,
    judge: Callable[[Any, Bags, Array], Any],
    *,
    n_jobs: int | None = None,
    after_fold: Callable[[], None] = lambda: None,
) -> list[list[tuple[Any, float]]]:
    """Fit every model on every fold, and judge it on the test part.

    `judge` takes a fitted model, its test bags and their labels; `after_fold` is called in this
    process. Returns the judgements and the seconds, fold by fold, for each model.
    """
    jobs = (
        delayed(_fit_and_judge)(clone(model), prepared, fold, judge)
        for model in models.values()
        for fold in prepared.folds
    )
    found = []
    for judged in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        found.append(judged)
        after_fold()
    n_folds = len(prepared.folds)
    return [found[start : start + n_folds] for start in range(0, len(found), n_folds)]


def evaluations(
    models: Mapping[str, Any],
    prepared: Prepared,
    *,
    scoring: str | Iterable[str] | None = None,
    n_jobs: int | None = None,
    after_fold: Callable[[], None] = lambda: None,
) -> list[Evaluation]:
    """Evaluate every model on the same folds."""
    y, numbers = prepared.y, predict_numbers(models)
    wanted = check_scoring(scoring, label_sets=y.ndim == 2, numbers=numbers)
    judge = partial(scores_of, classes=np.unique(y), scoring=wanted)
    judged = cross_validate(models, prepared, judge, n_jobs=n_jobs, after_fold=after_fold)
    return [
        Evaluation(
            name,
            {measure: [scores[measure] for scores, _ in folds] for measure in folds[0][0]},
            [seconds for _, seconds in folds],
        )
        for name, folds in zip(models, judged, strict=True)
    ]


def predict_numbers(models: Mapping[str, Any]) -> bool:
    """Whether models are regressors; refuse a mix of regressors and classifiers."""
    kinds = {name: predicts_numbers(model) for name, model in models.items()}
    if any(kinds.values()) and not all(kinds.values()):
        one = next(name for name, is_one in kinds.items() if is_one)
        other = next(name for name, is_one in kinds.items() if not is_one)
        raise InputError(
            f"{one} is a regressor and {other} is not: compare models that predict the same."
        )
    return all(kinds.values())


def _fit_and_judge(
    model: Any, prepared: Prepared, fold: Fold, judge: Callable[[Any, Bags, Array], Any]
) -> tuple[Any, float]:
    bags, y, _, groups, _ = prepared
    train, test = fold
    start = time.perf_counter()
    within = fit_arguments(model, groups=None if groups is None else groups[train])
    model.fit(bags[train], y[train], **within)
    return judge(model, bags[test], y[test]), time.perf_counter() - start

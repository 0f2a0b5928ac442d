"""Predictions for held-out bags."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._pipelines import predicts_numbers
from bagwise.evaluate._evaluation import Splitter, cross_validate, make_folds, prepare
from bagwise.evaluate._measures import METHODS, predictions_of
from bagwise.exceptions import InputError
from bagwise.labels import Intervals, Labels, is_known
from bagwise.validation import check_groups


@dataclass(frozen=True)
class HeldOut:
    """Predictions for bags by models that were fitted without them.

    Parameters
    ----------
    predicted : ndarray of shape (n_bags,) or (n_bags, n_classes)
        The result of ``predict`` for each bag.
    scores : ndarray of shape (n_bags,) or (n_bags, n_classes), default=None
        The result of ``decision_function``; minus infinity for a class that was not in the training
        part. Such a class has no AUC.
    probabilities : ndarray of shape (n_bags, n_classes), default=None
        The result of ``predict_proba``; 0 for a class that was not in the training part.
    how : str, default="held out"
        How the bags were held out, such as ``"5-fold cross-validation"``.
    baselines : mapping of str to HeldOut, default={}
        The predictions of other models for the same bags.
    classes : array-like of shape (n_classes,), default=None
        The labels of the columns; a single column of scores belongs to the last class. By default
        the classes of the model in the report.
    fold : ndarray of int of shape (n_bags,), default=None
        The fold of each bag: AUC, C index and Spearman are then means over the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.evaluate import HeldOut
    >>> HeldOut(np.array(["yes", "no"]), how="5-fold cross-validation").how
    '5-fold cross-validation'
    """

    predicted: Array
    scores: Array | None = field(default=None, repr=False)
    probabilities: Array | None = field(default=None, repr=False)
    how: str = "held out"
    baselines: Mapping[str, Self] = field(default_factory=dict, repr=False)
    classes: ArrayLike | None = None
    fold: Ints | None = field(default=None, repr=False)

    def expand(self, labelled: Bools) -> Self:
        """Extend the predictions from the labelled bags to all bags; the others have none.

        Parameters
        ----------
        labelled : ndarray of bool of shape (n_bags,)
            Which bags have predictions.

        Returns
        -------
        HeldOut
        """

        def expanded(values: Any, fill: Any) -> Any:
            if values is None:
                return None
            whole = np.full((len(labelled), *values.shape[1:]), fill)
            whole[labelled] = values
            return whole

        return replace(
            self,
            predicted=expanded(self.predicted, -1 if self.predicted.ndim == 2 else None),
            scores=expanded(self.scores, 0.0),
            probabilities=expanded(self.probabilities, 0.0),
            fold=expanded(self.fold, -1),
        )


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

    scikit-learn's ``cross_val_predict`` refits the folds for each method; here each fold is fitted
    once for ``predict``, ``decision_function`` and ``predict_proba`` together.

    Parameters
    ----------
    model : estimator
        A classifier or a regressor of bags; it is cloned.
    X, y, cv, groups
        As for `compare`; each bag must be in one test part.
    after_fold : callable, default: does nothing
        Called after each fit.

    Returns
    -------
    HeldOut
        The classes are the sorted labels; None for label sets as an array, whose columns are those
        of `y`, and for numbers.
    """
    prepared = prepare(X, y, cv, groups, numbers=predicts_numbers(model))
    folds, classes = prepared.folds, prepared.classes
    tested = np.concatenate([test for _, test in folds])
    if not np.array_equal(np.sort(tested), np.arange(len(prepared.bags))):
        raise InputError("each bag has to be in one test part: give folds that divide the bags.")
    known = classes if prepared.y.ndim == 1 else None

    def predict(fitted: Any, bags: Any, y: Array) -> dict[str, Array]:
        return predictions_of(fitted, bags, known)

    (parts,) = cross_validate({"model": model}, prepared, predict, after_fold=after_fold)
    found: dict[str, Any] = dict.fromkeys(METHODS)
    for method in parts[0][0]:
        found[method] = np.concatenate([part[method] for part, _ in parts])[np.argsort(tested)]
    predicted, scores, proba = found.values()
    if predicted is None:  # a model of label sets that only scores labels
        predicted = (proba > 0.5 if scores is None else scores > 0).astype(int)
    how = f"{len(folds)}-fold cross-validation{'' if prepared.groups is None else ', groups whole'}"
    fold = np.repeat(np.arange(len(folds)), [len(test) for _, test in folds])[np.argsort(tested)]
    return HeldOut(predicted, scores, proba, how, classes=classes, fold=fold)


def predictions_of_models(
    models: Sequence[Any],
    bags: Bags,
    y: Labels | Floats | Intervals,
    *,
    classes: Any,
    n_folds: int,
    seed: int,
    groups: ArrayLike | None = None,
    after_fold: Callable[[], None],
) -> list[HeldOut]:
    """Predict all labelled bags by several models, on the same folds.

    Parameters
    ----------
    models : sequence of estimators
        Classifiers or regressors of bags; they are cloned.
    bags : Bags
        The bags.
    y : Labels, ndarray of shape (n_bags,) or Intervals
        Their labels or numbers; bags with unknown ones are left out of the folds.
    classes : array-like or None
        The classes of a fitted model, which are the first classes; None for numbers.
    n_folds, seed, groups
        As for `make_folds`.
    after_fold : callable
        Called after each fit.

    Returns
    -------
    list of HeldOut
        One per model, for all bags; bags without labels have no predictions.
    """
    known = y.known if isinstance(y, Labels) else is_known(y)
    labelled, names = check_groups(groups, bags)[np.flatnonzero(known)], None
    targets: Any = y[known]
    strata = targets
    if isinstance(y, Labels):
        own = targets.aligned(classes.tolist(), list(map(str, classes)))
        if y.has_sets:
            targets = strata = own.first_classes(len(classes)).values
        else:  # codes, because np.unique (in the folds) cannot sort labels of several types
            own = Labels.from_values(own.tolist(), own.classes.tolist())
            targets, strata, names = own.codes, np.asarray(own.texts), own.classes
    how: Any = {"groups": labelled.groups, "numbers": not isinstance(y, Labels)}
    folds = make_folds(strata, n_folds=n_folds, seed=seed, **how)
    found = []
    for model in models:
        held_out = held_out_predictions(model, labelled, targets, cv=folds, after_fold=after_fold)
        if names is not None:
            held_out = replace(held_out, predicted=names[held_out.predicted], classes=names)
        found.append(held_out.expand(known))
    return found

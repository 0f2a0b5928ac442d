"""What a saved model says of bags it was not fitted on, fold by fold; the baselines beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import Bunch

from bagwise.base import RowEstimator
from bagwise.cli.crossvalidation import held_out_answers, make_folds
from bagwise.cli.estimators import baselines
from bagwise.cli.output import progress
from bagwise.exceptions import InputError, LabelError
from bagwise.inspection._tables import instance_model
from bagwise.report import HeldOut

__all__ = ["judged_in_folds"]


def judged_in_folds(
    fitted: Any,
    data: Bunch,
    y: list[Any] | None,
    metadata: dict[str, Any],
    *,
    folds: int,
    seed: int,
) -> HeldOut:
    """Judge each labelled bag by a model that was fitted without it; the baselines likewise.

    Parameters
    ----------
    fitted : estimator
        The saved model.
    data : Bunch
        What `read_for_model` gave.
    y : list or None
        What is known of each bag: a label, a set, or None.
    metadata : dict
        What the model file tells.
    folds : int
        How many folds.
    seed : int
        Of the folds.

    Returns
    -------
    HeldOut
    """
    estimator, _ = instance_model(fitted, data.bags[:1])
    if not is_classifier(fitted) or isinstance(estimator, RowEstimator):
        raise InputError("--cv is for models that predict the label of a bag: leave it out.")
    if y is None:
        raise LabelError("--cv needs labels: name their column with label= or label_set=.")
    known = np.array([label is not None for label in y])
    classes = np.asarray(fitted.classes_).tolist()
    has_sets = any(isinstance(label, set) for label in y)
    if has_sets:
        targets = np.array([[c in s for c in classes] for s in y if s is not None]).astype(int)
    else:
        names = metadata.get("classes") or []
        codes = {name: classes[k] for k, name in enumerate(names)} | {c: c for c in classes}
        targets = np.array([codes.get(label, label) for label in y if label is not None])
    bags = data.bags[np.flatnonzero(known)]
    groups = None if data.groups is None else data.groups[known]
    splits = make_folds(targets, n_folds=folds, seed=seed, groups=groups)
    models = {"": fitted} | baselines(
        label_sets=has_sets, sparse=bool(sparse.issparse(bags.instances))
    )
    found: dict[str, dict[str, Any]] = {}
    with progress("Cross-validating", total=len(models) * len(splits)) as step:
        for name, model in models.items():
            found[name] = held_out_answers(model, bags, targets, splits, after_step=step)
    whole = "" if groups is None else ", groups whole"
    answers = {
        name: HeldOut(*(_spread(part, known) for part in _three(answer)))
        for name, answer in found.items()
    }
    own = answers.pop("")
    return HeldOut(
        own.predicted,
        own.scores,
        own.probabilities,
        how=f"{folds}-fold cross-validation{whole}",
        baselines=answers,
    )


def _three(answer: dict[str, Any]) -> list[Any]:
    scores = answer["decision_function"]
    if answer["predict"] is None:  # a baseline of label sets that only scores
        ranked = scores if scores is not None else answer["predict_proba"]
        answer = answer | {"predict": (ranked > 0).astype(int)}
    return [answer["predict"], scores, answer["predict_proba"]]


def _spread(values: Any, known: Any) -> Any:
    """Values of the labelled bags among all bags; the others are not looked at."""
    if values is None:
        return None
    whole = np.zeros((len(known), *values.shape[1:]), dtype=values.dtype)
    whole[known] = values
    return whole

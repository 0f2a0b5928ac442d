"""Predictions of a saved model for held-out bags, fold by fold, with the baselines."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from bagwise._methods.ready_made import baselines
from bagwise.base import RowEstimator
from bagwise.cli.output import progress
from bagwise.exceptions import InputError, LabelError
from bagwise.inspection._tables import final_estimator
from bagwise.io.contents import Contents
from bagwise.labels import Labels
from bagwise.model_selection import HeldOut, held_out_predictions
from bagwise.model_selection._evaluation import make_folds


def predict_held_out(
    fitted: Any,
    data: Contents,
    labels: Labels | None,
    metadata: dict[str, Any],
    *,
    folds: int,
    seed: int,
) -> HeldOut:
    """Predict each labelled bag by a model that was fitted without it; the baselines likewise.

    Parameters
    ----------
    fitted : estimator
        The saved model.
    data : Contents
        The bags and groups, as `read_for_model` returns them.
    labels : Labels or None
        The labels of the bags, some of them unknown.
    metadata : dict
        The metadata of the model file.
    folds : int
        Number of folds.
    seed : int
        Seed of the folds.

    Returns
    -------
    HeldOut
    """
    if not is_classifier(fitted) or isinstance(final_estimator(fitted), RowEstimator):
        raise InputError("--cv is for models that predict the label of a bag: leave it out.")
    if labels is None:
        raise LabelError("--cv needs labels: name their column with label= or label_set=.")
    known, has_sets = labels.known, labels.has_sets
    classes = np.asarray(fitted.classes_).tolist()
    if has_sets:
        own = labels[known].aligned(classes, [str(label) for label in classes])
        targets = own.indicator[:, : len(classes)].astype(int)
    else:
        names = metadata.get("classes") or []
        codes = {name: classes[k] for k, name in enumerate(names)} | {c: c for c in classes}
        targets = np.array([codes.get(label, label) for label in labels[known].tolist()])
    bags = data.bags[np.flatnonzero(known)]
    groups = None if data.groups is None else data.groups[known]
    splits = make_folds(targets, n_folds=folds, seed=seed, groups=groups)
    models = {"": fitted} | baselines(
        label_sets=has_sets, sparse=bool(sparse.issparse(bags.instances))
    )
    found = {}
    with progress("Cross-validating", total=len(models) * len(splits)) as step:
        for name, model in models.items():
            held_out = held_out_predictions(
                model, bags, targets, cv=splits, groups=groups, after_fold=step
            )
            found[name] = held_out.expand(known)
    return replace(found.pop(""), baselines=found)

"""The model of a report: the step that predicts instances, and the bags as that step sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_clusterer
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.base import RowEstimator
from bagwise.exceptions import InputError
from bagwise.inspection._tables import final_estimator, instance_model
from bagwise.labels import Labels


@dataclass(frozen=True)
class Subject:
    """The model of a report and its parts.

    Attributes
    ----------
    model : estimator
        As it was given.
    estimator : estimator
        What predicts instances: the last step of a pipeline, the best model of a search.
    bags : Bags
        As they were given.
    transformed : Bags or None
        The bags as the estimator sees them; None where a step before makes a row of a bag.
    names : list of str
        What its classes are called.
    """

    model: Any
    estimator: Any
    bags: Bags
    transformed: Bags | None
    names: list[str]

    @property
    def works_on_rows(self) -> bool:
        """Whether the model takes plain rows, not bags."""
        return isinstance(self.estimator, RowEstimator)

    @property
    def is_clusterer(self) -> bool:
        """Whether it finds groups."""
        return bool(is_clusterer(self.estimator))

    @property
    def is_classifier(self) -> bool:
        """Whether it names bags (or rows)."""
        return not self.is_clusterer and hasattr(self.estimator, "predict")

    @property
    def classes(self) -> list[Any]:
        """The classes of the model, as plain values; none where it has none."""
        found = getattr(self.estimator, "classes_", None)
        return [] if found is None else np.asarray(found).tolist()

    def labels(self, predicted: Any, kind: str = "partial") -> Labels:
        """Predictions of the model as labels; a label that is no class of it is unknown.

        Among instances the background, where the model has one, is the last class.
        """
        values, classes, names = np.asarray(predicted), self.classes, list(self.names)
        if values.ndim == 2:
            indicator = np.where(values < 0, -1, values > 0)
            return Labels("sets", classes, indicator=indicator, names=names)
        background = getattr(self.estimator, "background_label_", None)
        if kind == "instances" and background is not None:
            classes = [*classes, background]
            names.append(background if isinstance(background, str) else "background")
        position = {label: k for k, label in enumerate(classes)}
        codes = [position.get(label, -1) for label in values.tolist()]
        return Labels(kind, classes, codes, names=names)

    def call(self, method: str) -> NDArray[Any]:
        """Call a method of the model on the bags, or on their rows."""
        if self.works_on_rows:
            assert self.transformed is not None
            return getattr(self.estimator, method)(self.transformed.instances)
        if self.transformed is None:
            return getattr(self.model, method)(self.bags)
        return getattr(self.estimator, method)(self.transformed)

    def can(self, method: str) -> bool:
        """Whether the estimator has a method for instances."""
        return self.transformed is not None and hasattr(self.estimator, method)


def look_into(model: Any, bags: Bags, classes: Sequence[Any] | None) -> Subject:
    """Find the part of a model that predicts instances, and the bags as it sees them.

    Parameters
    ----------
    model : estimator
        Any fitted estimator.
    bags : Bags
        The bags.
    classes : sequence or None
        Names to show instead of the values of ``classes_``.

    Returns
    -------
    Subject
    """
    last = final_estimator(model)
    if isinstance(last, RowEstimator):
        if not is_clusterer(last) and (bags.sizes != 1).any():
            raise InputError(
                f"{type(last).__name__} works on rows: give bags of one instance each, such as a "
                "2-D array."
            )
        estimator: Any = last
        transformed: Bags | None = bags.with_instances(_rows_before(model, bags))
    else:
        estimator, transformed = instance_model(model, bags)
    known = getattr(estimator, "classes_", None)
    names = [] if known is None else [str(label) for label in np.asarray(known).tolist()]
    if classes is not None:
        if len(classes) != len(names):
            raise InputError(
                f"classes has {len(classes)} names, and the model knows {len(names)} classes: give "
                "one name each."
            )
        names = [str(label) for label in classes]
    return Subject(model, estimator, bags, transformed, names)


def _rows_before(model: Any, bags: Bags) -> Any:
    """The rows as the last step of a pipeline of ordinary transformers sees them."""
    rows = bags.instances
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        if isinstance(model, Pipeline):
            rows = model[:-1].transform(rows) if len(model) > 1 else rows
            model = model[-1]
        else:
            model = model.best_estimator_
    return rows

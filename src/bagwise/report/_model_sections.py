"""Sections of a report about the model: parameters, training, least certain predictions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from bagwise._common.types import Ints
from bagwise.base._pipelines import is_search
from bagwise.report._cells import LEADERBOARD_CAPTION, leaderboard_columns
from bagwise.report._charts import Curve, curves
from bagwise.report._page import Section, SideBySide, Table
from bagwise.report._subject import Subject, of_labels

MOST_ROWS = 40
LONGEST = 200  # characters of a parameter


def model_section(subject: Subject, facts: Mapping[str, Any]) -> Section:
    """Show the parameters of the model, and the objective during training.

    Parameters
    ----------
    subject : Subject
        The model.
    facts : mapping of str to object
        Further facts about the model.

    Returns
    -------
    Section
    """
    rows: dict[str, str] = {name: str(value) for name, value in facts.items()}
    for name, step in steps_of(subject.model):
        chosen = getattr(step, "best_params_", None) or _chosen_parameters(step)
        own = (f"{key} = {_short(value)}" for key, value in chosen.items())
        rows[name] = f"{type(step).__name__}({', '.join(own)})"
    parts: list[Any] = [
        Table(
            {"": list(rows), "value": list(rows.values())},
            "Parameters that differ from their defaults",
        )
    ]
    for _, step in steps_of(subject.model):
        if (drawing := _training_curve(step)) is not None:
            parts.append(drawing)
    return Section("The model", *parts)


def leaderboard_section(subject: Subject) -> Section | None:
    """Show the score and weight of each method of an automatic choice.

    Parameters
    ----------
    subject : Subject
        The model.

    Returns
    -------
    Section or None
    """
    boards = [getattr(step, "leaderboard_", None) for _, step in steps_of(subject.model)]
    tables = [Table(leaderboard_columns(b), LEADERBOARD_CAPTION) for b in boards if b is not None]
    if not tables:
        return None
    return Section(
        "Leaderboard",
        "The methods that the automatic choice tried, best first. Their scores are from its "
        "cross-validation of the training bags. Predictions combine the methods with a weight.",
        *tables,
    )


def steps_of(model: Any) -> list[tuple[str, Any]]:
    """List the parts of a model by name, including those inside searches and pipelines.

    Parameters
    ----------
    model : estimator
        A fitted model.

    Returns
    -------
    list of (str, estimator)
    """
    if is_search(model):
        return [("search", model), *steps_of(model.best_estimator_)]
    if isinstance(model, Pipeline):
        return [
            (name if inner == "model" else inner, step)
            for name, part in model.steps
            for inner, step in steps_of(part)
        ]
    return [("model", model)]


def _chosen_parameters(step: Any) -> dict[str, Any]:
    """The parameters that differ from the defaults of their class."""
    try:
        plain = type(step)().get_params(deep=False)
    except TypeError:
        plain = {}
    found = step.get_params(deep=False)
    return {
        key: value
        for key, value in found.items()
        if key not in plain or repr(plain[key]) != repr(value)
    }


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _training_curve(step: Any) -> Any:
    curve = np.asarray(getattr(step, "objective_curve_", ()), dtype=float).ravel()
    curve = curve[np.isfinite(curve)]
    if len(curve) < 2:
        return None
    rows = np.unique(np.linspace(0, len(curve) - 1, 300).astype(int))
    name = type(step).__name__
    return curves(
        [Curve("", rows + 1, curve[rows])],
        x_label="iteration",
        y_label="objective",
        caption=f"The objective of {name} during training.",
        alt=f"Objective of {name}: {curve[0]:.4g} at first, {curve[-1]:.4g} after {len(curve)} "
        "iterations.",
    )


def annotation_section(subject: Subject) -> Section | None:
    """Show the instances whose label is least certain, given the labels of their bags.

    Parameters
    ----------
    subject : Subject
        The model, the bags and the predictions.

    Returns
    -------
    Section or None
    """
    posterior, labels = subject.posterior, subject.instance_labels
    if posterior is None or labels is None:
        return None
    codes, bags = labels.codes, subject.bags
    best = of_labels(posterior, labels)
    others = posterior.copy()
    others[np.arange(len(others)), codes] = -1.0
    second = others.argmax(axis=1)
    order = np.argsort(best, kind="stable")[:MOST_ROWS]
    order = order[best[order] < 1 - 1e-9]
    sure = float(np.mean(best >= 0.95))
    text = (
        f"Each instance gets a label, given the label set of its bag. {sure:.0%} of the "
        f"{len(best):,} labels have a probability of at least 0.95."
    )
    if len(order) == 0:
        return Section("Annotation", text)
    columns = {
        "bag": [subject.bag_names[i] for i in bags.bag_index[order]],
        "row": (order - bags.offsets[bags.bag_index[order]]).tolist(),
        "label": [labels.names[k] for k in codes[order]],
        "probability": best[order].tolist(),
        "second label": [labels.names[k] for k in second[order]],
        "its probability": np.maximum(others[order, second[order]], 0.0).tolist(),
    }
    table = Table(
        columns, f"The {len(order)} least certain instances", bags=bags.bag_index[order].tolist()
    )
    return Section("Annotation", text, table)


def row_section(subject: Subject) -> Section | None:
    """Show the least and the most certain rows of a semi-supervised model.

    Parameters
    ----------
    subject : Subject
        The model, the rows and the predictions.

    Returns
    -------
    Section or None
    """
    certainty = subject.certainty
    if not subject.works_on_rows or subject.predicted is None or certainty is None:
        return None
    order = np.argsort(certainty, kind="stable")
    predicted = subject.predicted.texts

    def table(chosen: Ints, caption: str) -> Table:
        columns = {
            "row": [subject.bag_names[i] for i in chosen],
            "predicted": [predicted[i] for i in chosen],
            "certainty": certainty[chosen].tolist(),
        }
        return Table(columns, caption, bags=chosen.tolist())

    few = min(15, len(order))
    text = (
        "Certainty is the distance from the nearest other prediction: for two classes the size of "
        "the score, for more the lead of the first class over the second. A label given to one of "
        "the least certain rows helps the model most."
    )
    tables = [table(order[:few], "Least certain"), table(order[::-1][:few], "Most certain")]
    return Section("Certain and uncertain rows", text, SideBySide(tables))

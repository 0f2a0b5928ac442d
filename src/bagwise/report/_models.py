"""Sections of a report about the model: parameters, training, leaderboard, annotations."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from bagwise.base._pipelines import is_search
from bagwise.displays import ObjectiveDisplay
from bagwise.predictions import Predictions
from bagwise.predictions._predictions import runner_up
from bagwise.report._cells import LEADERBOARD_CAPTION, leaderboard_columns
from bagwise.report._page import Figure, Section, Table, shorten

MOST_ROWS = 40
LONGEST = 600  # characters of a model


def model_section(subject: Predictions, facts: Mapping[str, Any]) -> Section:
    """Show the parameters of the model that differ from defaults, and the objective of training."""
    rows: dict[str, str] = {name: str(value) for name, value in facts.items()}
    drawings = []
    for name, step in steps_of(subject.model):
        best = getattr(step, "best_params_", None)
        text = repr(step) if best is None else f"{type(step).__name__} chose {best}"
        rows[name] = shorten(" ".join(text.split()), LONGEST)
        curve = np.asarray(getattr(step, "objective_curve_", ()), dtype=float).ravel()
        curve = curve[np.isfinite(curve)]
        if len(curve) > 1:
            own = f"The objective of {type(step).__name__}"
            alt = f"{own}: {curve[0]:.4g} at first, {curve[-1]:.4g} after {len(curve)} iterations."
            figure = ObjectiveDisplay({type(step).__name__: curve}).figure((4.4, 3.3))
            drawings.append(Figure(figure, alt, f"{own} during training."))
    columns = {"": list(rows), "value": list(rows.values())}
    caption = "Parameters that differ from their defaults"
    return Section("The model", Table(columns, caption), *drawings)


def leaderboard_section(subject: Predictions) -> Section | None:
    """Show the score and weight of each method of an automatic choice."""
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
    """List the parts of a model by name, including those inside searches and pipelines."""
    if is_search(model):
        return [("search", model), *steps_of(model.best_estimator_)]
    if isinstance(model, Pipeline):
        return [
            (name if inner == "model" else inner, step)
            for name, part in model.steps
            for inner, step in steps_of(part)
        ]
    return [("model", model)]


def annotation_section(subject: Predictions) -> Section | None:
    """Show the instances whose label is least certain, given the labels of their bags."""
    ranking, bags = subject.ranking, subject.bags
    posterior, labels, best = ranking.posterior, ranking.labels, ranking.proba
    if posterior is None or labels is None or best is None:
        return None
    second, chance = runner_up(posterior, labels.codes)
    order = np.argsort(best, kind="stable")[:MOST_ROWS]
    order = order[best[order] < 1 - 1e-9]
    text = (
        f"Each instance gets a label, given the label set of its bag. {np.mean(best >= 0.95):.0%} "
        f"of the {len(best):,} labels have a probability of at least 0.95."
    )
    owners = bags.bag_index[order]
    columns = {
        "bag": [subject.bag_names[i] for i in owners],
        "row": (order - bags.offsets[owners]).tolist(),
        "label": [labels.names[k] for k in labels.codes[order]],
        "probability": best[order].tolist(),
        "second label": [labels.names[k] for k in second[order]],
        "its probability": chance[order].tolist(),
    }
    caption = f"The {len(order)} least certain instances"
    table = Table(columns, caption, bags=owners.tolist())
    return Section("Annotation", text, *([table] if len(order) else []))

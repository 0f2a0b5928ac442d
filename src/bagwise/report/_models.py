"""Sections of a report about the model: parameters, leaderboard, clusters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from bagwise._common.types import Ints
from bagwise.base._pipelines import is_search
from bagwise.displays import ClusterMapDisplay, ObjectiveDisplay
from bagwise.labels import Labels
from bagwise.predictions import Predictions
from bagwise.predictions._ranking import are_those_of_fit
from bagwise.report._page import Figure, Section, Table, axes, link_points, shorten

LEADERBOARD_CAPTION = "Scores of held-out bags ± standard error, and weights in the ensemble"
MOST_POINTS = 1000
LONGEST = 600  # characters of a model


def model_section(subject: Predictions, facts: Mapping[str, Any]) -> Section:
    """Show the parameters of the model that differ from defaults, and the objective of training."""
    rows: dict[str, str] = {name: str(value) for name, value in facts.items()}
    drawings = []
    for name, step in steps_of(subject.model):
        kind, best = type(step).__name__, getattr(step, "best_params_", None)
        text = repr(step) if best is None else f"{kind} chose {best}"
        rows[name] = shorten(" ".join(text.split()), LONGEST)
        curve = np.asarray(getattr(step, "objective_curve_", ()), dtype=float).ravel()
        curve = curve[np.isfinite(curve)]
        if len(curve) > 1:
            alt = f"{curve[0]:.4g} at first, {curve[-1]:.4g} after {len(curve)} iterations."
            figure = ObjectiveDisplay({kind: curve}).figure((4.4, 3.3))
            own = f"The objective of {kind}"
            drawings.append(Figure(figure, f"{own}: {alt}", f"{own} during training."))
    columns = {"": list(rows), "value": list(rows.values())}
    caption = "Parameters that differ from their defaults"
    return Section("The model", Table(columns, caption), *drawings)


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


def leaderboard_section(subject: Predictions) -> Section | None:
    """Show the score and weight of each method of an automatic choice."""
    boards = [getattr(step, "leaderboard_", None) for _, step in steps_of(subject.model)]
    tables = [Table(leaderboard_columns(b), LEADERBOARD_CAPTION) for b in boards if b is not None]
    text = (
        "The methods that the automatic choice tried, best first. Their scores are from its "
        "cross-validation of the training bags. Predictions combine the methods with a weight."
    )
    return Section("Leaderboard", text, *tables) if tables else None


def leaderboard_columns(leaderboard: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Score, weight and time of each method of an ensemble, and why methods were skipped, if any.

    Parameters
    ----------
    leaderboard : mapping of str to sequence
        The ``leaderboard_`` of an AutoBagClassifier or AutoBagRegressor.

    Returns
    -------
    dict of str to list of str
    """
    method, metric = list(leaderboard)[:2]
    scores = zip(leaderboard[metric], leaderboard["standard error"], strict=True)
    columns = {
        method: list(leaderboard[method]),
        metric.replace("_", " "): [
            "" if np.isnan(score) else f"{score:.3f} ± {error:.3f}" for score, error in scores
        ],
        "weight": [f"{weight:.2f}" for weight in leaderboard["weight"]],
        "time": [f"{seconds:.1f} s" for seconds in leaderboard["seconds"]],
    }
    skipped = {"skipped": list(leaderboard["skipped"])} if any(leaderboard["skipped"]) else {}
    return columns | skipped


def cluster_section(subject: Predictions) -> Section | None:
    """Show the clusters: sizes, classes, and a map."""
    clusters, estimator = subject.ranking.labels, subject.estimator
    if subject.ranking.heading != "cluster" or clusters is None:
        return None
    codes, bags, known = clusters.codes, subject.bags, subject.known
    columns, text = cluster_columns(estimator, codes), None
    if "class" in columns:
        text = "The share of a class is estimated from the labels of the bags alone."
    elif known is not None and not known.has_sets and (bags.sizes == 1).all():
        counts = np.array([known[codes == k].counts for k in columns["cluster"]])
        most = counts.max(axis=1)
        names = zip(counts.argmax(axis=1), most, strict=True)
        columns["most common label"] = [known.names[k] if n else None for k, n in names]
        columns["share"] = most / np.maximum(counts.sum(axis=1), 1)
        text = "The share belongs to the most common label among the labelled rows of a cluster."
    space, where = getattr(estimator, "embedding_", None), "the space of the clustering"
    if space is None or not are_those_of_fit(getattr(estimator, "labels_", None), codes):
        space, where = (subject.seen or bags).instances, "the space of the features"
    drawn = _map(space, clusters, subject, where)
    return Section("Clusters", Table(columns, f"{len(columns['cluster'])} clusters"), text, drawn)


def cluster_columns(estimator: Any, codes: Ints) -> dict[str, Any]:
    """The size of each cluster of instances and, if labels are known, its main class and share."""
    found, counts = np.unique(codes, return_counts=True)
    columns: dict[str, Any] = {"cluster": found, "instances": counts}
    shares = getattr(estimator, "cluster_class_shares_", None)
    if shares is not None:
        columns |= {"class": estimator.cluster_classes_[found], "share": shares[found].max(axis=1)}
    return columns


def clustered_instances(model: Any, bags: Any, known: Any) -> dict[str, Any]:
    """Bag, row, cluster and, if labels are known, the most probable class of each instance."""
    rows = np.arange(bags.n_instances) - bags.offsets[bags.bag_index]
    columns = {"bag": bags.names[bags.bag_index], "row": rows, "cluster": model.labels_}
    if model.classes_ is None:
        return columns
    # The label of its bag that is most frequent in its cluster; any label if none is known.
    shares = model.cluster_class_shares_[model.labels_]
    allowed = np.array([[s is None or not s or c in s for c in model.classes_] for s in known])
    inside = np.where(allowed[bags.bag_index], shares, -1.0)
    columns["class"] = model.classes_[inside.argmax(axis=1)]
    return columns


def _map(space: Any, clusters: Labels, subject: Predictions, where: str) -> Figure:
    """Draw a map of instances, whose points link to their bags."""
    rows = np.sort(np.random.default_rng(0).permutation(space.shape[0])[:MOST_POINTS])
    index, texts = subject.bags.bag_index[rows], clusters[rows].texts
    ax = axes("", "")
    ax.figure.set_size_inches(6.4, 5.6)
    ClusterMapDisplay.from_predictions(space[rows], texts, max_instances=len(rows), ax=ax)
    link_points(ax.collections[0], index.tolist())
    titles = [f"{subject.bag_names[i]}: {text}" for i, text in zip(index, texts, strict=True)]
    caption = f"Map of {len(rows):,} of {space.shape[0]:,} instances in {where}, by cluster."
    shown = f"{caption} Similar instances are close. Click a point to open its bag."
    return Figure(ax.figure, caption, shown, titles)

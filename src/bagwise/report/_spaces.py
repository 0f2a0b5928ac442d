"""The sections of a report that have a map: clusters, and learned distances."""

from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.displays import ClusterMapDisplay
from bagwise.labels import Labels
from bagwise.predictions import Predictions
from bagwise.predictions._ranking import are_those_of_fit
from bagwise.report._models import steps_of
from bagwise.report._page import Figure, Section, Table
from bagwise.report._plots import link_points

MOST_POINTS = 1000


def cluster_section(subject: Predictions) -> Section | None:
    """Show the clusters: sizes, classes, and a map."""
    clusters, estimator = subject.ranking.labels, subject.estimator
    if subject.ranking.heading != "cluster" or clusters is None:
        return None
    codes, bags, known = clusters.codes, subject.bags, subject.known
    found = np.unique(codes)
    columns: dict[str, list[Any]] = {
        "cluster": [clusters.names[k] for k in found],
        "instances": [int((codes == k).sum()) for k in found],
    }
    if (bags.sizes > 1).any():
        columns["bags"] = [len(np.unique(bags.bag_index[codes == k])) for k in found]
    shares = getattr(estimator, "cluster_class_shares_", None)
    text = []
    if shares is not None:
        columns["class"] = [str(estimator.cluster_classes_[k]) for k in found]
        columns["its share"] = [float(shares[k].max()) for k in found]
        text = ["The share of a class is estimated from the labels of the bags alone."]
    elif known is not None and not known.has_sets and (bags.sizes == 1).all():
        counts = np.array([known[codes == k].counts for k in found])
        columns["most common label"] = [
            known.names[c.argmax()] if c.any() else None for c in counts
        ]
        columns["its share"] = (counts.max(axis=1) / np.maximum(counts.sum(axis=1), 1)).tolist()
        text = ["The share is that of the most common label among the labelled rows of a cluster."]
    space, where = getattr(estimator, "embedding_", None), "the space of the clustering"
    if space is None or not are_those_of_fit(getattr(estimator, "labels_", None), codes):
        space, where = subject.seen, "the space of the features"
        space = None if space is None else space.instances
    drawn = _map(space, clusters, subject, f"Instances in {where}, coloured by cluster")
    return Section("Clusters", Table(columns, f"{len(found)} clusters"), *text, drawn)


def space_section(subject: Predictions) -> Section | None:
    """Show the space of a learned distance, alone or as a step of a pipeline."""
    learner, before = _metric_step(subject)
    if learner is None or before is None:
        return None
    mapped, known, ranking = learner.transform(before), subject.known, subject.ranking
    by = "label of their bag"
    shown = Labels("instances", (), np.full(subject.bags.n_instances, -1))
    if subject.estimator is learner and ranking.labels is not None:
        shown, by = ranking.labels, ranking.heading
    elif known is not None and not known.has_sets:
        shown = known[subject.bags.bag_index]
    coloured = f", coloured by {by}" if shown.known.any() else ""
    caption = f"Instances in the learned space{coloured}"
    return Section("The learned distance", _map(mapped.instances, shown, subject, caption))


def _metric_step(subject: Predictions) -> tuple[Any, Bags | None]:
    """The metric learner of a model, and its input."""
    steps = [step for _, step in steps_of(subject.model) if not hasattr(step, "best_estimator_")]
    place = next((i for i, step in enumerate(steps) if hasattr(step, "get_metric")), None)
    if place is None:
        return None, None
    bags = subject.bags
    for step in steps[:place]:
        bags = step.transform(bags)
    return steps[place], bags


def _map(space: Any, labels: Labels, subject: Predictions, caption: str) -> Figure:
    """Draw a map of instances, whose points link to their bags."""
    n = space.shape[0]
    rows = np.sort(np.random.default_rng(0).permutation(n)[:MOST_POINTS])
    bags, texts = subject.bags, labels[rows].texts
    (display,) = ClusterMapDisplay.from_embedding(space[rows], texts, max_instances=len(rows))
    figure, index = display.figure(), bags.bag_index[rows]
    link_points(figure.axes[0].collections[0], index.tolist())
    titles = [
        f"{subject.bag_names[i]}, row {row}" + ("" if label is None else f": {label}")
        for i, row, label in zip(index, rows - bags.offsets[index], texts, strict=True)
    ]
    by = ", laid out by t-SNE (similar instances are close)" if space.shape[1] > 2 else ""
    part = f"{len(rows):,} of {n:,} are shown. " if len(rows) < n else ""
    shown = f"{caption}{by}. {part}Click a point to open its bag."
    return Figure(figure, f"Map. {caption}; the numbers are in the table.", shown, titles)


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


def cluster_summary(model: Any) -> dict[str, Any]:
    """The size of each cluster and, if labels are known, its main class and the share of it."""
    columns = {
        "cluster": np.arange(model.n_clusters),
        "instances": np.bincount(model.labels_, minlength=model.n_clusters),
    }
    if model.classes_ is not None:
        columns["class"] = model.cluster_classes_
        columns["share"] = model.cluster_class_shares_.max(axis=1)
    return columns

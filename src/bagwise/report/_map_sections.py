"""The sections of a report that have a map: clusters, and learned distances."""

from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.labels import Labels
from bagwise.report._charts import point_map
from bagwise.report._model_sections import steps_of
from bagwise.report._page import Section, Table
from bagwise.report._subject import Subject, are_those_of_fit

MOST_ROWS = 40
MOST_POINTS = 1000


def cluster_section(subject: Subject) -> Section | None:
    """Show the clusters: sizes, classes, and a map.

    Parameters
    ----------
    subject : Subject
        The model, the bags, their labels and the predictions.

    Returns
    -------
    Section or None
    """
    clusters = subject.instance_labels
    if not subject.is_clusterer or clusters is None:
        return None
    codes = clusters.codes
    estimator, bags, known = subject.estimator, subject.bags, subject.known
    found = np.unique(codes)
    columns: dict[str, list[Any]] = {
        "cluster": [clusters.names[k] for k in found],
        "instances": [int((codes == k).sum()) for k in found],
    }
    if (bags.sizes > 1).any():
        columns["bags"] = [len(np.unique(bags.bag_index[codes == k])) for k in found]
    shares = getattr(estimator, "cluster_class_shares_", None)
    if shares is not None:
        columns["class"] = [str(estimator.cluster_classes_[k]) for k in found]
        columns["its share"] = [float(shares[k].max()) for k in found]
    elif known is not None and not known.has_sets and (bags.sizes == 1).all():
        counts = [known[codes == k].counts for k in found]
        columns["most common label"] = [
            known.names[int(c.argmax())] if c.any() else None for c in counts
        ]
        columns["its share"] = [float(c.max() / c.sum()) if c.any() else None for c in counts]
    parts: list[Any] = [Table(columns, f"{len(found)} clusters")]
    if shares is not None:
        parts.append("The share of a class is estimated from the labels of the bags alone.")
    elif "its share" in columns:
        parts.append(
            "The share is that of the most common label among the labelled rows of a cluster."
        )
    space = getattr(estimator, "embedding_", None)
    if space is None or not are_those_of_fit(getattr(estimator, "labels_", None), codes):
        space = subject.transformed.instances if subject.transformed is not None else None
        where = "the space of the features"
    else:
        where = "the space of the clustering"
    parts.append(_map(space, clusters, subject, f"Instances in {where}, coloured by cluster"))
    return Section("Clusters", *parts)


def space_section(subject: Subject) -> Section | None:
    """Show the space of a learned distance, alone or as a step of a pipeline.

    Parameters
    ----------
    subject : Subject
        The model, the bags, their labels and the predictions.

    Returns
    -------
    Section or None
    """
    learner, before = _metric_step(subject)
    if learner is None or before is None:
        return None
    mapped, known = learner.transform(before), subject.known
    parts: list[Any] = []
    shown = subject.instance_labels if subject.estimator is learner else None
    if shown is not None:
        codes = shown.codes
        found, counts = np.unique(codes[codes >= 0], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MOST_ROWS]
        columns: dict[str, list[Any]] = {
            subject.instance_heading: [shown.names[k] for k in found[order]],
            "instances": counts[order].tolist(),
        }
        left = int((codes < 0).sum())
        beside = f"; {left:,} instances have none" if left else ""
        parts.append(Table(columns, f"Number of instances per label{beside}"))
    elif known is not None and not known.has_sets:
        shown = known[subject.bags.bag_index]
    else:
        shown = Labels("instances", (), np.full(subject.bags.n_instances, -1))
    if known is not None and len(subject.bags) > 1:
        parts.append(_neighbours(before, mapped, known))
    by = subject.instance_heading if subject.estimator is learner else "label of their bag"
    coloured = f", coloured by {by}" if shown.known.any() else ""
    parts.append(
        _map(mapped.instances, shown, subject, f"Instances in the learned space{coloured}")
    )
    return Section("The learned distance", *parts)


def _metric_step(subject: Subject) -> tuple[Any, Bags | None]:
    """The metric learner of a model, and its input."""
    steps = [step for _, step in steps_of(subject.model) if not hasattr(step, "best_estimator_")]
    places = [i for i, step in enumerate(steps) if hasattr(step, "get_metric")]
    if not places:
        return None, None
    bags = subject.bags
    for step in steps[: places[0]]:
        bags = step.transform(bags)
    return steps[places[0]], bags


def _neighbours(before: Bags, after: Bags, known: Labels) -> Table:
    """How often the nearest instance of another bag is in a bag that shares a label."""
    from sklearn.neighbors import NearestNeighbors

    sets = known.indicator
    rows = _sample(before.n_instances)
    index = before.bag_index[rows]
    shares: list[float | None] = []
    for bags in (before, after):
        values = bags.instances[rows]
        values = values.toarray() if sparse.issparse(values) else values
        n_near = min(len(rows), int(np.bincount(index).max()) + 1)
        near = NearestNeighbors(n_neighbors=n_near).fit(values).kneighbors(return_distance=False)
        hits = []
        for place, others in enumerate(near):
            own = index[place]
            foreign = next((j for j in others if index[j] != own), None)
            if foreign is not None and sets[own].min() >= 0 and sets[index[foreign]].min() >= 0:
                hits.append(bool((sets[own] * sets[index[foreign]]).any()))
        shares.append(float(np.mean(hits)) if hits else None)
    columns: dict[str, list[Any]] = {
        "space": ["features", "learned"],
        "shares a label": [None if s is None else f"{s:.0%}" for s in shares],
    }
    return Table(
        columns,
        "Share of instances whose nearest instance in another bag is in a bag with a common "
        f"label ({len(rows)} instances; on training bags the share is optimistic)",
    )


def _sample(n: int) -> Ints:
    rows = np.arange(n)
    if n <= MOST_POINTS:
        return rows
    return np.sort(np.random.default_rng(0).permutation(n)[:MOST_POINTS])


def _map(space: Any, labels: Labels, subject: Subject, caption: str) -> Any:
    """Draw a map of instances: two features as they are, more by t-SNE."""
    rows = _sample(space.shape[0])
    bags, chosen = subject.bags, labels[rows]
    points, by = _plane(space[rows])
    index = bags.bag_index[rows]
    titles = [
        f"{subject.bag_names[i]}, row {row}" + ("" if label is None else f": {label}")
        for i, row, label in zip(index, rows - bags.offsets[index], chosen.texts, strict=True)
    ]
    part = f"{len(rows):,} of {space.shape[0]:,} are shown. " if len(rows) < space.shape[0] else ""
    shown = f"{caption}{by}. {part}Click a point to open its bag."
    alt = f"Map. {caption}; the numbers are in the table."
    return point_map(points, chosen, index.tolist(), titles, shown, alt)


def _plane(values: Any) -> tuple[Array, str]:
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.manifold import TSNE

    if sparse.issparse(values):
        n_kept = min(30, *values.shape)
        values = TruncatedSVD(max(n_kept - 1, 1), random_state=0).fit_transform(values)
    values = np.asarray(values, dtype=float)
    if values.shape[1] <= 2 or len(values) < 5:
        return np.pad(values, ((0, 0), (0, 2)))[:, :2], ""
    kept = min(30, *values.shape)
    values = PCA(kept, random_state=0).fit_transform(values)
    if values.std() == 0:
        return values[:, :2], ""
    near = min(30.0, (len(values) - 1) / 3)
    layout = TSNE(perplexity=near, init="pca", random_state=0, max_iter=500)
    placed = layout.fit_transform(values / values[:, 0].std())
    return placed, ", laid out by t-SNE (similar instances are close)"

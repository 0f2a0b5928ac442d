"""Sections of a report: the data; the model with its leaderboard and clusters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from bagwise._common.types import Array, Bools, Ints
from bagwise.base._pipelines import is_search
from bagwise.displays import ClusterMapDisplay, ObjectiveDisplay
from bagwise.evaluate import find_leaks
from bagwise.labels import Intervals, Labels, is_known
from bagwise.predictions import Predictions
from bagwise.predictions._likeness import UNLIKE
from bagwise.predictions._ranking import are_those_of_fit
from bagwise.report._page import Figure, Section, Table, axes, link_points, shorten
from bagwise.validation import check_groups

LEADERBOARD_CAPTION = "Scores of held-out bags ± standard error, and weights in the ensemble"
MOST_POINTS = 1000
LONGEST = 600  # characters of a model
MOST_LABELS = 12


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


# The data: counts, sizes, labels, and possible leakage


def data_section(subject: Predictions, groups: Any, seen: Bools | None) -> Section:
    """Describe the data: counts, sizes, labels or numbers, and possible leakage.

    Parameters
    ----------
    subject : Predictions
        The bags and their labels.
    groups : array-like of shape (n_bags,) or None
        Bags that belong together, such as the slides of one patient.
    seen : ndarray of shape (n_bags,) or None
        Which bags the model was fitted on, if that is known.

    Returns
    -------
    Section
    """
    bags, known, unit = subject.bags, subject.known, subject.unit
    items = {f"{unit}s": f"{len(bags):,}"}
    if unit == "bag":
        items["instances"] = f"{bags.n_instances:,}"
        ends = dict.fromkeys(f"{size:,}" for size in (bags.sizes.min(), bags.sizes.max()))
        items["in a bag"] = " to ".join(ends)  # one number for bags of equal size
    items["features"] = f"{bags.n_features:,}"
    beside: list[Any] = []
    if subject.like_training is not None:
        unlike = np.flatnonzero(subject.like_training <= UNLIKE)
        items[f"unlike the training {unit}s"] = f"{len(unlike):,}"
        if len(unlike):
            shown = ", ".join(subject.bag_names[i] for i in unlike[:MOST_LABELS])
            beside.append(
                f"p {UNLIKE:g} or less, {100 * UNLIKE:g} % are by chance, for the {unit}s: {shown}."
            )
    if known is not None:
        items["labels"] = f"{int((known.counts > 0).sum()):,}"
        if not known.known.all():
            items[f"{unit}s without a label"] = f"{int((~known.known).sum()):,}"
        beside.append(_label_counts(known, unit))
    if subject.known_numbers is not None:
        beside.append(_numbers(subject.known_numbers, subject.known_intervals))
    if subject.known_times is not None:
        beside.append(_times(subject.known_times))
    group_of = None
    groups = check_groups(groups, bags).groups
    if groups is not None:
        group_of = np.unique(groups.astype(str), return_inverse=True)[1]
    y = None if known is None or known.has_sets else np.array(known.texts, dtype=object)
    found = find_leaks(bags, y, groups=groups)
    leakage = [f"Possible leak: {leak}" for leak in found] or ["No copies of instances were found."]
    if group_of is not None:
        leakage.append(_groups(known, unit, group_of, seen))
    return Section("The data", items, beside, *leakage)


def _numbers(numbers: Array, intervals: Intervals | None) -> Table:
    known = numbers[np.isfinite(numbers)]
    n_bounds = 0 if intervals is None else int(is_known(intervals).sum()) - len(known)
    facts: dict[str, Any] = {"known": len(known), "known to an interval": n_bounds}
    facts["unknown"] = len(numbers) - len(known) - n_bounds
    facts |= {"mean": known.mean(), "standard deviation": known.std()}
    facts |= {"smallest": known.min(), "median": np.median(known), "largest": known.max()}
    return Table({"": list(facts), "value": [*facts.values()]}, "The number of a bag")


def _times(times: Array) -> Table:
    known = times[is_known(times)]
    events = int(known["event"].sum())
    facts = {"known": len(known), "events": events, "censored": len(known) - events}
    facts |= {"unknown": len(times) - len(known), "smallest time": known["time"].min()}
    facts |= {"median time": np.median(known["time"]), "largest time": known["time"].max()}
    return Table({"": list(facts), "value": [*facts.values()]}, "The time to the event of a bag")


def _label_counts(known: Labels, unit: str) -> Table:
    counts, totals = known.counts, np.maximum((known.indicator >= 0).sum(axis=0), 1)
    order = np.argsort(-counts, kind="stable")[: min(MOST_LABELS, (counts > 0).sum())]
    columns = {
        "label": [known.names[k] for k in order],
        f"{unit}s": counts[order].tolist(),
        "share": [f"{counts[k] / totals[k]:.0%}" for k in order],
    }
    return Table(columns, "Labels" if (counts > 0).sum() <= MOST_LABELS else "Most common labels")


def _groups(known: Labels | None, unit: str, group_of: Ints, seen: Bools | None) -> str:
    """What groups of bags would bias: other labels in a group, groups on both sides of a split."""
    text = f"The {unit}s belong to {group_of.max() + 1:,} groups."
    if known is not None and not known.has_sets:
        n_mixed = _have_several(group_of, known.codes).sum()
        text += f" {n_mixed:,} of them contain {unit}s with different labels."
    if seen is not None:
        n_split = _have_several(group_of, seen.astype(int)).sum()
        text += f" In {n_split:,} of them the model was fitted on some {unit}s, not on all."
    return f"{text} Training and test {unit}s must not be of one group."


def _have_several(number: Ints, values: Ints) -> Bools:
    """For each number, whether it occurs with several values; -1 is unknown, and not counted."""
    pairs = np.unique(np.column_stack([number, values])[values >= 0], axis=0)
    return np.bincount(pairs[:, 0], minlength=number.max() + 1) > 1

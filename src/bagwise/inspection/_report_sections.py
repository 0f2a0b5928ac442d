"""The sections of a report beside the figures and the list of bags; each only where it applies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.inspection._answers import Answers, KnownLabels, Subject, are_those_of_fit
from bagwise.inspection._charts import Curve, curves, histogram, point_map
from bagwise.inspection._page import Numbers, Section, SideBySide, Table

__all__ = [
    "annotation_section",
    "cluster_section",
    "data_section",
    "model_section",
    "row_section",
    "space_section",
]

MOST_ROWS = 40
MOST_POINTS = 1000
MOST_COMPARED = 1_000_000  # instances whose copies are looked for


def data_section(
    bags: Bags, known: KnownLabels | None, names: list[str], groups: Any, unit: str
) -> Section:
    """Show what the data is: counts, sizes, labels, and what could leak between groups.

    Parameters
    ----------
    bags : Bags
        The bags.
    known : KnownLabels or None
        Their labels.
    names : list of str
        Their names.
    groups : array-like of shape (n_bags,) or None
        Bags that belong together, such as those of one patient.
    unit : {"bag", "row"}
        What the model is about.

    Returns
    -------
    Section
    """
    items = [("bags", f"{len(bags):,}"), ("instances", f"{bags.n_instances:,}")]
    items = [("rows", f"{len(bags):,}")] if unit == "row" else items
    items.append(("features", f"{bags.n_features:,}"))
    if known is not None:
        items.append(("labels", f"{int((known.counts > 0).sum()):,}"))
        if not known.known.all():
            items.append((f"{unit}s without label", f"{int((~known.known).sum()):,}"))
    beside: list[Any] = []
    if unit == "bag" and bags.sizes.max() > 1:
        caption = f"Sizes of the {len(bags):,} bags."
        beside.append(
            histogram(bags.sizes, x_label="instances in a bag", y_label="bags", caption=caption)
        )
    if known is not None:
        beside.append(_label_counts(known, unit))
    return Section(
        "The data",
        [Numbers(items), SideBySide(beside), *_leakage(bags, known, names, groups, unit)],
    )


def _label_counts(known: KnownLabels, unit: str) -> Table:
    counts, total = known.counts, max(int(known.known.sum()), 1)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    columns = {
        "label": [known.names[k] for k in order[:12]],
        f"{unit}s": counts[order[:12]].tolist(),
        "share": [f"{counts[k] / total:.0%}" for k in order[:12]],
    }
    more = f"; the 12 commonest of {len(order)}" if len(order) > 12 else ""
    return Table(columns, f"Labels{more}")


def _leakage(
    bags: Bags, known: KnownLabels | None, names: list[str], groups: Any, unit: str
) -> list[Any]:
    """What would make figures too good: copies in several bags, groups on both sides."""
    parts: list[Any] = []
    group_of = None if groups is None else np.asarray(groups).astype(str)
    if group_of is not None and len(group_of) != len(bags):
        raise InputError(f"{len(group_of)} groups for {len(bags)} bags: give one each.")
    if bags.n_instances > MOST_COMPARED:
        parts.append("There are too many instances to look for copies among them.")
    else:
        parts += _copies(bags, known, names, group_of, unit)
    if group_of is not None:
        distinct, place = np.unique(group_of, return_inverse=True)
        mixed = ""
        if known is not None and known.codes is not None:
            mixed_count = sum(
                len(np.unique(labels[labels >= 0])) > 1
                for labels in (known.codes[place == g] for g in range(len(distinct)))
            )
            mixed = f" {mixed_count:,} of them hold {unit}s of different labels."
        parts.append(
            f"The {unit}s belong to {len(distinct):,} groups.{mixed} {unit.capitalize()}s of one "
            "group must not be on both sides of a split between training and test."
        )
    return parts


def _copies(
    bags: Bags, known: KnownLabels | None, names: list[str], group_of: Any, unit: str
) -> list[Any]:
    holders: dict[bytes, list[int]] = {}
    for digest, i in zip(_digests(bags), bags.bag_index.tolist(), strict=True):
        found = holders.setdefault(digest, [])
        if not found or found[-1] != i:
            found.append(i)
    shared = [found for found in holders.values() if len(found) > 1]
    what = "instance" if unit == "bag" else "row"
    if not shared:
        also = f"No {what} occurs in several bags" if unit == "bag" else "No row occurs twice"
        return [f"{also}: no copies leak from training to test."]
    concerned = {i for found in shared for i in found}
    text = (
        f"{len(shared):,} distinct {what}s occur in several {unit}s ({len(concerned):,} {unit}s "
        f"share at least one). When such {unit}s are split between training and test, figures "
        "become too good."
    )
    codes = None if known is None else known.codes
    if codes is not None:
        across = sum(len({codes[i] for i in found} - {-1}) > 1 for found in shared)
        text += f" {across:,} of these {what}s are in {unit}s of different labels."
    if group_of is not None:
        across = sum(len({group_of[i] for i in found}) > 1 for found in shared)
        text += f" {across:,} are in different groups."
    shared.sort(key=len, reverse=True)
    table = Table(
        {
            f"first {unit}": [names[found[0]] for found in shared[:5]],
            f"{unit}s": [len(found) for found in shared[:5]],
            "others": [", ".join(names[i] for i in found[1:5]) for found in shared[:5]],
        },
        f"The {what}s with the most copies",
        bags=[found[0] for found in shared[:5]],
    )
    return [text, table]


def _digests(bags: Bags) -> list[bytes]:
    """A fingerprint per instance."""
    values = bags.instances
    if sparse.issparse(values):
        parts = (
            values.indices[a:b].tobytes() + values.data[a:b].tobytes()
            for a, b in zip(values.indptr[:-1], values.indptr[1:], strict=True)
        )
    else:
        parts = (np.ascontiguousarray(row).tobytes() for row in values)
    return [hashlib.blake2b(part, digest_size=16).digest() for part in parts]


def model_section(subject: Subject, facts: Mapping[str, Any]) -> Section:
    """Show what the model is, and how its training went.

    Parameters
    ----------
    subject : Subject
        The model.
    facts : mapping of str to object
        What else is known of it.

    Returns
    -------
    Section
    """
    rows: dict[str, str] = {name: str(value) for name, value in facts.items()}
    for name, step in _steps(subject.model):
        chosen = _chosen_parameters(step)
        own = (f"{key} = {value!r}" for key, value in chosen.items())
        rows[name] = f"{type(step).__name__}({', '.join(own)})"
    parts: list[Any] = [
        Table({"": list(rows), "what it is": list(rows.values())}, "Parameters not by default")
    ]
    for _, step in _steps(subject.model):
        if (drawing := _training_curve(step)) is not None:
            parts.append(drawing)
    return Section("The model", parts)


def _steps(model: Any) -> list[tuple[str, Any]]:
    if hasattr(model, "best_estimator_"):
        return [("search", model), *_steps(model.best_estimator_)]
    if isinstance(model, Pipeline):
        return [
            (name if inner == "model" else inner, step)
            for name, part in model.steps
            for inner, step in _steps(part)
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
        caption=f"The objective of {name} while it was trained.",
        alt=f"Objective of {name}: {curve[0]:.4g} at first, {curve[-1]:.4g} after {len(curve)}.",
    )


def annotation_section(subject: Subject, answers: Answers, names: list[str]) -> Section | None:
    """Show the instances whose label is least certain, given the labels of their bags.

    Parameters
    ----------
    subject : Subject
        The model and the bags.
    answers : Answers
        What it says.
    names : list of str
        The names of the bags.

    Returns
    -------
    Section or None
    """
    posterior, codes = answers.posterior, answers.instance_codes
    if posterior is None or codes is None:
        return None
    bags, rows = subject.bags, np.arange(len(posterior))
    best = posterior[rows, codes]
    others = posterior.copy()
    others[rows, codes] = -1.0
    second = others.argmax(axis=1)
    order = np.argsort(best, kind="stable")[:MOST_ROWS]
    order = order[best[order] < 1 - 1e-9]
    sure = float(np.mean(best >= 0.95))
    text = (
        "Each instance is named given the labels of its bag. "
        f"{sure:.0%} of the {len(best):,} names have a probability of at least 0.95."
    )
    if len(order) == 0:
        return Section("Annotation", [text])
    columns = {
        "bag": [names[i] for i in bags.bag_index[order]],
        "row": (order - bags.offsets[bags.bag_index[order]]).tolist(),
        "label": [answers.instance_names[k] for k in codes[order]],
        "probability": best[order].tolist(),
        "or else": [answers.instance_names[k] for k in second[order]],
        "its probability": np.maximum(others[order, second[order]], 0.0).tolist(),
    }
    table = Table(
        columns, f"The {len(order)} least certain instances", bags=bags.bag_index[order].tolist()
    )
    return Section("Annotation", [text, table])


def row_section(subject: Subject, answers: Answers, names: list[str]) -> Section | None:
    """Show the rows of which a semi-supervised model is least, and most, certain.

    Parameters
    ----------
    subject : Subject
        The model and the rows.
    answers : Answers
        What it says.
    names : list of str
        The names of the rows.

    Returns
    -------
    Section or None
    """
    if not subject.works_on_rows or answers.codes is None or answers.certainty is None:
        return None
    order = np.argsort(answers.certainty, kind="stable")
    said = answers.texts(subject.names)
    assert said is not None

    def table(chosen: NDArray[np.intp], caption: str) -> Table:
        columns = {
            "row": [names[i] for i in chosen],
            "predicted": [said[i] for i in chosen],
            "certainty": answers.certainty[chosen].tolist(),  # type: ignore[index]
        }
        return Table(columns, caption, bags=chosen.tolist())

    few = min(15, len(order))
    text = (
        "Certainty is the distance from the nearest other answer: the size of the score for two "
        "classes, for more the lead of the first class over the second. A label given to one of "
        "the least certain rows tells the model most."
    )
    tables = [table(order[:few], "Least certain"), table(order[::-1][:few], "Most certain")]
    return Section("Certain and uncertain rows", [text, SideBySide(tables)])


def cluster_section(
    subject: Subject, answers: Answers, known: KnownLabels | None, names: list[str]
) -> Section | None:
    """Show the clusters: sizes, classes, and a map.

    Parameters
    ----------
    subject : Subject
        The model and the bags.
    answers : Answers
        What it says.
    known : KnownLabels or None
        The labels of the bags.
    names : list of str
        Their names.

    Returns
    -------
    Section or None
    """
    codes = answers.instance_codes
    if not subject.is_clusterer or codes is None:
        return None
    estimator, bags = subject.estimator, subject.bags
    found = np.unique(codes)
    columns: dict[str, list[Any]] = {
        "cluster": [answers.instance_names[k] for k in found],
        "instances": [int((codes == k).sum()) for k in found],
        "bags": [len(np.unique(bags.bag_index[codes == k])) for k in found],
    }
    shares = getattr(estimator, "cluster_class_shares_", None)
    if shares is not None:
        columns["class"] = [str(estimator.cluster_classes_[k]) for k in found]
        columns["its share"] = [float(shares[k].max()) for k in found]
    elif known is not None and known.codes is not None and (bags.sizes == 1).all():
        inside = [known.codes[(codes == k) & (known.codes >= 0)] for k in found]
        counts = [np.bincount(part, minlength=len(known.names)) for part in inside]
        columns["commonest label"] = [
            known.names[int(c.argmax())] if c.any() else None for c in counts
        ]
        columns["its share"] = [float(c.max() / c.sum()) if c.any() else None for c in counts]
    parts: list[Any] = [Table(columns, f"{len(found)} clusters")]
    if "its share" in columns:
        parts.append(
            "The share of a class is estimated from the labels of the bags alone."
            if shares is not None
            else "The share is that of the commonest label among the labelled rows of a cluster."
        )
    space = getattr(estimator, "embedding_", None)
    if space is None or not are_those_of_fit(getattr(estimator, "labels_", None), codes):
        space = subject.seen.instances if subject.seen is not None else None
        where = "the space of the features"
    else:
        where = "the space of the clustering"
    parts.append(_map(space, answers, subject, names, f"Instances in {where}, coloured by cluster"))
    return Section("Clusters", parts)


def space_section(
    subject: Subject, answers: Answers, known: KnownLabels | None, names: list[str]
) -> Section | None:
    """Show what a learned distance brings together, alone or as a step of a pipeline.

    Parameters
    ----------
    subject : Subject
        The model and the bags.
    answers : Answers
        What it says.
    known : KnownLabels or None
        The labels of the bags.
    names : list of str
        Their names.

    Returns
    -------
    Section or None
    """
    learner, before = _metric_step(subject)
    if learner is None or before is None:
        return None
    mapped = learner.transform(before)
    parts: list[Any] = []
    if subject.estimator is learner and answers.instance_codes is not None:
        codes = answers.instance_codes
        found, counts = np.unique(codes[codes >= 0], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MOST_ROWS]
        columns: dict[str, list[Any]] = {
            answers.instance_heading: [answers.instance_names[k] for k in found[order]],
            "instances": counts[order].tolist(),
        }
        left = int((codes < 0).sum())
        beside = f"; {left:,} instances have none" if left else ""
        parts.append(Table(columns, f"How many instances have each label{beside}"))
        groups, group_names = codes, answers.instance_names
    else:
        groups, group_names = np.full(len(subject.bags.bag_index), -1), []
        if known is not None and known.codes is not None:
            groups, group_names = known.codes[subject.bags.bag_index], known.names
    if known is not None and len(subject.bags) > 1:
        parts.append(_neighbours(before, mapped, known))
    shown = Answers(instance_codes=groups, instance_names=list(group_names))
    by = answers.instance_heading if subject.estimator is learner else "label of their bag"
    coloured = f", coloured by {by}" if (groups >= 0).any() else ""
    parts.append(
        _map(mapped.instances, shown, subject, names, f"Instances in the learned space{coloured}")
    )
    return Section("The learned distance", parts)


def _metric_step(subject: Subject) -> tuple[Any, Bags | None]:
    """The metric learner of a model, and the bags before it."""
    steps = [step for _, step in _steps(subject.model) if not hasattr(step, "best_estimator_")]
    places = [i for i, step in enumerate(steps) if hasattr(step, "get_metric")]
    if not places:
        return None, None
    bags = subject.bags
    for step in steps[: places[0]]:
        bags = step.transform(bags)
    return steps[places[0]], bags


def _neighbours(before: Bags, after: Bags, known: KnownLabels) -> Table:
    """How often the nearest instance of another bag is in a bag that shares a label."""
    sets = known.as_sets()
    rows = _sample(before.n_instances)
    index = before.bag_index[rows]
    shares: list[float | None] = []
    for bags in (before, after):
        values = bags.instances[rows]
        values = values.toarray() if sparse.issparse(values) else values
        n_near = min(len(rows), int(np.bincount(index).max()) + 1)
        near = NearestNeighbors(n_neighbors=n_near).fit(values).kneighbors(return_distance=True)[1]
        hits = []
        for place, others in enumerate(near):
            own = index[place]
            foreign = next((j for j in others if index[j] != own), None)
            if foreign is not None and sets[own].min() >= 0 and sets[index[foreign]].min() >= 0:
                hits.append(bool((sets[own] * sets[index[foreign]]).any()))
        shares.append(float(np.mean(hits)) if hits else None)
    columns: dict[str, list[Any]] = {
        "space": ["as the features are", "as learned"],
        "shares a label": [None if s is None else f"{s:.0%}" for s in shares],
    }
    return Table(
        columns,
        "How often the nearest instance of another bag is in a bag that shares a label "
        f"({len(rows)} instances asked; bags the model was fitted on flatter it)",
    )


def _sample(n: int) -> NDArray[np.intp]:
    rows = np.arange(n)
    if n <= MOST_POINTS:
        return rows
    return np.sort(np.random.default_rng(0).permutation(n)[:MOST_POINTS])


def _map(space: Any, answers: Answers, subject: Subject, names: list[str], caption: str) -> Any:
    """Lay instances out in the plane: as they are in two dimensions, else by t-SNE."""
    rows = _sample(space.shape[0])
    codes = answers.instance_codes
    assert codes is not None
    bags, chosen = subject.bags, codes[rows]
    points, by = _plane(space[rows])
    index = bags.bag_index[rows]
    titles = [
        f"{names[i]}, row {row}" + ("" if code < 0 else f": {answers.instance_names[code]}")
        for i, row, code in zip(index, rows - bags.offsets[index], chosen, strict=True)
    ]
    part = f"{len(rows):,} of {space.shape[0]:,} are drawn. " if len(rows) < space.shape[0] else ""
    return point_map(
        points,
        chosen.tolist(),
        answers.instance_names,
        bags=index.tolist(),
        titles=titles,
        caption=f"{caption}{by}. {part}Click a point to open its bag.",
        alt=f"Map. {caption}; the numbers are in the table.",
    )


def _plane(values: Any) -> tuple[NDArray[Any], str]:
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
    return layout.fit_transform(values / values[:, 0].std()), ", laid out by t-SNE (near is alike)"

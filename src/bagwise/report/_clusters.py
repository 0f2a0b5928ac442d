"""The result of a clustering: tables of instances and clusters, and a page with maps."""

from typing import Any

import numpy as np

import bagwise
from bagwise.extras import import_extra
from bagwise.inspection import ClusterMapDisplay
from bagwise.report._page import Figure, Section, Table, render_page


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


def cluster_page(name: str, model: Any, data: Any, columns: dict[str, Any]) -> str:
    """Write the page of a clustering: a table of the clusters, and maps of the instances.

    Parameters
    ----------
    name : str
        The file that was clustered.
    model : estimator
        The fitted clustering.
    data : object with ``bags``, ``instance_labels`` and ``classes``
        The contents of the file.
    columns : dict of str to ndarray
        The result of `clustered_instances`.

    Returns
    -------
    str
        The HTML text.
    """
    size = f"{data.bags.n_instances} instances of {len(data.bags)} bags"
    clusters = Section(
        "Clusters",
        f"{size} in {model.n_clusters} clusters. The share of a class is estimated from the "
        "label sets of the bags.",
        Table(cluster_summary(model), "Clusters and their main classes"),
    )
    sections = [clusters, Section("Map", *_maps(model, data, columns))]
    footer = f"Made by bagwise {bagwise.__version__} with `bagwise cluster`."
    return render_page(f"Clusters of {name}", sections, footer=footer)


def _maps(model: Any, data: Any, columns: dict[str, Any]) -> list[Any]:
    colourings = {"by cluster": list(model.labels_)}
    if data.instance_labels is not None:
        names = data.classes
        colourings["by class, from the file"] = [
            None if k < 0 else (k if names is None else names[k]) for k in data.instance_labels
        ]
    elif "class" in columns:
        colourings["by class, estimated"] = list(columns["class"])
    displays = ClusterMapDisplay.from_embedding(
        model.embedding_, *colourings.values(), titles=list(colourings)
    )
    figures = []
    for display in displays:
        figure = import_extra("matplotlib.figure", extra="report").Figure(
            (6.4, 5.6), layout="constrained"
        )
        display.plot(ax=figure.subplots())
        shown = f"The instances in the space of the clustering, coloured {display.title}"
        figures.append(Figure(figure, f"{shown}.", f"{shown}; {len(display.points)} are shown."))
    return figures

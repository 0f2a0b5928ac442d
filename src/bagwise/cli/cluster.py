"""``bagwise cluster``: the groups, and the sub-classes, inside the bags of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise._methods import CSP
from bagwise.cli.options import (
    File,
    Force,
    Json,
    LabelledColumns,
    NoScale,
    Parameters,
    flag,
    output_option,
    parse_parameters,
)
from bagwise.cli.output import (
    as_records,
    instances_beside,
    note,
    print_json,
    print_table,
    progress,
    refuse_existing,
    write_columns,
)

if TYPE_CHECKING:
    from bagwise.io.contents import Contents

__all__ = ["cluster"]


def cluster(
    file: File,
    n_clusters: Annotated[
        int, typer.Option("--clusters", "-k", metavar="K", min=1, help="Number of clusters.")
    ],
    output: Annotated[
        Path,
        output_option(
            "FILE", "Clusters of instances, .parquet, .csv or .tsv; a page (.html) goes beside it."
        ),
    ],
    columns: LabelledColumns = LabelledColumns(),  # noqa: B008
    no_scale: NoScale = False,
    no_report: Annotated[
        bool, flag("--no-report", help="Write no page with tables and maps.")
    ] = False,
    parameters: Parameters = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the groups of instances inside bags, guided by the labels of the bags.

    Reads a file of bags; those without labels take part with their instances alone. Writes a row
    per instance: its bag, its row there, its cluster, and the class that the cluster refines. With
    as many clusters as labels the clusters are the classes; with more, sub-classes. With -o
    out.parquet, a page with tables and maps goes to out.html. Instances are standardised unless
    --no-scale.

    ```
    bagwise cluster words.csv --bag bag --label-set label_set -k 24 -o clusters.parquet
    bagwise cluster words.csv -k 40 --no-report --json -o clusters.csv
    ```
    """
    instances_beside(output)  # tells of an ending that cannot be written
    page = output.with_suffix(".html")
    refuse_existing([output, *[page][no_report:]], force=force, inputs=[file])
    from bagwise.cli.reading import refuse_gaps
    from bagwise.extras import import_extra

    if not no_report:
        for module in ("jinja2", "matplotlib"):
            import_extra(module, extra="report")
    model = CSP.make({**parse_parameters(parameters or ()), "n_clusters": n_clusters})
    data = columns.choice().read(file)
    refuse_gaps(data.bags)
    labels_of_bags = data.labels if data.label_sets is None else data.label_sets
    known = None if labels_of_bags is None else labels_of_bags.as_sets().tolist()
    with progress(f"Clustering {data.bags.n_instances} instances"):
        _fit(model, data.bags, known, scale=not no_scale)
    instances = _instance_columns(model, data.bags, known)
    write_columns(output, instances, force=force)
    note(f"{data.bags.n_instances} instances in {n_clusters} clusters: {output}")
    summary = _cluster_columns(model)
    if not no_report:
        with progress("Drawing the map"):
            _write_page(page, file, model, data, instances, summary)
        note(f"Map and tables: {page}")
    if json:
        written = [output, *[page][no_report:]]
        facts = {"file": file, "bags": len(data.bags), "instances": data.bags.n_instances}
        print_json(facts | {"written": written, "clusters": as_records(summary)})
    else:
        print_table(summary, title="Clusters")


def _fit(model: Any, bags: Any, known: Any, *, scale: bool) -> None:
    from scipy import sparse
    from sklearn.preprocessing import StandardScaler

    from bagwise.preprocessing import InstanceTransformer

    if scale:
        scaler = StandardScaler(with_mean=not sparse.issparse(bags.instances))
        bags = InstanceTransformer(scaler).fit_transform(bags)
    model.fit(bags, known)


def _instance_columns(model: Any, bags: Any, known: Any) -> dict[str, Any]:
    """Bag, row, cluster and, where labels are known, the likeliest class of each instance."""
    import numpy as np

    rows = np.arange(bags.n_instances) - bags.offsets[bags.bag_index]
    columns = {"bag": bags.names[bags.bag_index], "row": rows, "cluster": model.labels_}
    if model.classes_ is None:
        return columns
    # Of the labels of its bag, the one most frequent in its cluster; of all, where none is known.
    shares = model.cluster_class_shares_[model.labels_]
    allowed = np.array([[s is None or not s or c in s for c in model.classes_] for s in known])
    inside = np.where(allowed[bags.bag_index], shares, -1.0)
    columns["class"] = model.classes_[inside.argmax(axis=1)]
    return columns


def _cluster_columns(model: Any) -> dict[str, Any]:
    import numpy as np

    columns = {
        "cluster": np.arange(model.n_clusters),
        "instances": np.bincount(model.labels_, minlength=model.n_clusters),
    }
    if model.classes_ is not None:
        columns["class"] = model.cluster_classes_
        columns["share"] = model.cluster_class_shares_.max(axis=1)
    return columns


def _write_page(
    page: Path,
    file: Path,
    model: Any,
    data: Contents,
    columns: dict[str, Any],
    summary: dict[str, Any],
) -> None:
    from bagwise import __version__
    from bagwise.report._page import Section, Table, render_page

    size = f"{data.bags.n_instances} instances of {len(data.bags)} bags"
    parts: list[Any] = [
        f"{size} in {model.n_clusters} clusters. The share of a class is estimated from the "
        "label sets of the bags.",
        Table(summary, "Clusters, and the class that each refines"),
    ]
    sections = [Section("Clusters", parts), Section("Map", _maps(model, data, columns))]
    text = render_page(
        f"Clusters of {file.name}",
        sections,
        footer=f"Made by bagwise {__version__} with `bagwise cluster`.",
    )
    page.write_text(text, encoding="utf-8")


def _maps(model: Any, data: Contents, columns: dict[str, Any]) -> list[Any]:
    from bagwise.extras import import_extra
    from bagwise.inspection import ClusterMapDisplay
    from bagwise.report._page import Figure

    colourings = {"by cluster": list(model.labels_)}
    if data.instance_labels is not None:
        names = data.classes
        colourings["by class, as the file has it"] = [
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
        figures.append(Figure(figure, f"{shown}.", f"{shown}; {len(display.points)} are drawn."))
    return figures

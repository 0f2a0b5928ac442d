"""``bagwise cluster``: groups and sub-classes of the instances in a file of bags."""

from pathlib import Path
from typing import Any

from bagwise.auto._methods import find_method
from bagwise.cli import options
from bagwise.cli.output import as_records, note, print_table, progress, refuse_existing


def cluster(
    columns: options.Columns,
    steps: options.Steps,
    file: Path = options.FILE,
    k: int = options.option("Number of clusters.", "K", "--clusters", "-k", default=..., min=1),
    output: Path = options.output("Clusters of instances, .parquet, .csv or .tsv.", "FILE"),
    method: str = options.option("csp, or csp@published.", "NAME", "--method", "-m", default="csp"),
    no_report: bool = options.flag("--no-report", "Do not write the HTML page."),
    parameters: list[str] | None = options.PARAMETERS,
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Cluster the instances of bags, guided by the label sets of the bags.

    Reads a file of bags, with or without labels. Writes a row per instance: its bag, its row in the
    bag, its cluster, and the class of the cluster. With as many clusters as labels the clusters
    recover the classes; with more they find sub-classes. Similarities are weighted by the
    probability that two instances have the same label (ORed logistic regression); --set alpha=0.7
    uses the constraints of the paper instead, and -m csp@published is the paper as printed. -o
    out.parquet also writes an HTML page with tables and plots to out.html. Instances are
    standardised unless --no-scale is given.

    ```
    bagwise cluster words.csv --bag bag --label-set label_set -k 24 -o clusters.parquet
    bagwise cluster words.csv -k 40 --no-report --json -o clusters.csv
    ```
    """
    from bagwise.io._write_table import file_beside, write_columns

    file_beside(output, "instances")  # rejects an unknown suffix
    page = output.with_suffix(".html")
    written = [output] if no_report else [output, page]
    refuse_existing(written, force=force, inputs=[file])

    from bagwise._common.extras import import_extra
    from bagwise.cli.reading import check_features, label_sets_of, read_columns
    from bagwise.cli.results import with_places
    from bagwise.preprocessing._bag_pipeline import instance_steps
    from bagwise.report import Report
    from bagwise.report._sections import cluster_columns, clustered_instances

    for module in ("jinja2", "matplotlib") if not no_report else ():
        import_extra(module, extra="report")
    chosen = find_method(method, "cluster")
    size = "K" if "K" in chosen.parameters else "n_clusters"
    model = chosen.make({**options.parse_parameters(parameters), size: k})
    data = read_columns(file, columns)
    bags, labels = data.bags, label_sets_of(data)
    check_features(bags, steps, wide=False)
    known = None if labels is None else labels.targets
    for _, step in instance_steps(sparse=bags.is_sparse, **steps.arguments):
        bags = step.fit_transform(bags)
    with progress(f"Clustering {bags.n_instances} instances"):
        model.fit(bags, known)
    instances = with_places(clustered_instances(model, data.bags, known), data)
    write_columns(output, instances, force=force)
    note(f"{bags.n_instances} instances in {k} clusters: {output}")
    summary = cluster_columns(model, model.labels_)
    if not no_report:
        with progress("Drawing the map"):
            Report(model, bags, known, title=f"Clusters of {file.name}").save(page, force=force)
        note(f"Map and tables: {page}")
    print_table(summary, title="Clusters")
    facts = {"file": file, "bags": len(bags), "instances": bags.n_instances}
    return facts | {"written": written, "clusters": as_records(summary)}

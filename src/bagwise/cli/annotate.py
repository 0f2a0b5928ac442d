"""``bagwise annotate``: name the instances of bags whose label sets are known."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise._methods import find_method, make_model
from bagwise.cli.corrections import fit_arguments, known_labels, read_known
from bagwise.cli.options import (
    Bag,
    Corrections,
    Exclude,
    Features,
    File,
    Force,
    Json,
    NoScale,
    Parameters,
    Separator,
    flag,
    output_option,
    parse_parameters,
)
from bagwise.cli.output import (
    as_records,
    note,
    noting_compilation,
    print_json,
    print_table,
    progress,
    refuse_existing,
    some_names,
)


def annotate(
    file: File,
    labels: Annotated[
        str,
        typer.Option(
            "--labels",
            "--label-set",
            metavar="COLUMN",
            help='Column with the labels of the bag, as "a;b"; empty where nothing is known.',
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, output_option("FILE", "The instances with their labels, .parquet, .csv or .tsv.")
    ],
    bag: Bag = None,
    background: Annotated[
        bool, flag("--background", help="Some instances belong to none of the labels.")
    ] = False,
    review: Annotated[
        int, typer.Option("--review", metavar="N", help="Show the N least certain.", min=0)
    ] = 10,
    features: Features = None,
    exclude: Exclude = None,
    separator: Separator = ";",
    no_scale: NoScale = False,
    parameters: Parameters = None,
    corrections: Corrections = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Name each instance, when only the labels of its bag are known (ORed logistic regression).

    Reads a file of bags and learns from all of them. Writes a row per instance: the likeliest
    label, its probability and the runner-up. With -o out.parquet the same rows, least certain
    first, go to out.review.parquet; the first of them are shown.

    ```
    bagwise annotate words.csv --labels label_set -o annotated.parquet
    bagwise annotate words.csv --labels label_set --set reg=0.1 --review 3 --json -o annotated.csv
    ```
    """
    from bagwise.io.write_columns import file_beside, write_columns

    beside = file_beside(output, "review")
    refuse_existing([output, beside], force=force, inputs=[file])
    from bagwise.cli.reading import choose_columns, refuse_gaps
    from bagwise.inspection._tables import annotation_table

    method = find_method("orlr")
    values = parse_parameters(parameters or ())
    if background:
        values["background"] = True
    choice = choose_columns(
        bag=bag, label_set=labels, features=features, exclude=exclude, separator=separator
    )
    corrected = read_known(corrections, method.make(values), method.name)
    data = choice.read(file)
    refuse_gaps(data.bags)
    assert data.label_sets is not None
    sets = data.label_sets.tolist()
    model = make_model(method, values, scale=not no_scale, sparse=_is_sparse(data.bags))
    written = dict(zip(data.label_sets.names, data.label_sets.classes.tolist(), strict=True))
    known = known_labels(corrected, data.bags, written, background=values.get("background"))
    with (
        noting_compilation(),
        progress(f"Annotating {data.bags.n_instances} instances of {len(data.bags)} bags"),
    ):
        model.fit(data.bags, sets, **fit_arguments(model, known))
        columns = annotation_table(model, data.bags, sets, instance_labels=known)
    write_columns(output, columns, force=force)
    order = columns["probability"].argsort(kind="stable")
    least_certain = {name: column[order] for name, column in columns.items()}
    write_columns(beside, least_certain, force=force)
    note(f"features: {some_names(data.bags.feature_names, data.bags.n_features)}")
    note(f"{data.bags.n_instances} instances of {len(data.bags)} bags: {output}")
    note(f"least certain first: {beside}")
    shown: dict[str, Any] = {name: column[:review] for name, column in least_certain.items()}
    if json:
        facts = {"file": file, "bags": len(data.bags), "instances": data.bags.n_instances}
        print_json(facts | {"written": [output, beside], "least_certain": as_records(shown)})
    elif review:
        title = f"The {min(review, len(order))} least certain"
        print_table(shown, title=title)


def _is_sparse(bags: Any) -> bool:
    from scipy import sparse

    return bool(sparse.issparse(bags.instances))

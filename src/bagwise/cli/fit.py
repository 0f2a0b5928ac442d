"""``bagwise fit``: learn a model from a file of labelled bags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.cli.methods import find_method, make_model, parse_parameters
from bagwise.cli.options import (
    Bag,
    Exclude,
    Features,
    File,
    Force,
    Label,
    Labels,
    LabelSet,
    MemoryLimit,
    MethodName,
    NoScale,
    Parameters,
    Positive,
    Separator,
)
from bagwise.cli.output import note, progress, refuse_existing, some_names

if TYPE_CHECKING:
    from bagwise.cli.reading import ColumnChoice, Labelled

__all__ = ["fit"]


def fit(
    file: File,
    method: MethodName,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="MODEL", help="The model, a .skops file.", show_default=False
        ),
    ],
    bag: Bag = None,
    label: Label = None,
    label_set: LabelSet = None,
    positive: Positive = None,
    labels: Labels = None,
    features: Features = None,
    exclude: Exclude = None,
    separator: Separator = ";",
    no_scale: NoScale = False,
    parameters: Parameters = None,
    memory_limit: MemoryLimit = None,
    force: Force = False,
) -> None:
    """Learn a model from labelled bags.

    Instances are standardised unless --no-scale. The model remembers its columns.

    Example: bagwise fit slides.csv --bag slide --label tumour -m nsk --set C=10 -o model.skops
    """
    refuse_existing([output], force=force, inputs=[file])
    from bagwise.cli.fingerprints import MOST_BAGS, fingerprints
    from bagwise.cli.reading import choose_columns, read_labelled
    from bagwise.extras import import_extra
    from bagwise.persistence import save_model

    import_extra("skops.io", extra="persist")  # better told now than after a long fit
    chosen = find_method(method)
    values = parse_parameters(parameters or ())
    chosen.make(values)  # a wrong parameter is told before a long reading
    choice = choose_columns(
        bag,
        label,
        label_set,
        features=features,
        exclude=exclude,
        separator=separator,
        labels=labels,
        memory_limit=memory_limit,
    )
    data = read_labelled(file, choice, positive=positive)
    chosen.check_labels(label_sets=data.has_sets)
    model = make_model(chosen, values, scale=not no_scale, sparse=data.is_sparse)
    with progress(f"Fitting {chosen.name} on {len(data.bags)} bags"):
        model.fit(data.bags, _targets(data))
    facts = {
        "method": chosen.name,
        "parameters": values,
        "classes": None if positive is None else data.classes.tolist(),
        "columns": _columns(choice),
    }
    if len(data.bags) <= MOST_BAGS:
        facts["training"] = fingerprints(data.bags)  # so that a report knows them again
    save_model(model, output, metadata=facts, force=force)
    note(f"features: {some_names(data.bags.feature_names, data.bags.n_features)}")
    note(f"{chosen.name} learned from {len(data.bags)} bags{data.positive_note}: {output}")


def _targets(data: Labelled) -> Any:
    """Labels as the model shall name them: label sets as sets of names."""
    if not data.has_sets:
        return data.y
    names = data.classes.tolist()
    return [{names[k] for k in row.nonzero()[0]} for row in data.y]


def _columns(choice: ColumnChoice) -> dict[str, Any]:
    return {
        "bag": choice.bag,
        "label": choice.label,
        "label_set": choice.label_set,
        "features": choice.features,
        "exclude": choice.exclude,
        "separator": choice.separator,
    }

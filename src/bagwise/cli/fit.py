"""``bagwise fit``: learn a model from a file of labelled bags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bagwise._methods import find_method, make_model
from bagwise.cli.corrections import fit_arguments, known_labels, read_known
from bagwise.cli.options import (
    CheckpointFile,
    Corrections,
    File,
    Force,
    Json,
    LabelledColumns,
    MemoryLimit,
    MethodName,
    NoScale,
    Parameters,
    Positive,
    output_option,
    parse_parameters,
)
from bagwise.cli.output import (
    note,
    noting_compilation,
    print_json,
    progress,
    refuse_existing,
    some_names,
)

if TYPE_CHECKING:
    from bagwise.cli.reading import ColumnChoice, Labelled

__all__ = ["fit"]


def fit(
    file: File,
    method: MethodName,
    output: Annotated[Path, output_option("MODEL", "The model, a .skops file.")],
    columns: LabelledColumns = LabelledColumns(),  # noqa: B008
    positive: Positive = None,
    no_scale: NoScale = False,
    parameters: Parameters = None,
    memory_limit: MemoryLimit = None,
    checkpoint: CheckpointFile = None,
    corrections: Corrections = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn a model from labelled bags.

    Reads a file with a row per instance, or an npz or HDF5 file of bags; bags without a label are
    left out. Writes the model, a .skops file that remembers its columns: `bagwise predict` uses it.
    Instances are standardised unless --no-scale. With --corrections, labels of instances that
    somebody looked at are held fixed (-m orlr).

    ```
    bagwise fit musk1.csv -m nsk --set C=10 -o model.skops
    bagwise fit musk1.csv -m pdmisvm -o pdmisvm.skops --save-config run.toml
    bagwise fit --config run.toml -o again.skops
    ```
    """
    refuse_existing([output], force=force, inputs=[file])
    from bagwise.cli.reading import read_labelled
    from bagwise.extras import import_extra
    from bagwise.persistence import save_model
    from bagwise.persistence._fingerprints import MOST_BAGS, fingerprints

    import_extra("skops.io", extra="persist")  # better told now than after a long fit
    chosen = find_method(method)
    values = parse_parameters(parameters or ())
    settings = values if checkpoint is None else values | {"checkpoint": str(checkpoint)}
    estimator = chosen.make(settings)  # a wrong parameter is told before a long reading
    said = read_known(corrections, estimator, chosen.name)
    choice = columns.choice(memory_limit=memory_limit)
    data = read_labelled(file, choice, positive=positive)
    chosen.check_labels(label_sets=data.has_sets)
    model = make_model(chosen, settings, scale=not no_scale, sparse=data.is_sparse)
    names = range(2) if positive is not None else data.classes.tolist()
    written = dict(zip(map(str, data.classes), names, strict=True))
    known = known_labels(said, data.bags, written, background=values.get("background"))
    with noting_compilation(), progress(f"Fitting {chosen.name} on {len(data.bags)} bags"):
        model.fit(data.bags, _targets(data), **fit_arguments(model, known))
    if checkpoint is not None:  # which is gone, and of no meaning where the model is used
        model.set_params(**{n: None for n in model.get_params() if n.endswith("checkpoint")})
    facts = {
        "method": chosen.name,
        "parameters": values,
        "classes": None if positive is None else data.classes.tolist(),
        "columns": _columns(choice),
        "corrections": sum(label is not None for label in known or ()),
    }
    if len(data.bags) <= MOST_BAGS:
        facts["training"] = fingerprints(data.bags)  # so that a report knows them again
    save_model(model, output, metadata=facts, force=force)
    note(f"features: {some_names(data.bags.feature_names, data.bags.n_features)}")
    note(f"{chosen.name} learned from {len(data.bags)} bags{data.positive_note}: {output}")
    if json:
        size = {"bags": len(data.bags), "instances": data.bags.n_instances}
        named = {"features": data.bags.n_features, "feature_names": data.bags.feature_names}
        print_json({"model": output, **facts, **size, **named, "classes": data.classes})


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

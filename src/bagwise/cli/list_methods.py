"""``bagwise methods``: what can be asked for with ``--method``."""

from __future__ import annotations

from typing import Annotated

import typer

from bagwise._methods import METHODS, Method, find_method
from bagwise.cli.options import Json, matching_methods
from bagwise.cli.output import print_json, print_table

__all__ = ["methods"]


def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", autocompletion=matching_methods, help="One of them; all by default."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the methods, their parameters and the papers they come from.

    Names are what `--method` of `fit` and `evaluate` takes, parameters (with their defaults) what
    `--set` takes.

    ```
    bagwise methods
    bagwise methods pdmisvm
    bagwise methods --json
    ```
    """
    chosen = list(METHODS.values()) if name is None else [find_method(name)]
    if json:
        print_json([_facts(method) for method in chosen])
        return
    for method in chosen:
        facts = _facts(method)
        shown = {
            "what": facts["title"],
            "labels": facts["labels"],
            "--set": ", ".join(f"{key}={value}" for key, value in method.parameters.items()),
            "paper": facts["paper"],
        }
        columns: dict[str, list[object]] = {"": list(shown), "value": list(shown.values())}
        print_table(columns, title=method.name, heading=False)


def _facts(method: Method) -> dict[str, object]:
    sets = "one label or a label set per bag"
    return {
        "name": method.name,
        "title": method.title,
        "labels": sets if method.label_sets else "one label per bag",
        "parameters": method.parameters,
        "paper": method.paper,
        "needs": method.needs,
        "available": method.available,
    }

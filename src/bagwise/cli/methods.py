"""``bagwise methods``: the methods that ``--method`` takes."""

from typing import Any

from bagwise.auto._methods import METHODS, PUBLISHED, Method, find_method, search_methods
from bagwise.cli import options
from bagwise.cli.output import print_lines, print_table
from bagwise.exceptions import InputError


def methods(
    name: str | None = options.argument(
        "A method; all by default.", "[NAME]", None, autocompletion=options.matching_methods
    ),
    search: str | None = options.option("Find methods by a word, such as an author.", "WORD"),
) -> list[dict[str, Any]]:
    """List the methods, their parameters and their papers.

    -m of the other commands accepts the name in the first column, the name in the paper, or the
    Python class, in upper or lower case. With NAME, one method is shown with its parameters and
    their defaults, for --set. "keeps" is the assumption about bags that the method keeps, see
    `bagwise audit`. NAME@published is the system of a paper exactly as printed.

    ```
    bagwise methods
    bagwise methods pdmisvm
    bagwise methods --search "MI-SVM"
    bagwise methods --json
    ```
    """
    if search is not None:
        chosen = search_methods(search)
        if not chosen:
            raise InputError(f"no method matches {search!r}: see `bagwise methods`.")
    elif name is not None:
        chosen = [find_method(name, "any")]
    else:
        chosen = [*METHODS.values(), *PUBLISHED.values()]
    facts = [_facts(method) for method in chosen]
    if len(chosen) > 1:
        columns = {
            "-m": [method.name for method in chosen],
            "in papers": [method.paper_name for method in chosen],
            "class": [method.class_name or "" for method in chosen],
            "what it does": [method.title for method in chosen],
        }
        print_table(columns)
        print_lines(["Parameters and paper of a method: bagwise methods NAME"])
        return facts
    shown = facts[0] | {"aliases": ", ".join(chosen[0].aliases)}
    for name in [name for name in shown if name.startswith("parameters")]:
        values: Any = shown.pop(name) or {}
        shown[name.replace("parameters", "--set").replace("_", " ")] = ", ".join(
            f"{key}={default}" for key, default in values.items()
        )
    print_table({"": list(shown), "value": list(shown.values())}, heading=False)
    return facts


def _facts(method: Method) -> dict[str, Any]:
    sets = "one label or a label set per bag"
    labels = sets if method.label_sets else "one label per bag"
    return {
        "name": method.name,
        "title": method.title,
        "class": method.class_name,
        "aliases": method.aliases,
        "command": method.command or "fit, evaluate",
        "labels": labels if method.regressor is None else f"{labels}, or a number per bag",
        "keeps": method.keeps if method.command is None else None,
        "parameters": method.parameters,
        "parameters_for_numbers": method.regressor and method.for_numbers().parameters,
        "paper": method.paper,
        "needs": method.needs,
        "available": method.available,
    }

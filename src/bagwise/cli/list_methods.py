"""``bagwise methods``: what can be asked for with ``--method``."""

from __future__ import annotations

from bagwise.cli.methods import METHODS
from bagwise.cli.output import print_table

__all__ = ["methods"]


def methods() -> None:
    """List the methods, their parameters and the papers they come from."""
    for method in METHODS.values():
        parameters = [f"{name}={value}" for name, value in method.parameters.items()]
        facts = {
            "what": method.title,
            "labels": "one label or a label set per bag"
            if method.label_sets
            else "one label per bag",
            "--set": ", ".join(parameters),
            "paper": method.paper,
        }
        columns = {"": list(facts), "value": list(facts.values())}
        print_table(columns, title=method.name, heading=False)

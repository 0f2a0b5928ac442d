"""``bagwise methods`` and ``bagwise audit``: the methods, and which assumption each keeps."""

from __future__ import annotations

from typing import Any

from bagwise.auto._methods import METHODS, Method, audited_model, find_method, search_methods
from bagwise.cli import options
from bagwise.cli.output import as_records, print_lines, print_table, progress
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
    `bagwise audit`.

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
    else:
        chosen = list(METHODS.values()) if name is None else [find_method(name)]
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


def audit(
    method: list[str] | None = options.methods("; repeat for more. By default all."),
    seeds: int = options.option("Number of random data sets per test.", default=20, min=1),
    parameters: list[str] | None = options.PARAMETERS,
) -> Any:
    """Test which assumption of multiple-instance learning the methods keep.

    The tests use synthetic bags. In the training bags, a clue that the assumption forbids also
    predicts the label; in the test bags, the clue is moved. A method that keeps the assumption has
    the same AUC after the move. A method passes if its mean AUC is at least .95 before and after
    the move; a test that can no longer be passed ends early. Instances are standardised. The rows
    `order` and `copies` show whether the score depends on the order of instances or on copies of
    them; `monotone` shows whether an additional instance can lower the score of the positive class.
    Testing all methods takes several minutes.

    ```
    bagwise audit
    bagwise audit -m miles --seeds 2
    bagwise audit -m miles -m minimax --set miles.C=10 --seeds 1 --json
    ```
    """
    from bagwise.assumptions import check_assumptions
    from bagwise.assumptions._check import overview
    from bagwise.base._pipelines import kept_assumption

    available = [found.name for found in METHODS.values() if found.available]
    chosen = {found.name: found for found in map(find_method, method or available)}
    values = options.parse_parameters(parameters)
    settings = options.parameters_by_method(values, chosen)
    models = {name: audited_model(found, settings[name]) for name, found in chosen.items()}
    with progress("Auditing") as step:
        checks = {
            name: check_assumptions(model, seeds=seeds, after_fit=step)
            for name, model in models.items()
        }
    if len(checks) == 1:
        ((name, check),) = checks.items()
        table = check.table()
        table["decoy"] = ["" if decoy is None else f"{decoy:g}" for decoy in table["decoy"]]
        print_table(table, title=f"{name} keeps: {check.keeps}")
    else:
        print_table(overview(checks), title="AUC as trained → after the move (worst decoy)")
    facts = [
        {"name": name, "declared": kept_assumption(models[name]), "keeps": check.keeps}
        | {"tests": as_records(check.table())}
        for name, check in checks.items()
    ]
    return {"seeds": seeds, "parameters": values, "methods": facts}

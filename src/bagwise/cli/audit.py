"""``bagwise audit``: which assumption of multiple-instance learning each method keeps."""

from typing import Any

from bagwise.auto._methods import METHODS, audited_model, find_method
from bagwise.cli import options
from bagwise.cli.output import as_records, print_table, progress


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
        how: Any = {"seeds": seeds, "after_fit": step}
        checks = {name: check_assumptions(model, **how) for name, model in models.items()}
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

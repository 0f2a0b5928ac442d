"""``bagwise fit``: learn a model from a file of labelled bags."""

from pathlib import Path
from typing import Any

from bagwise.cli import options
from bagwise.cli.output import note, print_table, refuse_existing


def fit(
    columns: options.Columns,
    steps: options.Steps,
    task: options.Task,
    rates: options.Rates,
    file: Path = options.FILE,
    output: Path = options.output("The model, a .skops file.", "MODEL"),
    method: str = options.methods(".", "auto"),
    group: str | None = options.GROUP,
    folds: int | None = options.option("Number of folds of auto, 5 by default.", "N", min=2),
    seed: int | None = options.option("Seed of folds and random methods.", "N", min=0),
    background: bool = options.BACKGROUND,
    check: Path | None = options.CHECK,
    noisy_sets: bool = options.NOISY_SETS,
    parameters: list[str] | None = options.PARAMETERS,
    checkpoint: Path | None = options.option("File to continue from after a crash.", "PATH"),
    corrections: Path | None = options.CORRECTIONS,
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Fit a model to labelled bags.

    Reads a file with a row per instance, or an npz or HDF5 file of bags; bags without a label are
    left out. Writes the model to a .skops file, with the names of its columns, for `bagwise
    predict`. Without -m several methods are calibrated and combined, and a table shows the score
    and weight of each; --group keeps the bags of a group in one fold of this comparison. Instances
    are standardised unless --no-scale is given. A label column with many different numbers is a
    regression target (--task), also if some are bounds, such as <5, >=10 or 4-6. --order 0,1,2,3
    makes the labels grades. --sensitivity .95 (or --specificity, --precision) chooses the threshold
    of the positive class on held-out bags, by groups: `bagwise predict` applies it, and the rates
    to expect are printed with their intervals; methods but auto are cross-validated for it. With
    more than two labels, --pos-label learns one against the rest. With --corrections, known labels
    of instances are kept fixed (-m orlr). --check labelled.csv chooses the threshold of background
    for `bagwise predict` by the labels of 50 to 200 instances (-m orlr --background). --checkpoint
    saves the state of a long fit at intervals, and the same command continues from it (pdmisvm,
    orlr, noisy-or, mimlca, plda).

    ```
    bagwise fit musk1.csv -o auto.skops
    bagwise fit musk1.csv -m nsk --set C=10 -o model.skops
    bagwise fit musk1.csv -m nsk --sensitivity .9 -o sensitive.skops
    ```
    """
    refuse_existing([output], force=force, inputs=[file])

    from bagwise._common.extras import import_extra
    from bagwise.cli.fitting import learn
    from bagwise.cli.results import checked_threshold
    from bagwise.predictions import Predictions
    from bagwise.report._sections import LEADERBOARD_CAPTION, leaderboard_columns

    import_extra("skops.io", extra="persist")  # fail now rather than after a long fit
    own: Any = {"background": background, "noisy_sets": noisy_sets, "folds": folds, "seed": seed}
    fitted = learn(
        file,
        columns,
        steps,
        task,
        method=method,
        group=group,
        own=own,
        parameters=options.parse_parameters(parameters),
        checkpoint=checkpoint,
        corrections=corrections,
        rates=rates.given,
    )
    if check is not None:
        found = Predictions(fitted.model, fitted.data.bags)
        proba = found.call("predict_proba_instances")
        fitted.metadata.update(checked_threshold(check, found, fitted.data, proba))
    fitted.save(output, force=force)
    facts, bags, target = dict(fitted.metadata), fitted.data.bags, fitted.target
    leaderboard = fitted.leaderboard_columns
    if leaderboard is not None:
        facts["leaderboard"] = leaderboard
        print_table(leaderboard_columns(leaderboard), title=LEADERBOARD_CAPTION)
    note(f"{facts['method']} learned from {len(bags)} bags{target.positive}: {output}")
    facts |= {"bags": len(bags), "instances": bags.n_instances, "features": bags.n_features}
    return facts | {"model": output, "feature_names": bags.feature_names, "classes": target.classes}

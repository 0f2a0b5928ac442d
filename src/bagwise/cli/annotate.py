"""``bagwise annotate``: label the instances of bags whose label sets are known."""

from pathlib import Path
from typing import Any

from bagwise import __version__
from bagwise.auto._methods import find_method, make_model
from bagwise.cli import options
from bagwise.cli.output import as_records, note, print_table, progress, refuse_existing
from bagwise.exceptions import InputError, LabelError, counted


def annotate(
    columns: options.Columns,
    steps: options.Steps,
    label_files: options.LabelFiles,
    media: options.Media,
    file: Path = options.FILE,
    output: Path = options.output("The labels of instances, .parquet, .csv or .tsv.", "FILE"),
    method: str = options.option(
        "orlr, or orlr@published.", "NAME", "--method", "-m", default="orlr"
    ),
    background: bool = options.BACKGROUND,
    background_above: float | None = options.BACKGROUND_ABOVE,
    check: Path | None = options.CHECK,
    probabilities: bool = options.flag("--probabilities", "Add the probability of each label."),
    noisy_sets: bool = options.NOISY_SETS,
    label_studio: Path | None = options.option("Also write Label Studio tasks, .json.", "FILE"),
    media_url: str = options.option("Prefix of file names for Label Studio.", "TEXT", default=""),
    review: int = options.option("Print the N least certain instances.", "N", default=10, min=0),
    parameters: list[str] | None = options.PARAMETERS,
    corrections: Path | None = options.CORRECTIONS,
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Label each instance, given the label sets of the bags (ORed logistic regression).

    Reads a file of bags and fits a model to all of them. Writes a row per instance: the most
    probable label, its probability and the second most probable label; with --background an
    instance may be background. -o out.parquet also writes the same rows, least certain first, to
    out.review.parquet, and prints the first of them. With --noisy-sets an instance may get a label
    that is not in the label set of its bag, and two more columns contain the probability that the
    set is wrong, and the wrong label.

    --check labelled.csv reads the labels of 50 to 200 instances, as rows of an earlier output with
    a corrected label (bag, row from 0, label; background where there is none; for clips also file,
    start, label), prints how many are right, false and missed by the threshold of the background
    probability, and uses the best.

    For a table of sound clips (file, start, end), --raven and --audacity write label files for
    these programs, without background. Change a wrong label there, or confirm it (type into Checked
    in Raven; remove the "? 62 %" in Audacity), and pass the folder to --corrections of this command
    or of `bagwise fit`. --label-studio writes tasks with the labels as predictions, which show the
    column of --image, --audio or --text; annotate them there, and pass the exported JSON to
    --corrections. The labelling interface is written next to the tasks (.xml).

    ```
    bagwise annotate words.csv --label-set label_set -o annotated.parquet
    bagwise annotate words.csv --set reg=0.1 --review 3 --json -o annotated.csv
    ```
    """
    from bagwise.base._pipelines import final_estimator, fit_arguments
    from bagwise.cli.reading import check_features, label_sets_of, read_columns, read_known
    from bagwise.cli.results import check_folders, checked_threshold, with_places, write_folders
    from bagwise.io._write_table import file_beside, write_columns
    from bagwise.predictions import Predictions, doubted_bags

    shown, unsure = media.only, file_beside(output, "review")
    written = [output, unsure]
    if label_studio is not None:
        if label_studio.suffix.lower() != ".json":
            raise InputError(f"--label-studio {label_studio}: expected the name of a .json file.")
        written += [label_studio, label_studio.with_suffix(".xml")]
    elif shown is not None:
        raise InputError(f"--{shown[0]} needs --label-studio, which shows it.")
    if shown is not None:
        columns.keep = list(dict.fromkeys([*(columns.keep or ()), shown[1]]))
    refuse_existing(written, force=force, inputs=[file])
    chosen = find_method(method)
    flags = options.own_parameters(chosen, background=background, noisy_sets=noisy_sets)
    values = flags | options.parse_parameters(parameters)
    if background_above is not None and values.get("background", False) is False:
        raise InputError("--background-above needs --background.")
    estimator = chosen.make(values)
    # The noisy-or has no most probable label: an instance may have several, or none.
    if hasattr(estimator, "annotate_sets") or not hasattr(estimator, "annotate_proba"):
        raise InputError(f"{chosen.name} does not annotate instances: use -m orlr, or predict.")
    corrected = read_known(corrections, estimator, chosen.name)

    data = read_columns(file, columns)
    bags, labels, known = data.bags, label_sets_of(data), None
    if labels is None:
        raise LabelError("the bags have no labels: name their column with label_set= or label=.")
    check_features(bags, steps)
    folders = check_folders(label_files, data, force=force)
    if corrected is not None:
        labels = corrected.correct_sets(labels, data)
        names = dict(zip(labels.names, labels.classes.tolist(), strict=True))
        known = corrected.match(bags, names, values.get("background"))
    sets = labels.targets
    _refuse_trivial(labels, values)

    model = make_model(chosen, values, sparse=bags.is_sparse, **steps.arguments)
    with progress(f"Annotating {counted(bags.n_instances, 'instance')}"):
        model.fit(bags, sets, **fit_arguments(model, instance_labels=known))
        seen = Predictions(model, bags, sets)
        if check is not None:
            limits = checked_threshold(check, seen, data, model.annotate_proba(bags, sets))
            background_above = limits["background_above"]
        found: dict[str, Any] = seen.annotation_table(
            instance_labels=known, background_above=background_above, probabilities=probabilities
        )
        doubts: dict[str, Any] = doubted_bags(model, bags, sets) if noisy_sets else {}
    found = with_places(found | _doubt_columns(doubts, found["bag"]), data)
    order = found["probability"].argsort(kind="stable")
    ranked = {name: column[order] for name, column in found.items()}
    write_columns(output, found, force=force)
    write_columns(unsure, ranked, force=force)
    nothing = getattr(final_estimator(model), "background_label_", None)
    write_folders(folders, data, found, background=nothing, force=force)
    note(f"{counted(bags.n_instances, 'instance')} of {counted(len(bags), 'bag')}: {output}")
    note(f"least certain first: {unsure}")
    if label_studio is not None:
        size = {"size": bags.sizes[bags.bag_index][order]}
        tasks = {name: ranked[name] for name in with_places({"bag": 0, "row": 0}, data)} | size
        _write_tasks(label_studio, shown, media_url, tasks, ranked, labels.names, force)
    first = {name: column[:review] for name, column in ranked.items()}
    doubted = {name: column[:review] for name, column in doubts.items()}
    if review:
        # The probabilities of each label are in the file.
        left_out = ("probability_", "background_probability")
        brief = {name: cells for name, cells in first.items() if not name.startswith(left_out)}
        print_table(brief, title=f"The {len(first['bag'])} least certain")
        if doubted:
            print_table(doubted, title=f"The {len(doubted['bag'])} most doubtful label sets")
    facts = {"file": file, "bags": len(bags), "instances": bags.n_instances}
    facts |= {"written": [*written[:2], *folders.values()], "least_certain": as_records(first)}
    return facts | ({"doubted_sets": as_records(doubted)} if noisy_sets else {})


def _refuse_trivial(labels: Any, values: dict[str, Any]) -> None:
    """Raise an error if each bag has one label, which all of its instances then have."""
    others_possible = values.get("background", False) is not False or values.get("missing", 0) != 0
    single = labels.whole & labels.known & ((labels.indicator == 1).sum(axis=1) == 1)
    if not others_possible and single.all():
        raise LabelError(
            "every bag has exactly one label, which all of its instances would get: add "
            "--background, or use bagwise fit and bagwise predict to classify bags."
        )


def _write_tasks(
    path: Path, shown: Any, prefix: str, tasks: Any, results: Any, names: list[str], force: bool
) -> None:
    """Write the instances as tasks for Label Studio, and the labelling interface."""
    from bagwise.apps.review._known import write_interface, write_tasks

    kind, column = shown or ("text", None)
    data = {name: values.tolist() for name, values in tasks.items()}
    media = data.pop(column, None)
    how: Any = {"kind": kind, "media": media, "prefix": prefix, "force": force}
    results = {name: results[name].tolist() for name in ("label", "probability")}
    write_tasks(path, data, results=results, model=f"bagwise {__version__} orlr", **how)
    interface = path.with_suffix(".xml")
    choices = dict.fromkeys([*names, *map(str, results["label"])])
    write_interface(interface, choices, kind, force=force)
    note(f"tasks for Label Studio: {path}, with the interface {interface}")


def _doubt_columns(doubts: dict[str, Any], bag: Any) -> dict[str, Any]:
    """The doubt about the label set of each instance's bag; 0 if the label set is unknown."""
    import numpy as np

    if not doubts:
        return {}
    columns = (doubts[name].tolist() for name in ("bag", "doubt", "error", "label"))
    found = {name: (doubt, f"{e} {label}") for name, doubt, e, label in zip(*columns, strict=True)}
    chances, errors = zip(*(found.get(name, (0.0, "")) for name in bag.tolist()), strict=True)
    return {"set_doubt": np.array(chances), "set_error": np.array(errors)}

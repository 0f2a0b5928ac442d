"""``python -m reproduction``: run a paper's experiments and compare with its published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from bagwise.cli.app import OneLineErrors, run
from bagwise.cli.options import JSON, flag
from bagwise.cli.output import as_records, note, print_json, print_table, progress
from bagwise.exceptions import InputError, OutputExistsError
from reproduction import (
    Experiment,
    Paper,
    Plan,
    Report,
    Store,
    keep_results,
    list_papers,
    load_paper,
    make_plan,
    make_report,
    run_plans,
    units_to_do,
    write_report,
)
from reproduction.fetch import NAMES

__all__ = ["app", "reproduce"]

# Loaders of data in the package, and functions that draw data without a file.
SHIPPED = {
    "bagwise.datasets:load_letter_carroll",
    "bagwise.datasets:load_letter_frost",
    "bagwise.datasets:load_musk1",
    "bagwise.datasets:make_bags",
    "reproduction.sources:load_clean1",
    "reproduction.sources:make_overlapping_calls",
    "reproduction.sources:make_region_bags",
    "reproduction.sources:make_rings",
    "reproduction.sources:make_text_rows",
}


class _Command(OneLineErrors, TyperCommand):
    """The command, with user errors reported in one line."""


app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="markdown")


def _matching_papers(incomplete: str) -> list[str]:
    return [name for name in list_papers() if name.startswith(incomplete)]


def _matching_experiments(context: typer.Context, incomplete: str) -> list[str]:
    paper = context.params.get("paper")
    names = load_paper(paper).experiments if paper in list_papers() else ()
    return [name for name in names if name.startswith(incomplete)]


@app.command(
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 2 bad input, 1 an experiment failed or a fault of bagwise, "
    "130 stopped by Ctrl-C.",
)
def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER]",
            autocompletion=_matching_papers,
            help="A paper, or your own TOML file in the same format; lists papers if omitted.",
        ),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXPERIMENT]",
            autocompletion=_matching_experiments,
            help="An experiment, such as table1; all by default.",
        ),
    ] = None,
    full: bool = flag(
        "--full/--quick", "All repetitions and sizes, or a small part (the default)."
    ),
    everything: bool = flag("--all", "Every experiment of the paper, in full."),
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the results.")
    ] = Path("results"),
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="A data set or method; repeat for more."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", min=1, help="Number of processes; more than one distorts the times."
        ),
    ] = 1,
    show: bool = flag("--show", "Run nothing and write nothing; show stored results."),
    keep: bool = flag("--keep", "Keep means and verdicts for the pages in docs."),
    json: bool = JSON,
    debug: bool = flag("--debug", "Show where in the code an error arose."),
) -> None:
    """Run the experiments of a paper, and show our numbers beside the published ones.

    Writes one line per result to FOLDER/PAPER/EXPERIMENT.jsonl, so that an interrupted run can be
    resumed, and a page with the tables and plots beside it. Exits with 1 if an experiment failed.
    Data sets that are missing are left out or simulated, as the page states.

    ```
    python -m reproduction
    python -m reproduction pdmisvm figure10 --quick --only pdmisvm-exact
    python -m reproduction pdmisvm figure10 --show --json
    python -m reproduction wellsvm --all
    ```
    """
    if everything and (paper is None or experiment is not None):
        raise InputError("--all runs every experiment of one paper: name the paper only.")
    if paper is None:
        _list_papers(json=json)
        return
    if output.exists() and not output.is_dir():
        raise OutputExistsError(f"{output} is a file: give the name of a folder with -o.")
    full = full or everything
    chosen, parts = load_paper(paper), tuple(only or ())
    names = list(chosen.experiments) if experiment is None else [experiment]
    failed, documents, work = False, [], []
    for name in names:
        wanted = chosen.experiment(name)
        wanted.narrowed(parts)  # report a wrong name before looking for data
        plan = make_plan(chosen, wanted if full else wanted.shortened(parts))
        work.append((plan, Store(output / chosen.name / f"{name}.jsonl")))
    _note_absent(chosen, [plan.narrowed(parts) for plan, _ in work])
    if not show:
        _run([(plan.narrowed(parts), store) for plan, store in work], jobs)
    for plan, store in work:
        report, whole = make_report(plan.narrowed(parts), store), make_report(plan, store)
        if not json:
            _print(report)
        # The page always shows the whole experiment, also with --only.
        label = plan.experiment.name if full else f"{plan.experiment.name}-quick"
        written = [] if show else write_report(whole, output / chosen.name, label)
        if keep:
            written.append(keep_results(whole))
        if written:
            note(f"Written: {', '.join(str(path) for path in written)}")
        failed = failed or bool(report.failures())
        documents.append(_document(report, written))
    if json:
        print_json(documents)
    if failed:
        raise typer.Exit(1)


def _list_papers(*, json: bool) -> None:
    papers = [load_paper(name) for name in list_papers()]
    entries = [(paper, entry) for paper in papers for entry in paper.experiments.values()]
    columns = {
        "paper": [paper.name for paper, _ in entries],
        "experiment": [entry.name for _, entry in entries],
        "title": [entry.title for _, entry in entries],
        "data": [", ".join(entry.data) for _, entry in entries],
        "shipped": [", ".join(_shipped(paper, entry)) for paper, entry in entries],
    }
    if json:
        print_json(as_records(columns))
        return
    columns["shipped"] = [
        "all" if own == every else own
        for own, every in zip(columns["shipped"], columns["data"], strict=True)
    ]
    print_table(columns)
    note("Data that are not shipped: python -m reproduction.fetch (musk2, elephant), BAGWISE_DATA.")
    note("To run one: python -m reproduction PAPER EXPERIMENT --quick. Methods: --only NAME.")


def _shipped(paper: Paper, experiment: Experiment) -> list[str]:
    """The data sets of an experiment that need no file: in the package, or drawn."""
    chosen = [(name, paper.data[name]) for name in experiment.data]
    return [name for name, each in chosen if each.options.get("loader", each.source) in SHIPPED]


def _note_absent(paper: Paper, plans: list[Plan]) -> None:
    """Print where to get the data sets that are absent."""
    absent = [n for plan in plans for n in plan.experiment.data if n in plan.absent]
    for name in dict.fromkeys(absent):
        own = paper.data[name].options
        file = own.get("name", own.get("file", name))
        how = (
            f"python -m reproduction.fetch {file}" if file in NAMES else "put it into BAGWISE_DATA"
        )
        note(f"{paper.data[name].title} is absent: {how}")


def _run(work: list[tuple[Plan, Store]], jobs: int) -> None:
    def left() -> int:
        return sum(len(units_to_do(plan, store)) for plan, store in work)

    names = " ".join(plan.experiment.name for plan, _ in work)
    try:
        with progress(f"{work[0][0].paper.name} {names}", total=left()) as step:
            run_plans(work, jobs=jobs, after_unit=step)
    except KeyboardInterrupt:
        n_units = sum(len(plan.units) for plan, _ in work)
        folder = work[0][1].path if len(work) == 1 else work[0][1].path.parent
        note(f"{n_units - left()} of {n_units} units are saved in {folder}.")
        raise


def _document(report: Report, written: list[Path]) -> dict[str, Any]:
    tables = {title: as_records(columns) for title, columns in report.tables().items()}
    names = {"paper": report.plan.paper.name, "experiment": report.plan.experiment.name}
    return names | {"verdicts": report.counts(), "tables": tables, "written": written}


def _print(report: Report) -> None:
    experiment = report.plan.experiment
    typer.echo(f"{report.plan.paper.name} {experiment.name}: {experiment.title}\n")
    for title, columns in report.tables().items():
        print_table(columns, title=title)
    counts = ", ".join(f"{count} {word}" for word, count in report.counts().items())
    if counts:
        note(f"Scores: {counts}.")


if __name__ == "__main__":
    run(app, "python -m reproduction")

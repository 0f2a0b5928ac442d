"""``bagwise reproduce``: run a paper's experiments, and show our numbers beside its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bagwise.cli.output import note, print_table, progress

if TYPE_CHECKING:
    from bagwise.reproduction import Plan, Report, Store

__all__ = ["reproduce"]


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER]", help="A paper, or a TOML file like its own; without, all are listed."
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Argument(metavar="[EXPERIMENT]", help="Such as table1; all by default.")
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick", help="All repetitions and sizes, or a small part (the default)."
        ),
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where results go.")
    ] = Path("results"),
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="A data set or method; repeat for more."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", min=1, help="Processes side by side; times then disturb each other."
        ),
    ] = 1,
    show: Annotated[bool, typer.Option("--show", help="Run nothing: show what is there.")] = False,
) -> None:
    """Run the experiments of a paper, and show our numbers beside the published ones.

    Results are saved one by one: a run that was stopped goes on where it was.

    Example: bagwise reproduce pdmisvm table1 --quick --only elephant
    """
    from bagwise.reproduction import Store, load_paper, make_plan, make_report, write_report

    if paper is None:
        _list_papers()
        return
    chosen, parts = load_paper(paper), tuple(only or ())
    names = list(chosen.experiments) if experiment is None else [experiment]
    failed = False
    for name in names:
        wanted = chosen.experiment(name)
        wanted.narrowed(parts)  # a wrong name is told before data are looked for
        plan = make_plan(chosen, wanted if full else wanted.shortened(parts))
        store = Store(output / chosen.name / f"{name}.jsonl")
        if not show:
            _run(plan.narrowed(parts), store, jobs)
        report = make_report(plan.narrowed(parts), store)
        _print(report)
        # The page is always of the whole experiment, whatever was asked for today.
        label = name if full else f"{name}-quick"
        written = write_report(make_report(plan, store), output / chosen.name, label)
        note(f"Written: {', '.join(str(path) for path in written)}")
        failed = failed or bool(report.failures())
    if failed:
        raise typer.Exit(1)


def _list_papers() -> None:
    from bagwise.reproduction import list_papers, load_paper

    papers = [load_paper(name) for name in list_papers()]
    entries = [(paper, entry) for paper in papers for entry in paper.experiments.values()]
    print_table(
        {
            "paper": [paper.name for paper, _ in entries],
            "experiment": [entry.name for _, entry in entries],
            "title": [entry.title for _, entry in entries],
            "data": [", ".join(entry.data) for _, entry in entries],
        }
    )
    note("To run one: bagwise reproduce PAPER EXPERIMENT --quick. Methods go by --only NAME.")


def _run(plan: Plan, store: Store, jobs: int) -> None:
    from bagwise.reproduction import run_plan, units_to_do

    n_units = len(units_to_do(plan, store))
    title = f"{plan.paper.name} {plan.experiment.name}"
    try:
        with progress(title, total=n_units) as step:
            run_plan(plan, store, jobs=jobs, after_unit=step)
    except KeyboardInterrupt:
        left = len(units_to_do(plan, store))
        note(f"{len(plan.units) - left} of {len(plan.units)} units are saved in {store.path}.")
        raise


def _print(report: Report) -> None:
    for title, columns in report.tables().items():
        print_table(columns, title=title)
    counts = ", ".join(f"{count} {word}" for word, count in report.counts().items())
    if counts:
        note(f"Scores: {counts}.")

"""``bagwise demo``: fit models to shipped data, and write two HTML pages."""

from __future__ import annotations

import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bagwise.cli import options
from bagwise.cli.output import as_records, computing, note, print_json, print_table
from bagwise.cli.report import report
from bagwise.exceptions import OutputExistsError

if TYPE_CHECKING:
    from bagwise.report._page import Section, Table


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Output folder.")
    ] = Path("bagwise-demo"),
    force: Annotated[
        bool, options.flag("--force", "Overwrite the files of an earlier demo.", short="-f")
    ] = False,
    json: options.Json = False,
) -> None:
    """Run bagwise on shipped data: fit models, show key instances, write two HTML pages.

    Takes about a minute; nothing is downloaded. Writes into FOLDER a table of molecules, a model,
    its predictions, a page with every table and plot (demo.html), and the report of the model
    (report.html), whose path is printed last.

    ```
    bagwise demo -o demo
    ```
    """
    if output.exists() and not (force and output.is_dir()):
        remedy = "" if force else " or pass --force to overwrite the files of an earlier demo"
        raise OutputExistsError(f"{output} exists already: choose another folder with -o{remedy}.")
    from joblib import Parallel, cpu_count, delayed

    from bagwise import __version__
    from bagwise._demo.sections import SECTIONS
    from bagwise.extras import import_extra
    from bagwise.report._page import render_page

    for module, extra in (("jinja2", "report"), ("matplotlib", "report"), ("skops", "persist")):
        import_extra(module, extra=extra)
    import_extra("pyarrow", extra="io")
    start = time.perf_counter()
    output.mkdir(parents=True, exist_ok=True)
    sections: list[Section] = []
    # Two processes: most of the first demo is compilation, which uses one core.
    results = Parallel(n_jobs=min(2, cpu_count()), return_as="generator")(
        delayed(build)(output) for build in SECTIONS
    )
    for build in SECTIONS:
        with computing((build.__doc__ or "").strip(".")):
            sections.append(next(results))
        for table in _tables(sections[-1]) if not json else ():
            print_table(table.columns, title=table.caption)
    page, report_page = output / "demo.html", output / "report.html"
    text = render_page(
        "bagwise: a demonstration",
        sections,
        lead="Multiple-instance learning: bags are labelled, the instances in them are not. The "
        "data are shipped with the package, and every number was computed by this run.",
        footer=f"Made by bagwise {__version__} with `bagwise demo`.",
    )
    page.write_text(text, encoding="utf-8")
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # print only the path
        files = (output / "model.skops", output / "musk1.csv", report_page)
        title = "Musk1: which molecules, and which shapes?"
        report(*files, options.Columns(), folds=3, title=title, force=True)
    seconds = time.perf_counter() - start
    if json:
        tables = {
            table.caption: as_records(table.columns) for s in sections for table in _tables(s)
        }
        facts = {"seconds": seconds, "page": page.resolve(), "report": report_page.resolve()}
        print_json({"tables": tables} | facts)
        return
    note(f"Done in {seconds:.0f} s. All tables and plots on one page: {page.resolve()}")
    note("Open the report in a browser to inspect each molecule:")
    typer.echo(report_page.resolve())


def _tables(section: Section) -> list[Table]:
    from bagwise.report._page import Table

    return [part for part in section.parts if isinstance(part, Table)]

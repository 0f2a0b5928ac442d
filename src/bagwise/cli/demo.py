"""``bagwise demo``: the shipped data, the methods, the key instances, and a page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli.output import note, print_table, progress
from bagwise.exceptions import OutputExistsError

__all__ = ["demo"]


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where files go.")
    ] = Path("bagwise-demo"),
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the files of an earlier demo.")
    ] = False,
) -> None:
    """Train on shipped data, show the key instances, and write a page with plots.

    Takes less than a minute. Nothing is downloaded.
    """
    if output.exists() and not (force and output.is_dir()):
        remedy = "" if force else " or pass --force to overwrite the files of an earlier demo"
        raise OutputExistsError(f"{output} exists already: choose another folder with -o{remedy}.")
    from bagwise import __version__
    from bagwise.cli.demo_sections import SECTIONS, Workshop
    from bagwise.extras import import_extra
    from bagwise.inspection import Section, Table, render_page

    for module, extra in (("jinja2", "report"), ("matplotlib", "report"), ("skops", "persist")):
        import_extra(module, extra=extra)
    import_extra("pyarrow", extra="io")
    start = time.perf_counter()
    output.mkdir(parents=True, exist_ok=True)
    sections: list[Section] = []
    for build in SECTIONS:
        with progress((build.__doc__ or "").strip(".")):
            sections.append(build(Workshop(output)))
        for part in sections[-1].parts:
            if isinstance(part, Table):
                print_table(part.columns, title=part.caption)
    page = output / "demo.html"
    page.write_text(
        render_page(
            "bagwise: a demonstration",
            sections,
            lead="Learning from bags when only the bags are labelled, on data that came with the "
            "package. Every number was computed just now.",
            footer=f"Made by bagwise {__version__} with `bagwise demo`.",
        ),
        encoding="utf-8",
    )
    note(f"Done in {time.perf_counter() - start:.0f} s. Open this page in a browser:")
    typer.echo(page.resolve())

"""The output of a command: tables on stdout, progress on stderr, no overwritten files."""

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

_WRAPPED = 24  # a column wider than this may be wrapped
_LEAST = 16  # minimum width of a wrapped column
_GAP = 2  # spaces between two columns
_BETWEEN_LINES = 5.0  # seconds between lines of progress if no bar is shown
_given = {"quiet": False, "json": False}  # options of the command that runs


def print_table(
    columns: Mapping[str, Sequence[Any]], *, title: str = "", heading: bool = True
) -> None:
    """Print columns as a table on stdout, numbers flush right; nothing with ``--json``.

    Parameters
    ----------
    columns : mapping of str to sequence
        The cells of each column, by its heading.
    title : str, default=""
        What the table shows.
    heading : bool, default=True
        Whether to print the headings.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table

    from bagwise._common.tables import are_numbers, cell_text

    if _given["json"]:
        return
    console = _console()
    cells = {name: [_visible(cell_text(v)) for v in values] for name, values in columns.items()}
    if title:
        console.print(_visible(title), style="bold")
    widths = {
        name: max(map(cell_len, [name, *texts] if heading else texts), default=0)
        for name, texts in cells.items()
    }
    # Only prose is wrapped: numbers and short names would be hard to read.
    least = {name: width if width <= _WRAPPED else _LEAST for name, width in widths.items()}
    for block in _blocks(least, console.width):
        table = Table(box=box.SIMPLE_HEAD, show_header=heading, pad_edge=False, show_edge=False)
        table.padding, table.collapse_padding = (0, 1), True
        for name in block:
            side: Any = "right" if are_numbers(columns[name]) else "left"
            wrapped, width = widths[name] > _WRAPPED, min(least[name], console.width // 2 - _GAP)
            table.add_column(
                name, justify=side, min_width=width, no_wrap=not wrapped, overflow="fold"
            )
        for row in zip(*(cells[name] for name in block), strict=True):
            table.add_row(*row)
        console.print(table)
        console.print()


def print_lines(lines: Iterable[str]) -> None:
    """Print sentences on stdout, wrapped at the width of the terminal; nothing with ``--json``.

    Parameters
    ----------
    lines : iterable of str
        The sentences.
    """
    console = _console()
    for line in () if _given["json"] else lines:
        console.print(_visible(line), soft_wrap=not console.is_terminal)


def print_address(address: Any) -> None:
    """Print the address of a page, on stdout or, with ``--json``, on stderr.

    Parameters
    ----------
    address : object
        A path or a URL.
    """
    typer.echo(str(address), err=_given["json"])


def print_json(value: Any) -> None:
    """Print a value as JSON on stdout.

    Parameters
    ----------
    value : object
        Dicts, lists, strings and numbers, also of NumPy.
    """
    typer.echo(json.dumps(_json_value(value), indent=2, ensure_ascii=False, allow_nan=False))


def as_records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Turn the columns of a table into its rows, for JSON.

    Parameters
    ----------
    columns : mapping of str to sequence
        The cells of each column, by its heading.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> from bagwise.cli.output import as_records
    >>> as_records({"bag": ["a", "b"], "size": [2, 3]})
    [{'bag': 'a', 'size': 2}, {'bag': 'b', 'size': 3}]
    """
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


@contextmanager
def running(*, quiet: bool = False, json: bool = False) -> Iterator[None]:
    """Run a command: no notes and progress with ``--quiet``, no tables with ``--json``.

    Parameters
    ----------
    quiet, json : bool, default=False
        Whether the option was given.
    """
    before = _given.copy()
    _given.update(quiet=quiet, json=json)
    try:
        yield
    finally:
        _given.update(before)


def is_quiet() -> bool:
    """Whether notes and progress are hidden."""
    return _given["quiet"]


def note(message: str) -> None:
    """Print a note on stderr, so that it does not mix with results.

    Parameters
    ----------
    message : str
        One line.
    """
    if not _given["quiet"]:
        typer.echo(_visible(message), err=True)


def warning(message: str) -> None:
    """Print a warning on stderr, even with ``--quiet``.

    Parameters
    ----------
    message : str
        One line.
    """
    typer.echo(_visible(f"Warning: {message}"), err=True)


@contextmanager
def progress(task: str, total: int | None = None, cycle: int = 1) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr, and remove it at the end.

    If stderr is not a terminal but, for example, a log file, lines are printed instead: one for
    every step that states what was done, and for other steps at most one every five seconds.

    Parameters
    ----------
    task : str
        What is being done.
    total : int, default=None
        The number of steps; None if it is not known.
    cycle : int, default=1
        The number of kinds of steps, which take turns. The time left is that of the last ones of
        each kind, as the first also compile.

    Yields
    ------
    callable
        Call it after each step, optionally with a description of the step.
    """
    from rich import progress as parts

    console = _console(stderr=True)
    if _given["quiet"] or not console.is_terminal:
        yield _printed_steps(task, total, cycle)  # rich ends even a disabled bar with an empty line
        return
    counter = [] if total is None else [parts.MofNCompleteColumn(), parts.TimeRemainingColumn()]
    text = parts.TextColumn("{task.description}", markup=False)
    columns = text, parts.BarColumn(), *counter, parts.TimeElapsedColumn()
    with parts.Progress(*columns, console=console, transient=True) as bar:
        number = bar.add_task(task, total=total)
        yield lambda done="": bar.advance(number)


def _printed_steps(task: str, total: int | None, cycle: int) -> Callable[..., None]:
    times = [time.perf_counter()]
    start = printed = times[0]

    def step(done: str = "") -> None:
        nonlocal printed
        n, now = len(times), time.perf_counter()
        times.append(now)
        if done or now - printed >= _BETWEEN_LINES:
            printed = now
            of_all = "" if total is None else f" of {total}"
            left = ""
            if total is not None and cycle < n < total:
                left = f", about {(now - times[n - cycle]) / cycle * (total - n):.0f} s left"
            note(f"{task}, {n}{of_all} after {now - start:.0f} s{left}" + f": {done}" * bool(done))

    return step


def refuse_existing(paths: Iterable[Path], *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse, before any work, to overwrite a file or to write into a missing folder.

    Parameters
    ----------
    paths : iterable of Path
        The files to be written.
    force : bool
        Whether files may be overwritten.
    inputs : iterable of Path, default=()
        The files that are read: never overwritten.
    """
    from bagwise._common.files import check_output
    from bagwise.exceptions import OutputExistsError

    read = {os.path.realpath(path) for path in inputs}  # Path.resolve fails for a link to itself
    for path in paths:
        if os.path.realpath(path) in read:
            raise OutputExistsError(f"{path} is an input file: write to another file.")
        check_output(path, force=force)


def _blocks(widths: Mapping[str, int], space: int) -> Iterator[list[str]]:
    """Split columns that do not fit side by side into blocks that repeat the first column."""
    first, *others = widths
    block, used = [first], widths[first]
    for name in others:
        more = _GAP + widths[name]
        if used + more > space and len(block) > 1:
            yield block
            block, used = [first], widths[first]
        block.append(name)
        used += more
    yield block


def _console(*, stderr: bool = False) -> Any:
    # Ids and labels come from files: they are shown as they are, never read as markup.
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def _visible(text: str) -> str:
    """Escape characters that a terminal would interpret instead of showing."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _json_value(value: Any) -> Any:
    """Convert a value for JSON: NumPy values to Python values, NaN to null, paths to strings."""
    if hasattr(value, "tolist"):
        return _json_value(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)

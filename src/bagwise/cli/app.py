"""The application: commands, global options, error messages and exit codes."""

import io
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from bagwise import __version__
from bagwise.cli.annotate import annotate
from bagwise.cli.audit import audit
from bagwise.cli.cluster import cluster
from bagwise.cli.conformers import conformers
from bagwise.cli.datasets import datasets
from bagwise.cli.evaluate import evaluate
from bagwise.cli.fit import fit
from bagwise.cli.heatmap import heatmap
from bagwise.cli.info import info
from bagwise.cli.methods import methods
from bagwise.cli.options import EXIT_CODES, Application, Columns, flag
from bagwise.cli.predict import predict
from bagwise.cli.report import report
from bagwise.cli.review import review
from bagwise.exceptions import WRAPPERS, BagwiseError

BAD_INPUT, BUG, INTERRUPTED = 2, 1, 130
CLOSED_OUTPUT = 141  # the shell's status of a program that SIGPIPE ended

_OF_SCIKIT_LEARN = ("InvalidParameterError", "NotFittedError")  # users' errors, imported late

# The library names Python arguments in messages; `_as_options` turns them into options.
_FILL = "InstanceTransformer(SimpleImputer()) in a pipeline"
_RENAMED = {"meta": "keep", "trusted": "trust"}
_NAMES = [field.name for field in fields(Columns)] + [*_RENAMED, "background_above", "scoring"]
_NAMES += ["group", "pos_label", "pca", "checkpoint", "force"]
_ARGUMENT = re.compile(rf"\b({'|'.join(_NAMES)})=(?:\[\.\.\.\]|\.\.\.|True|'(\w+)')?(?![\w'\"])")


class OneLineErrors:
    """A mixin for commands: errors are one line on stderr and an exit code."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **settings: Any) -> Any:
        """Run a command and exit: 2 for bad input, 130 for Ctrl-C, 1 for a bug in bagwise."""
        words = sys.argv[1:] if args is None else list(args)
        settings["standalone_mode"] = False
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, set())
            try:
                code = super().main(words, *more, **settings)  # type: ignore[misc]  # 130: Ctrl-C
                sys.stdout.flush()  # a full disk is an error of the command
            except (BrokenPipeError, SystemExit) as end:
                # The reader has left, as in `| head -1`; Typer turns its error into an exit.
                if not isinstance(end.__context__ or end, BrokenPipeError):
                    raise
                code = CLOSED_OUTPUT
            except Exception as error:
                code = _print_error(error, debug="--debug" in words)
            _flush_stdout()
        if code == INTERRUPTED:
            typer.echo("Interrupted.", err=True)
        sys.exit(code if isinstance(code, int) else 0)


class CommandGroup(OneLineErrors, TyperGroup):
    """The group of all commands."""


def _flush_stdout() -> None:
    """Drop an output that cannot be written: Python would report it again at the end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        sys.stdout = None


def _print_error(error: Exception, *, debug: bool) -> int:
    """Print an error in one line, and return the exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return BAD_INPUT  # the help was printed
    if debug:
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    message, code = _one_line(error), BAD_INPUT
    if hasattr(error, "format_message"):  # wrong usage, found by typer
        place = getattr(getattr(error, "ctx", None), "command_path", "bagwise")
        message += f"{'' if message.endswith(('.', '?')) else '.'} See `{place} --help`."
    elif (
        isinstance(error, (BagwiseError, OSError, MemoryError))
        or type(error).__name__ in _OF_SCIKIT_LEARN
    ):
        message = _as_options(message)
    else:
        message = f"{type(error).__name__}: {message.rstrip('.')}. "
        place, code = _place_of_user(error), BUG
        message += (
            f"This is an error in {place}" if place else "This is a bug in bagwise, report it"
        )
        message += "." if debug else ": add --debug to see where."
    typer.echo(typer.style("Error:", fg="red", bold=True) + f" {message}", err=True)
    return code


def _place_of_user(error: Exception) -> str | None:
    """The method of an estimator outside bagwise in which an error arose, and the line."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        of = type(frame.f_locals.get("self"))
        if hasattr(of, "get_params") and of.__module__.partition(".")[0] not in WRAPPERS:
            file = Path(frame.f_code.co_filename).name
            return f"{of.__module__}:{of.__qualname__}.{frame.f_code.co_name} ({file}, line {line})"
    return None


def _as_options(message: str) -> str:
    """Name the options of a command for the Python arguments in a message of the library."""

    def option(found: re.Match[str]) -> str:
        name = _RENAMED.get(found[1], found[1]).replace("_", "-")
        return f"--{name} {found[2]}" if found[2] else f"--{name}"

    message = message.replace(_FILL, "--impute mean of fit or evaluate")
    return _ARGUMENT.sub(option, message)


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this command."
    message = getattr(error, "format_message", error.__str__)
    text = message() or type(error).__name__
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _show_warning(shown: set[str], message: Warning | str, *_: Any, **__: Any) -> None:
    """Write a warning to stderr, once: each fold of a cross-validation may give the same one."""
    line = _as_options(next(iter(str(message).strip().splitlines()), ""))
    if line in shown:
        return
    shown.add(line)
    typer.echo(typer.style("Warning:", fg="yellow", bold=True) + f" {line}", err=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bagwise {__version__}")
        raise typer.Exit


app = Application(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(epilog=EXIT_CODES)
def _options(
    version: bool = flag(
        "--version", "Show the version and exit.", callback=_print_version, is_eager=True
    ),
    debug: bool = flag("--debug", "Show the traceback of an error."),
) -> None:
    """Multiple-instance learning (MIL): learn from labelled bags of unlabelled instances.

    The input is a table with one row per instance, a column with its bag, and a column with the
    label of the bag. bagwise predicts the labels of bags and shows the key instance of each.
    Results go to stdout (`--json` for programs), notes and errors to stderr. No file is overwritten
    without `--force`.

    ```
    bagwise datasets export musk1 -o musk1.csv
    bagwise evaluate musk1.csv -m nsk
    ```
    """


app.add_typer(datasets, rich_help_panel="Data")
for _panel, _commands in {
    "Data": (info, conformers),
    "Models": (methods, evaluate, audit, fit, predict, annotate, cluster),
    "Inspection": (report, heatmap, review),
}.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)


def main() -> None:
    """Run the command line."""
    run(app, "bagwise")


def run(application: typer.Typer, name: str) -> None:
    """Run an application.

    Parameters
    ----------
    application : typer.Typer
        The commands.
    name : str
        Name of the application in help and errors.
    """
    # A stream that the shell has closed is None.
    sys.stdout, sys.stderr = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # do not fail if the terminal lacks ±
    application(prog_name=name)

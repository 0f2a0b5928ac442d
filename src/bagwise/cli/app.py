"""The application: its commands, its global options, and how errors reach a person or a script."""

from __future__ import annotations

import re
import traceback
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bagwise import __version__
from bagwise.cli.annotate import annotate
from bagwise.cli.cluster import cluster
from bagwise.cli.datasets import datasets
from bagwise.cli.demo import demo
from bagwise.cli.evaluate import evaluate
from bagwise.cli.fit import fit
from bagwise.cli.info import info
from bagwise.cli.list_methods import methods
from bagwise.cli.predict import predict
from bagwise.cli.reproduce import reproduce
from bagwise.cli.review import review
from bagwise.exceptions import BagwiseError

__all__ = ["app", "main"]

BAD_INPUT, BUG, INTERRUPTED = 2, 1, 130

# The library speaks of arguments, the command line of options.
_ARGUMENT = re.compile(
    r"\b(bag|label|label_set|labels|features|exclude|separator|force|wheel|positive)="
    r"(\[\.\.\.\]|\.\.\.|True)?(?![\w'\"])"
)


class OneLineErrors(TyperGroup):
    """A group of commands whose errors are one line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command: 2 for bad input, 130 for Ctrl-C, 1 for a bug of ours."""
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                typer.echo("Interrupted.", err=True)
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:
                raise
            except (BagwiseError, OSError, MemoryError) as error:
                _report(error, debug=ctx.params["debug"])
                raise typer.Exit(BAD_INPUT) from error
            except Exception as error:
                if type(error).__module__.startswith(("typer", "click")):
                    raise  # wrong usage, which has its own message
                known = type(error).__name__ == "InvalidParameterError"
                _report(error, debug=ctx.params["debug"], expected=known)
                raise typer.Exit(BAD_INPUT if known else BUG) from error


def _report(error: BaseException, *, debug: bool, expected: bool = True) -> None:
    if debug:
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    message = _ARGUMENT.sub(lambda m: f"--{m[1].replace('_', '-')}", _one_line(error))
    if not expected:
        message = f"{type(error).__name__}: {message}. This is a bug in bagwise"
        message += "." if debug else ": run `bagwise --debug ...` to see where, and report it."
    typer.echo(typer.style("Error:", fg="red", bold=True) + f" {message}", err=True)


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "the work needs more memory than there is."
    text = str(error) or type(error).__name__
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    line = next(iter(str(message).strip().splitlines()), "")
    typer.echo(typer.style("Warning:", fg="yellow", bold=True) + f" {line}", err=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bagwise {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(epilog="Begin with `bagwise demo`, or `bagwise datasets export musk1 -o musk1.csv`.")
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and stop."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the code an error arose.")
    ] = False,
) -> None:
    """Learn from bags when only the bags are labelled.

    A table has one row per instance and a column that names its bag. bagwise learns to predict the
    label of bags and says which instance decided.
    """


app.command()(info)
app.command()(fit)
app.command()(predict)
app.command()(annotate)
app.command()(review)
app.command()(evaluate)
app.command()(cluster)
app.add_typer(datasets)
app.command()(methods)
app.command()(demo)
app.command()(reproduce)


def main() -> None:
    """Run the command line."""
    app(prog_name="bagwise")

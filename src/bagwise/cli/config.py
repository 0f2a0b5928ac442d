"""Options of every command: ``--config``, ``--quiet`` and ``--debug``; groups of options."""

import difflib
import functools
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import typer

from bagwise.auto._methods import METHODS
from bagwise.cli.options import flag, option
from bagwise.cli.output import quietly
from bagwise.exceptions import DataNotFoundError, FileFormatError, InputError

_PANEL = "Any command"
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
EXIT_CODES = (
    "Exit codes: 0 success, 2 invalid input (one line on stderr explains it), 1 internal error, "
    "130 interrupted by Ctrl-C."
)
_OF_NO_RUN = {"config", "debug", "force", "help", "quiet"}


class Application(typer.Typer):
    """A Typer application whose commands take ``--config``, ``--quiet`` and ``--debug``.

    A parameter whose type is a dataclass of options is expanded into these options.
    """

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Register a function as a command, as in Typer."""
        register = super().command(name, **{"epilog": EXIT_CODES} | settings)

        def decorate(function: Any) -> Any:
            register(_with_common_options(function))
            return function

        return decorate


def read_options(context: typer.Context, path: Path | None) -> Path | None:
    """Read the options of a command from a TOML file; the command line takes precedence."""
    if path is None or context.resilient_parsing:
        return path
    options = [each for each in context.command.params if each.name not in _OF_NO_RUN]
    known = {key: each for each in options for key in _keys(each)}
    context.default_map = {}
    for key, value in _read_toml(path).items():
        found = known.get(key.replace("_", "-"))
        if found is None:
            near = difflib.get_close_matches(key.replace("_", "-"), known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"{path}: {context.command_path} has no option {key!r}.{hint} It has "
                f"{', '.join(known)}."
            )
        context.default_map[found.name] = _as_typed(value, found, f"{path}: {key!r}")
    return path


@dataclass
class Common:
    """The options of every command."""

    config: Path | None = option(
        "Read options from this file, named as here without the leading dashes; options on the "
        "command line take precedence. Paths are relative to the working directory.",
        "TOML",
        is_eager=True,
        callback=read_options,
        rich_help_panel=_PANEL,
    )
    quiet: bool = flag(
        "--quiet",
        "Print no notes and no progress, only results, warnings and errors.",
        "-q",
        rich_help_panel=_PANEL,
    )
    debug: bool = flag("--debug", "Show the traceback of an error.", rich_help_panel=_PANEL)


def _with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    own = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        p.name: p.annotation for p in own.parameters.values() if is_dataclass(p.annotation)
    }

    @functools.wraps(function)
    def run(*, config: Path | None, quiet: bool, debug: bool, **options: Any) -> None:
        del config, debug  # read before the command runs, and by the handler of errors
        for name, group in groups.items():
            options[name] = group(**{f.name: options.pop(f.name) for f in fields(group)})
        with quietly(quiet):
            function(**options)

    parameters = [q for p in own.parameters.values() for q in _expanded(p)]
    parameters += _expanded(inspect.Parameter("common", _KEYWORD, annotation=Common))
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _expanded(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The fields of a parameter that is a group of options (a dataclass); others as they are."""
    group = parameter.annotation
    if not is_dataclass(group):
        return [parameter.replace(kind=_KEYWORD)]
    kinds = get_type_hints(group)
    return [
        inspect.Parameter(f.name, _KEYWORD, default=f.default, annotation=kinds[f.name])
        for f in fields(group)
    ]


def _keys(option: Any) -> list[str]:
    """The names of an option in a file, without leading dashes; an argument keeps its name."""
    long = [name[2:] for name in option.opts if name.startswith("--")]
    return long or [str(option.name).replace("_", "-")]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError as error:
        raise DataNotFoundError(f"--config {str(path)!r}: no such file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a TOML file: {error}.") from error


def _as_typed(value: Any, option: Any, where: str) -> Any:
    """Convert a TOML value to its form on the command line: string, list of strings, or flag."""
    if getattr(option, "is_flag", False):
        if not isinstance(value, bool):
            raise InputError(f"{where} is {value!r}: expected true or false.")
        return value
    if isinstance(value, dict) and option.name == "parameters":
        return [f"{name}={item}" for name, item in _flat(value).items()]
    several = getattr(option, "multiple", False)
    if isinstance(value, dict) or (isinstance(value, list) and not several):
        raise InputError(
            f"{where} is {value!r}: expected {'a list of strings' if several else 'one value'}."
        )
    if not several:
        return str(value)
    return [str(item) for item in (value if isinstance(value, list) else [value])]


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """Flatten a table of parameters: ``C`` in an inner table ``nsk`` becomes ``nsk.C``."""
    flat: dict[str, Any] = {}
    for name, item in table.items():
        nested = isinstance(item, dict) and name in METHODS
        flat |= {f"{name}.{own}": inner for own, inner in item.items()} if nested else {name: item}
    return flat

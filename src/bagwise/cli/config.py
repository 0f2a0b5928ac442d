"""Options of every command: ``--config``, ``--save-config``, ``--quiet`` and ``--debug``."""

import difflib
import functools
import inspect
import json
import tomllib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from bagwise._methods import METHODS
from bagwise.cli.options import flag, option, parse_parameters
from bagwise.cli.output import note, quietly, refuse_existing
from bagwise.exceptions import DataNotFoundError, FileFormatError, InputError

_PANEL = "Any command"
EXIT_CODES = (
    "Exit codes: 0 success, 2 invalid input (one line on stderr explains it), 1 internal error, "
    "130 interrupted by Ctrl-C."
)
_OF_NO_RUN = {"config", "save_config", "debug", "force", "help", "quiet"}


# From the shell to a command: `bagwise.__main__.main` loads `cli.app`; `app.run` sets up streams
# and Ctrl-C; `OneLineErrors.main` turns errors into a line and an exit code; Typer parses the
# arguments; `run` in `_with_run_options` applies the options of every command, then calls it.
class Application(typer.Typer):
    """A Typer application whose commands take ``--config``, ``--save-config``, ``-q``, ``--debug``.

    A parameter whose type is a dataclass of options is expanded into these options.
    """

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Register a function as a command, as in Typer."""
        register = super().command(name, **{"epilog": EXIT_CODES} | settings)

        def decorate(function: Any) -> Any:
            register(_with_run_options(function))
            return function

        return decorate


def read_options(context: typer.Context, path: Path | None) -> Path | None:
    """Read the options of a command from a TOML file; the command line takes precedence.

    Parameters
    ----------
    context : typer.Context
        The command and its arguments.
    path : Path or None
        The file; None if none was given.

    Returns
    -------
    Path or None
        `path`.
    """
    if path is None or context.resilient_parsing:
        return path
    known = {key: o for o in context.command.params if _is_kept(o) for key in _keys(o)}
    values = {}
    for key, value in _read_toml(path).items():
        option = known.get(key.replace("_", "-"))
        if option is None:
            near = difflib.get_close_matches(key.replace("_", "-"), known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"{path}: {context.command_path} has no option {key!r}.{hint} It has "
                f"{', '.join(known)}."
            )
        values[option.name] = _as_typed(value, option, f"{path}: {key!r}")
    context.default_map = values
    return path


def write_options(context: typer.Context, path: Path, *, force: bool) -> None:
    """Save the options of a run in a TOML file for ``--config``.

    Parameters
    ----------
    context : typer.Context
        The command and its options.
    path : Path
        The file.
    force : bool
        Whether the file may be overwritten.
    """
    from bagwise import __version__
    from bagwise._common.files import replacing

    lines = [f"# Written by bagwise {__version__}; again: {context.command_path} --config {path}"]
    tables = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name) if _is_kept(parameter) else None
        if value is None or value is False or (isinstance(value, (list, tuple)) and not value):
            continue
        if _key(parameter) == "set":
            tables = ["", "[set]", *(_line(*_parameter(text)) for text in value)]
        else:
            lines.append(_line(_key(parameter), value))
    with replacing(path, force=force) as temporary:
        temporary.write_text("\n".join([*lines, *tables, ""]), encoding="utf-8")


Config = Annotated[
    Path | None,
    option(
        metavar="TOML",
        is_eager=True,
        callback=read_options,
        rich_help_panel=_PANEL,
        help="Read options from this file, named as here without the leading dashes; options on "
        "the command line take precedence. Paths are relative to the working directory.",
    ),
]
SaveConfig = Annotated[
    Path | None,
    option(
        metavar="TOML",
        rich_help_panel=_PANEL,
        help="Save the options of this run in a file for --config.",
    ),
]
Quiet = Annotated[
    bool,
    flag(
        "--quiet",
        "Print no notes and no progress, only results, warnings and errors.",
        short="-q",
        rich_help_panel=_PANEL,
    ),
]
Debug = Annotated[bool, flag("--debug", "Show the traceback of an error.", rich_help_panel=_PANEL)]


def _with_run_options(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(
        *, context: typer.Context, save_config: Path | None, quiet: bool, **options: Any
    ) -> None:
        del options["config"], options["debug"]
        force = bool(options.get("force"))
        if save_config is not None:
            used = [value.resolve() for value in options.values() if isinstance(value, Path)]
            if save_config.resolve() in used:
                raise InputError(
                    f"--save-config {save_config} names a file that this run reads or writes."
                )
            refuse_existing([save_config], force=force)
        for name, group in groups.items():
            options[name] = group(**{f.name: options.pop(f.name) for f in fields(group)})
        with quietly(quiet):
            function(**options)
            if save_config is not None:
                write_options(context, save_config, force=force)
                note(f"Options of this run: {save_config}")

    own = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        p.name: p.annotation for p in own.parameters.values() if is_dataclass(p.annotation)
    }
    parameters = [q for p in own.parameters.values() for q in _expanded(p)]
    for name, kind, default in (
        ("context", typer.Context, inspect.Parameter.empty),
        ("config", Config, None),
        ("save_config", SaveConfig, None),
        ("quiet", Quiet, False),
        ("debug", Debug, False),
    ):
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
        )
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _expanded(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The fields of a parameter that is a group of options (a dataclass); others as they are."""
    if not is_dataclass(parameter.annotation):
        return [parameter]
    kinds = get_type_hints(parameter.annotation, include_extras=True)
    return [
        parameter.replace(name=field.name, default=field.default, annotation=kinds[field.name])
        for field in fields(parameter.annotation)
    ]


def _is_kept(option: Any) -> bool:
    return option.name not in _OF_NO_RUN


def _keys(option: Any) -> list[str]:
    """The names of an option in a file, without leading dashes; an argument keeps its name."""
    long = [name[2:] for name in option.opts if name.startswith("--")]
    return long or [str(option.name).replace("_", "-")]


def _key(option: Any) -> str:
    """The name of an option in a saved file."""
    return _keys(option)[0]


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
            raise InputError(f"{where} is {_toml(value)}: expected true or false.")
        return value
    if isinstance(value, dict) and _key(option) == "set":
        return [f"{name}={_text(item)}" for name, item in _flat(value).items()]
    several = getattr(option, "multiple", False)
    if isinstance(value, dict) or (isinstance(value, list) and not several):
        expected = "a list of texts" if several else "one value"
        raise InputError(f"{where} is {_toml(value)}: expected {expected}.")
    if not several:
        return _text(value)
    return [_text(item) for item in (value if isinstance(value, list) else [value])]


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """Flatten a table of parameters: ``C`` in an inner table ``nsk`` becomes ``nsk.C``."""
    flat: dict[str, Any] = {}
    for name, item in table.items():
        nested = isinstance(item, dict) and name in METHODS
        flat |= {f"{name}.{own}": inner for own, inner in item.items()} if nested else {name: item}
    return flat


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _toml(value)


def _parameter(text: str) -> tuple[str, Any]:
    """Name and value of ``C=10``; only numbers and booleans are converted."""
    ((name, value),) = parse_parameters([text]).items()
    plain = isinstance(value, (bool, int)) or (isinstance(value, float) and value - value == 0)
    return name, value if plain else text.partition("=")[2]


def _line(key: str, value: Any) -> str:
    return f"{_toml(key) if '.' in key else key} = {_toml(value)}"


def _toml(value: Any) -> str:
    # Strings, numbers, booleans and lists are written alike in JSON and TOML, except DEL.
    if isinstance(value, dict):
        return "{ " + ", ".join(_line(key, item) for key, item in value.items()) + " }"
    return json.dumps(value, default=str, ensure_ascii=False).replace("\x7f", "\\u007f")

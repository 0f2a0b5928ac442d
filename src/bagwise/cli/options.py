"""Options that commands share, in groups, and the file of ``--config``.

A command with a parameter whose type is a group has all options of this group (see `Application`).
"""

import ast
import functools
import inspect
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand

from bagwise.auto._methods import METHODS, Method
from bagwise.cli.output import print_json, running
from bagwise.exceptions import FileFormatError, InputError

EXIT_CODES = "Exit codes: 0 success, 2 invalid input (see stderr), 1 internal error, 130 Ctrl-C."
_ANY: Any = {"rich_help_panel": "Any command"}
_OF_NO_RUN = {"config", "debug", "force", "help", "quiet"}  # not read from a file

Text = str | None
Names = list[str] | None
TaskName = Literal["classification", "regression"]


def flag(name: str, help: str, *more: str, **settings: Any) -> Any:
    """Declare a flag; `more` are its other names."""
    return typer.Option(False, name, *more, metavar="", help=help, **settings)


def option(
    help: str, metavar: str | None = None, *names: str, default: Any = None, **settings: Any
) -> Any:
    """Declare an option with a value; `settings` go to typer.

    Without `names` it is named after the parameter: ``memory_limit`` is ``--memory-limit``.
    """
    settings = {"metavar": metavar, "show_default": default not in (None, ...)} | settings
    return typer.Option(default, *names, help=help, **settings)


def output(help: str, metavar: str, default: Any = ...) -> Any:
    """Declare ``--output``: `metavar` names what is written, `help` describes its contents."""
    return option(help, metavar, "--output", "-o", default=default)


def argument(help: str, metavar: str, default: Any = ..., **settings: Any) -> Any:
    """Declare an argument, which has no dashes."""
    return typer.Argument(default, metavar=metavar, help=help, show_default=False, **settings)


def column(help: str, metavar: str = "COLUMN", *names: str, **settings: Any) -> Any:
    """Declare an option that names a column of the file, or several."""
    return option(help, metavar, *names, rich_help_panel="Columns of the file", **settings)


def matching_methods(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of a method in the shell, with a description."""
    return [(m.name, m.title) for m in METHODS.values() if m.name.startswith(incomplete)]


def methods(help: str, default: Any = None) -> Any:
    """Declare ``--method``."""
    names = f"{', '.join(METHODS)}, NAME@published, or your package.module:Class"
    help = f"{names} (see `bagwise methods`){help}"
    how: Any = {"show_default": False, "autocompletion": matching_methods}
    return option(help, "NAME", "--method", "-m", default=default, **how)


FILE = argument("CSV, TSV, Parquet, npz, a folder of HDF5 or BirdNET, or Perch-Hoplite.", "FILE")
FORCE = flag("--force", "Overwrite existing files.", "-f")
JSON = flag("--json", "Print the result as one JSON document.", **_ANY)
SEED = option("Seed of the folds.", "N", "--seed", default=0, min=0)
TITLE = option("Title of the page.", "TEXT")
COORDS = column("Two columns with the position of each row, for tables without `coords`.", "X,Y")
GROUP = column("Keep bags with equal values in this column, such as a patient, in one fold.")
TRUST = option("Accept this type in a model file that you trust; repeat for more.", "TYPE")
PARAMETERS = option("Set a parameter, e.g. C=10 or nsk.C=10; repeatable.", "NAME=VALUE", "--set")
CORRECTIONS = option("Known labels: a table, or of review, Label Studio, Raven, Audacity.", "FILE")
CHECK = option("Labels of 50 to 200 instances: sets the threshold of background.", "FILE")
BACKGROUND = flag("--background", "Add a background class for instances without a label.")
NOISY_SETS = flag("--noisy-sets", "Allow for missing and spurious labels in label sets.")
BACKGROUND_ABOVE = option("Least probability of an instance of background.", "P", min=0, max=1)


@dataclass
class Columns:
    """The options that name the columns of a file."""

    bag: Text = column("Column with the bag of each row, `bag` by default.")
    label: Text = column("Column with the label of the bag, `label` by default.")
    event: Text = column("Column that tells whether the event, such as death, was observed.")
    time: Text = column("Column with the time of the event, or of censoring.")
    label_set: Text = column('Column with the label set as "a;b"; or A,B,...: one per label.')
    looked_for: Text = column("Column with the labels looked for; others may be unknown.")
    labels: Path | None = column("A second table, with labels or other columns of bags.", "TABLE")
    missing: Text = column("Bags not in that table: `unlabelled`, `drop` or `error`.", "WHAT")
    id_column: Text = column("Column with the bag ids in that table; --bag by default.")
    merge: Text = column("Merge bags with equal values in this column, such as a patient.")
    features: Names = column("Feature columns; by default all remaining columns.", "A,B,...")
    exclude: Names = column("Columns to leave out.", "A,B,...")
    keep: Names = column("Columns to copy to the results; they are not features.", "A,B")
    use_columns: Names = column("Columns with one value per bag, such as age, to use.", "A,B")
    memory_limit: Text = option("Keep instances that are larger, such as 2GB, in a file.", "SIZE")
    use_rep: Text = column("Features of an AnnData file: a key of obsm, or X.", "KEY")
    separator: Text = column("Separator between the labels of a set, `;` by default.", "TEXT")

    def __post_init__(self) -> None:
        """Split names that are separated by commas; reject contradictory options."""
        for name in ("features", "exclude", "keep", "use_columns"):
            listed = split_names(",".join(getattr(self, name) or ()))
            setattr(self, name, listed or None)
        if self.label is not None and self.label_set is not None:
            raise InputError("label= and label_set= are mutually exclusive: give one.")
        if (self.event is None) != (self.time is None):
            raise InputError("event= and time= belong together: give both columns.")
        if self.event is not None and (self.label or self.label_set) is not None:
            raise InputError("event= and time= replace label= and label_set=: leave these out.")
        if self.missing is not None and self.labels is None:
            raise InputError("missing= needs labels=: it is for bags that are not in that table.")

    @property
    def named(self) -> dict[str, Any]:
        """The options that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def saved(self) -> dict[str, Any]:
        """The options that a model file has: they also apply to new bags."""
        of_this_file = ("labels", "missing", "memory_limit")
        return {name: value for name, value in self.named.items() if name not in of_this_file}


def _components(text: str) -> int | str:
    if text != "auto" and not (text.isdecimal() and int(text) > 0):
        raise InputError(f"--pca {text}: expected a number of components, such as 32, or auto.")
    return text if text == "auto" else int(text)


@dataclass
class Steps:
    """The options for the preprocessing of instances before a method learns from them."""

    pca: Any = option("Number of principal components, or auto.", "N", parser=_components)
    impute: Literal["mean", "median"] | None = option("Fill missing values.", "mean|median")
    no_scale: bool = flag("--no-scale", "Do not standardise the features.")

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as arguments of `make_model` and `instance_steps`."""
        return {"scale": not self.no_scale, "pca": self.pca, "impute": self.impute}


@dataclass
class Task:
    """What to learn: a label, a grade or a number."""

    task: TaskName | None = option("regression (for many numbers) or classification.", "TASK")
    positive: Text = column("The positive one of two labels.", "LABEL", "--pos-label", "--positive")
    order: Text = column("Labels are grades, in this order, lowest first.", "A,B,...")

    def __post_init__(self) -> None:
        """Reject a positive label for regression."""
        if self.task == "regression" and self.positive is not None:
            raise InputError("--pos-label chooses a label: leave it out with --task regression.")
        if self.order is not None and (self.task == "regression" or self.positive is not None):
            raise InputError("--order is for grades: leave out --task regression and --pos-label.")


_RATE: Any = {"min": 0, "max": 1, "rich_help_panel": "Threshold of the positive class"}


@dataclass
class Rates:
    """The rate of held-out bags by which a threshold is chosen."""

    sensitivity: float | None = option("Least share of positive bags to find.", "P", **_RATE)
    specificity: float | None = option("Least share of other bags to reject.", "P", **_RATE)
    precision: float | None = option("Least share of found bags that are positive.", "P", **_RATE)

    def __post_init__(self) -> None:
        """Reject several rates."""
        if len(self.given) > 1:
            raise InputError(f"--{' and --'.join(self.given)} exclude each other: give one.")

    @property
    def given(self) -> dict[str, float]:
        """The rate, if there is one."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass
class Saved:
    """A saved model and a file of bags, in either order."""

    model: Path = argument("Model file written by `bagwise fit`.", "MODEL")
    file: Path = FILE
    trust: Names = TRUST

    def __post_init__(self) -> None:
        """Put the model first."""
        if not is_model(self.model) and is_model(self.file):
            self.model, self.file = self.file, self.model


@dataclass
class Media:
    """The columns with an image, a sound or a text per row."""

    image: Text = column("Column with an image file per row, relative to the folder of FILE.")
    audio: Text = column("Column with a sound file per row.")
    text: Text = column("Column with a text per row.")

    @property
    def columns(self) -> dict[str, str]:
        """The columns that were named, by the kind of media."""
        return {kind: name for kind, name in vars(self).items() if name is not None}

    @property
    def only(self) -> tuple[str, str] | None:
        """The kind of media and its column, if one was named; an error if several were."""
        if len(self.columns) > 1:
            raise InputError("--image, --audio and --text are mutually exclusive: give one.")
        return next(iter(self.columns.items()), None)


@dataclass
class LabelFiles:
    """The folders of label files for programs that show recordings."""

    raven: Path | None = option("Also write selection tables for Raven.", "FOLDER")
    audacity: Path | None = option("Also write label files for Audacity.", "FOLDER")


def _read_options(context: typer.Context, path: Path | None) -> Path | None:
    """Read the options of a command from a TOML file; the command line takes precedence."""
    if path is None or context.resilient_parsing:
        return path
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not a TOML file: {error}.") from error
    known = {
        name.removeprefix("--"): each
        for each in context.command.params
        for name in each.opts
        if each.name not in _OF_NO_RUN and (name.startswith("--") or name == each.name)
    }
    context.default_map = {}
    for key, value in given.items():
        found = known.get(key.replace("_", "-"))
        if found is None:
            raise InputError(f"{path}: no option {key!r}: expected one of {', '.join(known)}.")
        context.default_map[found.name] = _as_typed(value, found, f"{path}: {key!r}")
    return path


def _as_typed(value: Any, option: Any, where: str) -> Any:
    """Convert a TOML value to its form on the command line: a string, a list, or a flag."""
    if isinstance(value, dict) and option.name == "parameters":
        return [f"{name}={item}" for name, item in value.items()]
    is_flag, several = getattr(option, "is_flag", False), getattr(option, "multiple", False)
    if isinstance(value, bool) != is_flag or isinstance(value, dict if several else dict | list):
        expected = "true or false" if is_flag else "a list" if several else "one value"
        raise InputError(f"{where} is {value!r}: expected {expected}.")
    if several:
        return [str(item) for item in (value if isinstance(value, list) else [value])]
    return value if is_flag else str(value)


@dataclass
class Common:
    """The options of every command."""

    config: Path | None = option(
        "Read options from this file.", "TOML", callback=_read_options, is_eager=True, **_ANY
    )
    json: bool = JSON
    quiet: bool = flag("--quiet", "Print no notes and no progress.", "-q", **_ANY)
    debug: bool = flag("--debug", "Show the traceback of an error.", **_ANY)


class OnceCommand(TyperCommand):
    """A command that refuses two label columns, of which it would use the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line."""
        for option in ("--label", "--label-set"):
            if [word.partition("=")[0] for word in args].count(option) > 1:
                raise InputError(f"{option} is given twice, and names one column.")
        return super().parse_args(ctx, args)


class Application(typer.Typer):
    """A Typer application whose commands have the options of `Common`.

    A parameter whose type is a dataclass of options is expanded into these options. A command
    returns what it prints with ``--json``.
    """

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Register a function as a command, as in Typer."""
        given: Any = {"epilog": EXIT_CODES, "cls": OnceCommand} | settings
        register = super().command(name, **given)

        def decorate(function: Any) -> Any:
            register(_with_groups(function))
            return function

        return decorate


def _with_groups(function: Callable[..., Any]) -> Callable[..., None]:
    """Expand the groups among the parameters of a command, and add the options of `Common`."""
    own = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        n: p.annotation for n, p in own.parameters.items() if is_dataclass(p.annotation)
    }

    @functools.wraps(function)
    def run(**options: Any) -> None:
        for name, group in (groups | {"common": Common}).items():
            options[name] = group(**{f.name: options.pop(f.name) for f in fields(group)})
        common = options.pop("common")
        with running(quiet=common.quiet, json=common.json):
            record = function(**options)
        if common.json:
            print_json(record)

    common = inspect.Parameter("common", inspect.Parameter.KEYWORD_ONLY, annotation=Common)
    parameters = [q for p in (*own.parameters.values(), common) for q in _expanded(p)]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _expanded(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The fields of a parameter that is a group of options; others as they are."""
    group = parameter.annotation
    if not is_dataclass(group):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    kinds = get_type_hints(group)
    return [
        parameter.replace(
            name=f.name,
            kind=inspect.Parameter.KEYWORD_ONLY,
            default=f.default,
            annotation=kinds[f.name],
        )
        for f in fields(group)
    ]


def split_names(text: str | None) -> list[str]:
    """Split names that are separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def two_columns(text: str | None) -> list[str]:
    """Split the value of ``--coords``."""
    names = split_names(text)
    if len(names) not in (0, 2):
        raise InputError(f"--coords {text}: expected the names of 2 columns.")
    return names


def parse_parameters(texts: Iterable[str] | None) -> dict[str, Any]:
    """Read ``["C=10", "kernel=linear"]``: numbers, true, false and none are converted.

    Examples
    --------
    >>> from bagwise.cli.options import parse_parameters
    >>> parse_parameters(["C=10", "kernel=linear", "normalization=none"])
    {'C': 10, 'kernel': 'linear', 'normalization': None}
    """
    parameters = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.rpartition(".")[2].isidentifier():
            raise InputError(f"--set {text}: expected NAME=VALUE, such as --set C=10.")
        parameters[name] = _value(value)
    return parameters


def parameters_by_method(values: Mapping[str, Any], methods: Iterable[str]) -> dict[str, Any]:
    """Give each method its parameters: ``nsk.C`` is for one method, ``C`` is for all.

    Examples
    --------
    >>> from bagwise.cli.options import parameters_by_method
    >>> parameters_by_method({"C": 10, "mind.kind": "minmin"}, ["nsk", "mind"])
    {'nsk': {'C': 10}, 'mind': {'C': 10, 'kind': 'minmin'}}
    """
    found: dict[str, Any] = {method: {} for method in methods}
    # Parameters of one method come last and override parameters of all methods.
    for name, value in sorted(values.items(), key=lambda item: "." in item[0]):
        method, _, own = name.rpartition(".")
        if method and method not in found:
            raise InputError(f"--set {name}: the methods are {', '.join(found)}.")
        for chosen in [method] if method else found:
            found[chosen][own] = value
    return found


def own_parameters(method: Method, **given: Any) -> dict[str, Any]:
    """The parameters that options of their own set; an error if the method lacks them."""
    meanings: dict[str, dict[str, Any]] = {
        "background": {"background": True},
        "noisy_sets": {"missing": "learn", "spurious": "learn", "random_state": 0},
        "folds": {"cv": given.get("folds")},
        "seed": {"random_state": given.get("seed")},
        "use_columns": {"use_columns": given.get("use_columns")},
    }
    found: dict[str, Any] = {}
    for name in (name for name, value in given.items() if value is not None and value is not False):
        if not meanings[name].keys() <= method.parameters.keys():
            words = f"--{name.replace('_', '-')} does not apply to {method.name}: leave it out."
            raise InputError(words + (" It is for -m orlr." if given[name] is True else ""))
        found |= meanings[name]
    return found


def is_model(path: Path) -> bool:
    """Whether a file is a saved model, by its content."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "schema.json" in archive.namelist()


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text

"""Options that commands share, most of them in groups.

A command with a parameter whose type is a group has all options of this group (see `Application`).
"""

import ast
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from bagwise.auto._methods import METHODS, Method
from bagwise.exceptions import InputError

Text = str | None
Names = list[str] | None


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
    help = f"{', '.join(METHODS)} (see `bagwise methods`){help}"
    names = ("--method", "-m")
    return option(
        help, "NAME", *names, default=default, show_default=False, autocompletion=matching_methods
    )


FILE = argument(
    "CSV, TSV, Parquet or npz file, a folder of HDF5 or BirdNET files, or a Perch-Hoplite "
    "database.",
    "FILE",
)
FORCE = flag("--force", "Overwrite existing files.", "-f")
JSON = flag("--json", "Print the result as one JSON document to stdout; notes go to stderr.")
SEED = option("Seed of the folds.", "N", "--seed", default=0, min=0)
TITLE = option("Title of the page.", "TEXT")
COORDS = column("Two columns with the position of each row, for tables without `coords`.", "X,Y")
GROUP = column("Keep bags with equal values in this column, such as a patient, in one fold.")
MEMORY_LIMIT = option(
    "Keep instances that are larger than this, such as 2GB, in a file instead of memory. Half of "
    "the available memory by default.",
    "SIZE",
)
TRUST = option(
    "Accept this type in the model file; repeat for more. Loading imports its module: use it only "
    "for files that you trust.",
    "TYPE",
)
PARAMETERS = option(
    "Set a parameter of the method (see `bagwise methods`); repeat for more. With several methods, "
    "METHOD.NAME=VALUE sets a parameter of one method.",
    "NAME=VALUE",
    "--set",
)
CORRECTIONS = option(
    "Known labels of instances, kept fixed: a file from `bagwise review`, a table with the columns "
    "bag, row and label, an export from Label Studio (.json), or .txt files from Raven or "
    "Audacity.",
    "FILE",
)
BACKGROUND = flag(
    "--background", "Add a background class for instances that have none of the labels."
)
NOISY_SETS = flag("--noisy-sets", "Allow for missing and spurious labels in label sets.")
BACKGROUND_ABOVE = option(
    "Label an instance as background if its background probability exceeds P; by default if "
    "background is more probable than every label.",
    "P",
    min=0,
    max=1,
)


@dataclass
class Columns:
    """The options that name the columns of a file."""

    bag: Text = column("Column with the bag of each row, `bag` by default.")
    label: Text = column("Column with the label of the bag, `label` by default.")
    label_set: Text = column('Column with the label set of the bag, as "a;b".')
    labels: Path | None = column(
        "A second table, with the columns of --label, --label-set, --merge or --keep.", "TABLE"
    )
    missing: Text = column(
        "What to do with bags that are not in that table: `unlabelled`, `drop` or `error`.", "WHAT"
    )
    id_column: Text = column("Column with the bag ids in that table; --bag by default.")
    merge: Text = column("Merge bags with equal values in this column, such as a patient.")
    features: Names = column("Feature columns; by default all remaining columns.", "A,B,...")
    exclude: Names = column("Columns to leave out.", "A,B,...")
    keep: Names = column("Columns to copy to the results; they are not features.", "A,B")
    separator: str = column("Separator between the labels of a set.", "TEXT", default=";")

    def __post_init__(self) -> None:
        """Split names that are separated by commas; reject contradictory options."""
        self.features = _split(self.features) or None
        self.exclude = _split(self.exclude)
        self.keep = _split(self.keep)
        if self.label is not None and self.label_set is not None:
            raise InputError(
                "label= and label_set= are mutually exclusive: a bag has one or the other."
            )
        if self.missing is not None and self.labels is None:
            raise InputError("missing= needs labels=: it is for bags that are not in that table.")
        if not self.separator:
            raise InputError("separator= is empty: give the text between the labels of a set.")


@dataclass
class Steps:
    """The options for the preprocessing of instances before a method learns from them."""

    pca: Text = option("Project instances onto N principal components; auto chooses N.", "N")
    impute: Text = option("Fill missing values: `mean` or `median` of the training bags.", "HOW")
    no_scale: bool = flag("--no-scale", "Do not standardise the features.")

    def __post_init__(self) -> None:
        """Reject values that the options do not accept."""
        if self.impute not in (None, "mean", "median"):
            raise InputError(f"--impute {self.impute}: expected mean or median.")
        if self.pca not in (None, "auto") and not (self.pca.isdecimal() and int(self.pca) > 0):
            raise InputError(
                f"--pca {self.pca}: expected a number of components, such as 32, or auto."
            )

    @property
    def components(self) -> int | str | None:
        """The number of components, "auto", or None if ``--pca`` is not given."""
        return self.pca if self.pca is None or self.pca == "auto" else int(self.pca)

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as arguments of `make_model` and `instance_steps`."""
        return {"scale": not self.no_scale, "pca": self.components, "impute": self.impute}


@dataclass
class Task:
    """What to learn: a label or a number."""

    task: Text = option(
        "regression (a number per bag) or classification. By default regression if the label "
        "column has many different numbers.",
        "TASK",
    )
    positive: Text = column(
        "Which of two labels is positive. By default the larger number, a word for presence "
        "(active, yes, tumor), or the last label in sorted order.",
        "LABEL",
        "--pos-label",
        "--positive",
    )

    def __post_init__(self) -> None:
        """Reject an unknown task, or a positive label for regression."""
        if self.task not in (None, "classification", "regression"):
            raise InputError(f"--task {self.task}: expected one of classification, regression.")
        if self.task == "regression" and self.positive is not None:
            raise InputError("--pos-label chooses a label: leave it out with --task regression.")


@dataclass
class Saved:
    """A saved model and a file of bags, in either order."""

    model: Path = argument("Model file written by `bagwise fit`.", "MODEL")
    file: Path = FILE
    memory_limit: Text = MEMORY_LIMIT
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
    # Parameters of one method come last and override those of all methods.
    for name, value in sorted(values.items(), key=lambda item: "." in item[0]):
        method, _, own = name.rpartition(".")
        if method and method not in found:
            raise InputError(
                f"--set {name}: {method} is not among the methods, which are {', '.join(found)}."
            )
        for chosen in [method] if method else found:
            found[chosen][own] = value
    return found


def annotator_parameters(method: Method, *, background: bool, noisy_sets: bool) -> dict[str, Any]:
    """``--background`` and ``--noisy-sets`` as parameters; an error if the method lacks them."""
    found: dict[str, Any] = {"background": True} if background else {}
    if noisy_sets:
        found |= {"missing": "learn", "spurious": "learn", "random_state": 0}
    odd = [name for name in found if name not in method.parameters]
    if odd:
        name = "--background" if odd[0] == "background" else "--noisy-sets"
        raise InputError(f"{name} is not for {method.name}: use it with -m orlr.")
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


def _split(names: list[str] | None) -> list[str]:
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]

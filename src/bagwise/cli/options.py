"""Arguments and options that several commands share."""

import ast
import csv
import gzip
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise.auto._methods import CSP, METHODS, Method
from bagwise.exceptions import InputError
from bagwise.extras import import_extra


def flag(name: str, help: str, *, short: str | None = None, **settings: Any) -> Any:
    """Declare a flag, with one letter as a second name if `short` is given."""
    names = [name] if short is None else [name, short]
    return typer.Option(*names, metavar="", help=help, **settings)


def option(*names: str, help: str, **settings: Any) -> Any:
    """Declare an option with a value, whose default is not shown; `settings` go to typer.

    Without `names` it is named after the parameter: ``memory_limit`` is ``--memory-limit``.
    """
    return typer.Option(*names, help=help, **{"show_default": False} | settings)


def output_option(metavar: str, help: str) -> Any:
    """Declare ``--output``: `metavar` names what is written, `help` describes its contents."""
    return option("--output", "-o", metavar=metavar, help=help)


def column(help: str, metavar: str = "COLUMN", *names: str, **settings: Any) -> Any:
    """Declare an option that names a column of the file, or several, which the shell completes."""
    settings = {"metavar": metavar, "rich_help_panel": "Columns of the file"} | settings
    if "autocompletion" not in settings and metavar not in ("TABLE", "LABEL", "TEXT"):
        settings["autocompletion"] = _matching_columns
    return option(*names, help=help, **settings)


def _matching_columns(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a column of the typed file or table of labels; after a comma, another column."""
    before, comma, last = incomplete.rpartition(",")
    # During completion, arguments are not assigned to their names yet.
    given = [*context.args, *map(context.params.get, ("file", "labels", "model"))]
    names = [name for path in given if path is not None for name in column_names(Path(path))]
    return [before + comma + name for name in dict.fromkeys(names) if name.startswith(last)]


def column_names(path: Path) -> list[str]:
    """The columns of a table, from its first line or its schema; none if it cannot be read.

    Parameters
    ----------
    path : Path
        A CSV, TSV or Parquet file.

    Returns
    -------
    list of str
    """
    name = path.name.lower()
    try:
        if name.endswith((".parquet", ".pq")):
            parquet = import_extra("pyarrow.parquet", extra="io")
            return list(parquet.read_schema(path).names)
        if name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")):
            opened: Any = gzip.open if name.endswith(".gz") else open
            with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
                return next(csv.reader(file, delimiter="\t" if ".tsv" in name else ","), [])
    except (OSError, ValueError, ImportError, csv.Error):  # no completion
        pass
    return []


def matching_methods(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of a method in the shell, with a description."""
    return [(m.name, m.title) for m in METHODS.values() if m.name.startswith(incomplete)]


def parse_parameters(texts: Iterable[str] | None) -> dict[str, Any]:
    """Read ``["C=10", "kernel=linear"]``: numbers, true, false and none are converted.

    Parameters
    ----------
    texts : iterable of str or None
        The value of ``--set``.

    Returns
    -------
    dict

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

    Parameters
    ----------
    values : mapping
        Parameters by their names, from `parse_parameters`.
    methods : iterable of str
        The names of the methods.

    Returns
    -------
    dict of str to dict

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
    """``--background`` and ``--noisy-sets`` as parameters; an error if the method lacks them.

    Parameters
    ----------
    method : Method
        The method to fit.
    background, noisy_sets : bool
        Whether the options were given.

    Returns
    -------
    dict
    """
    found: dict[str, Any] = {"background": True} if background else {}
    if noisy_sets:
        found |= {"missing": "learn", "spurious": "learn", "random_state": 0}
    odd = [name for name in found if name not in method.parameters]
    if odd:
        option = "--background" if odd[0] == "background" else "--noisy-sets"
        raise InputError(f"{option} is not for {method.name}: use it with -m orlr.")
    return found


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _matching_parameters(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a parameter of the chosen methods, as ``C=``."""
    chosen = {"annotate": "orlr"}.get(str(context.info_name), context.params.get("method")) or ""
    several = [chosen] if isinstance(chosen, str) else list(chosen)
    methods = [METHODS[name] for name in several if name in METHODS]
    if context.info_name == "cluster":
        methods = [CSP]
    names = [f"{name}=" for method in methods for name in method.parameters]
    if len(methods) > 1:
        names += [f"{method.name}.{name}=" for method in methods for name in method.parameters]
    return sorted({name for name in names if name.startswith(incomplete)})


def _matching_scores(incomplete: str) -> list[str]:
    """Complete the name of a score in the shell."""
    from sklearn.metrics import get_scorer_names

    return [name for name in ["AUC", *get_scorer_names()] if name.startswith(incomplete)]


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="CSV, TSV, Parquet or npz file, a folder of HDF5 or BirdNET files, or a Perch-Hoplite "
        "database.",
    ),
]


def is_model(path: Path) -> bool:
    """Whether a file is a saved model, by its content."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "schema.json" in archive.namelist()


def model_and_file(model: Path, file: Path) -> tuple[Path, Path]:
    """The two arguments of a command in the order MODEL FILE, even if they were swapped.

    Parameters
    ----------
    model, file : Path
        The arguments as typed.

    Returns
    -------
    model, file : Path
    """
    if not is_model(model) and is_model(file):
        return file, model
    return model, file


def shown_column(image: str | None, audio: str | None, text: str | None) -> tuple[str, str] | None:
    """The kind of media of ``--image``, ``--audio`` or ``--text``, and its column."""
    named = {"image": image, "audio": audio, "text": text}
    shown = [(kind, name) for kind, name in named.items() if name is not None]
    if len(shown) > 1:
        raise InputError("--image, --audio and --text are mutually exclusive: give one of them.")
    return shown[0] if shown else None


ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", show_default=False, help="Model file written by `bagwise fit`."
    ),
]
Trust = Annotated[
    list[str] | None,
    option(
        "--trust",
        metavar="TYPE",
        help="Accept this type in the model file; the error message states its name. Repeat for "
        "more. Use it only for files that you trust: loading imports the module of the type.",
    ),
]
Bag = Annotated[str | None, column("Column with the bag of each row, `bag` by default.")]
Label = Annotated[str | None, column("Column with the label of the bag, `label` by default.")]
LabelSet = Annotated[str | None, column('Column with the label set of the bag, as "a;b".')]
Labels = Annotated[
    Path | None,
    column("A second table with the labels, in the columns --bag and --label.", "TABLE"),
]
Missing = Annotated[
    str | None,
    column(
        "What to do with bags that are not in the TABLE of --labels: `unlabelled` (default), "
        "`drop`, or `error`.",
        "WHAT",
        autocompletion=lambda: ["unlabelled", "drop", "error"],
    ),
]
IdColumn = Annotated[
    str | None,
    column("Column with the bag ids in the TABLE of --labels; --bag by default."),
]
Merge = Annotated[
    str | None,
    column("Merge bags with equal values in this column, such as the slides of a patient."),
]
Positive = Annotated[
    str | None,
    column(
        "Which of two labels is positive: one positive instance makes a bag positive. By default "
        "the larger number, a word for presence (active, yes, tumor), or else the last label in "
        "sorted order.",
        "LABEL",
        "--pos-label",
        "--positive",
    ),
]
Features = Annotated[
    list[str] | None, column("Feature columns; by default all remaining columns.", "A,B,...")
]
Exclude = Annotated[list[str] | None, column("Columns to leave out.", "A,B,...")]
Keep = Annotated[
    list[str] | None,
    column(
        "Columns to copy to the results, such as a patient or a file; they are not features.", "A,B"
    ),
]
Separator = Annotated[
    str, column("Separator between the labels of a set.", "TEXT", show_default=True)
]
Group = Annotated[
    str | None,
    column(
        "Keep bags with equal values in this column on one side of a split, such as the "
        "slides of a patient."
    ),
]
Image = Annotated[
    str | None, column("Column with an image file per row, relative to the folder of FILE.")
]
Audio = Annotated[str | None, column("Column with a sound file per row.")]
Text = Annotated[str | None, column("Column with a text per row.")]
MethodName = Annotated[
    str,
    option(
        "--method",
        "-m",
        metavar="NAME",
        help=f"{', '.join(METHODS)} (see `bagwise methods`).",
        autocompletion=matching_methods,
    ),
]
MethodNames = Annotated[
    list[str] | None,
    option(
        "--method",
        "-m",
        metavar="NAME",
        help=f"{', '.join(METHODS)} (see `bagwise methods`); repeat to compare several methods "
        "with the first one. By default auto.",
        autocompletion=matching_methods,
    ),
]
Baselines = Annotated[
    list[str] | None,
    option(
        "--baseline",
        metavar="NAME",
        help="Add a baseline: sil, a linear SVM on instances that inherit the label of their bag.",
    ),
]
NoBaseline = Annotated[
    bool, flag("--no-baseline", "Leave out the default baselines, but not those of --baseline.")
]
Scoring = Annotated[
    list[str] | None,
    option(
        "--scoring",
        metavar="NAME",
        help="Measure to show instead of the default ones: accuracy, AUC, or a scikit-learn "
        "scorer such as f1_macro; repeat for more. Differences are tested on the first.",
        autocompletion=_matching_scores,
    ),
]
Parameters = Annotated[
    list[str] | None,
    option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter of the method (see `bagwise methods`); repeat for more. With "
        "several methods, METHOD.NAME=VALUE sets a parameter of one method.",
        autocompletion=_matching_parameters,
    ),
]
NoScale = Annotated[bool, flag("--no-scale", "Do not standardise the features.")]
Pca = Annotated[
    str | None,
    option(
        "--pca",
        metavar="N",
        help="Project instances onto their first N principal components; auto chooses N. "
        "Recommended for many features and few bags, such as features of foundation models.",
    ),
]
Impute = Annotated[
    str | None,
    option(
        "--impute",
        metavar="HOW",
        help="Fill missing values with the `mean` or `median` of the feature, computed inside "
        "the folds and saved with the model.",
        autocompletion=lambda: ["mean", "median"],
    ),
]
Folds = Annotated[int, typer.Option("--folds", metavar="N", min=2, help="Number of folds.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the folds.")]
MemoryLimit = Annotated[
    str | None,
    option(
        metavar="SIZE",
        help="If the instances are larger than this, such as 2GB, keep them in a file instead of "
        "memory: HDF5 files are read in place, others copied to a temporary file. Half of the "
        "available memory by default.",
    ),
]
CheckpointFile = Annotated[
    Path | None,
    option(
        metavar="PATH",
        help="Save the state of a long fit to this file at intervals; after a crash the same "
        "command continues from it (pdmisvm, orlr, noisy-or, mimlca, plda).",
    ),
]
Corrections = Annotated[
    Path | None,
    option(
        metavar="FILE",
        help="Known labels of instances, kept fixed: a file from `bagwise review`, a table with "
        "the columns bag, row and label, .jsonl, an export from Label Studio (.json), or .txt "
        "files from Raven or Audacity.",
    ),
]
Background = Annotated[
    bool, flag("--background", "Add a background class for instances that have none of the labels.")
]
NoisySets = Annotated[
    bool,
    flag(
        "--noisy-sets",
        "Allow for missing and spurious labels in label sets: learn how often they occur, and "
        "list the sets that are probably wrong.",
    ),
]
Raven = Annotated[
    Path | None,
    option(metavar="FOLDER", help="Also write selection tables for Raven, one per recording."),
]
Audacity = Annotated[
    Path | None,
    option(metavar="FOLDER", help="Also write label files for Audacity, one per recording."),
]
BackgroundAbove = Annotated[
    float | None,
    option(
        metavar="P",
        min=0,
        max=1,
        help="Label an instance as background if its background probability exceeds P; by "
        "default if background is more probable than every label.",
    ),
]
Force = Annotated[bool, flag("--force", "Overwrite existing files.", short="-f")]
Json = Annotated[
    bool, flag("--json", "Print the result as one JSON document to stdout; notes go to stderr.")
]


@dataclass
class Columns:
    """The options that name the columns of a file.

    A command with a parameter of this type has all of these options (see `Application`).
    """

    bag: Bag = None
    label: Label = None
    label_set: LabelSet = None
    labels: Labels = None
    missing: Missing = None
    id_column: IdColumn = None
    merge: Merge = None
    features: Features = None
    exclude: Exclude = None
    keep: Keep = None
    separator: Separator = ";"

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

    pca: Pca = None
    impute: Impute = None
    no_scale: NoScale = False

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


def _split(names: list[str] | None) -> list[str]:
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]

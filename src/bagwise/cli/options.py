"""Arguments and options that several commands share."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise._methods import CSP, METHODS
from bagwise.exceptions import InputError

__all__ = [
    "COLUMNS",
    "Audio",
    "Bag",
    "CheckpointFile",
    "Corrections",
    "Exclude",
    "Features",
    "File",
    "Force",
    "Group",
    "Image",
    "Json",
    "Label",
    "LabelSet",
    "Labels",
    "MemoryLimit",
    "MethodName",
    "ModelFile",
    "NoScale",
    "Parameters",
    "Positive",
    "Separator",
    "Text",
    "flag",
    "matching_methods",
    "parse_parameters",
]

COLUMNS = "Columns of the file"


def flag(*names: str, help: str) -> Any:
    """Declare an option that is there or not.

    Parameters
    ----------
    *names : str
        How it is typed.
    help : str
        What it does.

    Returns
    -------
    typer.models.OptionInfo
    """
    return typer.Option(*names, metavar="", help=help)


def matching_methods(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of a method, for the shell.

    Parameters
    ----------
    incomplete : str
        What was typed.

    Returns
    -------
    list of (name, what it does)
    """
    return [(m.name, m.title) for m in METHODS.values() if m.name.startswith(incomplete)]


def parse_parameters(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``["C=10", "kernel=linear"]``: numbers, true, false and none are such, others text.

    Parameters
    ----------
    texts : iterable of str
        What was given to ``--set``.

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
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--set {text}: expected NAME=VALUE, such as --set C=10.")
        parameters[name] = _value(value)
    return parameters


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _matching_parameters(context: typer.Context, incomplete: str) -> list[str]:
    """Parameters of the method asked for, as ``C=``."""
    asked = {"annotate": "orlr"}.get(str(context.info_name), context.params.get("method"))
    method = CSP if context.info_name == "cluster" else METHODS.get(asked or "")
    names = [f"{name}=" for name in method.parameters] if method is not None else []
    return [name for name in names if name.startswith(incomplete)]


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="CSV, TSV, Parquet or npz file, or a folder of HDF5 files.",
    ),
]
ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", show_default=False, help="What `bagwise fit` wrote."),
]
Bag = Annotated[
    str | None,
    typer.Option(
        "--bag",
        rich_help_panel=COLUMNS,
        metavar="COLUMN",
        help="Column that names the bag of a row, `bag` by default.",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        rich_help_panel=COLUMNS,
        metavar="COLUMN",
        help="Column with the label of the bag, `label` by default.",
    ),
]
LabelSet = Annotated[
    str | None,
    typer.Option(
        "--label-set",
        rich_help_panel=COLUMNS,
        metavar="COLUMN",
        help='Column with several labels of the bag, as "a;b".',
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        rich_help_panel=COLUMNS,
        metavar="TABLE",
        help="Labels kept elsewhere: a table with the columns --bag and --label.",
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive",
        rich_help_panel=COLUMNS,
        metavar="LABEL",
        help="Of two labels, the one that a single instance can cause; the last in order by "
        "default.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        rich_help_panel=COLUMNS,
        metavar="A,B,...",
        help="Feature columns; all that are left by default.",
        show_default=False,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        rich_help_panel=COLUMNS,
        metavar="A,B,...",
        help="Columns to leave out.",
        show_default=False,
    ),
]
Separator = Annotated[
    str,
    typer.Option(
        "--separator",
        rich_help_panel=COLUMNS,
        metavar="TEXT",
        help="What separates labels of a set.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        rich_help_panel=COLUMNS,
        metavar="COLUMN",
        help="Column whose equal values stay on one side of a split: the patient of a slide.",
    ),
]
Image = Annotated[
    str | None,
    typer.Option(
        "--image",
        rich_help_panel=COLUMNS,
        metavar="COLUMN",
        help="Column with an image file per row, from the folder of FILE.",
    ),
]
Audio = Annotated[
    str | None,
    typer.Option(
        "--audio",
        rich_help_panel=COLUMNS,
        metavar="COLUMN",
        help="Column with a sound file per row.",
    ),
]
Text = Annotated[
    str | None,
    typer.Option(
        "--text", rich_help_panel=COLUMNS, metavar="COLUMN", help="Column with a text per row."
    ),
]
MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help=f"{', '.join(METHODS)} (see `bagwise methods`).",
        autocompletion=matching_methods,
        show_default=False,
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A parameter of the method (see `bagwise methods`); repeat for more.",
        autocompletion=_matching_parameters,
        show_default=False,
    ),
]
NoScale = Annotated[bool, flag("--no-scale", help="Take features as they are: no standardisation.")]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Keep instances larger than this, such as 2GB, in a temporary file instead of memory; "
        "half of the available memory by default.",
        show_default=False,
    ),
]
CheckpointFile = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="PATH",
        help="Save the state of a long fit there now and then; the same command continues from it "
        "after a crash (pdmisvm, orlr, mimlca).",
        show_default=False,
    ),
]
Corrections = Annotated[
    Path | None,
    typer.Option(
        "--corrections",
        metavar="FILE",
        help="Labels of instances that somebody looked at, from `bagwise review` or a table with "
        "the columns bag, row and label; held fixed.",
        show_default=False,
    ),
]
Force = Annotated[bool, flag("--force", help="Overwrite what exists.")]
Json = Annotated[
    bool, flag("--json", help="Print the result as one JSON document; notes stay on stderr.")
]

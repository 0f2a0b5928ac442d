"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli.methods import METHODS

__all__ = [
    "Bag",
    "CheckpointFile",
    "Exclude",
    "Features",
    "File",
    "Force",
    "Json",
    "Label",
    "LabelSet",
    "Labels",
    "MemoryLimit",
    "MethodName",
    "NoScale",
    "Parameters",
    "Positive",
    "Separator",
]


def _matching_methods(incomplete: str) -> list[tuple[str, str]]:
    return [(m.name, m.title) for m in METHODS.values() if m.name.startswith(incomplete)]


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="CSV, TSV, Parquet or npz file, or a folder of HDF5 files.",
    ),
]
Bag = Annotated[
    str | None,
    typer.Option(
        "--bag", metavar="COLUMN", help="Column that names the bag of a row, `bag` by default."
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label", metavar="COLUMN", help="Column with the label of the bag, `label` by default."
    ),
]
LabelSet = Annotated[
    str | None,
    typer.Option(
        "--label-set", metavar="COLUMN", help='Column with several labels of the bag, as "a;b".'
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="TABLE",
        help="Labels kept elsewhere: a table with the columns --bag and --label.",
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive",
        metavar="LABEL",
        help="Of two labels, the one that a single instance can cause; the last in order by "
        "default.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        metavar="A,B,...",
        help="Feature columns; all that are left by default.",
        show_default=False,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="A,B,...", help="Columns to leave out.", show_default=False),
]
Separator = Annotated[
    str, typer.Option("--separator", metavar="TEXT", help="What separates labels of a set.")
]
MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help=f"{', '.join(METHODS)} (see `bagwise methods`).",
        autocompletion=_matching_methods,
        show_default=False,
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; repeat for more."),
]
NoScale = Annotated[
    bool, typer.Option("--no-scale", help="Take features as they are: no standardisation.")
]
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
Force = Annotated[bool, typer.Option("--force", help="Overwrite what exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

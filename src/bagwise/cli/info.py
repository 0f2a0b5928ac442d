"""``bagwise info``: what is in a file of bags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bagwise.cli import options
from bagwise.cli.output import print_json, print_table
from bagwise.cli.versions import print_versions

if TYPE_CHECKING:
    from bagwise._common.types import Floats
    from bagwise.io._contents import Contents

_SHOWN = 20  # maximum number of labels in the table


def info(
    columns: options.Columns,
    file: Path = options.FILE,
    memory_limit: str | None = options.MEMORY_LIMIT,
    json: bool = options.JSON,
    versions: bool = options.flag(
        "--versions",
        "Show instead the installed versions, cores and data folders (for bug reports).",
        callback=print_versions,
        is_eager=True,
    ),
) -> None:
    """Show how a file is read: bags, instances, features, labels, missing values.

    Use it to check that bagwise reads your columns as intended. It reads the file as the other
    commands do, and lists constant features and missing values. It writes no file.

    ```
    bagwise info musk1.csv
    bagwise info words.csv --bag bag --label-set label_set --json
    bagwise info --versions
    ```
    """
    from bagwise.cli.numbers import numbers_of
    from bagwise.cli.reading import read_columns
    from bagwise.report._data import summarise

    data = read_columns(file, columns, memory_limit, learn=False)
    facts = {"file": str(file), **summarise(data.bags)}
    numbers = None if data.labels is None else numbers_of(data.labels[data.labels.known], None)
    if numbers is not None:
        facts |= _number_facts(numbers, len(data.bags))
    facts |= {"not_features": data.left_out} if data.left_out else {}
    facts |= _unlabelled(data)
    counts = {} if numbers is not None else _label_counts(data)
    if json:
        print_json(facts | {"labels": counts})
        return
    names = [name.replace("_", " ") for name in facts]
    print_table({"fact": names, "value": [_shown(v) for v in facts.values()]}, heading=False)
    if counts:
        common = dict(sorted(counts.items(), key=lambda item: -item[1])[:_SHOWN])
        # Quotes make spaces around a label visible.
        names = [name if name == name.strip() else repr(name) for name in common]
        print_table({"label": names, "bags": list(common.values())})
    if len(counts) > _SHOWN:
        typer.echo(f"and {len(counts) - _SHOWN} more labels")


def _number_facts(numbers: Floats, n_bags: int) -> dict[str, Any]:
    """Describe a label column that contains a number per bag."""
    return {
        "bags_with_a_number": len(numbers),
        "bags_without": n_bags - len(numbers),
        "smallest_number": float(numbers.min()),
        "mean_number": float(numbers.mean()),
        "largest_number": float(numbers.max()),
    }


def _unlabelled(data: Contents) -> dict[str, int]:
    """Count bags without a label, those of them not in the table of labels, and empty sets."""
    counts: dict[str, int] = {}
    for labels in (data.labels, data.label_sets):
        if labels is not None and not labels.known.all():
            counts["bags_without_a_label"] = int((~labels.known).sum())
    if data.absent and len(data.absent) <= counts.get("bags_without_a_label", 0):
        counts["of_them_not_in_the_table"] = len(data.absent)
    if data.label_sets is not None:
        empty = data.label_sets.known & (data.label_sets.indicator == 0).all(axis=1)
        counts["empty_label_sets"] = int(empty.sum())
    return counts


def _label_counts(data: Contents) -> dict[str, int]:
    import numpy as np

    counts: dict[str, int] = {}
    if data.labels is not None:
        known = data.labels[data.labels.known]
        found, numbers = np.unique(known.values.astype(str), return_counts=True)
        counts |= dict(zip(found.tolist(), numbers.tolist(), strict=True))
    if data.label_sets is not None:
        counts |= dict(zip(data.label_sets.names, data.label_sets.counts.tolist(), strict=True))
    return counts


def _shown(value: Any) -> str:
    if isinstance(value, list):
        listed = ", ".join(map(str, value[:10])) + (", ..." if len(value) > 10 else "")
        return f"{len(value)}: {listed}" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)

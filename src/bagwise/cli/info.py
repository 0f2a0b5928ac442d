"""``bagwise info``: what is in a file of bags."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from bagwise import __version__
from bagwise.cli import options
from bagwise.cli.output import print_lines, print_table
from bagwise.exceptions import LabelError

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.io._contents import Contents

_SHOWN = 20  # maximum number of labels in the table
_REQUIREMENT = re.compile(r"(?!bagwise)([\w.-]+)[^;]*(?:;.*extra == ['\"](\w+)['\"])?")


def _print_versions(wanted: bool) -> None:
    """Print the versions of bagwise and its requirements, the cores and the data folders; exit."""
    if not wanted:
        return
    from bagwise.datasets._registry import data_folders
    from bagwise.loops.threads import n_threads

    facts = {"bagwise": __version__, "Python": platform.python_version()}
    facts["system"] = f"{platform.system()} {platform.release()}, {platform.machine()}"
    facts |= {"cores": str(n_threads()), "data": ", ".join(map(str, data_folders()))}
    try:
        needed = importlib.metadata.requires("bagwise") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
        own = tomllib.loads(text)["project"]
        extras = own["optional-dependencies"].items()
        needed = own["dependencies"] + [f"{n}; extra == '{x}'" for x, all_ in extras for n in all_]
    found = map(_REQUIREMENT.match, needed)
    for name, extra in (match.groups(default="") for match in found if match is not None):
        try:
            facts[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            facts[name] = f'absent: pip install "bagwise[{extra}]"'
    print_table({"": list(facts), "value": list(facts.values())}, heading=False)
    raise typer.Exit


def info(
    columns: options.Columns,
    file: Path = options.FILE,
    group: str | None = options.GROUP,
    versions: bool = options.flag(
        "--versions", "Show instead the versions.", callback=_print_versions, is_eager=True
    ),
) -> dict[str, Any]:
    """Show how a file is read: bags, instances, features, labels, missing values, possible leaks.

    Use it to check that bagwise reads your columns as intended. It reads the file as the other
    commands do, and lists constant features and missing values, and possible leaks: copies of
    instances in several bags (of other groups, with --group), patients in several groups, and
    columns that tell the label. It writes no file.

    ```
    bagwise info musk1.csv
    bagwise info words.csv --bag bag --label-set label_set --json
    bagwise info --versions
    ```
    """
    from bagwise.cli.reading import numbers_of, read_columns
    from bagwise.labels import Intervals, is_known
    from bagwise.validation.leaks import find_leaks
    from bagwise.validation.times import TIMES

    data = read_columns(file, columns, learn=False, group=group)
    facts = {"file": str(file), **_summarise(data.bags)}
    numbers, labels = None, data.labels
    if labels is not None:
        with suppress(LabelError):  # numbers and a word, which are described as labels
            numbers = numbers_of(labels[labels.known], None, data.bags[labels.known])
    counts, unlabelled = _count_labels(data)
    if numbers is not None:
        counts = {}
        facts |= {"bags_with_a_number": len(numbers), "bags_without": len(data.bags) - len(numbers)}
        exact = numbers.lower[numbers.exact] if isinstance(numbers, Intervals) else numbers
        if len(exact) < len(numbers):
            facts["known_to_an_interval"] = len(numbers) - len(exact)
        facts |= {"smallest_number": float(exact.min()), "mean_number": float(exact.mean())}
        facts["largest_number"] = float(exact.max())
    if data.targets is not None:
        known = data.targets[is_known(data.targets)]
        kind = "a_time" if known.dtype == TIMES else "all_numbers"
        facts |= {f"bags_with_{kind}": len(known), "bags_without": len(data.bags) - len(known)}
        if known.dtype == TIMES:
            facts |= {"events": int(known["event"].sum()), "median_time": np.median(known["time"])}
    facts |= {"not_features": data.left_out} if data.left_out else {}
    facts |= unlabelled
    names = [name.replace("_", " ") for name in facts]
    print_table({"fact": names, "value": [_shown(v) for v in facts.values()]}, heading=False)
    if counts:
        common = dict(sorted(counts.items(), key=lambda item: -item[1])[:_SHOWN])
        # Quotes make spaces around a label visible.
        names = [name if name == name.strip() else repr(name) for name in common]
        shown: dict[str, Any] = {"label": names, "bags": list(common.values())}
        print_table(shown | _known_cells(data, common))
    if len(counts) > _SHOWN:
        print_lines([f"and {len(counts) - _SHOWN} more labels"])
    bags, y = data.bags, numbers
    if data.labels is not None:
        bags = bags[data.labels.known]
        y = data.labels[data.labels.known].values if numbers is None else numbers
    leaks = [str(leak) for leak in find_leaks(bags, y)]
    print_lines(f"Possible leak: {leak}" for leak in leaks)
    cells = _known_cells(data, counts)
    facts |= {"labels": counts, "leaks": leaks}
    return facts | ({"known_of_labels": cells} if cells else {})


def _summarise(bags: Bags) -> dict[str, Any]:
    """Count bags, instances, features, empty bags, missing values; list constant features."""
    from bagwise.compute import row_blocks

    sizes, names = bags.sizes, bags.feature_names
    if bags.is_sparse:
        values = bags.instances
        missing = int(np.isnan(values.data).sum())
        constant = (values.max(axis=0).toarray() == values.min(axis=0).toarray()).ravel()
    else:
        first, equal = bags.rows(slice(0, 1)), np.ones(bags.n_features, dtype=bool)
        gaps = np.zeros(bags.n_features, dtype=np.int64)
        for _, block in row_blocks(bags):
            gaps += np.isnan(block).sum(axis=0)
            equal &= (block == first).all(axis=0)
        missing, constant = int(gaps.sum()), equal | (gaps == bags.n_instances)
    return {
        "bags": len(bags),
        "instances": bags.n_instances,
        "features": bags.n_features,
        **({} if names is None else {"feature_names": names}),
        "smallest_bag": int(sizes.min()) if len(sizes) else 0,
        "median_bag": float(np.median(sizes)) if len(sizes) else 0.0,
        "largest_bag": int(sizes.max(initial=0)),
        "empty_bags": int((sizes == 0).sum()),
        "values": f"{'sparse ' if bags.is_sparse else ''}{bags.dtype}",
        "missing_values": missing,
        "constant_features": [*compress(names or range(bags.n_features), constant)],
    }


def _count_labels(data: Contents) -> tuple[dict[str, int], dict[str, int]]:
    """The number of bags with each label; of bags without one, and with the empty label set."""
    counts: dict[str, int] = {}
    facts: dict[str, int] = {}
    for labels in (data.labels, data.label_sets):
        if labels is not None:
            counts |= dict(zip(labels.names, labels.counts.tolist(), strict=True))
            facts |= {} if labels.known.all() else {"bags_without_a_label": (~labels.known).sum()}
    if data.absent and len(data.absent) <= facts.get("bags_without_a_label", 0):
        facts["of_them_not_in_the_table"] = len(data.absent)
    if data.label_sets is not None:
        empty = data.label_sets.known & ~data.label_sets.indicator.any(axis=1)
        facts["empty_label_sets"] = empty.sum()
        if n_partly := int((~data.label_sets.whole).sum()):
            facts["bags_with_unknown_labels"] = n_partly
    return counts, facts


def _known_cells(data: Contents, names: Iterable[str]) -> dict[str, list[int]]:
    """In how many bags each label is absent, unknown or counted; empty for whole label sets."""
    labels = data.label_sets
    if labels is None or (labels.kind == "sets" and labels.whole.all()):
        return {}
    counts = labels.as_counts
    unknown = (counts.lower == 0) & (counts.upper < 0)
    cells = {"absent": counts.upper == 0, "unknown": unknown, "counted": ~counts.simple}
    column = {name: k for k, name in enumerate(labels.names)}
    return {
        kind: [int(chosen[:, column[name]].sum()) if name in column else 0 for name in names]
        for kind, chosen in cells.items()
    }


def _shown(value: Any) -> str:
    if isinstance(value, list):
        listed = ", ".join(map(str, value[:10])) + (", ..." if len(value) > 10 else "")
        return f"{len(value)}: {listed}" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)

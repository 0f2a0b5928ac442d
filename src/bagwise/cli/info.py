"""``bagwise info``: what is in a file of bags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bagwise.cli.options import File, Json, LabelledColumns
from bagwise.cli.output import print_json, print_table

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.io.contents import Contents

__all__ = ["info"]

_SHOWN = 20  # labels in the table


def info(
    file: File,
    columns: LabelledColumns = LabelledColumns(),  # noqa: B008
    json: Json = False,
) -> None:
    """Show what is in a file: bags, instances, features, labels, gaps.

    Reads a file of bags as the other commands do, and writes nothing: see here whether your columns
    are taken as you mean them. Constant features and missing values are named.

    ```
    bagwise info musk1.csv
    bagwise info words.csv --bag bag --label-set label_set --json
    ```
    """
    data = columns.choice().read(file)
    facts = {"file": str(file), **_size_facts(data.bags), **_value_facts(data.bags)}
    counts = _label_counts(data)
    if json:
        print_json(facts | {"labels": counts})
        return
    names, values = [_phrase(name) for name in facts], [_shown(value) for value in facts.values()]
    print_table({"fact": names, "value": values}, heading=False)
    if counts:
        common = dict(sorted(counts.items(), key=lambda item: -item[1])[:_SHOWN])
        print_table({"label": list(common), "bags": list(common.values())})
    if len(counts) > _SHOWN:
        typer.echo(f"and {len(counts) - _SHOWN} more labels")


def _size_facts(bags: Bags) -> dict[str, Any]:
    import numpy as np

    sizes = bags.sizes
    return {
        "bags": len(bags),
        "instances": bags.n_instances,
        "features": bags.n_features,
        **({} if bags.feature_names is None else {"feature_names": bags.feature_names}),
        "smallest_bag": int(sizes.min()) if len(sizes) else 0,
        "median_bag": float(np.median(sizes)) if len(sizes) else 0.0,
        "largest_bag": int(sizes.max()) if len(sizes) else 0,
        "empty_bags": int((sizes == 0).sum()),
    }


def _value_facts(bags: Bags) -> dict[str, Any]:
    import numpy as np
    from scipy import sparse

    values = bags.instances
    if sparse.issparse(values):
        missing = int(np.isnan(values.data).sum())
        spread = values.max(axis=0).toarray() - values.min(axis=0).toarray()
        constant = np.flatnonzero(spread.ravel() == 0)
    else:
        gaps = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
        missing = int(gaps.sum())
        constant = np.flatnonzero((values == values[:1]).all(axis=0) | gaps.all(axis=0))
    names = bags.feature_names
    return {
        "values": f"{'sparse ' if sparse.issparse(values) else ''}{values.dtype}",
        "missing_values": missing,
        "constant_features": [int(j) if names is None else names[j] for j in constant],
    }


def _label_counts(data: Contents) -> dict[str, int]:
    import numpy as np

    counts: dict[str, int] = {}
    if data.labels is not None:
        found, numbers = np.unique(data.labels.values.astype(str), return_counts=True)
        counts |= dict(zip(found.tolist(), numbers.tolist(), strict=True))
    if data.label_sets is not None:
        counts |= dict(zip(data.label_sets.names, data.label_sets.counts.tolist(), strict=True))
    return counts


def _phrase(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        listed = ", ".join(map(str, value[:10])) + (", ..." if len(value) > 10 else "")
        return f"{len(value)}: {listed}" if value else "0"
    return f"{value:g}" if isinstance(value, float) else str(value)

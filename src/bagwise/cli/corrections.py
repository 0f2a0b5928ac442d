"""Known labels of instances: from a file of corrections into a fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bagwise.cli.output import note
from bagwise.exceptions import InputError

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.review import Correction


def read_known(path: Path | None, estimator: Any, method: str) -> list[Correction] | None:
    """Read corrections, if there is a file of them and the method can use it.

    Parameters
    ----------
    path : Path or None
        What was given to ``--corrections``.
    estimator : estimator
        What will be fitted.
    method : str
        Its name.

    Returns
    -------
    list of Correction or None
    """
    if path is None:
        return None
    from sklearn.utils.validation import has_fit_parameter

    from bagwise.io.files import FORMATS
    from bagwise.review import read_corrections

    if not has_fit_parameter(estimator, "instance_labels"):
        raise InputError(
            f"{method} cannot hold labels of instances fixed: use --corrections with -m orlr."
        )
    endings = [ending for kind in ("csv", "tsv", "parquet") for ending in FORMATS[kind]]
    is_table = path.name.lower().endswith(tuple(endings))
    found = _read_table(path) if is_table else read_corrections(path)
    if not found:
        raise InputError(f"{path} holds no corrections yet: review some instances first.")
    return found


def _read_table(path: Path) -> list[Correction]:
    """What ``bagwise review --export`` wrote; a table written by hand needs no sizes."""
    from bagwise.io.table import read_written
    from bagwise.review import Correction

    columns = read_written(path, ["bag", "row", "label"], optional=["size"])
    bags, rows, labels = (columns[name] for name in ("bag", "row", "label"))
    sizes = columns.get("size", [None] * len(bags))
    found = []
    for bag, row, size, label in zip(bags, rows, sizes, labels, strict=True):
        whole = all(str(number).isdecimal() for number in (row, 0 if size is None else size))
        if bag is None or label is None or not whole:
            raise InputError(
                f"{path} holds a correction with bag {bag}, row {row}, size {size} and label "
                f"{label}: expected a bag, a label, and whole numbers."
            )
        n_instances = None if size is None else int(size)
        found.append(Correction(str(bag), int(row), n_instances, str(label)))
    return found


def known_labels(
    corrections: list[Correction] | None,
    bags: Bags,
    written: Mapping[str, Any],
    *,
    background: Any = None,
) -> list[Any] | None:
    """Find the instances that corrections are about, and note how many were used.

    Parameters
    ----------
    corrections : list of Correction or None
        The corrections.
    bags : Bags
        The bags to learn from.
    written : mapping of str to label
        The labels, by how they are written.
    background : object, default=None
        The parameter of the method.

    Returns
    -------
    list or None
        A label or None for each instance; None without corrections.
    """
    if corrections is None:
        return None
    from bagwise.review.store import match_corrections

    named = {} if isinstance(background, bool | None) else {str(background): background}
    labels, n_used = match_corrections(corrections, bags, {**named, **written})
    if n_used == 0:
        raise InputError(
            f"none of the {len(corrections)} corrections is about a bag of this file: the first "
            f"names the bag {corrections[0].bag!r}."
        )
    unused = len(corrections) - n_used
    note(
        f"{n_used} instances are known from corrections"
        + (f"; {unused} more are about bags that are not used." if unused else ".")
    )
    return labels

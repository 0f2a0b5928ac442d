"""From a file and the options of a command to bags and labels."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise._validation import check_bags, is_mapped
from bagwise.bags import Bags, offsets_of
from bagwise.cli.output import note, progress
from bagwise.exceptions import InputError, LabelError
from bagwise.io.columns import Request
from bagwise.io.contents import Contents
from bagwise.io.files import TABLES, format_errors, format_of
from bagwise.io.memory import Workspace
from bagwise.io.reading import read_contents
from bagwise.io.table import open_table
from bagwise.labels import Labels


class ColumnChoice(Request):
    """The columns of a file as the options of a command name them."""

    def read(self, path: Path) -> Contents:
        """Read these columns of a file."""
        with progress(f"Reading {path.name}"), _naming(path):
            return read_contents(path, self)


def choose_columns(
    *,
    features: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    **options: Any,
) -> ColumnChoice:
    """Check the options of a command that name columns.

    Parameters
    ----------
    features, exclude : iterable of str or None
        Names of columns, or several separated by commas.
    **options : object
        The other attributes of `ColumnChoice`.

    Returns
    -------
    ColumnChoice
    """
    choice = ColumnChoice(features=_split(features) or None, exclude=_split(exclude), **options)
    if choice.label is not None and choice.label_set is not None:
        raise InputError("label= and label_set= exclude each other: a bag has one or the other.")
    if not choice.separator:
        raise InputError("separator= is empty: give what stands between the labels of a set.")
    return choice


def read_labelled(
    path: Path, choice: ColumnChoice, *, positive: str | None = None
) -> tuple[Bags, Labels, NDArray[Any] | None]:
    """Read bags to learn from: those without a label are left out, with a note.

    Parameters
    ----------
    path : Path
        The file of bags.
    choice : ColumnChoice
        Its columns.
    positive : str or None
        The positive one of two labels, which becomes the last class; by default classes are
        sorted.

    Returns
    -------
    bags : Bags
        The bags whose labels are known.
    labels : Labels
        Their labels.
    groups : ndarray of shape (n_bags,) or None
        Their groups.
    """
    data = choice.read(path)
    labels = _chosen_labels(data, choice)
    known = labels.known
    if not known.all():
        note(f"{(~known).sum()} of {len(known)} bags have no label and are left out.")
    if not known.any():
        raise LabelError("no bag has a label.")
    labels = labels[known]
    if positive is not None:
        labels = _positive_last(labels, positive)
    groups = None if data.groups is None else data.groups[known]
    return refuse_gaps(_chosen(data.bags, known)), labels, groups


def positive_note(labels: Labels) -> str:
    """Name the positive one of two classes for a message; an empty text where there are not two."""
    two = len(labels.names) == 2 and not labels.has_sets
    return f" ({labels.names[1]} is positive)" if two else ""


def refuse_gaps(bags: Bags) -> Bags:
    """Return bags of finite values as they are, and refuse others before they are scaled.

    Parameters
    ----------
    bags : Bags
        Bags to learn from.

    Returns
    -------
    Bags
        `bags`.
    """
    check_bags(None, bags, reset=True)
    return bags


def read_for_model(
    path: Path,
    model: Any,
    metadata: Mapping[str, Any],
    choice: ColumnChoice,
    *,
    labelled: bool = True,
) -> Contents:
    """Read the columns a saved model was fitted on, in its order, and labels where there are any.

    Parameters
    ----------
    path : Path
        The file of bags.
    model : estimator
        The saved model.
    metadata : mapping
        Of the model file: under ``columns``, the columns it was fitted on.
    choice : ColumnChoice
        The columns named now; the others are those of the fit. A label column of the fit may be
        absent: new bags need no labels.
    labelled : bool, default=True
        Whether labels are read; without, the label columns of the model are left out.

    Returns
    -------
    Contents
        The features are in the order of the model.
    """
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else list(names)
    choice = _as_fitted(path, metadata.get("columns", {}), names, choice, labelled=labelled)
    data = choice.read(path)
    if names is not None and data.bags.feature_names is not None:
        data.bags = _in_order(data.bags, names)
    return data


def _as_fitted(
    path: Path,
    columns: Mapping[str, Any],
    names: list[str] | None,
    choice: ColumnChoice,
    *,
    labelled: bool,
) -> ColumnChoice:
    """Fill in the columns of the fit where the options name none."""
    present = _column_names(path)
    beside = present if choice.labels is None else _column_names(choice.labels)
    then = {role: columns.get(role) for role in ("label", "label_set")}
    usual: dict[str, Any] = {}
    left_out = list(columns.get("exclude") or [])
    if not labelled:
        left_out += [name for name in then.values() if name is not None]
    elif choice.label is None and choice.label_set is None:
        usual = {role: name for role, name in then.items() if name in beside}
    # The features of HDF5 files, and of lists in Parquet, have no columns of their own.
    format = format_of(path, None) if path.exists() else None
    has_lists = format == "parquet" and not set(names or ()) & set(present)
    features = columns.get("features") if has_lists or format == "hdf5" else names
    return replace(
        choice,
        bag=choice.bag or (columns.get("bag") if beside else None),
        features=choice.features or features,
        exclude=list(dict.fromkeys([*choice.exclude, *(n for n in left_out if n in present)])),
        separator=choice.separator if choice.separator != ";" else columns.get("separator") or ";",
        **usual,
    )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the name of the file into messages that lack it."""
    try:
        yield
    except InputError as error:
        if path.name in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def _chosen(bags: Bags, known: NDArray[np.bool_]) -> Bags:
    """Some of the bags; those of a file are copied into another one, not into memory."""
    if known.all() or not is_mapped(bags.instances):
        return bags[known]
    rows = np.flatnonzero(np.repeat(known, bags.sizes))
    offsets = offsets_of(bags.sizes[known])
    ids = None if bags.ids is None else bags.ids[known]
    table = Workspace(limit=0).copy(bags.instances, rows=rows)
    return Bags(table, offsets, ids, feature_names=bags.feature_names)


def _chosen_labels(data: Contents, choice: ColumnChoice) -> Labels:
    """The labels or the label sets, whichever the options name."""
    single, sets = data.labels, data.label_sets
    if single is None and sets is None:
        raise LabelError("the bags have no labels: name their column with label= or label_set=.")
    if single is not None and sets is not None and choice.label is None is choice.label_set:
        raise LabelError("the bags have labels and label sets: choose label= or label_set=.")
    if sets is not None and choice.label is None:
        return sets
    assert single is not None
    return single


def _positive_last(labels: Labels, positive: str) -> Labels:
    """Put the positive one of two classes last."""
    if labels.has_sets or len(labels.classes) != 2:
        raise LabelError(f"positive= chooses one of two labels: there are {len(labels.classes)}.")
    if positive not in labels.names:
        raise LabelError(
            f"no bag has the label {positive!r} (positive=): there are {labels.names}."
        )
    if labels.names[1] == positive:
        return labels
    return Labels("single", labels.classes[::-1], 1 - labels.codes)


def _split(names: Iterable[str] | None) -> list[str]:
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]


def _column_names(path: Path) -> list[str]:
    """The columns of a table; none for other files."""
    if not path.exists() or format_of(path, None) not in TABLES:
        return []
    with format_errors(path):
        return open_table(path, format_of(path, None), Request()).names


def _in_order(bags: Bags, names: list[str]) -> Bags:
    present = bags.feature_names or []
    if present == names:
        return bags
    missing = [name for name in names if name not in present]
    if missing:
        raise InputError(
            f"the model was fitted with the feature {missing[0]!r}, which is not in the file "
            f"({len(missing)} of {len(names)} are missing)."
        )
    place = {name: j for j, name in enumerate(present)}
    columns = [place[name] for name in names]
    return bags.with_instances(bags.instances[:, columns], feature_names=names)

"""Read bags, labels and saved models from files, according to the options of a command."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bagwise._common.types import Array, Bools
from bagwise._common.warnings import warn_user
from bagwise._validation import check_bags
from bagwise.bags import Bags
from bagwise.base._pipelines import label_kind
from bagwise.cli.options import Columns, is_model
from bagwise.cli.output import note, progress, refuse_taken, warning
from bagwise.exceptions import DataWarning, FileFormatError, InputError, LabelError, ModelFileError
from bagwise.io.columns import Request
from bagwise.io.contents import Contents
from bagwise.io.files import TABLES, format_errors, format_of, naming
from bagwise.io.reading import read_contents, suspicion
from bagwise.io.table import open_table
from bagwise.labels import Labels, plain_array, positive_by_name, sorted_labels
from bagwise.persistence import load_model

if TYPE_CHECKING:
    from bagwise.apps.review._known import Known

_WIDE = 200  # features from which --pca is recommended
_ROLES = ("bag", "label", "label_set", "id_column", "merge")


def read_columns(
    path: Path, chosen: Columns, memory_limit: str | None = None, *, learn: bool = True
) -> Contents:
    """Read the columns of a file that the options of a command name.

    Parameters
    ----------
    path : Path
        The file of bags.
    chosen : Columns
        The columns; None stands for the default names.
    memory_limit : str or None, default=None
        As in `Request`.
    learn : bool, default=True
        Whether features that look like labels are rejected, instead of only reported.

    Returns
    -------
    Contents
    """
    data = _read(path, _request(chosen, memory_limit=memory_limit))
    if learn:
        _refuse_suspects(path, data)
    elif data.suspects:
        warn_user(f"{path}: {suspicion(data.suspects)}", DataWarning)
    return data


def note_width(bags: Bags, pca: int | str | None) -> None:
    """Warn if there are many features for few bags, and no projection is asked for.

    Parameters
    ----------
    bags : Bags
        The bags to learn from.
    pca : int, "auto" or None
        The value of ``--pca``.
    """
    if pca is None and not bags.is_sparse and bags.n_features > max(_WIDE, 2 * len(bags)):
        warning(
            f"{bags.n_features} features are many for {len(bags)} bags, and a method may overfit: "
            "try --pca auto."
        )


def read_labelled(
    path: Path,
    chosen: Columns,
    *,
    positive: str | None = None,
    group: str | None = None,
    memory_limit: str | None = None,
    corrected: "Known | None" = None,
    allow_nan: bool = False,
) -> tuple[Bags, Labels, Array | None]:
    """Read bags to learn from: those without a label are left out, with a note.

    Parameters
    ----------
    path : Path
        The file of bags.
    chosen : Columns
        Its columns.
    positive : str or None
        The positive one of two labels, which becomes the last class; by default it is chosen by
        the names of the labels, see `positive_by_name`.
    group, memory_limit
        As in `Request`.
    corrected : Known or None
        Known labels of instances; bags with such instances are kept even without a label.
    allow_nan : bool, default=False
        Whether features may have missing values, for --impute.

    Returns
    -------
    bags : Bags
        The bags whose labels are known.
    labels : Labels
        Their labels.
    groups : ndarray of shape (n_bags,) or None
        Their groups.
    """
    if group is not None and chosen.labels is not None and corrected is None:
        # Bags that are not in the table are left out in any case, and need no group.
        chosen = replace(chosen, missing=chosen.missing or "drop")
    data = _read(path, _request(chosen, group=group, memory_limit=memory_limit))
    data = _without_empty(data)
    _refuse_suspects(path, data)
    labels = _chosen_labels(data, chosen)
    if corrected is not None:
        labels = corrected.correct_sets(labels, data.bags)
    known = labels.known
    if corrected is not None:
        known = known | corrected.about(data)
    if not known.all():
        why = _why_unknown(data, known, chosen)
        note(f"{(~known).sum()} of {len(known)} bags have no label and are left out{why}.")
    note_label_sets(labels)
    if not known.any():
        raise LabelError("no bag has a label.")
    labels = _positive_last(labels[known], positive)
    groups = None if data.groups is None else data.groups[known]
    bags = data.bags[known]
    # Reject missing values before they are scaled.
    check_bags(None, bags, reset=True, allow_nan=allow_nan)
    return bags, labels, groups


def note_label_sets(labels: Labels | None) -> None:
    """Print how many label sets are empty, which is not the same as unknown.

    Parameters
    ----------
    labels : Labels or None
        The labels of the bags.
    """
    if labels is None or not labels.has_sets:
        return
    n_empty = int((labels.known & (labels.indicator == 0).all(axis=1)).sum())
    n_unknown = int((~labels.known).sum())
    if n_empty:
        unknown = f" (the sets of {n_unknown} others are unknown)" if n_unknown else ""
        note(f"{n_empty} of {len(labels)} bags have the empty label set{unknown}.")


def note_labels(data: Contents, chosen: Columns) -> None:
    """Print how many bags have no label, and why, if bags without a label are used.

    Parameters
    ----------
    data : Contents
        The contents of the file.
    chosen : Columns
        The columns that were requested.
    """
    labels = data.labels if data.label_sets is None else data.label_sets
    if labels is None:
        return
    n_unknown = int((~labels.known).sum())
    if n_unknown:
        why = _why_unknown(data, labels.known, chosen)
        note(f"{n_unknown} of {len(labels)} bags have no label{why}.")
    note_label_sets(labels)


def _why_unknown(data: Contents, known: Bools, chosen: Columns) -> str:
    if chosen.labels is None:
        return ""
    unknown = data.bags.names[~known].astype(str)
    n_absent = 0 if chosen.missing == "drop" else int(np.isin(unknown, data.absent).sum())
    return f" (not in {chosen.labels.name}: {n_absent}, empty there: {len(unknown) - n_absent})"


def positive_note(labels: Labels) -> str:
    """Name the positive one of two classes for a message; empty if there are not two."""
    two = len(labels.names) == 2 and not labels.has_sets
    return f" ({labels.names[1]} is positive)" if two else ""


def has_chosen_order(labels: Labels, positive: str | None) -> bool:
    """Whether a model must learn codes, because sorting would change which label is last.

    Parameters
    ----------
    labels : Labels
        Result of `read_labelled`.
    positive : str or None
        The argument of `read_labelled`.

    Returns
    -------
    bool
    """
    two = len(labels.classes) == 2 and not labels.has_sets
    listed = labels.classes.tolist()
    return positive is not None or (two and listed != sorted_labels(listed))


def open_model(path: Path, trusted: Sequence[str] | None = None) -> tuple[Any, dict[str, Any]]:
    """Load a fitted model and its metadata.

    Parameters
    ----------
    path : Path
        A file that `bagwise fit` or `save_model` wrote.
    trusted : sequence of str or None, default=None
        The value of ``--trust``.

    Returns
    -------
    model : estimator
        The fitted model.
    metadata : dict
        What `bagwise fit` saved: ``method``, ``parameters``, ``classes``, ``columns``,
        ``training``, ``corrections``, each of the expected type; any of them may be missing.

    Raises
    ------
    ModelFileError
        When the file is damaged, the model is not fitted, or its metadata have other types than
        `bagwise fit` writes.
    """
    if path.exists() and not is_model(path) and _is_data(path):
        raise ModelFileError(
            f"{path} cannot be loaded: it is a file of bags, and the model comes first, as in "
            "predict MODEL FILE."
        )
    model, metadata = load_model(path, trusted=trusted or ())
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} holds a model that is not fitted: fit it first.") from error
    columns, classes = metadata.get("columns", {}), metadata.get("classes")
    is_right = {
        "method": isinstance(metadata.get("method"), str | None),
        "parameters": isinstance(metadata.get("parameters"), dict | None),
        # With --pos-label the model encodes its two labels as 0 and 1.
        "classes": classes is None
        or (_are_two_labels(classes) and list(getattr(model, "classes_", ())) == [0, 1]),
        "columns": isinstance(columns, dict) and _are_columns(columns),
        "training": _are_texts(metadata.get("training")),
        "corrections": isinstance(metadata.get("corrections", 0), int),
        "impute": metadata.get("impute") in (None, "mean", "median"),
    }
    for name, right in is_right.items():
        if not right:
            raise ModelFileError(
                f"{path} is damaged: {name!r}, kept beside the model, is not what `bagwise fit` "
                "writes."
            )
    return model, metadata


def _is_data(path: Path) -> bool:
    try:
        _kind(path)
    except FileFormatError:
        return False
    return True


def _kind(path: Path) -> str:
    """The format of a file or folder; "recordings" if it is of BirdNET or Perch-Hoplite."""
    from bagwise.apps.audio._recordings import are_recordings

    return "recordings" if are_recordings(path) else format_of(path, None)


def _are_texts(value: Any) -> bool:
    """Whether a value is a list of texts, or None."""
    is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return value is None or is_list


def _are_two_labels(value: Any) -> bool:
    labels = value if isinstance(value, list) else []
    plain = all(isinstance(label, str | int | float) for label in labels)
    return plain and len(labels) == 2 and labels[0] != labels[1]


def _are_columns(columns: Mapping[str, Any]) -> bool:
    named = all(isinstance(columns.get(role), str | None) for role in _ROLES)
    separator = columns.get("separator", ";")
    listed = all(_are_texts(columns.get(name)) for name in ("features", "exclude", "keep"))
    return named and listed and isinstance(separator, str) and separator != ""


def read_for_model(
    path: Path,
    model: Any,
    metadata: Mapping[str, Any],
    chosen: Columns,
    *,
    labelled: bool = True,
    group: str | None = None,
    memory_limit: str | None = None,
    extra_columns: Sequence[str] = (),
) -> Contents:
    """Read the columns a saved model was fitted on, in its order, and labels if there are any.

    Parameters
    ----------
    path : Path
        The file of bags.
    model : estimator
        The saved model.
    metadata : mapping
        Metadata of the model file; ``columns`` are the columns it was fitted on.
    chosen : Columns
        The columns named now; the others are those of the fit. A label column of the fit may be
        absent: new bags need no labels.
    labelled : bool, default=True
        Whether labels are read; otherwise the label columns of the model are left out.
    group, memory_limit, extra_columns
        As in `Request`.

    Returns
    -------
    Contents
        The features are in the order of the model.
    """
    _refuse_model(path)
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else list(names)
    fitted = metadata.get("columns", {})
    request = _request(
        _as_fitted(path, fitted, names, chosen, labelled),
        group=group,
        memory_limit=memory_limit,
        extra_columns=extra_columns,
    )
    data = _without_empty(_read(path, request))
    if names is not None and data.bags.feature_names is not None:
        data.bags = _in_order(data.bags, names)
    return data


def _as_fitted(
    path: Path, fitted: Mapping[str, Any], names: list[str] | None, chosen: Columns, labelled: bool
) -> Columns:
    """Fill in the columns of the fit if the options name none."""
    present = _column_names(path)
    beside = present if chosen.labels is None else _column_names(chosen.labels)
    found, left_out = copy(chosen), list(fitted.get("exclude") or [])
    if not labelled:
        left_out += [fitted[role] for role in ("label", "label_set") if fitted.get(role)]
    elif chosen.label is None and chosen.label_set is None:
        found.label, found.label_set = (
            fitted.get(role) if fitted.get(role) in beside else None
            for role in ("label", "label_set")
        )
    # The features of HDF5 files, and of lists in a table, have no columns of their own.
    format = _kind(path) if path.exists() else None
    has_lists = format in (*TABLES, "recordings") and not set(names or ()) & set(present)
    features = fitted.get("features") if has_lists or format == "hdf5" else names
    found.bag = chosen.bag or (fitted.get("bag") if beside else None)
    if chosen.labels is not None:
        found.id_column = chosen.id_column or fitted.get("id_column")
    found.merge = chosen.merge or fitted.get("merge")
    if found.merge is not None and chosen.merge is None and found.merge not in beside:
        note(
            f"The model was fitted on bags merged by {found.merge!r}, and these are not merged: "
            "give a table with that column (--labels) to merge them."
        )
        found.merge = None
    found.features = chosen.features or features
    found.exclude = list(
        dict.fromkeys([*(chosen.exclude or ()), *(name for name in left_out if name in present)])
    )
    found.keep = chosen.keep or [
        name for name in fitted.get("keep") or () if name in {*present, *beside}
    ]
    if chosen.separator == ";":
        found.separator = fitted.get("separator", ";")
    return found


def labels_for(model: Any, data: Contents, metadata: Mapping[str, Any]) -> Labels | None:
    """The labels of bags as a saved model encodes them.

    Parameters
    ----------
    model : estimator
        The saved model.
    data : Contents
        Result of `read_for_model`. If it has labels and label sets, the kind that the model was
        fitted on is used.
    metadata : mapping
        Metadata of the model file; ``classes`` are the labels that a model fitted with
        --pos-label encodes as 0 and 1.

    Returns
    -------
    Labels or None
    """
    labels, classes = data.labels, metadata.get("classes")
    if labels is None or (data.label_sets is not None and label_kind(model) == "sets"):
        return data.label_sets
    if classes is None:
        return labels
    known = {str(label): k for k, label in enumerate(classes)}
    own = [known.get(str(label), label) for label in labels.classes.tolist()]
    return Labels.from_codes(own, labels.codes)


def _request(chosen: Columns, **settings: Any) -> Request:
    """Make a request from the options of a command; None means the default of `Request`."""
    named = {name: value for name, value in vars(chosen).items() if value is not None}
    return Request(**named, **settings)


def _refuse_suspects(path: Path, data: Contents) -> None:
    """Refuse to learn from labels among the features."""
    if data.suspects:
        raise InputError(f"{path}: {suspicion(data.suspects)}")


def _refuse_model(path: Path) -> None:
    if is_model(path):
        raise InputError(f"{path} is a model: expected a file of bags.")


def _read(path: Path, request: Request) -> Contents:
    from bagwise.apps.audio import read_recordings

    _refuse_model(path)
    with progress(f"Reading {path.name}"), naming(path, request.labels):
        source: Any = path
        if path.exists() and _kind(path) == "recordings":
            source = read_recordings(path, species=request.features or ())
        data = read_contents(source, request)
    if data.left_out:
        note(f"Not used as features, judging by their names: {', '.join(data.left_out)}.")
    if request.missing == "drop" and data.absent:
        note(f"Left out, because not in {Path(request.labels).name}: {len(data.absent)} bags.")
    if data.n_other_entries:
        others = f"Rows of {Path(request.labels).name} about bags that are not in {path.name}"
        note(f"{others}: {data.n_other_entries}.")
    return data


def _without_empty(data: Contents) -> Contents:
    """Leave out bags without instances, such as slides in which no tissue was found."""
    empty = data.bags.sizes == 0
    if not empty.any() or empty.all():
        return data
    first = data.bags.names[empty].tolist()[0]
    warning(
        f"{empty.sum()} of {len(empty)} bags have no instances and are left out, such as {first}."
    )
    return data.take(np.flatnonzero(~empty))


def _chosen_labels(data: Contents, chosen: Columns) -> Labels:
    """The labels or the label sets, whichever the options name."""
    single, sets = data.labels, data.label_sets
    if single is None and sets is None:
        raise LabelError(
            "the bags have no labels: name their column with label= or label_set=, or a table of "
            "them with labels=."
        )
    if single is not None and sets is not None and chosen.label is None is chosen.label_set:
        raise LabelError("the bags have labels and label sets: choose label= or label_set=.")
    if sets is not None and chosen.label is None:
        return sets
    assert single is not None
    return single


def label_sets_of(data: Contents) -> Labels:
    """The label sets of bags; a single label becomes a set of one.

    Parameters
    ----------
    data : Contents
        The contents of the file.

    Returns
    -------
    Labels
    """
    labels = data.labels if data.label_sets is None else data.label_sets
    if labels is None:
        raise LabelError("the bags have no labels: name their column with label_set= or label=.")
    return labels.as_sets()


def kept_of_bags(table: Mapping[str, Any], data: Contents) -> dict[str, Any]:
    """Add the columns to keep to the results of bags, after their ids.

    A column that varies inside a bag shows the value of the key instance, as ``key_<name>``, if
    the results name one; otherwise it is only in the results of instances.

    Parameters
    ----------
    table : mapping of str to ndarray
        The results, a row per bag.
    data : Contents
        The contents of the file.

    Returns
    -------
    dict of str to ndarray
    """
    refuse_taken(table, data)
    bags, first = data.bags, data.bags.offsets[:-1]
    if not (bags.sizes > 0).all():
        return dict(table)
    found: dict[str, Any] = {}
    for name, values in data.columns.items():
        column = plain_array(values)
        per_bag = column[first]
        if (column == per_bag[bags.bag_index]).all():
            found[name] = per_bag
        elif "key_instance" in table and f"key_{name}" not in table:
            found[f"key_{name}"] = column[first + table["key_instance"]]
    (bag, ids), *others = table.items()
    return {bag: ids} | found | dict(others)


def _positive_last(labels: Labels, positive: str | None) -> Labels:
    """Put the positive one of two classes last."""
    two = len(labels.classes) == 2 and not labels.has_sets
    if positive is not None:
        if not two:
            n_labels = len(labels.classes)
            raise LabelError(f"pos_label= chooses one of two labels: there are {n_labels}.")
        if positive not in labels.names:
            raise LabelError(
                f"no bag has the label {positive!r} (pos_label=): there are {labels.names}."
            )
    elif two and positive_by_name(labels.classes) == 0:
        positive = labels.names[0]
    if positive is None or labels.names[1] == positive:
        return labels
    return Labels("single", labels.classes[::-1], 1 - labels.codes)


def _column_names(path: Path) -> list[str]:
    """The columns of a table; none for other files."""
    from bagwise.apps.audio import read_recordings

    kind = _kind(path) if path.exists() else None
    if kind == "recordings":
        return list(read_recordings(path).column_names)
    if kind not in TABLES:
        return []
    with format_errors(path):
        return open_table(path, kind, Request()).names


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

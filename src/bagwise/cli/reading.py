"""Read bags, labels and saved models from files, according to the options of a command."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise._common.types import Array, Bools
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags
from bagwise.base._pipelines import label_kind
from bagwise.cli.options import Columns, Saved, is_model
from bagwise.cli.output import note, progress, warning
from bagwise.exceptions import DataWarning, InputError, LabelError, ModelFileError
from bagwise.io._contents import Contents, Request
from bagwise.io._data_warnings import suspicion
from bagwise.io._files import TABLES, format_errors, format_of, naming
from bagwise.io._reading import read_contents
from bagwise.io._table import open_table
from bagwise.labels import Labels, positive_by_name, sorted_labels
from bagwise.persistence import load_model
from bagwise.validation import check_bags

if TYPE_CHECKING:
    from bagwise.apps.review._known import Known

_WIDE = 200  # features from which --pca is recommended


def read_columns(
    path: Path, chosen: Columns, memory_limit: str | None = None, *, learn: bool = True, **more: Any
) -> Contents:
    """Read the columns of a file that the options of a command name.

    Parameters
    ----------
    path : Path
        The file of bags.
    chosen : Columns
        The columns; None stands for the default names.
    memory_limit, **more
        As in `Request`.
    learn : bool, default=True
        Whether features that look like labels are rejected, instead of only reported.

    Returns
    -------
    Contents
    """
    data = _read(path, chosen, memory_limit=memory_limit, **more)
    if data.suspects and learn:
        raise InputError(f"{path}: {suspicion(data.suspects)}")
    if data.suspects:
        warn_user(f"{path}: {suspicion(data.suspects)}", DataWarning)
    return data


def note_width(bags: Bags, pca: int | str | None) -> None:
    """Warn if there are many features for few bags, and no projection is asked for."""
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
    data = _without_empty(read_columns(path, chosen, memory_limit, group=group))
    labels = _chosen_labels(data, chosen)
    known = labels.known
    if corrected is not None:
        labels = corrected.correct_sets(labels, data)
        known = labels.known | corrected.about(data.bags)
    if not known.all():
        why = _why_unknown(data, known, chosen)
        note(f"{(~known).sum()} of {len(known)} bags have no label and are left out{why}.")
    _note_empty_sets(labels)
    if not known.any():
        raise LabelError("no bag has a label.")
    labels = _positive_last(labels[known], positive)
    groups = None if data.groups is None else data.groups[known]
    bags = data.bags[known]
    # Reject missing values before they are scaled.
    check_bags(None, bags, reset=True, allow_nan=allow_nan)
    return bags, labels, groups


def read_known(path: Path | None, estimator: Any, method: str) -> "Known | None":
    """Read the file of ``--corrections``; raise an error if the method cannot use it."""
    if path is None:
        return None
    from bagwise.apps.review._known import read_known

    if not has_fit_parameter(estimator, "instance_labels"):
        raise InputError(
            f"{method} cannot keep labels of instances fixed: use --corrections with -m orlr."
        )
    return read_known(path, note)


def label_sets_of(data: Contents, chosen: Columns) -> Labels | None:
    """The label sets of bags, some perhaps unknown, with a note; a label becomes a set of one."""
    labels = data.labels if data.label_sets is None else data.label_sets
    if labels is None:
        return None
    n_unknown = int((~labels.known).sum())
    if n_unknown:
        why = _why_unknown(data, labels.known, chosen)
        note(f"{n_unknown} of {len(labels)} bags have no label{why}.")
    _note_empty_sets(labels)
    return labels.as_sets()


def _note_empty_sets(labels: Labels) -> None:
    """Print how many label sets are empty, which is not the same as unknown."""
    n_empty = (
        int((labels.known & (labels.indicator == 0).all(axis=1)).sum()) if labels.has_sets else 0
    )
    if n_empty:
        n_unknown = int((~labels.known).sum())
        unknown = f" (the sets of {n_unknown} others are unknown)" if n_unknown else ""
        note(f"{n_empty} of {len(labels)} bags have the empty label set{unknown}.")


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
    """Whether a model must learn codes, because sorting would change which label is last."""
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
        ``training``, ``corrections``; any of them may be missing.
    """
    model, metadata = load_model(path, trusted=trusted or ())
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} holds a model that is not fitted: fit it first.") from error
    classes = metadata.get("classes")
    # With --pos-label the model encodes its two labels as 0 and 1.
    coded = list(getattr(model, "classes_", ())) == [0, 1]
    if classes is not None and not (coded and _are_two_labels(classes)):
        raise ModelFileError(f"{path} is damaged: 'classes' are not the two labels of the model.")
    if not isinstance(metadata.get("columns", {}), dict):
        raise ModelFileError(f"{path} is damaged: 'columns' are not names by their roles.")
    return model, metadata


def open_saved(
    saved: Saved, chosen: Columns, *, labelled: bool = True, merged: bool = True, **more: Any
) -> tuple[Any, dict[str, Any], Contents]:
    """Load a model, and read the columns it was fitted on, and labels if there are any.

    Parameters
    ----------
    saved : Saved
        The model and the file of bags.
    chosen : Columns
        The columns named now; the others are those of the fit. A label column of the fit may be
        absent: new bags need no labels.
    labelled : bool, default=True
        Whether labels are read; otherwise the label columns of the model are left out.
    merged : bool, default=True
        Whether bags are merged as in the fit.
    **more
        As in `Request`.

    Returns
    -------
    model : estimator
        The fitted model.
    metadata : dict
        See `open_model`.
    data : Contents
        The features are in the order of the model.
    """
    model, metadata = open_model(saved.model, saved.trust)
    if is_model(saved.file):
        raise InputError(f"{saved.file} is a model: expected a file of bags.")
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else list(names)
    fitted = {k: v for k, v in metadata.get("columns", {}).items() if merged or k != "merge"}
    columns = _as_fitted(saved.file, fitted, names, chosen, labelled)
    data = _without_empty(_read(saved.file, columns, memory_limit=saved.memory_limit, **more))
    if names is not None and data.bags.feature_names is not None:
        data.bags = _in_order(data.bags, names)
    return model, metadata, data


def labels_for(model: Any, data: Contents, metadata: Mapping[str, Any]) -> Labels | None:
    """The labels of bags as a saved model encodes them.

    Parameters
    ----------
    model : estimator
        The saved model.
    data : Contents
        If it has labels and label sets, the kind that the model was fitted on is used.
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


def _as_fitted(
    path: Path, fitted: Mapping[str, Any], names: list[str] | None, chosen: Columns, labelled: bool
) -> Columns:
    """Fill in the columns of the fit if the options name none."""
    format, present = _format(path), _column_names(path)
    beside = present if chosen.labels is None else _column_names(chosen.labels)
    found, left_out = copy(chosen), list(fitted.get("exclude") or [])
    labels = {role: fitted[role] for role in ("label", "label_set") if fitted.get(role)}
    if not labelled:
        left_out += labels.values()
    elif chosen.label is None is chosen.label_set:
        for role, name in labels.items():
            setattr(found, role, name if name in beside else None)
    # The features of HDF5 files, and of lists in a table, have no columns of their own.
    has_lists = format in (*TABLES, "recordings") and not set(names or ()) & set(present)
    features = fitted.get("features") if has_lists or format == "hdf5" else names
    found.features = chosen.features or features
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
    excluded = [*(chosen.exclude or ()), *(name for name in left_out if name in present)]
    found.exclude = list(dict.fromkeys(excluded))
    kept = [name for name in fitted.get("keep") or () if name in {*present, *beside}]
    found.keep = chosen.keep or kept
    if chosen.separator == ";":
        found.separator = fitted.get("separator", ";")
    return found


def _are_two_labels(value: Any) -> bool:
    labels = value if isinstance(value, list) else []
    plain = all(isinstance(label, str | int | float) for label in labels)
    return plain and len(labels) == 2 and labels[0] != labels[1]


def _format(path: Path) -> str | None:
    """The format of a file or folder; "recordings" if it is of BirdNET or Perch-Hoplite."""
    from bagwise.apps.audio._recordings import are_recordings

    if not path.exists():
        return None
    return "recordings" if are_recordings(path) else format_of(path, None)


def _column_names(path: Path) -> list[str]:
    """The columns of a table; none for other files."""
    from bagwise.apps.audio import read_recordings

    format = _format(path)
    if format == "recordings":
        return list(read_recordings(path).column_names)
    if format not in TABLES:
        return []
    with format_errors(path):
        return open_table(path, format, Request()).names


def _read(path: Path, chosen: Columns, **settings: Any) -> Contents:
    from bagwise.apps.audio import read_recordings

    if is_model(path):
        raise InputError(f"{path} is a model: expected a file of bags.")
    named = {field.name: getattr(chosen, field.name) for field in fields(Columns)}
    request = Request(**{k: v for k, v in named.items() if v is not None}, **settings)
    with progress(f"Reading {path.name}"), naming(path, request.labels):
        source: Any = path
        if _format(path) == "recordings":
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
    if single is not None and sets is not None and chosen.label is None is chosen.label_set:
        raise LabelError("the bags have labels and label sets: choose label= or label_set=.")
    labels = sets if sets is not None and chosen.label is None else single
    if labels is None:
        raise LabelError(
            "the bags have no labels: name their column with label= or label_set=, or a table of "
            "them with labels=."
        )
    return labels


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

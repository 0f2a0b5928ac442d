"""Read bags, labels and saved models from files, according to the options of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured

from bagwise._common.extras import import_extra
from bagwise._common.types import Array, Bools
from bagwise.apps.audio import read_recordings
from bagwise.auto._methods import add_current_folder
from bagwise.bags import Bags
from bagwise.cli.options import Columns, Saved, Task, is_model, split_names
from bagwise.cli.output import note, progress, warning
from bagwise.exceptions import DataWarning, InputError, LabelError, counted, warn_user
from bagwise.io._anndata import is_anndata, obs_columns
from bagwise.io._contents import Contents, suspicion
from bagwise.io._files import TABLES, Request, format_errors, format_of, listed, naming
from bagwise.io._reading import read_contents
from bagwise.io._table import open_frame, open_table
from bagwise.labels import (
    Intervals,
    Labels,
    is_known,
    is_missing,
    positive_by_name,
    short_list,
    sorted_labels,
)
from bagwise.validation import are_times, check_bags
from bagwise.validation.leaks import ENTITY
from bagwise.validation.times import TIMES

if TYPE_CHECKING:
    from bagwise.apps.review import _known

_REST = "not "  # what the other labels are called with --pos-label
_WIDE = 200  # features from which --pca is recommended
_MANY, _FEW = 10, 5  # numbers of distinct values, not all integers
_MANY_WHOLE = 20  # number of distinct integers
_EVENTS = dict.fromkeys(["1.0", "true", "yes", "dead", "deceased", "event"], "1")
_EVENTS |= dict.fromkeys(["0.0", "false", "no", "alive", "living", "censored"], "0")


def read_columns(path: Any, chosen: Columns, *, learn: bool = True, **more: Any) -> Contents:
    """Read the columns of a file that the options of a command name.

    Parameters
    ----------
    path : Path, data frame or AnnData
        The bags.
    chosen : Columns
        The columns; None stands for the default names.
    learn : bool, default=True
        Whether features that look like labels are rejected, instead of only reported.
    **more
        As in `Request`.

    Returns
    -------
    Contents
    """
    data = _read(path, chosen.named, **more)
    if data.suspects:
        message = f"{path if isinstance(path, Path) else 'the table'}: {suspicion(data.suspects)}"
        if learn:
            raise InputError(message)
        warn_user(message, DataWarning)
    if learn:
        _note_features(data.bags)
    return data


def _note_features(bags: Bags) -> None:
    """Print which features a command uses, so that a wrong column is noticed at a glance."""
    names = bags.feature_names or []
    shown = names if len(names) <= 8 else [*names[:4], "...", *names[-3:]]
    note(f"features: {bags.n_features}" + (f" ({', '.join(shown)})" if names else ""))


def _note_group(chosen: Columns) -> None:
    """Print that a column such as the patient, which is no feature, may be the group."""
    columns = [*(chosen.exclude or ()), *(chosen.keep or ())]
    columns += [] if chosen.labels is None else _column_names(chosen.labels)
    for name in [n for n in columns if ENTITY.search(n) and n not in chosen.named.values()][:1]:
        note(f"If bags share a {name!r}, keep them in one fold: --group {name}.")


def check_features(bags: Bags, steps: Any, *, wide: bool = True) -> None:
    """Reject missing values before they are scaled; warn of many features for few bags."""
    check_bags(None, bags, reset=True, allow_nan=steps.impute is not None)
    many = not bags.is_sparse and bags.n_features > max(_WIDE, 2 * len(bags))
    if wide and steps.pca is None and many:
        warning(f"{bags.n_features} features are many for {len(bags)} bags: try --pca auto.")


def read_labelled(
    path: Any,
    chosen: Columns,
    *,
    positive: str | None = None,
    group: str | None = None,
    corrected: _known.Known | None = None,
    bag_columns: Sequence[str] = (),
) -> tuple[Contents, Labels]:
    """Read bags to learn from: those without a label are left out, with a note.

    Parameters
    ----------
    path : Path, data frame or AnnData
        The bags.
    chosen : Columns
        Its columns.
    positive : str or None
        The positive one of two labels, which becomes the last class; by default it is chosen by
        the names of the labels, see `positive_by_name`.
    group : str or None
        The column with the group of each bag.
    corrected : Known or None
        Known labels of instances; bags with such instances are kept even without a label.
    bag_columns : sequence of str, default=()
        Further columns of the bags.

    Returns
    -------
    data : Contents
        The bags whose labels are known, with their groups, columns and clips.
    labels : Labels
        Their labels.
    """
    if group is not None and chosen.labels is not None and corrected is None:
        # Bags that are not in the table are left out in any case, and need no group.
        chosen = replace(chosen, missing=chosen.missing or "drop")
    data = _without_empty(read_columns(path, chosen, group=group, bag_columns=bag_columns))
    if data.bags.groups is None and isinstance(path, Path):
        _note_group(chosen)
    single, labels = data.labels, data.label_sets
    if data.targets is not None:
        single, labels = _as_labels(data.targets), None
    if None not in (single, labels) and chosen.label is None is chosen.label_set:
        raise LabelError("the bags have labels and label sets: choose label= or label_set=.")
    if labels is None or chosen.label is not None:
        labels = single
    if labels is None:
        raise LabelError("the bags have no labels: name a column with label= or label_set=.")
    known = labels.known
    if corrected is not None:
        labels = corrected.correct_sets(labels, data)
        known = labels.known | corrected.about(data.bags)
    _note_unknown(labels, known, " and are left out")
    if not known.any():
        raise LabelError("no bag has a label.")
    if data.targets is not None:
        return data.take(np.flatnonzero(known)), labels[known]
    return data.take(np.flatnonzero(known)), _positive_last(labels[known], positive)


def read_known(path: Path | None, estimator: Any, method: str) -> _known.Known | None:
    """Read the file of ``--corrections``; raise an error if the method cannot use it."""
    if path is None:
        return None
    from sklearn.utils.validation import has_fit_parameter

    from bagwise.apps.review import _known

    if not has_fit_parameter(estimator, "instance_labels"):
        raise InputError(f"{method} cannot keep labels of instances fixed: use -m orlr.")
    return _known.read_known(path, note)


def label_sets_of(data: Contents) -> Labels | None:
    """The label sets of bags, some perhaps unknown, with a note; a label becomes a set of one."""
    if data.targets is not None:
        raise InputError("this needs labels, not times or numbers: use --label or --label-set.")
    labels = data.labels if data.label_sets is None else data.label_sets
    if labels is None:
        return None
    _note_unknown(labels, labels.known)
    return labels.as_sets()


def _note_unknown(labels: Labels, known: Bools, then: str = "") -> None:
    """Print how many bags have no label, and how many the empty set, which is not the same."""
    n_bags, n_unknown = len(labels), int((~known).sum())
    if n_unknown:
        note(f"{n_unknown} of {n_bags} bags have no label{then}.")
    n_partly = int((~labels.whole).sum()) if labels.has_sets else 0
    if n_partly:
        note(f"{n_partly} of {n_bags} bags have labels that may be present or absent.")
    n_empty = int((labels.known & ~labels.indicator.any(axis=1)).sum()) if labels.has_sets else 0
    if n_empty:
        others = f" (the sets of {n_unknown} others are unknown)" if n_unknown else ""
        note(f"{n_empty} of {n_bags} bags have the empty label set{others}.")


# What is learned from the labels


def make_for_task(method: Any, parameters: dict[str, Any], task: str | None) -> Any:
    """Make the estimator before the file is read: wrong parameters, a missing package are found.

    If the task is not known, parameters may be those of the classifier or of the regressor.
    """
    if method.needs is not None:
        import_extra(method.needs, extra=method.needs)
    if task == "survival":
        return method.for_times().make(parameters)
    if task == "regression":
        return method.for_numbers().make(parameters)
    try:
        return method.make(parameters)
    except InputError:
        if task == "classification" or method.regressor is None:
            raise
        return method.for_numbers().make(parameters)


class Target(NamedTuple):
    """The prediction target of a model.

    Attributes
    ----------
    y : ndarray or Intervals
        Labels, label sets, numbers or intervals.
    is_number : bool
        Whether the model is a regressor.
    coded : bool
        Whether two labels are learned as 0 and 1.
    classes : list
        The labels as they are in the file; empty for numbers.
    positive : str
        The positive one of two classes, for a message; otherwise empty.
    has_order : bool
        Whether the labels are grades, coded in their order.
    """

    y: Any
    is_number: bool
    coded: bool
    classes: list[Any]
    positive: str
    has_order: bool = False

    @property
    def has_times(self) -> bool:
        """Whether the target is a time to an event."""
        return are_times(self.y)

    def variant(self, method: Any) -> Any:
        """The variant of a method that predicts this kind of target."""
        if self.has_times:
            return method.for_times()
        return method.for_numbers() if self.is_number else method

    @property
    def task(self) -> str:
        """The name of the task, as in ``--task``; "survival" for times to an event."""
        if self.has_times:
            return "survival"
        return "regression" if self.is_number else "classification"

    @property
    def kind(self) -> str:
        """What a bag has: a "class", "set", "number", "grade" or "time"."""
        if self.has_times:
            return "time"
        if self.is_number or self.has_order:
            return "number" if self.is_number else "grade"
        return "set" if self.y.ndim == 2 else "class"

    @property
    def described(self) -> str:
        """The kind of the target and its values, for a message."""
        if self.has_times:
            return f"time to an event{self.positive}"
        if self.has_bounds:
            return "number, some known to an interval"
        if self.is_number:
            return f"number, {self.y.min():.4g} to {self.y.max():.4g}"
        return f"{self.kind}: {short_list(self.classes)}{self.positive}"

    @property
    def has_bounds(self) -> bool:
        """Whether some numbers are intervals."""
        return isinstance(self.y, Intervals)

    def around(self, model: Any) -> Any:
        """Return the model, or one for grades or for intervals that has it inside."""
        from sklearn.multioutput import MultiOutputRegressor

        from bagwise.auto import AutoBagRegressor
        from bagwise.classification import AttentionMIL, OrdinalBagClassifier
        from bagwise.regression import CensoredBagRegressor

        if self.has_order and isinstance(model, AttentionMIL):
            return model.set_params(loss="ordinal")  # one network for all thresholds
        if self.has_order:
            return OrdinalBagClassifier(model)
        if isinstance(self.y, Numbers) and not isinstance(model, AutoBagRegressor):
            return MultiOutputRegressor(model)
        return CensoredBagRegressor(model) if self.has_bounds else model


def target_of(labels: Labels, task: Task, bags: Bags, name: Any, *, coded: bool = False) -> Target:
    """Make the prediction target from the labels of a file.

    Parameters
    ----------
    labels : Labels
        Result of `read_labelled`.
    task : Task
        What to learn.
    bags : Bags
        The bags, for messages.
    name : str or None
        The label column.
    coded : bool, default=False
        Whether two labels are always coded as 0 and 1.

    Returns
    -------
    Target
    """
    if labels.classes.dtype.names:
        if any(vars(task).values()):
            raise InputError("--task, --pos-label and --order are for labels: leave them out.")
        return _several(labels.values)
    if task.order is not None:
        return Target(*_graded(labels, split_names(task.order)), "", has_order=True)
    found = None if task.positive else numbers_of(labels, task.task, bags, name=name)
    if found is not None:
        return Target(found, True, False, [], "")
    classes = labels.classes.tolist()
    two = len(classes) == 2 and not labels.has_sets
    # A model sorts its classes, and takes the last of two as the positive one.
    coded = two and (coded or task.positive is not None or classes != sorted_labels(classes))
    positive = f" ({labels.names[1]} is positive)" if two else ""
    return Target(labels.codes if coded else labels.values, False, coded, classes, positive)


def _several(values: Array) -> Target:
    """The target of several columns: times to an event, or a matrix of numbers."""
    if values.dtype == TIMES:
        return Target(values, True, False, [], f" ({int(values['event'].sum())} events)")
    numbers = structured_to_unstructured(values).view(Numbers)
    numbers.columns = list(values.dtype.names or ())
    return Target(numbers, True, False, [], "")


class Numbers(np.ndarray[Any, Any]):
    """A matrix of several numbers per bag, with the names of its columns."""

    columns: list[str]


def _graded(labels: Labels, order: list[str]) -> tuple[Array, bool, bool, list[Any]]:
    """The grades of the bags as codes, and the labels in their order."""
    unknown = [name for name in labels.names if name not in order]
    if labels.has_sets or unknown or len(labels.classes) < 2:
        found = f"also the label {unknown[0]}" if unknown else f"only {labels.names[0]}"
        found = "label sets" if labels.has_sets else found
        raise LabelError(f"--order {','.join(order)} has the grades, and the file has {found}.")
    ranks = np.argsort([order.index(name) for name in labels.names])
    return np.argsort(ranks)[labels.codes], False, True, labels.classes[ranks].tolist()


def numbers_of(labels: Labels, task: str | None, bags: Bags, *, name: str | None = None) -> Any:
    """The target of a regression; print a note if it was detected.

    Parameters
    ----------
    labels : Labels
        The labels of the file, all of them known.
    task : {"regression", "classification"} or None
        The value of ``--task``; None to detect the task.
    bags : Bags
        The bags, for messages.
    name : str or None, default=None
        The label column.

    Returns
    -------
    ndarray of shape (n_bags,), Intervals or None
        None if labels are to be predicted.
    """
    if task == "classification":
        return None
    column, n_values, n_bags = f"column {name or 'label'}", len(labels.classes), len(labels)
    bounds, odd = _as_intervals(labels, bags)
    if bounds is None:
        plain = (label.strip("<>=≤≥+- ").replace(".", "", 1) for label in labels.names)
        most = sum(map(str.isdigit, plain)) >= max(0.9 * n_values, _MANY_WHOLE)
        if task == "regression" or (most and not labels.has_sets):
            why = "--task regression needs numbers" if task else "nearly all labels are numbers"
            raise LabelError(f"{why}: in the {column} {odd} Or use --task classification.")
        if sum(label[:1].isdigit() for label in labels.names) > n_bags / 2:
            note(f"{column}: predicting {n_values} labels, not numbers, because {odd}")
        return None
    values = bounds[labels.codes]
    if not bounds.exact.all():
        if task is None and not _are_numbers(labels.names, bounds):
            return None
        n_exact = int(values.exact.sum())
        note(f"{column}: {n_exact} numbers, and {n_bags - n_exact} known to an interval.")
        return values
    many = n_values > max(_MANY_WHOLE, n_bags / 4)
    if (bounds.lower != np.trunc(bounds.lower)).any():
        many = n_values >= _MANY or (n_values >= _FEW and n_values > n_bags / 2)
    if many and task is None:
        note(f"{column}: {n_values} numbers, to be predicted (--task classification for labels).")
    elif n_values > _MANY_WHOLE and task is None:
        note(f"{column}: {n_values} numbers, taken as labels (--task regression for numbers).")
    return values.lower if many or task == "regression" else None


def _as_labels(targets: Array) -> Labels:
    """Times, or several numbers, as labels, of which some are unknown."""
    known = is_known(targets)
    codes = np.full(len(targets), -1)
    classes, codes[known] = np.unique(targets[known], return_inverse=True)
    return Labels.from_codes(classes, codes)


def known_numbers(labels: Labels | None, bags: Bags) -> Any:
    """The numbers, or intervals, of bags, NaN if a bag has none; None if there are no labels."""
    if labels is None:
        return None
    bounds, odd = _as_intervals(labels, bags)
    if bounds is None:
        raise LabelError(f"the model predicts numbers, and in the label column {odd}")
    lower, upper = (np.append(ends, np.nan)[labels.codes] for ends in (bounds.lower, bounds.upper))
    return lower if bounds.exact.all() else Intervals(lower, upper)  # the code -1 selects NaN


def _as_intervals(labels: Labels, bags: Bags) -> tuple[Intervals | None, str | None]:
    """The classes as intervals; None, and the error, if one is no number and no interval."""
    if labels.has_sets:
        return None, "there are label sets."
    codes, first = np.unique(labels.codes, return_index=True)
    names = [bags.name_of(int(i)) for i in first[codes >= 0]]
    try:
        return Intervals.from_strings(labels.classes.tolist(), name_of=names.__getitem__), None
    except LabelError as error:
        return None, str(error)


def _are_numbers(names: list[str], bounds: Intervals) -> bool:
    """Whether intervals are censored numbers, not names of grades (``1+``) or ranges (``0-9``)."""
    return int(bounds.exact.sum()) >= _FEW and any(name.strip()[0] in "<>≤≥" for name in names)


def _positive_last(labels: Labels, positive: str | None) -> Labels:
    """Put the positive one of two classes last; of more classes, the positive against the rest."""
    two = len(labels.classes) == 2 and not labels.has_sets
    if positive is not None and (labels.has_sets or positive not in labels.names):
        raise LabelError(f"pos_label={positive!r}: expected one of the labels {labels.names}.")
    if positive is not None and len(labels.classes) > 2:
        note(f"{positive} against the other {len(labels.classes) - 1} labels.")
        rest = [f"{_REST}{positive}", positive]
        return Labels("single", rest, (labels.codes == labels.names.index(positive)).astype(int))
    if positive is None and two and positive_by_name(labels.classes) == 0:
        positive = labels.names[0]
    if positive is None or labels.names[1] == positive:
        return labels
    return Labels("single", labels.classes[::-1], 1 - labels.codes)


# Saved models


def open_saved(saved: Saved, chosen: Columns, **how: Any) -> tuple[Any, dict[str, Any], Contents]:
    """Load a model, and read the columns it was fitted on, and labels if there are any.

    Parameters
    ----------
    saved : Saved
        The model and the file of bags.
    chosen : Columns
        The columns named now; the others are as in the fit. A label column of the fit may be
        absent: new bags need no labels.
    **how
        As for `read_as_fitted`.

    Returns
    -------
    model : estimator
        The fitted model.
    metadata : dict
        What `bagwise fit` saved: ``method``, ``parameters``, ``classes``, ``columns``,
        ``training``, ``corrections``; any of them may be missing.
    data : Contents
        The features are in the order of the model.
    """
    from sklearn.utils.validation import check_is_fitted

    from bagwise.persistence import load_model

    if saved.trust:
        add_current_folder()  # with the class of a user
    model, metadata = load_model(saved.model, trusted=saved.trust or ())
    if metadata.get("threshold") is not None:
        model.threshold_ = metadata["threshold"]["value"]
    check_is_fitted(model)
    return model, metadata, read_as_fitted(model, metadata, saved.file, chosen, **how)


def read_as_fitted(
    model: Any,
    metadata: Mapping[str, Any],
    source: Any,
    chosen: Columns,
    *,
    labelled: bool = True,
    merged: bool = True,
    **more: Any,
) -> Contents:
    """Read the columns that a model was fitted on, and labels if there are any.

    Parameters
    ----------
    model : estimator
        The fitted model.
    metadata : mapping
        What its file contains besides.
    source : Path, data frame or AnnData
        The bags.
    chosen : Columns
        The columns named now; the others are as in the fit.
    labelled : bool, default=True
        Whether labels are read; otherwise the label columns of the model are left out.
    merged : bool, default=True
        Whether bags are merged as in the fit.
    **more
        As in `Request`.

    Returns
    -------
    Contents
        The features are in the order of the model.
    """
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else list(names)
    fitted = {k: v for k, v in metadata.get("columns", {}).items() if merged or k != "merge"}
    columns = _as_fitted(source, fitted, names, chosen, labelled=labelled)
    data = _without_empty(_read(source, columns, **more))
    if names is not None and data.bags.feature_names is not None:
        data.bags = _in_order(data.bags, names)
    _note_features(data.bags)
    return data


def known_targets(model: Any, data: Contents, metadata: Mapping[str, Any]) -> Any:
    """What is known of the bags, as a saved model encodes it: times, numbers or labels."""
    from bagwise.base._pipelines import predicts_numbers, predicts_risk

    if predicts_risk(model):
        return data.targets
    if data.targets is not None:
        raise InputError("pages show one number per bag: fit one of them (--label).")
    if predicts_numbers(model):
        return known_numbers(data.labels, data.bags)
    return labels_for(model, data, metadata)


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
    from bagwise.base._pipelines import label_kind

    labels, classes = data.labels, metadata.get("classes")
    if labels is None or (data.label_sets is not None and label_kind(model) == "sets"):
        return data.label_sets
    if classes is None:
        return labels
    known = {str(label): k for k, label in enumerate(classes)}
    rest = 0 if len(classes) == 2 and classes[0] == f"{_REST}{classes[1]}" else None
    own = [known.get(str(x), x if rest is None else rest) for x in labels.classes.tolist()]
    if rest is not None:
        return Labels.from_codes([0, 1], np.array([*own, -1])[labels.codes])
    return Labels.from_codes(own, labels.codes)


def _as_fitted(
    path: Any,
    fitted: Mapping[str, Any],
    names: list[str] | None,
    chosen: Columns,
    *,
    labelled: bool,
) -> dict[str, Any]:
    """The columns that the options name, else the columns of the fit that the files have."""
    present, given = _column_names(path), chosen.named
    beside = present if chosen.labels is None else _column_names(chosen.labels)
    found = {name: value for name, value in fitted.items() if value}
    kinds = {"label", "label_set", "looked_for", "event", "time"}
    roles = {role: found.pop(role) for role in sorted(kinds & found.keys())}
    absent = [role for role, names in roles.items() if not {*split_names(names)} <= {*beside}]
    if labelled and not kinds & given.keys():
        absent += ["event", "time"] if {"event", "time"} & {*absent} else []
        found |= {role: name for role, name in roles.items() if role not in absent}
    unused = () if labelled else (*split_names(",".join(roles.values())), "group")
    left_out = [*found.pop("exclude", ()), *(n for n in unused if n not in (names or ()))]
    given["exclude"] = [*given.get("exclude", ()), *(n for n in left_out if n in present)]
    found["keep"] = [name for name in found.get("keep", ()) if name in {*present, *beside}]
    # The features of HDF5 files, and of lists in a table, have no columns of their own.
    format = _format(path)
    has_lists = format in (*TABLES, "recordings", "frame") and not set(names or ()) & set(present)
    if not has_lists and format not in ("hdf5", "h5ad"):
        found["features"] = names
    if format == "h5ad":
        given.pop("exclude")  # columns of obs are not features
    else:
        found.pop("use_rep", None)
    if not beside:
        found.pop("bag", None)
    if chosen.labels is None:
        found.pop("id_column", None)
    if chosen.merge is None and "merge" in found and found["merge"] not in beside:
        merged = found.pop("merge")
        note(f"The model was fitted on bags merged by {merged!r}, and these are not merged.")
    return found | given


def _in_order(bags: Bags, names: list[str]) -> Bags:
    """The features in the order of the model."""
    place = {name: j for j, name in enumerate(bags.feature_names or ())}
    missing = [name for name in names if name not in place]
    if missing:
        raise InputError(f"the file has not all features of the model: {', '.join(missing[:5])}.")
    if bags.feature_names == names:
        return bags
    columns = [place[name] for name in names]
    return bags.with_instances(bags.instances[:, columns], feature_names=names)


# Files


def title_of(source: Any) -> str:
    """The name of a file, or of a table in memory."""
    return source.name if isinstance(source, Path) else "the table"


def _format(path: Any) -> str:
    """The format of a file or folder; "recordings" if it is of BirdNET or Perch-Hoplite."""
    from bagwise.apps.audio._recordings import are_recordings

    if not isinstance(path, Path):
        return "h5ad" if is_anndata(path) else "frame"
    if is_model(path):
        raise InputError(f"{path} is a model: expected a file of bags.")
    return "recordings" if are_recordings(path) else format_of(path, None)


def _column_names(path: Any) -> list[str]:
    """The columns of a table, or of the observations of AnnData; none for other files."""
    format = _format(path)
    if format == "recordings":
        return list(read_recordings(path).column_names)
    if format in ("h5ad", "frame"):
        return obs_columns(path) if format == "h5ad" else open_frame(path).names
    if format not in TABLES:
        return []
    with format_errors(path):
        return open_table(path, format, Request()).names


def _read(path: Any, named: Mapping[str, Any], **settings: Any) -> Contents:
    """Read a file, and note what was left out."""
    own = dict(named)
    if "," in (own.get("label_set") or ""):  # a column per label
        own["label_columns"] = tuple(split_names(own.pop("label_set")))
    own["bag_columns"] = [*own.pop("use_columns", ()), *settings.pop("bag_columns", ())]
    wanted = [own.pop(role) for role in ("event", "time") if role in own]
    kept, is_time = list(own.get("keep") or ()), bool(wanted)
    # A column of the usual name is not the label then.
    spare = {"label"} & {*_column_names((settings | own).get("labels") or path)} if is_time else ()
    if "," in (own.get("label") or "") and own["label"] not in _column_names(path):
        wanted = split_names(own.pop("label"))  # several numbers
    own["keep"] = list(dict.fromkeys([*kept, *wanted, *spare]))
    request = Request(**own, **settings)
    name, is_file = title_of(path), isinstance(path, Path)
    where = naming(path, request.labels) if is_file else nullcontext()
    with progress(f"Reading {name}"), where:
        source: Any = path
        if _format(path) == "recordings":
            source = read_recordings(path, species=request.features or ())
        data = read_contents(source, request)
    if wanted:
        data.targets = _targets(data, wanted, is_time=is_time)
        aside = {*wanted, *spare} - {*kept}
        data.columns = {n: v for n, v in data.columns.items() if n not in aside}
    if data.left_out:
        note(f"Not used as features, judging by their names: {', '.join(data.left_out)}.")
    if request.missing == "drop" and data.absent:
        left = f"{counted(len(data.absent), 'bag')}, such as {listed(data.absent, 5)}"
        note(f"Left out, because not in {title_of(request.labels)}: {left}.")
    if data.others:
        others = f"Rows of {title_of(request.labels)} about bags that are not in {name}"
        note(f"{others}: {len(data.others)}, such as {listed(data.others, 5)}.")
    return data


def _targets(data: Contents, names: list[str], *, is_time: bool) -> Array:
    """The event and the time of each bag, or several numbers, from columns of instances."""
    bags, types = data.bags, TIMES if is_time else [(name, np.float64) for name in names]
    found, unknown = np.zeros(len(bags), dtype=types), np.zeros(len(bags), dtype=bool)
    numbers: Any = found.dtype.names
    for field, name in zip(numbers, names, strict=True):
        for i, cells in enumerate(bags.split(np.array(data.columns[name], dtype=object))):
            own = dict.fromkeys(None if is_missing(cell) else cell for cell in cells)
            if len(own) > 1:
                some = " and ".join(map(str, [*own][:2]))
                raise LabelError(f"{bags.name_of(i)} has several values of {name}: {some}.")
            (cell,) = own or (None,)
            unknown[i] |= cell is None or str(cell).strip() == ""
            if unknown[i]:
                continue
            text = str(cell).strip().lower()
            text = _EVENTS.get(text.partition(":")[2] or text, text) if field == "event" else text
            try:
                found[field][i] = ("0", "1").index(text) if field == "event" else float(text)
            except ValueError:
                expected = "1 or 0, yes or no, dead or alive" if field == "event" else "a number"
                raise LabelError(
                    f"{bags.name_of(i)} has {cell!r} in the column {name}: expected {expected}."
                ) from None
    found[numbers[-1]][unknown] = np.nan
    return found


def _without_empty(data: Contents) -> Contents:
    """Leave out bags without instances, such as slides in which no tissue was found."""
    empty = data.bags.sizes == 0
    if not empty.any() or empty.all():
        return data
    first = f"{empty.sum()} of {len(empty)} bags"
    warning(f"{first} have no instances and are left out, such as {data.bags.names[empty][0]}.")
    return data.take(np.flatnonzero(~empty))


# What a command adds to its results: kept columns, positions, label files for recordings


def seen_in_training(data: Contents, metadata: Mapping[str, Any]) -> list[bool] | None:
    """Which bags the model was fitted on, if its file lists them."""
    if metadata.get("training") is None:
        return None
    from bagwise.persistence import fingerprints

    marks = set(metadata["training"])
    return [mark in marks for mark in fingerprints(data.bags)]

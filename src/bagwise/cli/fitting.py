"""Fit a model to a table: what `bagwise.fit` and ``bagwise fit`` share."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.extras import import_extra
from bagwise.auto._methods import find_method, make_model
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._pipelines import final_estimator, fit_arguments
from bagwise.cli import reading
from bagwise.cli.options import Columns, Steps, Task, own_parameters
from bagwise.cli.output import is_quiet, note, progress, running
from bagwise.cli.results import say_held_out
from bagwise.evaluate import choose_threshold, held_out_predictions
from bagwise.evaluate._thresholds import Threshold
from bagwise.exceptions import BagwiseError, InputError
from bagwise.io._contents import Contents
from bagwise.persistence import MOST_MARKS, fingerprints, save_model
from bagwise.predictions import Predictions, remember_training
from bagwise.validation.leaks import warn_of_leaks

_FOLDS = 5  # of a report on the bags of the fit


def fit(
    table: Any,
    bag: str | None = None,
    label: str | Sequence[str] | None = None,
    groups: str | None = None,
    *,
    label_set: str | Sequence[str] | None = None,
    looked_for: str | None = None,
    event: str | None = None,
    time: str | None = None,
    method: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    task: str | None = None,
    order: Sequence[str] = (),
    pos_label: Any = None,
    features: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
    meta: str | Sequence[str] = (),
    use_columns: str | Sequence[str] = (),
    labels: Any = None,
    use_rep: str | None = None,
    random_state: int | None = None,
    verbose: bool = True,
) -> "Fitted":
    """Fit a model to a table of bags, from a data frame or file to a result in one call.

    It reads the bags, finds the task from the labels and prints it, standardises the instances, and
    fits the model, as the command ``bagwise fit`` does.

    Parameters
    ----------
    table : data frame, path or AnnData
        Anything that `bagwise.io.read_bags` reads: a row per instance, with the label of its bag.
    bag, groups : str, default=None
        The columns with the bag and its group, such as the patient of a slide; bags of one group
        stay in one fold. By default the columns ``bag`` and ``group``.
    label : str or sequence of str, default=None
        The column with the label, by default ``label``; a list of columns is a target of several
        numbers.
    label_set, looked_for : default: as for `bagwise.io.read_bags`
        The column with the label set of the bag, as "a;b", or a list of columns, one per label; and
        that with the labels that were looked for.
    event, time : str, default=None
        The columns that tell whether the event of the bag, such as death, was observed, and when,
        or until when it was not.
    method : str, default="auto"
        A method by its name (`bagwise methods` lists them), or ``"package.module:Class"``, a
        classifier or regressor of your own whose ``fit`` takes `Bags`.
    parameters : dict, default=None
        Parameters of the method.
    task : {"classification", "regression"}, default=None
        By default many different numbers are a regression target, and other labels classes.
    order : sequence of str, default=()
        The labels are grades, in this order, lowest first.
    pos_label : object, default=None
        The positive one of two labels; by default it is chosen by their names.
    features, exclude, meta, labels, use_rep : default: as for `bagwise.io.read_bags`
        The feature columns, those to leave out, those to copy to the results, a second table with
        the labels, the features of an AnnData object.
    use_columns : str or sequence of str, default=()
        Columns with one value per bag, such as age and site, that the model uses.
    random_state : int, default=None
        Seed of folds and random methods; by default that of the method.
    verbose : bool, default=True
        Whether to print notes and progress, on stderr.

    Returns
    -------
    Fitted
        ``leaderboard()``, ``predict(table)``, ``key_instances(table)``, ``score_instances(table)``,
        ``report(path)`` and ``save(path)``; ``model`` is the fitted estimator.

    Examples
    --------
    >>> import bagwise
    >>> import pandas as pd
    >>> table = pd.DataFrame({"slide": [*"aabbccdd"], "tumour": ["no"] * 4 + ["yes"] * 4})
    >>> table["red"] = [0.1, 0.2, 0.1, 0.0, 0.9, 0.1, 0.2, 1.0]
    >>> result = bagwise.fit(table, bag="slide", label="tumour", method="nsk", verbose=False)
    >>> result
    Fitted(task='class', classes=['no', 'yes'], method='nsk', bags=4, instances=8, features=1)
    >>> result.predict(table)["predicted"].tolist()
    ['no', 'no', 'yes', 'yes']
    """
    sets = label_set if isinstance(label_set, str | None) else f"{','.join(label_set)},"
    target = label if isinstance(label, str | None) else ",".join(label)
    given = {"bag": bag, "label": target, "label_set": sets, "looked_for": looked_for}
    given |= {"event": event, "time": time}
    listed = {"features": _names(features), "exclude": _names(exclude), "keep": _names(meta)}
    listed["use_columns"] = _names(use_columns)
    wanted = {"task": task, "positive": None if pos_label is None else str(pos_label)}
    wanted["order"] = ",".join(map(str, order)) or None
    source, given["labels"] = _as_path(table), _as_path(labels)
    with running(quiet=not verbose), _python_names():
        return learn(
            source,
            options_of(Columns, **given, **listed, use_rep=use_rep),
            options_of(Steps),
            options_of(Task, **wanted),
            method=method,
            group=groups,
            own={"seed": random_state},
            parameters=parameters,
        )


def learn(
    source: Any,
    columns: Columns,
    steps: Steps,
    task: Task,
    *,
    method: str,
    group: str | None = None,
    own: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    checkpoint: Path | None = None,
    corrections: Path | None = None,
    rates: Mapping[str, float] | None = None,
) -> "Fitted":
    """Read a table, find the task, make the model and fit it.

    Parameters
    ----------
    source : Path, data frame or AnnData
        The bags.
    columns, steps, task : Columns, Steps, Task
        The options of a command.
    method : str
        The method.
    group : str or None
        The column of groups.
    own : dict
        The options that set parameters, for `own_parameters`.
    parameters : dict
        Parameters of the method.
    checkpoint, corrections : Path or None
        As for ``bagwise fit``.
    rates : dict, default=None
        The rate for which a threshold is chosen, such as ``{"sensitivity": 0.95}``.

    Returns
    -------
    Fitted
    """
    chosen = find_method(method)
    own = {"use_columns": columns.use_columns} | dict(own or {})
    values = own_parameters(chosen, **own) | dict(parameters or {})
    settings = values if checkpoint is None else values | {"checkpoint": str(checkpoint)}
    wanted = task.task if columns.event is None else "survival"
    estimator = reading.make_for_task(chosen, settings, wanted)
    corrected = reading.read_known(corrections, estimator, chosen.name)
    data, labels = reading.read_labelled(
        source, columns, positive=task.positive, group=group, corrected=corrected
    )
    bags = data.bags
    reading.check_features(bags, steps, wide=chosen.name != "pooled-trees")
    chosen.check_labels(label_sets=labels.has_sets)
    target = reading.target_of(labels, task, bags, columns.label)
    note(f"task: {target.described}")
    if rates and (target.kind != "class" or len(target.classes) != 2):
        one = " --pos-label chooses one against the rest." if target.kind == "class" else ""
        raise InputError(f"--{next(iter(rates))} is for two classes, not a {target.kind}.{one}")
    chosen = target.variant(chosen)
    made: Any = {"around": target.around, "sparse": bags.is_sparse} | steps.arguments
    model = make_model(chosen, settings, **made)
    y, known = (labels.targets if labels.has_sets else target.y), None
    if corrected is not None:
        names = range(2) if target.coded else labels.classes.tolist()
        written = dict(zip(labels.names, names, strict=True))
        known = corrected.match(bags, written, values.get("background"))
    warn_of_leaks(bags, target.y)
    with _showing(model, f"Fitting {chosen.name} on {len(bags)} bags"):
        model.fit(bags, y, **fit_arguments(model, instance_labels=known))
    if checkpoint is not None:  # the file is deleted, so the saved model must not name it
        model.set_params(**{n: None for n in model.get_params() if n.endswith("checkpoint")})
    facts = {
        "method": chosen.name,
        "parameters": values,
        "task": target.task,
        "classes": target.classes if target.coded else getattr(target.y, "columns", None),
        "columns": columns.saved,
        "impute": steps.impute,
        "corrections": sum(label is not None for label in known or ()),
    }
    facts |= say_held_out(model)
    if rates:
        found = _threshold(model, bags, y, rates)
        facts["threshold"], model.threshold_ = found.summary(), found.value
        note(str(found))
    remember_training(model, bags)
    if len(bags) <= MOST_MARKS:  # by which a report recognises the bags
        facts["training"] = fingerprints(bags)
    single, sets = (None, labels) if labels.has_sets else (labels, None)
    data = Contents(bags, labels=single, label_sets=sets, clips=data.clips)
    if labels.classes.dtype.names:
        data = Contents(bags, targets=labels.values)
    return Fitted(model, facts, target, data, source)


def _threshold(model: Any, bags: Bags, y: Any, rates: Mapping[str, Any]) -> Threshold:
    """The threshold that reaches a rate on the held-out bags of the fit, or of five folds."""
    last, groups = final_estimator(model), bags.groups
    if hasattr(last, "held_out_scores_"):
        sign = last._sign  # of the scores of the last class
        scores, truth = sign * last.held_out_scores_[:, 0], last.held_out_targets_[:, 0]
        truth, groups = truth if sign > 0 else 1 - truth, last.held_out_groups_
    else:
        with progress("Cross-validating for the threshold", total=5) as step:
            found = held_out_predictions(model, bags, y, after_fold=step)
        truth, scores = y, found.scores
        if scores is None:
            scores = np.asarray(found.probabilities)[:, -1]
    return choose_threshold(truth, scores, **rates, groups=groups)


@dataclass(frozen=True, repr=False)
class Fitted:
    """A model that was fitted to a table, with its columns, groups and task.

    Attributes
    ----------
    model : estimator
        The fitted model.
    metadata : dict
        What a model file contains besides the model: the method, its parameters, the columns.
    target : Target
        What was learned.
    data : Contents
        The labelled bags of the fit.
    source : Path, data frame or AnnData
        The table.
    """

    model: Any
    metadata: dict[str, Any]
    target: reading.Target
    data: Contents
    source: Any

    def __repr__(self) -> str:
        bags, classes = self.data.bags, self.classes
        facts: dict[str, Any] = {"task": self.task}
        facts |= {"classes": classes} if classes else {}
        facts |= {"method": self.metadata["method"], "bags": len(bags)}
        facts |= {"instances": bags.n_instances, "features": bags.n_features}
        return f"Fitted({', '.join(f'{name}={value!r}' for name, value in facts.items())})"

    @property
    def task(self) -> str:
        """What is predicted for a bag: a "class", "set", "number", "grade" or "time"."""
        return self.target.kind

    @property
    def classes(self) -> list[Any]:
        """The labels as they are in the table; of two, the second one is positive."""
        return self.target.classes

    @property
    def leaderboard_columns(self) -> Mapping[str, Any] | None:
        """The leaderboard of the automatic choice as columns; None for other methods."""
        return getattr(final_estimator(self.model), "leaderboard_", None)

    def leaderboard(self) -> Any:
        """Return the score of each method in the cross-validation of ``method="auto"``.

        Returns
        -------
        data frame
            A row per method, best first: its score and standard error, its weight, its seconds.
        """
        found = self.leaderboard_columns
        if found is None:
            raise InputError(
                f"{self.metadata['method']} is one method and has no leaderboard: leave out "
                "method=, or compare methods with bagwise.evaluate.compare."
            )
        return self._frame({name: list(values) for name, values in found.items()}, self.source)

    def predict(self, table: Any, *, coverage: float | None = None) -> Any:
        """Predict the bags of a table.

        Parameters
        ----------
        table : data frame, path or AnnData
            With the columns of the fit; labels and groups are not needed, and not used.
        coverage : float, default=None
            Add a set of classes, or an interval, that contains the truth with this probability.

        Returns
        -------
        data frame
            A row per bag, in the order of first appearance: ``bag``, columns of `meta`,
            ``predicted``, and for each class ``score_<class>`` (positive if it is predicted, of
            several the largest) and, if the model has it, ``probability_<class>``; ``key_instance``
            and its ``key_score`` as in `key_instances`. With `coverage` ``set``, or ``lower`` and
            ``upper``.
        """
        from bagwise.cli.results import kept_of_bags

        found, data = self._predictions(table)
        separator = self.metadata["columns"].get("separator") or ";"
        columns = found.bag_table(separator=separator, coverage=coverage)
        return self._frame(kept_of_bags(_by_class(columns, found.names), data), table)

    def score_instances(self, table: Any = None) -> Any:
        """Score each row of a table, in the order of its rows.

        Parameters
        ----------
        table : data frame, path or AnnData, default=None
            The bags; by default those of the fit.

        Returns
        -------
        data frame
            A row per row of the table, of pandas with the same index: ``bag``, ``row`` (inside the
            bag), ``score_<class>``, ``probability_<class>`` and ``predicted`` if the model has
            them, and ``key``, true for the key instance of a bag. For a regressor ``score``, or
            ``contribution`` if it does not score instances.
        """
        found, data = self._predictions(table)
        source = self.source if table is None else table
        own = found.scores_instances or not found.is_regressor
        columns = found.instance_table() if own else found.contribution_tables()[1]
        columns = _by_class(columns, found.names)
        back = {name: data.bags.in_input_order(values) for name, values in columns.items()}
        frame = self._frame(back, source)
        index = getattr(getattr(source, "obs", source), "index", None)
        if hasattr(frame, "set_axis") and index is not None:
            frame.index = index
        return frame

    def key_instances(self, table: Any = None, label: Any = None) -> Any:
        """Find the key instance of each bag.

        Parameters
        ----------
        table : data frame, path or AnnData, default=None
            The bags; by default those of the fit.
        label : object, default=None
            The class to explain; by default the predicted one. Required for label sets.

        Returns
        -------
        data frame
            A row per bag: ``bag``, the ``predicted`` class or the ``label``, ``key_instance`` (its
            row inside the bag), ``key_score`` (for a regressor without scores of instances
            ``key_contribution``) and ``row``, the position of its row in the table (for ``iloc``).
        """
        found, data = self._predictions(table)
        if label is not None:
            if str(label) not in found.names:
                raise InputError(f"label={label!r}: expected one of {', '.join(found.names)}.")
            k = found.names.index(str(label))
            columns = found.key_instance_table(found.classes[k])
            columns["label"] = np.repeat(found.label_names[[k]], len(data.bags))
        elif found.has_keys or not found.is_regressor:
            columns = found.bag_table()
            if "key_instance" not in columns:
                found.key_instance_table()  # the error of a model without key instances
        else:
            columns = found.bag_table() | found.contribution_tables()[0]
        shown = ("bag", "predicted", "label", "key_instance", "key_score", "key_contribution")
        rows = data.bags.input_rows[data.bags.offsets[:-1] + columns["key_instance"]]
        chosen = {name: columns[name] for name in shown if name in columns}
        return self._frame(chosen | {"row": rows}, self.source if table is None else table)

    def report(
        self, path: Any, table: Any = None, *, folds: int | None = None, force: bool = False
    ) -> None:
        """Write the HTML report: data, metrics of held-out bags, every bag with its key instance.

        Parameters
        ----------
        path : path
            The page, .html.
        table : data frame, path or AnnData, default=None
            Other bags, with labels or without; by default those of the fit.
        folds : int, default=None
            The number of folds of the held-out metrics: 5 for the bags of the fit, 0 for others.
        force : bool, default=False
            Whether an existing file may be replaced.
        """
        from bagwise.cli.report import held_out_of
        from bagwise.report import Report

        data = self.data if table is None else self._read(table, labelled=True)
        facts = self.metadata
        y = reading.known_targets(self.model, data, facts)
        folds = (_FOLDS if table is None else 0) if folds is None else folds
        how = (self.model, data, y, folds, 0, facts["impute"])
        name = reading.title_of(self.source if table is None else table)
        page = Report(
            self.model,
            data.bags,
            y,
            title=f"{facts['method']} on {name}",
            held_out=held_out_of(*how) if folds else None,
            seen=reading.seen_in_training(data, facts),
            classes=facts["classes"],
            facts={"method": facts["method"]},
        )
        page.save(path, force=force)

    def save(self, path: Any, *, force: bool = False) -> None:
        """Save the model for ``bagwise predict`` and `bagwise.persistence.load_model`.

        Parameters
        ----------
        path : path
            The file, ``.skops``.
        force : bool, default=False
            Whether an existing file may be replaced.
        """
        named = self.metadata["method"]
        own = [named.replace(":", ".")] if ":" in named else []
        save_model(self.model, path, metadata=self.metadata, trusted=own, force=force)
        if own:
            note(f"The model contains a class of yours: load it with --trust {own[0]}")

    def _predictions(self, table: Any) -> tuple[Predictions, Contents]:
        data = self.data if table is None else self._read(table, labelled=False)
        return Predictions(self.model, data.bags, classes=self.metadata["classes"]), data

    def _read(self, table: Any, *, labelled: bool) -> Contents:
        source = _as_path(table)
        with running(quiet=True), _python_names():
            chosen = options_of(Columns)
            return reading.read_as_fitted(
                self.model, self.metadata, source, chosen, labelled=labelled
            )

    def _frame(self, columns: Mapping[str, Any], like: Any) -> Any:
        """A data frame of the library of the given one; of pandas for files and AnnData."""
        import narwhals.stable.v2 as nw

        frame = nw.from_native(like, eager_only=True, pass_through=True)
        known = isinstance(frame, nw.DataFrame)
        backend = (
            nw.get_native_namespace(frame) if known else import_extra("pandas", extra="frames")
        )
        lists = {name: np.asarray(values).tolist() for name, values in columns.items()}
        return nw.from_dict(lists, backend=backend).to_native()


@contextmanager
def _showing(model: Any, text: str) -> Any:
    """Show the progress of a fit: the steps of a model that has a progress bar of its own."""
    final = final_estimator(model)
    note(text)
    if is_quiet() or not (isinstance(final, BagEstimator) and getattr(final, "verbose", 1) == 0):
        with progress(text):
            yield
        return
    final.verbose = 1
    try:
        yield
    finally:
        final.verbose = 0


def options_of(group: type[Any], **given: Any) -> Any:
    """Make a group of options in Python: those that are not given are absent."""
    return group(**({field.name: None for field in fields(group)} | given))


def _by_class(columns: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The columns of a table with a score for each of two classes."""
    if "score" not in columns or len(names) != 2:
        return dict(columns)
    score = columns["score"]
    both = {f"score_{names[0]}": -score, f"score_{names[1]}": score}
    pairs = [both if name == "score" else {name: values} for name, values in columns.items()]
    return {name: values for pair in pairs for name, values in pair.items()}


def _as_path(table: Any) -> Any:
    return Path(table) if isinstance(table, str) else table


def _names(names: str | Iterable[str] | None) -> list[str] | None:
    """Names as the options have them."""
    return None if names is None else [names] if isinstance(names, str) else list(map(str, names))


@contextmanager
def _python_names() -> Any:
    """Name arguments of Python, not options, in errors."""
    try:
        yield
    except BagwiseError as error:
        words = re.sub(r"--task (\w+)", r"task='\1'", str(error))
        raise type(error)(re.sub(r"--([a-z-]+)", _as_argument, words)) from error


def _as_argument(option: re.Match[str]) -> str:
    name = option[1].replace("-", "_")
    return {"group": "groups", "keep": "meta"}.get(name, name) + "="

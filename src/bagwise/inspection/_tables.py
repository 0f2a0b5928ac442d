"""Predictions for bags and instances as tables: dicts of arrays of equal length.

Such a dict can be passed to ``pandas.DataFrame`` or ``polars.DataFrame``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.types import Array, Bools, Ints
from bagwise._validation import check_bags, check_label
from bagwise.bags import Bags
from bagwise.base._pipelines import final_estimator, instance_model, predicts_numbers
from bagwise.engines import row_blocks
from bagwise.exceptions import InputError

Columns = dict[str, Array]


def bag_table(
    model: Any, X: Any, *, classes: ArrayLike | None = None, separator: str = ";"
) -> Columns:
    """Collect the predictions of a fitted model for each bag.

    Parameters
    ----------
    model : estimator
        A fitted classifier of bags, or a pipeline that ends in one.
    X : Bags or anything accepted as bags
        The bags.
    classes : array-like of shape (n_classes,), default=None
        Names to show instead of the values of ``classes_``, in their order.
    separator : str, default=";"
        Separator of the labels of a set, for models of label sets.

    Returns
    -------
    dict of str to ndarray of shape (n_bags,)
        ``bag`` (its id, or its number); ``predicted``; if the model has them ``score`` (for
        ``classes_[1]``) or ``score_<class>``, ``probability_<class>``, and ``key_instance``, the
        row of the key instance inside its bag, with its ``key_score``. For a regressor
        ``predicted`` is the number, in units of the target. For label sets the column
        ``key_instances`` has ``label:row`` for each predicted label.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.inspection import bag_table
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> table = bag_table(model, bags)
    >>> table["predicted"].tolist(), table["key_instance"].tolist()
    (['no', 'no', 'yes', 'yes'], [1, 0, 1, 0])
    """
    bags = check_bags(None, X, reset=True, allow_nan=True)
    estimator, seen = instance_model(model, bags)
    has_keys = seen is not None and hasattr(estimator, "key_instances")
    if seen is None:
        estimator, seen = model, bags
    if predicts_numbers(estimator):
        numbers = {"bag": bags.names, "predicted": np.asarray(estimator.predict(seen))}
        return numbers | (_keys_of_numbers(estimator, seen) if has_keys else {})
    names = class_names(estimator, classes)
    predicted = estimator.predict(seen)
    is_set = predicted.ndim == 2
    answer = _joined(predicted, names, separator) if is_set else _named(predicted, estimator, names)
    table = {"bag": bags.names, "predicted": answer}
    if hasattr(estimator, "decision_function"):
        table |= _per_class("score", estimator.decision_function(seen), names)
    if hasattr(estimator, "predict_proba"):
        table |= _per_class("probability", estimator.predict_proba(seen), names)
    if has_keys and is_set:
        parts: list[list[str]] = [[] for _ in range(len(seen))]
        for k, holders, rows in keys_of_sets(estimator, seen, predicted):
            for i, row in zip(holders, rows, strict=True):
                parts[i].append(f"{names[k]}:{row}")
        table["key_instances"] = np.array([separator.join(part) for part in parts])
    elif has_keys:
        keys = key_instance_table(estimator, seen)
        table |= {name: keys[name] for name in ("key_instance", "key_score") if name in keys}
    return table


def _keys_of_numbers(estimator: Any, bags: Bags) -> Columns:
    """The key instance of each bag and its score, for a regressor."""
    keys = estimator.key_instances(bags)
    scores = estimator.score_instances(bags)[bags.offsets[:-1] + keys]
    return {"key_instance": keys, "key_score": scores}


def instance_table(
    model: Any,
    X: Any,
    *,
    classes: ArrayLike | None = None,
    background_above: float | None = None,
) -> Columns:
    """Collect the predictions of a fitted model for each instance.

    Parameters
    ----------
    model : estimator
        A fitted classifier with ``score_instances``, or a pipeline that ends in one.
    X : Bags or anything accepted as bags
        The bags.
    classes : array-like of shape (n_classes,), default=None
        Names to show instead of the values of ``classes_``, in their order.
    background_above : float, default=None
        For a model with background: an instance is background if its background probability exceeds
        this value. By default if background is more probable than every class.

    Returns
    -------
    dict of str to ndarray of shape (n_instances,)
        ``bag`` and ``row`` (inside the bag, 0-based); ``score`` (for ``classes_[1]``) or
        ``score_<class>``; ``probability_<class>`` if the model has it; ``predicted``, the class of
        the instance by its own score (``background`` for a background class without a name);
        ``key``, true for the key instance of a bag, or of any predicted label for label sets.

    Raises
    ------
    InputError
        When the model has no instance scores.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.inspection import instance_table
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> instance_table(model, bags)["key"].tolist()
    [False, True, True, False, True, True]
    """
    estimator, bags = scoring_model(model, X)
    table = {"bag": bags.names[bags.bag_index], "row": _rows(bags)}
    if predicts_numbers(estimator):
        return table | {"score": estimator.score_instances(bags), "key": _is_key(estimator, bags)}
    names = class_names(estimator, classes)
    table |= _per_class("score", estimator.score_instances(bags), names)
    shares = None
    if hasattr(estimator, "predict_proba_instances"):
        shares = estimator.predict_proba_instances(bags)
        table |= _per_class("probability", shares, with_background(estimator, names))
    if shares is not None and has_background(estimator):
        every, n_labels = with_background(estimator, names), len(names)
        table["predicted"] = every[_likeliest(shares, n_labels, background_above)]
    else:
        refuse_background_above(estimator, background_above)
        table["predicted"] = _named(estimator.predict_instances(bags), estimator, names)
    table["key"] = _is_key(estimator, bags)
    return table


def key_instance_table(model: Any, X: Any, *, label: Any = None) -> Columns:
    """Collect the key instance of each bag.

    Parameters
    ----------
    model : estimator
        A fitted classifier with ``key_instances``, or a pipeline that ends in one.
    X : Bags or anything accepted as bags
        The bags.
    label : object, default=None
        The class to explain; by default the class predicted for the bag. Required for label sets.

    Returns
    -------
    dict of str to ndarray of shape (n_bags,)
        ``bag``, ``n_instances``, ``predicted`` (with `label`: ``label``), ``key_instance`` (the
        row inside the bag, 0-based) and, if the model scores instances, its ``key_score``.

    Raises
    ------
    InputError
        When the model has no key instances.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.inspection import key_instance_table
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> key_instance_table(model, [[[0.1], [3.0], [0.2]]])["key_instance"].tolist()
    [1]
    """
    estimator, bags = instance_model(model, X)
    if bags is None or not hasattr(estimator, "key_instances"):
        raise InputError(f"{type(estimator).__name__} has no key instances.")
    if predicts_numbers(estimator):
        if label is not None:
            raise InputError(f"label={label!r} is for classifiers: a regressor has no labels.")
        numbers = {"bag": bags.names, "n_instances": bags.sizes}
        numbers |= {"predicted": estimator.predict(bags)}
        return numbers | _keys_of_numbers(estimator, bags)
    keys = estimator.key_instances(bags, label=label)
    table = {"bag": bags.names, "n_instances": bags.sizes}
    if label is None:
        table["predicted"] = estimator.predict(bags)
        asked = np.searchsorted(estimator.classes_, table["predicted"])
    else:
        column = check_label(label, estimator.classes_)
        table["label"] = np.repeat(estimator.classes_[[column]], len(bags))
        asked = np.full(len(bags), column)
    table["key_instance"] = keys
    if hasattr(estimator, "score_instances"):
        scores = estimator.score_instances(bags)[bags.offsets[:-1] + keys]
        table["key_score"] = scores if scores.ndim == 1 else scores[np.arange(len(bags)), asked]
    return table


def annotation_table(
    model: Any,
    bags: Bags,
    label_sets: Any,
    *,
    instance_labels: Sequence[Any] | None = None,
    background_above: float | None = None,
    probabilities: bool = False,
) -> Columns:
    """Collect the most probable label of each instance, given the label set of its bag.

    Parameters
    ----------
    model : estimator
        A fitted annotator with ``annotate_proba``, or a `BagPipeline` that ends in one.
    bags : Bags
        The bags.
    label_sets : list of set or None
        The labels of each bag.
    instance_labels : sequence, default=None
        Known labels of instances, None if unknown.
    background_above : float, default=None
        For a model with background: an instance is background if its background probability exceeds
        this value. By default if background is more probable than every label.
    probabilities : bool, default=False
        Whether to add a column ``probability_<label>`` for each label.

    Returns
    -------
    dict of str to ndarray of shape (n_instances,)
        ``bag``, ``row``, ``label``, its ``probability``, ``runner_up`` (the most probable of the
        others), ``runner_up_probability`` and, for a model with background,
        ``background_probability``.
    """
    estimator = final_estimator(model)
    refuse_background_above(estimator, background_above)
    posterior = model.annotate_proba(bags, label_sets, instance_labels=instance_labels)
    n_labels = len(model.classes_)
    names = with_background(estimator, model.classes_)
    rows = np.arange(len(posterior))
    first = _likeliest(posterior, n_labels, background_above)
    others = posterior.copy()
    others[rows, first] = -1.0
    second = others.argmax(axis=1) if len(names) > 1 else first
    table = {
        "bag": bags.names[bags.bag_index],
        "row": _rows(bags),
        "label": names[first],
        "probability": posterior[rows, first],
        "runner_up": names[second],
        "runner_up_probability": np.where(second == first, 0.0, posterior[rows, second]),
    }
    if len(names) > n_labels:
        table["background_probability"] = posterior[:, -1]
    if probabilities:
        table |= _per_class("probability", posterior, names)
    return table


def has_background(model: Any) -> bool:
    """Whether a model has a class for instances that belong to none of the labels."""
    return getattr(model, "background_label_", None) is not None


def background_name(model: Any) -> Any:
    """Name of the background in a table; None without background."""
    if not has_background(model):
        return None
    return with_background(model, model.classes_)[-1]


def label_columns(instances: Columns) -> Columns:
    """The label of each instance of an `instance_table` and its probability."""
    labels = instances["predicted"]
    names, codes = np.unique(labels, return_inverse=True)
    shares = np.stack([instances[f"probability_{name}"] for name in names.tolist()])
    return {"label": labels, "probability": shares[codes, np.arange(len(labels))]}


def refuse_background_above(model: Any, background_above: float | None) -> None:
    """Reject a background threshold if the model has no background."""
    if background_above is not None and not has_background(model):
        raise InputError(
            "background_above= is for a model with background: fit it with background=True."
        )


def _likeliest(proba: Array, n_labels: int, background_above: float | None) -> Ints:
    """The column of the label of each row; background, the last column, by its threshold."""
    if background_above is None or proba.shape[1] == n_labels:
        return proba.argmax(axis=1)
    labels = proba[:, :n_labels]
    unnamed = (proba[:, -1] > background_above) | ~labels.any(axis=1)
    return np.where(unnamed, n_labels, labels.argmax(axis=1))


def summarise(bags: Bags) -> dict[str, Any]:
    """Count bags, instances, features, empty bags, missing values; list constant features.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    dict
        Plain values, by name.
    """
    sizes, names = bags.sizes, bags.feature_names
    if bags.is_sparse:
        values = bags.instances
        missing = int(np.isnan(values.data).sum())
        spread = values.max(axis=0).toarray() - values.min(axis=0).toarray()
        constant = np.flatnonzero(spread.ravel() == 0)
    else:
        first = bags.rows(slice(0, 1))
        missing, equal, empty = 0, np.ones(bags.n_features, bool), np.ones(bags.n_features, bool)
        for _, block in row_blocks(bags):
            gaps = np.isnan(block) if block.dtype.kind == "f" else np.zeros(block.shape, bool)
            missing += int(gaps.sum())
            equal &= (block == first).all(axis=0)
            empty &= gaps.all(axis=0)
        constant = np.flatnonzero(equal | empty)
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
        "constant_features": [int(j) if names is None else names[j] for j in constant],
    }


def scoring_model(model: Any, X: Any) -> tuple[Any, Bags]:
    """The model that scores instances and its input, as from `instance_model`."""
    estimator, bags = instance_model(model, X)
    if bags is None or not hasattr(estimator, "score_instances"):
        raise InputError(f"{type(estimator).__name__} has no instance scores.")
    return estimator, bags


def _rows(bags: Bags) -> Ints:
    """The position of each instance inside its bag, 0-based."""
    return np.arange(bags.n_instances) - bags.offsets[:-1][bags.bag_index]


def _per_class(name: str, values: Array, classes: Array) -> Columns:
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{label}": values[:, k] for k, label in enumerate(classes)}


def class_names(model: Any, classes: ArrayLike | None) -> Array:
    """The given names of the classes of a model, or by default its own."""
    if classes is None:
        return model.classes_
    names = np.asarray(classes)
    if names.shape != model.classes_.shape:
        raise InputError(
            f"classes has shape {names.shape}, but the model has {len(model.classes_)} classes: "
            "give one name each."
        )
    return names


def _named(labels: Array, model: Any, names: Array) -> Array:
    known = [*model.classes_.tolist(), getattr(model, "background_label_", None)]
    column = {label: k for k, label in enumerate(known)}
    return with_background(model, names)[[column[label] for label in labels.tolist()]]


def with_background(model: Any, names: Array) -> Array:
    """The names of the classes, with the background last if the model has one."""
    label = getattr(model, "background_label_", None)
    if label is None:
        return names
    is_text = not np.issubdtype(names.dtype, np.number)
    return np.append(names, ["background" if is_text and not isinstance(label, str) else label])


def _joined(indicator: Array, names: Array, separator: str) -> Array:
    texts = [str(label) for label in names]
    return np.array([separator.join(texts[k] for k in np.flatnonzero(row)) for row in indicator])


def _is_key(estimator: Any, bags: Bags) -> Bools:
    predicted = estimator.predict(bags)
    first = bags.offsets[:-1]
    key = np.zeros(bags.n_instances, dtype=bool)
    if predicted.ndim == 1:
        key[first + estimator.key_instances(bags)] = True
    else:
        for _, holders, rows in keys_of_sets(estimator, bags, predicted):
            key[first[holders] + rows] = True
    return key


def keys_of_sets(
    estimator: Any, bags: Bags, predicted: Array
) -> Iterator[tuple[Any, Array, Array]]:
    """For each label: its column, the bags predicted to have it, their key instances."""
    for k in np.flatnonzero(predicted.any(axis=0)):
        holders = np.flatnonzero(predicted[:, k])
        yield k, holders, estimator.key_instances(bags[holders], label=estimator.classes_[k])

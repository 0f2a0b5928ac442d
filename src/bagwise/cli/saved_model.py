"""A model file as commands use it: the model, and what `bagwise fit` kept beside it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bagwise.exceptions import ModelFileError
from bagwise.persistence import load_model


def open_model(path: Path) -> tuple[Any, dict[str, Any]]:
    """Load a fitted model and its metadata.

    Parameters
    ----------
    path : Path
        A file that `bagwise fit` or `save_model` wrote.

    Returns
    -------
    model : estimator
        The fitted model.
    metadata : dict
        What `bagwise fit` kept: ``method``, ``parameters``, ``classes``, ``columns``, ``training``,
        ``corrections``, each of the expected type; any of them may be missing.

    Raises
    ------
    ModelFileError
        When the file is damaged, the model is not fitted, or what is kept beside it is of other
        types than `bagwise fit` writes.
    """
    model, metadata = load_model(path)
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} holds a model that is not fitted: fit it first.") from error
    for name, (is_right, expected) in _EXPECTED.items():
        if name in metadata and not is_right(metadata[name]):
            raise ModelFileError(
                f"{path} is damaged: {name!r}, kept beside the model, is not {expected}."
            )
    classes = metadata.get("classes")
    if classes is not None and list(getattr(model, "classes_", ())) != [0, 1]:
        raise ModelFileError(f"{path} is damaged: 'classes' names two labels the model lacks.")
    return model, metadata


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_pair_of_labels(value: Any) -> bool:
    """Two labels: with --positive the model knows them as 0 and 1."""
    labels = value if isinstance(value, list) else []
    plain = all(isinstance(label, str | int | float) for label in labels)
    return plain and len(labels) == 2 and labels[0] != labels[1]


def _is_columns(value: Any) -> bool:
    return isinstance(value, dict) and all(
        is_right(value[role]) for role, is_right in _COLUMNS.items() if role in value
    )


def _or_none(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_right(value)


_COLUMNS: Mapping[str, Callable[[Any], bool]] = {
    "bag": _or_none(_is_text),
    "label": _or_none(_is_text),
    "label_set": _or_none(_is_text),
    "features": _or_none(_is_list_of_texts),
    "exclude": _or_none(_is_list_of_texts),
    "separator": lambda value: _is_text(value) and value != "",
}

_EXPECTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "method": (_or_none(_is_text), "a text"),
    "parameters": (_or_none(lambda value: isinstance(value, dict)), "a dict"),
    "classes": (_or_none(_is_pair_of_labels), "a list of two labels"),
    "columns": (_is_columns, "a dict of columns"),
    "training": (_or_none(_is_list_of_texts), "a list of texts"),
    "corrections": (lambda value: isinstance(value, int), "a whole number"),
}

"""Build functions, data sets and models from the entries of a TOML file."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from bagwise.bags import Bags
from bagwise.exceptions import InputError

__all__ = ["build_model", "find_target", "load_data", "training_sizes", "with_seed"]


def find_target(target: str) -> Any:
    """Import the object named by ``"module:name"``.

    Parameters
    ----------
    target : str
        The dotted name of a module, a colon, and a name in it.

    Returns
    -------
    object

    Raises
    ------
    InputError
        When the module or the name does not exist.
    """
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (AttributeError, ModuleNotFoundError, ValueError) as error:
        raise InputError(f"there is no {name or target!r} in {module!r}.") from error


def load_data(source: str, options: Mapping[str, Any], seed: int) -> Bunch:
    """Load or simulate a data set; the last few are cached.

    Parameters
    ----------
    source : str
        ``"module:name"`` of the function.
    options : mapping
        Its keyword arguments.
    seed : int
        Its ``random_state``, if it has that parameter.

    Returns
    -------
    Bunch
    """
    function = find_target(source)
    seeded = "random_state" in inspect.signature(function).parameters
    return _load(source, json.dumps(options, sort_keys=True), seed if seeded else None)


@lru_cache(maxsize=6)
def _load(source: str, options: str, seed: int | None) -> Bunch:
    arguments = json.loads(options)
    if seed is not None:
        arguments["random_state"] = seed
    return find_target(source)(**arguments)


def build_model(value: Any, sizes: Mapping[str, int]) -> Any:
    """Build the estimator that a table of a TOML file describes.

    Parameters
    ----------
    value : object
        A table with ``class``; inside it, also tables with ``value`` and ``per``, or ``none``.
    sizes : mapping
        Counts that numbers may be divided by: see `training_sizes`.

    Returns
    -------
    object

    Examples
    --------
    >>> from reproduction._building import build_model
    >>> spec = {"class": "sklearn.svm:LinearSVC", "C": {"value": 30.0, "per": "bags"}}
    >>> build_model(spec, {"bags": 10, "instances": 100})
    LinearSVC(C=3.0)
    """
    if not isinstance(value, Mapping):
        return value
    if value == {"none": True}:  # TOML has no null
        return None
    if set(value) == {"value", "per"}:
        return value["value"] / sizes[value["per"]]
    parts = {key: build_model(part, sizes) for key, part in value.items() if key != "class"}
    if "class" in value:
        return find_target(value["class"])(**parts)
    # A plain table, such as class_weight: TOML writes labels that are numbers as text.
    return {int(key) if key.isdigit() else key: part for key, part in parts.items()}


def training_sizes(bags: Bags, y: NDArray[Any]) -> dict[str, int]:
    """Count the bags and instances that a cost may be divided by; the last class is positive.

    Parameters
    ----------
    bags : Bags
        The training bags.
    y : ndarray of shape (n_bags,)
        Their labels.

    Returns
    -------
    dict
        "bags", "instances", "positive bags" and "negative instances".
    """
    positive = y.any(axis=1) if y.ndim == 2 else y == y.max()  # 2-D: label sets
    return {
        "bags": len(bags),
        "instances": bags.n_instances,
        "positive bags": int(positive.sum()),
        "negative instances": int(bags.sizes[~positive].sum()),
    }


def with_seed(model: BaseEstimator, seed: int) -> BaseEstimator:
    """Set every ``random_state`` of a model and of its nested models.

    Parameters
    ----------
    model : estimator
        The model, changed in place.
    seed : int
        The seed.

    Returns
    -------
    estimator
    """
    names = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
    return model.set_params(**dict.fromkeys(names, seed))

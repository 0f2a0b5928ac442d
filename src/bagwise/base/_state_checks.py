"""Compare what a fitted model holds with what its estimator declares."""

from collections.abc import Mapping
from typing import Any

from bagwise.base._fitted_state import FittedState, MismatchError, Sizes


def fitted_state_problem(model: Any) -> str | None:
    """Compare a model of bagwise with what it declares.

    Parameters
    ----------
    model : estimator
        An estimator with ``_fitted_state``, fitted or not.

    Returns
    -------
    str or None
        What is wrong; None where nothing is, and for a model that is not fitted.
    """
    if not has_fitted_attributes(model):
        return None
    try:
        declared = model._fitted_state()
    # A declaration reads parameters and other attributes, which may be anything in a file.
    except Exception as error:
        return f"its parameters do not fit what it holds ({error})"
    return compare_state(vars(model), declared)


def has_fitted_attributes(model: Any) -> bool:
    """Whether a model holds any attribute that a fit leaves.

    Parameters
    ----------
    model : estimator
        An estimator of bagwise or scikit-learn.

    Returns
    -------
    bool
    """
    return any(name.endswith("_") and not name.startswith("__") for name in vars(model))


def compare_state(held: Mapping[str, Any], declared: FittedState) -> str | None:
    """Compare attributes with their declaration.

    Parameters
    ----------
    held : mapping
        Attributes by name; those that are not declared are passed over.
    declared : dict from str to Kind
        The declaration.

    Returns
    -------
    str or None
        What is wrong, None where nothing is.
    """
    try:
        sizes = _sizes_of(held, declared)
        for name, kind in declared.items():
            if name in held:
                kind.check(held[name], sizes, name)
            elif not kind.optional:
                raise MismatchError(f"{name} is missing")
    except MismatchError as error:
        return str(error)
    return None


def _sizes_of(held: Mapping[str, Any], declared: FittedState) -> Sizes:
    known = {"n_machines": 1}
    if "n_features_in_" in declared:
        n_features = held.get("n_features_in_")
        declared["n_features_in_"].check(n_features, Sizes(), "n_features_in_")
        known["n_features_in_"] = int(n_features)  # type: ignore[arg-type]
    classes = held.get("classes_")
    if "classes_" in declared and classes is not None:
        declared["classes_"].check(classes, Sizes(), "classes_")
        known["n_classes"] = n_classes = len(classes)
        known["n_machines"] = 1 if n_classes == 2 else n_classes
    return Sizes(known)

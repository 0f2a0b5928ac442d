"""Access to the model inside a pipeline or search, and to the input of that model."""

from typing import Any

from sklearn import get_config
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from bagwise.bags import Bags
from bagwise.base._estimator import BagEstimator
from bagwise.exceptions import warn_user
from bagwise.validation import check_bags


def instance_model(model: Any, X: Any) -> tuple[Any, Bags | None]:
    """Return the last step of a pipeline, and the bags that this step receives.

    A scikit-learn pipeline predicts bags only; its last step has the methods for instances. In a
    search over parameters, the best estimator is used.

    Parameters
    ----------
    model : estimator
        Any fitted estimator.
    X : Bags or anything accepted as bags
        The bags.

    Returns
    -------
    estimator : estimator
        The last step of the pipeline or the best model of the search; else `model` itself.
    bags : Bags or None
        The bags after the preceding steps; None if these turn a bag into a row, as an embedding
        does, so that instances have no predictions.
    """
    estimator, seen = last_step(model, check_bags(None, X, reset=True, allow_nan=True))
    return estimator, seen if isinstance(seen, Bags) else None


def last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, or of the best one of a search, and its input."""
    while isinstance(model, Pipeline) or is_search(model):
        if isinstance(model, Pipeline) and len(model) > 1:
            X = model[:-1].transform(X)
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model, X


def final_estimator(model: Any) -> Any:
    """Return the last step of a pipeline or the best model of a search; else the model itself."""
    while isinstance(model, Pipeline) or is_search(model):
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model


def held_out_note(model: Any) -> tuple[str, bool] | None:
    """Describe what the fit of a model found on held-out bags, and whether it learned nothing.

    Returns
    -------
    tuple of (str, bool) or None
        None if the model held out no bags.
    """
    last = final_estimator(model)
    loss, chance = getattr(last, "held_out_loss_", None), getattr(last, "chance_loss_", None)
    if loss is None or chance is None:
        return None
    text = f"Loss of held-out bags in the fit: {loss:.3f}; of one prediction for all: {chance:.3f}."
    if not (nothing := learned_nothing(loss, chance)):
        return text, nothing
    end = "Predictions, key instances and maps mean nothing."
    return f"The model learned nothing. {text} {end}", nothing


def learned_nothing(loss: float, chance: float) -> bool:
    """Whether a held-out loss is practically that of one prediction for all bags."""
    return loss > 0.99 * chance


def warn_of_nothing(model: Any, loss: float, chance: float) -> None:
    """Warn if the loss of held-out bags, or else of training bags, is that of a constant."""
    if learned_nothing(loss, chance):
        warn_user(
            f"{type(model).__name__} learned nothing: a loss of {loss:.3f}, and {chance:.3f} for "
            "the same prediction for all bags. Its scores of instances mean nothing either: "
            "give more bags, or fewer features (--pca auto, InstancePCA).",
            ConvergenceWarning,
        )


def kept_assumption(model: Any) -> str:
    """Return the assumption that a model declares, see `BagClassifierMixin.keeps`.

    A scikit-learn classifier after an embedding keeps "collective".
    """
    return str(getattr(final_estimator(model), "keeps", "collective"))


def fit_arguments(model: Any, **given: Any) -> dict[str, Any]:
    """Select the arguments that ``fit`` of the last step of a pipeline accepts.

    Parameters
    ----------
    model : estimator
        A model, or a pipeline that ends in one.
    **given : object
        Values by name; None is ignored.

    Returns
    -------
    dict
        Arguments with the names that ``fit`` of `model` expects. With metadata routing, those that
        were requested.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if get_config()["enable_metadata_routing"]:
        taken = get_routing_for_object(model).consumes("fit", given)
        return {name: given[name] for name in given if name in taken}
    prefix = ""
    while isinstance(model, Pipeline):
        name, model = model.steps[-1]
        prefix += f"{name}__"
    return {f"{prefix}{n}": value for n, value in given.items() if has_fit_parameter(model, n)}


def groups_for(model: Any, bags: Bags) -> dict[str, Any]:
    """Select the groups of bags as an argument of ``fit``, for an estimator that asks for it.

    Those of bagwise take the groups from the bags.
    """
    return {} if bags.groups is None else fit_arguments(model, groups=bags.groups)


def predicts_numbers(model: Any) -> bool:
    """Whether a model is a regressor, alone or in a pipeline; a risk is a number, too."""
    is_model = hasattr(model, "__sklearn_tags__")
    return is_model and (bool(is_regressor(model)) or predicts_risk(model))


def predicts_risk(model: Any) -> bool:
    """Whether a model predicts the time to an event, as those of scikit-survival do."""
    while isinstance(model, Pipeline) or hasattr(model, "estimator"):  # also a search, not fitted
        model = model[-1] if isinstance(model, Pipeline) else model.estimator
    return hasattr(model, "predict_survival_function")


def survival_functions(model: Any, X: Any) -> Any:
    """The survival functions of bags; a pipeline of scikit-learn lacks the method."""
    last, seen = last_step(model, X)
    return last.predict_survival_function(seen)


def grade_order(model: Any, classes: Any) -> list[Any] | None:
    """Return the classes that a model takes as grades, lowest first; None if they have no order."""
    last = final_estimator(model)
    if hasattr(last, "ordered_classes"):
        order = last.ordered_classes
        return list(classes if order is None or isinstance(order, str) else order)
    return list(classes) if getattr(last, "loss", None) == "ordinal" else None


def is_search(model: Any) -> bool:
    """Whether a model is a parameter search; ensembles also have ``best_estimator_``."""
    return hasattr(model, "best_estimator_") and not isinstance(model, BagEstimator)


def label_kind(model: Any) -> str:
    """Return the kind of the labels that a model was fitted on, as in `Labels.kind`."""
    last = final_estimator(model)
    if hasattr(last, "label_kind_"):
        return str(last.label_kind_)
    # scikit-learn's estimators: classifiers after an embedding, clusterers
    several = getattr(last, "multilabel_", False) or isinstance(getattr(last, "classes_", 0), list)
    predicts = hasattr(last, "predict") or hasattr(last, "predict_proba")
    return "sets" if several or not predicts else "single"

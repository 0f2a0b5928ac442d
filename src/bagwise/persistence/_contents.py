"""Check the contents of a loaded model against declarations, and remove paths to files."""

import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import joblib
import numpy as np
import sklearn
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.fixes import parse_version

from bagwise.bags import Bags
from bagwise.base._fitted_state import (
    Classes,
    FittedState,
    Floats,
    Integers,
    Kind,
    MismatchError,
    Number,
    OrNone,
    Sizes,
    Table,
    Whole,
    check_sparse,
    fitted_state_problem,
)

# Parameters that name a file or a folder, by the last part of their name: scikit-learn's caches
# (joblib unpickles their files) and checkpoints of bagwise.
PATHS = ("memory", "checkpoint")
GRIDS = ("param_grid", "param_distributions")  # of searches, which set parameters by name


def forget_paths(model: Any) -> None:
    """Set every parameter that names a file or a folder to None, also inside the model.

    Parameters
    ----------
    model : estimator
        A loaded model, which is modified.
    """
    for thing in _parts(model):
        if not isinstance(thing, BaseEstimator):
            continue
        for name in thing._get_param_names():
            value = vars(thing).get(name)
            if name in PATHS or isinstance(value, os.PathLike | joblib.Memory):
                setattr(thing, name, None)
            if name in GRIDS:
                for grid in value if isinstance(value, list) else [value]:
                    for key in list(grid) if isinstance(grid, dict) else ():
                        if isinstance(key, str) and key.rpartition("__")[2] in PATHS:
                            del grid[key]


def estimators_in(model: Any) -> list[BaseEstimator]:
    """The model and all estimators inside it.

    Parameters
    ----------
    model : estimator
        A model.

    Returns
    -------
    list of estimators
    """
    return [thing for thing in _parts(model) if isinstance(thing, BaseEstimator)]


def model_problem(model: Any) -> str | None:
    """Compare the contents of a model with the declarations of its estimators.

    Parameters
    ----------
    model : estimator
        A loaded model.

    Returns
    -------
    str or None
        The first problem; None if there is none.
    """
    for thing in _parts(model):
        problem = _problem(thing)
        if problem is not None:
            place = "" if thing is model else f"{type(thing).__name__}: "
            return place + problem
    return None


def _problem(thing: Any) -> str | None:
    try:
        if sparse.issparse(thing):
            check_sparse(thing, "a sparse array")
        elif isinstance(thing, np.random.RandomState):
            _check_position(thing.get_state(legacy=False))
        elif isinstance(thing, np.random.Generator):
            _check_position(thing.bit_generator.state)
    except MismatchError as error:
        return str(error)
    return _estimator_problem(thing) if isinstance(thing, BaseEstimator) else None


def _estimator_problem(model: BaseEstimator) -> str | None:
    for name in vars(model):
        inherited = inspect.getattr_static(type(model), name, None)
        if hasattr(inherited, "__get__") and not inspect.isclass(inherited):
            return f"{name} replaces a method"
    try:
        with config_context(skip_parameter_validation=False):
            if hasattr(model, "_parameter_constraints"):
                model._validate_params()
    except (ValueError, TypeError, AttributeError) as error:
        return str(error)
    if hasattr(model, "_fitted_state"):
        return fitted_state_problem(model)
    names = [cls.__name__ for cls in type(model).__mro__ if cls.__module__.startswith("sklearn.")]
    known = [SCIKIT_LEARN[name] for name in names if name in SCIKIT_LEARN]
    if not known:
        return None
    return fitted_state_problem(
        model, lambda held: {"n_features_in_": Whole(low=1)} | known[0](held)
    )


def _linear(model: Any) -> FittedState:
    intercept: Kind = Floats("n_machines")
    if np.ndim(model.intercept_) == 0:  # without fit_intercept
        intercept = Number()
    return {
        "classes_": Classes(at_least=2),
        "coef_": Table("n_machines", "n_features_in_"),
        "intercept_": intercept,
    }


def _libsvm(model: Any) -> FittedState:
    """Fitted state of an SVM; LIBSVM indexes all of these arrays without bounds checks."""
    state: FittedState = {}
    n_classes, n_pairs = 2, 1
    if is_classifier(model):
        n_classes = len(getattr(model, "classes_", (0, 1)))
        n_pairs = n_classes * (n_classes - 1) // 2
        state["classes_"] = Classes(at_least=2)
    of_proba = n_pairs if len(model._probA) else 0
    _check_libsvm_layout(model, n_classes - 1)
    features = None if model.kernel == "precomputed" else "n_features_in_"
    return state | {
        "_n_support": Integers(n_classes, low=0),
        "support_": Integers("n_support", low=0, below=int(model.shape_fit_[0])),
        "support_vectors_": Table(None if features is None else "n_support", features),
        "dual_coef_": Table(n_classes - 1, "n_support"),
        "_dual_coef_": Table(n_classes - 1, "n_support"),
        "intercept_": Floats(n_pairs),
        "_intercept_": Floats(n_pairs),
        "_probA": Floats(of_proba),
        "_probB": Floats(of_proba),
        "_gamma": Number(low=0),
        "class_weight_": Floats(None, optional=True),
        "nu": Number(),
        "epsilon": Number(),
    }


def _check_libsvm_layout(model: Any, n_rows: int) -> None:
    """Raise TypeError unless the arrays have the memory layout of scikit-learn."""
    n_support = len(model.support_)
    floats = ["support_vectors_", "dual_coef_", "_dual_coef_", "intercept_", "_intercept_"]
    arrays = {name: getattr(model, name) for name in [*floats, "_probA", "_probB"]}
    arrays["class_weight_"] = getattr(model, "class_weight_", np.empty(0))
    for name, array in arrays.items():
        if array.dtype != np.float64:
            raise TypeError(f"{name} is not in double precision")
        if not sparse.issparse(array) and not array.flags.c_contiguous:
            raise TypeError(f"{name} is not stored row by row")
    for name in ("support_", "_n_support"):
        if getattr(model, name).dtype != np.int32:
            raise TypeError(f"{name} is of another type than int32")
    probable = bool(len(model._probA))
    if parse_version(sklearn.__version__) >= parse_version("1.9"):
        probable = model._effective_probability
    if not isinstance(model._sparse, bool) or probable is not bool(len(model._probA)):
        raise TypeError("_sparse or _effective_probability is of another type or value")
    for name in floats[:3]:
        if sparse.issparse(arrays[name]) != model._sparse:
            raise TypeError(f"{name} is sparse but the model is dense, or the reverse")
    vectors = arrays["support_vectors_"]
    if model._sparse and not vectors.indices.dtype == vectors.indptr.dtype == np.int32:
        raise TypeError("the support vectors have other indices than int32")
    if model._sparse and any(arrays[name].nnz != n_rows * n_support for name in floats[1:3]):
        raise TypeError("the dual coefficients are not complete")
    if int(model._n_support.sum()) != n_support:
        raise TypeError("the support vectors of the classes do not add up")


def _nystroem(model: Any) -> FittedState:
    return {
        "components_": Table("n_landmarks", "n_features_in_"),
        "normalization_": Floats("n_landmarks", "n_landmarks"),
        "component_indices_": Integers("n_landmarks", low=0),
    }


def _per_feature(**names: str | None) -> Callable[[Any], FittedState]:
    """Statistics of scalers, one per feature; None is valid if the named parameter is False."""
    statistic = Floats("n_features_in_")
    return lambda model: {
        name: statistic if needs is None or getattr(model, needs) else OrNone(statistic)
        for name, needs in names.items()
    }


def _imputer(model: Any) -> FittedState:
    # NaN marks a feature without values; most other statistics are not numbers.
    numbers = model.strategy in ("mean", "median")
    return {"statistics_": Floats("n_features_in_", any_value=True)} if numbers else {}


SCIKIT_LEARN: dict[str, Callable[[Any], FittedState]] = {
    "BaseLibSVM": _libsvm,
    "LinearSVC": _linear,
    "LogisticRegression": _linear,
    "SGDClassifier": _linear,
    "Nystroem": _nystroem,
    "SimpleImputer": _imputer,
    "StandardScaler": _per_feature(mean_="with_mean", scale_="with_std", var_="with_std"),
    "MaxAbsScaler": _per_feature(scale_=None, max_abs_=None),
    "MinMaxScaler": _per_feature(
        scale_=None, min_=None, data_min_=None, data_max_=None, data_range_=None
    ),
    "RobustScaler": _per_feature(center_="with_centering", scale_="with_scaling"),
}


def _check_position(state: Any) -> None:
    """Check the position in a state of MT19937, which NumPy uses as an index without checks."""
    if state["bit_generator"] == "MT19937":
        Whole(below=625).check(state["state"]["pos"], Sizes(), "the position of a random state")


def _parts(model: Any) -> Iterator[Any]:
    """The model and all objects inside it, each once."""
    stack, seen = [model], {}
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, str | bytes | int | float | complex | None):
            continue
        seen[id(thing)] = thing  # a reference, so that no other object gets its id
        yield thing
        if isinstance(thing, dict):
            stack += thing.values()
        elif isinstance(thing, list | tuple | set | frozenset):
            stack += thing
        elif isinstance(thing, np.ndarray):
            stack += thing.ravel().tolist() if thing.dtype.hasobject else ()
        elif isinstance(thing, Bags):
            stack.append(thing.instances)
        elif hasattr(thing, "__dict__") and not inspect.isclass(thing) and not callable(thing):
            stack += vars(thing).values()

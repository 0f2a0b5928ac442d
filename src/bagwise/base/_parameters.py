"""Constraints and descriptions of the parameters that several estimators share.

An estimator repeats neither the constraint of such a parameter in `_parameter_constraints` nor its
description: a line ``{kernel}`` in the docstring is replaced by the entry of `kernel`, with the
default of the estimator.
"""

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeVar, dataclass_transform

from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from bagwise._common.sklearn import Interval, StrOptions

Estimator = TypeVar("Estimator")

COUNT = Interval(Integral, 1, None, closed="left")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")

# The name of a kernel, a function, or "precomputed" if X holds kernel values.
PRECOMPUTED_TOO = [StrOptions({*PAIRWISE_KERNEL_FUNCTIONS, "precomputed"}), callable]

CONSTRAINTS: dict[str, list[Any]] = {
    "C": [POSITIVE],
    "C1": [POSITIVE],
    "C2": [POSITIVE],
    "center": ["boolean"],
    "checkpoint": [str, PathLike, None],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "coef0": [Real],
    "degree": [NOT_NEGATIVE],
    "fit_intercept": ["boolean"],
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE],
    "kernel": [StrOptions(set(PAIRWISE_KERNEL_FUNCTIONS)), callable],
    "max_iter": [COUNT],
    "metric": [str, callable],
    "n_clusters": [COUNT],
    "n_components": [None, COUNT],
    "n_init": [COUNT],
    "n_landmarks": [StrOptions({"auto"}), COUNT, None],
    "n_neighbors": [COUNT],
    "n_prototypes": [None, COUNT],
    "pos_label": [Integral, Real, str, tuple, "boolean", None],
    "random_state": ["random_state"],
    "reg": [NOT_NEGATIVE],
    "threshold": [StrOptions({"auto", "zero", "training", "out_of_fold"})],
    "tol": [POSITIVE],
    "verbose": ["verbose"],
}

# Entries of docstrings. The default is read from the constructor; "key = name" is an entry of
# `name` for which there are several.
DESCRIPTIONS: dict[str, tuple[str, str, str]] = {}  # key -> name, type, indented text
HEAD = re.compile(r"^(\w+)(?: = (\w+))? : (.*)\n((?:    .*\n)+)", flags=re.MULTILINE)


def add_descriptions(text: str) -> None:
    """Add entries in the format of a numpydoc section."""
    for key, name, kind, lines in HEAD.findall(text):
        DESCRIPTIONS[key] = name or key, kind, lines.rstrip("\n")


add_descriptions("""\
X : Bags or anything accepted as bags
    The bags.
annotator_components = n_components : int
    Number of Nystroem features: the number of landmarks, instances drawn at random. Not
    used by the linear kernel.
annotator_gamma = gamma : {"half_scale", "scale", "auto"} or float
    Kernel width; "half_scale" is ``0.5 / (n_features * variance)``, "scale" twice that, and
    "auto" ``1 / n_features``.
annotator_kernel = kernel : {"linear", "rbf"} or callable
    The kernel, or a function of two vectors. All but "linear" are approximated by Nystroem
    features, which are computed where the instances are stored.
annotator_reg = reg : float or "auto"
    Regularisation strength lambda, relative to the sum over bags. The intercept is not
    penalised. With 0 there may be no maximum. "auto" is 1 for the linear kernel. For other
    kernels, whose feature vectors have norms below 1, it is 0.01 in ORedLogisticRegression
    and 0.02 in NoisyOrLogisticRegression.
ax_ : matplotlib Axes
    The axes with the plot.
checkpoint : path
    A file to which the state of the fit is saved from time to time. If it exists, the fit
    resumes from it and ends with the same result. Removed when the fit is complete.
classes_ : ndarray of shape (n_classes,)
    The labels.
coef0 : float
    Constant of the polynomial kernel.
degree : float
    Degree of the polynomial kernel.
figure_ : matplotlib Figure
    The figure with the axes.
gamma : {"scale", "auto"} or float
    Kernel width; "scale" is ``1 / (n_features * variance)``, "auto" ``1 / n_features``.
gamma_ : float
    The kernel width used (nonlinear kernels).
kernel : str or callable
    The kernel: "linear", or another of scikit-learn's names ("rbf", "poly", "laplacian",
    ...), or a function of two vectors.
label_kind_ : {"single", "sets"}
    Whether the model was fitted on one label per bag, or on label sets.
machine_dual_coef_ = dual_coef_ : ndarray of shape (n_machines, n_support)
    The weights of the support vectors.
machine_intercept_ = intercept_ : ndarray of shape (n_machines,)
    The intercepts.
n_features_in_ : int
    Number of features of an instance, or of a row.
n_landmarks : int, "auto" or None
    Number of Nystroem features that approximate the kernel; None for the exact kernel.
    "auto" is None up to 3,000 instances, 300 up to 100,000, then fewer, but at least 100.
    Margins are then met to 1e-6 at best. Not used by the linear kernel.
nystroem_ : Nystroem
    The approximation of the kernel, if one is used.
nystroem_coef_ = coef_ : ndarray of shape (n_machines, n_features)
    The weights of the features (linear kernel), or of the Nystroem features; one row for
    two classes, else one per class.
pos_label : label
    The positive one of two classes: a single instance of its concept makes a bag positive.
    By default the larger number, or the text that stands for presence ("active", "yes",
    "tumor"); for other texts the last in sorted order, with a warning.
    ``decision_function`` is positive for ``classes_[1]`` in any case.
pos_label_ : label
    The positive one of two classes; None unless there are two.
rows = X : array-like or CSR of shape (n_rows, n_features)
    The rows.
support_ : ndarray of shape (n_support,)
    Positions of the training instances with non-zero weight (nonlinear kernels).
support_vectors_ : ndarray or CSR of shape (n_support, n_features)
    The training instances with non-zero weight.
svm_class_weight = class_weight : dict, "balanced" or None
    Weights of the classes of bags: they multiply C for a bag and its instances.
svm_random_state = random_state : int, RandomState or None
    For the folds of the threshold (and the Nystroem approximation).
threshold : {"auto", "zero", "training", "out_of_fold"}
    How the decision threshold is set, by a shift of the intercept. "zero" keeps the
    intercept of the solution. "training" maximises the accuracy on the training bags,
    weighted by `class_weight`; "out_of_fold" does so for scores from 5-fold
    cross-validation or, with fewer than 10 bags of a class, on the training bags.
    "auto" is "out_of_fold" for two classes and a nonlinear kernel, else "zero".
verbose : int
    Whether to show a progress bar.
y : array-like of shape (n_bags,)
    The class of each bag. Where the model learns label sets, also a 0/1 array of shape
    (n_bags, n_classes) or a list of sets; bags of unknown label set are left out.
""")
# Sequences of descriptions that several estimators share.
GROUPS: dict[str, list[str]] = {
    "kernel_and_parameters": ["kernel", "gamma", "degree", "coef0"],
    "plot_": ["ax_", "figure_"],
    "svm_of_instances_": [
        "nystroem_coef_",
        "support_",
        "support_vectors_",
        "machine_dual_coef_",
        "nystroem_",
        "gamma_",
        "machine_intercept_",
    ],
}
ENTRY = re.compile(r"^( *)\{(\w+)\}$", flags=re.MULTILINE)


@dataclass_transform(eq_default=False)
def with_parameters(cls: type[Estimator]) -> type[Estimator]:
    """Decorate an estimator: its annotated attributes are the parameters of the constructor.

    Shared parameters receive their constraints and descriptions.

    Parameters
    ----------
    cls : type
        The class of the estimator; each annotated attribute is a parameter, except those that end
        with an underscore. Those
        of a decorated base class come first.

    Returns
    -------
    type
        The same class, with a constructor that only stores the parameters.
    """
    annotated = inspect.get_annotations(cls)
    inherited: tuple[dict[str, Any], ...] = getattr(cls, "_declared", ({}, {}))
    # Annotations of fitted attributes have no default; a required parameter has none either.
    own = {
        name: kind
        for name, kind in annotated.items()
        if name == "_" or (name[0] != "_" and (name in vars(cls) or name[-1] != "_"))
    }
    annotations = inherited[0] | own
    defaults = inherited[1] | {name: vars(cls)[name] for name in own if name in vars(cls)}
    for name, default in defaults.items():
        setattr(cls, name, default)
    cls.__annotations__ = annotations
    dataclass(eq=False, repr=False, match_args=False)(cls)
    cls.__annotations__ = annotated
    cls._declared = annotations, defaults  # type: ignore[attr-defined]
    names = sorted(field.name for field in fields(cls))  # type: ignore[arg-type]
    # Only the constructor is kept. Parameters are attributes of the instance, not of the class, and
    # Dask identifies a dataclass by its fields alone: two fits would count as the same model.
    for name in (*names, "__dataclass_fields__", "__dataclass_params__", "__replace__"):
        if name in vars(cls):
            delattr(cls, name)
    known: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        known |= vars(base).get("_parameter_constraints", {})
    cls._parameter_constraints = {name: known[name] for name in names if name in known}  # type: ignore[attr-defined]
    describe(cls, cls)
    for base in cls.__mro__:
        for method in vars(base).values():
            if inspect.isfunction(method):
                describe(method, cls)
    return cls


def describe(target: Any, cls: Callable[..., Any]) -> None:
    """Replace the lines ``{name}`` of a docstring; under ``python -OO`` there is none.

    Parameters
    ----------
    target : class or function
        The owner of the docstring.
    cls : type
        The class whose constructor has the defaults of the parameters.
    """
    if target.__doc__ is None or ENTRY.search(target.__doc__) is None:
        return
    defaults = inspect.signature(cls).parameters

    def entry(indent: str, key: str) -> str:
        name, kind, text = DESCRIPTIONS[key]
        if name in defaults:
            default = f"{defaults[name].default!r}".replace("'", '"').replace("e-0", "e-")
            kind += f", default={default}"
        return textwrap.indent(f"{name} : {kind}\n{text}", indent)

    def entries(found: re.Match[str]) -> str:
        indent, key = found.groups()
        return "\n".join(entry(indent, each) for each in GROUPS.get(key, [key]))

    target.__doc__ = ENTRY.sub(entries, target.__doc__)

"""Parameters that mean the same in every estimator: their constraints and their descriptions.

An estimator that has such a parameter neither repeats its constraint in `_parameter_constraints`
nor its description: a line ``{kernel}`` in the docstring becomes the entry of `kernel`, with the
default of the estimator.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeVar, dataclass_transform

from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from bagwise._sklearn import Interval, StrOptions

Estimator = TypeVar("Estimator")

COUNT = Interval(Integral, 1, None, closed="left")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")

# A kernel by name, a function, or the values of a kernel in place of features.
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
    "positive_share": [Interval(Real, 0, 1, closed="neither"), "array-like", None],
    "random_state": ["random_state"],
    "reg": [NOT_NEGATIVE],
    "select": ["boolean"],
    "threshold": [StrOptions({"auto", "zero", "training", "out_of_fold"})],
    "tol": [POSITIVE],
    "verbose": ["verbose"],
}

# The type, then the description; a default is read from the constructor.
DESCRIPTIONS = {
    "annotator_components": (
        "int",
        "Number of landmarks, instances drawn at random, and so of Nystroem features. Not used by\n"
        "the linear kernel.",
    ),
    "annotator_gamma": (
        '{"half_scale", "scale", "auto"} or float',
        'Kernel width; "half_scale" is ``0.5 / (n_features * variance)``, "scale" twice that, and\n'
        '"auto" ``1 / n_features``.',
    ),
    "annotator_kernel": (
        '{"linear", "rbf"} or callable',
        'The kernel, or a function of two vectors. All but "linear" are approximated by Nystroem\n'
        "features, which are computed where the instances are.",
    ),
    "annotator_reg": (
        'float or "auto"',
        "Lambda, against the sum over bags. The intercept is not penalised. With 0 there may be\n"
        'no maximum. "auto" is 1 for the linear kernel. For others, whose features are shorter\n'
        "than 1, it is 0.01 in ORedLogisticRegression and 0.02 in NoisyOrLogisticRegression.",
    ),
    "X": ("Bags or anything accepted as bags", "The bags."),
    "checkpoint": (
        "path",
        "Save the state of the fit there from time to time, and resume from it where it exists: a "
        "fit\nthat was killed continues and ends with the same result. Removed when the fit is "
        "complete.",
    ),
    "classes_": ("ndarray of shape (n_classes,)", "The labels."),
    "coef0": ("float", "Constant of the polynomial kernel."),
    "degree": ("float", "Degree of the polynomial kernel."),
    "gamma": (
        '{"scale", "auto"} or float',
        'Kernel width; "scale" is ``1 / (n_features * variance)``, "auto" ``1 / n_features``.',
    ),
    "gamma_": ("float", "The kernel width used (other kernels)."),
    "kernel": (
        "str or callable",
        'The kernel: "linear", or another of scikit-learn\'s names ("rbf", "poly", "laplacian",\n'
        "...), or a function of two vectors.",
    ),
    "label_kind_": (
        '{"single", "sets"}',
        "Whether the model was fitted on one label per bag, or on label sets.",
    ),
    "machine_coef_": (
        "ndarray of shape (n_machines, n_features)",
        "The weights of the features (linear kernel); one machine for two classes, else one each.",
    ),
    "machine_dual_coef_": ("ndarray of shape (n_machines, n_support)", "Their weights."),
    "machine_intercept_": ("ndarray of shape (n_machines,)", "The intercepts."),
    "n_landmarks": (
        'int, "auto" or None',
        "Number of Nystroem features that approximate the kernel; None for the exact kernel.\n"
        '"auto" is None up to 3,000 instances, 300 up to 100,000, then fewer, but at least 100.\n'
        "Margins are then met to 1e-6 at best. Not used by the linear kernel.",
    ),
    "n_features_in_": ("int", "Number of features of an instance, or of a row."),
    "nystroem_": ("Nystroem", "The approximation of the kernel, where there is one."),
    "nystroem_coef_": (
        "ndarray of shape (n_machines, n_features)",
        "The weights of the features (linear kernel), or of the Nystroem features; one machine\n"
        "for two classes, else one each.",
    ),
    "pos_label": (
        "label",
        "Of two classes, the positive one: a single instance of its concept makes a bag positive.\n"
        'By default the larger number, or the text that names a presence ("active", "yes",\n'
        '"tumor"); of other texts the last in order, with a warning. ``decision_function`` is\n'
        "positive for ``classes_[1]`` in any case.",
    ),
    "pos_label_": ("label", "The positive one of two classes; None where there are not two."),
    "positive_share": (
        "float or array-like of shape (n_classes,)",
        "Share of the positive class (``classes_[1]``) among the unlabelled rows; of more than\n"
        "two classes, the share of each. By default the shares among the labelled rows, which a\n"
        "few dozen labels of many classes estimate badly.",
    ),
    "rows": ("array-like or CSR of shape (n_rows, n_features)", "The rows."),
    "select": (
        "bool",
        'Choose `reg`, and the width of "rbf", by the likelihood of held-out bags (two of three\n'
        "folds; no label of an instance is needed): `gamma` times 1/2, 1 or 2, then `reg` times\n"
        "1/2, 1 or 2. A setting that is clearly worse on the first fold is not tried on the\n"
        "second. Takes three to five times as long as one fit.",
    ),
    "support_": (
        "ndarray of shape (n_support,)",
        "Training instances with non-zero weight (other kernels).",
    ),
    "support_rows_": (
        "ndarray or CSR of shape (n_support, n_features)",
        "Training rows with non-zero weight (other kernels); `support_` are their positions.",
    ),
    "support_vectors_": ("ndarray or CSR of shape (n_support, n_features)", "Those instances."),
    "threshold": (
        '{"auto", "zero", "training", "out_of_fold"}',
        'Where the score of a bag becomes positive, by a shift of the intercept. "zero" keeps the\n'
        'intercept of the solution. "training" takes the threshold of highest accuracy on the\n'
        'training bags, weighted by `class_weight`; "out_of_fold" the same for scores from 5-fold\n'
        'cross-validation (with fewer than 10 bags of a class on the training bags). "auto" is\n'
        '"out_of_fold" for two classes and a kernel other than the linear one, else "zero".',
    ),
    "transduction_": (
        "ndarray of shape (n_rows,)",
        "The label of each training row: as given, or as predicted.",
    ),
    "two_clusters_coef_": (
        "ndarray of shape (1, n_features)",
        "The weights of the features (linear kernel).",
    ),
    "two_clusters_dual_coef_": ("ndarray of shape (1, n_support)", "Their weights."),
    "two_clusters_intercept_": ("ndarray of shape (1,)", "The intercept."),
    "verbose": ("int", "Whether to show a progress bar."),
}
# Descriptions that follow each other in several estimators.
GROUPS: dict[str, list[str]] = {
    "kernel_and_parameters": ["kernel", "gamma", "degree", "coef0"],
    "svm_of_instances_": [
        "nystroem_coef_", "support_", "support_vectors_", "machine_dual_coef_", "nystroem_",
        "gamma_", "machine_intercept_",
    ],
    "svm_of_rows_": [
        "machine_coef_", "support_rows_", "machine_dual_coef_", "gamma_", "machine_intercept_",
    ],
    "svm_of_two_clusters_": [
        "two_clusters_coef_", "support_rows_", "two_clusters_dual_coef_", "gamma_",
        "two_clusters_intercept_",
    ],
}  # fmt: skip
# A parameter that means something else elsewhere: key of the description -> name.
NAMES = {
    "annotator_components": "n_components",
    "annotator_gamma": "gamma",
    "annotator_kernel": "kernel",
    "annotator_reg": "reg",
    "machine_coef_": "coef_",
    "machine_dual_coef_": "dual_coef_",
    "machine_intercept_": "intercept_",
    "nystroem_coef_": "coef_",
    "rows": "X",
    "support_rows_": "support_vectors_",
    "two_clusters_coef_": "coef_",
    "two_clusters_dual_coef_": "dual_coef_",
    "two_clusters_intercept_": "intercept_",
}
ENTRY = re.compile(r"^( *)\{(\w+)\}$", flags=re.MULTILINE)


@dataclass_transform(eq_default=False)
def with_parameters(cls: type[Estimator]) -> type[Estimator]:
    """Decorate an estimator: its annotated attributes are the parameters of the constructor.

    Shared parameters receive their constraints and descriptions.

    Parameters
    ----------
    cls : type
        The class of the estimator; a default for each annotated attribute. Those of a decorated
        base are not inherited.

    Returns
    -------
    type
        The same class, with a constructor that stores its parameters and does nothing else.
    """
    dataclass(eq=False, repr=False, match_args=False)(cls)
    names = sorted(field.name for field in fields(cls))  # type: ignore[arg-type]
    # Only the constructor is kept. Parameters are attributes of the instance, and a dataclass would
    # be identified by its fields alone: Dask would take two fits for the same model.
    for name in (*names, "__dataclass_fields__", "__dataclass_params__", "__replace__"):
        if name in vars(cls):
            delattr(cls, name)
    known: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        known |= vars(base).get("_parameter_constraints", {})
    cls._parameter_constraints = {name: known[name] for name in names}  # type: ignore[attr-defined]
    _describe(cls, cls)
    for base in cls.__mro__:
        for method in vars(base).values():
            if inspect.isfunction(method):
                _describe(method, cls)
    return cls


def _describe(target: Any, cls: Callable[..., Any]) -> None:
    """Replace the lines ``{name}`` of a docstring, which is absent under ``python -OO``."""
    if target.__doc__ is None or ENTRY.search(target.__doc__) is None:
        return
    defaults = inspect.signature(cls).parameters

    def entry(indent: str, key: str) -> str:
        name, (kind, text) = NAMES.get(key, key), DESCRIPTIONS[key]
        if name in defaults:
            kind += f", default={defaults[name].default!r}".replace("'", '"')
        lines = [f"{name} : {kind}"]
        lines += [f"    {line}" for line in text.split("\n")]
        return "\n".join(indent + line for line in lines)

    def entries(found: re.Match[str]) -> str:
        indent, key = found.groups()
        return "\n".join(entry(indent, each) for each in GROUPS.get(key, [key]))

    target.__doc__ = ENTRY.sub(entries, target.__doc__)

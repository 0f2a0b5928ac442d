"""The private and experimental names of scikit-learn that bagwise uses, collected in one module.

scikit-learn may move them between versions; then only this file changes.
"""

from __future__ import annotations

from sklearn.base import _fit_context
from sklearn.utils._array_api import get_namespace
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    InvalidParameterError,
    Options,
    RealNotInt,
    StrOptions,
    make_constraint,
)
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "Options",
    "RealNotInt",
    "StrOptions",
    "_check_feature_names_in",
    "_check_sample_weight",
    "_fit_context",
    "get_namespace",
    "make_constraint",
]

"""The private and experimental names of scikit-learn that bagwise uses, collected in one module.

scikit-learn may move them between versions; then only this file changes.
"""

from __future__ import annotations

from typing import Any

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

try:  # scikit-learn >= 1.9, experimental
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # pragma: no cover - older scikit-learn

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for versions of scikit-learn without callbacks."""

    def with_callbacks(fit: Any) -> Any:
        """Stand-in for versions of scikit-learn without callbacks."""
        return fit


__all__ = [
    "CallbackSupportMixin",
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
    "with_callbacks",
]

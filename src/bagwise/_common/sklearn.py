"""The private and experimental names of scikit-learn that bagwise uses, collected in one module.

scikit-learn may move them between versions; then only this file changes.
"""

from sklearn.base import _fit_context as _fit_context
from sklearn.utils._array_api import get_namespace as get_namespace
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import InvalidParameterError as InvalidParameterError
from sklearn.utils._param_validation import Options as Options
from sklearn.utils._param_validation import RealNotInt as RealNotInt
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils._param_validation import make_constraint as make_constraint
from sklearn.utils.validation import _check_feature_names_in as _check_feature_names_in
from sklearn.utils.validation import _check_sample_weight as _check_sample_weight

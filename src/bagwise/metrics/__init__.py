"""Metrics for label rankings, instance labels, attributions, clusters and regions of interest.

Four families, each named as in the paper that uses it:

- rankings of labels per bag: :func:`one_error`, :func:`coverage`, :func:`average_precision`;
- one label per instance: :func:`instance_accuracy`, :func:`per_category_accuracy`,
  :func:`naming_precision`, :func:`instance_calibration_error`, :func:`class_purity`,
  :func:`normalized_mutual_info`;
- scores and attributions of instances: :func:`instance_average_precision`,
  :func:`flipping_curve`;
- regions of interest: :func:`roi_success_rate`, :func:`roi_success_rate_relevant`,
  :func:`roi_success_rate_predicted`, computed from :func:`roi_hits`.

Instance metrics leave out instances whose true label is -1 (unknown). Ranking metrics leave out
bags whose row of `label_sets` is -1 throughout (unknown).
"""

from bagwise.metrics._flipping import FlippingCurve, flipping_curve
from bagwise.metrics._instances import (
    class_purity,
    instance_accuracy,
    instance_average_precision,
    instance_calibration_error,
    naming_precision,
    normalized_mutual_info,
    per_category_accuracy,
)
from bagwise.metrics._rankings import average_precision, coverage, one_error
from bagwise.metrics._regions import roi_hits, roi_success_rate

__all__ = [
    "FlippingCurve",
    "average_precision",
    "class_purity",
    "coverage",
    "flipping_curve",
    "instance_accuracy",
    "instance_average_precision",
    "instance_calibration_error",
    "naming_precision",
    "normalized_mutual_info",
    "one_error",
    "per_category_accuracy",
    "roi_hits",
    "roi_success_rate",
]

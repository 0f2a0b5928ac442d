"""Validation of input: anything accepted as X and y becomes `Bags` and `Labels`."""

from bagwise.validation.instances import (
    VALUE_RANGE,
    check_bags,
    check_rows,
    check_similarity,
    check_values,
    is_table,
)
from bagwise.validation.labels import (
    check_bag_labels,
    check_grades,
    check_groups,
    check_instance_labels,
    check_intervals,
    check_known_labels,
    check_label,
    check_label_sets,
    check_length,
    check_numbers,
    check_partial_labels,
    check_sample_weight,
    has_columns,
)
from bagwise.validation.times import are_times, check_targets, check_times, time_texts

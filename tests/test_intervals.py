"""What a cell says about a number or a count."""

from math import inf

import numpy as np
import pytest

from bagwise._common.intervals import is_share, read_count, read_interval
from bagwise.exceptions import LabelError
from cases import each


@each(("cell", "lower", "upper"), [
    ("5.3", 5.3, 5.3), (" 5.3 ", 5.3, 5.3), ("-2", -2, -2), ("=7", 7, 7), ("1e-5", 1e-5, 1e-5),
    ("4-6", 4, 6), ("4 - 6", 4, 6), ("4\u20136", 4, 6), ("4 to 6", 4, 6), ("4..6", 4, 6),
    ("-6--4", -6, -4), ("-6-4", -6, 4), ("\u22126", -6, -6), ("1e-2-1e-1", 0.01, 0.1),
    ("3-3", 3, 3), ("3+", 3, inf), (">=10", 10, inf), ("≥10", 10, inf), ("<=5", -inf, 5),
    ("≤ 5", -inf, 5),
    ("40%", 0.4, 0.4), ("40 %", 0.4, 0.4), ("30-50%", 0.3, 0.5), ("30%-50%", 0.3, 0.5),
    (">=40%", 0.4, inf), (".5", 0.5, 0.5), ("5.", 5, 5), (3, 3, 3), (2.5, 2.5, 2.5),
    (np.int64(4), 4, 4), (np.float32(0.5), 0.5, 0.5),
])  # fmt: skip
def test_an_interval(cell, lower, upper):
    assert read_interval(cell) == (lower, upper)


@each("cell", ["", "  ", None, float("nan"), np.nan, "NA", "n/a", "?", "nan"])
def test_unknown(cell):
    assert read_interval(cell) == (-inf, inf)
    assert read_count(cell) == (0, -1)


def test_a_strict_bound_leaves_the_number_out():
    assert read_interval("<5")[1] < 5 < read_interval("> 5")[0]
    assert read_interval("<5")[1] == pytest.approx(5, rel=1e-15)


@each("cell", ["6-4", "-4--6", "50-30%"])
def test_a_lower_end_above_the_upper_one_is_refused(cell):
    with pytest.raises(LabelError, match=r"the dose of bag 7 is '.*lower end exceeds"):
        read_interval(cell, "the dose of bag 7")


@each("cell", ["many", "5,3", "4-5-6", "1,000", "<", "%", "3++", "inf", "1e999", "<>4", "present"])
def test_anything_else_is_refused(cell):
    with pytest.raises(LabelError, match="the dose of bag 7 is"):
        read_interval(cell, "the dose of bag 7")


@each(("cell", "lower", "upper"), [
    ("present", 1, -1), ("Yes", 1, -1), (True, 1, -1), ("1", 1, -1), (1, 1, -1), (1.0, 1, -1),
    ("absent", 0, 0), ("no", 0, 0), ("0", 0, 0), (0, 0, 0), (False, 0, 0), ("=1", 1, 1),
    ("1-1", 1, 1), ("1+", 1, -1), ("2", 2, 2), ("3+", 3, -1), ("2-5", 2, 5), ("0-2", 0, 2),
    ("<5", 0, 4), ("<=5", 0, 5), (">5", 6, -1), (">=5", 5, -1), ("<4.5", 0, 4), ("2.0", 2, 2),
])  # fmt: skip
def test_a_count(cell, lower, upper):
    assert read_count(cell) == (lower, upper)


@each("cell", ["-1", "2.5", "-3--1", "-1-4", "40%", "<0", "2.2-2.8", "several"])
def test_what_is_no_count_is_refused(cell):
    with pytest.raises(LabelError, match="robin of bag 2 is"):
        read_count(cell, "robin of bag 2")


def test_a_share():
    assert is_share("40%")
    assert not is_share("40")
    assert not is_share(0.4)

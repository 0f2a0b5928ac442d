"""Shared parameters: every estimator has their constraints and their descriptions."""

import dataclasses
import inspect
import re

import pytest

from bagwise.classification import BagMarginSVM
from cases import each
from checks import example
from estimators import public_estimators


@each("cls", public_estimators())
def test_each_parameter_has_a_constraint(cls):
    assert list(cls._parameter_constraints) == cls._get_param_names()


@each("cls", public_estimators())
def test_no_entry_is_left_open(cls):
    members = [cls, *(member for _, member in inspect.getmembers(cls, callable))]
    texts = [member.__doc__ or "" for member in members]
    assert not [text for text in texts if re.search(r"^ *\{\w+\}$", text, flags=re.MULTILINE)]


def test_an_entry_has_the_default_of_the_estimator():
    text = inspect.cleandoc(BagMarginSVM.__doc__)
    assert 'kernel : str or callable, default="rbf"\n    The kernel: "linear", or' in text
    assert "random_state : int, RandomState or None, default=0\n    For the folds" in text
    assert "n_features_in_ : int\n    Number of features" in text


def test_dask_tells_two_fits_apart():
    tokenize = pytest.importorskip("dask.base").tokenize
    bags, y = example(12)
    one, other = BagMarginSVM().fit(bags, y), BagMarginSVM().fit(bags, y[::-1])
    assert tokenize(one) != tokenize(other)
    assert not dataclasses.is_dataclass(one)

"""Which errors mean a missing optional package, and which remain failures."""

import doctest
import sys

import pytest

import optional
from bagwise._common.extras import import_extra
from bagwise.exceptions import MissingExtraError
from optional import absent_package, skip_where_absent


@pytest.fixture(autouse=True)
def packages(monkeypatch):
    monkeypatch.setattr(optional, "PACKAGES", {"no_such_package", "numpy"})


def raised(action):
    try:
        action()
    except ImportError as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_absent_extra_is_a_reason_to_skip():
    error = raised(lambda: import_extra("no_such_package.part", extra="io"))
    assert isinstance(error, MissingExtraError)
    assert absent_package(error) == "no_such_package"
    example = doctest.UnexpectedException(None, None, (type(error), error, None))
    assert absent_package(example) == "no_such_package"
    with pytest.raises(pytest.skip.Exception, match="no_such_package is not installed"):
        skip_where_absent(f"Error: {error}")


def test_a_test_may_import_the_package_itself():
    assert absent_package(raised(lambda: __import__("no_such_package"))) == "no_such_package"


def test_bagwise_may_not_let_an_import_fail():
    code = compile("import no_such_package", f"{optional.SOURCE}/bagwise/x.py", "exec")
    assert absent_package(raised(lambda: exec(code, {}))) is None


def test_a_hidden_package_and_an_unknown_one_are_failures(monkeypatch):
    assert absent_package(raised(lambda: __import__("another_package"))) is None
    monkeypatch.setitem(sys.modules, "numpy", None)
    error = raised(lambda: import_extra("numpy", extra="io"))
    assert absent_package(error) is None
    skip_where_absent(f"Error: {error}")


def test_other_errors_are_failures():
    assert absent_package(ValueError("no_such_package")) is None

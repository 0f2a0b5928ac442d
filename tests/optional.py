"""Tests without the extras: what needs an absent package is skipped, with its name as reason."""

import doctest
import importlib
import re
import traceback
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

import pytest

from bagwise.exceptions import MissingExtraError

SOURCE = str(Path(__file__).resolve().parent.parent / "src")
PACKAGES = {
    *("clarabel", "dask", "distributed", "h5py", "jinja2", "matplotlib", "pandas", "playwright"),
    *("polars", "pyarrow", "pynndescent", "skops", "torch"),
}


class _Absent(ModuleType):
    """Skips the test that looks something up in it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.skip(f"{self.__name__} is not installed")


def optional(name):
    """Import a package that few tests of a file need: the others run without it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return _Absent(name)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip a file that imports an absent package at its head."""
    report = yield
    error = report.call.excinfo and report.call.excinfo.value.__cause__
    if report.failed and isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in PACKAGES:
            report.outcome = "skipped"
            report.longrepr = (str(collector.path), 0, f"Skipped: {package} is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that ends because a package is absent."""
    try:
        return (yield)
    except Exception as error:
        if package := absent_package(error):
            pytest.skip(f"{package} is not installed")
        raise


def absent_package(error):
    """The package that is not installed, where a test ended for that reason alone.

    bagwise refuses with a MissingExtraError; any other error that bagwise lets through is a
    failure. A test, or an example of a docstring, may import the package itself.
    """
    if isinstance(error, doctest.UnexpectedException):
        error = error.exc_info[1]
    if isinstance(error, MissingExtraError):
        error = error.__cause__
    elif any(f.filename.startswith(SOURCE) for f in traceback.extract_tb(error.__traceback__)):
        return None
    if not isinstance(error, ModuleNotFoundError):
        return None
    package = (error.name or "").partition(".")[0]
    return package if is_absent(package) else None


def is_absent(package):
    # Not by sys.modules, where a test may have hidden an installed package.
    return package in PACKAGES and PathFinder.find_spec(package) is None


def skip_where_absent(output):
    """Skip the test of a command that printed which package it lacks."""
    for package in re.findall(r"'(\w+)' is needed here and is not installed", output):
        if is_absent(package):
            pytest.skip(f"{package} is not installed")

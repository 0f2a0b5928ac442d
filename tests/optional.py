"""Skip tests that need a missing optional package, with its name as the reason."""

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
    *("anndata", "crepes", "mapie", "rdkit", "soundfile", "usearch"),
    *("polars", "pyarrow", "pynndescent", "skops", "sksurv", "torch"),
}


class _Absent(ModuleType):
    """A placeholder module that skips the test that uses it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.skip(f"{self.__name__} is not installed")


def optional(name):
    """Import a package that only some tests of a file need; the others run without it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return _Absent(name)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip a file that imports a missing package at module level."""
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
    """Skip a test that fails because a package is missing."""
    try:
        return (yield)
    except Exception as error:
        if package := absent_package(error):
            pytest.skip(f"{package} is not installed")
        raise


def absent_package(error):
    """The missing package, if a test failed for that reason alone.

    bagwise must raise a MissingExtraError; any other error of bagwise is a failure. A test, or an
    example of a docstring, may import the package itself.
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
    # Not by sys.modules, in which a test may have hidden an installed package.
    return package in PACKAGES and PathFinder.find_spec(package) is None


def skip_where_absent(output):
    """Skip the test of a command that reported a missing package."""
    for package in re.findall(r"'(\w+)' is needed here and is not installed", output):
        if is_absent(package):
            pytest.skip(f"{package} is not installed")

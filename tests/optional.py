"""Tests without the extras: what needs an absent package is skipped, with its name as reason."""

import importlib
from types import ModuleType

import pytest

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

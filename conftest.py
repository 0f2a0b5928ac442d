"""Hooks for the tests and for the examples in docstrings: those of tests/conftest.py miss src."""

from optional import pytest_make_collect_report, pytest_runtest_call  # noqa: F401

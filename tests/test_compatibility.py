"""Nothing public disappears without a warning in one minor version before."""

import json

import pytest

import bagwise
from tools import api


def test_no_public_name_is_lost_without_a_deprecation():
    before = json.loads(api.releases()[-1].read_text())
    assert api.lost(before, api.public_names(), api.deprecated(bagwise.__version__)) == []


def test_names_that_are_not_stored_are_found(tmp_path):
    (tmp_path / "0.3.json").write_text('{"a.f": ["x"], "a.g": []}')
    assert api.unstored("0.3.1", {"a.f": ["x"], "a.g": []}, tmp_path) == []
    assert api.unstored("0.3.1", {"a.f": ["x", "y"], "a.h": []}, tmp_path) == ["a.f", "a.g", "a.h"]
    assert api.unstored("0.4.0", {"a.f": []}, tmp_path) == ["a.f"]


@pytest.mark.parametrize(
    ("now", "deprecated", "lost"),
    [
        ({"a.f": ["x", "y"], "a.g": []}, (), []),
        ({"a.f": ["x", "y", "new"]}, (), []),
        ({"a.f": ["x"]}, (), ["a.f(y)"]),
        ({"a.f": ["x"]}, ["a.f(y)"], []),
        ({}, (), ["a.f"]),
        ({}, ["a.f"], []),
    ],
)
def test_what_is_lost_is_found(now, deprecated, lost):
    assert api.lost({"a.f": ["x", "y"]}, now, deprecated) == lost


def test_a_name_goes_one_minor_version_after_its_warning(tmp_path):
    (tmp_path / "deprecated.toml").write_text('"a.f" = "0.4"\n')
    assert api.deprecated("0.4.2", tmp_path) == set()
    assert api.deprecated("0.5.0", tmp_path) == {"a.f"}
    assert api.deprecated("1.0.0", tmp_path) == {"a.f"}

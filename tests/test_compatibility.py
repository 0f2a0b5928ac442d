"""Nothing public disappears without a warning in one minor version before."""

import json
from pathlib import Path

import pytest

import bagwise
from tools import api

ROOT = Path(__file__).parent.parent


def test_no_public_name_is_lost_without_a_deprecation():
    before = json.loads(api.releases()[-1].read_text())
    assert api.lost(before, api.public_names(), api.deprecated(bagwise.__version__)) == []


def test_a_released_version_has_its_names_stored():
    """Between releases, the changelog begins with a section for the next one."""
    if "## Unreleased" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        kept = api.releases()[-1]
        assert bagwise.__version__.startswith(f"{kept.stem}.")
        assert json.loads(kept.read_text()) == api.public_names()


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

"""Errors for names of version 0.1 that moved give the new names."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from bagwise._moved import MOVED
from estimators import estimator_classes

UPGRADE = Path(__file__).parent.parent / "docs" / "upgrade.md"
CASES = [(module, name) for module, names in MOVED.items() for name in names]


@pytest.mark.parametrize(("module", "name"), CASES)
def test_the_error_states_the_new_place(module, name):
    loaded = importlib.import_module(module)
    assert name not in dir(loaded)
    with pytest.raises(ImportError, match=re.escape(MOVED[module][name])):
        exec(f"from {module} import {name}", {})
    with pytest.raises(AttributeError, match="since version"):
        getattr(loaded, name)
    assert not hasattr(loaded, name)


@pytest.mark.parametrize("module", MOVED)
def test_other_names_are_unknown_as_usual(module):
    assert not hasattr(importlib.import_module(module), "no_such_name")


def test_the_new_places_exist():
    for place in MOVED["bagwise.inspection"].values():
        if re.fullmatch(r"[\w.]+", place):
            module, _, name = place.rpartition(".")
            assert hasattr(importlib.import_module(module), name)


def rows_of_upgrade_page(n_columns):
    rows = [re.findall(r" (.+?) \|", line) for line in UPGRADE.read_text().splitlines()]
    return [[cell.replace("`", "") for cell in row] for row in rows if len(row) == n_columns][1:]


def test_the_upgrade_page_lists_every_name():
    listed = dict(rows_of_upgrade_page(2))
    assert listed == {f"{module}.{name}": MOVED[module][name] for module, name in CASES}


def test_the_upgrade_page_states_the_defaults_of_now():
    classes = estimator_classes()
    rows = rows_of_upgrade_page(4)
    assert rows
    for name, parameter, _, now in rows:
        assert repr(inspect.signature(classes[name]).parameters[parameter].default) == now

"""Names of version 0.1 that moved are explained."""

import importlib
import re

import pytest

from bagwise._moved import MOVED
from bagwise.datasets import describe_dataset

CASES = [(module, name) for module, names in MOVED.items() for name in names]


@pytest.mark.parametrize(("module", "name"), CASES)
def test_the_error_states_the_new_place(module, name):
    loaded = importlib.import_module(module)
    assert name not in dir(loaded)
    with pytest.raises(ImportError, match=re.escape(MOVED[module][name])):
        exec(f"from {module} import {name}", {})
    with pytest.raises(ImportError, match="since version"):
        getattr(loaded, name)


@pytest.mark.parametrize("module", MOVED)
def test_other_names_are_unknown_as_usual(module):
    assert not hasattr(importlib.import_module(module), "no_such_name")


def test_the_new_places_exist():
    for place in MOVED["bagwise.inspection"].values():
        module, _, name = place.rpartition(".")
        assert hasattr(importlib.import_module(module), name)
    for place in MOVED["bagwise.datasets"].values():
        for name in re.findall(r'"(\w+)"', place):
            assert describe_dataset(name)

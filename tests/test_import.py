"""`import bagwise` is light, and all modules can be imported without optional packages."""

import json
import subprocess
import sys

HEAVY = (
    *("numba", "pyarrow", "matplotlib", "polars", "typer", "skops", "h5py", "jinja2", "torch"),
    "triton",
)


ROOMS = (
    *("classification", "embedding", "preprocessing", "pairwise", "datasets", "io", "metrics"),
    *("cluster", "semi_supervised"),
)
# One process imports all modules in turn: a dependency is attributed to its first importer.
LOADED = """
import importlib, json, sys

def import_and_list(name):
    before = set(sys.modules)
    importlib.import_module(name)
    return sorted(set(sys.modules) - before)

print(json.dumps({name: import_and_list(name) for name in sys.argv[1:]}))
"""


def loaded_by(*names):
    command = [sys.executable, "-c", LOADED, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name: set(loaded) for name, loaded in json.loads(done.stdout).items()}


def test_importing_bagwise_loads_nothing_heavy():
    loaded = loaded_by("sklearn", "bagwise")["bagwise"]
    assert not loaded & set(HEAVY)
    assert not {name for name in loaded if name.startswith("sklearn.")}


def test_rooms_load_the_jit_and_extras_when_first_used():
    loaded = loaded_by("sklearn.svm", *(f"bagwise.{room}" for room in ROOMS))
    heavy = {name: loaded[name] & set(HEAVY) for name in loaded if name.startswith("bagwise")}
    assert heavy == {f"bagwise.{room}": set() for room in ROOMS}


def test_rooms_are_attributes_of_the_package():
    code = "import bagwise; print(bagwise.classification.CitationKNN.__name__, dir(bagwise))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("CitationKNN")
    assert "classification" in done.stdout


def test_everything_imports_without_any_extra():
    blocked = ("pyarrow", "h5py", "skops", "matplotlib", "jinja2", "pandas", "polars")
    code = f"""
import sys, importlib, pkgutil
for name in {blocked!r}:
    sys.modules[name] = None
import bagwise
for module in pkgutil.walk_packages(bagwise.__path__, "bagwise."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from bagwise.exceptions import MissingExtraError
from bagwise._common.extras import import_extra
try:
    import_extra("pyarrow.parquet", extra="io")
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'pip install "bagwise[io]"' in done.stdout


def test_reading_a_file_and_its_leaks_needs_no_estimator():
    loaded = loaded_by("bagwise.cli.reading", "bagwise.validation.leaks")
    assert not {name for names in loaded.values() for name in names} & {"sklearn", "pandas"}

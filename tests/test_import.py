"""`import bagwise` stays light, and nothing optional is needed to import anything."""

import subprocess
import sys

import pytest

HEAVY = ("numba", "pyarrow", "matplotlib", "polars", "typer", "skops", "h5py", "jinja2", "torch")


def modules_after(statement):
    code = f"{statement}\nimport sys; print(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_bagwise_loads_nothing_heavy():
    loaded = modules_after("import bagwise") - modules_after("import sklearn")
    assert not loaded & set(HEAVY)
    assert not {name for name in loaded if name.startswith("sklearn.")}


@pytest.mark.parametrize(
    "room",
    [
        *("classification", "embedding", "preprocessing", "pairwise", "datasets", "io", "metrics"),
        *("cluster", "semi_supervised"),
    ],
)
def test_rooms_load_the_jit_and_extras_when_first_used(room):
    loaded = modules_after(f"import bagwise.{room}") - modules_after("import sklearn.svm")
    assert not loaded & set(HEAVY)


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
from bagwise.extras import import_extra
try:
    import_extra("pyarrow.parquet", extra="io")
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'pip install "bagwise[io]"' in done.stdout

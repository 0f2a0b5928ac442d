"""Compiled functions are cached, in several processes and without a writable folder."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bagwise.loops import compilation

numba = pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="nothing is compiled under NUMBA_DISABLE_JIT"
)

# Kernels of a few lines: what is tested is where their machine code goes.
KERNELS = """
from bagwise.loops.compilation import compiled

@compiled()
def double(x):
    return 2 * x

@compiled()
def half(x):
    return x / 2
"""


@pytest.fixture
def package(tmp_path):
    """A folder with one file of kernels, ``small.py``."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "small.py").write_text(KERNELS)
    return folder


@pytest.fixture
def load(package, monkeypatch, tmp_path):
    """Load the kernels as a new process does; only `package` can be written to."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("HOME", "/dev/null/home")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(package)

    def call():
        sys.modules.pop("small", None)
        return importlib.import_module("small")

    yield call
    sys.modules.pop("small", None)


def run_both(small):
    """Results for a real number and an integer, and how many were loaded from the cache."""
    answers = small.double(1.5), small.double(3)
    return *answers, sum(small.double.stats.cache_hits.values())


def test_code_is_cached_beside_the_source(package, load):
    assert run_both(load()) == (3.0, 6, 0)
    assert len(list(package.glob("__pycache__/small.double-*.nbc"))) == 2
    assert run_both(load()) == (3.0, 6, 2)


def test_without_a_writable_folder_each_process_compiles(package, load):
    (package / "__pycache__").write_text("")  # a file: no folder can be made, not even by root
    assert run_both(load()) == run_both(load()) == (3.0, 6, 0)


def test_code_of_another_signature_is_not_run(package, load):
    # What two processes leave that read the index before either wrote it.
    run_both(load())
    one, two = package.glob("__pycache__/small.double-*.nbc")
    saved = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(saved)
    assert run_both(load())[:2] == (3.0, 6)


def test_a_full_disk_does_not_stop_a_fit(load, monkeypatch):
    def refuse(self, *args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "_save_data", refuse)
    assert run_both(load()) == (3.0, 6, 0)


@pytest.mark.slow
def test_processes_that_compile_at_once_are_right(package):
    program = "import sys, numpy as np, small\nprint(small.double(getattr(np, sys.argv[1])(4)))"
    environment = os.environ | {"PYTHONPATH": f"{Path(compilation.__file__).parents[2]}:{package}"}
    environment.pop("NUMBA_CACHE_DIR", None)
    for _ in range(2):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", program, name], env=environment, stdout=subprocess.PIPE
            )
            for name in ("float32", "int64", "float64")
        ]
        assert [float(process.communicate(timeout=120)[0]) for process in processes] == [8.0] * 3

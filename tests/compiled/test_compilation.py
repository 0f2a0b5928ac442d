"""Compiled functions without a writable cache, with damaged cache files, in several processes."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bagwise.compiled import compilation

numba = pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="nothing is compiled under NUMBA_DISABLE_JIT"
)

# Kernels of a few lines: what is tested is where their machine code goes.
KERNELS = """
from bagwise.compiled.compilation import compiled

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


def make_read_only(package):
    """No folder can be made where a file is: holds for root too."""
    (package / "__pycache__").write_text("")


def run_both(small):
    """The answers for a real number and an integer, and how many had to be compiled."""
    before = compilation.n_compilations()
    answers = small.double(1.5), small.double(3)
    return *answers, compilation.n_compilations() - before


def test_code_is_kept_beside_the_source(package, load):
    assert run_both(load()) == (3.0, 6, 2)
    assert len(list(package.glob("__pycache__/small.double-*.nbc"))) == 2
    assert run_both(load()) == (3.0, 6, 0)


def test_code_is_kept_where_numba_is_asked_to(package, load, tmp_path, monkeypatch):
    make_read_only(package)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    assert Path(compilation.cache_folder()).is_relative_to(tmp_path / "kept")
    assert run_both(load()) == (3.0, 6, 2)
    assert len(list((tmp_path / "kept").rglob("small.double-*.nbc"))) == 2
    assert run_both(load()) == (3.0, 6, 0)


def test_where_nothing_can_be_written_kernels_are_compiled_each_time(package, load):
    make_read_only(package)
    assert run_both(load()) == run_both(load()) == (3.0, 6, 2)


def test_without_a_home_no_folder_named_tilde_is_made(package, load, tmp_path, monkeypatch):
    make_read_only(package)
    # An unknown user id without HOME, as containers start with: expanduser returns "~".
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert run_both(load()) == (3.0, 6, 2)
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("damage", [b"", b"\x80\x04garbage", None], ids=["empty", "text", "cut"])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_damaged_files_are_compiled_again(package, load, ending, damage):
    run_both(load())
    for file in package.glob(f"__pycache__/small.*.{ending}"):
        file.write_bytes(file.read_bytes()[:-20] if damage is None else damage)
    assert run_both(load()) == (3.0, 6, 2)
    run_both(load())  # where the index was removed, this process writes a new one
    assert run_both(load()) == (3.0, 6, 0)


def test_code_of_another_signature_is_not_run(package, load):
    # What two processes leave that read the index before either wrote it.
    run_both(load())
    one, two = package.glob("__pycache__/small.double-*.nbc")
    saved = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(saved)
    assert run_both(load()) == (3.0, 6, 2)


def test_a_full_disk_does_not_stop_a_fit(load, monkeypatch):
    def refuse(self, *args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "_save_data", refuse)
    assert run_both(load()) == (3.0, 6, 2)


def test_the_kernels_of_the_package_have_a_folder():
    # Of this checkout, or where NUMBA_CACHE_DIR points: otherwise each test process compiles all.
    assert compilation.cache_folder() is not None


def start(program, package, *words):
    environment = os.environ | {"PYTHONPATH": f"{Path(compilation.__file__).parents[2]}:{package}"}
    environment.pop("NUMBA_CACHE_DIR", None)
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process):
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out.split()


def test_processes_that_compile_at_once_keep_all_they_compiled(package, load):
    program = "import sys, numpy as np, small\nprint(small.double(getattr(np, sys.argv[1])(4)))"
    types = ["float32", "int64", "float64"]
    processes = [start(program, package, name) for name in types]
    assert [float(*result(process)) for process in processes] == [8.0] * 3
    small, before = load(), compilation.n_compilations()
    assert [small.double(getattr(np, name)(4)) for name in types] == [8.0] * 3
    assert compilation.n_compilations() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_forked_while_a_thread_compiles_can_compile(package):
    program = """
import os, threading, small
from numba.core import event

began = threading.Event()

class Listener(event.Listener):
    def on_start(self, event):
        began.set()

    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
thread = threading.Thread(target=small.double, args=(1.5,))
thread.start()
began.wait()
child = os.fork()
if child == 0:
    assert small.half(3.0) == 1.5
    os._exit(0)
thread.join()
print(os.waitpid(child, 0)[1], small.half(5.0), small.double(1.5))
"""
    assert result(start(program, package)) == ["0", "2.5", "3.0"]

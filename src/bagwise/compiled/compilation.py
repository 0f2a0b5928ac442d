"""Compile kernels with numba, and keep the machine code in files where a folder allows it.

numba's own cache stops the import where it finds no folder to write to (a read-only installation
and home, as in containers), and two processes that save at once can leave the code of one
signature under the name of another. Here a function without a folder is compiled in each process,
readers and writers lock the folder, and what cannot be read is compiled again.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Decorator for the functions of a kernel: numba's ``njit`` without the GIL, cached.

    Parameters
    ----------
    **options
        Further options of ``numba.njit``: ``fastmath``, ``inline``.

    Returns
    -------
    callable
        The decorator.

    Examples
    --------
    >>> from bagwise.compiled.compilation import compiled
    >>> @compiled()
    ... def double(x):
    ...     return 2 * x
    >>> double(1.5)
    3.0
    """

    def decorate(function: Any) -> Any:
        dispatcher = numba.njit(nogil=True, **options)(function)
        if dispatcher is not function:  # the function itself under NUMBA_DISABLE_JIT
            dispatcher._cache = _cache(function)
        return dispatcher

    return decorate


def n_compilations() -> int:
    """How many functions this process has compiled because no cached code was found."""
    return _Counted.n_saved


def cache_folder() -> str | None:
    """The folder of the compiled kernels.

    Returns
    -------
    str or None
        None where no folder can be written: every process then compiles what it uses.
    """

    def probe() -> None:
        """A function of this file: all kernels are in the same folder."""

    return _cache(probe).cache_path


def _cache(function: Any) -> Any:
    try:
        return _FolderCache(function)
    except RuntimeError:  # "no locator available"
        return _NoCache()


class _Counted:
    """numba calls `save_overload` once for each function and signature that it compiled."""

    n_saved = 0

    def save_overload(self, sig: Any, data: Any) -> None:
        _Counted.n_saved += 1
        super().save_overload(sig, data)  # type: ignore[misc]


class _NoCache(_Counted, caching.NullCache):
    """Nothing is kept."""


def _only_in_a_home(locator: Any) -> Any:
    """Leave out the cache of a user without a home: numba makes a folder named "~" for it."""
    if locator.__name__.lstrip("_") != "UserWideCacheLocator":  # with "_" before numba 0.62
        return locator

    class UserFolder(locator):
        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            if not os.path.isabs(os.path.expanduser("~")):
                return None
            return super().from_function(py_func, py_file)

    return UserFolder


class _Locators(caching.CompileResultCacheImpl):
    _locator_classes = [
        _only_in_a_home(locator) for locator in caching.CompileResultCacheImpl._locator_classes
    ]


class _FolderCache(_Counted, caching.FunctionCache):
    """numba's cache in files, where a fault of the files costs time and nothing else."""

    _impl_class = _Locators

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            with _locked(self.cache_path, exclusive=False):
                found = super().load_overload(sig, target_context)
        except Exception:  # a damaged pickle raises nearly anything
            return None
        # Written by two processes that had no lock: the code of another signature.
        if found is not None and tuple(found.signature.args) != tuple(sig):
            return None
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            with _locked(self.cache_path, exclusive=True):
                super().save_overload(sig, data)
        except Warning:  # numba cannot cache this function: tests turn that into an error
            raise
        except Exception:  # a full disk, a folder removed, an index that cannot be read
            self._forget()

    def _forget(self) -> None:
        """Remove an index that may be damaged: the next process writes a new one."""
        try:
            os.remove(self._cache_file._index_path)
        except (AttributeError, OSError):
            return


@contextmanager
def _locked(folder: str, *, exclusive: bool) -> Iterator[None]:
    """Hold a lock on a folder; none where the file system has no such locks."""
    handle = None
    try:
        if fcntl is not None:
            handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
    except OSError:
        pass
    try:
        yield
    finally:
        if handle is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a process forked meanwhile has the handle too
            os.close(handle)


if hasattr(os, "register_at_fork"):
    # A child forked while another thread compiles would wait for that thread, which it lacks.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )

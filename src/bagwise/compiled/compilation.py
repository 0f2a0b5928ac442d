"""Compile functions with numba, and cache the machine code in files if a folder is writable.

numba's own cache fails at import if it finds no writable folder (a read-only installation and home,
as in containers), and two processes that save at the same time can store the code of one signature
under the name of another. Here, without a writable folder, each process compiles its functions;
readers and writers lock the folder, and unreadable files are compiled again.
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
    """Decorator for compiled functions: numba's ``njit`` without the GIL, cached.

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
    """Number of functions this process has compiled because no cached code was found."""
    return _Counted.n_saved


def cache_folder() -> str | None:
    """Folder of the cached machine code.

    Returns
    -------
    str or None
        None if no folder is writable: every process then compiles the functions it uses.
    """

    def probe() -> None:
        """A function of this file: the code of all functions is in the same folder."""

    return _cache(probe).cache_path


def _cache(function: Any) -> Any:
    try:
        return _FolderCache(function)
    except RuntimeError:  # "no locator available"
        return _NoCache()


class _Counted:
    """Count compilations: numba calls `save_overload` once per compiled function and signature."""

    n_saved = 0

    def save_overload(self, sig: Any, data: Any) -> None:
        _Counted.n_saved += 1
        super().save_overload(sig, data)  # type: ignore[misc]


class _NoCache(_Counted, caching.NullCache):
    """A cache that stores nothing."""


def _only_in_a_home(locator: Any) -> Any:
    """Disable the cache of a user without a home: numba would create a folder named "~"."""
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
    """numba's file cache, in which damaged files cost only time."""

    _impl_class = _Locators

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            with _locked(self.cache_path, exclusive=False):
                found = super().load_overload(sig, target_context)
        except Exception:  # a damaged pickle raises nearly anything
            return None
        # Two processes without a lock may have stored the code of another signature.
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
    """Hold a lock on a folder, if the file system supports locks."""
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
            fcntl.flock(handle, fcntl.LOCK_UN)  # a forked process shares the handle
            os.close(handle)


if hasattr(os, "register_at_fork"):
    # A process forked during compilation would deadlock: the child lacks the compiling thread.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )

"""Atomic writing of files: a temporary file is renamed when it is complete."""

import contextlib
import os
import re
import secrets
import shutil
import socket
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from bagwise.exceptions import DataNotFoundError, OutputExistsError


@contextlib.contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` on success and deleted on failure.

    A file that is replaced keeps its mode, and a link its place: the file it leads to is replaced.
    """
    check_output(path, force=force)
    path = Path(os.path.realpath(path))  # write through a link
    temporary = temporary_beside(path)
    try:
        if path.exists():  # keep its mode: it may be private
            temporary.touch(mode=0o600)
            shutil.copymode(path, temporary)
        yield temporary
        # Without fsync, a power failure could keep the rename and lose the contents.
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_output(path: Path, *, force: bool) -> None:
    """Refuse to overwrite a file without `force`, or a folder, or to write to a missing folder."""
    if path.is_dir():
        raise OutputExistsError(f"{path} is a folder: give the name of a file.")
    if path.exists() and not path.is_file():  # the rename would replace it
        raise OutputExistsError(f"{path} is a pipe or a device: give the name of a file.")
    check_place(path, exists=path.exists(), force=force)


def check_place(path: Path, *, exists: bool, force: bool) -> None:
    """Refuse to overwrite an existing path without `force`, or to write to a missing folder."""
    if not path.parent.is_dir():
        raise DataNotFoundError(f"there is no folder {str(path.parent)!r} to write {path.name} in.")
    if exists and not force:
        raise OutputExistsError(f"{path} exists already: pass force=True to overwrite it.")


def temporary_beside(path: Path, ending: str = ".tmp") -> Path:
    """Make a hidden name in the same folder, so that the final rename stays on one file system.

    Temporary files that killed processes left for the same path are removed.
    """
    _sweep(path)
    writer = f"{_machine():08x}-{os.getpid()}"
    return path.with_name(f".{path.name}.{writer}-{secrets.token_hex(4)}{ending}")


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the shape, Fortran order and dtype from the header of an npy file."""
    if np.lib.format.read_magic(file) == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _sweep(path: Path) -> None:
    """Remove temporary files for a path whose writers, processes of this machine, have ended.

    An ``.old`` folder holds the previous content of `path`: it is removed only if the replacement
    exists.
    """
    pattern = re.compile(
        rf"\.{re.escape(path.name)}\.{_machine():08x}-(\d+)-[0-9a-f]{{8}}\.(tmp|old)"
    )
    with contextlib.suppress(OSError):  # a folder that cannot be listed is left as it is
        for left in os.scandir(path.parent):
            found = pattern.fullmatch(left.name)
            if found is None or _is_alive(int(found[1])):
                continue
            if left.is_dir(follow_symlinks=False):
                if found[2] == "tmp" or path.exists():
                    shutil.rmtree(left.path, ignore_errors=True)
            else:
                os.unlink(left.path)


@cache
def _machine() -> int:
    """Identify this machine and its PID namespace: a shared folder may have other writers."""
    try:
        processes = os.stat("/proc/self/ns/pid").st_ino  # differs between containers
    except OSError:
        processes = 0
    return zlib.crc32(f"{socket.gethostname()} {processes}".encode())


def _is_alive(pid: int) -> bool:
    if os.name != "posix":
        return True  # on Windows, os.kill would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True

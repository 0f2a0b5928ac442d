"""Atomic writing of files: a temporary file is renamed when it is complete."""

import contextlib
import itertools
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

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


def write_file(path: Path, content: str | bytes, *, force: bool) -> None:
    """Write a file as a whole, or not at all; text as UTF-8, with the ends of lines as they are."""
    with replacing(path, force=force) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


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
    """Make a hidden name in the same folder, so that the final rename stays on one file system."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{ending}")


def user_cache() -> Path:
    """The cache folder of the user: ``$XDG_CACHE_HOME/bagwise``, or ``~/.cache/bagwise``."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache_home).expanduser() / "bagwise"


# File names from ids


def distinct_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """A distinct, safe file name without suffix for each id: the id itself if possible.

    Parameters
    ----------
    names : iterable of str
        The ids.
    taken : iterable of str, default=()
        File names that are not used.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from bagwise._common.files import distinct_names
    >>> distinct_names(["a", "A", "b/c", "index"], taken=["index"])
    ['a', 'A_2', 'b_c', 'index_2']
    """
    names = list(names)
    safe = [re.sub(r"[^\w.+=-]+", "_", name)[:150].lstrip(".") or "unnamed" for name in names]
    found, used = list(safe), {name.lower() for name in taken}  # some file systems ignore case
    for i in sorted(range(len(names)), key=lambda i: safe[i] != names[i]):
        tries = itertools.chain([safe[i]], (f"{safe[i]}_{k}" for k in itertools.count(2)))
        found[i] = next(each for each in tries if each.lower() not in used)
        used.add(found[i].lower())
    return found

"""Check the zip archive of a model file, and the memory that it needs, before it is loaded."""

import io
import json
import stat
import zipfile
from typing import IO, Any

import numpy as np

from bagwise._common.files import npy_header
from bagwise._common.memory import byte_count

CHUNK = 2**20  # bytes inflated at a time
USUAL = 2**28  # bytes that any model may need, even in a small file
RATIO = 200  # maximum size of a larger model, as a multiple of its file
COPIES = 3  # of an array while it is read: inflated bytes, their buffer, the array
SCHEMA_COST = 20  # bytes in memory for a byte of JSON


class DamagedError(ValueError):
    """The archive is not a valid model file."""


def check_archive(file: IO[bytes]) -> None:
    """Raise `DamagedError` for an archive that cannot be read safely.

    It finds duplicate names, links, sizes that differ from the declared ones, arrays with less data
    than declared, and contents that are implausibly large for the file or the memory. At most one
    chunk of a member is kept in memory.

    Parameters
    ----------
    file : binary file
        The model file, open for reading.
    """
    sizes = _member_sizes(file, limit=byte_count(None))
    with zipfile.ZipFile(file) as archive:
        if "schema.json" not in sizes:
            raise DamagedError("it was not written by bagwise: schema.json is missing")
        if SCHEMA_COST * sizes["schema.json"] > byte_count(None):
            raise DamagedError(f"its schema.json of {sizes['schema.json']} bytes needs more memory")
        needed = COPIES * _referenced(archive.read("schema.json"), sizes)
    if needed > byte_count(None):
        raise DamagedError(f"it needs {needed / 1e9:.1f} GB of memory")
    if inflates_too_much(file):
        raise DamagedError(f"it inflates to more than {RATIO} times its size")


def inflates_too_much(file: IO[bytes]) -> bool:
    """Whether an archive inflates to an implausible multiple of its size.

    Parameters
    ----------
    file : binary file
        An archive, open for reading.

    Returns
    -------
    bool
    """
    with zipfile.ZipFile(file) as archive:
        inflated = sum(member.file_size for member in archive.infolist())
    packed = file.seek(0, io.SEEK_END)
    return inflated > max(USUAL, RATIO * packed)


def _member_sizes(file: IO[bytes], limit: int, *, nested: bool = False) -> dict[str, int]:
    """Sizes of the members in memory; inflates them in chunks to check the declared sizes."""
    sizes: dict[str, int] = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            name = member.filename
            if name in sizes:
                raise DamagedError(f"{name!r} occurs twice in it")
            if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
                raise DamagedError(f"{name!r} in it is a folder or a link")
            if member.file_size > limit:
                raise DamagedError(f"{name!r} in it has {member.file_size} bytes")
            sizes[name] = _inflated_size(archive, member)
            if name.endswith(".npz") and not nested:  # sparse arrays are nested archives
                inner = io.BytesIO(archive.read(member))
                sizes[name] += sum(_member_sizes(inner, limit, nested=True).values())
            if sum(sizes.values()) > limit:
                raise DamagedError(f"it inflates to more than {limit / 1e9:.1f} GB")
    return sizes


def _inflated_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    size, expected = 0, member.file_size
    with archive.open(member) as stream:
        if member.filename.endswith(".npy"):
            shape, _, dtype = npy_header(stream)
            if dtype.hasobject or any(length < 0 for length in shape):
                raise DamagedError("an array in it holds objects")
            expected = int(np.prod(shape, dtype=object)) * dtype.itemsize
        while size <= expected and (chunk := stream.read(CHUNK)):
            size += len(chunk)
    if size != expected:
        raise DamagedError(f"{member.filename!r} in it has another size than it declares")
    return size


def _referenced(schema: bytes, sizes: dict[str, int]) -> int:
    """Bytes that are loaded by all references of the schema to members."""
    followed: list[int] = []
    seen = set()

    def visit(node: dict[str, Any]) -> None:
        name, number = node.get("file"), node.get("__id__")
        if isinstance(name, str) and name in sizes and (name, repr(number)) not in seen:
            followed.append(sizes[name])
            if isinstance(number, int):  # a shared node is loaded once
                seen.add((name, repr(number)))

    json.loads(schema, object_hook=visit)
    return sum(followed)

"""Databases of Perch-Hoplite: windows of recordings, and an embedding of each.

Version 1 has the windows in ``hoplite.sqlite`` (deployments, recordings, windows) and the
embeddings in ``usearch.index`` beside it, by the id of the window. Earlier versions have the tables
``hoplite_sources`` and ``hoplite_embeddings``, with the embeddings in the same index or in a column
of the second table. All embeddings are 16-bit floats. Nothing is written, and neither Perch-Hoplite
nor USearch is needed.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.types import Array, Ints
from bagwise.exceptions import FileFormatError
from bagwise.extras import import_extra
from bagwise.io.sources import TableSource

DATABASE, INDEX = "hoplite.sqlite", "usearch.index"
_LENGTH = 5.0  # length of a window in seconds, if it is not stored
_PLACES = ("deployment", "project", "latitude", "longitude", "datetime")
_WINDOWS = """
    SELECT windows.id, recordings.filename, windows.offsets, deployments.name, deployments.project,
           deployments.latitude, deployments.longitude, recordings.datetime
    FROM windows JOIN recordings ON windows.recording_id = recordings.id
    LEFT JOIN deployments ON recordings.deployment_id = deployments.id ORDER BY windows.id
"""
_OLD_WINDOWS = """
    SELECT windows.id, sources.source, windows.offsets, sources.dataset
    FROM hoplite_embeddings AS windows
    JOIN hoplite_sources AS sources ON windows.source_idx = sources.id ORDER BY windows.id
"""
_BLOBS = "SELECT id, embedding FROM hoplite_embeddings WHERE id BETWEEN ? AND ? ORDER BY id"
# Layout of a USearch index, from its source code: vectors, a header, the nodes of the graph.
_HEAD, _FLOAT16, _UINT64, _UINT32 = 64, 12, 14, 15
_NODE = 8 + 2  # bytes of the key and the level; lists of neighbours follow, each with a length

Read = Callable[[int, int], Array]  # embeddings of the windows start:stop


class HopliteSource(TableSource):
    """The windows of a database, in the order of their ids, with embeddings read when needed.

    Parameters
    ----------
    path : Path
        The folder of the database, or its .sqlite file.
    """

    def __init__(self, path: Path) -> None:
        self._pa = pa = import_extra("pyarrow", extra="io")
        database = path / DATABASE if path.is_dir() else path
        ids, columns, has_blobs = _windows(database)
        if not len(ids):
            raise FileFormatError(f"{database} holds no windows.")
        if has_blobs:
            width, self._vectors = _in_table(database, ids)
        else:
            width, self._vectors = _in_index(database.with_name(INDEX), ids)
        self._columns = pa.table(columns)
        vector = pa.field("embedding", pa.list_(pa.float32(), width))
        super().__init__(self._columns.schema.append(vector), str(path))
        self.notes = {"bag": "file"}
        self.metadata = tuple(name for name in _PLACES if name in self.names)

    def read(self, names: Sequence[str]) -> Any:
        """The given columns as one pyarrow table."""
        schema = self._pa.schema([self._schema.field(name) for name in names])
        return self._pa.Table.from_batches(list(self.batches(names, 4096)), schema)

    def batches(self, names: Sequence[str], n_rows: int) -> Iterable[Any]:
        """The given columns as record batches of at most `n_rows` rows."""
        schema = self._pa.schema([self._schema.field(name) for name in names])
        width, n = self.width("embedding"), self._columns.num_rows
        for start in range(0, n, n_rows):
            stop = min(start + n_rows, n)
            part = self._columns.slice(start, stop - start).combine_chunks()
            arrays = []
            for name in names:
                if name == "embedding":
                    flat = self._pa.array(self._vectors(start, stop).astype(np.float32).ravel())
                    arrays.append(self._pa.FixedSizeListArray.from_arrays(flat, width))
                else:
                    arrays.append(part.column(name).combine_chunks())
            yield self._pa.record_batch(arrays, schema)


def _connected(database: Path) -> Any:
    """Open a database read-only, including its write-ahead log if there is one."""
    log = database.with_name(f"{database.name}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    return closing(sqlite3.connect(f"{database.resolve().as_uri()}?{how}", uri=True))


def _windows(database: Path) -> tuple[Ints, dict[str, list[Any]], bool]:
    """The ids of the windows, their columns, and whether embeddings are in the same table."""
    if not database.is_file():
        raise FileFormatError(f"there is no {database.name} in {database.parent}.")
    with _connected(database) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if {"windows", "recordings", "deployments"} <= tables:
            rows, offset_type, blobs = connection.execute(_WINDOWS).fetchall(), "<f8", False
        elif {"hoplite_embeddings", "hoplite_sources"} <= tables:
            rows, offset_type = connection.execute(_OLD_WINDOWS).fetchall(), "<f2"
            named = connection.execute("SELECT name FROM pragma_table_info('hoplite_embeddings')")
            blobs = ("embedding",) in named.fetchall()
        else:
            raise FileFormatError(
                f"{database} is not a Perch-Hoplite database: expected the tables recordings and "
                f"windows; it has {', '.join(sorted(tables)) or 'none'}."
            )
        length = _length(connection) if offset_type == "<f2" else _LENGTH
    times = [np.frombuffer(row[2], offset_type).astype(float) for row in rows]
    for (number, *_), time in zip(rows, times, strict=True):
        if len(time) not in (1, 2):
            raise FileFormatError(
                f"window {number} of {database} has {len(time)} offsets: expected a start, or a "
                "start and an end."
            )
    columns: dict[str, list[Any]] = {
        "file": _file_names([str(row[1]) for row in rows], [row[3] for row in rows]),
        "start": [float(time[0]) for time in times],
        "end": [float(time[1] if len(time) == 2 else time[0] + length) for time in times],
    }
    places = (
        [row[j] for row in rows] for j in range(3, 3 + len(_PLACES)) if rows and j < len(rows[0])
    )
    kept = zip(_PLACES, places, strict=False)
    columns |= {name: values for name, values in kept if any(v is not None for v in values)}
    return np.array([row[0] for row in rows], dtype=np.int64), columns, blobs


def _file_names(files: list[str], deployments: list[Any]) -> list[str]:
    """The file of each window, with its deployment if files of several have the same name."""
    pairs = set(zip(files, deployments, strict=True))
    if len(pairs) == len({file for file, _ in pairs}):
        return files
    each = zip(files, deployments, strict=True)
    return [file if place is None else f"{place}/{file}" for file, place in each]


def _length(connection: Any) -> float:
    """Length of a window in seconds, from the settings of the model if they are stored."""
    for (text,) in connection.execute("SELECT data FROM hoplite_metadata"):
        settings = json.loads(text)
        inner = settings.get("model_config", settings) if isinstance(settings, dict) else {}
        if isinstance(inner, dict) and isinstance(inner.get("window_size_s"), int | float):
            return float(inner["window_size_s"])
    return _LENGTH


def _in_table(database: Path, ids: Ints) -> tuple[int, Read]:
    """The length of the embeddings in a table, and a function that reads them."""

    def read(start: int, stop: int) -> Array:
        with _connected(database) as connection:
            first, last = int(ids[start]), int(ids[stop - 1])
            blobs = [blob for _, blob in connection.execute(_BLOBS, (first, last))]
        odd = next((i for i, blob in enumerate(blobs) if len(blob) != n_bytes), None)
        if odd is not None:
            raise FileFormatError(
                f"window {ids[start + odd]} of {database} has an embedding of {len(blobs[odd])} "
                f"bytes, but others have {n_bytes}."
            )
        return np.frombuffer(b"".join(blobs), "<f2").reshape(stop - start, -1)

    with _connected(database) as connection:
        first = int(ids[0])
        n_bytes = len(connection.execute(_BLOBS, (first, first)).fetchone()[1])
    if n_bytes == 0 or n_bytes % 2:
        raise FileFormatError(
            f"window {first} of {database} has an embedding of {n_bytes} bytes: expected floats of "
            "16 bits."
        )
    return n_bytes // 2, read


def _in_index(path: Path, ids: Ints) -> tuple[int, Read]:
    """The length of the embeddings in a USearch index, and a function that reads them."""
    if not path.is_file():
        raise FileFormatError(
            f"there is no {path.name} in {path.parent}, which holds the embeddings: give the whole "
            "folder of the database."
        )
    vectors, keys = _index(path)
    order = np.argsort(keys)
    place = np.searchsorted(keys, ids.astype(np.uint64), sorter=order)
    slots = order[np.minimum(place, len(order) - 1)]
    absent = np.flatnonzero(keys[slots] != ids.astype(np.uint64))
    if len(absent):
        raise FileFormatError(
            f"window {ids[absent[0]]} has no embedding in {path} ({len(absent)} of {len(ids)} have "
            "none): commit the database with Perch-Hoplite first."
        )
    return vectors.shape[1], lambda start, stop: vectors[slots[start:stop]]


def _index(path: Path) -> tuple[Array, Array]:
    """The vectors of a USearch index, memory-mapped, and their keys."""
    content = np.memmap(path, np.uint8, "r")

    def numbers(start: int, kind: str, n: int) -> list[int]:
        return np.frombuffer(content[start : start + n * int(kind[-1])], kind, n).tolist()

    rows, n_bytes = numbers(0, "<u4", 2)
    head = 8 + rows * n_bytes
    if bytes(content[head : head + 7]) != b"usearch":
        raise FileFormatError(f"{path} is not a USearch index, or it is damaged.")
    kinds = content[head + 14 : head + 17].tolist()
    if kinds != [_FLOAT16, _UINT64, _UINT32] or n_bytes == 0 or n_bytes % 2:
        raise FileFormatError(
            f"{path} holds vectors or keys of another type than Perch-Hoplite writes: expected "
            "16-bit floats by 64-bit keys."
        )
    size, connectivity, base = numbers(head + _HEAD, "<u8", 3)
    levels_at = head + _HEAD + 40
    nodes_at = levels_at + 2 * size
    if size != rows or nodes_at > len(content):
        raise FileFormatError(f"{path} has {rows} vectors and {size} nodes: it is damaged.")
    levels = np.frombuffer(content[levels_at:nodes_at], "<i2").astype(np.int64)
    lengths = _NODE + 4 * (base + 1) + levels * 4 * (connectivity + 1)
    starts = nodes_at + np.concatenate([[0], np.cumsum(lengths)])
    if levels.min(initial=0) < 0 or starts[-1] != len(content):
        raise FileFormatError(f"{path} has another length than its nodes: it is damaged.")
    keys = content[starts[:-1, None] + np.arange(8)]
    vectors = np.memmap(path, "<f2", "r", offset=8, shape=(rows, n_bytes // 2))
    return vectors, np.ascontiguousarray(keys).view("<u8").ravel()

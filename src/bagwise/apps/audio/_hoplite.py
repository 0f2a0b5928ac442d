"""Databases of Perch-Hoplite: windows of recordings, and an embedding of each.

The windows are in ``hoplite.sqlite`` (deployments, recordings, windows), their embeddings, 16-bit
floats, in ``usearch.index`` beside it, by the id of the window. Nothing is written. Needs usearch,
but not Perch-Hoplite, which installs notebooks and cloud clients. Databases of versions before 1.0
have other tables; Perch-Hoplite migrates them.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.types import Array
from bagwise.apps.audio._tables import as_table
from bagwise.exceptions import FileFormatError
from bagwise.extras import import_extra

DATABASE, INDEX = "hoplite.sqlite", "usearch.index"
_LENGTH = 5.0  # length of a window in seconds, if it is not stored
_PLACES = ("deployment", "project", "latitude", "longitude", "datetime")
_WINDOWS = """
    SELECT windows.id, recordings.filename, windows.offsets, deployments.name, deployments.project,
           deployments.latitude, deployments.longitude, recordings.datetime
    FROM windows JOIN recordings ON windows.recording_id = recordings.id
    LEFT JOIN deployments ON recordings.deployment_id = deployments.id ORDER BY windows.id
"""


def read_hoplite(path: Path) -> Any:
    """Read the windows of a database, in the order of their ids, with their embeddings.

    Parameters
    ----------
    path : Path
        The folder of the database, or its .sqlite file.

    Returns
    -------
    pyarrow.Table
        See `read_recordings`; also the columns ``deployment``, ``project``, ``latitude``,
        ``longitude`` and ``datetime``, if they have values.
    """
    database = path / DATABASE if path.is_dir() else path
    log = database.with_name(f"{database.name}-wal")
    # Without a log nothing else writes: SQLite then needs no file of locks in the folder.
    how = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    address = f"{database.resolve().as_uri()}?{how}"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        try:
            rows = connection.execute(_WINDOWS).fetchall()
        except sqlite3.OperationalError as error:
            raise FileFormatError(
                f"{database} is not a database of Perch-Hoplite 1.0 or later ({error}). "
                "Perch-Hoplite migrates older databases (99_migrate_db.ipynb)."
            ) from error
    if not rows:
        raise FileFormatError(f"{database} contains no windows.")
    ids, files, offsets, *values = zip(*rows, strict=True)
    times = [np.frombuffer(each, "<f8").tolist() for each in offsets]
    pairs = list(zip(files, values[0], strict=True))
    if len(set(pairs)) > len(set(files)):  # files of several deployments have the same name
        files = tuple(file if place is None else f"{place}/{file}" for file, place in pairs)
    columns: dict[str, Any] = {
        "file": list(map(str, files)),
        "start": [time[0] for time in times],
        "end": [time[1] if len(time) > 1 else time[0] + _LENGTH for time in times],
    }
    known = {n: v for n, v in zip(_PLACES, values, strict=True) if set(v) != {None}}
    return as_table(columns | known, _from_index(database.with_name(INDEX), ids), list(known))


def _from_index(path: Path, ids: tuple[int, ...]) -> Array:
    """The embeddings of windows in a USearch index."""
    if not path.is_file():
        raise FileFormatError(
            f"there is no {path.name} in {path.parent}, which contains the embeddings: give the "
            "whole folder of the database."
        )
    index: Any = import_extra("usearch.index", extra="audio")
    keys = np.array(ids, np.uint64)
    try:
        vectors = index.Index.restore(str(path), view=True)
        found = vectors.contains(keys)
    except (RuntimeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{path} is not a USearch index, or it is damaged.") from error
    if not found.all():
        raise FileFormatError(
            f"window {ids[int(found.argmin())]} has no embedding in {path} "
            f"({int((~found).sum())} of {len(ids)} have none): commit the database with "
            "Perch-Hoplite first."
        )
    return np.asarray(vectors.get(keys, dtype="f32"))

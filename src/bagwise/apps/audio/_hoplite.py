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
    with closing(_connect(database)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not {"windows", "recordings", "deployments"} <= tables:
            raise FileFormatError(
                f"{database} is not a database of Perch-Hoplite 1.0 or later: expected the tables "
                f"recordings and windows; it has {', '.join(sorted(tables)) or 'none'}. "
                "Perch-Hoplite migrates older databases (99_migrate_db.ipynb)."
            )
        rows = connection.execute(_WINDOWS).fetchall()
    if not rows:
        raise FileFormatError(f"{database} contains no windows.")
    ids = [row[0] for row in rows]
    vectors = _from_index(database.with_name(INDEX), ids)
    times = [np.frombuffer(row[2], "<f8").tolist() for row in rows]
    odd = next((i for i, time in enumerate(times) if len(time) not in (1, 2)), None)
    if odd is not None:
        raise FileFormatError(
            f"window {ids[odd]} of {database} has {len(times[odd])} offsets: expected a start, or "
            "a start and an end."
        )
    columns: dict[str, Any] = {
        "file": _file_names([str(row[1]) for row in rows], [row[3] for row in rows]),
        "start": [time[0] for time in times],
        "end": [time[1] if len(time) == 2 else time[0] + _LENGTH for time in times],
    }
    places = dict(zip(_PLACES, list(zip(*rows, strict=True))[3:], strict=False))
    known = {name: values for name, values in places.items() if set(values) != {None}}
    return as_table(columns | known, vectors, list(known))


def _connect(database: Path) -> sqlite3.Connection:
    """Open a database read-only, including its write-ahead log if there is one."""
    if not database.is_file():
        raise FileFormatError(f"there is no {database.name} in {database.parent}.")
    log = database.with_name(f"{database.name}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    return sqlite3.connect(f"{database.resolve().as_uri()}?{how}", uri=True)


def _file_names(files: list[str], deployments: list[Any]) -> list[str]:
    """The file of each window, with its deployment if files of several have the same name."""
    pairs = list(zip(files, deployments, strict=True))
    if len(set(pairs)) == len(set(files)):
        return files
    return [file if place is None else f"{place}/{file}" for file, place in pairs]


def _from_index(path: Path, ids: list[int]) -> Array:
    """The embeddings of windows in a USearch index."""
    if not path.is_file():
        raise FileFormatError(
            f"there is no {path.name} in {path.parent}, which contains the embeddings: give the "
            "whole folder of the database."
        )
    index: Any = import_extra("usearch.index", extra="audio")
    try:
        vectors = index.Index.restore(str(path), view=True)
        found = vectors.contains(np.array(ids, np.uint64))
    except (RuntimeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{path} is not a USearch index, or it is damaged.") from error
    if not found.all():
        raise FileFormatError(
            f"window {ids[int(found.argmin())]} has no embedding in {path} "
            f"({int((~found).sum())} of {len(ids)} have none): commit the database with "
            "Perch-Hoplite first."
        )
    return np.asarray(vectors.get(np.array(ids, np.uint64), dtype="f32"))

"""Results on disk: one JSON line per unit, written at once, so that a killed run loses nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bagwise.exceptions import BagwiseError
from reproduction._units import Unit

__all__ = ["Store"]


class Store:
    """The results of an experiment in an append-only file.

    Parameters
    ----------
    path : Path
        The JSON-lines file; it and its folder are created with the first result.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from reproduction import Store
    >>> store = Store(pathlib.Path(tempfile.mkdtemp()) / "table1.jsonl")
    >>> store.append({"unit": "table1/fox/sil", "settings": "abc", "result": {"accuracy": 0.5}})
    >>> [record["result"] for record in store.read()]
    [{'accuracy': 0.5}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """Read all records; skip a line that a killed run left incomplete."""
        if not self.path.exists():
            return []
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError as error:
            raise BagwiseError(f"{self.path} cannot be read: {error}.") from error
        return [record for line in lines if (record := _parse(line)) is not None]

    def append(self, record: dict[str, Any]) -> None:
        """Append a record and flush it to disk.

        Parameters
        ----------
        record : dict
            Plain Python values or NumPy arrays and scalars.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(record, default=_plain, ensure_ascii=False).encode() + b"\n"
        with open(self.path, "ab+") as file:
            if not _ends_a_line(file):  # a killed run left an incomplete line: start a new one
                line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def records(self, units: Iterable[Unit]) -> dict[str, dict[str, Any]]:
        """Find the latest record of each unit that has the unit's settings.

        Parameters
        ----------
        units : iterable of Unit
            The units.

        Returns
        -------
        dict of str to dict
            The records by unit name; a failure only if the unit never succeeded.
        """
        wanted = {unit.name: unit.fingerprint for unit in units}
        found: dict[str, dict[str, Any]] = {}
        for record in self.read():
            name = record.get("unit", "")
            news = "result" in record or "result" not in found.get(name, {})
            if news and wanted.get(name) == record.get("settings"):
                found[name] = record
        return found


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _ends_a_line(file: Any) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _plain(value: Any) -> Any:
    return value.tolist()

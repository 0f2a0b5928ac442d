"""The file of corrections: every decision of a person about an instance, in a SQLite database.

Rows are never changed: a decision is a new row of ``decisions``, and so is its undoing. The view
``corrections`` (bag, row, size, label) has the current labels. Decisions about label sets are rows
of ``set_decisions``, with the view ``set_corrections`` (bag, label, present). Each row is one
transaction that SQLite syncs to disk before the page moves on, so that a crash loses nothing.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from bagwise.exceptions import BagwiseError, FileFormatError
from bagwise.io._files import format_errors

APPLICATION = 0x62616773  # "bags", in the header of the file, as in schema.sql
VERSION = 2  # version 1 has no decisions about label sets
_NOW = "strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"
_LAST = "SELECT id, bag, row, size FROM standing ORDER BY id DESC LIMIT 1"
_SKIPPED = (
    "SELECT DISTINCT bag, row FROM standing WHERE kind = 'skipped'"
    " EXCEPT SELECT bag, row FROM corrections"
)


class ConflictError(BagwiseError, RuntimeError):
    """Another page or process made a later decision than the one that the person saw."""


class Correction(NamedTuple):
    """The label that a person gave to an instance.

    Attributes
    ----------
    bag : str
        The id of the bag as a string; its position if bags have no ids.
    row : int
        The instance, counted from 0 inside its bag.
    size : int or None
        Number of instances of the bag at that time; None if unknown.
    label : str
        The name of the label.
    """

    bag: str
    row: int
    size: int | None
    label: str


class SetCorrection(NamedTuple):
    """A decision of a person on whether a bag has a label."""

    bag: str
    label: str
    present: bool


class Corrections(AbstractContextManager["Corrections"]):
    """The decisions of a person about instances, saved to a file immediately.

    Parameters
    ----------
    path : path
        The SQLite file; created if it does not exist, otherwise continued.
    patience : float, default=30
        Seconds to wait for another process that writes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bagwise.apps.review import Corrections
    >>> folder = tempfile.TemporaryDirectory()
    >>> corrections = Corrections(Path(folder.name) / "syllables.corrections.sqlite")
    >>> corrections.decide("rec1", 3, 8, "wren", guess="robin", probability=0.52)
    >>> corrections.all()
    [Correction(bag='rec1', row=3, size=8, label='wren')]
    >>> corrections.undo()
    ('rec1', 3)
    >>> corrections.all()
    []
    >>> corrections.close()
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, *, patience: float = 30.0) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            # Transactions begin explicitly: several threads share the connection.
            self._file = sqlite3.connect(
                self.path, check_same_thread=False, isolation_level=None, timeout=patience
            )
            # A commit ends when the journal is deleted. EXTRA syncs the folder too, so that a power
            # failure cannot restore the journal and roll back an acknowledged decision.
            self._file.execute("PRAGMA synchronous = EXTRA")
            self._prepare()
        except sqlite3.Error as error:
            raise FileFormatError(
                f"{self.path} cannot be used as a file of corrections: {error}."
            ) from error

    def decide(
        self,
        bag: str,
        row: int,
        size: int,
        label: str | None,
        *,
        guess: str,
        probability: float,
        after: int | None = None,
    ) -> None:
        """Save the label that a person gave to an instance.

        Parameters
        ----------
        bag, row, size, label : str, int, int, str
            As in `Correction`; the label is None if the person skipped the instance.
        guess : str
            The prediction of the model.
        probability : float
            The probability of the prediction.
        after : int, default=None
            The number of the last decision about the instance that the person saw, from
            `last_about`; `ConflictError` if there is a later one. None: not checked.
        """
        kind = "corrected" if label != guess else "confirmed"
        kind = "skipped" if label is None else kind
        with self._transaction():
            if after is not None and after != self.last_about(bag, row):
                raise ConflictError(f"instance {row} of {bag} was decided in the meantime.")
            self._append(kind, bag, row, size, label, guess, probability)

    def undo(self, after: int | None = None) -> tuple[str, int] | None:
        """Undo the last decision.

        Parameters
        ----------
        after : int, default=None
            The number of the decision to undo, from `last`; `ConflictError` if it is not the last
            one. None: not checked.

        Returns
        -------
        tuple (bag, row) or None
            The instance of the decision; None if there is nothing to undo.
        """
        with self._transaction():
            last = self._file.execute(_LAST).fetchone()
            if after is not None and after != (0 if last is None else last[0]):
                raise ConflictError("there is a later decision than the one to undo.")
            if last is None:
                return None
            number, bag, row, size = last
            self._append("undone", bag, row, size, None, None, None, undoes=number)
        return bag, row

    def last(self) -> int:
        """Number of the last decision that was not undone; 0 if there is none."""
        last = self._file.execute(_LAST).fetchone()
        return 0 if last is None else int(last[0])

    def last_about(self, bag: str, row: int) -> int:
        """Number of the last decision, skip or undo about an instance; 0 if there is none."""
        asked = "SELECT max(id) FROM decisions WHERE bag = ? AND row = ?"
        return int(self._file.execute(asked, (bag, row)).fetchone()[0] or 0)

    def all(self) -> list[Correction]:
        """The current labels of instances, in the order of the decisions."""
        return [Correction(*row) for row in self._file.execute("SELECT * FROM corrections")]

    def decide_set(self, bag: str, label: str, present: bool | None, *, doubt: float) -> None:
        """Save a decision on whether a bag has a label.

        Parameters
        ----------
        bag, label : str
            As in `SetCorrection`.
        present : bool or None
            Whether the bag has it; None undoes an earlier decision.
        doubt : float
            The probability that the label set is wrong, by the model.
        """
        with self._transaction():
            self._file.execute(
                "INSERT INTO set_decisions (time, bag, label, present, doubt)"
                f" VALUES ({_NOW}, ?, ?, ?, ?)",
                (bag, label, present, doubt),
            )

    def sets(self) -> list[SetCorrection]:
        """The current decisions about label sets, one per bag and label, in their order."""
        rows = self._file.execute("SELECT * FROM set_corrections")
        return [SetCorrection(bag, label, bool(present)) for bag, label, present in rows]

    def skipped(self) -> list[tuple[str, int]]:
        """The instances (bag, row) that a person skipped and did not decide."""
        return self._file.execute(_SKIPPED).fetchall()

    def counts(self) -> dict[str, int]:
        """The number of ``confirmed``, ``corrected`` and ``skipped`` decisions, without undone."""
        found = dict(self._file.execute("SELECT kind, count(*) FROM standing GROUP BY kind"))
        return {kind: found.get(kind, 0) for kind in ("confirmed", "corrected", "skipped")}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._file:
            self._file.execute("BEGIN IMMEDIATE")  # no other process writes until the commit
            yield

    def _append(self, *values: Any, undoes: int | None = None) -> None:
        self._file.execute(
            "INSERT INTO decisions (time, kind, bag, row, size, label, guess, probability, undoes)"
            f" VALUES ({_NOW}, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, undoes),
        )

    def _prepare(self) -> None:
        """Check an existing file; create the tables that are absent."""
        facts = "SELECT * FROM pragma_application_id, pragma_user_version"
        application, version = self._file.execute(facts).fetchone()
        has_tables = self._file.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None
        is_ours = application == APPLICATION and 1 <= version <= VERSION
        if not is_ours and (application or version or has_tables):  # not a new file
            raise FileFormatError(
                f"{self.path} is not a file of corrections that this version of `bagwise review` "
                f"reads (format version {version}, expected 1 to {VERSION})."
            )
        if version < VERSION:
            schema = resources.files("bagwise.apps.review") / "schema.sql"
            self._file.executescript(schema.read_text("utf-8"))


def read_corrections(path: Path) -> tuple[list[Correction], list[SetCorrection]]:
    """Read the current decisions about instances and about label sets from a file.

    Parameters
    ----------
    path : Path
        A file written by `Corrections` (``bagwise review``).

    Returns
    -------
    corrections : list of Correction
    set_corrections : list of SetCorrection
    """
    with format_errors(path), Corrections(path) as corrections:
        return corrections.all(), corrections.sets()

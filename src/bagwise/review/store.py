"""The file of corrections: every decision of a person about an instance, in a SQLite database.

Rows are never changed: a decision is a new row of ``decisions``, and so is its undoing. The view
``corrections`` (bag, row, size, label) has the current labels. Decisions about label sets are rows
of ``set_decisions``, with the view ``set_corrections`` (bag, label, present). Each row is one
transaction that SQLite syncs to disk, so that a crash loses nothing.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Self

from bagwise.bags import Bags
from bagwise.exceptions import BagwiseError, DataNotFoundError, FileFormatError, InputError

APPLICATION = 0x62616773  # "bags", in the header of the file
VERSION = 2  # version 1 has no decisions about label sets
PATIENCE = 30.0  # seconds to wait for another process that writes
_LAST = "SELECT id, bag, row, size FROM standing ORDER BY id DESC LIMIT 1"


class ConflictError(BagwiseError, RuntimeError):
    """Another page or process made a later decision than the one that the person saw."""


@dataclass(frozen=True)
class Correction:
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


@dataclass(frozen=True)
class SetCorrection:
    """A decision of a person on whether a bag has a label.

    Attributes
    ----------
    bag : str
        The id of the bag as a string.
    label : str
        The name of the label.
    present : bool
        Whether the bag has the label.
    """

    bag: str
    label: str
    present: bool


class Corrections:
    """The decisions of a person about instances, saved to a file immediately.

    Parameters
    ----------
    path : path
        The SQLite file; created if it does not exist, otherwise continued.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bagwise.review import Corrections
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

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        if not self.path.parent.is_dir():
            raise DataNotFoundError(
                f"there is no folder {str(self.path.parent)!r} to write {self.path.name} in."
            )
        with _reading(self.path):
            self._file = _connect(self.path, "rwc")
            # A commit ends when the journal is deleted. EXTRA syncs the folder too, so that a power
            # failure cannot restore the journal and roll back an acknowledged decision.
            self._file.execute("PRAGMA synchronous = EXTRA")
            self._prepare()

    def decide(
        self,
        bag: str,
        row: int,
        size: int,
        label: str,
        *,
        guess: str,
        probability: float,
        after: int | None = None,
    ) -> None:
        """Save the label that a person gave to an instance.

        Parameters
        ----------
        bag, row, size, label : str, int, int, str
            As in `Correction`.
        guess : str
            The prediction of the model.
        probability : float
            The probability of the prediction.
        after : int, default=None
            The number of the last decision about the instance that the person saw, from
            `last_about`; `ConflictError` if there is a later one. None: not checked.
        """
        kind = "confirmed" if label == guess else "corrected"
        self._add(kind, bag, row, size, label, guess, probability, after=after)

    def skip(
        self,
        bag: str,
        row: int,
        size: int,
        *,
        guess: str,
        probability: float,
        after: int | None = None,
    ) -> None:
        """Save that a person skipped the instance.

        Parameters
        ----------
        bag, row, size : str, int, int
            As in `Correction`.
        guess : str
            The prediction of the model.
        probability : float
            The probability of the prediction.
        after : int, default=None
            As in `decide`.
        """
        self._add("skipped", bag, row, size, None, guess, probability, after=after)

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
        with self._lock, self._file:
            self._file.execute("BEGIN IMMEDIATE")
            last = self._file.execute(_LAST).fetchone()
            if after is not None and after != (0 if last is None else last[0]):
                raise ConflictError("there is a later decision than the one to undo.")
            if last is None:
                return None
            self._insert("undone", *last[1:], None, None, None, undoes=last[0])
        return last[1], last[2]

    def last(self) -> int:
        """Number of the last decision that was not undone.

        Returns
        -------
        int
            0 if there is none.
        """
        with self._lock:
            last = self._file.execute(_LAST).fetchone()
        return 0 if last is None else int(last[0])

    def last_about(self, bag: str, row: int) -> int:
        """Number of the last decision, skip or undo about an instance.

        Parameters
        ----------
        bag, row : str, int
            As in `Correction`.

        Returns
        -------
        int
            0 if there is none.
        """
        with self._lock:
            return self._last_about(bag, row)

    def all(self) -> list[Correction]:
        """List the current labels of instances.

        Returns
        -------
        list of Correction
            One per instance that was decided, in the order of the decisions.
        """
        with self._lock:
            return _corrections(self._file)

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
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        values = (now, bag, label, None if present is None else int(present), doubt)
        with self._lock, self._file:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.execute(
                "INSERT INTO set_decisions (time, bag, label, present, doubt)"
                " VALUES (?, ?, ?, ?, ?)",
                values,
            )

    def sets(self) -> list[SetCorrection]:
        """List the current decisions about label sets.

        Returns
        -------
        list of SetCorrection
            One per bag and label, in the order of the decisions.
        """
        with self._lock:
            return _set_corrections(self._file)

    def skipped(self) -> list[tuple[str, int]]:
        """List the instances that a person skipped.

        Returns
        -------
        list of tuple (bag, row)
        """
        with self._lock:
            rows = self._file.execute(
                "SELECT DISTINCT bag, row FROM standing WHERE kind = 'skipped'"
                " EXCEPT SELECT bag, row FROM corrections"
            )
            return [tuple(row) for row in rows]

    def counts(self) -> dict[str, int]:
        """Count the decisions that were not undone, by kind.

        Returns
        -------
        dict of str to int
            ``confirmed``, ``corrected`` and ``skipped``.
        """
        with self._lock:
            found = dict(self._file.execute("SELECT kind, count(*) FROM standing GROUP BY kind"))
        return {kind: found.get(kind, 0) for kind in ("confirmed", "corrected", "skipped")}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, *values: Any, after: int | None) -> None:
        with self._lock, self._file:
            self._file.execute("BEGIN IMMEDIATE")  # no other process writes until the commit
            _, bag, row, *_ = values
            if after is not None and after != self._last_about(bag, row):
                raise ConflictError(f"instance {row} of {bag} was decided in the meantime.")
            self._insert(*values)

    def _last_about(self, bag: str, row: int) -> int:
        found = self._file.execute(
            "SELECT max(id) FROM decisions WHERE bag = ? AND row = ?", (bag, row)
        )
        return int(found.fetchone()[0] or 0)

    def _insert(self, *values: Any, undoes: int | None = None) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._file.execute(
            "INSERT INTO decisions (time, kind, bag, row, size, label, guess, probability, undoes)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (now, *values, undoes),
        )

    def _prepare(self) -> None:
        """Create the tables of a new file, or check those of an existing file."""
        empty = self._file.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        if empty and _header(self._file) == (0, 0):
            schema = _script("schema.sql")
            settings = {"application": APPLICATION, "version": VERSION, "sets": _script("sets.sql")}
            self._file.executescript(schema.format(**settings))
        _check_header(self._file, self.path)
        if _header(self._file)[1] < VERSION:
            more = f"{_script('sets.sql')}PRAGMA user_version = {VERSION};"
            self._file.executescript(f"BEGIN IMMEDIATE;{more}COMMIT;")


def read_corrections(path: str | Path) -> list[Correction]:
    """Read the current corrections of instance labels from a file.

    Parameters
    ----------
    path : path
        A file written by `Corrections` (``bagwise review``).

    Returns
    -------
    list of Correction
    """
    path = Path(path)
    if not path.is_file():
        raise DataNotFoundError(f"no file of corrections {str(path)!r}: see `bagwise review`.")
    with _reading(path), contextlib.closing(_connect(path, "rw")) as file:
        _check_header(file, path)
        return _corrections(file)


def read_set_corrections(path: str | Path) -> list[SetCorrection]:
    """Read the current corrections of label sets from a file.

    Parameters
    ----------
    path : path
        A file written by `Corrections` (``bagwise review``).

    Returns
    -------
    list of SetCorrection
    """
    path = Path(path)
    if not path.is_file():
        raise DataNotFoundError(f"no file of corrections {str(path)!r}: see `bagwise review`.")
    with _reading(path), contextlib.closing(_connect(path, "rw")) as file:
        _check_header(file, path)
        return _set_corrections(file) if _header(file)[1] > 1 else []


def match_corrections(
    corrections: Iterable[Correction], bags: Bags, names: Mapping[str, Any]
) -> tuple[list[Any], int]:
    """Match corrections with the instances of bags.

    Parameters
    ----------
    corrections : iterable of Correction
        The corrections.
    bags : Bags
        The bags, which are matched by their ids as strings.
    names : mapping of str to object
        The label of each name; a name that is not included stays a string.

    Returns
    -------
    instance_labels : list of length n_instances
        The label of each instance, None without a correction.
    n_used : int
        Number of corrections about these bags.
    """
    position = {name: i for i, name in enumerate(written_names(bags))}
    labels: list[Any] = [None] * bags.n_instances
    n_used = 0
    for correction in corrections:
        bag = position.get(correction.bag)
        if bag is None:
            continue
        if correction.size is None and not 0 <= correction.row < bags.sizes[bag]:
            raise InputError(
                f"there is no row {correction.row} in {bags.name_of(bag)}, which has "
                f"{bags.sizes[bag]} instances: rows are counted from 0 inside the bag."
            )
        if correction.size not in (None, bags.sizes[bag]):
            raise InputError(
                f"{bags.name_of(bag)} had {correction.size} instances when it was reviewed, and "
                f"has {bags.sizes[bag]} now: correct the file that was reviewed, or review this "
                "one."
            )
        place = int(bags.offsets[bag]) + correction.row
        labels[place] = names.get(correction.label, correction.label)
        n_used += 1
    return labels, n_used


def written_names(bags: Bags) -> list[str]:
    """The ids of bags as strings, for decisions; an error if two bags have the same.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    list of str
        Positions if bags have no ids.
    """
    names = [str(name) for name in bags.names.tolist()]
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if first.setdefault(name, i) != i:
            raise InputError(
                f"bags {first[name]} and {i} are both called {name!r}, so that decisions about "
                "one would count for the other: give every bag its own id."
            )
    return names


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode={mode}"
    # The threads of the server share the connection with a lock; transactions begin explicitly.
    return sqlite3.connect(
        address, uri=True, check_same_thread=False, isolation_level=None, timeout=PATIENCE
    )


def _corrections(file: sqlite3.Connection) -> list[Correction]:
    return [Correction(*row) for row in file.execute("SELECT * FROM corrections")]


def _set_corrections(file: sqlite3.Connection) -> list[SetCorrection]:
    rows = file.execute("SELECT * FROM set_corrections")
    return [SetCorrection(bag, label, bool(present)) for bag, label, present in rows]


def _script(name: str) -> str:
    return (resources.files("bagwise.review") / name).read_text("utf-8")


def _header(file: sqlite3.Connection) -> tuple[int, int]:
    application = file.execute("PRAGMA application_id").fetchone()[0]
    return application, file.execute("PRAGMA user_version").fetchone()[0]


def _check_header(file: sqlite3.Connection, path: Path) -> None:
    application, version = _header(file)
    if application != APPLICATION:
        raise FileFormatError(f"{path} is not a file of corrections written by `bagwise review`.")
    if not 1 <= version <= VERSION:
        raise FileFormatError(
            f"{path} has the format version {version}, expected at most {VERSION}: install the "
            "version of bagwise that wrote it."
        )


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise FileFormatError(
            f"{path} cannot be used as a file of corrections: {error}."
        ) from error

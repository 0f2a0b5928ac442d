"""Known labels of instances: read and write them as files, match them with instances and bags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.types import Bools
from bagwise.apps.audio._recordings import recordings
from bagwise.apps.audio._selections import Selection, match_selections, read_selections
from bagwise.apps.review._label_studio import as_correction, read_annotated, write_annotated
from bagwise.apps.review._queue import match_corrections
from bagwise.apps.review._store import Correction, SetCorrection, read_corrections
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.io._contents import Contents
from bagwise.io._files import FORMATS, format_errors
from bagwise.io._table import read_written
from bagwise.io._write_table import write_columns
from bagwise.labels import Labels

_TABLES = tuple(ending for kind in ("csv", "tsv", "parquet") for ending in FORMATS[kind])


@dataclass
class Known:
    """Labels that people have given, from ``--corrections``.

    Attributes
    ----------
    corrections : list of Correction
        Labels of instances, by bag and row.
    selections : list of Selection
        Labels of parts of recordings, from Raven or Audacity; `correct_sets` finds their clips.
    sets : list of SetCorrection
        Labels that bags have or do not have.
    note : callable
        Called with each sentence for the user.
    """

    corrections: list[Correction] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    sets: list[SetCorrection] = field(default_factory=list)
    note: Callable[[str], None] = lambda _: None

    def correct_sets(self, labels: Labels, data: Contents) -> Labels:
        """Apply the corrections of label sets, and add the labels of corrected instances.

        Parameters
        ----------
        labels : Labels
            The label of each bag, or its label set; unknown sets stay unknown.
        data : Contents
            The bags, in whose clips Raven and Audacity have labelled parts of recordings.

        Returns
        -------
        Labels
        """
        self._locate(data)
        if self.sets and not labels.has_sets:
            raise InputError(
                "--corrections has decisions about label sets, and these bags have one label "
                "each: name the column of their sets with --label-set."
            )
        if not labels.has_sets:
            return labels
        place = {str(name): i for i, name in enumerate(data.bags.names.tolist())}
        column = {name: k for k, name in enumerate(labels.names)}
        indicator = labels.indicator.copy()
        used = [each for each in self.sets if each.bag in place and each.label in column]
        for bag, label, present in used:
            if labels.known[place[bag]]:
                indicator[place[bag], column[label]] = present
        if used:
            self.note(f"{len(used)} labels of bags are known from corrections.")
        for bag, _, _, label in self.corrections:
            if bag in place and label in column and indicator[place[bag], column[label]] == 0:
                indicator[place[bag], column[label]] = 1
                name = data.bags.name_of(place[bag])
                self.note(f"{label} is added to the label set of {name}: see --corrections.")
        return Labels("sets", labels.classes, indicator=indicator, names=labels.names)

    def _locate(self, data: Contents) -> None:
        """Turn selections into corrections of the clips that they cover."""
        if not self.selections:
            return
        if data.clips is None:
            raise InputError(
                "--corrections of Raven or Audacity need a table with the columns file, start and "
                "end."
            )
        bags, clips = data.bags, data.clips
        found = match_selections(self.selections, recordings(data), clips.start, clips.end)
        for i, label in found.items():
            bag = int(bags.bag_index[i])
            row, size = i - int(bags.offsets[bag]), int(bags.sizes[bag])
            self.corrections.append(Correction(str(bags.names[bag]), row, size, label))
        self.selections = []

    def about(self, bags: Bags) -> Bools:
        """Whether each bag has an instance with a known label, after `correct_sets`."""
        named = {correction.bag for correction in self.corrections}
        return np.array([str(name) in named for name in bags.names.tolist()], dtype=bool)

    def match(self, bags: Bags, names: Mapping[str, Any], background: Any) -> list[Any] | None:
        """The known label of each instance, after `correct_sets`; None if there are no corrections.

        Parameters
        ----------
        bags : Bags
            The bags to learn from.
        names : mapping of str to label
            The labels by their string form.
        background : object
            The parameter ``background`` of the method.

        Returns
        -------
        list or None
            A label or None for each instance.
        """
        if not self.corrections:
            return None
        named = {} if isinstance(background, bool | None) else {str(background): background}
        labels, n_used = match_corrections(self.corrections, bags, {**named, **names})
        n_unused = len(self.corrections) - n_used
        if n_used == 0:
            raise InputError(
                f"none of the {n_unused} corrections is about a bag of this file: the first names "
                f"the bag {self.corrections[0].bag!r}."
            )
        more = f"; {n_unused} more are about bags that are not used" if n_unused else ""
        self.note(f"{n_used} instances are known from corrections{more}.")
        return labels


def read_known(path: Path, note: Callable[[str], None]) -> Known:
    """Read a file of corrections of any kind.

    Parameters
    ----------
    path : Path
        A file of ``bagwise review``, one of its exports, or labels of Raven or Audacity.
    note : callable
        Called with each sentence for the user.

    Returns
    -------
    Known
    """
    name, found = path.name.lower(), Known(note=note)
    if path.is_dir() or name.endswith(".txt"):
        with format_errors(path):
            selections = read_selections(path)
        found.selections = [each for each in selections if not each.is_guess]
        if n_guesses := len(selections) - len(found.selections):
            note(f"{n_guesses} labels in {path} were not changed and are ignored.")
    elif name.endswith((".json", *_TABLES)):
        read = read_annotated if name.endswith(".json") else _read_table
        found.corrections, found.sets = read(path), _read_sets(path)
    else:
        found.corrections, found.sets = read_corrections(path)
    if not (found.corrections or found.selections or found.sets):
        raise InputError(f"{path} has no corrections yet: review some instances first.")
    return found


def export(sidecar: Path, table: Path, *, force: bool) -> tuple[int, int, list[Path]]:
    """Write the corrections of instances, and of label sets to a second table.

    Parameters
    ----------
    sidecar : Path
        The file of ``bagwise review``.
    table : Path
        The table, or a .json file for Label Studio.
    force : bool
        Whether files may be overwritten.

    Returns
    -------
    tuple (corrections, label_sets, written)
        How many there are, and the files.
    """
    found, sets = read_corrections(sidecar)
    if table.suffix.lower() == ".json":
        write_annotated(table, found, force=force)
    else:
        _write_table(table, found, Correction._fields, force=force)
    if not sets:
        return len(found), 0, [table]
    _write_table(sets_file(table), sets, SetCorrection._fields, force=force)
    return len(found), len(sets), [table, sets_file(table)]


def sets_file(table: Path) -> Path:
    """The second table of an export, with the corrections of label sets; CSV for JSON."""
    ending = ".csv" if table.suffix.lower() == ".json" else table.suffix
    return table.with_name(f"{table.stem}.sets{ending}")


def _write_table(path: Path, rows: list[Any], names: tuple[str, ...], *, force: bool) -> None:
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in names}
    write_columns(path, columns, force=force)


def _read_table(path: Path) -> list[Correction]:
    """Read a table of ``bagwise review --export``, or one written by hand without sizes."""
    columns = read_written(path, ["bag", "row", "label"], optional=["size"])
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return [as_correction(row, row["label"], str(path)) for row in rows]


def _read_sets(path: Path) -> list[SetCorrection]:
    """Read the corrections of label sets that ``bagwise review --export`` wrote next to `path`."""
    second = sets_file(path)
    if not second.is_file():
        return []
    columns = read_written(second, SetCorrection._fields)
    truth = {"true": True, "false": False}
    try:
        return [
            SetCorrection(str(bag), str(label), truth[str(present).lower()])
            for bag, label, present in zip(*columns.values(), strict=True)
        ]
    except KeyError as error:
        raise InputError(f"{second}: the column present has {error}, not true or false.") from error

"""Known labels of instances: read and write them as files, match them with instances and bags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
        Labels of parts of recordings, from Raven or Audacity, until `locate` finds their clips.
    sets : list of SetCorrection
        Labels that bags have or do not have.
    note : callable
        Called with each sentence for the user.
    """

    corrections: list[Correction] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    sets: list[SetCorrection] = field(default_factory=list)
    note: Callable[[str], None] = lambda _: None

    def correct_sets(self, labels: Labels, bags: Bags) -> Labels:
        """Apply the corrections of label sets; unknown sets stay unknown."""
        if not self.sets:
            return labels
        if not labels.has_sets:
            raise InputError(
                "--corrections has decisions about label sets, and these bags have one label "
                "each: name the column of their sets with --label-set."
            )
        place = {str(name): i for i, name in enumerate(bags.names.tolist())}
        indicator, names = labels.indicator.copy(), list(labels.names)
        used = [c for c in self.sets if c.bag in place and c.label in names]
        for bag, label, present in used:
            row = indicator[place[bag]]
            if row.min() >= 0:
                row[names.index(label)] = present
        self.note(f"{len(used)} labels of bags are known from corrections.")
        return Labels("sets", labels.classes, indicator=indicator, names=labels.names)

    def locate(self, data: Contents) -> None:
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

    def about(self, data: Contents) -> Bools:
        """Whether each bag has an instance with a known label."""
        self.locate(data)
        named = {correction.bag for correction in self.corrections}
        return np.array([str(name) in named for name in data.bags.names.tolist()], dtype=bool)

    def match(self, bags: Bags, names: Mapping[str, Any], background: Any) -> list[Any] | None:
        """The known label of each instance, after `locate`; None if there are no corrections.

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
        more = f"; {n_unused} more are about bags that are not used." if n_unused else "."
        self.note(f"{n_used} instances are known from corrections{more}")
        return labels

    def extend(
        self,
        sets: list[set[Any] | None],
        known: list[Any] | None,
        bags: Bags,
        classes: Iterable[Any],
    ) -> list[set[Any] | None]:
        """Add the labels of known instances to the label sets of their bags.

        Parameters
        ----------
        sets : list of set or None
            The label set of each bag.
        known : list or None
            Result of `match`.
        bags : Bags
            The bags.
        classes : iterable
            The labels; others, such as the background, are not added.

        Returns
        -------
        list of set or None
        """
        if known is None:
            return sets
        labels, found = set(classes), list(sets)
        for i, own in enumerate(bags.split(range(len(known)))):
            more = {known[j] for j in own} & labels
            given = found[i]
            if given is not None and not more <= given:
                missing = ", ".join(sorted(map(str, more - given)))
                name = bags.name_of(i)
                self.note(f"{missing} is added to the label set of {name}: see --corrections.")
                found[i] = given | more
        return found


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
        with format_errors(path):
            read = read_annotated if name.endswith(".json") else _read_table
            found.corrections, found.sets = read(path), _read_sets(path)
    else:
        found.corrections, found.sets = read_corrections(path)
    if not (found.corrections or found.selections or found.sets):
        raise InputError(f"{path} has no corrections yet: review some instances first.")
    return found


def export(sidecar: Path, table: Path, *, force: bool) -> tuple[int, int, list[Path]]:
    """Write the corrections of instances, and those of label sets to a second table.

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
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if odd := next((row for row in rows if row["label"] is None), None):
        raise InputError(f"{path} has a correction without a label: {odd}.")
    return [as_correction(row, row["label"], str(path)) for row in rows]


def _read_sets(path: Path) -> list[SetCorrection]:
    """Read the corrections of label sets that ``bagwise review --export`` wrote next to `path`."""
    second = sets_file(path)
    if not second.is_file():
        return []
    columns = read_written(second, SetCorrection._fields)
    found = []
    for bag, label, present in zip(*columns.values(), strict=True):
        if str(present).lower() not in ("true", "false"):
            raise InputError(
                f"{second} has {present!r} in the column present: expected true or false."
            )
        found.append(SetCorrection(str(bag), str(label), str(present).lower() == "true"))
    return found

"""Known labels of instances: read them from files, and match them with instances and bags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bagwise.cli.output import note
from bagwise.exceptions import InputError

if TYPE_CHECKING:
    from bagwise._common.types import Bools
    from bagwise.apps.audio._selections import Selection
    from bagwise.bags import Bags
    from bagwise.io.contents import Contents
    from bagwise.labels import Labels
    from bagwise.review import Correction, SetCorrection


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
    """

    corrections: list[Correction] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    sets: list[SetCorrection] = field(default_factory=list)

    def correct_sets(self, labels: Labels, bags: Bags) -> Labels:
        """Apply the corrections of label sets; unknown sets stay unknown."""
        if not self.sets:
            return labels
        from bagwise.labels import Labels

        if not labels.has_sets:
            raise InputError(
                "--corrections holds decisions about label sets, and these bags have one label "
                "each: name the column of their sets with --label-set."
            )
        place = {str(name): i for i, name in enumerate(bags.names.tolist())}
        indicator, names = labels.indicator.copy(), list(labels.names)
        used = [c for c in self.sets if c.bag in place and c.label in names]
        for correction in used:
            row = indicator[place[correction.bag]]
            if row.min() >= 0:
                row[names.index(correction.label)] = int(correction.present)
        note(f"{len(used)} labels of bags are known from corrections.")
        return Labels("sets", labels.classes, indicator=indicator, names=labels.names)

    def locate(self, data: Contents) -> None:
        """Turn selections into corrections of the clips that they cover."""
        if not self.selections:
            return
        from bagwise.apps.audio._recordings import recordings
        from bagwise.apps.audio._selections import match_selections
        from bagwise.review import Correction

        if data.clips is None:
            raise InputError(
                "--corrections of Raven or Audacity need a table with the columns file, start and "
                "end."
            )
        bags = data.bags
        found = match_selections(
            self.selections, recordings(data), data.clips.start, data.clips.end
        )
        for i, label in found.items():
            bag = int(bags.bag_index[i])
            row, size = i - int(bags.offsets[bag]), int(bags.sizes[bag])
            name = str(bags.names[bag : bag + 1].tolist()[0])
            self.corrections.append(Correction(name, row, size, label))
        self.selections = []

    def about(self, data: Contents) -> Bools:
        """Whether each bag has an instance with a known label."""
        import numpy as np

        self.locate(data)
        named = {correction.bag for correction in self.corrections}
        return np.array([str(name) in named for name in data.bags.names.tolist()], dtype=bool)


def read_known(path: Path | None, estimator: Any, method: str) -> Known | None:
    """Read the file of ``--corrections``; raise an error if the method cannot use it.

    Parameters
    ----------
    path : Path or None
        The value of ``--corrections``.
    estimator : estimator
        The estimator to fit.
    method : str
        The name of the method, for messages.

    Returns
    -------
    Known or None
    """
    if path is None:
        return None
    from sklearn.utils.validation import has_fit_parameter

    from bagwise.apps.audio._selections import read_selections
    from bagwise.io.files import FORMATS, format_errors
    from bagwise.io.label_studio import read_annotated, read_lines
    from bagwise.review import Correction, read_corrections, read_set_corrections

    if not has_fit_parameter(estimator, "instance_labels"):
        raise InputError(
            f"{method} cannot hold labels of instances fixed: use --corrections with -m orlr."
        )
    endings = [ending for kind in ("csv", "tsv", "parquet") for ending in FORMATS[kind]]
    name = path.name.lower()
    if path.is_dir() or name.endswith(".txt"):
        with format_errors(path):
            selections = read_selections(path)
        found = Known(selections=[each for each in selections if not each.is_guess])
        n_guesses = len(selections) - len(found.selections)
        if n_guesses:
            note(f"{n_guesses} labels in {path} were not changed and are ignored.")
    elif name.endswith((".json", ".jsonl")):
        with format_errors(path):
            entries = read_lines(path) if name.endswith("l") else read_annotated(path)
        found = Known([Correction(*entry) for entry in entries], sets=_read_sets(path))
    elif name.endswith(tuple(endings)):
        found = Known(_read_table(path), sets=_read_sets(path))
    else:
        found = Known(read_corrections(path), sets=read_set_corrections(path))
    if not (found.corrections or found.selections or found.sets):
        raise InputError(f"{path} holds no corrections yet: review some instances first.")
    return found


def _read_table(path: Path) -> list[Correction]:
    """Read a table of ``bagwise review --export``, or one written by hand without sizes."""
    from bagwise.io.table import read_written
    from bagwise.review import Correction

    columns = read_written(path, ["bag", "row", "label"], optional=["size"])
    bags, rows, labels = (columns[name] for name in ("bag", "row", "label"))
    sizes = columns.get("size", [None] * len(bags))
    found = []
    for bag, row, size, label in zip(bags, rows, sizes, labels, strict=True):
        whole = all(str(number).isdecimal() for number in (row, 0 if size is None else size))
        if bag is None or label is None or not whole:
            raise InputError(
                f"{path} holds a correction with bag {bag}, row {row}, size {size} and label "
                f"{label}: expected a bag, a label, and whole numbers."
            )
        n_instances = None if size is None else int(size)
        found.append(Correction(str(bag), int(row), n_instances, str(label)))
    return found


def _read_sets(path: Path) -> list[SetCorrection]:
    """Read the corrections of label sets that ``bagwise review --export`` wrote beside `path`."""
    from bagwise.io.table import read_written
    from bagwise.review import SetCorrection

    endings = dict.fromkeys([path.suffix, ".csv"])  # they are CSV beside JSON
    places = [path.with_name(f"{path.stem}.sets{ending}") for ending in endings]
    beside = next((place for place in places if place.is_file()), None)
    if beside is None:
        return []
    columns = read_written(beside, ["bag", "label", "present"])
    texts = [str(value).lower() for value in columns["present"]]
    odd = next((text for text in texts if text not in ("true", "false")), None)
    if odd is not None:
        raise InputError(f"{beside} has {odd!r} in the column present: expected true or false.")
    rows = zip(columns["bag"], columns["label"], texts, strict=True)
    return [SetCorrection(str(bag), str(label), text == "true") for bag, label, text in rows]


def known_labels(
    known: Known | None,
    bags: Bags,
    written: Mapping[str, Any],
    *,
    background: Any = None,
) -> list[Any] | None:
    """Match corrections with instances, and print how many were used.

    Parameters
    ----------
    known : Known or None
        Result of `read_known`, after `Known.locate`.
    bags : Bags
        The bags to learn from.
    written : mapping of str to label
        The labels by their string form.
    background : object, default=None
        The parameter ``background`` of the method.

    Returns
    -------
    list or None
        A label or None for each instance; None if there are no corrections.
    """
    if known is None or not known.corrections:
        return None
    from bagwise.review.store import match_corrections

    corrections = known.corrections

    named = {} if isinstance(background, bool | None) else {str(background): background}
    labels, n_used = match_corrections(corrections, bags, {**named, **written})
    if n_used == 0:
        raise InputError(
            f"none of the {len(corrections)} corrections is about a bag of this file: the first "
            f"names the bag {corrections[0].bag!r}."
        )
    unused = len(corrections) - n_used
    note(
        f"{n_used} instances are known from corrections"
        + (f"; {unused} more are about bags that are not used." if unused else ".")
    )
    return labels


def with_known(
    sets: list[set[Any] | None], known: list[Any] | None, bags: Bags, classes: Iterable[Any]
) -> list[set[Any] | None]:
    """Add the labels of known instances to the sets of their bags, and print what was missing.

    Parameters
    ----------
    sets : list of set or None
        The label set of each bag.
    known : list or None
        Result of `known_labels`.
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
    labels, found = set(classes), []
    for i, (carried, own) in enumerate(zip(sets, bags.split(range(len(known))), strict=True)):
        more = {known[j] for j in own} & labels
        if carried is not None and not more <= carried:
            missing = ", ".join(sorted(map(str, more - carried)))
            note(f"{missing} is added to the label set of {bags.name_of(i)}: see --corrections.")
            carried = carried | more
        found.append(carried)
    return found

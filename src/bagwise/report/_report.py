"""The report about a model and bags, as one HTML page."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import bagwise
from bagwise._common.files import replacing
from bagwise._common.types import Array, Ints
from bagwise._validation import check_bags
from bagwise.bags import offsets_of
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.model_selection import HeldOut
from bagwise.report._data_section import data_section
from bagwise.report._evaluation import evaluation_section
from bagwise.report._map_sections import cluster_section, space_section
from bagwise.report._media import EmbeddedMedia, Media
from bagwise.report._model_sections import (
    annotation_section,
    leaderboard_section,
    model_section,
    row_section,
)
from bagwise.report._numbers import (
    as_numbers,
    errors_of,
    number_section,
    target_section,
)
from bagwise.report._page import Explorer, Section, render_page
from bagwise.report._place_maps import place_maps
from bagwise.report._subject import Subject, look_into, of_labels

MOST_INSTANCES = 400_000  # maximum number on a page
LEAST_PER_BAG = 20


@dataclass(eq=False, repr=False)
class Report:
    """One self-contained page about a fitted model and bags: data, metrics, every bag.

    It describes the data, compares predictions with labels if they are given, and shows every bag
    with its instances in the order of their contribution. Depending on the model, it also shows
    clusters on a map, the least certain annotations, the learned distance, and the objective during
    training. The page needs no network.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of bagwise, alone or in a pipeline or a search.
    bags : Bags or anything accepted as bags
        The bags, or the rows for models of rows.
    y : array-like of shape (n_bags,), 0/1 array or list of sets, default=None
        The labels of the bags; None (or -1) for an unknown label. For a regressor the numbers of
        the bags; None or NaN for an unknown number.
    title : str, default=None
        Title of the page; by default the name of the model and the number of bags.
    media : Media, default=None
        Images, sounds and texts of the instances.
    coords : array-like of shape (n_instances, 2), default=None
        The position of each instance, such as the upper left corner of a patch; each bag then has
        a heat map.
    patch_size : float or array-like of shape (n_bags,), default=None
        Edge of the patches, in the unit of `coords`; by default, and if NaN, the spacing of the
        grid.
    groups : array-like of shape (n_bags,), default=None
        The group of each bag, such as the patient of a slide, to report possible leakage.
    held_out : HeldOut, default=None
        Predictions by models that were not fitted on these bags; the metrics are then of these.
    seen : array-like of bool of shape (n_bags,), default=None
        Which bags the model was fitted on; metrics are computed on the others, if there are any.
    classes : sequence, default=None
        Names to show instead of the values of ``classes_``, in their order.
    facts : mapping of str to object, default=None
        Further facts to show about the model, such as its file.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.report import Report
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> page = Report(model, bags, ["no", "no", "yes", "yes"]).to_html()  # doctest: +SKIP
    """

    model: Any
    bags: Any
    y: Any = None
    _: KW_ONLY
    title: str | None = None
    media: Media | None = None
    coords: ArrayLike | None = None
    patch_size: ArrayLike | None = None
    groups: ArrayLike | None = None
    held_out: HeldOut | None = None
    seen: ArrayLike | None = None
    classes: Sequence[Any] | None = None
    facts: Mapping[str, Any] | None = None

    def to_html(self) -> str:
        """Compute the predictions, and write the page.

        Returns
        -------
        str
            The HTML text.
        """
        bags = check_bags(None, self.bags, reset=True, allow_nan=True)
        if self.media is not None:
            self.media.check(bags)
        seen = None if self.seen is None else np.asarray(self.seen, dtype=bool)
        if seen is not None and seen.shape != (len(bags),):
            raise InputError(f"seen has shape {seen.shape} for {len(bags)} bags: give one each.")
        subject = look_into(self.model, bags, self.y, self.classes)
        name, unit = type(subject.estimator).__name__, subject.unit
        maps = place_maps(subject, self.coords, self.patch_size)
        found = [
            data_section(subject, self.groups, seen),
            target_section(subject),
            evaluation_section(subject, self.held_out, seen),
            number_section(subject, self.held_out, seen),
            leaderboard_section(subject),
            _explorer_section(subject, self.media, self.held_out, *maps),
            annotation_section(subject),
            row_section(subject),
            cluster_section(subject),
            space_section(subject),
            model_section(subject, self.facts or {}),
        ]
        return render_page(
            self.title or f"{name} on {len(bags):,} {unit}s",
            [section for section in found if section is not None],
            lead=f"Predictions of {name} for these {unit}s, and their explanation.",
            footer=f"Made by bagwise {bagwise.__version__}. This page needs no network and sends "
            "no data.",
        )

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Write the page to a file, which appears only when it is complete.

        Parameters
        ----------
        path : path
            The file, usually ``.html``.
        force : bool, default=False
            Whether an existing file may be replaced.

        Returns
        -------
        Path
            The path of the file.

        Raises
        ------
        OutputExistsError
            When the file exists and `force` is False.
        """
        file = Path(path)
        with replacing(file, force=force) as temporary:
            temporary.write_text(self.to_html(), encoding="utf-8")
        return file


def _explorer_section(
    subject: Subject,
    media: Media | None,
    held_out: HeldOut | None,
    maps: dict[str, Any] | None,
    note: str,
) -> Section:
    """The list of all bags, with their instances in the order of scores, and media."""
    rows, ranks, offsets = _ranked(subject)
    embedded = EmbeddedMedia(media, rows, ranks)
    data = {
        "unit": subject.unit,
        "bags": _bag_columns(subject, held_out),
        "offsets": offsets.tolist(),
        "instances": _instance_columns(subject, rows) | embedded.columns,
        "labels": [] if subject.instance_labels is None else subject.instance_labels.names,
        "media": embedded.files,
        "maps": maps,
        "heads": {
            "score": subject.instance_score_name,
            "label": subject.instance_heading,
            "probability": "probability",
            "bagScore": subject.score_name,
        },
    }
    if subject.predicted_numbers is not None:
        data["numbers"] = True
        data["bags"] |= _number_columns(subject, held_out)
        data["heads"] |= {"truth": "observed"}
    if subject.unit == "bag" and subject.instance_scores is not None:
        order = f"Instances are in the order of their scores. {subject.explanation}"
    else:
        order = "The key instance of a bag is marked." if subject.keys else subject.explanation
    texts = [text for text in (order, embedded.note, note) if text]
    return Section(f"All {subject.unit}s", *texts, Explorer(data))


def _bag_columns(subject: Subject, held_out: HeldOut | None) -> dict[str, Any]:
    """The values that the page lists for each bag; held-out predictions decide which are wrong."""
    known, predicted, proba = subject.known, subject.predicted, subject.raw_proba
    held_out_labels = None
    if held_out is not None and subject.predicted_numbers is None:
        held_out_labels = subject.labels(held_out.predicted)
    if proba is not None and predicted is not None:
        proba = None if predicted.has_sets else of_labels(proba, predicted)
    return {
        "id": subject.bag_names,
        "size": subject.bags.sizes.tolist(),
        "truth": None if known is None else known.texts,
        "predicted": _texts(predicted),
        "heldOut": _texts(held_out_labels),
        "score": _numbers(subject.scores),
        "probability": _numbers(proba),
        "certainty": _numbers(subject.certainty),
        "wrong": _wrong(known, predicted if held_out_labels is None else held_out_labels),
    }


def _instance_columns(subject: Subject, rows: Ints) -> dict[str, Any]:
    """The values that the page lists for each instance in `rows`, without media."""
    bags, labels = subject.bags, subject.instance_labels
    place = {int(row): j for j, row in enumerate(rows)}
    return {
        "row": (rows - bags.offsets[bags.bag_index[rows]]).tolist(),
        "score": _numbers(subject.instance_scores, rows),
        "label": None if labels is None else labels.codes[rows].tolist(),
        "probability": _numbers(subject.instance_proba, rows),
        "keys": [[place[row], text] for row, text in subject.keys.items() if row in place],
        **dict.fromkeys(("image", "audio", "text", "source", "box")),
    }


def _number_columns(subject: Subject, held_out: HeldOut | None) -> dict[str, Any]:
    """The numbers of bags as the page lists them, and their errors."""
    found = None if held_out is None else as_numbers(held_out.predicted, subject.bags)
    columns = {"truth": subject.true_numbers, "predicted": subject.predicted_numbers}
    columns |= {"heldOut": found}
    texts = {
        name: None if values is None else [_number_text(value) for value in values.tolist()]
        for name, values in columns.items()
    }
    return texts | {"error": _numbers(errors_of(subject, held_out))}


def _number_text(value: float) -> str | None:
    return f"{value:.4g}" if np.isfinite(value) else None


def _texts(labels: Labels | None) -> list[str] | None:
    return None if labels is None else [text or "" for text in labels.texts]


def _ranked(subject: Subject) -> tuple[Ints, Ints, Ints]:
    """The instances that the page lists, best first in each bag; only the best of large bags."""
    bags, scores = subject.bags, subject.instance_scores
    index = bags.bag_index
    key = np.ones(bags.n_instances)
    key[list(subject.keys)] = 0
    order = np.lexsort((key, index) if scores is None else (key, -scores, index))
    ranks = np.arange(bags.n_instances) - bags.offsets[index]
    most = max(LEAST_PER_BAG, MOST_INSTANCES // len(bags))
    kept = ranks < most
    offsets = offsets_of(np.minimum(bags.sizes, most))
    return order[kept], ranks[kept], offsets


def _wrong(known: Labels | None, predicted: Labels | None) -> list[int | None] | None:
    """1 if the prediction differs from the label, 0 if not, None for an unknown label."""
    if known is None or predicted is None:
        return None
    if predicted.has_sets:
        more = len(known.classes) - len(predicted.classes)  # labels that the model does not know
        padded = np.pad(predicted.indicator, ((0, 0), (0, more)))
        wrong = (padded != known.indicator).any(axis=1)
    else:
        wrong = predicted.codes != known.codes
    return [int(w) if given else None for w, given in zip(wrong, known.known, strict=True)]


def _numbers(values: Array | None, rows: Ints | None = None) -> list[float | None] | None:
    """Numbers rounded to four digits; None for NaN and infinity."""
    if values is None:
        return None
    chosen = np.asarray(values if rows is None else values[rows], dtype=float)
    return [float(f"{v:.4g}") if abs(v) < 1e300 else None for v in chosen.tolist()]

"""The report about a model and bags, as one HTML page, with the list of all bags."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.files import check_output, write_file
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import offsets_of
from bagwise.base._pipelines import held_out_note
from bagwise.displays import HeatMapDisplay
from bagwise.displays._heat_maps import check_coords, colour_limits, patch_edges
from bagwise.evaluate import HeldOut
from bagwise.exceptions import InputError
from bagwise.labels import is_known
from bagwise.predictions import Predictions
from bagwise.predictions._ranking import of_labels
from bagwise.report import _sections
from bagwise.report._evaluation import as_numbers, evaluation_section, indicator_of
from bagwise.report._media import Media, embed
from bagwise.report._page import Explorer, Section, data_url, render_page
from bagwise.validation import time_texts

MOST_INSTANCES = 400_000  # maximum number on a page
LEAST_PER_BAG = 20
MOST_MAPS = 300
MAP_DPI = 70


@dataclass(eq=False, repr=False)
class Report:
    """One self-contained page about a fitted model and bags: data, metrics, every bag.

    It describes the data, compares predictions with labels if they are given, and shows every bag
    with its instances in the order of their contribution. Depending on the model, it also shows
    clusters on a map, the methods of an ensemble, and the objective during training. The page needs
    no network.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of bagwise, alone or in a pipeline or a search.
    bags : Bags or anything accepted as bags
        The bags, or the rows for models of rows.
    y : array-like of shape (n_bags,), 0/1 array or list of sets, default=None
        The labels of the bags; None (or -1) for an unknown label. For a regressor the numbers of
        the bags, also as `Intervals`; None or NaN for an unknown number. For a survival model
        times to the event, NaN if unknown.
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
        The group of each bag, such as the patient of a slide, to report possible leakage. By
        default the groups of the bags.
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
        subject = Predictions(self.model, self.bags, self.y, classes=self.classes)
        bags = subject.bags
        if self.media is not None:
            self.media.check(bags)
        seen = None if self.seen is None else np.asarray(self.seen, dtype=bool)
        if seen is not None and seen.shape != (len(bags),):
            raise InputError(f"seen has shape {seen.shape} for {len(bags)} bags: give one each.")
        name, unit = type(subject.estimator).__name__, subject.unit
        found = [
            _sections.data_section(subject, self.groups, seen),
            evaluation_section(subject, self.held_out, seen),
            _sections.leaderboard_section(subject),
            explorer_section(subject, self.media, self.held_out, self.coords, self.patch_size),
            _sections.cluster_section(subject),
            _sections.model_section(subject, self.facts or {}),
        ]
        lead = f"Predictions of {name} for these {unit}s, and their explanation."
        if (doubt := held_out_note(self.model)) is not None:
            lead += f" {doubt[0]}"
        return render_page(
            self.title or f"{name} on {len(bags):,} {unit}s",
            [section for section in found if section is not None],
            lead=lead,
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
        check_output(file, force=force)
        write_file(file, self.to_html(), force=force)
        return file


# The list of all bags, with their instances, media and heat maps


def explorer_section(
    subject: Predictions,
    media: Media | None,
    held_out: HeldOut | None,
    coords: ArrayLike | None,
    patch_size: ArrayLike | None,
) -> Section:
    """List all bags, with their instances in the order of scores, and media.

    Parameters
    ----------
    subject : Predictions
        The model, the bags and the predictions.
    media : Media or None
        Images, sounds and texts of the instances.
    held_out : HeldOut or None
        Predictions by models that were not fitted on the bags.
    coords, patch_size : array-like or None
        Positions and sizes of the instances, for heat maps.

    Returns
    -------
    Section
    """
    ranking, unit = subject.ranking, subject.unit
    rows, ranks, offsets = _ranked(subject)
    files, media_columns, media_note = embed(media, rows, ranks)
    maps, map_note = heat_maps(subject, coords, patch_size)
    data = {
        "unit": unit,
        "bags": _bag_columns(subject, held_out),
        "offsets": offsets.tolist(),
        "instances": _instance_columns(subject, rows) | media_columns,
        "labels": [] if ranking.labels is None else ranking.labels.names,
        "media": files,
        "maps": maps,
        "heads": {
            "score": ranking.score_name,
            "label": ranking.heading,
            "probability": "probability",
            "bagScore": subject.bag_scores[1],
            **({"truth": "observed"} if subject.is_regressor else {}),
        },
        "numbers": subject.is_regressor,
    }
    order = ranking.explanation
    if unit == "bag" and ranking.scores is not None:
        order = f"Instances are in the order of their scores. {order}"
    elif ranking.keys:
        order = "The key instance of a bag is marked."
    texts = [text for text in (order, media_note, map_note) if text]
    return Section(f"All {unit}s", *texts, Explorer(data))


def _bag_columns(subject: Predictions, held_out: HeldOut | None) -> dict[str, Any]:
    """The values that the page lists for each bag; held-out predictions decide which are wrong."""
    own, known, other = subject.predicted, subject.known, None
    if held_out is not None and not subject.is_regressor:
        other = subject.labels(held_out.predicted)
    columns = {
        "id": subject.bag_names,
        "size": subject.bags.sizes.tolist(),
        "score": _numbers(subject.bag_scores[0]),
        "truth": known and known.texts,
        "predicted": own and own.texts,
        "heldOut": other and other.texts,
    }
    if subject.is_regressor:
        numbers: Any = subject.bag_scores[0]
        truth = subject.known_numbers
        found = None if held_out is None else as_numbers(held_out.predicted)
        texts = {"truth": truth, "predicted": numbers, "heldOut": found}
        columns |= {name: _number_texts(values) for name, values in texts.items()}
        numbers = numbers if found is None else found
        if (times := subject.known_times) is not None:
            named = zip(is_known(times), time_texts(times), strict=True)
            columns["truth"] = [text if known else None for known, text in named]
        if (bounds := subject.known_intervals) is not None:
            columns["truth"] = bounds.texts
            truth = np.clip(numbers, bounds.lower, bounds.upper)
        if truth is not None:
            columns["error"] = _numbers(np.abs(numbers - truth))
        return columns
    proba, answers = subject.call("predict_proba"), other or own
    raw = subject.call("decision_function")
    if own is not None and own.has_sets and raw is not None:
        columns["certainty"] = _numbers(np.abs(raw).min(axis=1))
    if proba is not None and own is not None and not own.has_sets:
        columns["probability"] = _numbers(of_labels(proba, own))
    if known is not None and answers is not None:
        sets = known.indicator
        differs = ((indicator_of(answers, known) != sets) & (sets >= 0)).any(axis=1)
        columns["wrong"] = [
            int(d) if k else None for d, k in zip(differs, known.known, strict=True)
        ]
    return columns


def _instance_columns(subject: Predictions, rows: Ints) -> dict[str, Any]:
    """The values that the page lists for each instance in `rows`, without media."""
    bags, ranking = subject.bags, subject.ranking
    place = {int(row): j for j, row in enumerate(rows)}
    return {
        "row": (rows - bags.offsets[bags.bag_index[rows]]).tolist(),
        "score": _numbers(ranking.scores, rows),
        "label": None if ranking.labels is None else ranking.labels.codes[rows].tolist(),
        "probability": _numbers(ranking.proba, rows),
        "keys": [[place[row], text] for row, text in ranking.keys.items() if row in place],
    }


def _ranked(subject: Predictions) -> tuple[Ints, Ints, Ints]:
    """The instances that the page lists, best first in each bag; only the best of large bags."""
    bags, scores, index = subject.bags, subject.ranking.scores, subject.bags.bag_index
    key = np.ones(bags.n_instances)
    key[list(subject.ranking.keys)] = 0
    order = np.lexsort((key, index) if scores is None else (key, -scores, index))
    ranks = np.arange(bags.n_instances) - bags.offsets[index]
    most = max(LEAST_PER_BAG, MOST_INSTANCES // len(bags))
    kept = ranks < most
    return order[kept], ranks[kept], offsets_of(np.minimum(bags.sizes, most))


def _number_texts(values: Floats | None) -> list[str | None] | None:
    if values is None:
        return None
    return [f"{value:.4g}" if np.isfinite(value) else None for value in values.tolist()]


def _numbers(values: Array | None, rows: Ints | None = None) -> list[float | None] | None:
    """Numbers rounded to four digits; None for NaN and infinity."""
    if values is None:
        return None
    chosen = np.asarray(values if rows is None else values[rows], dtype=float)
    return [None if text is None else float(text) for text in _number_texts(chosen) or ()]


def heat_maps(
    subject: Predictions,
    coords: ArrayLike | None,
    patch_size: ArrayLike | None,
    most: int = MOST_MAPS,
) -> tuple[dict[str, Any] | None, str]:
    """Draw the heat map of each of the first bags, in one colour scale.

    None without coordinates or scores; and a sentence for readers, empty if there is none.
    """
    bags, scores = subject.bags, subject.ranking.scores
    if coords is None:
        return None, ""
    places = check_coords(coords, bags)
    edges = patch_edges(patch_size, bags, places)
    if scores is None:
        return None, "There is no heat map, because the model has no scores of instances."
    name, limits = subject.ranking.score_name, colour_limits(scores)
    parts = zip(bags.split(scores), bags.split(places), edges, strict=True)
    drawn = (
        HeatMapDisplay(*part, value_name=name, limits=limits, top=1)
        for part in itertools.islice(parts, most)
    )
    pictures = [data_url(display.png(MAP_DPI), "image/png") for display in drawn]
    caption = (
        f"Each instance at its position, coloured by its {name}; all {subject.unit}s share one "
        "colour scale. The highest is framed."
    )
    left = len(bags) - len(pictures)
    note = f"The last {left:,} {subject.unit}s have no heat map." if left > 0 else ""
    return {"picture": pictures, "caption": caption}, note

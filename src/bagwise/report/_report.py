"""The report about a model and bags, as one HTML page."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.files import replacing
from bagwise.evaluate import HeldOut
from bagwise.exceptions import InputError
from bagwise.predictions import Predictions
from bagwise.report._data import data_section
from bagwise.report._evaluation import evaluation_section
from bagwise.report._explorer import explorer_section
from bagwise.report._media import Media
from bagwise.report._models import (
    cluster_section,
    leaderboard_section,
    model_section,
)
from bagwise.report._page import render_page


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
        subject = Predictions(self.model, self.bags, self.y, classes=self.classes)
        bags = subject.bags
        if self.media is not None:
            self.media.check(bags)
        seen = None if self.seen is None else np.asarray(self.seen, dtype=bool)
        if seen is not None and seen.shape != (len(bags),):
            raise InputError(f"seen has shape {seen.shape} for {len(bags)} bags: give one each.")
        name, unit = type(subject.estimator).__name__, subject.unit
        found = [
            data_section(subject, self.groups, seen),
            evaluation_section(subject, self.held_out, seen),
            leaderboard_section(subject),
            explorer_section(subject, self.media, self.held_out, self.coords, self.patch_size),
            cluster_section(subject),
            model_section(subject, self.facts or {}),
        ]
        return render_page(
            self.title or f"{name} on {len(bags):,} {unit}s",
            [section for section in found if section is not None],
            lead=f"Predictions of {name} for these {unit}s, and their explanation.",
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

"""Heat maps of slides: a picture and a GeoJSON file of each, and one page of all."""

import io
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import bagwise
from bagwise._common.files import check_place, replacing
from bagwise._common.types import Array
from bagwise._validation import check_bags, check_known_labels, check_label
from bagwise.apps.heatmap._geojson import patches_as_geojson
from bagwise.apps.heatmap._thumbnails import check_thumbnails, read_thumbnail
from bagwise.bags import Bags
from bagwise.base._pipelines import final_estimator
from bagwise.displays import HeatMapDisplay
from bagwise.displays._heat_maps import check_coords, colour_limits, colours, patch_edges
from bagwise.exceptions import InputError, OutputExistsError
from bagwise.extras import import_extra
from bagwise.io.write_table import write_columns
from bagwise.predictions import Predictions
from bagwise.predictions._predictions import Contributions
from bagwise.report._page import Card, Picture, Section, Table, render_page

INDEX, TOP = "index.html", "top_patches.csv"
MOST_PICTURES = 300  # on the page; all maps are files
PIXELS_PER_INCH = 130
_TOP_COLUMNS = ("slide", "rank", "row", "x", "y", "value", "class", "predicted", "label")
_MEANINGS = {
    "score": "The value of a patch is its score; the score of the slide is pooled from these "
    "scores.",
    "single": "The value of a patch is the score of a slide with this patch alone.",
    "one_removed": "The value of a patch is the score of the slide minus the score without the "
    "patch.",
    "sampled": "The value of a patch is its contribution to the score of the slide: its weight in "
    "a linear approximation of the score on random subsets of the patches.",
}


@dataclass(frozen=True)
class _SlideMap:
    """A slide: its predictions, and the values of its patches."""

    name: str
    coords: Array
    edge: float
    found: Contributions
    predicted: str
    score: float
    truth: str | None
    seen: bool
    top: Array  # rows of the highest values, the highest first
    meta: dict[str, list[Any]]  # further columns of the patches
    thumbnail: Any = None  # picture of the slide: a file
    size: tuple[float, float] | None = None  # width and height, in the unit of the coords


@dataclass(eq=False, repr=False)
class HeatMaps:
    """Heat maps of bags whose instances have positions, such as the patches of slides.

    `save` writes, for each bag, a picture (``.png``) and its patches for QuPath (``.geojson``), a
    table of the top patches (``top_patches.csv``), and one page of all bags (``index.html``). All
    maps share one colour scale.

    Parameters
    ----------
    model : estimator
        Any fitted classifier of bags, alone or in a pipeline or a search.
    bags : Bags or anything accepted as bags
        The slides; they may be memory-mapped, and are scored one at a time.
    coords : array-like of shape (n_instances, 2)
        The upper left corner of each patch; for QuPath in pixels of the full resolution.
    y : array-like of shape (n_bags,), default=None
        Labels, if they are known.
    patch_size : float or array-like of shape (n_bags,), default=None
        Edge of the patches, in the unit of `coords`; by default, and if NaN, the spacing of the
        grid.
    label : object, default=None
        The class to map; by default the last of two, else the class predicted for a slide.
    method : {"score", "single", "one_removed", "sampled"}, default=None
        As in `instance_attributions`. By default "score" if the model's own scores of instances
        pool to the score of a slide, else "sampled", for large slides "single".
    top : int, default=10
        Number of patches that are framed and listed.
    title : str, default="Heat maps"
        Title of the page.
    seen : array-like of bool of shape (n_bags,), default=None
        Which slides the model was fitted on, for a note on the page.
    classes : sequence, default=None
        Names to show instead of the values of ``classes_``, in their order.
    meta : mapping of str to sequence of length n_instances, default=None
        Further columns of the patches, for the table and, as metadata, for QuPath.
    thumbnails : sequence of path or None, default=None
        A small picture of each whole slide, which its map is drawn over; None if missing.
    slide_sizes : array-like of shape (n_bags, 2), default=None
        Width and height of each slide, in the unit of `coords`; needed for `thumbnails`.
    random_state : int, RandomState instance or None, default=0
        Seed of random subsets.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.apps.heatmap import HeatMaps
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> places = [[0, 0], [256, 0]] * 3
    >>> HeatMaps(model, bags, places).save("maps")  # doctest: +SKIP
    """

    model: Any
    bags: Any
    coords: Any
    y: Any = None
    _: KW_ONLY
    patch_size: ArrayLike | None = None
    label: Any = None
    method: str | None = None
    top: int = 10
    title: str = "Heat maps"
    seen: ArrayLike | None = None
    classes: Sequence[Any] | None = None
    meta: Mapping[str, Sequence[Any]] | None = None
    thumbnails: Sequence[Any] | None = None
    slide_sizes: ArrayLike | None = None
    random_state: Any = 0

    def save(
        self,
        folder: str | os.PathLike[str],
        force: bool = False,
        after_slide: Callable[[], None] = lambda: None,
    ) -> Path:
        """Score all patches, and write the maps into a folder.

        Parameters
        ----------
        folder : path
            The folder; created if it does not exist.
        force : bool, default=False
            Whether files may be replaced.
        after_slide : callable, default=None
            Called after each slide.

        Returns
        -------
        Path
            The page.

        Raises
        ------
        OutputExistsError
            When the folder contains something and `force` is False.
        """
        import_extra("jinja2", extra="report")
        target = Path(folder)
        check_folder(target, force=force)
        maps = self._maps(after_slide)
        limits = colour_limits(np.concatenate([m.found.values for m in maps]))
        target.mkdir(exist_ok=True)
        pictures = []
        for slide, stem in zip(maps, _file_names([m.name for m in maps]), strict=True):
            pictures.append(_picture(slide, limits))
            _write(target / f"{stem}.png", pictures[-1], force=force)
            _write(target / f"{stem}.geojson", _geojson(slide, limits), force=force)
        write_columns(target / TOP, _top_columns(maps), force=force)
        page = self._page(maps, pictures, signed=limits[0] < 0 < limits[1])
        _write(target / INDEX, page.encode("utf-8"), force=force)
        return target / INDEX

    def _maps(self, after_slide: Callable[[], None]) -> list[_SlideMap]:
        """Score the patches of each slide; slides with the highest score first."""
        bags = check_bags(None, self.bags, reset=True, allow_nan=True)
        coords = check_coords(self.coords, bags)
        if self.top < 1:
            raise InputError(f"top is {self.top}: expected at least 1.")
        if not hasattr(self.model, "classes_"):
            raise InputError(
                f"{type(self.model).__name__} has no classes: heat maps show a fitted classifier."
            )
        edges = patch_edges(self.patch_size, bags, coords)
        seen = np.zeros(len(bags), dtype=bool) if self.seen is None else np.asarray(self.seen)
        classes = np.asarray(self.model.classes_)
        names = [str(name) for name in (classes if self.classes is None else self.classes)]
        known = check_known_labels(self.y, bags, classes=classes.tolist(), names=names)
        label = None if self.label is None else classes[check_label(self.label, classes)]
        truths = [None] * len(bags) if known is None else known.texts
        places, meta = bags.split(coords), self._split_meta(bags)
        pictures, sizes = check_thumbnails(self.thumbnails, self.slide_sizes, bags)
        maps = []
        for i, name in enumerate(bags.names.tolist()):
            predictions = Predictions(self.model, bags[i : i + 1], classes=names)
            found = predictions.contributions(
                label, method=self.method, random_state=self.random_state
            )
            table = predictions.bag_table()
            slide = _SlideMap(
                name=str(name),
                coords=places[i],
                edge=edges[i],
                found=found,
                predicted=str(table["predicted"][0]),
                score=_score(table, found.name, names),
                truth=truths[i],
                seen=bool(seen[i]),
                top=np.argsort(-found.values, kind="stable")[: self.top],
                meta={column: values[i] for column, values in meta.items()},
                thumbnail=pictures[i],
                size=sizes[i],
            )
            maps.append(slide)
            after_slide()
        return sorted(maps, key=lambda slide: -slide.score)

    def _split_meta(self, bags: Bags) -> dict[str, list[list[Any]]]:
        """The further columns of the patches, by slide."""
        found = {}
        for name, values in (self.meta or {}).items():
            if len(values) != bags.n_instances or str(name) in _TOP_COLUMNS:
                raise InputError(
                    f"meta has {len(values)} values called {name!r} for {bags.n_instances} "
                    f"patches: expected one each, and another name than {', '.join(_TOP_COLUMNS)}."
                )
            ends = itertools.pairwise(bags.offsets.tolist())
            found[str(name)] = [list(values[start:stop]) for start, stop in ends]
        return found

    def _page(self, maps: list[_SlideMap], pictures: list[bytes], *, signed: bool) -> str:
        labels = {slide.found.name for slide in maps}
        of_label = f"of {labels.pop()}" if len(labels) == 1 else "of that class"
        kind = "probability" if hasattr(self.model, "predict_proba") else "score"
        heading = f"{kind} {of_label}"
        n_patches = sum(len(slide.coords) for slide in maps)
        numbers = {"slides": f"{len(maps):,}", "patches": f"{n_patches:,}"}
        columns: dict[str, list[Any]] = {
            "slide": [slide.name for slide in maps],
            heading: [slide.score for slide in maps],
            "predicted": [slide.predicted for slide in maps],
        }
        if known := [slide for slide in maps if slide.truth is not None]:
            columns["label"] = [slide.truth for slide in maps]
            wrong = sum(slide.truth != slide.predicted for slide in known)
            numbers["wrongly predicted"] = f"{wrong:,} of {len(known):,}"
        if n_seen := sum(slide.seen for slide in maps):
            columns["fitted on"] = [slide.seen for slide in maps]
        columns["patches"] = [len(slide.coords) for slide in maps]
        columns["highest value"] = [float(slide.found.values.max()) for slide in maps]
        texts = [_MEANINGS[m] for m in dict.fromkeys(slide.found.method for slide in maps)]
        meaning = "red patches support the class, blue ones oppose it"
        texts.append(
            f"All maps share one colour scale: {meaning if signed else 'yellow is high'}. The "
            f"{self.top} highest patches of a slide are framed. The folder of this page has "
            "the patches of each slide for QuPath (.geojson) and all top patches (.csv)."
        )
        if n_seen:
            texts.append(
                f"The model was fitted on {n_seen} of these slides: its predictions for them are "
                "better than for new slides."
            )
        table = Table(columns, "Slides, highest score first", bags=range(len(maps)))
        both = list(zip(maps, pictures, strict=True))[:MOST_PICTURES]
        cards = [_card(slide, picture, i, heading) for i, (slide, picture) in enumerate(both)]
        left = len(maps) - len(cards)
        rest = [f"{left} more maps are in the folder of this page."] if left else []
        return render_page(
            self.title,
            [Section("Slides", numbers, *texts, table), Section("Maps", *cards, *rest)],
            lead=f"Heat maps of the patches, by {type(final_estimator(self.model)).__name__}.",
            footer=f"Made by bagwise {bagwise.__version__}. This page needs no network and sends "
            "no data.",
        )


def _card(slide: _SlideMap, picture: bytes, number: int, heading: str) -> Card:
    truth = "" if slide.truth is None else f", labelled {slide.truth}"
    facts = f"Predicted {slide.predicted}{truth}; {heading}: {slide.score:.3g}."
    columns = {name: values.tolist() for name, values in _top_of(slide).items()}
    alt = (
        f"Heat map of {slide.name}: {len(slide.coords)} patches, the highest at "
        f"x {columns['x'][0]:g}, y {columns['y'][0]:g}."
    )
    caption = f"Top patches of {slide.name} by {slide.found.value_name}"
    return Card(number, slide.name, [facts, [Picture(picture, alt), Table(columns, caption)]])


def _top_of(slide: _SlideMap) -> dict[str, Array]:
    """Rank, row, position and value of the top patches of a slide."""
    x, y = slide.coords[slide.top].T
    ranks = np.arange(1, len(slide.top) + 1)
    values = slide.found.values[slide.top]
    return {"rank": ranks, "row": slide.top, "x": x, "y": y, "value": values}


def _top_columns(maps: list[_SlideMap]) -> dict[str, Array]:
    """The table of the top patches of all slides."""
    parts = []
    for slide in maps:
        facts: dict[str, Any] = {"slide": slide.name, "class": slide.found.name}
        facts |= {"predicted": slide.predicted, "label": slide.truth}
        whole = {name: np.full(len(slide.top), v, dtype=object) for name, v in facts.items()}
        own = {
            n: np.array([v[row] for row in slide.top] + [None])[:-1] for n, v in slide.meta.items()
        }
        parts.append(whole | _top_of(slide) | own)
    names = [*_TOP_COLUMNS, *maps[0].meta]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _picture(slide: _SlideMap, limits: tuple[float, float]) -> bytes:
    display = HeatMapDisplay(
        slide.found.values,
        slide.coords,
        slide.edge,
        value_name=slide.found.value_name,
        limits=limits,
        top=len(slide.top),
        image=None if slide.thumbnail is None else read_thumbnail(slide.thumbnail),
        image_size=slide.size,
    )
    buffer = io.BytesIO()
    settings = {"dpi": PIXELS_PER_INCH, "metadata": {"Software": None}}
    display.figure().savefig(buffer, format="png", **settings)
    return buffer.getvalue()


def _geojson(slide: _SlideMap, limits: tuple[float, float]) -> bytes:
    values, top = slide.found.values, slide.top
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    collection = patches_as_geojson(
        slide.coords,
        slide.edge,
        label=slide.found.name,
        supports=values > 0,
        colours=colours(values, limits),
        class_colour=colours(np.array([limits[1]]), limits)[0].tolist(),
        measurements={slide.found.value_name: values, "rank": ranks},
        names={int(row): f"top {rank}" for rank, row in enumerate(top, 1)},
        metadata=slide.meta,
    )
    return json.dumps(collection, allow_nan=False, separators=(",", ":")).encode()


def _score(table: dict[str, Array], label: str, names: list[str]) -> float:
    """The probability of a class, or its score if the model has no probabilities."""
    for kind in ("probability", "score"):
        if f"{kind}_{label}" in table:
            return float(table[f"{kind}_{label}"][0])
    if "score" not in table:
        return float("nan")
    score = float(table["score"][0])  # of the second of two classes
    return score if label == names[-1] else -score


def _file_names(names: list[str]) -> list[str]:
    """A distinct file name for each slide: its id if that is a safe name."""
    safe = [re.sub(r"[^\w.+=-]+", "_", name)[:150].lstrip(".") or "slide" for name in names]
    taken = {Path(INDEX).stem, Path(TOP).stem}  # in lower case: some file systems ignore case
    stems: dict[int, str] = {}
    for i in sorted(range(len(names)), key=lambda i: (safe[i] != names[i], names[i])):
        tries = itertools.chain([safe[i]], (f"{safe[i]}_{k}" for k in itertools.count(2)))
        stems[i] = next(stem for stem in tries if stem.lower() not in taken)
        taken.add(stems[i].lower())
    return [stems[i] for i in range(len(names))]


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise an error if a folder is a file, or is not empty and `force` is False."""
    if folder.exists() and not folder.is_dir():
        raise OutputExistsError(f"{folder} is a file: give the name of a folder.")
    check_place(folder, exists=folder.exists() and any(folder.iterdir()), force=force)


def _write(path: Path, data: bytes, *, force: bool) -> None:
    with replacing(path, force=force) as temporary:
        temporary.write_bytes(data)

"""Heat maps of slides over their pictures: files for each slide, and one page of all."""

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise._common.extras import import_extra
from bagwise._common.files import check_place, distinct_names, write_file
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base._pipelines import final_estimator, held_out_note, predicts_numbers
from bagwise.displays import HeatMapDisplay
from bagwise.displays._heat_maps import check_coords, colour_limits, colours, patch_edges, squares
from bagwise.exceptions import InputError, OutputExistsError
from bagwise.io._write_table import write_columns
from bagwise.predictions import Predictions
from bagwise.predictions._attributions import METHODS
from bagwise.predictions._likeness import UNLIKE
from bagwise.predictions._predictions import Contributions
from bagwise.report._page import Card, Figure, Section, Table, render_page
from bagwise.validation import are_times, check_bags, check_known_labels, time_texts

INDEX, TOP = "index.html", "top_patches.csv"
MOST_PICTURES = 300  # on the page; all maps are files
PIXELS_PER_INCH = 130
_OF_PATCHES = ("rank", "row", "x", "y", "value")
_FACTS = ("class", "predicted", "label")
_TAKEN = ("slide", *_OF_PATCHES, *_FACTS)
ENDINGS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp")
LARGEST = 1600  # pixels of a side; a map has about half as many


@dataclass(frozen=True, kw_only=True)
class _Slide:
    """A slide: its name, the values of its patches and their map, and what the model predicts."""

    name: str
    found: Contributions
    map: HeatMapDisplay
    facts: dict[str, Any]  # "class", "predicted" and "label"
    score: float
    seen: bool
    like: float | None  # p-value: is it like the training slides?
    meta: dict[str, Sequence[Any]]  # further columns of the patches
    thumbnail: Any  # file with a picture of the slide, or None

    @cached_property
    def order(self) -> Array:
        """Rows of the patches, the highest value first."""
        return np.argsort(-self.found.values, kind="stable")

    @cached_property
    def top_columns(self) -> dict[str, list[Any]]:
        """The top patches, as columns of a table."""
        rows = self.order[: self.map.top]
        n, (x, y) = len(rows), self.map.coords[rows].T.tolist()
        own = list(range(1, n + 1)), rows.tolist(), x, y, self.found.values[rows].tolist()
        table = {"slide": [self.name] * n, **dict(zip(_OF_PATCHES, own, strict=True))}
        table |= {name: [fact] * n for name, fact in self.facts.items()}
        return table | {name: [column[row] for row in rows] for name, column in self.meta.items()}


@dataclass(eq=False, repr=False)
class HeatMaps:
    """Heat maps of bags whose instances have positions, such as the patches of slides.

    `save` writes, for each bag, a picture (``.png``) and its patches for QuPath (``.geojson``), a
    table of the top patches (``top_patches.csv``), and one page of all bags (``index.html``). All
    maps share one colour scale.

    Parameters
    ----------
    model : estimator
        Any fitted classifier, regressor or survival model of bags, alone or in a pipeline.
    bags : Bags or anything accepted as bags
        The slides; they may be memory-mapped, and are scored one at a time.
    coords : array-like of shape (n_instances, 2)
        The upper left corner of each patch; for QuPath in pixels of the full resolution.
    y : array-like of shape (n_bags,), default=None
        Labels, numbers or times, if they are known.
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
        stems = distinct_names([m.name for m in maps], taken=[Path(INDEX).stem, Path(TOP).stem])
        for slide, stem in zip(maps, stems, strict=True):
            pictures.append(_picture(slide, limits))
            write_file(target / f"{stem}.png", pictures[-1], force=force)
            write_file(target / f"{stem}.geojson", _geojson(slide, limits), force=force)
        columns: dict[str, list[Any]] = {name: [] for name in maps[0].top_columns}
        for slide, name in itertools.product(maps, columns):
            columns[name] += slide.top_columns[name]
        arrays = {name: np.array(values, dtype=object) for name, values in columns.items()}
        write_columns(target / TOP, arrays, force=force)
        page = self._page(maps, pictures, signed=limits[0] < 0 < limits[1])
        write_file(target / INDEX, page, force=force)
        return target / INDEX

    def _maps(self, after_slide: Callable[[], None]) -> list[_Slide]:
        """Score the patches of each slide; slides with the highest score first."""
        bags = check_bags(None, self.bags, reset=True, allow_nan=True)
        coords = check_coords(self.coords, bags)
        if self.top < 1:
            raise InputError(f"top is {self.top}: expected at least 1.")
        numbers = predicts_numbers(self.model)
        if not (numbers or hasattr(self.model, "classes_")):
            raise InputError(
                f"{type(self.model).__name__} has no classes: fit a classifier, or a regressor."
            )
        for name, values in (self.meta or {}).items():
            if len(values) != bags.n_instances or str(name) in _TAKEN:
                raise InputError(
                    f"meta has {len(values)} values called {name!r} for {bags.n_instances} "
                    f"patches: expected one each, and another name than {', '.join(_TAKEN)}."
                )
        edges = patch_edges(self.patch_size, bags, coords)
        seen = np.zeros(len(bags), dtype=bool) if self.seen is None else np.asarray(self.seen)
        classes = [] if numbers else self.model.classes_.tolist()
        names = list(map(str, classes if self.classes is None else self.classes))
        truths: Sequence[Any] = [None] * len(bags)
        if numbers and self.y is not None:
            texts = time_texts(self.y) if are_times(self.y) else getattr(self.y, "texts", None)
            truths = [f"{value:.4g}" for value in self.y] if texts is None else texts
        elif not numbers:
            known = check_known_labels(self.y, bags, classes=classes, names=names)
            truths = truths if known is None else known.texts
        pictures, sizes = check_thumbnails(self.thumbnails, self.slide_sizes, bags)
        maps = []
        for i, (start, stop) in enumerate(itertools.pairwise(bags.offsets.tolist())):
            predictions = Predictions(self.model, bags[i : i + 1], classes=names or None)
            found = predictions.contributions(
                self.label, method=self.method, random_state=self.random_state
            )
            style: Any = {"value_name": found.value_name, "top": self.top, "image_size": sizes[i]}
            table = predictions.bag_table()
            said = table["predicted"][0]
            answers = found.name, f"{said:.4g}" if numbers else str(said), truths[i]
            slide = _Slide(
                name=str(bags.names[i]),
                found=found,
                map=HeatMapDisplay(found.values, coords[start:stop], edges[i], **style),
                facts=dict(zip(_FACTS, answers, strict=True)),
                score=_score(table, found.name, names),
                seen=bool(seen[i]),
                like=float(table["like_training"][0]) if "like_training" in table else None,
                meta={str(name): v[start:stop] for name, v in (self.meta or {}).items()},
                thumbnail=pictures[i],
            )
            maps.append(slide)
            after_slide()
        return sorted(maps, key=lambda slide: -slide.score)

    def _page(self, maps: list[_Slide], pictures: list[bytes], *, signed: bool) -> str:
        labels = {slide.found.name for slide in maps}
        kind = "probability" if hasattr(self.model, "predict_proba") else "score"
        heading = f"{kind} of {labels.pop() if len(labels) == 1 else 'that class'}"
        columns: dict[str, list[Any]] = {
            "slide": [slide.name for slide in maps],
            heading: [slide.score for slide in maps],
            **{name: [slide.facts[name] for slide in maps] for name in _FACTS[1:]},
            "fitted on": [slide.seen or None for slide in maps],
            "like the training slides (p)": [slide.like for slide in maps],
            "patches": [len(slide.order) for slide in maps],
            "highest value": [float(slide.found.values.max()) for slide in maps],
        }
        numbers = {"slides": f"{len(maps):,}", "patches": f"{sum(columns['patches']):,}"}
        methods = dict.fromkeys(METHODS[slide.found.method] for slide in maps)
        goal = "class" if hasattr(self.model, "classes_") else "prediction"
        meaning = f"red patches support the {goal}, blue ones oppose it"
        texts = [
            f"The value of a patch (an instance; the slide is its bag) is {' or '.join(methods)}.",
            f"All maps share one colour scale: {meaning if signed else 'yellow is high'}. The "
            f"{self.top} highest patches of a slide are framed. The folder of this page has "
            "the patches of each slide for QuPath (.geojson) and all top patches (.csv).",
        ]
        if (found := held_out_note(self.model)) is not None:
            texts.insert(0, found[0])
        if n_seen := columns["fitted on"].count(True):
            texts.append(
                f"The model was fitted on {n_seen} of these slides: it knows their labels."
            )
        shown = {name: c for name, c in columns.items() if any(v is not None for v in c)}
        table = Table(shown, "Slides, highest score first", bags=range(len(maps)))
        both = itertools.islice(zip(maps, pictures, strict=True), MOST_PICTURES)
        parts: list[Any] = [_card(slide, png, i, heading) for i, (slide, png) in enumerate(both)]
        if len(maps) > MOST_PICTURES:
            parts.append(f"{len(maps) - MOST_PICTURES} more maps are in the folder of this page.")
        sections = [Section("Slides", numbers, *texts, table), Section("Maps", *parts)]
        lead = f"Heat maps of the patches, by {type(final_estimator(self.model)).__name__}."
        return render_page(self.title, sections, lead=lead)


def _card(slide: _Slide, picture: bytes, number: int, heading: str) -> Card:
    truth = "" if slide.facts["label"] is None else f", labelled {slide.facts['label']}"
    facts = f"Predicted {slide.facts['predicted']}{truth}; {heading}: {slide.score:.3g}."
    if slide.like is not None and slide.like <= UNLIKE:
        facts += f" The slide is unlike the training slides (p {slide.like:.2g})."
    top = slide.top_columns
    alt = f"Heat map of {slide.name}: {len(slide.order)} patches; the table has the highest."
    caption = f"Top patches of {slide.name} by {slide.found.value_name}"
    table = Table({name: top[name] for name in _OF_PATCHES}, caption)
    return Card(number, slide.name, [facts, [Figure(picture, alt), table]])


def _picture(slide: _Slide, limits: tuple[float, float]) -> bytes:
    image = None if slide.thumbnail is None else read_thumbnail(slide.thumbnail)
    return replace(slide.map, limits=limits, image=image).png(PIXELS_PER_INCH)


def _geojson(slide: _Slide, limits: tuple[float, float]) -> bytes:
    """The patches as square tiles, as QuPath reads them.

    QuPath shows a tile in its own colour, and its measurements as a measurement map. Measurements
    are a list of names and values, which all versions of QuPath read; metadata are strings, which
    it reads since version 0.5.
    """
    values, ranks = slide.found.values, (np.argsort(slide.order) + 1).tolist()
    *tints, highest = colours(np.append(values, limits[1]), limits).tolist()
    rings = squares(slide.map.coords, slide.map.patch_size).tolist()
    features = []
    for i, (value, rank) in enumerate(zip(values.tolist(), ranks, strict=True)):
        measured = {slide.found.value_name: value, "rank": rank}
        properties: dict[str, Any] = {
            "objectType": "tile",
            "color": tints[i],
            "measurements": [{"name": name, "value": v} for name, v in measured.items()],
        }
        if rank <= slide.map.top:
            properties["name"] = f"top {rank}"
        if value > 0:
            properties["classification"] = {"name": slide.found.name, "color": highest}
        if own := {name: str(v[i]) for name, v in slide.meta.items() if v[i] is not None}:
            properties["metadata"] = own
        geometry = {"type": "Polygon", "coordinates": [rings[i]]}
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    collection = {"type": "FeatureCollection", "features": features}
    return json.dumps(collection, allow_nan=False, separators=(",", ":")).encode()


def _score(table: dict[str, Array], label: str, names: list[str]) -> float:
    """The probability of a class, or its score if the model has no probabilities."""
    if not names:  # a number or a risk
        return float(table["predicted"][0])
    sign = 1 if label == names[-1] else -1  # of two classes the second has a score
    kinds = {f"probability_{label}": 1, f"score_{label}": 1, "score": sign}
    return next((k * float(table[name][0]) for name, k in kinds.items() if name in table), np.nan)


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise an error if a folder is a file, or is not empty and `force` is False."""
    if folder.exists() and not folder.is_dir():
        raise OutputExistsError(f"{folder} is a file: give the name of a folder.")
    check_place(folder, exists=folder.exists() and any(folder.iterdir()), force=force)


# Pictures of whole slides, over which heat maps are drawn


def find_thumbnails(
    folder: Path, names: Sequence[str], stored: Floats | None, downsample: float | None
) -> tuple[list[Path | None], Floats]:
    """Find the picture of each slide, by its name, and the size of the slide.

    Parameters
    ----------
    folder : Path
        The folder with the pictures.
    names : sequence of str
        The names of the slides.
    stored : ndarray of shape (n_slides, 2) or None
        The sizes of the slides, if their files have them.
    downsample : float or None
        Number of pixels of the slide per pixel of the picture; by default `stored` is used.

    Returns
    -------
    files : list of Path or None
        None if a slide has no picture.
    sizes : ndarray of shape (n_slides, 2)
        Width and height; NaN if unknown.
    """
    if not folder.is_dir():
        raise InputError(f"--thumbnails {folder}: there is no such folder.")
    files = {p.stem: p for p in sorted(folder.iterdir()) if p.suffix.lower() in ENDINGS}
    found = [files.get(name) or files.get(Path(name).stem) for name in names]
    if not any(found):
        raise InputError(f"--thumbnails {folder}: there is no picture such as {names[0]}.jpg.")
    sizes = np.full((len(names), 2), np.nan) if stored is None else stored.copy()
    for i, path in enumerate(found):
        if path is not None and downsample is not None:
            with _opened(path) as picture:
                sizes[i] = np.multiply(picture.size, downsample)
    return found, sizes


def check_thumbnails(
    thumbnails: Sequence[Any] | None, sizes: Any, bags: Bags
) -> tuple[Sequence[Any], Floats]:
    """The thumbnail of each slide, None if there is none, and the size of the slide."""
    sides = np.asarray(np.full((len(bags), 2), np.nan) if sizes is None else sizes, dtype=float)
    pictures = [None] * len(bags) if thumbnails is None else thumbnails
    if len(pictures) != len(bags) or sides.shape != (len(bags), 2):
        raise InputError(
            f"{len(pictures)} thumbnails and slide_sizes of shape {sides.shape} for {len(bags)} "
            "slides: expected one, and a width and a height, each."
        )
    has_picture = np.array([picture is not None for picture in pictures])
    for i in np.flatnonzero(has_picture & ~(sides > 0).all(axis=1)).tolist():
        raise InputError(
            f"the size of {bags.name_of(i)} is unknown: give slide_sizes, its width and height in "
            "the unit of coords, or with --downsample its pixels per pixel of the thumbnail."
        )
    return pictures, sides


def read_thumbnail(path: Any) -> Array:
    """The RGB values of a picture, which is reduced if it is too large."""
    with _opened(path) as picture:
        picture.draft("RGB", (LARGEST, LARGEST))
        picture.thumbnail((LARGEST, LARGEST))
        return np.asarray(picture.convert("RGB"))


@contextmanager
def _opened(path: Any) -> Iterator[Any]:
    images = import_extra("PIL.Image", extra="plot")
    try:
        with images.open(path) as picture:
            yield picture
    except (OSError, ValueError, SyntaxError, images.DecompressionBombError) as error:
        raise InputError(f"the thumbnail {path} cannot be read: {error}. Give a PNG.") from error

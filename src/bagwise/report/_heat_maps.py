"""Heat maps of slides: a picture and a GeoJSON file of each, and one page of all."""

import csv
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
from bagwise.bags import Bags
from bagwise.base._pipelines import final_estimator
from bagwise.exceptions import InputError, OutputExistsError
from bagwise.extras import import_extra
from bagwise.inspection._geojson import patches_as_geojson
from bagwise.inspection._heat_maps import (
    HeatMapDisplay,
    PlacedScores,
    colour_limits,
    colours,
    placed_scores,
)
from bagwise.inspection._tables import bag_table, class_names
from bagwise.report._page import Card, Numbers, Picture, Section, SideBySide, Table, render_page
from bagwise.report._place_maps import check_coords, patch_edges

INDEX, TOP = "index.html", "top_patches.csv"
MOST_PICTURES = 300  # on the page; all maps are files
PIXELS_PER_INCH = 130
LARGEST_THUMBNAIL = 1600  # pixels of a side; a map has about half as many
_TOP_COLUMNS = ("slide", "rank", "row", "x", "y", "value", "class", "predicted", "label")
_CONTRIBUTIONS = {
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
    found: PlacedScores
    label: str  # the name of the class that is shown
    predicted: str
    score: float
    truth: str | None
    seen: bool
    top: Array  # rows of the highest values, the highest first
    meta: dict[str, list[Any]]  # further columns of the patches
    thumbnail: Any = None  # picture of the slide: a file, or an array
    size: tuple[float, float] | None = None  # width and height, in the unit of the coords

    @property
    def value_name(self) -> str:
        kind = "score for" if self.found.method == "score" else "contribution to"
        return f"{kind} {self.label}"


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
    >>> from bagwise.report import HeatMaps
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
        stems = _file_names([m.name for m in maps])
        pictures = []
        for slide, stem in zip(maps, stems, strict=True):
            picture = _picture(slide, limits)
            pictures.append(picture)
            _write(target / f"{stem}.png", picture, force=force)
            _write(target / f"{stem}.geojson", _geojson(slide, limits), force=force)
        _write(target / TOP, _top_table(maps), force=force)
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
        names = [str(name) for name in class_names(self.model, self.classes)]
        known = check_known_labels(self.y, bags, classes=classes.tolist(), names=names)
        label = None if self.label is None else classes[check_label(self.label, classes)]
        truths = [None] * len(bags) if known is None else known.texts
        parts = bags.split(coords)
        meta = self._split_meta(bags)
        pictures, sizes = self._pictures(bags)
        maps = []
        for i, name in enumerate(bags.names.tolist()):
            bag = bags[i : i + 1]
            found = placed_scores(
                self.model, bag, label=label, method=self.method, random_state=self.random_state
            )
            shown = names[check_label(found.label, classes)]
            table = bag_table(self.model, bag, classes=names)
            maps.append(
                _SlideMap(
                    name=str(name),
                    coords=parts[i],
                    edge=edges[i],
                    found=found,
                    label=shown,
                    predicted=str(table["predicted"][0]),
                    score=_score(table, shown, names),
                    truth=truths[i],
                    seen=bool(seen[i]),
                    top=np.argsort(-found.values, kind="stable")[: self.top],
                    meta={column: values[i] for column, values in meta.items()},
                    thumbnail=pictures[i],
                    size=sizes[i],
                )
            )
            after_slide()
        return sorted(maps, key=lambda slide: -slide.score)

    def _split_meta(self, bags: Bags) -> dict[str, list[list[Any]]]:
        """The further columns of the patches, by slide."""
        meta = {str(name): list(values) for name, values in (self.meta or {}).items()}
        for name, values in meta.items():
            if len(values) != bags.n_instances or name in _TOP_COLUMNS:
                raise InputError(
                    f"meta has {len(values)} values called {name!r} for {bags.n_instances} "
                    f"patches: expected one each, and another name than {', '.join(_TOP_COLUMNS)}."
                )
        ends = bags.offsets.tolist()
        return {
            name: [values[start:stop] for start, stop in itertools.pairwise(ends)]
            for name, values in meta.items()
        }

    def _pictures(self, bags: Bags) -> tuple[list[Any], list[tuple[float, float] | None]]:
        """The thumbnail of each slide, and the size of the slide; None if there is none."""
        nothing: list[Any] = [None] * len(bags)
        pictures = nothing if self.thumbnails is None else list(self.thumbnails)
        if self.thumbnails is None:
            return nothing, nothing
        sizes = np.full((len(bags), 2), np.nan) if self.slide_sizes is None else self.slide_sizes
        sides = np.asarray(sizes, dtype=float)
        if len(pictures) != len(bags) or sides.shape != (len(bags), 2):
            raise InputError(
                f"there are {len(pictures)} thumbnails and slide_sizes of shape {sides.shape} for "
                f"{len(bags)} slides: expected one, and a width and a height, each."
            )
        for i, picture in enumerate(pictures):
            if picture is not None and not (np.isfinite(sides[i]) & (sides[i] > 0)).all():
                raise InputError(
                    f"the size of {bags.name_of(i)} is unknown, and its map cannot be drawn over "
                    "its thumbnail: give slide_sizes, its width and height in the unit of coords."
                )
        return pictures, [(float(width), float(height)) for width, height in sides]

    def _page(self, maps: list[_SlideMap], pictures: list[bytes], *, signed: bool) -> str:
        has_proba = hasattr(self.model, "predict_proba")
        labels = {slide.label for slide in maps}
        of_label = f"of {labels.pop()}" if len(labels) == 1 else "of that class"
        heading = f"{'probability' if has_proba else 'score'} {of_label}"
        known = [slide for slide in maps if slide.truth is not None]
        n_seen = sum(slide.seen for slide in maps)
        columns: dict[str, list[Any]] = {
            "slide": [slide.name for slide in maps],
            heading: [slide.score for slide in maps],
            "predicted": [slide.predicted for slide in maps],
        }
        numbers = [("slides", f"{len(maps):,}")]
        numbers.append(("patches", f"{sum(len(slide.coords) for slide in maps):,}"))
        if known:
            columns["label"] = [slide.truth for slide in maps]
            wrong = sum(slide.truth != slide.predicted for slide in known)
            numbers.append(("wrongly predicted", f"{wrong:,} of {len(known):,}"))
        if n_seen:
            columns["fitted on"] = [slide.seen for slide in maps]
        columns["patches"] = [len(slide.coords) for slide in maps]
        columns["highest value"] = [float(slide.found.values.max()) for slide in maps]
        texts = [_CONTRIBUTIONS[m] for m in dict.fromkeys(slide.found.method for slide in maps)]
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
            [Section("Slides", Numbers(numbers), *texts, table), Section("Maps", *cards, *rest)],
            lead=f"Heat maps of the patches, by {type(final_estimator(self.model)).__name__}.",
            footer=f"Made by bagwise {bagwise.__version__}. This page needs no network and sends "
            "no data.",
        )


def _card(slide: _SlideMap, picture: bytes, number: int, heading: str) -> Card:
    truth = "" if slide.truth is None else f", labelled {slide.truth}"
    facts = f"Predicted {slide.predicted}{truth}; {heading}: {slide.score:.3g}."
    top = slide.top
    x, y, value = slide.coords[top, 0], slide.coords[top, 1], slide.found.values[top]
    columns = {"rank": range(1, len(top) + 1), "x": x.tolist(), "y": y.tolist()}
    columns |= {"value": value.tolist(), "row": top.tolist()}
    image = Picture(
        picture,
        alt=f"Heat map of {slide.name}: {len(slide.coords)} patches, the highest at "
        f"x {x[0]:g}, y {y[0]:g}.",
    )
    parts = SideBySide(
        [image, Table(columns, f"Top patches of {slide.name} by {slide.value_name}")]
    )
    return Card(number, slide.name, [facts, parts])


def _picture(slide: _SlideMap, limits: tuple[float, float]) -> bytes:
    figures = import_extra("matplotlib.figure", extra="plot")
    display = HeatMapDisplay(
        slide.found.values,
        slide.coords,
        slide.edge,
        value_name=slide.value_name,
        limits=limits,
        top=len(slide.top),
        image=None if slide.thumbnail is None else _read_thumbnail(slide.thumbnail),
        image_size=slide.size,
    )
    figure = figures.Figure(figsize=display._size(), layout="constrained")
    display.plot(ax=figure.subplots())
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=PIXELS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def _read_thumbnail(path: Any) -> Array:
    """The RGB values of a picture, which is reduced if it is too large."""
    images = import_extra("PIL.Image", extra="plot")
    try:
        with images.open(path) as picture:
            picture.draft("RGB", (LARGEST_THUMBNAIL, LARGEST_THUMBNAIL))
            picture.thumbnail((LARGEST_THUMBNAIL, LARGEST_THUMBNAIL))
            return np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError, images.DecompressionBombError) as error:
        raise InputError(
            f"the thumbnail {path} cannot be read: {error}. Give PNG or JPEG."
        ) from error


def _geojson(slide: _SlideMap, limits: tuple[float, float]) -> bytes:
    values, top = slide.found.values, slide.top
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    collection = patches_as_geojson(
        slide.coords,
        slide.edge,
        label=slide.label,
        supports=values > 0,
        colours=colours(values, limits),
        class_colour=colours(np.array([limits[1]]), limits)[0].tolist(),
        measurements={slide.value_name: values, "rank": ranks},
        names={int(row): f"top {rank}" for rank, row in enumerate(top, 1)},
        metadata=slide.meta,
    )
    return json.dumps(collection, allow_nan=False, separators=(",", ":")).encode()


def _top_table(maps: list[_SlideMap]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    further = list(maps[0].meta)
    writer.writerow([*_TOP_COLUMNS, *further])
    for slide in maps:
        for rank, row in enumerate(slide.top.tolist(), 1):
            place, value = slide.coords[row].tolist(), float(slide.found.values[row])
            facts = slide.label, slide.predicted, slide.truth
            own = [slide.meta[name][row] for name in further]
            writer.writerow([slide.name, rank, row, *place, value, *facts, *own])
    return text.getvalue().encode("utf-8")


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

"""Pictures of whole slides, over which heat maps are drawn."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.extras import import_extra

ENDINGS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp")
LARGEST = 1600  # pixels of a side; a map has about half as many


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

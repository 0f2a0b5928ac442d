"""``bagwise heatmap``: the scores of the patches of slides, as PNG, GeoJSON and a page."""

from pathlib import Path
from typing import Any

from bagwise.cli import options
from bagwise.cli.output import note, print_address, progress
from bagwise.exceptions import InputError, counted


def heatmap(
    saved: options.Saved,
    columns: options.Columns,
    output: Path = options.output("Output folder.", "FOLDER"),
    class_name: str | None = options.option("Class; by default as predicted.", "NAME", "--class"),
    attribution: str | None = options.option("Value: score, single, one_removed or sampled."),
    top: int = options.option("Number of patches to frame and list.", default=10, min=1),
    coords: str | None = options.COORDS,
    patch_size: float | None = options.option("Edge of a patch; by default from the file."),
    thumbnails: Path | None = options.option("Folder with pictures of the slides, drawn below."),
    downsample: float | None = options.option("Pixels of the slide per pixel of its thumbnail."),
    title: str | None = options.TITLE,
    seed: int = options.option("Seed of the subsets of sampled.", default=0, min=0),
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Draw heat maps of slides: PNG, GeoJSON for QuPath, and an HTML page.

    Reads a model and a folder of HDF5 files with `features` and `coords`, as TRIDENT and CLAM write
    them, or another file with --coords. Writes for each slide a heat map (.png) and its patches
    with measurements for QuPath (.geojson); for all slides a table of the top patches
    (top_patches.csv) and a page, the slide with the highest score first (index.html). With --labels
    the page shows labels. Columns of --keep are written to the table and, as metadata, to the
    GeoJSON files.

    By default a map is for the second of two classes, or for the predicted class of each slide. The
    value of a patch (--attribution) is its score if the score of a slide is pooled from scores of
    patches; otherwise sampled, or single for large slides. With --thumbnails the maps are drawn
    over pictures of the slides, which have the names of the slides, such as slide_08.jpg; the size
    of a slide is read from its file (TRIDENT, CLAM) or computed by --downsample. --patch-size is in
    pixels of the full resolution.

    ```
    bagwise heatmap model.skops slides/ -o maps
    bagwise heatmap model.skops slides/ --labels labels.csv --id-column slide_id -o named
    bagwise heatmap model.skops slides/ --class tumour --attribution single -o single
    bagwise heatmap model.skops slides/ --thumbnails thumbnails -o seen
    ```
    """
    if columns.merge is not None:
        raise InputError("--merge cannot be used here: a heat map shows one slide.")
    if downsample is not None and (thumbnails is None or not downsample > 0):
        raise InputError(f"--downsample {downsample:g}: expected a number > 0, with --thumbnails.")
    from bagwise.apps.heatmap import HeatMaps
    from bagwise.apps.heatmap._heat_maps import check_folder, find_thumbnails
    from bagwise.cli.reading import known_targets, open_saved, seen_in_training
    from bagwise.cli.results import places, say_held_out

    check_folder(output, force=force)
    axes = options.two_columns(coords)
    model, facts, data = open_saved(saved, columns, merged=False, extra_columns=axes)
    classes, slides, n_slides = facts.get("classes"), data.bags.names.tolist(), len(data.bags)
    pictures, sizes = None, None
    if thumbnails is not None:
        names = list(map(str, slides))
        pictures, sizes = find_thumbnails(thumbnails, names, data.slide_sizes, downsample)
        if n_missing := pictures.count(None):
            note(f"{n_missing} of {n_slides} slides have no thumbnail in {thumbnails}.")
    maps = HeatMaps(
        model,
        data.bags,
        places(data, axes, saved.file),
        known_targets(model, data, facts),
        patch_size=data.patch_sizes if patch_size is None else patch_size,
        label=_class(class_name, model, classes),
        method=attribution,
        top=top,
        title=title or f"Heat maps of {saved.file.name}",
        seen=seen_in_training(data, facts),
        classes=classes,
        meta={name: values for name, values in data.columns.items() if name not in axes},
        thumbnails=pictures,
        slide_sizes=sizes,
        random_state=seed,
    )
    with progress(f"Mapping {counted(n_slides, 'slide')}", total=n_slides) as step:
        page = maps.save(output, force=force, after_slide=step)
    note(f"{counted(n_slides, 'slide')} in {output}. Open this page, the .geojson in QuPath:")
    print_address(page.resolve())
    counts = {"slides": n_slides, "patches": data.bags.n_instances}
    written = {"model": saved.model, "file": saved.file, **counts, "written": [output]}
    return written | say_held_out(model)


def _class(name: str | None, model: Any, names: list[Any] | None) -> Any:
    """The class of the model with this name; None if no name is given."""
    if name is None:
        return None
    classes = list(getattr(model, "classes_", ()))
    by_name = dict(zip(map(str, names or classes), classes, strict=False))
    if name not in by_name:
        raise InputError(f"--class {name}: the classes of the model are {', '.join(by_name)}.")
    return by_name[name]

"""Patches of a slide as GeoJSON, as QuPath reads and writes it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.displays._heat_maps import squares


def patches_as_geojson(
    coords: Array,
    edge: float,
    *,
    label: str,
    supports: Bools,
    colours: Ints,
    class_colour: Sequence[int],
    measurements: Mapping[str, Floats | Ints],
    names: Mapping[int, str],
    metadata: Mapping[str, Sequence[Any]],
) -> dict[str, Any]:
    """Write patches as square tiles, with their values as measurements.

    QuPath shows a tile in its own colour, and its measurements as a measurement map. Measurements
    are a list of names and values, which all versions of QuPath read; metadata are strings, which
    it reads since version 0.5.

    Parameters
    ----------
    coords : ndarray of shape (n_instances, 2)
        Upper left corners, in pixels of the full resolution.
    edge : float
        Length of an edge.
    label : str
        The class of the tiles in `supports`.
    supports : ndarray of bool of shape (n_instances,)
        Which tiles belong to the class; the others have no class.
    colours : ndarray of int of shape (n_instances, 3)
        Red, green and blue of each tile, from 0 to 255.
    class_colour : sequence of 3 int
        The colour of the class.
    measurements : mapping of str to ndarray of shape (n_instances,)
        Values of each tile, by name.
    names : mapping of int to str
        Names of some tiles, by their row.
    metadata : mapping of str to sequence of length n_instances
        Further values of each tile, by name; None if missing.

    Returns
    -------
    dict
        A FeatureCollection of plain values.
    """
    whole = bool((coords == coords.round()).all()) and float(edge).is_integer()
    corners = squares(coords, edge)
    rings = (corners.astype(int) if whole else corners).tolist()
    rows = zip(*(values.tolist() for values in measurements.values()), strict=True)
    features = []
    for i, (ring, colour, values) in enumerate(zip(rings, colours.tolist(), rows, strict=True)):
        properties: dict[str, Any] = {"objectType": "tile", "color": colour}
        if i in names:
            properties["name"] = names[i]
        if supports[i]:
            properties["classification"] = {"name": label, "color": list(class_colour)}
        properties["measurements"] = [
            {"name": name, "value": value} for name, value in zip(measurements, values, strict=True)
        ]
        own = {name: str(v[i]) for name, v in metadata.items() if v[i] is not None}
        if own:
            properties["metadata"] = own
        geometry = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    return {"type": "FeatureCollection", "features": features}

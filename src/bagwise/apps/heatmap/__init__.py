"""Heat maps of slides: pictures, patches for QuPath, a table of the top patches, and a page."""

from bagwise.apps.heatmap._heat_maps import HeatMaps

__all__ = ["HeatMaps"]

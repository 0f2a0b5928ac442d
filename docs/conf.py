"""Sphinx configuration."""

import bagwise

project = "bagwise"
author = "the bagwise developers"
copyright = "the bagwise developers"
release = bagwise.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery/*.ipynb", "sg_execution_times.rst"]

html_theme = "pydata_sphinx_theme"
html_title = "bagwise"
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
}
# A page without pages below it needs no list of them.
html_sidebars = {page: [] for page in ("index", "choose", "data", "limits")}

autosummary_generate = True
numpydoc_show_class_members = False
autodoc_default_options = {"members": True, "inherited-members": "BaseEstimator"}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# References inside docstrings inherited from scikit-learn lead into its own documentation.
suppress_warnings = ["ref.ref", "ref.term"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),  # the plot is shown; "<Display object at 0x...>" is not
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1,
    "doc_module": ("bagwise",),
    "reference_url": {"bagwise": None},
}

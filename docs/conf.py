"""Sphinx configuration."""

import bagwise

project = "bagwise"
author = "the bagwise developers"
release = bagwise.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "bagwise"
autosummary_generate = True
numpydoc_show_class_members = False
autodoc_default_options = {"members": True, "inherited-members": "BaseEstimator"}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# References inside docstrings inherited from scikit-learn lead into its own documentation.
suppress_warnings = ["myst.xref_missing", "ref.ref", "ref.term"]

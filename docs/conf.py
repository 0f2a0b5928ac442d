"""Sphinx configuration."""

import re
import sys
from pathlib import Path
from textwrap import wrap
from unicodedata import normalize

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from numpy.typing import ArrayLike, DTypeLike
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import stringify_annotation

import bagwise
from bagwise._common import types

sys.path.insert(0, str(Path(__file__).parent.parent))
from docs.tables import whole

project = "bagwise"
author = "the bagwise developers"
copyright = "the bagwise developers"
release = bagwise.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "gallery/*.ipynb"]

html_theme = "pydata_sphinx_theme"
html_title = "bagwise"
html_static_path = ["_static"]
html_css_files = ["bagwise.css"]
html_js_files = ["versions.js"]
html_favicon = "_static/favicon.svg"
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_math_renderer = "mathml"
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as in the reader's system
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_end": ["versions", "theme-switcher"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
}
# A page without subpages needs no list of them.
html_sidebars = {page: [] for page in ("index", "choose", "data", "cli")}

autosummary_generate = True
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
autodoc_default_options = {"members": True, "inherited-members": "BaseEstimator"}
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
# References inside docstrings inherited from scikit-learn lead into its own documentation.
suppress_warnings = ["ref.ref", "ref.term"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "ignore_pattern": r"(demo|__init__)\.py$",
    "within_subsection_order": "ExampleTitleSortKey",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),  # the plot is shown; "<Display object at 0x...>" is not
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "doc_module": ("bagwise",),
    "reference_url": {"bagwise": None},
}


def public_names():
    """Full path of each public name, by the name alone and by package and name."""
    found, packages = {"Bags": "bagwise.Bags"}, {}
    for package in bagwise._PACKAGES:
        for name in getattr(bagwise, package).__all__:
            found[f"{package}.{name}"] = f"bagwise.{package}.{name}"
            packages.setdefault(name, []).append(package)
    alone = {
        name: f"bagwise.{where[0]}.{name}" for name, where in packages.items() if len(where) == 1
    }
    return found | alone


# Types that Sphinx writes out in full, by their names. They are fully qualified where a default
# value keeps Sphinx from parsing a signature.
SHORT_TYPES = {
    stringify_annotation(long, mode): short
    for mode in ("fully-qualified-except-typing", "smart")
    for short, longs in (
        ("ArrayLike", [ArrayLike]),
        ("DTypeLike", [DTypeLike]),
        ("ndarray", [types.Array, types.Bools, types.Floats, types.Ints]),
    )
    for long in longs
}


def shorten_signature(app, what, name, obj, options, signature, returns):
    """Write ArrayLike instead of its union type, and ... for a default that is a function."""
    for long, short in SHORT_TYPES.items():
        signature = signature and signature.replace(long, short)
        returns = returns and returns.replace(long, short)
    signature = signature and re.sub(r"<factory>|<function \S*<lambda>>", "...", signature)
    return signature, returns


def link_names(app, doctree):
    """Link names such as `BagMarginSVM`, set as code in a page, to their reference."""
    if app.env.docname.startswith(("generated/", "gallery/")):
        return
    names = public_names()
    linked = (nodes.reference, addnodes.pending_xref, nodes.title)
    for code in list(doctree.findall(nodes.literal)):
        if code.astext() in names and not isinstance(code.parent, linked):
            link = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=names[code.astext()], refwarn=False
            )
            code.replace_self(link)
            link += code


def wrap_commands(app, doctree):
    """Wrap long commands, so that they are visible without scrolling."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language") != "console":
            continue
        lines = block.astext().splitlines()
        for i, line in enumerate(lines):
            if line.startswith("$ ") and not set(line) & set("\"'#"):
                whole = re.sub(r" (?=[^-])", "\0", line)  # an option and its value stay together
                parts = wrap(whole, 88, break_long_words=False, break_on_hyphens=False)
                lines[i] = " \\\n      ".join(parts).replace("\0", " ")
        block.rawsource = "\n".join(lines)
        block.children = [nodes.Text(block.rawsource)]


class IndexGlossary(SphinxTransform):
    """Enter the terms of the glossary, and their synonyms, into the index for the search."""

    default_priority = 800  # before the index is made of the page

    def apply(self, **_):
        if self.env.docname != "glossary":
            return
        for term in self.document.findall(nodes.term):
            names = [name.strip() for name in re.split(r"[(),]", term.astext()) if name.strip()]
            anchor = nodes.make_id(f"term {names[0]}")
            term["ids"].append(anchor)
            term += addnodes.index(entries=[("single", n, anchor, "main", None) for n in names])


def add_tables(app, docname, source):
    """Put the tables that only the site has into a page."""
    source[0] = whole(source[0])


def write_formula(translator, node):
    """Write a formula as MathML, which browsers render without an external script."""
    block = isinstance(node, nodes.math_block)
    tag = "div" if block else "span"
    # The converter needs braces in "tfrac12", and treats the index of "hat y_i" as a limit.
    tex = re.sub(r"\\([td]?frac)(\d|{[^{}]*})(\w)", r"\\\1{\2}{\3}", node.astext())
    tex = re.sub(r"\\hat (\w)", lambda found: normalize("NFC", found[1] + "\u0302"), tex)
    formula = tex2mathml(tex, as_block=block)
    translator.body.append(f'<{tag} class="formula">{formula}</{tag}>')
    raise nodes.SkipNode


def setup(app):
    app.add_transform(IndexGlossary)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("source-read", add_tables)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", wrap_commands)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))

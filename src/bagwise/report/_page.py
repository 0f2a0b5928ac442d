"""One self-contained HTML page of text, tables and plots: it opens from disk, without network."""

import base64
import hashlib
import io
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from bagwise.extras import import_extra
from bagwise.report._cells import are_numbers, cell_text

_SHORT = 24  # maximum characters of a cell without line breaks


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Attributes
    ----------
    columns : mapping of str to sequence
        The cells of each column by its heading; the first column names the rows.
    caption : str
        What the table shows.
    shades : sequence of sequence of float, default=None
        Intensity of the background of each cell, from 0 to 1, row by row, without the first column.
    bags : sequence of int, default=None
        The position of the bag of each row; the first cell then links to that bag.
    """

    columns: Mapping[str, Sequence[Any]]
    caption: str
    shades: Sequence[Sequence[float]] | None = None
    bags: Sequence[int] | None = None

    @property
    def rows(self) -> list[list[str]]:
        """The cells as strings, row by row."""
        return [
            [cell_text(value) for value in row] for row in zip(*self.columns.values(), strict=True)
        ]

    @property
    def styles(self) -> list[str]:
        """CSS classes of each column: numbers right-aligned, short texts without a line break."""
        found = []
        for column in self.columns.values():
            short = all(len(cell_text(value)) <= _SHORT for value in column)
            found.append(" ".join(["number"] * are_numbers(column) + ["short"] * short))
        return found


@dataclass(frozen=True)
class Figure:
    """A plot of a page, drawn as SVG.

    Attributes
    ----------
    figure : matplotlib Figure
        The plot. Points whose url is "#bag-3" link to the bag at position 3.
    alt : str
        Description for screen readers.
    caption : str
        The caption.
    titles : sequence of str
        Tooltips of the points that link to bags.
    """

    figure: Any
    alt: str
    caption: str = ""
    titles: Sequence[str] = ()

    @property
    def svg(self) -> str:
        """The SVG element; black becomes the colour of the text, which is light in dark mode."""
        matplotlib = import_extra("matplotlib", extra="report")
        escape = import_extra("markupsafe", extra="report").escape
        buffer = io.StringIO()
        settings = {"svg.hashsalt": self.alt + self.caption, "svg.fonttype": "none"}
        with matplotlib.rc_context(settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about glyphs: the browser has other fonts
            self.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        text = buffer.getvalue()
        left_out = r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->|\n"
        text = re.sub(left_out, " ", text, flags=re.DOTALL)
        text = text[text.index("<svg") :].replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
        text = re.sub(r'(<g|<text|<path) id="[\w.]+_\d+"', r"\1", text)  # names of artists
        text = text.replace("xlink:href", "href").replace("#000000", "currentColor")
        titles = iter(self.titles)
        text = re.sub(
            r'<a href="(#bag-\d+)"[^>]*>',
            lambda found: (
                f'<a href="{found[1]}" tabindex="-1"><title>{escape(next(titles, ""))}</title>'
            ),
            text,
        )
        return text.replace("<svg", f'<svg role="img" aria-label="{escape(self.alt)}"', 1)


def shorten(text: str, longest: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def data_url(content: bytes, kind: str) -> str:
    """The content of a file, inside a page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


@dataclass(frozen=True)
class Picture:
    """A picture of a page: the content of a PNG file, a description, and a caption."""

    png: bytes
    alt: str
    caption: str = ""

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return data_url(self.png, "image/png")


@dataclass(frozen=True)
class Card:
    """The part of a page about one bag, below its name; rows of a `Table` link to its position."""

    bag: int
    title: str
    parts: list[Any]


@dataclass(frozen=True)
class Explorer:
    """A searchable list of all bags, which opens one at a time; at most one per page.

    Attributes
    ----------
    data : dict
        The data of ``templates/explorer.js``, as plain values.
    """

    data: Mapping[str, Any]

    @property
    def json(self) -> str:
        """The data for a script element, which ends at the first ``</script``."""
        text = json.dumps(self.data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.replace("<", "\\u003c")

    @property
    def script(self) -> str:
        """The JavaScript program that shows the bags."""
        return (resources.files("bagwise.report") / "templates" / "explorer.js").read_text("utf-8")

    @property
    def policy(self) -> str:
        """The hash of the script that may run, for the content security policy of the page."""
        digest = hashlib.sha256(self.script.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"


class Section:
    """A section of a page.

    Attributes
    ----------
    title : str
        The heading.
    parts : tuple of str, dict, list, Table, Figure, Picture, Card or Explorer
        The parts, in order. A str is a paragraph of plain text, a dict a few numbers in large type
        by their names, a list holds parts that are shown side by side.
    """

    def __init__(self, title: str, *parts: Any) -> None:
        self.title, self.parts = title, parts


def render_page(
    title: str, sections: Iterable[Section], *, lead: str = "", footer: str = ""
) -> str:
    """Write sections as one HTML page that opens from disk.

    All strings are escaped: a bag called ``<script>`` is shown, never run.

    Parameters
    ----------
    title : str
        Title of the page.
    sections : iterable of Section
        The sections.
    lead : str, default=""
        A sentence below the title.
    footer : str, default=""
        A line at the end.

    Returns
    -------
    str
        The HTML text.

    Examples
    --------
    >>> from bagwise.report._page import Section, Table, render_page
    >>> table = Table({"bag": ["<script>"], "score": [0.5]}, caption="Scores")
    >>> page = render_page("Report", [Section("Bags", "All of them.", table)])
    >>> "&lt;script&gt;" in page, "<script>" in page
    (True, False)
    """
    jinja2 = import_extra("jinja2", extra="report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bagwise.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["kind"] = lambda part: type(part).__name__
    shown = list(sections)
    parts = (part for section in shown for part in section.parts)
    policies = [part.policy for part in parts if isinstance(part, Explorer)]
    template = environment.get_template("page.html.jinja")
    return template.render(
        title=title, lead=lead, sections=shown, footer=footer, script_policies=policies
    )

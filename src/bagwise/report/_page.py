"""One self-contained HTML page of text, tables and plots: it opens from disk, without network."""

import base64
import hashlib
import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import bagwise
from bagwise._common.extras import import_extra
from bagwise._common.tables import are_numbers, cell_text
from bagwise.displays._base import plain_frame

FOOTER = f"Made by bagwise {bagwise.__version__}. This page needs no network and sends no data."
_SHORT = 24  # maximum characters of a cell without line breaks
_FIGURE_SIZE = (4.4, 3.3)  # inches


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
        return [list(map(cell_text, row)) for row in zip(*self.columns.values(), strict=True)]

    @property
    def styles(self) -> list[str]:
        """CSS classes of each column: numbers right-aligned, short strings without a line break."""
        found = []
        for column in self.columns.values():
            short = all(len(cell_text(value)) <= _SHORT for value in column)
            found.append(" ".join(["number"] * are_numbers(column) + ["short"] * short))
        return found


@dataclass(frozen=True)
class Figure:
    """A plot of a page.

    Attributes
    ----------
    drawing : matplotlib Figure or bytes
        The plot, which becomes SVG, or the content of a PNG file. Points whose url is "#bag-3" link
        to the bag at position 3.
    alt : str
        Description for screen readers.
    caption : str
        The caption.
    titles : sequence of str
        Tooltips of the points that link to bags.
    """

    drawing: Any
    alt: str
    caption: str = ""
    titles: Sequence[str] = ()

    @property
    def markup(self) -> str:
        """The element; black becomes the colour of the text, which is light in dark mode."""
        escape = import_extra("markupsafe", extra="report").escape
        if isinstance(self.drawing, bytes):
            return f'<img src="{data_url(self.drawing, "image/png")}" alt="{escape(self.alt)}">'
        matplotlib = import_extra("matplotlib", extra="report")
        buffer = io.StringIO()
        settings = {"svg.hashsalt": self.alt + self.caption, "svg.fonttype": "none"}
        with matplotlib.rc_context(settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about glyphs: the browser has other fonts
            self.drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        left_out = r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->|\n"
        text = re.sub(left_out, " ", buffer.getvalue(), flags=re.DOTALL)
        text = text[text.index("<svg") :].replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
        text = re.sub(r'(<g|<text|<path) id="[\w.]+_\d+"', r"\1", text)  # names of artists
        text = text.replace("xlink:href", "href").replace("#000000", "currentColor")
        titles = iter(self.titles)

        def link(found: re.Match[str]) -> str:
            title = escape(next(titles, ""))
            return f'<a href="{found[1]}" tabindex="-1"><title>{title}</title>'

        text = re.sub(r'<a href="(#bag-\d+)"[^>]*>', link, text)
        return text.replace("<svg", f'<svg role="img" aria-label="{escape(self.alt)}"', 1)


def axes(x_label: str, y_label: str, *, diagonal: bool = False) -> Any:
    """Make axes with labels; `diagonal` is a dashed line of equal values."""
    figures = import_extra("matplotlib.figure", extra="report")
    ax = figures.Figure(_FIGURE_SIZE, layout="constrained").subplots()
    ax.set_xlabel(x_label, parse_math=False)
    ax.set_ylabel(y_label, parse_math=False)
    plain_frame(ax, grid="both")
    if diagonal:
        ax.axline((0, 0), slope=1, color="0.5", linestyle="--", linewidth=1)
    return ax


def link_points(points: Any, bags: Iterable[int]) -> None:
    """Let each point of a scatter plot link to a bag of the page."""
    points.set_urls([f"#bag-{i}" for i in bags])


def shorten(text: str, longest: int) -> str:
    """The string, cut to at most so many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def data_url(content: bytes, kind: str) -> str:
    """The content of a file, inside a page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


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


class Section:
    """A section of a page.

    Attributes
    ----------
    title : str
        The heading.
    parts : tuple of str, dict, list, Table, Figure, Card or Explorer
        The parts, in order. A str is a paragraph of plain text, a dict a few numbers in large type
        by their names, a list contains parts that are shown side by side. None is left out.
    """

    def __init__(self, title: str, *parts: Any) -> None:
        self.title, self.parts = title, _without_none(parts)


def _without_none(parts: Iterable[Any]) -> list[Any]:
    found = (_without_none(part) if isinstance(part, list) else part for part in parts)
    return [part for part in found if part is not None and part != []]


def render_page(
    title: str, sections: Iterable[Section], *, lead: str = "", footer: str = FOOTER
) -> str:
    """Write sections as one HTML page that opens from disk.

    All strings are escaped: a bag called ``<script>`` is shown, never run. The content security
    policy of the page allows the script of the explorer alone, by its hash.

    Parameters
    ----------
    title : str
        Title of the page.
    sections : iterable of Section
        The sections.
    lead : str, default=""
        A sentence below the title.
    footer : str, default=FOOTER
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
    compact = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = compact
    script = (resources.files("bagwise.report") / "templates" / "explorer.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html.jinja").render(
        title=title,
        lead=lead,
        sections=list(sections),
        footer=footer,
        script=script,
        policy=f"'sha256-{digest}'",
    )

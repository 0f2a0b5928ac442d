"""One self-contained HTML page of text, tables and plots: it opens from disk, without network."""

import base64
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from bagwise.extras import import_extra
from bagwise.report._cells import are_numbers, cell_text

# Black becomes the colour of the text, which is light in dark mode.
_SVG_STYLE = (
    "<style>svg{color:#1d2126;fill:currentColor}"
    "@media screen and (prefers-color-scheme:dark){svg{color:#dfe3e8}}</style>"
)
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
    """A plot of a page.

    Attributes
    ----------
    figure : matplotlib Figure
        The plot.
    alt : str
        Description for screen readers.
    caption : str
        The caption.
    """

    figure: Any
    alt: str
    caption: str = ""

    @property
    def source(self) -> str:
        """The plot as a data URL."""
        return f"data:image/svg+xml;base64,{base64.b64encode(_svg(self.figure)).decode()}"


@dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes
    ----------
    png : bytes
        The content of a PNG file.
    alt : str
        Description for screen readers.
    caption : str
        The caption.
    """

    png: bytes
    alt: str
    caption: str = ""

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True)
class Code:
    """A block of code.

    Attributes
    ----------
    text : str
        The lines.
    """

    text: str


@dataclass(frozen=True)
class Drawing:
    """A plot drawn in the colours of the page, by `bagwise.report._charts`.

    Attributes
    ----------
    width, height : int
        Size in pixels.
    marks : list of (str, dict, str)
        SVG elements: name, attributes and text.
    alt : str
        Description for screen readers.
    caption : str
        The caption.
    legend : list of (str, str)
        A CSS class of a colour, and its meaning.
    """

    width: int
    height: int
    marks: list[tuple[str, dict[str, Any], str]]
    alt: str
    caption: str = ""
    legend: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class SideBySide:
    """Parts that are shown side by side if the screen is wide enough.

    Attributes
    ----------
    parts : list
        The parts.
    """

    parts: list[Any]


@dataclass(frozen=True)
class Card:
    """The part of a page about one bag, below its name.

    Attributes
    ----------
    bag : int
        The position of the bag, to which the rows of a `Table` link.
    title : str
        The name of the bag.
    parts : list
        As in a section.
    """

    bag: int
    title: str
    parts: list[Any]


@dataclass(frozen=True)
class Numbers:
    """A few numbers in large type.

    Attributes
    ----------
    items : list of (str, str)
        The name of a number, and the number.
    """

    items: list[tuple[str, str]]


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


class Section:
    """A section of a page.

    Attributes
    ----------
    title : str
        The heading.
    parts : tuple of str, Table, Figure, Picture, Drawing, SideBySide, Card, Numbers, Code, Explorer
        The parts, in order; a str is a paragraph of plain text.
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
    template = environment.get_template("page.html.jinja")
    shown = list(sections)
    policies = [
        _policy(part.script)
        for section in shown
        for part in section.parts
        if isinstance(part, Explorer)
    ]
    return template.render(
        title=title, lead=lead, sections=shown, footer=footer, script_policies=policies
    )


def _policy(script: str) -> str:
    """The hash of the script that may run, for the content security policy of the page."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _svg(figure: Any) -> bytes:
    matplotlib = import_extra("matplotlib", extra="plot")
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "bagwise"}):
        metadata = {"Date": None, "Creator": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    text = buffer.getvalue().replace("#000000", "currentColor")
    start = text.index(">", text.index("<svg")) + 1
    return (text[:start] + _SVG_STYLE + text[start:]).encode()

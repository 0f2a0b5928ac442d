from html.parser import HTMLParser

import pytest

from bagwise.report._page import (
    Figure,
    Section,
    Table,
    cell_text,
    link_points,
    render_page,
)

pytest.importorskip("jinja2")

EVIL = "<script>alert('bag')</script>"


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def plot():
    axes = pytest.importorskip("matplotlib.figure").Figure(figsize=(2, 2)).subplots()
    axes.plot([0, 1], [0, 1])
    axes.set_title(EVIL)
    return axes.figure


@pytest.fixture
def page():
    table = Table({"bag": [EVIL, "b"], EVIL: [0.25, None]}, caption=EVIL)
    parts = [EVIL, table, Figure(plot(), alt=EVIL, caption=EVIL)]
    sections = [Section(EVIL, *parts), Section("Two", Figure(plot(), alt="another plot"))]
    return render_page(EVIL, sections, lead=EVIL, footer=EVIL)


def test_what_people_write_stays_text(page):
    parsed = Page(page)
    assert not parsed.all("script")
    # Title twice, lead, the section with its link, paragraph, caption, cell, heading, figure with
    # its caption, footer.
    assert parsed.text.count(EVIL) == 13
    assert next(a for tag, a in parsed.tags if tag == "svg")["aria-label"] == EVIL


def test_nothing_is_fetched(page):
    parsed = Page(page)
    assert not parsed.all("link")
    assert not parsed.all("img")
    assert all(anchor["href"].startswith("#") for anchor in parsed.all("a"))
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert page.count("url(") == page.count("url(#")
    assert "@import" not in page
    policy = next(m for m in parsed.all("meta") if "http-equiv" in m)
    assert "default-src 'none'" in policy["content"]


def test_a_reader_who_cannot_see_is_told(page):
    parsed = Page(page)
    assert parsed.all("html") == [{"lang": "en"}]
    assert len(parsed.all("h1")) == 1
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in parsed.all("svg"))
    assert all(heading["scope"] in ("row", "col") for heading in parsed.all("th"))
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    named = [a["aria-labelledby"] for _, a in parsed.tags if "aria-labelledby" in a]
    linked = [anchor["href"].removeprefix("#") for anchor in parsed.all("a")]
    assert set(named) | set(linked) <= set(ids)


def test_points_link_to_their_bags_and_black_is_the_colour_of_the_text():
    svg = Figure(plot(), alt="a line").markup
    assert "#000000" not in svg
    assert "currentColor" in svg
    figure = pytest.importorskip("matplotlib.figure").Figure()
    link_points(figure.subplots().scatter([0, 1, 2], [0, 1, 1], c=["b"] * 3), [4, 0, 2])
    parsed = Page(Figure(figure, alt="points", titles=["a", EVIL, "c"]).markup)
    assert [link["href"] for link in parsed.all("a")] == ["#bag-4", "#bag-0", "#bag-2"]
    assert parsed.text.count(EVIL) == 1


def test_rows_and_styles_of_a_table():
    table = Table({"bag": ["a", "b"], "score": [0.5, None], "text": ["x" * 30, ""]}, "Scores")
    assert table.rows == [["a", "0.500", "x" * 30], ["b", "", ""]]
    assert table.styles == ["short", "number short", ""]
    with pytest.raises(ValueError):
        _ = Table({"a": [1], "b": [1, 2]}, "Ragged").rows


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.000"), (1e-7, "1e-07"), (-2.5e8, "-2.5e+08"), (float("nan"), ""), (False, "")],
)
def test_cells(value, text):
    assert cell_text(value) == text

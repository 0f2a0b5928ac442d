"""The fixture `open_page` detects faulty pages."""

import pytest

PAGE = """<!doctype html><title>Bags</title>{}<p>calm</p>"""


def test_a_calm_page_passes(open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(PAGE.format(""))
    page = open_page(path, color_scheme="dark")
    assert page.title() == "Bags"
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ("<script>console.error('broken')</script>", "console: broken"),
        ("<script>throw new Error('thrown')</script>", "exception: thrown"),
        ("<img src='other.png'>", "request: file:"),
    ],
)
def test_a_page_in_trouble_fails_its_test(trouble, told, chromium, tmp_path):
    from browser import open_page

    path = tmp_path / "page.html"
    path.write_text(PAGE.format(trouble))
    visits = open_page.__wrapped__(chromium)
    next(visits)(path)
    with pytest.raises(AssertionError, match=told):
        next(visits)

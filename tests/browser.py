"""Chromium fixtures for tests of HTML pages.

`tests/conftest.py` makes the fixture `open_page` available to all tests::

    def test_a_page(open_page, tmp_path):
        page = open_page(tmp_path / "report.html", color_scheme="dark")
        assert page.title() == "Report"

After the test, the fixture fails it if a page wrote a warning or an error to the console, threw an
error, or requested anything outside its own file or server.
"""

import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest


@pytest.fixture(scope="module")
def chromium():
    # One per module, not per session: while Playwright runs, this thread has a running event loop,
    # with which other tests fail.
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as manager:
        browser = manager.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Open a file or an address; options go to Playwright's ``browser.new_context``.

    With `quiet` the console is ignored: the browser reports files there that are not found.
    """
    contexts, troubles = [], []

    def opened(where, quiet=False, **options):
        address = where.resolve().as_uri() if isinstance(where, Path) else where
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)  # other tests use the cores too

        def listen(message):
            if message.type in ("error", "warning") and not quiet:
                troubles.append(f"console: {message.text}")

        def watch(request):
            if _is_foreign(request.url, address):
                troubles.append(f"request: {request.url}")

        page.on("console", listen)
        page.on("pageerror", lambda error: troubles.append(f"exception: {error}"))
        page.on("request", watch)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    if troubles:
        raise AssertionError("; ".join(troubles))


@pytest.fixture(params=["light", "dark"])
def accessibility_faults(open_page, request):
    """Open a page, and list the faults that axe-core finds in light and dark mode.

    axe-core is not part of the repository: ``npm pack axe-core``, unpack it, and name the file
    ``axe.min.js`` in the variable ``BAGWISE_AXE``.
    """
    program = os.environ.get("BAGWISE_AXE")
    if program is None:
        pytest.skip("axe-core is absent: name its axe.min.js in BAGWISE_AXE")

    def found(where, before=lambda page: None):
        # The content security policy of our pages forbids other scripts.
        page = open_page(where, color_scheme=request.param, bypass_csp=True)
        before(page)
        page.evaluate(Path(program).read_text())
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        page.close()
        assert len(result["passes"]) > 10
        return [
            f"{fault['id']}: {node['html'][:200]}"
            for fault in result["violations"]
            for node in fault["nodes"]
        ]

    return found


def _is_foreign(asked, address):
    if asked.startswith(("data:", "blob:")):
        return False
    if address.startswith("file:"):
        return asked.partition("#")[0] != address.partition("#")[0]
    return urlsplit(asked)[:2] != urlsplit(address)[:2]

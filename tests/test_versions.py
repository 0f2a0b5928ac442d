"""The menu of versions of the documentation, in a browser."""

import importlib.util
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture
def publish():
    spec = importlib.util.spec_from_file_location("publish", DOCS / "publish.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.publish


def built(folder, version, pages):
    """A build with the menu of the template, as Sphinx would fill it."""
    menu = (DOCS / "_templates" / "versions.html").read_text(encoding="utf-8")
    menu = menu.partition("#}")[2]
    for page in pages:
        root = "../" * page.count("/") or "./"
        filled = {"content_root": root, "pagename": page, "release": version}
        text = menu
        for name, value in filled.items():
            text = text.replace(f"{{{{ {name} }}}}", value)
        file = folder / f"{page}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        script = f'<script src="{root}_static/versions.js"></script>'
        file.write_text(f"<!doctype html><title>{page}</title>{script}<body>{text}")
    (folder / "_static").mkdir()
    (folder / "_static" / "versions.js").write_bytes(
        (DOCS / "_static" / "versions.js").read_bytes()
    )
    return folder


@pytest.fixture
def site(tmp_path, publish):
    """0.9 and 0.10, of which only 0.9 has a page in a folder."""
    site = tmp_path / "site"
    publish(built(tmp_path / "b", "0.10.0", ["index", "data"]), site, "0.10.0")
    publish(built(tmp_path / "a", "0.9.1", ["index", "data", "gallery/one"]), site, "0.9.1")
    return site


def test_versions_are_listed_newest_first(site, publish, tmp_path):
    names = ["0.10.0", "0.9.1"]
    assert [each["name"] for each in json.loads((site / "versions.json").read_text())] == names
    assert "url=0.10/" in (site / "index.html").read_text()
    publish(built(tmp_path / "c", "0.9.2", ["index"]), site, "0.9.2")
    listed = json.loads((site / "versions.json").read_text())
    assert [each["name"] for each in listed] == ["0.10.0", "0.9.2"]
    assert not (site / "0.9" / "gallery").exists()


def test_the_menu_leads_to_the_same_page_or_home(site, open_page):
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        start = f"http://127.0.0.1:{server.server_port}/0.9"
        page = open_page(f"{start}/gallery/one.html", quiet=True)
        menu = page.locator("select.versions")
        menu.locator("option").nth(1).wait_for(state="attached")
        assert menu.locator("option").all_inner_texts() == ["0.10.0", "0.9.1"]
        assert menu.input_value() == "0.9"
        menu.select_option("0.10")
        page.wait_for_url("**/0.10/index.html")  # 0.10 has no such page
        page.goto(f"{start}/data.html")
        menu.locator("option").nth(1).wait_for(state="attached")
        menu.select_option("0.10")
        page.wait_for_url("**/0.10/data.html")
    finally:
        server.shutdown()
        server.server_close()

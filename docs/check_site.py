"""Check the links, pages and search of the built site: ``python -m docs.check_site SITE``.

SITE is the folder that Sphinx wrote. Every link inside it must lead to a page and an anchor. Every
page must open in Chromium without an error on the console and without a request to another host.
Each of the words that readers search for must lead to one of its pages among the first three
results. Prints what was found and exits with 1 if anything is wrong. Needs Playwright and Chromium.
"""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urljoin

QUERIES = {
    "multiple instance learning": "choose glossary index",
    "bag": "data glossary",
    "weak supervision": "choose glossary",
    "key instance": "classify gallery/plot_digits gallery/plot_molecules",
    "attention MIL": "classify glossary",
    "ABMIL": "classify glossary methods",
    "MI-SVM": "classify methods results-pdmisvm",
    "XGBoost": "regression classify gallery/plot_conformers",
    "AutoML": "classify glossary",
    "MIML": "annotation glossary results-orlr",
    "label noise": "annotation classify",
    "regression": "regression gallery/plot_conformers",
    "semi-supervised": "semisupervised",
    "clustering": "clustering",
    "WSI": "pathology gallery/plot_slides data",
    "heat map": "pathology gallery/plot_slides",
    "QuPath": "pathology",
    "CLAM": "pathology comparison",
    "TRIDENT": "pathology data",
    "patient split": "pathology evaluation",
    "foundation model": "pathology data",
    "PCA embeddings": "pathology data classify bioacoustics",
    "BirdNET": "bioacoustics data glossary",
    "Raven": "bioacoustics glossary",
    "bird song": "gallery/plot_bird_song bioacoustics",
    "conformers": "chemistry gallery/plot_conformers",
    "pIC50": "chemistry regression gallery/plot_conformers",
    "pandas": "data",
    "HDF5": "data scale-disk",
    "missing values": "data limits",
    "class imbalance": "classify evaluation",
    "cross-validation groups": "evaluation",
    "probability calibration": "evaluation classify methods",
    "explain prediction": "classify report pathology",
    "save model": "data glossary",
    "ONNX": "data limits",
    "larger than memory": "scale-disk gallery/plot_larger_than_memory",
    "GPU": "scale-gpu benchmarks",
    "Dask": "scale-cluster scale",
    "resume": "scale-checkpoints",
    "survival": "survival limits",
    "torchmil": "comparison",
    "hyperparameter tuning": "data glossary",
    "PyTorch": "classify glossary",
    "sklearn": "data glossary",
    "tumor": "pathology glossary",
    "RDKit": "chemistry",
    "scaffold split": "chemistry gallery/plot_conformers",
    "overlapping calls": "annotation bioacoustics",
    "cite": "project",
    "license": "project",
}  # the pages that answer
FIRST = 3
LISTED = """
document.querySelectorAll('#search-results li').length > 50
|| document.querySelector('#search-results .search-summary')?.innerText
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; yield the address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def copyfile(self, *files) -> None:
            with suppress(ConnectionError):  # the reader left the page
                super().copyfile(*files)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def broken_links(site: Path) -> list[str]:
    """Links inside the site whose page or anchor is missing."""
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]
    texts = {page.relative_to(site).as_posix(): page.read_text() for page in pages}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    broken = []
    for page, text in texts.items():
        for link in set(re.findall(r'\b(?:href|src)="([^"]*)"', text)):
            if re.match(r"[a-z]+:|//|\$", link):  # another host, or filled in by a script
                continue
            path, anchor = urldefrag(urljoin(f"/{page}", link))
            path = unquote(path.partition("?")[0]).lstrip("/")
            found = (site / path).is_file() and (not anchor or path not in texts)
            if not found and unquote(anchor) not in anchors.get(path, ()):
                broken.append(f"{page}: {link}")
    return broken


def complaints(tab, site: Path, address: str) -> list[str]:
    """Console errors and requests to other hosts, on all pages but those of the API."""
    found: list[str] = []

    def listen(message) -> None:
        if message.type in ("error", "warning"):
            found.append(f"{tab.url}: {message.text}")

    def watch(request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            found.append(f"{tab.url}: asks {request.url}")

    tab.on("console", listen)
    tab.on("pageerror", lambda error: found.append(f"{tab.url}: {error}"))
    tab.on("request", watch)
    for page in [*site.glob("*.html"), *site.glob("gallery/*.html")]:
        tab.goto(address + page.relative_to(site).as_posix())
    return found


def results(tab, address: str, query: str) -> list[str]:
    """The pages found by the search of the site, the best first."""
    tab.goto(f"{address}search.html?q={quote(query)}")
    tab.wait_for_function(LISTED)  # a common word has a thousand results, the best are listed first
    links = tab.eval_on_selector_all(
        "#search-results li > a", "found => found.map(a => a.getAttribute('href'))"
    )
    pages = [link.partition("#")[0].partition("?")[0].removesuffix(".html") for link in links]
    return list(dict.fromkeys(pages))  # list a page once, not for each section and name


def searched(tab, address: str) -> int:
    """Run every query and print the rank of its page; return the number of misses."""
    n_missed = 0
    for query, wanted in QUERIES.items():
        pages = results(tab, address, query)
        rank = min((pages.index(page) + 1 for page in wanted.split() if page in pages), default=0)
        missed = not 1 <= rank <= FIRST
        n_missed += missed
        first = ", ".join(pages[:FIRST]) or "nothing"
        sys.stdout.write(f"{'!' if missed else ' '} {query:28} {rank or '-':>3}  {first}\n")
    sys.stdout.write(f"{len(QUERIES) - n_missed} of {len(QUERIES)} in the first {FIRST}\n")
    return n_missed


def main() -> None:
    """Run the three checks."""
    from playwright.sync_api import sync_playwright

    site = Path(sys.argv[1])
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        n_missed = searched(browser.new_page(), address)
        troubles = broken_links(site) + complaints(browser.new_page(), site, address)
        browser.close()
    sys.stdout.writelines(f"{trouble}\n" for trouble in troubles)
    sys.stdout.write(f"{len(troubles)} broken links and complaints of the browser\n")
    sys.exit(bool(n_missed or troubles))


if __name__ == "__main__":
    main()

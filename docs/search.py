"""Search the built site for the words that readers use: ``python -m docs.search SITE``.

SITE is the folder that Sphinx wrote. Each query is typed into the search page in Chromium; one of
its pages must be among the first three results. Prints a table and exits with 1 where one is not.
Needs Playwright and Chromium.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

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
    "PCA embeddings": "pathology data classify",
    "BirdNET": "bioacoustics data",
    "Raven": "bioacoustics",
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
    "survival": "limits",
    "torchmil": "comparison",
}  # the pages that answer
FIRST = 3


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; the address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def results(tab, address: str, query: str) -> list[str]:
    """The pages that the site's own search lists, the best first."""
    tab.goto(f"{address}search.html?q={quote(query)}")
    tab.wait_for_function("document.querySelector('#search-results .search-summary')?.innerText")
    tab.wait_for_function(
        "!/(Searching|Preparing)/.test(document.querySelector('#search-results').innerText)"
    )
    links = tab.eval_on_selector_all(
        "#search-results li > a", "found => found.map(a => a.getAttribute('href'))"
    )
    pages = [link.partition("#")[0].partition("?")[0].removesuffix(".html") for link in links]
    return list(dict.fromkeys(pages))  # a page once, for its sections and names


def main() -> None:
    """Type every query, and print where its page is."""
    from playwright.sync_api import sync_playwright

    n_missed = 0
    with served(Path(sys.argv[1])) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page()
        for query, wanted in QUERIES.items():
            pages = results(tab, address, query)
            ranks = [pages.index(page) + 1 for page in wanted.split() if page in pages]
            rank = min(ranks, default=None)
            missed = rank is None or rank > FIRST
            n_missed += missed
            first = ", ".join(pages[:FIRST]) or "nothing"
            mark = "-" if rank is None else str(rank)
            sys.stdout.write(f"{'!' if missed else ' '} {query:28} {mark:>3}  {first}\n")
        browser.close()
    sys.stdout.write(f"{len(QUERIES) - n_missed} of {len(QUERIES)} in the first {FIRST}\n")
    sys.exit(n_missed > 0)


if __name__ == "__main__":
    main()

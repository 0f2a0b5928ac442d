"""Run benchmarks and put their tables into RESULTS.md: `python -m benchmarks [NAME ...]`.

Each benchmark has a section there, with the day and the versions of its last run. Benchmarks that
are not run keep their sections. Without names all benchmarks are run.
"""

import importlib
import os
import platform
import re
import sys
import time
from pathlib import Path

import numpy
import scipy
import sklearn

import bagwise

from .harness import table

PARTS = (
    "import_time",
    "segments",
    "bag_distances",
    "embeddings",
    "pdmisvm",
    "one_sided",
    "margin_svms",
    "mil_rivals",
    "orlr",
    "glws",
    "csp",
    "mimlca",
    "wellsvm",
    "ssl_rivals",
    "auto",
    "felt",
    "methods",
    "slides",
    "engines",
    "large_tables",
    "reading",
)
PAGE = Path(__file__).with_name("RESULTS.md")
HEADER = """# Speed and memory on a CPU

The times of a row are measured alternately in one run: compare the ratios. A range is that over
the runs. The goal is what the project aims at; some rows miss it. Each section is written by the
command in it.
"""


def main():
    sections = read_sections()
    for name in sys.argv[1:] or PARTS:
        module = importlib.import_module(f"benchmarks.{name}")
        rows = []
        for row in module.rows():
            print(row, flush=True)
            rows.append(row)
        sections[name] = section(name, module.__doc__, rows, getattr(module, "MISSED", ""))
        write_sections(sections)


def read_sections():
    """The sections of the page by name."""
    texts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {text.partition("\n")[0]: text.partition("\n")[2].strip() for text in texts}


def write_sections(sections):
    """Write the page: the benchmarks in their order, then other sections."""
    names = [*(name for name in PARTS if name in sections), *(sections.keys() - {*PARTS})]
    parts = [f"## {name}\n\n{sections[name]}\n" for name in names]
    PAGE.write_text("\n".join([HEADER, *parts]), encoding="utf-8")


def section(name, purpose, rows, missed=""):
    """A section: purpose, day, versions, the table, and why rows miss their goals."""
    versions = {
        "bagwise": bagwise.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "Python": platform.python_version(),
    }
    listed = ", ".join(f"{package} {version}" for package, version in versions.items())
    day = time.strftime("%-d %B %Y")
    head = f"`python -m benchmarks {name}`, {day}: {listed}, {os.cpu_count()} cores."
    return f"{purpose.splitlines()[0]}\n\n{head}\n\n{table(rows)}\n\n{missed}".strip()


if __name__ == "__main__":
    main()

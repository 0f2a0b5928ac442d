"""Run all benchmarks, print the table and write RESULTS.md: `make bench`.

`python -m benchmarks NAME ...` runs and prints some of them, and writes nothing.
"""

import importlib
import platform
import sys
from pathlib import Path

import numpy
import scipy
import sklearn

import bagwise

from .harness import table

PARTS = (
    "auto",
    "import_time",
    "segments",
    "bag_distances",
    "csp",
    "embeddings",
    "engines",
    "large_tables",
    "margin_svms",
    "mil_rivals",
    "mimlca",
    "one_sided",
    "orlr",
    "pdmisvm",
    "reading",
    "ssl_rivals",
    "wellsvm",
)

HEADER = """# Benchmarks

Written by `make bench`. The times of a row are measured alternately in one run on one machine;
compare the ratios.

bagwise {bagwise}, scikit-learn {sklearn}, numpy {numpy}, scipy {scipy}, Python {python},
{cores} cores.
"""


def main():
    import joblib

    rows = []
    for name in sys.argv[1:] or PARTS:
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            print(row, flush=True)
            rows.append(row)
    header = HEADER.format(
        bagwise=bagwise.__version__,
        sklearn=sklearn.__version__,
        numpy=numpy.__version__,
        scipy=scipy.__version__,
        python=platform.python_version(),
        cores=joblib.cpu_count(),
    )
    page = f"{header}\n{table(rows)}\n"
    if not sys.argv[1:]:
        Path(__file__).with_name("RESULTS.md").write_text(page)
    print("\n" + page)


if __name__ == "__main__":
    main()

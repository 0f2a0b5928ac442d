"""Run all benchmarks, print the table and write RESULTS.md: `make bench`."""

import platform
from pathlib import Path

import numpy
import scipy
import sklearn

import bagwise

from . import bag_distances, import_time, margin_svms, pdmisvm, segments, wellsvm
from .harness import table

HEADER = """# Benchmarks

Written by `make bench`. Times are measured in turns in one run on one machine; the ratio is what
counts.

bagwise {bagwise}, scikit-learn {sklearn}, numpy {numpy}, scipy {scipy}, Python {python},
{cores} cores.
"""


def main():
    import joblib

    rows = []
    for part in (import_time, segments, bag_distances, margin_svms, pdmisvm, wellsvm):
        for row in part.rows():
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
    Path(__file__).with_name("RESULTS.md").write_text(page)
    print("\n" + page)


if __name__ == "__main__":
    main()

"""Time of `import bagwise` beyond `import sklearn`, in fresh processes."""

import subprocess
import sys

from .harness import Row, race


def rows():
    def start(statement):
        return lambda: subprocess.run([sys.executable, "-c", statement], check=True)

    ours, other = race(start("import sklearn, bagwise"), start("import sklearn"))
    yield Row("import sklearn, bagwise", ours, "import sklearn", other, "+ 0.5 s at most")

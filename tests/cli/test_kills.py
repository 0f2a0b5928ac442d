"""Commands killed or interrupted at random moments leave no incomplete files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

for needed in ("h5py", "jinja2", "pyarrow", "skops"):
    pytest.importorskip(needed)

COMMANDS = ["fit", "predict", "report", "annotate", "export"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_nothing_is_left_half_done(command, how):
    script = Path(__file__).with_name("kills.py")
    words = [sys.executable, script, "--command", command, "--how", how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr

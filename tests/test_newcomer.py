"""The first steps of a new user as a test; `make newcomer` also keeps the screenshots."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.network
def test_from_the_wheel_to_the_report(tmp_path):
    pytest.importorskip("playwright")
    if shutil.which("chromium") is None and shutil.which("google-chrome") is None:
        pytest.skip("Chromium is not installed")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path)]
    if subprocess.run([*pip, "hatchling"], capture_output=True).returncode != 0:
        pytest.skip("no package registry can be reached")
    script = Path(__file__).parent.parent / "tools" / "newcomer.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path / "shots"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shots = {path.stem: path.stat().st_size for path in (tmp_path / "shots").iterdir()}
    assert set(shots) == {
        f"{page}-{view}" for page in ("report", "demo") for view in ("light", "dark", "narrow")
    }
    assert min(shots.values()) > 10_000

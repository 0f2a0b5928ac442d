"""Build the release and check it: ``python tools/release.py FOLDER``. Run it by `make dist`.

Builds the sdist, and the wheel from it; builds both again from the unpacked sdist and compares the
bytes; runs ``twine check --strict``; checks the files in both; installs the wheel into a fresh
environment, without extras and then with each extra alone; fits, predicts and uses the extra.
Without extras, an error must name the pip command of the missing extra.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "src/bagwise/__init__.py").read_text())[1]
TOOLS = ["build", "twine", "hatchling"]
LARGE = "torch"  # hundreds of megabytes, gigabytes with CUDA: only if requested

FIT = """
from bagwise.datasets import load_musk1
from bagwise.classification import BagMarginSVM
data = load_musk1()
model = BagMarginSVM(random_state=0).fit(data.bags, data.y)
assert (model.predict(data.bags) == data.y).mean() > 0.8
"""
# A use of each extra. Each raises MissingExtraError without the extra.
USES = {
    "plot": "from bagwise.displays import ComparisonDisplay\n"
    "ComparisonDisplay.from_scores({'a': [0.5, 0.7], 'b': [0.4, 0.6]})",
    "report": "from bagwise.report import Report\n"
    "Report(model, data.bags, data.y).save('report.html')",
    "io": "from bagwise.io import read_bags, write_bags\n"
    "write_bags('a.parquet', data.bags)\n"
    "assert len(read_bags('a.parquet', bag='bag').bags) == len(data.bags)",
    "persist": "from bagwise.persistence import load_model, save_model\n"
    "save_model(model, 'model.skops')\n"
    "assert (load_model('model.skops')[0].predict(data.bags) == model.predict(data.bags)).all()",
    "torch": "from bagwise.classification import MINet\n"
    "MINet(max_epochs=2, random_state=0).fit(data.bags, data.y).predict(data.bags)",
    "ann": "from bagwise.cluster import BagConstrainedSpectralClustering as Clustering\n"
    "options = {'affinity': 'nearest_neighbors', 'neighbor_search': 'approximate'}\n"
    "Clustering(2, **options, random_state=0).fit(data.bags)",
    "audio": "from bagwise._common.extras import import_extra\n"
    "import_extra('usearch', extra='audio')\n"
    "from bagwise.report._media import read_sound\n"
    "import io, wave\n"
    "with wave.open(buffer := io.BytesIO(), 'wb') as file:\n"
    "    file.setparams((1, 2, 8000, 0, 'NONE', ''))\n"
    "    file.writeframes(bytes(16000))\n"
    "buffer.seek(0)\n"
    "assert read_sound(buffer, 0.2, 0.7).seconds == 0.5",
    "cells": "from bagwise._common.extras import import_extra\n"
    "anndata = import_extra('anndata', extra='cells')\n"
    "import numpy\n"
    "from bagwise import Bags\n"
    "cells = anndata.AnnData(numpy.eye(4), obs={'donor': list('abab')})\n"
    "assert len(Bags.from_anndata(cells, bag='donor')) == 2",
    "chem": "from bagwise.apps.chem._conformers import conformers_of\n"
    "limits = {'number': 2, 'window': 10.0, 'rmsd': 0.1, 'seed': 1, 'threads': 1}\n"
    "assert conformers_of('ethanol', 'CCO', **limits)[1]",
    "survival": "from bagwise.survival._rows import RowForest\n"
    "import numpy\n"
    "y = numpy.array([(True, 1.0), (True, 2.0)] * 9, [('event', bool), ('time', float)])\n"
    "RowForest(5).fit(numpy.arange(18.0)[:, None], y)",
    "dask": "if __name__ == '__main__':\n"
    "    from bagwise._common.extras import import_extra\n"
    "    distributed = import_extra('distributed', extra='dask')\n"
    "    with distributed.Client(processes=False, dashboard_address=None) as client:\n"
    "        from bagwise.classification import PrimalDualMISVM\n"
    "        PrimalDualMISVM(max_iter=5).fit(data.bags.distribute(client), data.y)",
}
# bagwise accepts data frames but creates none: the extra only installs pandas.
FRAMES = (
    "import pandas\nframe = pandas.DataFrame({'slide': list('aab'), 'value': [1.0, 2.0, 3.0]})\n"
    "from bagwise import Bags\nassert len(Bags.from_frame(frame, bag='slide')) == 2"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the sdist and the wheel go")
    extras = [name for name in PROJECT["optional-dependencies"] if name != LARGE]
    parser.add_argument(
        "--extras",
        nargs="*",
        default=extras,
        choices=list(PROJECT["optional-dependencies"]),
        metavar="NAME",
        help=f"extras to install, one at a time; all but {LARGE} by default",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        place = Path(folder)
        with step("make an environment for the tools"):
            tools = environment(place / "tools", TOOLS)
        with step("compare the public names with those stored for this version"):
            run([sys.executable, "-m", "tools.api", "--stored"], ROOT)
        with step("build the sdist, and the wheel from it"):
            built = build(tools, ROOT, place / "built")
        with step("build both from the sdist again, and compare the bytes"):
            compare(built, build(tools, unpack(built[0], place), place / "again"))
        with step("check the descriptions and look into the files"):
            run([tools, "-m", "twine", "check", "--strict", *built], place)
            look_into(*built)
        desk = place / "desk"
        desk.mkdir()
        with step("install bagwise without extras"):
            python = install(built[1], desk)
        for extra in options.extras:
            with step(f"install bagwise[{extra}]"):
                try_out(python, built[1], extra, desk)
        options.folder.mkdir(parents=True, exist_ok=True)
        for file in built:
            shutil.copy(file, options.folder)
            print(f"{digest(file)}  {options.folder / file.name}")


@contextmanager
def step(title):
    print(f"== {title}", flush=True)
    start = time.perf_counter()
    yield
    print(f"   {time.perf_counter() - start:.0f} s", flush=True)


def run(words, folder, fails=False, **variables):
    """Run a command without access to this checkout; return its output."""
    hidden = ("PYTHONPATH", "BAGWISE_DATA", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=kept | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if (done.returncode != 0) != fails:
        sys.exit(f"{done.stdout}\n{words} in {folder} ended with {done.returncode}")
    return done.stdout


def environment(folder, packages):
    """The Python of a fresh environment."""
    run([sys.executable, "-m", "venv", folder], ROOT)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], ROOT)
    return python


def build(python, source, folder):
    """Build the sdist and the wheel, with the same date for every file in them."""
    words = [python, "-m", "build", "--no-isolation", "-o", folder, source]
    run(words, source, SOURCE_DATE_EPOCH="1700000000")
    sdist, wheel = sorted(folder.iterdir(), key=lambda path: path.suffix == ".whl")
    assert sdist.name == f"bagwise-{VERSION}.tar.gz", sdist.name
    assert wheel.name == f"bagwise-{VERSION}-py3-none-any.whl", wheel.name
    return sdist, wheel


def unpack(sdist, folder):
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"bagwise-{VERSION}"


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def compare(first, second):
    for a, b in zip(first, second, strict=True):
        if digest(a) != digest(b):
            sys.exit(f"{a.name} differs between two builds: {digest(a)}, {digest(b)}")


def look_into(sdist, wheel):
    """Reject private files and paths of this machine."""
    with tarfile.open(sdist) as archive:
        files = {
            member.name.partition("/")[2]: archive.extractfile(member).read()
            for member in archive
            if member.isfile()
        }
        owners = {(member.uid, member.uname, member.mode & 0o022) for member in archive}
    assert owners == {(0, "", 0)}, owners
    for needed in ("LICENSE", "README.md", "CHANGELOG.md", "tools/release.py", "PKG-INFO"):
        assert needed in files, needed
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    absent = {name for name in listed.stdout.split() if not name.startswith(".")} - files.keys()
    assert not absent, f"not in the sdist: {sorted(absent)}"
    with zipfile.ZipFile(wheel) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    info = f"bagwise-{VERSION}.dist-info"
    assert f"{info}/licenses/LICENSE" in inside
    assert all(name.startswith(("bagwise/", f"{info}/")) for name in inside)
    for name, content in {**files, **inside}.items():
        assert Path(name).suffix not in (".pyc", ".nbi", ".nbc", ".so", ".skops"), name
        for path in {str(ROOT), str(Path.home()) + "/"} - {"//"}:
            assert path.encode() not in content, f"{path} in {name}"
    print(f"{sdist.name}: {len(files)} files, {sdist.stat().st_size / 1e6:.1f} MB")
    print(f"{wheel.name}: {len(inside)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def install(wheel, desk):
    """Create an environment with the wheel alone; check the errors for missing extras."""
    python = environment(desk / "environment", [wheel])
    assert run([python.parent / "bagwise", "--version"], desk) == f"bagwise {VERSION}\n"
    assert run([python, "-m", "bagwise", "--version"], desk) == f"bagwise {VERSION}\n"
    where = run([python, "-c", "import bagwise; print(bagwise.__file__)"], desk)
    assert where.startswith(str(desk)), where
    run([python, "-c", FIT], desk)
    for name, use in USES.items():
        last = run([python, "-c", FIT + use], desk, fails=True).splitlines()[-1]
        assert f'pip install "bagwise[{name}]"' in last, last
        print(last.partition(": ")[2])
    return python


def try_out(python, wheel, extra, desk):
    """Add an extra to the environment, use it, and remove its packages again."""
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    before = set(run([*pip, "freeze"], desk).splitlines())
    run([*pip, "install", "-q", f"bagwise[{extra}] @ {wheel.as_uri()}"], desk)
    run([*pip, "check"], desk)
    folder = desk / extra
    folder.mkdir()
    chosen = [extra]
    if extra == "all":
        (inner,) = PROJECT["optional-dependencies"]["all"]
        chosen = re.search(r"\[(.+)\]", inner)[1].split(",")
    for name in chosen:
        run([python, "-c", FIT + (USES | {"frames": FRAMES})[name]], folder)
    added = set(run([*pip, "freeze"], desk).splitlines()) - before
    names = [re.split(r"==| @ ", line)[0] for line in added]
    print(", ".join(sorted(added)))
    run([*pip, "uninstall", "-q", "-y", *(name for name in names if name != "bagwise")], desk)


if __name__ == "__main__":
    main()

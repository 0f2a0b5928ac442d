"""The wheel has the necessary files only, works without extras, and names missing extras."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import bagwise

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Blocks imports as if packages were not installed: the test environment has them all.
BLOCKER = """
import importlib.util, os, sys
find = importlib.util.find_spec
blocked = set(os.environ.get("BLOCKED", "").split())
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
importlib.util.find_spec = lambda name, package=None: (
    None if name.partition(".")[0] in blocked else find(name, package)
)
"""
MUSK = "from bagwise.datasets import load_musk1; bags = load_musk1().bags; y = load_musk1().y; "
NEEDS = [  # extra, package, code that needs it
    ("plot", "matplotlib", "from bagwise.displays import ComparisonDisplay as D; "
     "D.from_scores({'a': [1.0]})"),
    ("report", "jinja2", "from bagwise.report._page import render_page; render_page('a', [])"),
    ("io", "pyarrow", MUSK + "from bagwise.io import write_bags; write_bags('a.parquet', bags)"),
    ("io", "h5py", MUSK + "from bagwise.io import read_bags; open('a.h5', 'w').close(); "
     "read_bags('a.h5')"),
    ("persist", "skops", "from bagwise.persistence import save_model; "
     "from bagwise.classification import CitationKNN; save_model(CitationKNN(), 'a.skops')"),
    ("torch", "torch", MUSK + "from bagwise.classification import MINet; MINet().fit(bags, y)"),
    ("torch", "torch", MUSK + "bags.to('cpu')"),
    ("cells", "anndata", "from bagwise.io import read_bags; open('a.h5ad', 'w').close(); "
     "read_bags('a.h5ad', bag='donor')"),
    ("chem", "rdkit", "from bagwise.apps.chem._conformers import conformers_of; "
     "conformers_of('a', 'C', number=1, window=1, rmsd=1, seed=1, threads=1)"),
    ("ann", "pynndescent", MUSK + "from bagwise.cluster import BagConstrainedSpectralClustering; "
     "BagConstrainedSpectralClustering(2, affinity='nearest_neighbors', "
     "neighbor_search='approximate').fit(bags)"),
    ("audio", "usearch", "import pathlib; from bagwise.apps.audio._recordings import _from_index; "
     "path = pathlib.Path('index'); path.touch(); _from_index(path, (1,))"),
    ("survival", "sksurv", "from bagwise.survival._rows import RowForest; "
     "RowForest().fit([[0.0]], None)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    words = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *words, str(ROOT)], check=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The Python of a fresh environment with the wheel, which can import the packages here."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [sys.executable, "-m", "pip", "-q", "--python", str(python)]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    (place,) = folder.rglob("site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (place / "others.pth").write_text("\n".join(others))
    (place / "sitecustomize.py").write_text(BLOCKER)
    return python


@pytest.fixture
def python(installed, tmp_path):
    """Run Python in that environment, in an empty folder and with some packages blocked."""

    def call(*words, without=()):
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COLUMNS")}
        environment |= {"BLOCKED": " ".join(without)}
        return subprocess.run(
            [installed, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return call


def every_extra():
    lines = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    return sorted({line.partition(">")[0] for line in lines if "bagwise" not in line})


def test_it_is_small_and_named_after_the_version(wheel):
    assert wheel.stat().st_size < 2e6
    assert wheel.name == f"bagwise-{bagwise.__version__}-py3-none-any.whl"


def test_it_holds_every_file_that_is_tracked(wheel):
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/bagwise"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {name.removeprefix("src/") for name in listed.split() if (ROOT / name).exists()}
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert names == tracked
    assert not [name for name in names if "test" in Path(name).name]


@pytest.mark.slow
def test_the_core_works_without_any_extra(python, installed):
    def bagwise(*words):
        return python("-m", "bagwise", *words, without=every_extra())

    where = python("-c", "import bagwise; print(bagwise.__file__)").stdout
    assert where.startswith(str(installed.parent.parent))
    for words in (
        ("--version",),
        ("methods",),
        ("info", "--versions"),
        ("datasets", "export", "musk1", "-o", "musk1.npz"),
        ("info", "musk1.npz"),
        ("evaluate", "musk1.npz", "-m", "pdmisvm", "--folds", "2"),
    ):
        done = bagwise(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
    for words, extra in (
        (("fit", "musk1.npz", "-m", "sil", "-o", "model.skops"), "persist"),
        (("datasets", "export", "musk1", "-o", "musk1.parquet"), "io"),
        (("evaluate", "musk1.npz", "-m", "minet", "--folds", "2"), "torch"),
    ):
        done = bagwise(*words)
        assert done.returncode == 2, f"{words}: {done.stderr}"
        assert f'pip install "bagwise[{extra}]"' in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("extra", "package", "code"), NEEDS)
def test_a_missing_extra_names_its_command(python, extra, package, code):
    done = python("-c", code, without=[package])
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("bagwise.exceptions.MissingExtraError")
    assert f'pip install "bagwise[{extra}]"' in last


def test_every_extra_is_tried():
    # Users who pass a frame or a Dask client have its package installed.
    assert {extra for extra, *_ in NEEDS} | {"frames", "dask", "all"} == set(
        PROJECT["optional-dependencies"]
    )

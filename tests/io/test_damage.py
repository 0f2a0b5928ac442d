"""Damaged files are read, or an error of bagwise is raised."""

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from bagwise import Bags
from bagwise.exceptions import BagwiseError
from bagwise.io import read_bags, write_bags

pytestmark = pytest.mark.filterwarnings("ignore::bagwise.exceptions.DataWarning")

NAMES = ["bags.csv", "bags.csv.gz", "bags.parquet", "lists.parquet", "bags.npz", "sparse.npz"]
NAMES += ["stored.npz", "bag.h5", "zipped.h5"]


def intact(folder, name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 3))
    path = folder / name
    if name.endswith(".h5"):
        with h5py.File(path, "w") as file:
            codec = "gzip" if name == "zipped.h5" else None
            file.create_dataset("features", data=X, compression=codec)
            file.create_dataset("coords", data=np.arange(18).reshape(9, 2))
        return path.read_bytes()
    if name.startswith("sparse"):
        X = sparse.csr_array(np.where(X > 0, X, 0))
    bags = Bags(X, [0, 2, 5, 9], ids=["a", "b", "c"], feature_names=["u", "v", "w"])
    write_bags(
        path,
        bags,
        y=["x", "y", "x"],
        label_sets=[{"p", "q"}, None, set()],
        instance_labels=[0, 1, -1, 0, 0, 0, 1, 1, -1],
        layout="bags" if "lists" in name else "rows",
        compress="stored" not in name,
    )
    return path.read_bytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage")
    return folder, {name: intact(folder, name) for name in NAMES}


def read_or_refuse(path, content, limit):
    path.write_bytes(content)
    try:
        data = read_bags(path, memory_limit=limit)
    except BagwiseError:
        return
    assert data.bags.offsets[-1] == data.bags.instances.shape[0]
    np.asarray(data.bags.sizes).sum()


@pytest.mark.parametrize("name", NAMES)
def test_the_intact_file_is_read(files, name):
    folder, contents = files
    (folder / name).write_bytes(contents[name])
    assert read_bags(folder / name).bags.n_instances == 9


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(share=st.floats(0, 1), limit=st.sampled_from([0, 10**6]))
def test_truncated(files, name, share, limit):
    folder, contents = files
    content = contents[name]
    read_or_refuse(folder / f"cut-{name}", content[: int(share * (len(content) - 1))], limit)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    changes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4
    ),
    limit=st.sampled_from([0, 10**6]),
)
def test_bytes_changed(files, name, changes, limit):
    folder, contents = files
    content = bytearray(contents[name])
    for place, value in changes:
        content[int(place * len(content))] = value
    read_or_refuse(folder / f"changed-{name}", bytes(content), limit)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=st.binary(max_size=200))
def test_arbitrary_bytes(files, name, content):
    folder, _ = files
    read_or_refuse(folder / f"odd-{name}", content, None)

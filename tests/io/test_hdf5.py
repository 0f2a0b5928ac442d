"""Folders of HDF5 files, one per bag."""

import os

import h5py
import numpy as np
import pandas as pd
import pytest

from bagwise.exceptions import DataNotFoundError, FileFormatError, InputError, LabelError
from bagwise.io import read_bags, write_bags
from bagwise.io._files import Request
from bagwise.io._reading import read_contents


@pytest.fixture
def slides(tmp_path, rng):
    """Two slides as TRIDENT and CLAM leave them, the second with a leading axis."""
    folder = tmp_path / "slides"
    folder.mkdir()
    features = [rng.normal(size=(n, 4)).astype("float32") for n in (3, 2)]
    for name, values in zip(["slide_08", "slide_17"], features, strict=True):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            flat = name == "slide_08"
            file["features"] = values if flat else values[None]
            coords = np.arange(2 * len(values)).reshape(-1, 2)
            file["coords"] = coords if flat else coords[None]
    return folder, features


@pytest.mark.parametrize("limit", [None, 0])
def test_a_folder_of_slides(slides, limit):
    folder, features = slides
    data = read_bags(folder, memory_limit=limit)
    assert data.bags.ids.tolist() == ["slide_08", "slide_17"]
    assert data.bags.dtype == np.float32
    for bag, expected in zip(data.bags, features, strict=True):
        np.testing.assert_array_equal(bag, expected)
    one = read_bags(folder / "slide_17.h5", memory_limit=limit).bags
    assert one.ids.tolist() == ["slide_17"]
    np.testing.assert_array_equal(one[0], features[1])
    assert data.coords.tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]]
    assert data.y is None


def test_labels_beside_the_slides(slides, tmp_path):
    folder, _ = slides
    path = tmp_path / "labels.csv"
    path.write_text(
        "case_id,slide_id,label\nx,slide_17,tumour\ny,slide_08,normal\nz,other,normal\n"
    )
    assert read_bags(folder, labels=path, bag="slide_id").y.tolist() == ["normal", "tumour"]
    frame = pd.read_csv(path)
    assert read_bags(folder, labels=frame, bag="slide_id").y.tolist() == ["normal", "tumour"]
    assert read_bags(folder, labels={"slide_08": 0, "slide_17": 1}).y.tolist() == [0, 1]
    with pytest.raises(LabelError, match="'slide_17'"):
        read_bags(folder, labels={"slide_08": 0}, missing="error")
    with pytest.raises(InputError, match="labels="):
        read_bags(folder, label="label")
    with pytest.raises(InputError, match="group= names a column"):
        read_contents(folder, Request(group="patient"))


def test_another_dataset(slides):
    folder, _ = slides
    assert read_bags(folder, features="coords").bags.n_features == 2
    with pytest.raises(
        FileFormatError, match=r"no dataset 'feats': there are 'coords', 'features'"
    ):
        read_bags(folder, features="feats")
    for wrong in ({"features": ["a", "b"]}, {"exclude": ["a"]}):
        with pytest.raises(InputError, match="names the one dataset"):
            read_bags(folder, **wrong)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("features", np.zeros((2, 5)), r"slide_99\.h5 has instances of other shapes than slide_08"),
        ("features", np.zeros(4), "expected numbers, instances x features"),
        ("features", np.zeros((2, 3, 4)), "expected numbers, instances x features"),
        ("features", np.array([[b"a", b"b"]]), "type .S1: expected numbers"),
        ("other", np.zeros((2, 4)), "no dataset 'features'"),
        ("features", np.zeros((2, 4)), "coords"),
    ],
)
def test_bad_files(slides, name, values, message):
    folder, _ = slides
    with h5py.File(folder / "slide_99.h5", "w") as file:
        file[name] = values
    with pytest.raises(FileFormatError, match=message):
        read_bags(folder)


def test_empty_and_changed_folders(tmp_path, rng):
    with pytest.raises(DataNotFoundError, match=r"no \.h5"):
        read_bags(tmp_path)
    folder = tmp_path / "out"
    write_bags(folder, [rng.normal(size=(2, 2))] * 2, format="hdf5")
    (folder / "bag_1.h5").unlink()
    with pytest.raises(FileFormatError, match=r"disagree about 'bag_1\.h5'"):
        read_bags(folder)
    (folder / "bags.json").unlink()
    assert read_bags(folder).bags.ids.tolist() == ["bag_0"]


# Data that is kept in another file


def write_outside(folder, kind, rng):
    """A bag whose features lie in another file, and that file."""
    secret = rng.normal(size=(3, 4))
    path, other = folder / "bag.h5", folder / "other.bin"
    if kind == "external storage":
        other.write_bytes(secret.tobytes())
        with h5py.File(path, "w") as file:
            storage = [(str(other), 0, secret.nbytes)]
            file.create_dataset("features", secret.shape, secret.dtype, external=storage)
        return path, secret
    with h5py.File(other, "w") as file:
        file["hidden"] = secret
        file["inner/features"] = secret
    with h5py.File(path, "w") as file:
        if kind == "virtual":
            layout = h5py.VirtualLayout(secret.shape, secret.dtype)
            layout[:] = h5py.VirtualSource(other, "hidden", secret.shape)
            file.create_virtual_dataset("features", layout)
        elif kind == "external link":
            file["features"] = h5py.ExternalLink(str(other), "hidden")
        elif kind == "soft link to an external link":
            file["far"] = h5py.ExternalLink(str(other), "/")
            file["features"] = h5py.SoftLink("/far/hidden")
        else:
            file["group"] = h5py.ExternalLink(str(other), "inner")
    return path, secret


OUTSIDE = [
    "external storage",
    "virtual",
    "external link",
    "soft link to an external link",
    "external group",
]


@pytest.mark.parametrize("kind", OUTSIDE)
def test_data_of_another_file_is_refused_unless_allowed(tmp_path, rng, kind):
    path, secret = write_outside(tmp_path, kind, rng)
    name = "group/features" if kind == "external group" else "features"
    for source in (path, tmp_path):
        with pytest.raises(FileFormatError, match=r"bag\.h5: .* another file.*allow_external=True"):
            read_bags(source, features=name)
    found = read_bags(path, features=name, allow_external=True).bags
    np.testing.assert_array_equal(found[0], secret)


def test_the_other_file_is_not_even_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    with h5py.File(tmp_path / "bag.h5", "w") as file:
        file["features"] = h5py.ExternalLink(str(tmp_path / "pipe"), "x")
    with pytest.raises(FileFormatError, match="another file"):
        read_bags(tmp_path / "bag.h5")
    for name in ("coords", "instance_labels"):
        with h5py.File(tmp_path / "bag.h5", "w") as file:
            file["features"] = np.ones((2, 3))
            file[name] = h5py.ExternalLink(str(tmp_path / "pipe"), "x")
        with pytest.raises(FileFormatError, match="another file"):
            read_bags(tmp_path / "bag.h5")


def test_soft_links_inside_a_file_are_followed(tmp_path):
    with h5py.File(tmp_path / "bag.h5", "w") as file:
        file["deep/values"] = np.ones((2, 3))
        file["deep/near"] = h5py.SoftLink("values")
        file["features"] = h5py.SoftLink("/deep/near")
        file["circle"] = h5py.SoftLink("/circle")
        file["nowhere"] = h5py.SoftLink("/absent")
    assert read_bags(tmp_path / "bag.h5").bags.n_instances == 2
    assert read_bags(tmp_path / "bag.h5", features="deep/near").bags.n_instances == 2
    with pytest.raises(FileFormatError, match="too many links"):
        read_bags(tmp_path / "bag.h5", features="circle")
    for name in ("nowhere", "absent", "deep/absent", "features/x", ""):
        with pytest.raises(FileFormatError, match="has no dataset"):
            read_bags(tmp_path / "bag.h5", features=name)

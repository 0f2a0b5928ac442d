"""Folders of .pt files, and of TRIDENT jobs."""

import h5py
import numpy as np
import pytest

from bagwise.exceptions import DataNotFoundError, FileFormatError
from bagwise.io import read_bags

torch = pytest.importorskip("torch")


@pytest.fixture
def features(rng):
    return {name: rng.normal(size=(n, 4)).astype("float32") for name, n in (("a", 3), ("b", 2))}


def write(folder, features, make=lambda values: torch.from_numpy(values), **how):
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in features.items():
        torch.save(make(values), folder / f"{name}.pt", **how)
    return folder


def test_tensors_are_read_in_memory_and_from_the_files(tmp_path, features):
    folder = write(tmp_path / "pt_files", features)
    for settings in ({}, {"memory_limit": 0}):
        bags = read_bags(folder, **settings).bags
        assert bags.ids.tolist() == ["a", "b"]
        assert bags.is_mapped == bool(settings)
        for bag, expected in zip(bags, features.values(), strict=True):
            np.testing.assert_array_equal(bag, expected)
    assert read_bags(folder, labels={"a": 0, "b": 1}).y.tolist() == [0, 1]
    np.testing.assert_array_equal(read_bags(folder / "b.pt").bags[0], features["b"])


def test_dicts_other_types_and_old_files(tmp_path, features):
    def as_dict(values):
        coords = torch.arange(2 * len(values)).reshape(-1, 2)
        return {"features": torch.from_numpy(values)[None], "coords": coords, "embedding": coords}

    data = read_bags(write(tmp_path / "dicts", features, as_dict))
    assert data.coords.tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]]
    np.testing.assert_array_equal(data.bags[0], features["a"])
    assert read_bags(tmp_path / "dicts", features="embedding").bags.n_features == 2
    with pytest.raises(FileFormatError, match="no dataset 'feats': there are 'features'"):
        read_bags(tmp_path / "dicts", features="feats")
    half = write(tmp_path / "half", features, lambda v: torch.from_numpy(v).bfloat16())
    assert read_bags(half).bags.dtype == np.float32
    old = write(tmp_path / "old", features, _use_new_zipfile_serialization=False)
    np.testing.assert_array_equal(read_bags(old).bags[1], features["b"])


class Runs:
    """Code that pickle would run."""

    def __reduce__(self):
        return (print, ("code of the file ran",))


def test_nothing_but_tensors_is_loaded(tmp_path, capsys):
    for name, content in (("code", Runs()), ("text", "no tensor"), ("flat", torch.zeros(3))):
        with pytest.raises(FileFormatError):
            read_bags(write(tmp_path / name, {"a": content}, lambda content: content))
    assert not capsys.readouterr().out
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.pt").write_bytes(b"PK no archive")
    with pytest.raises(FileFormatError, match="could not be read"):
        read_bags(tmp_path / "broken")


def test_the_folder_of_a_job_is_used(tmp_path, features):
    """TRIDENT writes patches (coordinates only) beside the features of each encoder."""
    job = tmp_path / "job" / "20x_512px_0px_overlap"
    for folder in ("patches", "features_uni_v1"):
        (job / folder).mkdir(parents=True)
        for name, values in features.items():
            with h5py.File(job / folder / f"{name}.h5", "w") as file:
                file["coords"] = np.zeros((len(values), 2), int)
                if folder != "patches":
                    file["features"] = values
    data = read_bags(tmp_path / "job")
    assert data.bags.ids.tolist() == ["a", "b"]
    (job / "features_conch_v15").mkdir()
    one = (job / "features_uni_v1" / "a.h5").read_bytes()
    (job / "features_conch_v15" / "a.h5").write_bytes(one)
    with pytest.raises(DataNotFoundError, match=r"features_conch_v15'.*features_uni_v1'"):
        read_bags(tmp_path / "job")


def test_clam_writes_both_kinds(tmp_path, features):
    write(tmp_path / "clam" / "pt_files", features)
    assert read_bags(tmp_path / "clam").bags.ids.tolist() == ["a", "b"]
    (tmp_path / "clam" / "h5_files").mkdir()
    with h5py.File(tmp_path / "clam" / "h5_files" / "c.h5", "w") as file:
        file["features"] = features["a"]
    assert read_bags(tmp_path / "clam").bags.ids.tolist() == ["c"]

"""Written data are read back unchanged, in every format that supports them."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from bagwise import Bags
from bagwise.exceptions import InputError, LabelError, OutputExistsError
from bagwise.io import read_bags, write_bags

pytestmark = pytest.mark.filterwarnings("ignore::bagwise.exceptions.DataWarning")
DENSE = ["bags.csv", "bags.csv.gz", "bags.tsv", "bags.parquet", "bags.npz", "bags/"]
CSV = ("bags.csv", "bags.tsv")
LISTS = {"bags.parquet": {"layout": "bags"}}


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if a.dtype == object:
        assert a.tolist() == b.tolist()
    else:
        assert a.tobytes() == b.tobytes()


def assert_same_bags(a, b):
    same(np.asarray(a.instances), np.asarray(b.instances))
    np.testing.assert_array_equal(a.offsets, b.offsets)
    assert (a.ids is None) == (b.ids is None)
    if a.ids is not None:
        assert a.ids.tolist() == b.ids.tolist()
    assert a.feature_names == b.feature_names


@pytest.fixture
def bags(rng):
    X = rng.normal(size=(7, 3)) * 10.0 ** rng.integers(-300, 300, size=(7, 3))
    X[0] = [1.0, -0.0, 0.1]
    X[1, 0] = np.inf
    return Bags(X, [0, 2, 3, 7], ids=["b", "a", "c"], feature_names=["red", "green, dark", "x.1"])


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool"])
def test_values_are_bit_exact(tmp_path, rng, name, dtype):
    X = (rng.normal(size=(50, 4)) * 100).astype(dtype)
    bags = Bags(X, [0, 20, 50], ids=[10, 2], feature_names=list("abcd"))
    path = f"{tmp_path}/{name}"
    write_bags(path, bags)
    told = dtype if name.startswith(CSV) else None  # text has no types
    assert_same_bags(read_bags(path, dtype=told).bags, bags)


LABELS = [
    np.array([0, 1, 0]),
    np.array([-1, 1, -1]),
    np.array([True, False, True]),
    np.array(["pos", "neg", "pos"]),
    np.array(["NA", "", "x"]),
    np.array([0.5, 1.0, 2.0]),
    np.array(["pos", None, "neg"], dtype=object),
]
IDS = [["1", "2", "10"], [3, -1, 10**17], ["007", "7", "08"], ["NA", "null", "true"]]
IDS += [['"', ",;\t", "a\nb"]]


@pytest.mark.parametrize("name", DENSE)
def test_extreme_values_ids_and_labels_survive(tmp_path, bags, name):
    path = f"{tmp_path}/{name}"
    write_bags(path, bags)
    assert_same_bags(read_bags(path).bags, bags)
    for ids in IDS:
        write_bags(path, Bags(bags.instances, bags.offsets, ids), force=True)
        # In a text file a string of digits is a number.
        expected = [1, 2, 10] if ids[0] == "1" and name.startswith(CSV) else ids
        assert read_bags(path).bags.ids.tolist() == expected
    for y in LABELS:
        write_bags(path, bags, y=y, force=True)
        read = read_bags(path).y
        assert read.tolist() == y.tolist()
        assert read.dtype.kind == y.dtype.kind
    for y in ([-1, None, 1], [0.5, np.nan, 2.0], [None, np.nan, None]):
        write_bags(path, bags, y=np.array(y, dtype=object), force=True)
        np.testing.assert_array_equal(read_bags(path).y, np.array(y, dtype=float))


@pytest.mark.parametrize("name", DENSE)
def test_label_sets_and_instance_labels(tmp_path, bags, name):
    sets = np.array([[1, 1, 0], [-1, -1, -1], [0, 0, 0]])
    labels = np.array([0, 1, -1, 2, 2, -1, 0])
    path = f"{tmp_path}/{name}"
    for classes in (["ant", "bee", "cat"], [10, 20, 30]):
        known = {"label_sets": sets, "instance_labels": labels, "classes": classes}
        write_bags(path, bags, force=True, **known)
        data = read_bags(path)
        assert data.classes.tolist() == classes
        np.testing.assert_array_equal(data.label_sets, sets)
        np.testing.assert_array_equal(data.instance_labels, labels)
    labels = np.array([5, 0, -1, 2, 2, -1, 7])
    write_bags(path, bags, y=[0, 1, 1], instance_labels=labels, force=True)
    assert read_bags(path).classes is None
    np.testing.assert_array_equal(read_bags(path).instance_labels, labels)


@pytest.mark.parametrize("name", ["bags.parquet", "bags.npz", "bags/"])
def test_a_class_that_never_occurs_is_remembered(tmp_path, bags, name):
    path = f"{tmp_path}/{name}"
    write_bags(path, bags, label_sets=[{"a"}, None, set()], classes=iter(["never", "a"]))
    data = read_bags(path)
    assert data.classes.tolist() == ["never", "a"]
    assert data.label_sets.tolist() == [[0, 1], [-1, -1], [0, 0]]
    sets = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    write_bags(path, bags, label_sets=sets, force=True)
    np.testing.assert_array_equal(read_bags(path).label_sets, sets)


def test_what_csv_does_not_contain(tmp_path, bags):
    path = tmp_path / "bags.csv"
    plain = Bags(bags.instances, bags.offsets)
    write_bags(path, plain, label_sets=[{"a"}, None, set()], classes=["never", "a"])
    data = read_bags(path)
    assert data.bags.ids.tolist() == [0, 1, 2]
    assert data.bags.feature_names == ["x0", "x1", "x2"]
    assert data.classes.tolist() == ["a"]
    data = read_bags(path, classes=["never", "a"])
    assert data.label_sets.tolist() == [[0, 1], [-1, -1], [0, 0]]
    with pytest.raises(LabelError, match="'a' is not in classes="):
        read_bags(path, classes=["b"])


@pytest.mark.parametrize("name", ["bags.parquet", "bags.npz", "bags/"])
def test_no_ids_and_no_names_stay_so(tmp_path, bags, name):
    bare = Bags(bags.instances, bags.offsets)
    path = f"{tmp_path}/{name}"
    write_bags(path, bare)
    assert_same_bags(read_bags(path).bags, bare)


@pytest.mark.parametrize("name", ["bags.parquet", "bags.npz", "bags/"])
def test_empty_bags_survive_where_a_row_is_a_bag(tmp_path, rng, name):
    bags = Bags(rng.normal(size=(3, 2)), [0, 0, 2, 2, 3, 3], ids=list("abcde"))
    path = f"{tmp_path}/{name}"
    sets = [{"a", "b"}, None, set(), {"b"}, {"a"}]
    known = {"y": [0, 1, 0, 1, 0], "label_sets": sets, "instance_labels": [0, 1, -1]}
    write_bags(path, bags, **known, **LISTS.get(name, {}))
    data = read_bags(path)
    assert_same_bags(data.bags, bags)
    assert data.y.tolist() == [0, 1, 0, 1, 0]
    assert data.label_sets.tolist() == [[1, 1], [-1, -1], [0, 0], [0, 1], [1, 0]]
    assert data.instance_labels.tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("compress", [True, False])
def test_sparse_bags_go_through_npz(tmp_path, kind, compress):
    X = kind(sparse.random(30, 12, density=0.2, random_state=0, format="csr", dtype=np.float32))
    bags = Bags(X, [0, 10, 10, 30], ids=["a", "b", "c"])
    path = tmp_path / "bags.npz"
    write_bags(path, bags, y=[0, 1, 0], compress=compress)
    read = read_bags(path).bags
    for part in ("data", "indices", "indptr"):
        same(getattr(read.instances, part), getattr(X, part))
    assert read.instances.shape == X.shape
    assert read.ids.tolist() == ["a", "b", "c"]


def test_extras_are_kept_in_npz_only(tmp_path, bags):
    coords = np.arange(14).reshape(7, 2)
    for name in ("coords.npz", "coords/"):
        write_bags(f"{tmp_path}/{name}", bags, coords=coords)
        same(read_bags(f"{tmp_path}/{name}").coords, coords)
    extras = {"fold": np.arange(6).reshape(2, 3)}
    write_bags(tmp_path / "bags.npz", bags, extras=extras)
    same(read_bags(tmp_path / "bags.npz").extras["fold"], extras["fold"])
    with pytest.raises(InputError, match="'offsets' has a name bagwise uses"):
        write_bags(tmp_path / "more.npz", bags, extras={"offsets": np.arange(3)})


@pytest.mark.parametrize("name", DENSE)
def test_nothing_is_overwritten_unasked(tmp_path, bags, name):
    path = f"{tmp_path}/{name}"
    write_bags(path, bags, y=[0, 0, 0])
    with pytest.raises(OutputExistsError, match="force=True"):
        write_bags(path, bags, y=[1, 1, 1])
    assert read_bags(path).y.tolist() == [0, 0, 0]
    write_bags(path, bags[:2], y=[1, 1], force=True)
    assert read_bags(path).y.tolist() == [1, 1]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", DENSE)
def test_a_failed_write_leaves_the_old_file(tmp_path, bags, name, monkeypatch):
    path = f"{tmp_path}/{name}"
    write_bags(path, bags, y=[0, 0, 0])
    before = sorted(tmp_path.rglob("*"))

    def fail(*args, **kwargs):
        raise OSError("disk full")

    for target in ["os.replace", "os.rename"]:
        monkeypatch.setattr(target, fail)
    with pytest.raises(OSError, match="disk full"):
        write_bags(path, bags, y=[1, 1, 1], force=True)
    monkeypatch.undo()
    assert sorted(tmp_path.rglob("*")) == before
    assert read_bags(path).y.tolist() == [0, 0, 0]


def test_a_folder_with_other_files_is_never_replaced(tmp_path, bags):
    folder = tmp_path / "bags"
    write_bags(folder, bags, format="hdf5")
    (folder / "thesis.txt").write_text("do not lose me")
    with pytest.raises(OutputExistsError, match=r"thesis\.txt"):
        write_bags(folder, bags, format="hdf5", force=True)
    assert (folder / "thesis.txt").read_text() == "do not lose me"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [0, 1]}, r"y has shape \(2,\) for 3 bags"),
        ({"y": np.zeros((3, 2))}, "label_sets"),
        ({"label_sets": np.zeros((2, 4))}, "2 label sets were given for 3 bags"),
        ({"label_sets": np.full((3, 2), 7)}, r"\[7, 7\]: expected 0 and 1"),
        ({"label_sets": [-1, 0, 0]}, "expected a set"),
        ({"label_sets": [{"a"}, {"b"}, None], "classes": ["a"]}, "'b'"),
        ({"label_sets": ["ab", "b", "c"]}, "expected a set"),
        ({"instance_labels": [0, 1]}, "for 7 instances"),
        ({"instance_labels": np.zeros(7)}, "float64: expected indices"),
        ({"instance_labels": [0] * 6 + [3], "classes": ["a", "b"]}, "indices of the 2 classes"),
        ({"classes": ["a", "a"]}, "distinct"),
        ({"y": np.array([[1], [2, 3], [4]], dtype=object)}, "not labels"),
        ({"coords": np.zeros((3, 2))}, "coords"),
        ({"layout": "columns"}, "layout"),
        ({"format": "xls"}, "unknown format"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, bags, arguments, message):
    with pytest.raises(InputError, match=message):
        write_bags(tmp_path / "bags.npz", bags, **arguments)
    assert list(tmp_path.iterdir()) == []


SPARSE = Bags(sparse.eye_array(4, format="csr"), [0, 2, 4])
HOLLOW = Bags(np.ones((3, 2)), [0, 3, 3], ids=["full", "hollow"])
MIXED = Bags(np.ones((2, 1)), [0, 1, 2], ids=["a", 1])
TWICE = Bags(np.ones((2, 1)), [0, 1, 2], ids=["b", "b"])


@pytest.mark.parametrize(
    ("bags", "known", "names", "message"),
    [
        (SPARSE, {}, ["a.csv", "a.parquet", "a/"], r"sparse: write \.npz"),
        (HOLLOW, {}, ["a.csv", "a.parquet"], r"bag 1 \('hollow'\) is empty"),
        (MIXED, {}, ["a.csv", "a.npz", "a.parquet"], "only"),
        (TWICE, {}, DENSE, r"bag 0 \('b'\) and bag 1 \('b'\)"),
        (HOLLOW[:1], {"extras": {"fold": [1]}}, ["a.csv", "a.parquet", "a/"], r": write \.npz\.$"),
        *(
            (HOLLOW[:1], {"label_sets": [{label}]}, ["a.csv"], "separated by")
            for label in ("a;b", "", " a")
        ),
    ],
)
def test_what_a_format_cannot_represent_is_refused(tmp_path, bags, known, names, message):
    for name in names:
        with pytest.raises(InputError, match=message):
            write_bags(f"{tmp_path}/{name}", bags, **known)
    assert list(tmp_path.iterdir()) == []


def test_own_names_and_separator(tmp_path, bags):
    path = tmp_path / "bags.csv"
    sets = [{"a;b", "c"}, set(), None]
    names = {"bag": "slide", "label": "tumour", "separator": "|"}
    write_bags(path, bags, y=[0, 1, 1], label_sets=sets, **names)
    data = read_bags(path, **names)
    assert data.y.tolist() == [0, 1, 1]
    assert data.classes.tolist() == ["a;b", "c"]
    assert data.label_sets.tolist() == [[1, 1], [0, 0], [-1, -1]]
    with pytest.raises(InputError, match="two columns would be called 'red'"):
        write_bags(path, bags, y=[0, 1, 1], label="red", force=True)
    with pytest.raises(InputError, match="two columns would be called 'instances'"):
        write_bags(tmp_path / "b.parquet", bags, y=[0, 1, 1], label="instances", layout="bags")


def test_where_to_write(tmp_path, bags):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_bags(tmp_path / "absent" / "bags.npz", bags)
    with pytest.raises(InputError, match="has an unknown suffix"):
        write_bags(tmp_path / "bags.xyz", bags)
    with pytest.raises(InputError, match="one file per bag"):
        write_bags(tmp_path / "bags.h5", bags)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(OutputExistsError, match="is a folder"):
        write_bags(tmp_path / "folder.npz", bags, force=True)


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=7).map("n{}".format)


@st.composite
def labelled_bags(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    n, d = sum(sizes), draw(st.integers(1, 3))
    X = draw(hnp.arrays(np.float64, (n, d), elements=st.floats(allow_nan=False)))
    ids = draw(
        st.lists(names, min_size=len(sizes), max_size=len(sizes), unique=True)
        | st.lists(
            st.integers(-(2**62), 2**62), min_size=len(sizes), max_size=len(sizes), unique=True
        )
    )
    features = draw(st.lists(names, min_size=d, max_size=d, unique=True))
    features = [f"{name}." for name in features]
    classes = draw(
        st.lists(names.map(lambda s: f"c{s}".replace(";", "").strip()), min_size=1, unique=True)
    )
    known = st.sets(st.sampled_from(classes)) | st.none()
    sets = draw(st.lists(known, min_size=len(sizes), max_size=len(sizes)))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(-1, len(classes) - 1)))
    y = draw(
        st.lists(names, min_size=len(sizes), max_size=len(sizes))
        | st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes))
        | st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))
    )
    bags = Bags(X, np.concatenate([[0], np.cumsum(sizes)]), ids, feature_names=features)
    return bags, {
        "y": np.array(y),
        "label_sets": sets,
        "instance_labels": labels,
        "classes": classes,
    }


@pytest.mark.parametrize("name", DENSE)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=labelled_bags())
def test_any_labelled_bags(tmp_path_factory, name, case):
    bags, known = case
    path = f"{tmp_path_factory.mktemp('any')}/{name}"
    write_bags(path, bags, **known)
    data = read_bags(path, classes=known["classes"])
    assert_same_bags(data.bags, bags)
    assert data.y.tolist() == known["y"].tolist()
    assert data.instance_labels.tolist() == known["instance_labels"].tolist()
    sets = [
        None if row[0] == -1 else {known["classes"][k] for k in np.flatnonzero(row)}
        for row in data.label_sets
    ]
    assert sets == known["label_sets"]

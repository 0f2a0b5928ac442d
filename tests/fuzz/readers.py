"""Damaged files: `read_bags` reads them or raises an error of bagwise.

A file is written from random bags. Then its bytes are changed, cut, repeated, moved or mixed with
those of another format, or odd cells (text files) and huge numbers (binary files) are inserted.
"""

import gzip
import io
import shutil
import struct
import tempfile
import traceback
import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from bagwise import Bags
from bagwise.exceptions import BagwiseError
from bagwise.io import read_bags, write_bags
from fuzz import BAD, FINE, REFUSED, Outcome

NAMES = [
    "bags.csv",
    "bags.csv.gz",
    "bags.tsv",
    "bags.parquet",
    "lists.parquet",
    "plain.parquet",
    "bags.npz",
    "stored.npz",
    "sparse.npz",
    "bag.h5",
    "zipped.h5",
    "folder",
    "labels.csv",
]
CELLS = [
    *("", '""', '"', "NA", "nan", "inf", "-inf", "1e400", "-1e-400", "0x10", "1_000", "\u0661"),
    *(
        "=1+1",
        "'=1",
        "a;b",
        ";",
        ";;",
        "007",
        "7",
        "yes",
        "yes ",
        "-1",
        "1" * 400,
        "\x00",
        "\ufeff",
    ),
    *("\r", "true", "2020-01-01", "1,5", '"a""b"', "ä" * 50, "9223372036854775808", "1e308"),
]
NUMBERS = [0, 1, 255, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]


def subjects():
    """The kinds of files."""
    return NAMES


def case(subject, seed):
    """Damage one file and read it."""
    rng = np.random.default_rng([seed, NAMES.index(subject)])
    folder = Path(tempfile.mkdtemp(prefix="bagwise-fuzz-"))
    detail = ""
    try:
        path, target, options = written(subject, folder, rng)
        content = target.read_bytes()
        for _ in range(int(rng.choice([1, 1, 2, 4]))):
            how = damages(target)[int(rng.integers(len(damages(target))))]
            detail += f" {how.__name__}"
            content = how(content, rng, folder)
        target.write_bytes(content)
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                data = read_bags(path, **options)
                np.asarray(data.bags.rows(slice(None)).sum())  # streamed values are read now
        except BagwiseError as error:
            if "\n" in str(error).strip():
                return Outcome(BAD, "error of several lines", detail + f": {error}")
            verdict = Outcome(REFUSED)
        else:
            verdict = checked(data, detail)
            del data
        after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        if before != after:
            return Outcome(BAD, "files were changed", detail)
        return verdict
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "bagwise" in f.filename and "fuzz" not in f.filename]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "fuzz"
        return Outcome(BAD, f"{type(error).__name__} in {where}", f"{detail}: {error}"[:300])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def checked(data, detail):
    """Check that the parts of the data are consistent."""
    bags = data.bags
    n, m = len(bags), bags.n_instances
    shapes = {
        "offsets": bags.offsets[-1] == m == bags.instances.shape[0],
        "ids": bags.ids is None or len({str(v) for v in bags.ids.tolist()}) == n,
        "y": data.y is None or data.y.shape == (n,),
        "label_sets": data.label_sets is None or data.label_sets.shape[0] == n,
        "instance_labels": data.instance_labels is None or data.instance_labels.shape == (m,),
        "type": bags.dtype.kind in "fiub",
        "names": bags.feature_names is None or len(bags.feature_names) == bags.n_features,
    }
    wrong = [name for name, right in shapes.items() if not right]
    if wrong:
        return Outcome(BAD, f"inconsistent {wrong[0]}", detail)
    if sparse.issparse(bags.instances):
        bags.instances.check_format(full_check=True)
    return Outcome(FINE)


# Files


def written(subject, folder, rng):
    """Write intact bags; return the path to read, the file to damage, and the options."""
    n_bags, d = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    sizes = rng.integers(1, 6, size=n_bags)
    X = rng.normal(size=(int(sizes.sum()), d)) * 10.0 ** rng.integers(-3, 4)
    if subject == "sparse.npz":
        X = sparse.csr_array(np.where(X > 0, X, 0))
    ids = [[f"b{i}" for i in range(n_bags)], list(range(n_bags))][int(rng.integers(2))]
    bags = Bags(X, np.concatenate([[0], np.cumsum(sizes)]), ids)
    options = {"memory_limit": [None, 0][int(rng.integers(2))]}
    path = folder / subject
    y = rng.choice(["yes", "no"], size=n_bags)
    known = {"y": y}
    if rng.random() < 0.5:
        known["label_sets"] = [
            [None, set(), {"p"}, {"p", "q"}][k] for k in rng.integers(4, size=n_bags)
        ]
        known["classes"] = ["p", "q"]
        known["instance_labels"] = rng.integers(-1, 2, size=len(bags.bag_index))
    if subject == "plain.parquet":
        columns = {"bag": bags.names[bags.bag_index], "label": y[bags.bag_index]}
        pq.write_table(pa.table(columns | {f"f{j}": X[:, j] for j in range(d)}), path)
        return path, path, options
    if subject.endswith(".h5"):
        with h5py.File(path, "w") as file:
            codec = "gzip" if subject == "zipped.h5" else None
            file.create_dataset("features", data=X, compression=codec)
            file.create_dataset("coords", data=rng.integers(0, 99, size=(len(X), 2)))
        return path, path, options
    if subject == "folder":
        write_bags(f"{path}/", bags, **known)
        files = sorted(path.iterdir())
        return path, files[int(rng.integers(len(files)))], options
    if subject == "labels.csv":
        write_bags(folder / "bags.npz", bags)
        rows = "".join(f"{name},{label}\n" for name, label in zip(ids, y, strict=True))
        path.write_text("bag,label\n" + rows)
        return folder / "bags.npz", path, options | {"labels": path}
    layout = "bags" if subject == "lists.parquet" else "rows"
    write_bags(path, bags, layout=layout, compress=subject != "stored.npz", **known)
    return path, path, options


# Damage


def damages(path):
    """The ways to damage a file of this kind."""
    ways = [flipped, flipped, numbered, numbered, cut, spliced, repeated, moved, erased]
    if path.name.endswith((".csv", ".tsv")):
        return [*ways, *[celled, celled, lined, celled]]
    if path.name.endswith(".gz"):
        return [*ways, inside_gzip, inside_gzip, inside_gzip]
    if path.name.endswith(".npz"):
        return [*ways, *[inside_zip] * 20]
    if path.name.endswith(".json"):
        return [*ways, *[celled, renumbered, renumbered]]
    return ways


def flipped(content, rng, folder):
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        if data:
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
    return bytes(data)


def cut(content, rng, folder):
    ends = sorted(int(i) for i in rng.integers(0, len(content) + 1, size=2))
    return [content[: ends[0]], content[ends[0] :], content[: ends[0]] + content[ends[1] :]][
        int(rng.integers(3))
    ]


def spliced(content, rng, folder):
    kind = NAMES[int(rng.integers(len(NAMES) - 2))]
    if kind == "folder":
        return content
    other = folder / "other"
    other.mkdir(exist_ok=True)
    _, target, _ = written(kind, other, rng)
    more = target.read_bytes()
    shutil.rmtree(other)
    at, start = int(rng.integers(len(content) + 1)), int(rng.integers(len(more)))
    return content[:at] + more[start:] + content[at:]


def repeated(content, rng, folder):
    a, b = sorted(int(i) for i in rng.integers(0, len(content) + 1, size=2))
    return content[:b] + content[a:b] * int(rng.integers(1, 5)) + content[b:]


def moved(content, rng, folder):
    a, b, c = sorted(int(i) for i in rng.integers(0, len(content) + 1, size=3))
    return content[:a] + content[b:c] + content[a:b] + content[c:]


def erased(content, rng, folder):
    a, b = sorted(int(i) for i in rng.integers(0, len(content) + 1, size=2))
    return content[:a] + bytes([int(rng.choice([0, 255, 32]))]) * (b - a) + content[b:]


def numbered(content, rng, folder):
    """Replace a number of 1, 2, 4 or 8 bytes by an extreme one: a size, an offset, a count."""
    number = NUMBERS[int(rng.integers(len(NUMBERS)))]
    code = str(rng.choice(["<I", "<Q", "<H", ">I"]))
    size = struct.calcsize(code)
    at = int(rng.integers(max(1, len(content) - size + 1)))
    return content[:at] + struct.pack(code, number % 256**size) + content[at + size :]


def celled(content, rng, folder):
    """Replace a cell of a text table."""
    mark = b"\t" if content.count(b"\t") > content.count(b",") else b","
    lines = content.split(b"\n")
    i = int(rng.integers(len(lines)))
    cells = lines[i].split(mark)
    cells[int(rng.integers(len(cells)))] = CELLS[int(rng.integers(len(CELLS)))].encode()
    lines[i] = mark.join(cells)
    return b"\n".join(lines)


def lined(content, rng, folder):
    """Drop, repeat, shuffle or lengthen lines, or change their ends."""
    lines = content.split(b"\n")
    i = int(rng.integers(len(lines)))
    way = int(rng.integers(6))
    if way == 0:
        del lines[i]
    elif way == 1:
        lines.insert(i, lines[i])
    elif way == 2:
        lines = [lines[j] for j in rng.permutation(len(lines))]
    elif way == 3:
        lines = [line + b"," for line in lines]
    elif way == 4:
        lines[i] += b",1" * int(rng.integers(1, 4))
    return [b"\r\n", b"\r", b"\n"][way % 3].join(lines)


def renumbered(content, rng, folder):
    """Replace a value of a JSON text by one of another type."""
    values = [
        b"null",
        b"-1",
        b"1e999",
        b"[]",
        b"{}",
        b'"x"',
        b"true",
        b"[[]]",
        b"99999999999999999999",
    ]
    parts = content.split(b":")
    i = int(rng.integers(len(parts)))
    parts[i] = b" " + values[int(rng.integers(len(values)))] + b"," + parts[i].partition(b",")[2]
    return b":".join(parts)


def inside_zip(content, rng, folder):
    """Damage or replace an array of an archive, with a correct checksum."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # damaged before
        return content
    names = [*members, "coords.npy", "y_unknown.npy", "extra.npy"]
    name = names[int(rng.integers(len(names)))]
    way = int(rng.integers(3))
    if way == 0 and name in members:
        damage = [flipped, numbered, cut, repeated][int(rng.integers(4))]
        members[name] = damage(members[name], rng, folder)
    elif way == 1 and name in members:
        del members[name]
    else:
        odd = [
            *(
                np.zeros(0),
                np.zeros((0, 3)),
                np.array(3),
                np.arange(5),
                -np.arange(5),
                np.zeros(3, "U0"),
            ),
            *(np.array(["a", "b"]), np.full(4, np.nan), np.array([2**64 - 1], np.uint64)),
            *(np.zeros(3, [("x", int)]), np.zeros((2, 2), complex), np.zeros(3, "datetime64[s]")),
            *(np.array([0, 2**62, -1]), np.ones((3, 3, 3)), np.ones(3, bool), np.zeros(2, "V4")),
        ]
        file = io.BytesIO()
        np.lib.format.write_array(file, odd[int(rng.integers(len(odd)))], allow_pickle=False)
        members[name] = file.getvalue()
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", int(rng.choice([0, 8]))) as archive:
        for key, value in members.items():
            archive.writestr(key, value)
    return result.getvalue()


def inside_gzip(content, rng, folder):
    try:
        text = gzip.decompress(content)
    except Exception:  # damaged before
        return content
    ways = [flipped, cut, celled, lined, repeated, erased]
    return gzip.compress(ways[int(rng.integers(len(ways)))](text, rng, folder))

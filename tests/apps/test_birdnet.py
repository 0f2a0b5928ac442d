"""Files of BirdNET-Analyzer and Perch: embeddings and detections."""

import numpy as np
import pytest

from bagwise.apps.audio import read_recordings
from bagwise.apps.audio._recordings import are_recordings
from bagwise.exceptions import FileFormatError, InputError
from bagwise.io import read_bags

pytest.importorskip("pyarrow")

RECORDINGS = ("site 1/a.wav", "site 1/b.wav", "c.wav")


@pytest.fixture
def clips():
    """Clips of 3 s that overlap by 1.5 s: file, start, end, embedding."""
    rng = np.random.default_rng(0)
    return [
        (name, 1.5 * i, 1.5 * i + 3, rng.normal(size=4).astype(np.float32))
        for name, n in zip(RECORDINGS, (4, 1, 3), strict=True)
        for i in range(n)
    ]


def expected(clips):
    """What a reader written for these tests finds: bags, times, numbers."""
    return (
        list(dict.fromkeys(clip[0] for clip in clips)),
        np.array([clip[1:3] for clip in clips]),
        np.array([clip[3] for clip in clips]),
    )


def check(data, clips, *, ids=None):
    names, times, values = expected(clips)
    assert data.bags.ids.tolist() == (ids or names)
    np.testing.assert_array_equal(data.bags.instances.astype(np.float32), values)
    np.testing.assert_array_equal(np.c_[data.clips.start, data.clips.end], times)


def test_birdnet_1_writes_a_file_per_recording(tmp_path, clips):
    for name in RECORDINGS:
        path = tmp_path / f"{name[:-4]}.birdnet.embeddings.txt"
        path.parent.mkdir(exist_ok=True)
        lines = [
            f"{start}\t{end}\t{','.join(map(str, values))}\n"
            for file, start, end, values in clips
            if file == name
        ]
        path.write_text("".join(lines))
    check(
        read_bags(read_recordings(tmp_path)),
        [clips[-3], *clips[-2:], *clips[:5]],
        ids=["c", "site 1/a", "site 1/b"],
    )
    check(read_bags(read_recordings(tmp_path / "c.birdnet.embeddings.txt")), clips[-3:], ids=["c"])


DETECTIONS = [
    ("a.wav", 0.0, 3.0, "Troglodytes troglodytes", "Eurasian Wren", 0.9),
    ("a.wav", 0.0, 3.0, "Erithacus rubecula", "European Robin", 0.25),
    ("a.wav", 1.5, 4.5, "Erithacus rubecula", "European Robin", 0.5),
    ("b.wav", 6.0, 9.0, "Strix aluco", "Tawny Owl", 0.75),
]
TABLE = (
    "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tHigh Freq (Hz)\t"
    "Common Name\tSpecies Code\tConfidence\tBegin Path\tFile Offset (s)\n"
)


def written(kind, path):
    if kind == "csv":
        lines = ["Start (s),End (s),Scientific name,Common name,Confidence,File\n"]
        lines += [f"{s},{e},{latin},{name},{p},{f}\n" for f, s, e, latin, name, p in DETECTIONS]
    else:  # the times of the second recording run on after the 60 s of the first
        lines = [TABLE]
        for i, (file, start, end, _, name, p) in enumerate(DETECTIONS):
            later = 60 * (file == "b.wav")
            lines.append(
                f"{i + 1}\tSpectrogram 1\t1\t{start + later}\t{end + later}\t0\t15000\t{name}\t"
                f"code\t{p}\t{file}\t{start}\n"
            )
    path.write_text("".join(lines), encoding="utf-8-sig" if kind == "csv" else "utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "name"),
    [("csv", "BirdNET_CombinedTable.csv"), ("csv", "mine.csv"), ("table", "all.txt")],
)
def test_detections_become_a_row_per_clip(tmp_path, kind, name):
    data = read_bags(read_recordings(written(kind, tmp_path / name)))
    assert data.bags.ids.tolist() == ["a.wav", "b.wav"]
    assert data.feature_names == ["Eurasian Wren", "European Robin", "Tawny Owl"]
    assert data.bags.instances.tolist() == [[0.9, 0.25, 0], [0, 0.5, 0], [0, 0, 0.75]]
    assert data.clips.start.tolist() == [0, 1.5, 6]
    assert data.clips.end.tolist() == [3, 4.5, 9]


@pytest.mark.parametrize("version", ["1", "2"])
def test_logits_of_perch_hoplite(tmp_path, version):
    heading = "idx,dataset_name,source_id,offset,label,logits"
    times = ["0.0", "5.0", "5.0"]
    if version == "2":
        heading = "idx,project,filename,window_start,window_end,label,logits"
        times = ["0.0,4.0", "5.0,9.0", "5.0,9.0"]
    values = zip(times, ("wren", "wren", "owl"), (0.5, -1.0, 3.0), strict=True)
    lines = [f"{i},birds,a.wav,{time},{name},{p}" for i, (time, name, p) in enumerate(values)]
    (tmp_path / "perch.csv").write_text("\n".join([heading, *lines, ""]))
    data = read_bags(read_recordings(tmp_path / "perch.csv"))
    assert data.feature_names == ["owl", "wren"]
    expected = [[0, 1 / (1 + np.exp(-0.5))], [1 / (1 + np.exp(-3)), 1 / (1 + np.exp(1))]]
    np.testing.assert_allclose(data.bags.instances, expected)
    assert data.clips.start.tolist() == [0, 5]
    assert data.clips.end.tolist() == ([5, 10] if version == "1" else [4, 9])


def test_a_folder_of_detections_and_species_nobody_heard(tmp_path):
    first = "Start (s),End (s),Scientific name,Common name,Confidence\n"
    (tmp_path / "a.BirdNET.results.csv").write_text(f"{first}0,3,x,Wren,0.5\n")
    (tmp_path / "b.BirdNET.selection.table.txt").write_text(
        f"{TABLE}1\tSpectrogram 1\t1\t0\t3\t0\t15000\tnocall\tnocall\t1.0\tb\t0\n"
    )
    table = read_recordings(tmp_path, species=["Robin", "Wren"])
    data = read_bags(table, features=["Robin", "Wren"])
    assert data.bags.ids.tolist() == ["a", "b"]
    assert data.bags.instances.tolist() == [[0, 0.5], [0, 0]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.birdnet.embeddings.txt", "0\t3\t1,2\n3\t6\t1\n", "line 2 of"),
        ("a.birdnet.embeddings.txt", "0\t3\n", "expected a start, an end and an embedding"),
        ("a.birdnet.embeddings.txt", "\n", "every file is empty"),
        ("a.txt", "Selection\tView\n1\t1\n", "is not a table of BirdNET-Analyzer"),
        ("a.txt", TABLE, "lists no detection"),
        ("a.txt", f"{TABLE}1\tS\t1\tx\t3\t0\t1\tWren\tw\t0.5\ta\t0\n", "line 2 of"),
    ],
)
def test_damage_is_told(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises((InputError, FileFormatError), match=message):
        read_recordings(tmp_path / name)


def test_which_files_are_recordings(tmp_path):
    for name, text, expected in [
        ("a.txt", "", True),
        ("a.sqlite", "", True),
        ("a.csv", "Start (s),End (s),Common name,Confidence\n", True),
        ("b.csv", "file,start,end,embedding\n", False),  # read_bags reads it
        ("a.parquet", "", False),
    ]:
        (tmp_path / name).write_text(text)
        assert are_recordings(tmp_path / name) == expected, name
    assert not are_recordings(tmp_path)
    (tmp_path / "a.BirdNET.results.csv").write_text("")
    assert are_recordings(tmp_path)
    (tmp_path / "slide.h5").write_text("")
    assert not are_recordings(tmp_path)

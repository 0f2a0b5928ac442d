"""Tables of sound clips in the formats of BirdNET-Analyzer and others."""

import csv

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.exceptions import BagwiseError, FileFormatError, InputError
from bagwise.io import read_bags
from bagwise.io.birdnet import open_birdnet
from bagwise.io.clips import clip_columns
from bagwise.io.columns import Request
from bagwise.io.reading import read_contents

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


@pytest.mark.parametrize("form", ["{}", "[{}]"])
@pytest.mark.parametrize("between", [",", ", ", " "])
def test_birdnet_2_writes_lists_as_texts(tmp_path, clips, form, between):
    path = tmp_path / "embeddings.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file_path", "start", "end", "embedding"])
        for name, start, end, values in clips:
            writer.writerow([name, start, end, form.format(between.join(map(str, values)))])
    check(read_bags(path), clips)
    check(read_bags(path, dtype="float32", memory_limit=1), clips)


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
        read_bags(tmp_path), [clips[-3], *clips[-2:], *clips[:5]], ids=["c", "site 1/a", "site 1/b"]
    )
    check(read_bags(tmp_path / "c.birdnet.embeddings.txt"), clips[-3:], ids=["c"])


def test_a_wide_table_as_opensoundscape_writes_it(tmp_path, clips):
    frame = pd.DataFrame([clip[:3] for clip in clips], columns=["file", "start_time", "end_time"])
    frame = pd.concat([frame, pd.DataFrame([c[3] for c in clips]).add_prefix("e")], axis=1)
    check(read_bags(frame), clips)
    for name in ("clips.csv", "clips.parquet"):
        getattr(frame, f"to_{name.split('.')[1]}")(tmp_path / name, index=False)
        data = read_bags(tmp_path / name)
        check(data, clips)
        assert data.feature_names == ["e0", "e1", "e2", "e3"]
    several = read_bags(frame.assign(site="s"), bag="site")
    assert several.clips.file == [clip[0] for clip in clips]
    assert several.bags.n_features == 4
    as_features = read_bags(frame, bag="file", features=["start_time", "e0"])
    assert as_features.clips is None
    assert as_features.feature_names == ["start_time", "e0"]


def test_clips_stay_with_instances_when_bags_are_merged(clips):
    frame = pd.DataFrame([clip[:3] for clip in clips], columns=["file", "start", "end"])
    frame["e"] = [clip[3][0] for clip in clips]
    frame["site"] = [f"s{clip[0] == RECORDINGS[1]}" for clip in clips]
    merged = read_contents(frame, Request(merge="site", exclude=["site"]))
    kept = list(
        zip(merged.clips.file, merged.clips.start, merged.bags.instances[:, 0], strict=True)
    )
    order = [clip for clip in clips if clip[0] != RECORDINGS[1]] + [clips[4]]
    assert kept == [(clip[0], clip[1], clip[3][0]) for clip in order]


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
    data = read_bags(written(kind, tmp_path / name))
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
    data = read_bags(tmp_path / "perch.csv")
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
    data = read_bags(tmp_path, features=["Robin", "Wren"])
    assert data.bags.ids.tolist() == ["a", "b"]
    assert data.bags.instances.tolist() == [[0, 0.5], [0, 0]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.csv", 'file,start,end,embedding\na,0,3,"1,2"\na,1,4,"1"\n', "row 1 has 1 numbers"),
        ("e.csv", 'file,start,end,embedding\na,0,3,"1,2"\na,1,4,"1,x"\n', "not numbers in the"),
        ("e.csv", "file,start,end,embedding\na,0,3,red big\n", "these columns are not numbers"),
        ("a.birdnet.embeddings.txt", "0\t3\t1,2\n3\t6\t1\n", "clip 1 of"),
        ("a.birdnet.embeddings.txt", "0 3 1,2\n", "expected a start, an end and numbers"),
        ("a.birdnet.embeddings.txt", "\n", "every file is empty"),
        ("a.txt", "Selection\tView\n1\t1\n", "is not a table of BirdNET-Analyzer"),
        ("a.txt", TABLE, "lists no detection"),
        ("a.txt", f"{TABLE}1\tS\t1\tx\t3\t0\t1\tWren\tw\t0.5\ta\t0\n", "line 2 of"),
    ],
)
def test_damage_is_told(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises((InputError, FileFormatError), match=message):
        read_bags(tmp_path / name)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("Selection,Begin Time (s),End Time (s),Begin File", ("Begin File", 1, 2)),
        ("x,start,end", (None, 1, 2)),
        ("start_sec,end_sec,filename", ("filename", 0, 1)),
        ("starts,ends,file", None),
        ("onset,label", None),
    ],
)
def test_columns_of_clips(names, found):
    names = names.split(",")
    columns = clip_columns(names)
    assert columns == (found and (found[0], names[found[1]], names[found[2]]))


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet='019.,;\t\n"-eé x', max_size=60), st.sampled_from(["embeddings", "table"]))
def test_any_text_is_read_or_refused(tmp_path_factory, text, kind):
    ending = ".birdnet.embeddings.txt" if kind == "embeddings" else ".txt"
    path = tmp_path_factory.mktemp("clips") / f"a{ending}"
    path.write_text(text if kind == "embeddings" else TABLE + text)
    try:
        data = read_bags(path)
    except BagwiseError:
        return
    assert len(data.clips.start) == data.bags.n_instances > 0


def test_the_file_of_a_clip_is_where_the_name_is_missing(tmp_path):
    (tmp_path / "x.txt").write_text(f"{TABLE}1\tS\t1\t0\t3\t0\t1\tWren\tw\t0.5\t\t\n")
    assert open_birdnet(tmp_path / "x.txt").read(["file"]).to_pylist() == [{"file": "x"}]


@pytest.mark.parametrize("written", ["site 1/a.wav", "site 1/a", "a.wav", "a"])
def test_labels_of_recordings_are_found_with_and_without_folder_and_ending(clips, written):
    frame = pd.DataFrame([clip[:3] for clip in clips], columns=["file", "start", "end"])
    frame["e"] = [clip[3][0] for clip in clips]
    names = [written, "c.flac", "b"]
    labels = pd.DataFrame({"file": names, "label_set": ["wren", "owl", None]})
    data = read_bags(frame, labels=labels)
    assert data.classes.tolist() == ["owl", "wren"]
    assert data.label_sets.tolist() == [[0, 1], [-1, -1], [1, 0]]
    twice = pd.DataFrame({"file": ["x/a.wav", "y/a.wav"], "label_set": ["wren", "owl"]})
    with pytest.raises(BagwiseError, match="both the bag 'a'"):
        read_bags(frame, labels=twice)

"""Tables of sound clips: file, start, end and features."""

import csv

import numpy as np
import pandas as pd
import pytest

from bagwise.exceptions import BagwiseError, FileFormatError, InputError
from bagwise.io import read_bags
from bagwise.io._contents import clip_columns
from bagwise.io._files import Request
from bagwise.io._reading import read_contents

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


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "e.csv",
            'file,start,end,embedding\na,0,3,"1,2"\na,1,4,"1"\n',
            "row 1 has '1' in the",
        ),
        (
            "e.csv",
            'file,start,end,embedding\na,0,3,"1,2"\na,1,4,"1,x"\n',
            "row 1 has '1,x'.*2 numbers",
        ),
        ("e.csv", "file,start,end,embedding\na,0,3,red big\n", "these columns are not numbers"),
        ("e.csv", "file,start,e\na,0,1\n", "of 'file' have a 'start' and no end: add a column end"),
    ],
)
def test_damage_is_told(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises((InputError, FileFormatError), match=message):
        read_bags(tmp_path / name)


def test_a_start_without_an_end_is_no_feature(tmp_path):
    path = tmp_path / "clips.csv"
    path.write_text("file,start,e\na,0,1\na,3,2\nb,0,3\n")
    with pytest.raises(InputError, match="have a 'start' and no end"):
        read_bags(path, bag="file")
    for given in ({"exclude": ["start"]}, {"meta": ["start"]}, {"features": ["e"]}):
        assert read_bags(path, bag="file", **given).bags.feature_names == ["e"]
    both = read_bags(path, bag="file", features=["start", "e"])  # asked for
    assert both.bags.n_features == 2


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
    with pytest.raises(BagwiseError, match="both of the bag 'a'"):
        read_bags(frame, labels=twice)

"""Recordings are found after the table or the files were moved."""

import pytest

from bagwise.apps.audio._recordings import find_recording


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("day/a.wav", "day/a.wav"),
        ("day/a", "day/a.wav"),
        ("/home/ana/day/a.wav", "day/a.wav"),
        ("D:\\Monitoring\\day\\a.wav", "day/a.wav"),
        ("night/b 1 früh.WAV", "b 1 früh.WAV"),
        ("night/a.wav", None),  # there is one in another folder only
        ("..", None),
        ("", None),
        ("a\0.wav", None),
        ("x" * 10_000, None),
    ],
)
def test_a_recording_is_found_by_the_end_of_its_path(tmp_path, name, found):
    (tmp_path / "day").mkdir()
    for path in ("day/a.wav", "b 1 früh.WAV"):
        (tmp_path / path).touch()
    assert find_recording(tmp_path, name) == found


def test_what_is_outside_is_not_found_inside(tmp_path):
    folder, outside = tmp_path / "clips", tmp_path / "elsewhere"
    for place in (folder, outside):
        place.mkdir()
    (outside / "a.wav").touch()
    (folder / "b.wav").touch()
    (folder / "link.wav").symlink_to(outside / "a.wav")
    whole = str(outside / "a.wav")
    assert find_recording(folder, whole) == whole
    names = ["b.wav", whole, "../elsewhere/a.wav", "link.wav"]
    found = [find_recording(folder, name, inside=True) for name in names]
    assert found == ["b.wav", None, None, None]
    (folder / "a.wav").touch()  # a copy inside is preferred to nothing
    assert find_recording(folder, whole, inside=True) == "a.wav"

"""Clips of WAV files against SciPy's reader, and what their spectrograms show."""

import io

import numpy as np
import pytest
from scipy.io import wavfile

from bagwise._sounds import draw_spectrogram, read_sound
from bagwise.review.card import ServedMedia
from syllables import RATE, write_tone


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("n_channels", [1, 2])
def test_a_clip_is_the_part_of_the_file(tmp_path, width, n_channels):
    path, tone = write_tone(tmp_path / "a.wav", width=width, n_channels=n_channels)
    with open(path, "rb") as file:
        sound = read_sound(file, 0.5, 1.25)
    assert sound.seconds == 0.75
    first, last = int(0.5 * RATE), int(1.25 * RATE)
    rate, whole = wavfile.read(path)
    cut_rate, cut = wavfile.read(io.BytesIO(sound.to_wav()))
    assert rate == cut_rate == RATE
    np.testing.assert_array_equal(cut, whole[first:last])
    np.testing.assert_allclose(sound.samples(), tone[first:last], atol=2 / 2 ** (8 * width - 1))


def test_the_end_of_the_file_ends_the_clip(tmp_path):
    path, _ = write_tone(tmp_path / "a.wav")
    with open(path, "rb") as file:
        assert read_sound(file, 1.5, 4.5).seconds == 0.5


@pytest.mark.parametrize("times", [(2.0, 3.0), (5.0, 8.0), (1.0, 1.0), (-1.0, 1.0), (np.nan, 1.0)])
def test_there_is_nothing_outside_of_the_file(tmp_path, times):
    path, _ = write_tone(tmp_path / "a.wav")
    with open(path, "rb") as file:
        assert read_sound(file, *times) is None


def test_damage_is_no_sound(tmp_path):
    path, _ = write_tone(tmp_path / "a.wav")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for n in (0, 3, 20, 43):
        assert read_sound(io.BytesIO(whole[:n])) is None
    for _ in range(200):
        head = bytearray(whole[:60])
        for place in rng.integers(60, size=3):
            head[place] = rng.integers(256)
        found = read_sound(io.BytesIO(bytes(head)), 0.0, 1.0)
        assert found is None or np.isfinite(found.samples()).all()
    floats = io.BytesIO()
    wavfile.write(floats, RATE, np.zeros(100, np.float32))
    assert read_sound(io.BytesIO(floats.getvalue())) is None


@pytest.mark.parametrize("hertz", [500.0, 3000.0])
def test_a_tone_is_bright_at_its_frequency(tmp_path, hertz):
    image = pytest.importorskip("matplotlib.image")
    path, _ = write_tone(tmp_path / "a.wav", hertz)
    with open(path, "rb") as file:
        drawn = image.imread(io.BytesIO(draw_spectrogram(read_sound(file))))
    brightest = drawn[..., :3].sum(axis=2).mean(axis=1).argmax()
    height = 1 - (brightest + 0.5) / len(drawn)  # low frequencies are at the bottom
    assert height * RATE / 2 == pytest.approx(hertz, abs=2 * RATE / 512)


@pytest.mark.parametrize("seconds", [0.001, 100.0])
def test_silence_and_long_sounds_are_drawn(tmp_path, seconds):
    image = pytest.importorskip("matplotlib.image")
    path, _ = write_tone(tmp_path / "a.wav", hertz=0.0, seconds=seconds)
    with open(path, "rb") as file:
        drawn = image.imread(io.BytesIO(draw_spectrogram(read_sound(file))))
    assert drawn.shape[0] == 257
    assert drawn.shape[1] < 1700


def test_media_say_what_can_be_heard(tmp_path):
    write_tone(tmp_path / "a.wav")
    (tmp_path / "b.mp3").write_bytes(b"ID3")
    names = ["a.wav", "a.wav", "b.mp3", "none.wav", None]
    start = np.array([0.0, 1.0, 3.0, 0.0, 0.0])
    media = ServedMedia("audio", names, tmp_path, start, start + 0.5)
    assert media.described(1) | {"drawn": None} == {
        "kind": "audio", "text": "a.wav", "seconds": 0.5, "hertz": RATE / 2, "drawn": None,
    }  # fmt: skip
    assert media.described(2)["part"] == [3.0, 3.5]
    kind, clip = media.file_of("1")
    assert (kind, wavfile.read(io.BytesIO(clip))[1].shape) == ("audio/wav", (RATE // 2,))
    assert media.file_of("2") == ("audio/mpeg", b"ID3")  # the page plays its part
    assert media.file_of("3") is None
    assert media.file_of("4") is None
    assert media.spectrogram_of("2") is None
    whole = ServedMedia("audio", names, tmp_path)
    assert whole.file_of("0") == ("audio/x-wav", (tmp_path / "a.wav").read_bytes())
    assert whole.described(0)["seconds"] == 2.0

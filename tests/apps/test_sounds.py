"""Clips of sound files against SciPy's reader, and their spectrograms."""

import io

import numpy as np
import pytest
from scipy.io import wavfile

from bagwise.apps.review._card import ServedMedia, draw_spectrogram
from bagwise.report._media import read_sound
from syllables import RATE, write_tone

soundfile = pytest.importorskip("soundfile")


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
    assert cut.dtype == np.int16
    scaled = whole[first:last].astype(np.int64)  # SciPy puts 24 bits into the upper ones of 32
    expected = {1: (scaled - 128) * 256, 2: scaled}.get(width, scaled >> 16)
    np.testing.assert_array_equal(cut, expected)
    np.testing.assert_array_equal(cut, sound.samples.reshape(cut.shape))
    mean = sound.samples.mean(axis=1) / 2**15
    np.testing.assert_allclose(mean, tone[first:last], atol=2 / 2 ** min(8 * width - 1, 15))


@pytest.mark.parametrize("times", [(2.0, 3.0), (1.0, 1.0), (-1.0, 1.0), (np.nan, 1.0)])
def test_there_is_nothing_outside_of_the_file(tmp_path, times):
    path, _ = write_tone(tmp_path / "a.wav")
    with open(path, "rb") as file:
        assert read_sound(file, *times) is None
        file.seek(0)
        assert read_sound(file, 1.5, 4.5).seconds == 0.5


def test_damage_is_no_sound(tmp_path):
    path, _ = write_tone(tmp_path / "a.wav")
    whole = path.read_bytes()
    for n in (0, 3, 20, 43):
        assert read_sound(io.BytesIO(whole[:n])) is None
    assert read_sound(io.BytesIO(b"no sound" * 100)) is None


def test_floats_beyond_one_are_clipped():
    tone = np.sin(np.arange(RATE) / 5)
    tone[:4] = [2.0, -3.0, np.nan, np.inf]
    buffer = io.BytesIO()
    wavfile.write(buffer, RATE, tone)
    sound = read_sound(buffer, 0.0, 0.5)
    expected = np.clip(np.nan_to_num(tone[: RATE // 2], posinf=1, neginf=-1), -1, 1)
    np.testing.assert_allclose(sound.samples[:, 0] / 2**15, expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["flac", "ogg", "mp3"])
def test_compressed_recordings_are_cut_too(tmp_path, kind):
    _, tone = write_tone(tmp_path / "a.wav")
    path = tmp_path / f"a.{kind}"
    soundfile.write(path, tone, RATE)
    with open(path, "rb") as file:
        sound = read_sound(file, 0.5, 1.25)
    own = tone[int(0.5 * RATE) : int(1.25 * RATE)]
    assert sound.seconds == 0.75
    assert np.corrcoef(sound.samples[:, 0], own)[0, 1] > 0.9


@pytest.mark.parametrize("hertz", [500.0, 3000.0])
def test_a_tone_is_bright_at_its_frequency(tmp_path, hertz):
    image = pytest.importorskip("matplotlib.image")
    path, _ = write_tone(tmp_path / "a.wav", hertz)
    with open(path, "rb") as file:
        drawn = image.imread(io.BytesIO(draw_spectrogram(read_sound(file))))
    brightest = drawn[..., :3].sum(axis=2).mean(axis=1).argmax()
    height = 1 - (brightest + 0.5) / len(drawn)  # low frequencies are at the bottom
    assert height * RATE / 2 == pytest.approx(hertz, abs=2 * RATE / 512)


def test_media_say_what_can_be_heard(tmp_path):
    write_tone(tmp_path / "a.wav")
    (tmp_path / "b.mp3").write_bytes(b"ID3")
    names = ["a.wav", "a.wav", "b.mp3", "none.wav", None]
    start = np.array([0.0, 1.0, 3.0, 0.0, 0.0])
    media = ServedMedia("audio", names, tmp_path, start, start + 0.5)
    assert media.described(1) | {"drawn": None} == {
        "kind": "audio", "text": "a.wav", "seconds": 0.5, "hertz": RATE / 2, "drawn": None,
    }  # fmt: skip
    assert media.described(2)["part"] == (3.0, 3.5)
    kind, clip = media.file_of(1)
    assert (kind, wavfile.read(io.BytesIO(clip))[1].shape) == ("audio/wav", (RATE // 2,))
    assert media.file_of(2) == ("audio/mpeg", b"ID3")  # the page plays its part
    assert media.file_of(3) is None
    assert media.file_of(4) is None
    assert media.spectrogram_of(2) is None
    whole = ServedMedia("audio", names, tmp_path)
    assert whole.file_of(0) == ("audio/wav", (tmp_path / "a.wav").read_bytes())
    assert whole.described(0)["seconds"] == 2.0

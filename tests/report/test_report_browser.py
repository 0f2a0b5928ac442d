"""The report in Chromium. `open_page` fails a test whose page logs an error or a warning."""

import base64
import io
import re
import wave

import numpy as np
import pytest

from bagwise import Bags
from bagwise.classification import SingleInstanceClassifier
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.regression import SetKernelRegressor
from bagwise.report import Media, Report

pytest.importorskip("jinja2")
expect = pytest.importorskip("playwright.sync_api").expect

EVIL = "</script><script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"


@pytest.fixture
def bags(rng):
    """Sixty bags of three; in every other the second instance is far away."""
    rows = rng.normal(size=(180, 2))
    rows[4::6] += 8
    ids = [f"slide {i}" for i in range(60)]
    return Bags(rows, np.arange(0, 181, 3), ids)


@pytest.fixture
def y():
    return np.array(["healthy", "tumour"] * 30)


@pytest.fixture
def saved(tmp_path, bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    return Report(model, bags, y).save(tmp_path / "report.html")


def shown_bags(page):
    return page.locator("#list .id").all_text_contents()


def expect_open(page, name):
    expect(page.locator("#bag h3")).to_have_text(name)  # waits for the page


def test_the_page_opens_from_disk(open_page, saved):
    page = open_page(saved)
    assert page.locator("h1").text_content() == "SingleInstanceClassifier on 60 bags"
    assert page.get_by_role("heading", level=2).all_text_contents() == [
        "The data",
        "Evaluation",
        "All bags",
        "The model",
    ]
    expect_open(page, "slide 0")
    assert page.locator("#count").text_content() == "60 bags"
    for landmark in ("banner", "main", "contentinfo"):
        assert page.get_by_role(landmark).count() == 1
    assert page.get_by_role("navigation", name="Bags").count() == 1
    assert page.get_by_label("Search bags").count() == 1


def test_search_and_filters(open_page, saved):
    page = open_page(saved)
    page.get_by_label("Search bags").fill("slide 5")
    assert shown_bags(page) == ["slide 5", *(f"slide {i}" for i in range(50, 60))]
    assert page.locator("#count").text_content() == "11 bags of 60"
    page.get_by_label("Search bags").fill("no such bag")
    assert shown_bags(page) == []
    assert page.locator("#count").text_content() == "0 bags of 60"
    page.get_by_label("Search bags").press("Escape")
    page.get_by_label("Show").select_option("label: tumour")
    assert shown_bags(page) == [f"slide {i}" for i in range(1, 60, 2)]
    page.get_by_label("Order").select_option("highest score first")
    assert len(shown_bags(page)) == 30


def test_a_bag_opens_by_mouse_and_its_key_instance_shows(open_page, saved, bags, y):
    page = open_page(saved)
    page.get_by_role("link", name=re.compile(r"^slide 3\b")).click()
    expect_open(page, "slide 3")
    assert page.url.endswith("#bag-3")
    keys = SingleInstanceClassifier().fit(bags, y).key_instances(bags)
    rows = page.locator("#bag tbody tr")
    assert rows.count() == 3
    assert rows.first.locator(".badge").text_content() == "key instance"
    assert rows.first.locator("th").text_content() == str(keys[3])
    assert page.locator("#bag .badge").count() == 1
    assert page.locator("[aria-current]").get_attribute("data-bag") == "3"
    page.get_by_role("link", name=re.compile(r"^slide 4\b")).click()
    page.go_back()
    expect(page).to_have_url(re.compile("#bag-3$"))
    expect(page.locator("#bag h3")).to_have_text("slide 3")


def test_a_bag_opens_by_keyboard(open_page, saved):
    page = open_page(saved)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("slide 1")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect_open(page, "slide 10")
    assert page.locator("#told").text_content().startswith("slide 10: ")
    page.keyboard.press("ArrowUp")
    expect_open(page, "slide 1")
    page.keyboard.press("Enter")
    expect(page.locator("#bag")).to_be_focused()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.bag") == "1"


def test_what_people_write_stays_text(open_page, tmp_path, bags, y):
    named = Bags(bags.instances, bags.offsets, [f"{EVIL} {i}" for i in range(60)])
    labels = np.where(y == "tumour", EVIL, "healthy")
    model = SingleInstanceClassifier().fit(named, labels)
    media = Media(texts=[EVIL] * bags.n_instances)
    report = Report(model, named, labels, title=EVIL, media=media)
    page = open_page(report.save(tmp_path / "report.html"))
    expect_open(page, f"{EVIL} 0")
    assert page.locator("h1").text_content() == EVIL
    assert page.locator("#bag td.text").first.text_content() == EVIL
    assert page.locator("img").count() == 0
    assert page.evaluate("window.hacked") is None


def test_images_and_boxes_show(open_page, tmp_path, bags, y):
    patches = [np.full((4, 4), i / bags.n_instances) for i in range(bags.n_instances)]
    sources = [np.full((20, 30, 3), 0.2 + i / 100) for i in range(60) for _ in range(3)]
    boxes = [[2 + 8 * j, 3, 6, 5] for _ in range(60) for j in range(3)]
    media = Media(images=patches, sources=sources, boxes=boxes, texts=["patch"] * 180, per_bag=2)
    model = SingleInstanceClassifier().fit(bags, y)
    page = open_page(Report(model, bags, y, media=media).save(tmp_path / "report.html"))
    images = page.locator("#bag tbody img")
    assert images.count() == 2
    images.first.scroll_into_view_if_needed()
    expect(images.first).to_have_js_property("naturalWidth", 4)
    assert page.locator("#bag .source rect").count() == 3
    assert page.locator("#bag .source rect.key").count() == 1
    expect(page.locator("#bag .source svg")).to_have_attribute("viewBox", "0 0 30 20")


def test_a_clip_is_the_part_of_its_recording(open_page, tmp_path, bags, y):
    frames = np.arange(800, dtype="<i2")
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 100, 0, "NONE", ""))
        file.writeframes(frames.tobytes())
    (tmp_path / "b.mp3").write_bytes(b"not a sound")
    audio = [tmp_path / "a.wav", tmp_path / "a.wav", tmp_path / "b.mp3"] * 60
    media = Media(audio=audio, clips=[[1, 3], [2.5, 4], [0, 1]] * 60)
    model = SingleInstanceClassifier().fit(bags, y)
    page = open_page(Report(model, bags, y, media=media).save(tmp_path / "report.html"))
    parts = {"a.wav, 1 to 3 s": slice(100, 300), "a.wav, 2.5 to 4 s": slice(250, 400)}
    for name, part in parts.items():
        source = page.get_by_label(name).get_attribute("src")
        with wave.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))) as file:
            found = np.frombuffer(file.readframes(1000), dtype="<i2")
        np.testing.assert_array_equal(found, frames[part])
    assert "files are shown by name: they are missing" in page.content()


def test_a_point_of_the_map_opens_its_bag(open_page, tmp_path, bags):
    model = BagConstrainedSpectralClustering(2, random_state=0).fit(bags)
    page = open_page(Report(model, bags).save(tmp_path / "report.html"))
    point = page.locator("svg a[href='#bag-7']").first
    point.dispatch_event("click")
    expect(page.locator("#bag h3")).to_have_text("slide 7")
    assert "slide 7: " in point.text_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_on_a_telephone(open_page, saved, scheme):
    page = open_page(saved, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light == ("rgb(253, 253, 252)" if scheme == "light" else "rgb(21, 24, 26)")


def test_axe_finds_no_fault(accessibility_faults, saved):
    assert accessibility_faults(saved) == []


def test_numbers_are_ordered_by_their_error(open_page, tmp_path, bags):
    numbers = np.array([bag[:, 0].mean() for bag in bags])
    model = SetKernelRegressor(C=1.0).fit(bags, numbers)
    page = open_page(Report(model, bags, numbers).save(tmp_path / "page.html"))
    assert page.locator("svg a[href^='#bag-']").count() == 60
    page.locator("#order").select_option("largest error first")
    worst = int(np.abs(numbers - model.predict(bags)).argmax())
    assert shown_bags(page)[0] == f"slide {worst}"
    page.locator("#list li a").first.click()
    assert "observed" in page.locator("#bag dl").inner_text()
    assert [o.inner_text() for o in page.locator("#show option").all()] == ["all bags"]


def test_the_heat_map_of_a_bag_is_shown(open_page, tmp_path, bags, y):
    model = SingleInstanceClassifier().fit(bags, y)
    coords = np.tile([[0, 0], [256, 0], [0, 256]], (60, 1))
    report = Report(model, bags[:5], y[:5], coords=coords[:15])
    drawn = open_page(report.save(tmp_path / "page.html")).locator("#bag .heat img")
    assert drawn.get_attribute("alt").startswith("Heat map of slide 0: ")
    assert drawn.bounding_box()["width"] > 50

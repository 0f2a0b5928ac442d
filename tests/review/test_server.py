"""The page: who may see it, and what it does, by hand and in Chromium."""

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from bagwise.persistence import save_model
from bagwise.review import Corrections, ReviewQueue, ReviewServer, ServedMedia, read_corrections
from syllables import BIRDS, fitted, recordings, write_table

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8ff"
    "ff3f0005fe02fea7d6059b0000000049454e44ae426082"
)


@contextmanager
def serving(path, *, media=None, limit=None, **options):
    model, bags, sets, birds = fitted(**options)
    with Corrections(path) as corrections:
        queue = ReviewQueue(model, bags, sets, corrections=corrections.all(), limit=limit)
        with ReviewServer(queue, corrections, bags, media=media, title="birds") as server:
            thread = threading.Thread(target=server.serve)
            thread.start()
            try:
                yield server.address, birds
            finally:
                server.stop()
                thread.join()


@pytest.fixture
def sidecar(tmp_path):
    return tmp_path / "birds.corrections.sqlite"


def ask(address, what="", body=None, **headers):
    """A request as a program makes it: the status and the answer."""
    parts = urlsplit(address)
    line = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    headers = {"Origin": f"http://{parts.netloc}", **headers}
    method = "GET" if body is None else "POST"
    line.request(method, parts.path + what, body, headers)
    answer = line.getresponse()
    found = answer.read()
    line.close()
    return answer, json.loads(found) if answer.headers[
        "Content-Type"
    ] == "application/json" else found


class TestDoor:
    def test_only_who_knows_the_address_comes_in(self, sidecar):
        with serving(sidecar) as (address, _):
            assert urlsplit(address).hostname == "127.0.0.1"
            page, text = ask(address)
            assert page.status == 200
            assert b"bagwise review" in text
            assert "default-src 'none'" in page.headers["Content-Security-Policy"]
            root = address[: address.index("/", 8)]
            for wrong in ("/", "/card", "/wrong/card", "//card", f"{urlsplit(address).path[:-2]}/"):
                answer, found = ask(root, wrong)
                assert answer.status == 403, wrong
                assert "birds" not in str(found)

    def test_other_names_of_this_machine_are_refused(self, sidecar):
        with serving(sidecar) as (address, _):
            port = urlsplit(address).port
            for name, status in ((f"evil.example:{port}", 403), (f"localhost:{port}", 200)):
                assert ask(address, "card", Host=name)[0].status == status

    def test_decisions_come_from_the_page_itself(self, sidecar):
        with serving(sidecar) as (address, _):
            _, card = ask(address, "card")
            request = json.dumps({"instance": card["instance"], "label": card["guess"]})
            for origin in ("http://evil.example", "null", ""):
                assert ask(address, "decide", request, Origin=origin)[0].status == 403
            assert read_corrections(sidecar) == []
            assert ask(address, "decide", request)[0].status == 200
            assert len(read_corrections(sidecar)) == 1

    @pytest.mark.parametrize(
        ("what", "body", "status"),
        [
            ("decide", "{", 400),
            ("decide", "[]", 400),
            ("decide", "{}", 400),
            ("decide", '{"instance": true, "label": "wren"}', 400),
            ("decide", '{"instance": -1, "label": "wren"}', 400),
            ("decide", '{"instance": 0, "label": "emu"}', 400),
            ("decide", '{"instance": 0, "label": ["wren"]}', 400),
            ("skip", '{"instance": 100000}', 400),
            ("decide", " " * 100_000, 400),
            ("delete", "{}", 404),
        ],
    )
    def test_strange_requests_change_nothing(self, sidecar, what, body, status):
        with serving(sidecar) as (address, _):
            answer, found = ask(address, what, body)
            assert answer.status == status
            assert found["error"]
            assert ask(address, "card")[1]["progress"]["decided"] == 0
        assert read_corrections(sidecar) == []

    def test_media_are_asked_for_by_number_only(self, sidecar, tmp_path):
        (tmp_path / "clip.png").write_bytes(PIXEL)
        (tmp_path / "secret.txt").write_text("secret")
        names = ["clip.png", "secret.txt", "missing.png", None, *["clip.png"] * 100]
        with serving(sidecar, media=ServedMedia("image", names, tmp_path)) as (address, _):
            answer, found = ask(address, "media/0")
            assert (answer.headers["Content-Type"], found) == ("image/png", PIXEL)
            for wrong in (
                "1",
                "2",
                "3",
                "999",
                "-1",
                "../secret.txt",
                "clip.png",
                "%30",
                "",
                "0/1",
            ):
                assert ask(address, f"media/{wrong}")[0].status == 404, wrong

    def test_a_full_disk_is_told(self, sidecar, monkeypatch):
        def fail(*_, **__):
            raise sqlite3.OperationalError("database or disk is full")

        with serving(sidecar) as (address, _):
            _, card = ask(address, "card")
            monkeypatch.setattr(Corrections, "_insert", fail)
            request = json.dumps({"instance": card["instance"], "label": card["guess"]})
            answer, found = ask(address, "decide", request)
            assert answer.status == 500
            assert "NOT saved: database or disk is full" in found["error"]
            assert ask(address, "card")[1]["instance"] == card["instance"]


def until(page, condition):
    """Wait for something in the page, whose policy forbids Playwright's own way."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never {condition}")


def decide(page, key):
    """Press a key and wait for the next card."""
    before = page.evaluate("document.body.dataset.instance")
    page.keyboard.press(key)
    until(page, f"document.body.dataset.instance !== '{before}'")


class TestPage:
    def test_labels_are_confirmed_and_corrected_by_keyboard(self, open_page, sidecar):
        with serving(sidecar) as (address, _):
            page = open_page(address)
            page.wait_for_selector("#choices button")
            first = page.evaluate("card")
            decide(page, "Enter")
            second = page.evaluate("card")
            other = next(
                i for i, c in enumerate(second["choices"]) if c["label"] != second["guess"]
            )
            decide(page, str(other + 1))
            decide(page, "s")
            assert "2 of" in page.inner_text("#count")
            assert "1 corrected" in page.inner_text("#count")
            found = read_corrections(sidecar)
            assert [(c.bag, c.row, c.label) for c in found] == [
                (first["bag"], first["row"], first["guess"]),
                (second["bag"], second["row"], second["choices"][other]["label"]),
            ]
            decide(page, "u")  # the skip
            decide(page, "u")
            until(page, "card.progress.decided === 1")
            assert page.evaluate("card.instance") == second["instance"]
            assert "Undone" in page.inner_text("#status")
            assert len(read_corrections(sidecar)) == 1
            decide(page, "ArrowRight")
            decide(page, "ArrowLeft")
            assert page.evaluate("card.instance") == second["instance"]
            decide(page, " ")
            assert len(read_corrections(sidecar)) == 2

    def test_mouse_help_and_the_end(self, open_page, sidecar):
        with serving(sidecar, limit=2) as (address, _):
            page = open_page(address)
            page.wait_for_selector("#choices button")
            page.keyboard.press("?")
            assert page.is_visible("#keys")
            page.keyboard.press("Enter")  # closes the list, decides nothing
            assert not page.is_visible("#keys")
            before = page.evaluate("card.instance")
            page.click("#choices button >> nth=0")
            until(page, f"card.instance !== {before}")
            page.click("#neighbours button >> nth=1")
            until(page, "card.row === 1")
            page.keyboard.press("ArrowLeft")
            until(page, "trail[place] === card.instance && place > 0")
            page.keyboard.press("1")
            page.wait_for_selector("#end:not([hidden])")
            assert not page.is_visible("#card")
            page.keyboard.press("Enter")
            page.keyboard.press("u")
            page.wait_for_selector("#card:not([hidden])")

    def test_names_stay_text(self, open_page, sidecar):
        bad = '<script>document.title = "run"</script><img src=x onerror=alert(1)>'
        with serving(sidecar, ids=[f"{bad}{i}" for i in range(12)]) as (address, _):
            page = open_page(address)
            page.wait_for_selector("#choices button")
            assert bad in page.inner_text("#name")
            assert bad in page.inner_text("#status")
            assert page.title() == "bagwise review"
            assert page.query_selector("main script, main img") is None

    @pytest.mark.parametrize("kind", ["image", "text"])
    def test_media_are_shown(self, open_page, sidecar, tmp_path, kind):
        (tmp_path / "a.png").write_bytes(PIXEL)
        values = ["a.png" if kind == "image" else "<b>chirp</b>"] * 100
        with serving(sidecar, media=ServedMedia(kind, values, tmp_path)) as (address, _):
            page = open_page(address, color_scheme="dark")
            page.wait_for_selector("#choices button")
            if kind == "image":
                until(page, "document.querySelector('#media img').naturalWidth === 1")
            else:
                assert page.inner_text("#media") == "<b>chirp</b>"

    def test_it_says_when_the_server_has_ended(self, chromium, sidecar):
        # The browser itself complains about the lost connection, so this page is not watched.
        context = chromium.new_context()
        page = context.new_page()
        with serving(sidecar) as (address, _):
            page.goto(address)
            page.wait_for_selector("#choices button")
        page.keyboard.press("Enter")
        page.wait_for_selector("#alert:not([hidden])")
        assert "has ended" in page.inner_text("#alert")
        context.close()


@contextmanager
def started(table, model):
    """``bagwise review`` as a process of its own, and the address of its page."""
    words = ["-m", "bagwise", "review", str(table), "--model", str(model), "--no-browser"]
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()  # else a failure would wait for it for ever


@pytest.mark.slow
def test_a_killed_server_loses_nothing_and_goes_on(tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("skops")
    bags, sets, _ = recordings()
    table = write_table(tmp_path / "birds.csv", bags, sets)
    model = tmp_path / "model.skops"
    save_model(
        fitted()[0], model, metadata={"columns": {"bag": "recording", "label_set": "species"}}
    )
    sidecar = tmp_path / "birds.corrections.sqlite"
    with started(table, model) as (process, address):
        _, card = ask(address, "card")
        seen = []
        for _ in range(3):
            seen.append((card["bag"], card["row"], card["guess"]))
            request = json.dumps({"instance": card["instance"], "label": card["guess"]})
            _, card = ask(address, "decide", request)
        os.kill(process.pid, signal.SIGKILL)
    assert [(c.bag, c.row, c.label) for c in read_corrections(sidecar)] == seen
    with started(table, model) as (process, address):
        _, again = ask(address, "card")
        assert (again["bag"], again["row"]) == (card["bag"], card["row"])
        assert again["progress"]["decided"] == 3
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 0
    assert "3 confirmed, 0 corrected, 0 skipped" in said
    assert "--corrections" in said
    assert BIRDS[0] not in address

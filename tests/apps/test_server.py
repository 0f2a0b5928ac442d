"""The review page: access and behaviour, by requests and in Chromium."""

import http.client
import json
import os
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from functools import partial
from urllib.parse import urlsplit

import numpy as np
import pytest

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.apps.review import Corrections, ReviewQueue
from bagwise.apps.review._card import ServedMedia
from bagwise.apps.review._queue import match_corrections
from bagwise.apps.review._server import Review, ReviewServer
from bagwise.apps.review._store import SetCorrection
from bagwise.apps.review._store import read_corrections as read_both
from bagwise.exceptions import InputError
from bagwise.persistence import save_model
from bagwise.predictions import doubted_bags
from syllables import fitted, recordings, write_table, write_tone

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8ff"
    "ff3f0005fe02fea7d6059b0000000049454e44ae426082"
)


def read_corrections(path):
    return read_both(path)[0]


def read_set_corrections(path):
    return read_both(path)[1]


@contextmanager
def serving(path, *, media=None, limit=None, patience=30.0, **options):
    model, bags, sets, birds = fitted(**options)
    with reviewing(model, bags, sets, path, media=media, limit=limit, patience=patience) as address:
        yield address, birds


@contextmanager
def reviewing(model, bags, sets, path, *, limit=None, title="birds", patience=30.0, **options):
    with Corrections(path, patience=patience) as corrections:
        queue = ReviewQueue(model, bags, sets, corrections=corrections.all(), limit=limit)
        with ReviewServer(Review(queue, corrections, bags, title=title, **options)) as running:
            thread = threading.Thread(target=running.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield running.address
            finally:
                running.shutdown()
                thread.join()


@pytest.fixture
def sidecar(tmp_path):
    return tmp_path / "birds.corrections.sqlite"


def ask(address, what="", body=None, **headers):
    """A request as a program makes it: the status and the answer."""
    parts = urlsplit(address)
    line = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    headers = {"Origin": f"http://{parts.netloc}", **headers}
    line.request("GET" if body is None else "POST", parts.path + what, body, headers)
    answer = line.getresponse()
    found = answer.read()
    line.close()
    is_json = answer.headers["Content-Type"] == "application/json"
    return answer, json.loads(found) if is_json else found


def decision(card, **changes):
    """The request that confirms the label of a card, or another one."""
    shown = {"instance": card["instance"], "label": card["guess"], "after": card["after"]}
    return json.dumps(shown | changes)


def test_the_address_has_a_secret_token_and_one_origin(sidecar):
    with serving(sidecar) as (address, _):
        page, text = ask(address)
        assert (urlsplit(address).hostname, page.status) == ("127.0.0.1", 200)
        assert b"bagwise review" in text
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        root, port = address[: address.index("/", 8)], urlsplit(address).port
        for wrong in ("/", "/card", "/wrong/card", "//card", f"{urlsplit(address).path[:-2]}/"):
            answer, found = ask(root, wrong)
            assert answer.status == 403, wrong
            assert "birds" not in str(found)
        for name, status in ((f"evil.example:{port}", 403), (f"localhost:{port}", 200)):
            assert ask(address, "card", Host=name)[0].status == status
        _, card = ask(address, "card")
        for origin in ("http://evil.example", "null", ""):
            assert ask(address, "decide", decision(card), Origin=origin)[0].status == 403
        assert read_corrections(sidecar) == []
        assert ask(address, "decide", decision(card))[0].status == 200
        assert len(read_corrections(sidecar)) == 1


def test_strange_requests_change_nothing(sidecar):
    requests = [
        ("decide", "{"),
        ("decide", "[]"),
        ("decide", '{"instance": -1, "label": "wren"}'),
        ("decide", '{"instance": 0, "label": "emu"}'),
        ("decide", '{"instance": 0, "label": ["wren"]}'),
        ("decide", '{"instance": 0, "label": "wren;emu"}'),
        ("decide", "[" * 50_000),
        ("decide", '{"instance": 100000, "label": null}'),
        ("delete", "{}"),
        ("judge", '{"row": 0, "present": true}'),
    ]
    with serving(sidecar) as (address, _):
        for what, body in requests:
            answer, found = ask(address, what, body)
            assert answer.status == (404 if what == "delete" else 400), body[:50]
            assert found["error"]
        assert ask(address, "card")[1]["progress"]["decided"] == 0
    assert read_corrections(sidecar) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_media_are_regular_files_of_the_folder(sidecar, tmp_path):
    folder, outside = tmp_path / "clips", tmp_path / "clips-private"
    for place in (folder, outside):
        place.mkdir()
        (place / "clip.png").write_bytes(PIXEL)
    os.mkfifo(folder / "pipe.png")
    links = {"endless": "/dev/zero", "out": outside / "clip.png", "in": folder / "clip.png"}
    for name, target in {**links, "loop": folder / "loop.png"}.items():
        (folder / f"{name}.png").symlink_to(target)
    (folder / "folder.png").mkdir()
    (folder / "secret.txt").write_text("secret")
    served = ["clip.png", "in.png", str(folder / "clip.png")]
    refused = ["pipe.png", "endless.png", "out.png", "loop.png", "folder.png", "secret.txt"]
    refused += ["../clips-private/clip.png", str(outside / "clip.png"), "a\0.png", "/dev/zero"]
    names = [*served, *refused, *["clip.png"] * 100]
    with serving(sidecar, media=ServedMedia("image", names, folder)) as (address, _):
        for i, name in enumerate([*served, *refused]):
            status = 200 if name in served else 404
            assert ask(address, f"media/{i}")[0].status == status, name
        # The last has more digits than int() accepts.
        for wrong in ("999", "-1", "../a", "clip.png", "%30", "", "0/1", "9" * 5000):
            assert ask(address, f"media/{wrong}")[0].status == 404, wrong


def test_a_half_sent_request_keeps_nobody_waiting(sidecar):
    with serving(sidecar) as (address, _):
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname, parts.port), timeout=30) as line:
            head = f"POST {parts.path}decide HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            head += f"Origin: http://{parts.netloc}\r\nContent-Length: 100\r\n\r\n"
            line.sendall(head.encode() + b'{"instance": 0')
            time.sleep(0.05)  # the thread of the half request reads its body now
            _, card = ask(address, "card")
            assert ask(address, "decide", decision(card))[0].status == 200
    assert len(read_corrections(sidecar)) == 1


class TestTwoPages:
    """A decision is about what the person saw."""

    @pytest.mark.parametrize("n_servers", [1, 2])
    def test_the_second_decision_is_refused_and_shown_the_first(self, sidecar, n_servers):
        with serving(sidecar) as (one, _), serving(sidecar) as (two, _):
            other = one if n_servers == 1 else two
            card = ask(one, "card")[1]
            first, second = (choice["label"] for choice in card["choices"][:2])
            assert ask(one, "decide", decision(card, label=first))[0].status == 200
            for label in (second, None):
                told, shown = ask(other, "decide", decision(card, label=label))
                assert told.status == 409
                assert f"decided as {first} elsewhere" in shown["error"]
                assert (shown["guess"], shown["decided"]) == (first, True)
                assert shown["instance"] == card["instance"]
                assert shown["progress"]["decided"] == 1
            assert [c.label for c in read_corrections(sidecar)] == [first]
            assert ask(other, "decide", decision(shown, label=second))[0].status == 200
            assert [c.label for c in read_corrections(sidecar)] == [second]

    def test_undo_takes_back_what_the_page_knows(self, sidecar):
        with serving(sidecar) as (address, _):
            cards = [ask(address, "card")[1]]
            for _ in range(2):
                cards.append(ask(address, "decide", decision(cards[-1]))[1])
            told, shown = ask(address, "undo", json.dumps({"last": cards[1]["last"]}))
            assert told.status == 409
            assert "another page made a later decision" in shown["error"]
            assert len(read_corrections(sidecar)) == 2
            told, shown = ask(address, "undo", json.dumps({"last": shown["last"]}))
            assert (told.status, shown["instance"]) == (200, cards[1]["instance"])
            assert len(read_corrections(sidecar)) == 1


def test_bags_that_share_a_name_are_refused():
    bags = Bags(np.eye(4), [0, 2, 4], np.array([1, "1"], dtype=object))
    model = ORedLogisticRegression().fit(bags, [{"wren"}, {"robin"}])
    message = "2 bags are called '1'"
    with pytest.raises(InputError, match=message):
        ReviewQueue(model, bags, [{"wren"}, {"robin"}])
    with pytest.raises(InputError, match=message):
        match_corrections([], bags, {})


class TestKept:
    """A decision that is acknowledged is kept; one that cannot be kept is not acknowledged."""

    @pytest.fixture
    def lost(self, sidecar):
        """Decide while something stands in the way; then once more, when it is gone."""

        @contextmanager
        def attempt():
            with serving(sidecar, patience=0.1) as (address, _):
                card = ask(address, "card")[1]
                told = []
                yield lambda: told.append(ask(address, "decide", decision(card)))
                ((answer, found),) = told
                assert answer.status == 500
                assert "NOT saved" in found["error"]
                again = ask(address, "card")[1]
                assert (again["instance"], again["progress"]["decided"]) == (card["instance"], 0)
                if sidecar.exists():
                    assert read_corrections(sidecar) == []
                    assert ask(address, "decide", decision(card))[0].status == 200
                    assert len(read_corrections(sidecar)) == 1

        return attempt

    def test_disk_full(self, lost, sidecar):
        resource = pytest.importorskip("resource")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with lost() as decide:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # no file may grow beyond
            try:
                decide()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    @pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed there")
    @pytest.mark.parametrize("how", ["removed", "replaced"])
    def test_the_file_is_gone(self, lost, sidecar, how):
        with lost() as decide:
            sidecar.rename(sidecar.with_suffix(".moved"))
            if how == "replaced":
                sidecar.write_text("")
            decide()
            sidecar.unlink(missing_ok=True)

    def test_another_process_writes(self, lost, sidecar):
        with lost() as decide, closing(sqlite3.connect(sidecar, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            decide()
            other.execute("ROLLBACK")


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
    """Pages are closed before their server ends: a browser complains about what it still loads."""

    def test_several_labels_of_an_instance_are_marked_and_saved_together(self, open_page, sidecar):
        with serving(sidecar) as (address, _), closing(open_page(address)) as page:
            page.wait_for_selector("#choices button")
            first = page.evaluate("card")
            labels = [choice["label"] for choice in first["choices"]]
            for key in ("+", "1", "2", "2", "2"):
                page.keyboard.press(key)
            pressed = page.eval_on_selector_all(
                "#choices button", "all => all.map(b => b.ariaPressed)"
            )
            assert pressed[:2] == ["true", "true"]
            assert page.inner_text("#status") == f"Marked: {labels[0]}, {labels[1]}. Enter saves."
            decide(page, "Enter")
            both = ";".join(labels[:2])
            assert [known.label for known in read_corrections(sidecar)] == [both]
            assert not page.is_checked("#several")  # the next instance has one label again
            decide(page, "1")
            second = read_corrections(sidecar)[1].label
            assert ";" not in second
            for key in ("u", "u"):
                page.keyboard.press(key)
                page.wait_for_timeout(300)
            page.check("#several")
            page.click("#choices button >> nth=1")
            page.keyboard.press("+")  # no longer: what was marked is forgotten
            decide(page, "Enter")
            assert [known.label for known in read_corrections(sidecar)] == [first["guess"]]

    def test_labels_are_confirmed_and_corrected_by_keyboard(self, open_page, sidecar):
        with serving(sidecar) as (address, _), closing(open_page(address)) as page:
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
            for focus in ("main", "#choices button >> nth=0", "#skip", "#undo"):
                page.focus(focus)
                page.keyboard.press(" ")  # never decides
            page.wait_for_timeout(100)
            assert page.evaluate("card.instance") == second["instance"]
            assert len(read_corrections(sidecar)) == 1
            page.focus("#main")
            decide(page, "Enter")
            assert len(read_corrections(sidecar)) == 2
            page.reload()
            page.wait_for_selector("#choices button")
            assert "2 of" in page.inner_text("#count")

    @pytest.mark.parametrize("kind", [None, "text"])
    def test_names_stay_text(self, open_page, sidecar, tmp_path, kind):
        bad = '"><script>document.title = "run"</script><img src=x onerror=alert(1)>'
        bags, sets, _ = recordings(ids=[f"{bad}{i}" for i in range(12)])
        bags = Bags(bags.instances, bags.offsets, bags.ids, feature_names=[bad + c for c in "abc"])
        sets = [{bad + bird for bird in names} for names in sets]
        model = ORedLogisticRegression().fit(bags, sets)
        media = kind and ServedMedia(kind, [bad] * bags.n_instances, tmp_path)
        with (
            reviewing(model, bags, sets, sidecar, media=media, title=bad) as address,
            closing(open_page(address)) as page,
        ):
            page.wait_for_selector("#choices button")
            for place in ("title", "name", "status", "choices", "neighbours"):
                assert bad in page.inner_text(f"#{place}")
            if kind is None:
                assert bad in page.inner_text("#unusual")
            assert page.title() == "bagwise review"
            assert page.query_selector("main script, main img[src=x], header script") is None

    def test_tiles_of_a_row_have_one_height(self, open_page, sidecar, tmp_path):
        bags, sets, _ = recordings()
        model = ORedLogisticRegression().fit(bags, sets)
        texts = ["short" if k % 2 else "a long text " * 9 for k in range(bags.n_instances)]
        media = ServedMedia("text", texts, tmp_path)
        with (
            reviewing(model, bags, sets, sidecar, media=media) as address,
            closing(open_page(address)) as page,
        ):
            page.wait_for_selector("#neighbours button")
            boxes = page.evaluate(
                "[...document.querySelectorAll('#neighbours button')]"
                ".map(b => b.getBoundingClientRect()).map(({ top, height }) => [top, height])"
            )
            heights = {}
            for top, height in boxes:
                heights.setdefault(top, set()).add(round(height))
            assert len(boxes) > len(heights)
            assert all(len(found) == 1 for found in heights.values())

    def test_images_are_shown(self, open_page, sidecar, tmp_path):
        (tmp_path / "a.png").write_bytes(PIXEL)
        with (
            serving(sidecar, media=ServedMedia("image", ["a.png"] * 100, tmp_path)) as (address, _),
            closing(open_page(address, color_scheme="dark")) as page,
        ):
            page.wait_for_selector("#choices button")
            until(page, "document.querySelector('#media img').naturalWidth === 1")

    @pytest.fixture
    def sounds(self, tmp_path):
        """A tone for each recording, of which each instance is a second."""
        _, bags, _, _ = fitted()
        for i in range(len(bags)):
            write_tone(tmp_path / f"r{i}.wav", 400.0 + 100 * i, seconds=6.0)
        rows = np.arange(bags.n_instances) - bags.offsets[:-1][bags.bag_index]
        names = [f"r{i}.wav" for i in bags.bag_index]
        return ServedMedia("audio", names, tmp_path, rows.astype(float), rows + 1.0)

    def test_space_plays_the_clip_and_decides_nothing(self, open_page, sidecar, sounds):
        with (
            serving(sidecar, media=sounds) as (address, _),
            closing(open_page(address)) as page,
        ):
            page.wait_for_selector("#choices button")
            until(page, "sound().duration === 1")  # the clip, not the recording
            assert page.evaluate("sound().paused")
            first = page.evaluate("card.instance")
            for focus in ("#main", "#choices button >> nth=1"):
                page.focus(focus)
                page.keyboard.press(" ")
                until(page, "sound().currentTime > 0 && !sound().paused")
                page.keyboard.press("p")
                until(page, "sound().paused")
            assert page.evaluate("card.instance") == first
            assert read_corrections(sidecar) == []
            page.focus("#main")
            page.keyboard.press("a")
            decide(page, "Enter")
            until(page, "sound().currentTime > 0")  # at once
            assert page.is_checked("#autoplay")
            if page.query_selector("#media figure") is not None:  # with matplotlib
                until(page, "document.querySelector('#media img').naturalHeight === 257")
                assert "0 to 4 kHz" in page.inner_text("#media figcaption")
            assert len(read_corrections(sidecar)) == 1

    def test_label_sets_in_doubt_are_listed_and_judged(self, open_page, sidecar):
        bags, sets, _ = recordings()
        model = ORedLogisticRegression(0.1, missing=0.2, spurious=0.2).fit(bags, sets)
        find = partial(doubted_bags, model, bags, sets)
        table = find()
        with (
            reviewing(model, bags, sets, sidecar, find_doubts=find) as address,
            closing(open_page(address)) as page,
        ):
            page.wait_for_selector("#choices button")
            page.keyboard.press("d")
            page.wait_for_selector("#doubt-list li")
            assert not page.is_visible("#card")
            text = page.inner_text("#doubt-list li >> nth=0")
            assert text.startswith(f"{table['bag'][0]}:")
            error = "may be missing" if table["error"][0] == "missing" else "may be wrong"
            assert f"{table['label'][0]} {error}" in text
            page.keyboard.press("Enter")  # decides nothing here
            page.click("#doubt-list li >> nth=0 >> button >> nth=1")
            page.wait_for_selector("#doubt-list li.judged")
            said = SetCorrection(table["bag"][0], table["label"][0], False)
            assert read_set_corrections(sidecar) == [said]
            page.click("#doubt-list li >> nth=0 >> button >> nth=1")  # takes it back
            until(page, "!document.querySelector('#doubt-list li.judged')")
            assert read_set_corrections(sidecar) == []
            page.click("#doubt-list li >> nth=1 >> button >> nth=2")
            page.wait_for_selector("#card:not([hidden])")
            assert page.evaluate("card.bag") == table["bag"][1]
            page.keyboard.press("d")
            page.wait_for_selector("#doubts:not([hidden])")
            page.click("#see-instances")
            page.wait_for_selector("#card:not([hidden])")
        assert read_corrections(sidecar) == []

    def test_a_label_that_the_bag_does_not_list(self, open_page, sidecar):
        with serving(sidecar) as (address, _), closing(open_page(address)) as page:
            page.wait_for_selector("#choices button")
            assert f"{page.evaluate('card.size')} instances" in page.inner_text("#others")
            while not page.evaluate("card.others.length"):
                decide(page, "s")
            shown = page.evaluate("card")
            assert not page.is_visible("#unlisted")
            page.keyboard.press("m")
            page.wait_for_selector("#unlisted button")
            page.keyboard.press(" ")  # never decides
            decide(page, "Enter")
            (said,) = read_corrections(sidecar)
            assert (said.bag, said.row, said.label) == (
                shown["bag"],
                shown["row"],
                shown["others"][0],
            )

    @pytest.mark.parametrize("key", ["", "d", "m", "?"])
    def test_axe_finds_no_fault(self, accessibility_faults, sidecar, key):
        def press(page):
            page.wait_for_selector("#choices button")
            if key:
                page.keyboard.press(key)
                page.wait_for_timeout(200)

        with serving(sidecar) as (address, _):
            assert accessibility_faults(address, press) == []

    def test_the_second_page_is_shown_what_the_first_decided(self, chromium, sidecar):
        # The browser itself complains about a status of 409, so these pages are not watched.
        with serving(sidecar) as (address, _), closing(chromium.new_context()) as context:
            pages = [context.new_page() for _ in range(2)]
            for page in pages:
                page.goto(address)
                page.wait_for_selector("#choices button")
            first, second = pages
            before = second.evaluate("card")
            decide(first, "1")
            second.keyboard.press("2")
            second.wait_for_selector("#alert:not([hidden])")
            label = before["choices"][0]["label"]
            assert f"decided as {label} elsewhere" in second.inner_text("#alert")
            assert second.inner_text("#choices .guess .chance") == "decided"
            assert [c.label for c in read_corrections(sidecar)] == [label]
            decide(second, "2")
            assert not second.is_visible("#alert")
            (kept,) = read_corrections(sidecar)
            assert kept.label == before["choices"][1]["label"]

    def test_it_says_when_the_server_has_ended(self, open_page, sidecar):
        with serving(sidecar) as (address, _):
            page = open_page(address, quiet=True)
            page.wait_for_selector("#choices button")
        page.keyboard.press("Enter")
        page.wait_for_selector("#alert:not([hidden])")
        assert "has stopped" in page.inner_text("#alert")


@contextmanager
def started(table, model):
    """``bagwise review`` as a process of its own, and the address of its page."""
    words = ["-m", "bagwise", "review", str(model), str(table), "--no-browser"]
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()  # else a failure would wait for it for ever


@pytest.fixture
def files(tmp_path):
    """A table and a model of it."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("skops")
    bags, sets, _ = recordings(n_bags=100)
    table = write_table(tmp_path / "birds.csv", bags, sets)
    model = tmp_path / "model.skops"
    columns = {"bag": "recording", "label_set": "species"}
    save_model(fitted(n_bags=100)[0], model, metadata={"columns": columns})
    return table, model


@pytest.mark.slow
def test_decisions_survive_kills_at_random_moments(files, sidecar):
    rng = random.Random(0)
    kept, asked = [], []
    for _ in range(8):
        with started(*files) as (process, address):
            if not address:
                raise AssertionError(process.stderr.read())
            killer = threading.Timer(rng.uniform(0.01, 0.3), process.kill)
            killer.start()
            try:
                while True:
                    card = ask(address, "card")[1]
                    if card["instance"] is None:
                        break
                    said = (card["bag"], card["row"], card["guess"])
                    asked.append(said)
                    if ask(address, "decide", decision(card))[0].status == 200:
                        kept.append(said)
            except (OSError, http.client.HTTPException, ValueError):
                pass  # killed
            killer.join()
        found = [(c.bag, c.row, c.label) for c in read_corrections(sidecar)]
        # One decision per kill may have been saved without the answer reaching anybody.
        assert set(kept) <= set(found) <= set(asked)
        assert len(found) == len({said[:2] for said in found})
    assert len(kept) > 8

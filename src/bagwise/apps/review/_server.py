"""Local web server for the page where a person confirms or corrects labels of instances.

The page is served on the loopback interface, at an address with a random token, so that other users
of the machine cannot open it. Other web sites in the same browser can neither read nor write: the
address is secret, the Host header must name this server (which prevents DNS rebinding), and
decisions must have the origin of the page. Media are requested by the number of an instance, never
by a path.
"""

import hmac
import itertools
import json
import re
import secrets
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from bagwise.apps.review._card import ServedMedia, Strips, card
from bagwise.apps.review._queue import DECIDED, ReviewQueue
from bagwise.apps.review._store import ConflictError, Corrections
from bagwise.bags import Bags
from bagwise.exceptions import InputError

HOST = "127.0.0.1"
PATIENCE = 30.0  # seconds without a byte after which a connection is closed
MOST_DOUBTS = 200  # maximum number of listed bags
LEAST_DOUBT = 0.02
_PAGES = {
    "": ("review.html", "text/html"),
    "review.css": ("review.css", "text/css"),
    "review.js": ("review.js", "text/javascript"),
}
_ACTIONS = ("decide", "move", "undo", "judge")  # methods of `Review` for the page
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _RefusedError(Exception):
    """A request that is answered with an error, and with the data that the page shows instead."""

    def __init__(self, status: HTTPStatus, reason: str, **shown: Any) -> None:
        super().__init__(reason)
        self.status, self.answer = status, {**shown, "error": reason}


@dataclass
class Review:
    """The state of a review, and the actions of its page.

    Attributes
    ----------
    queue : ReviewQueue
        The instances to review.
    corrections : Corrections
        The file of decisions.
    bags : Bags
        The bags to show, with their original features.
    media : ServedMedia, default=None
        Media to show instead of the features of an instance.
    title : str, default=""
        Title of the page, such as the name of the reviewed file.
    places : sequence of str, default=None
        The position of each instance, such as "1.5 to 4.5 s".
    autoplay : bool, default=False
        Whether to play the sound of an instance when it is shown.
    find_doubts : callable, default=None
        Returns the doubtful label sets: columns ``bag``, ``label``, ``error`` and ``doubt``.
    lock : Lock
        Serialises requests.
    """

    queue: ReviewQueue
    corrections: Corrections
    bags: Bags
    media: ServedMedia | None = None
    title: str = ""
    places: Sequence[str] | None = None
    autoplay: bool = False
    find_doubts: Callable[[], Mapping[str, Any]] | None = None
    lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._strips = Strips(self.bags)
        for bag, row in self.corrections.skipped():
            if (instance := self.queue.find(bag, row)) is not None:
                self.queue.pass_over(instance)

    def show(self, instance: int | None = None, **more: Any) -> dict[str, Any]:
        """The card of an instance, or of the next one."""
        instance = self.queue.next() if instance is None else instance
        shown: dict[str, Any] = {"instance": None}
        if instance is not None:
            shown = card(instance, self.queue, self.media, self._strips, self.places)
            # The last decision that the person has seen: see `decide`.
            shown["after"] = self.corrections.last_about(shown["bag"], shown["row"])
        decided = int((self.queue.state[self.queue.chosen] == DECIDED).sum())
        progress = {"decided": decided, "total": len(self.queue.chosen)}
        progress |= self.corrections.counts()
        about = {"title": self.title, "autoplay": self.autoplay}
        return {**shown, **about, "progress": progress, "last": self.corrections.last(), **more}

    @cached_property
    def _doubted(self) -> list[dict[str, Any]]:
        """The label sets that are most probably wrong."""
        table, queue, found = self.find_doubts() if self.find_doubts else {}, self.queue, []
        columns = (table[name].tolist() for name in ("bag", "label", "error", "doubt"))
        for bag, label, error, doubt in itertools.islice(zip(*columns, strict=True), MOST_DOUBTS):
            if doubt >= LEAST_DOUBT:
                place, name = queue.position(str(bag)), queue.name_of(label)
                row = {"bag": str(bag), "position": place, "label": name, "error": error}
                found.append(row | {"doubt": doubt, "instance": queue.likeliest(place, name)})
        return found

    def doubts(self) -> dict[str, Any]:
        """The label sets that are most probably wrong, and the decisions about them."""
        if self.find_doubts is None:
            return {"doubts": None}
        shown = []
        for row in self._doubted:
            bag, label = row["position"], row["label"]
            state = {"labels": self.queue.set_of(bag), "present": self.queue.changed(bag, label)}
            shown.append(row | state)
        return {"doubts": shown}

    def judge(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Write a decision on whether a bag has a label to the file, then update the queue."""
        row, present = self._doubted[request["row"]], request["present"]
        if present not in (True, False, None):
            raise ValueError(f"{present!r} is not a decision about a label set")
        self.corrections.decide_set(row["bag"], row["label"], present, doubt=row["doubt"])
        self.queue.change_set(row["position"], row["label"], present)
        return self.doubts()

    def decide(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Write a decision, or a skip (label null), to the file, then update the queue.

        It is refused if another page or process made a later decision than the person has seen.
        """
        instance, label, queue = self._instance(request["instance"]), request["label"], self.queue
        if label is not None and not queue.knows(str(label)):
            raise ValueError(f"{label!r} is not a label")
        place, guess = queue.written(instance), queue.guess(instance)
        sure, after = float(queue.certainty(instance)), int(request.get("after", 0))
        try:
            self.corrections.decide(*place, label, guess=guess, probability=sure, after=after)
        except ConflictError as error:
            self._read_again(instance)
            decided = f"decided as {queue.guess(instance)}"
            state = decided if queue.state[instance] == DECIDED else "undone or skipped"
            reason = f"Not saved: this instance was {state} elsewhere. Decide again to change it."
            raise _RefusedError(HTTPStatus.CONFLICT, reason, **self.show(instance)) from error
        if label is None:
            queue.pass_over(instance)
            return self.show()
        queue.decide(instance, label)
        unmet = queue.unmet(queue.place_of(instance)[0])
        note = f"Saved, but no instance of {place[0]} is left for {' or '.join(unmet)}."
        return self.show(note=note) if unmet else self.show()

    def move(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Show another instance; by default the next one."""
        if "to" in request:
            return self.show(self._instance(request["to"]))
        self.queue.pass_over(self._instance(request["instance"]))
        return self.show()

    def undo(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Undo the last decision and show its instance again."""
        try:
            last = self.corrections.undo(after=int(request.get("last", 0)))
        except ConflictError as error:
            reason = "Nothing was undone: another page made a later decision. Press u to undo that."
            raise _RefusedError(HTTPStatus.CONFLICT, reason, **self.show()) from error
        if last is None:
            return self.show(note="Nothing to undo.")
        instance = self.queue.find(*last)
        if instance is None:
            return self.show(note=f"Undone: a decision about {last[0]}.")
        self._read_again(instance)
        return self.show(instance, note="Undone.")

    def _read_again(self, instance: int) -> None:
        """Update the queue with the decision in the file."""
        standing = {(c.bag, c.row): c.label for c in self.corrections.all()}
        label = standing.get(self.queue.written(instance)[:2])
        if label is None or self.queue.knows(label):
            self.queue.decide(instance, label)

    def _instance(self, number: Any) -> int:
        if number not in range(self.bags.n_instances):
            raise ValueError(f"there is no instance {number!r}")
        return int(number)


class ReviewServer(ThreadingHTTPServer):
    """Serves the page until it is stopped, with a thread for each connection.

    Parameters
    ----------
    review : Review
        The state of the page.
    port : int, default=0
        The port; 0 for any free port.

    Attributes
    ----------
    address : str
        The address of the page, with its secret token.
    """

    daemon_threads = True

    def __init__(self, review: Review, port: int = 0) -> None:
        self.review, self.token = review, secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used ({error.strerror}): leave it out to use a free port."
            ) from error
        self.address = f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that the browser closed."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request: with a page, a file, a card, or the result of an action."""

    server: ReviewServer
    server_version, sys_version = "bagwise", ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _get(self) -> tuple[str, bytes]:
        what, review = self._what(), self.server.review
        if what in _PAGES:
            name, kind = _PAGES[what]
            page = resources.files("bagwise.apps.review") / "pages" / name
            return f"{kind}; charset=utf-8", page.read_bytes()
        if what in ("card", "doubts"):
            with review.lock:
                return _as_json(review.show() if what == "card" else review.doubts())
        where, _, instance = what.partition("/")
        media = review.media
        reads = media and {"media": media.file_of, "spectrogram": media.spectrogram_of}
        number = int(instance) if re.fullmatch(r"\d{1,18}", instance) else -1  # no such instance
        found = reads[where](number) if reads and where in reads else None
        if found is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such page")
        return found

    def _post(self) -> tuple[str, bytes]:
        what = self._what()
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            raise _RefusedError(HTTPStatus.FORBIDDEN, "the request comes from another site")
        if what not in _ACTIONS:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such action")
        # Before the lock: a slow client must not block others.
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.review.lock:
            return _as_json(getattr(self.server.review, what)(request))

    def _what(self) -> str:
        """The requested page; an error if the host or the token of the request is wrong."""
        port = self.connection.getsockname()[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "the Host header does not name this server")
        given, _, rest = self.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "the token is wrong: copy the whole address")
        return rest

    def _answer(self, make: Callable[[], tuple[str, bytes]]) -> None:
        try:
            status, (kind, body) = HTTPStatus.OK, make()
        except _RefusedError as refused:
            status, (kind, body) = refused.status, _as_json(refused.answer)
        except (ValueError, TypeError, LookupError, RecursionError) as error:  # not from our page
            status, (kind, body) = HTTPStatus.BAD_REQUEST, _as_json({"error": str(error)})
        except sqlite3.Error as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            kind, body = _as_json({"error": f"this was NOT saved: {error}"})
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), **_HEADERS}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing to the terminal."""


def _as_json(value: Mapping[str, Any]) -> tuple[str, bytes]:
    return "application/json", json.dumps(value, allow_nan=False).encode()

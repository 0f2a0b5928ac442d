"""Local web server for the page where a person confirms or corrects labels of instances.

The page is served on the loopback interface, at an address with a random token, so that other users
of the machine cannot open it. Other web sites in the same browser can neither read nor write: the
address is secret, the Host header must name this server (which prevents DNS rebinding), and
decisions must have the origin of the page. Media are requested by the number of an instance, never
by a path.
"""

import contextlib
import hmac
import json
import secrets
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.review.card import ServedMedia, Strips, card
from bagwise.review.queue import DECIDED, ReviewQueue
from bagwise.review.store import ConflictError, Corrections

HOST = "127.0.0.1"
LARGEST_REQUEST = 2**16
LONGEST_CONNECTION = 30.0  # seconds; every connection has one request
MOST_CONNECTIONS = 64
_PAGES = {
    "": ("review.html", "text/html"),
    "review.css": ("review.css", "text/css"),
    "review.js": ("review.js", "text/javascript"),
}
_ACTIONS = ("decide", "skip", "move", "undo", "judge")  # methods of `_Review` for the page
MOST_DOUBTS = 200  # maximum number of listed bags
LEAST_DOUBT = 0.02
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
class _Review:
    """The state and the actions of the page; `lock` serialises requests."""

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
        self._doubts: list[dict[str, Any]] | None = None
        if self.media is not None and len(self.media.values):
            self.media.spectrogram_of("0")  # import matplotlib now, not at the first request
        for bag, row in self.corrections.skipped():
            instance = self.queue.find(bag, row)
            if instance is not None:
                self.queue.pass_over(instance)

    def show(self, instance: int | None) -> dict[str, Any]:
        """The card of an instance, or of the next one."""
        instance = self.queue.next() if instance is None else instance
        shown: dict[str, Any] = {"instance": None}
        if instance is not None:
            shown = card(instance, self.queue, self.media, self._strips)
            shown["place"] = "" if self.places is None else self.places[instance]
            if self.places is not None and self.media is not None and self.media.kind == "audio":
                for near in shown["neighbours"]:
                    near["text"] = self.places[near["instance"]]
            bag, row, _ = self.queue.place_of(instance)
            # The last decision that the person has seen: see `_conflict`.
            shown["after"] = self.corrections.last_about(bag, row)
        counts = self.corrections.counts()
        decided = int((self.queue.state[self.queue.chosen] == DECIDED).sum())
        progress = {"decided": decided, "total": len(self.queue.chosen), **counts}
        last = self.corrections.last()
        about = {"title": self.title, "autoplay": self.autoplay}
        return {**shown, **about, "progress": progress, "last": last}

    def doubts(self) -> dict[str, Any]:
        """The label sets that are most probably wrong, and the decisions about them."""
        if self.find_doubts is None:
            return {"doubts": None}
        if self._doubts is None:
            self._doubts = self._listed(self.find_doubts())
        shown = []
        for row in self._doubts:
            bag, label = row["position"], row["label"]
            state = {"labels": self.queue.labels_of(bag), "present": self.queue.changed(bag, label)}
            shown.append(row | state)
        return {"doubts": shown}

    def _listed(self, table: Mapping[str, Any]) -> list[dict[str, Any]]:
        rows = []
        columns = [table[name].tolist() for name in ("bag", "label", "error", "doubt")]
        for bag, label, error, doubt in list(zip(*columns, strict=True))[:MOST_DOUBTS]:
            position, name = self.queue.position(str(bag)), self.queue.name_of(label)
            if position is not None and doubt >= LEAST_DOUBT:
                about = {"bag": str(bag), "position": position, "label": name, "error": error}
                about |= {"doubt": float(doubt), "instance": self.queue.likeliest(position, name)}
                rows.append(about)
        return rows

    def judge(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Save a decision on whether a bag has a label: first in the file, then in the queue."""
        place, present = request.get("row"), request.get("present")
        if type(place) is not int or not 0 <= place < len(self._doubts or ()):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"there is no doubtful label set {place!r}")
        if present not in (True, False, None) or type(present) is int:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"{present!r} is not a decision")
        row = (self._doubts or [])[place]
        self.corrections.decide_set(row["bag"], row["label"], present, doubt=row["doubt"])
        self.queue.change_set(row["position"], row["label"], present)
        return self.doubts()

    def decide(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Save a decision: first in the file, then in the queue."""
        instance, label = self._instance(request), request.get("label")
        if label not in self.queue.names:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"{label!r} is not a label")
        self._keep(instance, request, label)
        self.queue.decide(instance, label)
        unmet, bag = self.queue.unmet(instance), self.queue.place_of(instance)[0]
        if unmet:
            note = f"Saved, but no instance of {bag} is left for {' or '.join(unmet)}."
            return {**self.show(None), "note": note}
        return self.show(None)

    def skip(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Save that the person skipped the instance."""
        instance = self._instance(request)
        self._keep(instance, request, None)
        self.queue.pass_over(instance)
        return self.show(None)

    def _keep(self, instance: int, request: Mapping[str, Any], label: str | None) -> None:
        """Write a decision (None: a skip) to the file, unless there is a newer decision."""
        where = self.queue.place_of(instance)
        about: dict[str, Any] = {
            "guess": self.queue.guess(instance),
            "probability": float(self.queue.certainty(instance)),
            "after": _number(request, "after"),
        }
        try:
            if label is None:
                self.corrections.skip(*where, **about)
            else:
                self.corrections.decide(*where, label, **about)
        except ConflictError as error:
            raise self._conflict(instance) from error

    def move(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Show another instance; by default the next one."""
        if "to" in request:
            return self.show(self._instance({"instance": request["to"]}))
        self.queue.pass_over(self._instance(request))
        return self.show(None)

    def undo(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Undo the last decision and show its instance again."""
        try:
            last = self.corrections.undo(after=_number(request, "last"))
        except ConflictError as error:
            reason = "Nothing was undone: another page made a later decision. Press u to undo that."
            raise _RefusedError(HTTPStatus.CONFLICT, reason, **self.show(None)) from error
        if last is None:
            return {**self.show(None), "note": "Nothing to undo."}
        instance = self.queue.find(*last)
        if instance is None:
            return {**self.show(None), "note": f"Undone: a decision about {last[0]}."}
        self._read_again(instance)
        return {**self.show(instance), "note": "Undone."}

    def _conflict(self, instance: int) -> _RefusedError:
        """The error for a card that another page or process has decided in the meantime."""
        self._read_again(instance)
        state = "was undone or skipped"
        if self.queue.state[instance] == DECIDED:
            state = f"was decided as {self.queue.guess(instance)}"
        reason = f"Not saved: this instance {state} elsewhere. Decide again to change it."
        return _RefusedError(HTTPStatus.CONFLICT, reason, **self.show(instance))

    def _read_again(self, instance: int) -> None:
        """Update the queue with the decision in the file."""
        standing = {(c.bag, c.row): c.label for c in self.corrections.all()}
        label = standing.get(self.queue.place_of(instance)[:2])
        if label is None or label in self.queue.names:
            self.queue.decide(instance, label)

    def _instance(self, request: Mapping[str, Any]) -> int:
        instance = request.get("instance")
        if type(instance) is not int or not 0 <= instance < self.bags.n_instances:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"there is no instance {instance!r}")
        return instance


class ReviewServer(ThreadingHTTPServer):
    """Serves the page until it is stopped, with a thread for each connection.

    A browser opens connections in advance, and a broken client may never finish its request.
    Connections therefore have a time limit, and if there are too many the oldest are closed, so
    that a new request is always answered.

    Parameters
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
        Returns the doubtful label sets, as `bagwise.predictions.doubted_bags` does.
    port : int, default=0
        The port; 0 for any free port.

    Attributes
    ----------
    address : str
        The address of the page, with its secret token.
    """

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(
        self,
        queue: ReviewQueue,
        corrections: Corrections,
        bags: Bags,
        *,
        media: ServedMedia | None = None,
        title: str = "",
        places: Sequence[str] | None = None,
        autoplay: bool = False,
        find_doubts: Callable[[], Mapping[str, Any]] | None = None,
        port: int = 0,
    ) -> None:
        self.review = _Review(queue, corrections, bags, media, title, places, autoplay, find_doubts)
        self.token = secrets.token_urlsafe(24)
        self._since: dict[socket.socket, float] = {}  # start of each connection, oldest first
        self._guard = threading.Lock()
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used ({error.strerror}): leave it out to use a free port."
            ) from error
        self.address = f"http://{HOST}:{self.server_port}/{self.token}/"

    def serve(self) -> None:
        """Answer requests until `stop` is called, or the process is interrupted."""
        self.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        """End `serve`, which runs in another thread."""
        self.shutdown()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a request; close the oldest connections if there are too many."""
        with self._guard:
            self._since[request] = time.monotonic()
            too_many = list(self._since)[:-MOST_CONNECTIONS]
        _disconnect(too_many)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections that last too long; `serve_forever` calls this after every poll."""
        limit = time.monotonic() - LONGEST_CONNECTION
        with self._guard:
            late = [request for request, since in self._since.items() if since < limit]
        _disconnect(late)

    def shutdown_request(self, request: Any) -> None:
        """End a connection, and remove it from the list."""
        with self._guard:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that the browser closed."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request: with a page, a file, a card, or the result of an action."""

    server: ReviewServer
    server_version, sys_version = "bagwise", ""
    timeout = LONGEST_CONNECTION

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _get(self) -> tuple[str, bytes]:
        what = self._what()
        if what in _PAGES:
            name, kind = _PAGES[what]
            page = resources.files("bagwise.review") / "pages" / name
            return f"{kind}; charset=utf-8", page.read_bytes()
        review = self.server.review
        if what in ("card", "doubts"):
            with review.lock:
                return _as_json(review.show(None) if what == "card" else review.doubts())
        where, _, instance = what.partition("/")
        if where in ("media", "spectrogram") and review.media is not None:
            media = review.media
            found = (media.file_of if where == "media" else media.spectrogram_of)(instance)
            if found is not None:
                return found
        raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such page")

    def _post(self) -> tuple[str, bytes]:
        what = self._what()
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            raise _RefusedError(HTTPStatus.FORBIDDEN, "the request comes from another site")
        if what not in _ACTIONS:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such action")
        request = self._body()  # before the lock: a slow client must not block others
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

    def _body(self) -> Mapping[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > LARGEST_REQUEST:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request is too long")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request ended early")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request is not JSON") from error
        if not isinstance(found, dict):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request is not an object")
        return found

    def _answer(self, make: Callable[[], tuple[str, bytes]]) -> None:
        try:
            status, (kind, body) = HTTPStatus.OK, make()
        except _RefusedError as refused:
            status, (kind, body) = refused.status, _as_json(refused.answer)
        except sqlite3.Error as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            kind, body = _as_json({"error": f"this was NOT saved: {error}"})
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing to the terminal."""


def _number(request: Mapping[str, Any], name: str) -> int:
    """The number of a decision in a request; 0 if there is none."""
    found = request.get(name, 0)
    return found if type(found) is int else 0


def _disconnect(connections: Iterable[socket.socket]) -> None:
    """Shut connections down; the thread of each one then closes it."""
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _as_json(value: Mapping[str, Any]) -> tuple[str, bytes]:
    return "application/json", json.dumps(value, allow_nan=False).encode()

"""The server of the page: read-only, of this machine unless told otherwise, and without any file of the disk.

It knows three addresses: / is the page, /status.json how the sweep stands, /curves.json?subject=NAME the curves of an
environment or task. It answers GET and HEAD. A page of another site may point a name of its own to this machine and
ask here under that name; so a server that listens on the machine's own address answers to the machine's own names only.

Looks at the store are shared: however many pages are open, it is looked at once a second at most.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from svrl.sweeps.live_page.curves import Read, curves_of
from svrl.sweeps.live_page.document import document
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.status import Overview, look
from svrl.sweeps.store import Store

REST = 1.0
"""Seconds between two looks at the store."""
_SMALL = 1400
"""Bytes that fit into one packet anyway."""
_OWN_NAMES = ("localhost", "127.0.0.1", "::1")
_JSON, _HTML, _TEXT = "application/json", "text/html; charset=utf-8", "text/plain; charset=utf-8"


@dataclass(frozen=True, kw_only=True)
class LivePage:
    """A page that is being served, until it is closed or its block ends.

    Attributes:
        address: What to open in a browser.
    """

    address: str
    server: _Server
    thread: threading.Thread

    def close(self) -> None:
        """Stop serving, also those who keep a connection open."""
        self.server.shutdown()
        self.server.server_close()
        self.server.hang_up()
        self.thread.join()

    def __enter__(self) -> LivePage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(
    store: Store,
    name: str,
    port: int = 0,
    host: str = "127.0.0.1",
    *,
    runs: Sequence[str] | Sequence[RunSpec] | None = None,
) -> LivePage:
    """Serve the page of a sweep, in a thread of its own.

    Args:
        store: Where the sweep is.
        name: Of the sweep.
        port: 0 takes any that is free.
        host: The address to listen on; other machines see the page if it is not one of this machine's own.
        runs: Those to show, or their ids; by default those that the store has for the sweep.

    Raises:
        ValueError: If there is no such sweep, or if the address cannot be listened on.
    """
    watched = _Watched(store, name, runs)
    watched.overview()
    try:
        server = _Server(host, port, watched, *document(name))
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"The page cannot listen on {host} port {port}: {said}. Give another --port.") from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True, name="live page")
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    return LivePage(address=f"http://{shown}:{server.server_address[1]}/", server=server, thread=thread)


class _Watched:
    """A sweep that is looked at again when somebody asks and the last look is old."""

    def __init__(self, store: Store, name: str, runs: Sequence[str] | Sequence[RunSpec] | None) -> None:
        self._store, self._name = store, name
        self._asked = name if runs is None else runs
        self._one_at_a_time = threading.Lock()
        self._last: Overview | None = None
        self._looked = 0.0
        self._read: Read = {}

    def overview(self) -> Overview:
        with self._one_at_a_time:
            if self._last is None or time.monotonic() - self._looked >= REST:
                self._last = replace(look(self._store, self._asked, before=self._last), name=self._name)
                self._looked = time.monotonic()
            return self._last

    def status(self) -> dict[str, Any]:
        # Without the time, equal looks are equal texts, and a browser that has one is told so.
        return {name: value for name, value in self.overview().as_json().items() if name != "time"}

    def curves(self, subject: str) -> dict[str, Any] | None:
        overview = self.overview()
        with self._one_at_a_time:
            return curves_of(self._store, overview, subject, self._read)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, watched: _Watched, page: str, policy: str) -> None:
        self.watched, self.page, self.policy = watched, page, policy
        self.own_names_only = _is_own(host)
        self._callers: set[socket.socket] = set()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        caller, address = super().get_request()
        self._callers.add(caller)
        return caller, address

    def shutdown_request(self, request: Any) -> None:
        self._callers.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End all connections; their threads end by that."""
        for caller in list(self._callers):
            with suppress(OSError):
                caller.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is nothing to tell of."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "svrl", ""
    timeout = 60

    def do_GET(self) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # what came with the request is not read
        if self.server.own_names_only and not _is_own(_name_in(self.headers.get("Host", ""))):
            self._say(HTTPStatus.FORBIDDEN, "This page answers to localhost only.")
            return
        asked = urlsplit(self.path)
        try:
            found = self._found(asked.path, parse_qs(asked.query))
        except (OSError, ValueError):
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "The store cannot be read at the moment.")
            return
        if found is None:
            self._say(HTTPStatus.NOT_FOUND, "There is nothing here.")
        else:
            self._answer(*found)

    def do_HEAD(self) -> None:
        self.do_GET()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _found(self, path: str, query: dict[str, list[str]]) -> tuple[str, str] | None:
        """The text at a path, and what it is."""
        if path == "/":
            return self.server.page, _HTML
        if path == "/status.json":
            return _text_of(self.server.watched.status()), _JSON
        if path == "/curves.json":
            curves = self.server.watched.curves(query.get("subject", [""])[0])
            return None if curves is None else (_text_of(curves), _JSON)
        return None

    def _refuse(self) -> None:
        self.close_connection = True
        self._say(HTTPStatus.METHOD_NOT_ALLOWED, "This page can only be read.", Allow="GET, HEAD", Connection="close")

    def _say(self, status: HTTPStatus, sentence: str, **headers: str) -> None:
        self._answer(f"{sentence}\n", _TEXT, status=status, headers=headers)

    def _answer(
        self, text: str, kind: str, *, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
    ) -> None:
        body = text.encode()
        mark = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if status == HTTPStatus.OK and self.headers.get("If-None-Match") == mark:
            status, body = HTTPStatus.NOT_MODIFIED, b""
        more = dict(headers or {})
        if len(body) > _SMALL and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, compresslevel=1, mtime=0)
            more["Content-Encoding"] = "gzip"
        self.send_response(status)
        for header, value in {**_always(self.server.policy), "ETag": mark, **more}.items():
            self.send_header(header, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the terminal shows the sweep."""


def _always(policy: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
        "Vary": "Accept-Encoding",
    }


def _text_of(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _name_in(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_own(host: str) -> bool:
    """Whether only this machine itself is reached under that name."""
    if host in _OWN_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

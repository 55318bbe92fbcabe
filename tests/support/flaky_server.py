"""A way to a real service that misbehaves as it is told to, for clients that have to cope with it."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple

import httpx

SLOW = 2.0  # seconds
LEFT_OUT = ("host", "connection", "transfer-encoding", "content-encoding")


class Arrived(NamedTuple):
    """A request that got here."""

    at: float
    method: str
    path: str
    body: bytes
    fate: str


class Trouble(ThreadingHTTPServer):
    """Hands requests on to a service. Those with a fate don't go well.

    Fates: "lost" (the connection breaks before the service hears of it), "unanswered" (after it has done it), "cut"
    (in the middle of the answer), "slow" (the answer comes too late), "unkept" (the second line of the answer says that
    it could not be kept), "busy" (503), "rate" (429), "proxy" (502, in HTML); the latter three don't reach the service.
    """

    daemon_threads = True

    def __init__(self, service: str, fates: Iterable[str] = (), port: int = 0, retry_after: str = "0") -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.service, self.fates, self.retry_after = service, deque(fates), retry_after
        self.arrived: list[Arrived] = []
        self.upstream = httpx.Client(base_url=service, trust_env=False, timeout=120)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that went away are part of the plan."""


class _Handler(BaseHTTPRequestHandler):
    server: Trouble
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fate = self.server.fates.popleft() if self.server.fates else "well"
        self.server.arrived.append(Arrived(time.monotonic(), self.command, self.path, body, fate))
        if fate in ("busy", "rate", "proxy"):
            self._refuse(fate)
        elif fate == "lost":
            self._break()
        else:
            self._hand_on(body, fate)

    do_GET = do_POST = do_DELETE = _pass_on  # noqa: N815  (names that the base class looks for)

    def _hand_on(self, body: bytes, fate: str) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in LEFT_OUT}
        request = self.server.upstream.build_request(self.command, self.path, content=body, headers=headers)
        response = self.server.upstream.send(request, stream=True)
        try:
            if "event-stream" in response.headers["content-type"]:
                self._stream(response, fate)
                return
            content = response.read()
        finally:
            response.close()
        if fate == "slow":
            time.sleep(SLOW)
        if fate == "unanswered":
            self._break()
            return
        if fate == "unkept":
            first, _, *rest = content.splitlines()
            unkept = b'{"error":{"status":503,"code":"unavailable","message":"the disk is full"}}'
            content = b"\n".join([first, unkept, *rest])
        self._head(response, str(len(content)))
        self.wfile.write(content[: len(content) // 2] if fate == "cut" else content)
        if fate == "cut":
            self._break()

    def _stream(self, response: httpx.Response, fate: str) -> None:
        """Hand a feed on; "cut" lets one event through."""
        self._head(response, None)
        for line in response.iter_lines():
            self.wfile.write(line.encode() + b"\n")
            self.wfile.flush()
            if fate == "cut" and line.startswith("data:"):
                self.wfile.write(b"\n")
                self._break()
                return

    def _head(self, response: httpx.Response, length: str | None) -> None:
        self.send_response(response.status_code)
        for name, value in response.headers.items():
            if name.lower() not in (*LEFT_OUT, "content-length"):
                self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", length)
        self.end_headers()

    def _refuse(self, fate: str) -> None:
        status = {"busy": 503, "rate": 429, "proxy": 502}[fate]
        error = json.dumps({"error": {"status": status, "code": fate, "message": "come back later"}}).encode()
        content = b"<html>Bad gateway</html>" if fate == "proxy" else error
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if fate != "proxy":
            self.send_header("Retry-After", self.server.retry_after)
        self.end_headers()
        self.wfile.write(content)

    def _break(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


@contextmanager
def trouble(service: str, *fates: str, port: int = 0, retry_after: str = "0") -> Iterator[Trouble]:
    """A running server; the first requests have these fates, the others go well."""
    server = Trouble(service, fates, port, retry_after)
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.upstream.close()

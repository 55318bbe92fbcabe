"""A proxy in front of a running service that injects faults, for tests of clients' retries."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

import httpx
from polling import TIMEOUT_SECONDS

STATUSES = {"busy": 503, "rate": 429, "bug": 500, "proxy": 502}
DRIP_SECONDS = 0.1  # between two bytes: a response takes half a minute
LEFT_OUT = ("host", "connection", "transfer-encoding", "content-encoding")


class ReceivedRequest(NamedTuple):
    """A request that reached the proxy."""

    at: float
    method: str
    path: str
    body: bytes
    fault: str


class FlakyServer(ThreadingHTTPServer):
    """Forwards requests to a service, and injects one fault into each of the first ones.

    Faults: "lost" (the connection breaks before the service gets the request), "unanswered" (after it has executed
    it), "cut" (in the middle of the response), "slow" (no response before the client gives up), "drip" (the response
    comes byte by byte), "drip-body" (only its body does), "unkept" (the second line of the response reports a failed
    commit), "busy" (503), "rate" (429), "bug" (500), "proxy" (502, in HTML). The latter four don't reach the service.
    Reports of default decisions, which clients send in the background, have no fault and are listed apart.
    """

    daemon_threads = True
    request_queue_size = 128  # connections that are not accepted yet

    def __init__(self, service: str, faults: Iterable[str] = (), port: int = 0, retry_after: str = "0") -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.service, self.faults, self.retry_after = service, deque(faults), retry_after
        self.received: list[ReceivedRequest] = []
        self.reports: list[ReceivedRequest] = []
        self.connections = 0  # accepted
        self.upstream = httpx.Client(base_url=service, trust_env=False, timeout=120)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted = super().get_request()
        self.connections += 1
        return accepted

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    server: FlakyServer
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_report = self.path.endswith("/discard")
        fault = self.server.faults.popleft() if self.server.faults and not is_report else "none"
        received = ReceivedRequest(time.monotonic(), self.command, self.path, body, fault)
        (self.server.reports if is_report else self.server.received).append(received)
        if fault in STATUSES:
            self._refuse(fault)
        elif fault == "lost":
            self._close_connection()
        else:
            self._forward(body, fault)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815  (names that the base class looks for)

    def _forward(self, body: bytes, fault: str) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in LEFT_OUT}
        request = self.server.upstream.build_request(self.command, self.path, content=body, headers=headers)
        response = self.server.upstream.send(request, stream=True)
        try:
            if "event-stream" in response.headers.get("content-type", ""):
                self._stream(response, fault)
                return
            content = response.read()
        finally:
            response.close()
        if fault == "slow":
            self.connection.settimeout(TIMEOUT_SECONDS)
            self.rfile.read(1)  # until the client closes the connection
            return
        if fault == "unanswered":
            self._close_connection()
            return
        if fault == "unkept":
            first, _, *rest = content.splitlines()
            unkept = b'{"error":{"status":503,"code":"unavailable","message":"the disk is full"}}'
            content = b"\n".join([first, unkept, *rest])
        if fault == "drip":
            self._drip(f"HTTP/1.1 {response.status_code} OK\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        else:
            self._head(response, str(len(content)))
        if fault in ("drip", "drip-body"):
            self._drip(content)
            return
        self.wfile.write(content[: len(content) // 2] if fault == "cut" else content)
        if fault == "cut":
            self._close_connection()

    def _stream(self, response: httpx.Response, fault: str) -> None:
        """Hand a feed on; "cut" lets one event through."""
        self._head(response, None)
        for line in response.iter_lines():
            self.wfile.write(line.encode() + b"\n")
            self.wfile.flush()
            if fault == "cut" and line.startswith("data:"):
                self.wfile.write(b"\n")
                self._close_connection()
                return

    def _drip(self, content: bytes) -> None:
        for place in range(len(content)):
            self.wfile.write(content[place : place + 1])
            time.sleep(DRIP_SECONDS)

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

    def _refuse(self, fault: str) -> None:
        status = STATUSES[fault]
        error = json.dumps({"error": {"status": status, "code": fault, "message": "come back later"}}).encode()
        content = b"<html>Bad gateway</html>" if fault == "proxy" else error
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if fault != "proxy":
            self.send_header("Retry-After", self.server.retry_after)
        self.end_headers()
        self.wfile.write(content)

    def _close_connection(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@contextmanager
def run_flaky_server(service: str, *faults: str, port: int = 0, retry_after: str = "0") -> Iterator[FlakyServer]:
    """A running proxy; the first requests have these faults, the others none."""
    server = FlakyServer(service, faults, port, retry_after)
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.upstream.close()

"""A web server for one page on the loopback address, for those who know the token in its address.

It reads no file on behalf of a request: a request chooses between the page and its latest state,
and anything else is refused. So no path leads to another file.
"""

import gzip
import hmac
import io
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..errors import UserError

HERE = "127.0.0.1"
OWN_HOSTS = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)
"""The names in a browser's address; a tunnel may have any port at its other end."""
LARGEST_HEAD = 16_384  # bytes of a request
PATIENCE = 5  # seconds for a whole request to arrive
STALL = 15  # seconds that a browser may take none of an answer
HOLD = 20  # seconds that a request waits for a new state
MOST_REQUESTS = 400  # at a time; each waits in a thread
BLOCK = 1 << 16  # bytes that are sent at a time
SAFETY = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers of every answer."""


class Published:
    """The latest state of the page; requests wait here for the next one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._version = 0
        self._content = b""

    def publish(self, content: bytes) -> None:
        """Take a new state, compressed, and wake up all requests that wait for it."""
        with self._changed:
            self._version += 1
            self._content = content
            self._changed.notify_all()

    @property
    def next_version(self) -> int:
        """The number that the next state will have."""
        return self._version + 1

    def wait(self, have: int, seconds: float) -> bytes | None:
        """Return the latest state once its number is not `have`; None if that takes too long."""
        with self._changed:
            new = self._changed.wait_for(lambda: self._version not in (0, have), seconds)
            return self._content if new else None


class Server(ThreadingHTTPServer):
    """The server; `page` is the compressed HTML, `policy` its Content-Security-Policy."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    allow_reuse_port = False

    def __init__(self, port: int, page: bytes, policy: str) -> None:
        self.page, self.policy = page, policy
        self.token = secrets.token_urlsafe(24)
        self.state = Published()
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        try:
            super().__init__((HERE, port), Handler)
        except OSError as error:
            raise UserError(
                f"cannot listen at port {port} of {HERE}: {error.strerror}; give another --port, "
                f"or none to get one that is free"
            ) from None

    @property
    def port(self) -> int:
        """The port that the server listens at."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HERE}:{self.port}/{self.token}/"

    @property
    def is_idle(self) -> bool:
        """True while no request is being answered."""
        # the counter of a semaphore has no public name
        return self._free._value == MOST_REQUESTS

    @contextmanager
    def running(self) -> Iterator[None]:
        """Answer requests in threads while the context is open."""
        thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread of its own; drop it where there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no further thread can be started
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request, and make room for the next one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_bind(self) -> None:
        """Bind without asking for the name of this host, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HERE, self.port

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a browser that goes away; it is no concern of the run's."""


class TooLarge(Exception):
    """A request with more bytes than any browser sends."""


class Handler(BaseHTTPRequestHandler):
    """One request, read as a whole within a time limit before anything looks at it."""

    server: Server
    timeout = STALL
    default_request_version = "HTTP/1.0"

    def handle(self) -> None:
        """Read the request and answer it."""
        self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
        self.close_connection = True
        try:
            head = self._receive_head()
        except TooLarge:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            self._drain()
            return
        except TimeoutError:
            self.send_error(HTTPStatus.REQUEST_TIMEOUT)
            return
        self.rfile = io.BufferedReader(io.BytesIO(head))
        self.raw_requestline = self.rfile.readline()
        if self.raw_requestline and self.parse_request():
            self._answer()
            self._drain()

    def _receive_head(self) -> bytes:
        """Return the request up to the empty line that ends its headers."""
        end = time.monotonic() + PATIENCE
        head = b""
        while b"\r\n\r\n" not in head and b"\n\n" not in head:
            self.connection.settimeout(max(0.001, end - time.monotonic()))
            if not (block := self.connection.recv(4096)):
                break
            head += block
            if len(head) > LARGEST_HEAD:
                raise TooLarge
            if time.monotonic() > end:
                raise TimeoutError
        self.connection.settimeout(STALL)
        return head

    def _drain(self) -> None:
        """Read the rest of what the browser sends, for a moment.

        To close with bytes unread would reset the connection, and the answer might be lost.
        """
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            end = time.monotonic() + 1
            while (left := end - time.monotonic()) > 0:
                self.connection.settimeout(left)
                if not self.connection.recv(BLOCK):
                    return

    def _answer(self) -> None:
        """Answer a request for the page or its state; refuse all others."""
        hosts = self.headers.get_all("Host") or [""]
        path, _, query = self.path.partition("?")
        words = path.split("/", 2)  # "", the token, the rest
        token = words[1] if len(words) > 1 and not words[0] else ""
        if self.request_version == "HTTP/0.9":  # its answers have no headers
            self.request_version = "HTTP/1.0"
            self.send_error(HTTPStatus.BAD_REQUEST)
        elif len(hosts) != 1 or not OWN_HOSTS.fullmatch(hosts[0].strip()):
            self.send_error(HTTPStatus.FORBIDDEN)  # another name may lead a browser here
        elif not hmac.compare_digest(token.encode(errors="replace"), self.server.token.encode()):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.command != "GET":
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        elif len(words) == 2:
            self._send(HTTPStatus.PERMANENT_REDIRECT, b"", {"Location": f"/{token}/"})
        elif words[2] == "":
            self._send_compressed(self.server.page, "text/html")
        elif words[2] == "data":
            self._send_state(query)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send_state(self, query: str) -> None:
        """Send the state once it differs from the one that the browser has."""
        have = re.fullmatch(r"have=(\d{1,12})", query, re.ASCII)
        content = self.server.state.wait(int(have[1]) if have else 0, HOLD)
        if content is None:
            self._send(HTTPStatus.NO_CONTENT, b"")
        else:
            self._send_compressed(content, "application/json")

    def _send_compressed(self, content: bytes, kind: str) -> None:
        headers = {"Content-Type": f"{kind}; charset=utf-8"}
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
        else:
            content = gzip.decompress(content)
        self._send(HTTPStatus.OK, content, headers)

    def _send(self, code: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        policy = f"{self.server.policy}; frame-ancestors 'none'"
        safety = {**SAFETY, "Content-Security-Policy": policy}
        for name, value in {**safety, **(headers or {})}.items():
            self.send_header(name, value)
        if code != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            view = memoryview(content)
            for start in range(0, len(view), BLOCK):  # each block has the time limit
                self.wfile.write(view[start : start + BLOCK])

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request in one line that repeats nothing of it."""
        allow = {"Allow": "GET"} if code == HTTPStatus.METHOD_NOT_ALLOWED else {}
        kind = {"Content-Type": "text/plain; charset=utf-8"}
        self._send(code, f"{code} {HTTPStatus(code).phrase}\n".encode(), {**kind, **allow})

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "mpi-gt"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal shows the address."""

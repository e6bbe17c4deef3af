"""The server of `mpi-gt watch --web`: what it answers, what it refuses, and who cannot stop it."""

import gzip
import socket
import threading
import time
from contextlib import suppress

import pytest

from mpi_gt.errors import UserError
from mpi_gt.report import server as module
from mpi_gt.report.server import HERE, Published, Server

PAGE = b"<!doctype html><p>the page</p>" + b" " * 200_000


@pytest.fixture(scope="module")
def server():
    server = Server(0, gzip.compress(PAGE), "default-src 'none'")
    with server.running():
        yield server


def talk(server, request: bytes, limit=10) -> bytes:
    """Send raw bytes and return all that comes back."""
    with socket.create_connection((HERE, server.port), timeout=limit) as connection:
        connection.sendall(request)
        return receive(connection)


def receive(connection) -> bytes:
    answer = b""
    while block := connection.recv(1 << 16):
        answer += block
    return answer


def ask(server, path="", method="GET", host="127.0.0.1:1234", more="") -> tuple[int, str, bytes]:
    """Return the code, the headers and the content of the answer."""
    path = path if path.startswith("http") else f"/{server.token}/{path}"
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"
    headers, _, content = talk(server, head.encode("latin-1")).partition(b"\r\n\r\n")
    return int(headers.split()[1]), headers.decode(), content


def test_the_page_comes_with_headers_that_keep_it_private(server):
    code, headers, content = ask(server)
    assert (code, content) == (200, PAGE)
    for header in (
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Referrer-Policy: no-referrer",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
        "Content-Type: text/html; charset=utf-8",
    ):
        assert header in headers
    assert "Python" not in headers
    assert "Access-Control" not in headers
    code, headers, content = ask(server, more="Accept-Encoding: br, gzip\r\n")
    assert "Content-Encoding: gzip" in headers
    assert gzip.decompress(content) == PAGE


@pytest.mark.parametrize(
    "host", ["localhost:9", "127.0.0.1", "LOCALHOST:65535", "[::1]:8000", "localhost"]
)
def test_the_other_end_of_a_tunnel_may_have_any_port(server, host):
    assert ask(server, host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "127.0.0.2",
     "localhost:80@evil.example", "localhost:", "0.0.0.0", "127.0.0.1:80, evil.example"],
)  # fmt: skip
def test_other_names_are_refused(server, host):
    code, headers, content = ask(server, host=host)
    assert (code, content) == (403, b"403 Forbidden\n")
    assert "no-store" in headers


def test_one_name_is_needed_and_no_more(server):
    assert ask(server, more="Host: localhost\r\n")[0] == 403
    answer = talk(server, f"GET /{server.token}/ HTTP/1.0\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 403")


@pytest.mark.parametrize(
    "path", ["/", "", "/x/", "/TOKEN", "//", "/./TOKEN/", "/../TOKEN/", "TOKEN/", "*", "/?TOKEN/",
             "/%00/", "/\xe9/", "http://evil.example/TOKEN/", "http://127.0.0.1/TOKEN/data"],
)  # fmt: skip
def test_without_the_token_nothing_is_told(server, path):
    """Also an address that holds the token elsewhere than in its first part."""
    wrong = server.token[:-1]
    path = path.replace("TOKEN", wrong if path == "/TOKEN" else server.token)
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("latin-1")
    answer = talk(server, request)
    assert answer.split()[1] in (b"400", b"403")
    assert b"the page" not in answer
    assert server.token.encode() not in answer


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "..%2f..%2fetc/passwd", "run.json", "metrics.csv", "data/", "./",
             "%2e%2e/run.json", "..\\..\\x", "/etc/passwd", "data%00", "x" * 5000],
)  # fmt: skip
def test_no_path_leads_to_a_file(server, path):
    code, _, content = ask(server, path)
    assert (code, content) == (404, b"404 Not Found\n")


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "GETT"])
def test_it_can_only_be_read(server, method):
    code, headers, content = ask(server, method=method, more="Content-Length: 3\r\n")
    assert code == 405
    assert "Allow: GET" in headers
    assert b"the page" not in content
    assert (content == b"") == (method == "HEAD")


def test_the_address_without_its_last_stroke_leads_to_the_page(server):
    answer = talk(server, f"GET /{server.token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 308")
    assert f"Location: /{server.token}/\r\n".encode() in answer


@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"\r\n\r\n", b"GET /\r\n\r\n",
                 b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/0.9\r\nHost: localhost\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 150 + b"\r\n"],
)  # fmt: skip
def test_nonsense_ends_nothing(server, request_, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    assert b" 200 " not in talk(server, request_)
    assert ask(server)[0] == 200


def test_a_huge_request_is_refused(server):
    assert ask(server, more=f"Cookie: {'x' * 100_000}\r\n")[0] == 431
    assert ask(server, "y" * 1_000_000)[0] == 431
    body = b"z" * 300_000
    head = f"POST /{server.token}/ HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    assert talk(server, head + body).split()[1] in (b"405", b"431")


def test_slow_clients_do_not_hold_up_others(server, monkeypatch):
    """Some send nothing, one sends a letter at a time, and some do not read their answer."""
    monkeypatch.setattr(module, "PATIENCE", 1.5)
    silent = [socket.create_connection((HERE, server.port)) for _ in range(60)]
    deaf = [socket.create_connection((HERE, server.port)) for _ in range(20)]
    for connection in deaf:
        connection.sendall(f"GET /{server.token}/ HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    start = time.monotonic()
    assert ask(server)[0] == 200
    assert time.monotonic() - start < 1
    slow = socket.create_connection((HERE, server.port), timeout=10)
    start = time.monotonic()
    with suppress(OSError):  # it is cut off, however long it goes on
        while time.monotonic() - start < 8:
            slow.sendall(b"G")
            time.sleep(0.1)
    assert time.monotonic() - start < 6
    for connection in [*silent, *deaf, slow]:
        connection.close()


def test_too_many_at_a_time_are_dropped_and_then_served(monkeypatch):
    monkeypatch.setattr(module, "MOST_REQUESTS", 3)
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    server = Server(0, gzip.compress(PAGE), "")
    with server.running():
        silent = [socket.create_connection((HERE, server.port)) for _ in range(3)]
        end = time.monotonic() + 10
        while ask_safely(server) != 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        for connection in silent:
            connection.close()


def ask_safely(server) -> int:
    try:
        return ask(server)[0]
    except (OSError, IndexError):
        return 0


def test_a_request_waits_for_a_new_state(server, monkeypatch):
    server.state = Published()
    monkeypatch.setattr(module, "HOLD", 0.2)
    assert ask(server, "data?have=0")[0] == 204  # nothing is published yet
    server.state.publish(gzip.compress(b"one"))
    assert ask(server, "data")[2] == b"one"
    assert ask(server, "data?have=0")[2] == b"one"
    assert ask(server, "data?have=77")[2] == b"one"
    assert ask(server, "data?have=x")[2] == b"one"
    assert ask(server, "data?have=1")[0] == 204
    monkeypatch.setattr(module, "HOLD", 20)
    threading.Timer(0.2, server.state.publish, [gzip.compress(b"two")]).start()
    start = time.monotonic()
    code, headers, content = ask(server, "data?have=1")
    assert (code, content) == (200, b"two")
    assert "application/json" in headers
    assert time.monotonic() - start < 5


def test_it_listens_at_the_loopback_address_only(server):
    assert server.server_address[0] == HERE
    with pytest.raises(UserError, match="cannot listen at port"):
        Server(server.port, b"", "")


def test_addresses_differ():
    tokens = set()
    for _ in range(3):
        server = Server(0, b"", "")
        tokens.add(server.token)
        server.server_close()
    assert len(tokens) == 3
    assert min(map(len, tokens)) >= 32

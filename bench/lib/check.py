"""Checks before a measurement that a peer sends the response that the row measures."""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass
from typing import IO, Any

from .peers import PAGE, CannotRun, Running
from .receiver import MESSAGE_PATH, Receiver

JSON_BODY = b'{"status":"OK"}'
WAITED_BODY = b"OK\n"
FILE_BYTES = 108_000
FILE_CHARACTERS = bytes(range(65, 123))
"""Characters of the text that the script of seed 002 generates."""
CONSTANT_PATH = "/constant"
TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Captured:
    """A received response, stored with the run's raw data."""

    status: int
    head: str
    body_bytes: int


def check(running: Running, service: str) -> dict[str, Captured]:
    """Checks every response of the service. Raises CannotRun with the first error."""
    try:
        if service in ("json", "cores"):
            return {service: _check_json(running.port, running.service.keep_alive)}
        if service in ("waits", "pauses"):
            return {service: _check_get(running.port, running.service.path, WAITED_BODY)}
        if service == "script":
            return _check_script(running)
        answers = {"page": _check_page(running.port)}
        if running.service.message:
            answers["message"] = _check_message(running)
        return answers
    except (OSError, http.client.HTTPException) as error:
        raise CannotRun(f"wrong answer: {type(error).__name__}: {error}") from error


def _check_json(port: int, keep_alive: bool) -> Captured:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    # Two requests on one connection prove keep-alive, without which the row would measure connecting.
    connection.request("GET", "/?n=1")
    _expect(connection.getresponse(), 200, JSON_BODY, "application/json")
    kept = connection.sock
    connection.request("GET", "/")
    answer = _expect(connection.getresponse(), 200, JSON_BODY, "application/json")
    if keep_alive and (connection.sock is None or connection.sock is not kept):
        raise CannotRun("the connection is not kept alive")
    connection.close()
    return answer


def check_pipelining(port: int, requests: int) -> None:
    """Checks that `requests` requests in one write receive as many correct responses on one connection. Raises CannotRun."""
    request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as client:
            client.sendall(request * requests)
            stream = client.makefile("rb")
            for number in range(requests):
                response = http.client.HTTPResponse(_Unclosed(stream))  # type: ignore[arg-type]
                response.begin()
                _expect(response, 200, JSON_BODY, "application/json")
                if response.will_close and number + 1 < requests:
                    raise CannotRun("it closes the connection before all pipelined requests are answered")
    except (OSError, http.client.HTTPException) as error:
        raise CannotRun(f"not all of {requests} pipelined requests are answered: {type(error).__name__}") from error


class _Unclosed:
    """A stand-in for a socket that lets HTTPResponse read several responses from one stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def makefile(self, _mode: str) -> _Unclosed:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def close(self) -> None:
        """Does nothing: the next response is read from the same stream."""


def _check_script(running: Running) -> dict[str, Captured]:
    """Checks that each response contains the text that was just written, and that the texts differ."""
    running.peer.clear_scratch()
    constant = _check_get(running.port, CONSTANT_PATH, b"x" * FILE_BYTES)
    texts = set()
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=TIMEOUT_SECONDS)
        connection.request("GET", running.service.path)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        if len(body) != FILE_BYTES or body.translate(None, FILE_CHARACTERS):
            raise CannotRun(f"wrong answer: {len(body)} bytes, {body[:60]!r}")
        texts.add(body)
    if len(texts) != 2:
        raise CannotRun("wrong answer: the same text twice")
    written = sum(1 for _ in running.peer.scratch.glob("*.txt"))
    if written != 3:
        raise CannotRun(f"3 requests have left {written} files in {running.peer.scratch}")
    return {"constant": constant, "script": Captured(response.status, str(response.headers).strip(), len(body))}


def _check_get(port: int, path: str, body: bytes) -> Captured:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    connection.request("GET", path)
    answer = _expect(connection.getresponse(), 200, body, None)
    connection.close()
    return answer


def _check_page(port: int) -> Captured:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    connection.request("GET", "/")
    answer = _expect(connection.getresponse(), 200, PAGE.read_bytes(), "text/html")
    connection.close()
    return answer


def _check_message(running: Running) -> Captured:
    with Receiver(running.port, []) as receiver:
        for _ in range(3):
            answer = _send_message(running)
        if (arrived := receiver.wait_for(3, 2.0)) != 3:
            raise CannotRun(f"{arrived} of 3 messages arrived at the receiver")
    return answer


def _send_message(running: Running) -> Captured:
    if running.service.message == "answered":
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=TIMEOUT_SECONDS)
        connection.request("GET", MESSAGE_PATH)
        response = connection.getresponse()
        answer = _expect(response, 202, b"", None)
        connection.close()
        return answer
    with socket.create_connection(("127.0.0.1", running.port), timeout=TIMEOUT_SECONDS) as client:
        client.sendall(f"GET {MESSAGE_PATH} HTTP/1.0\r\n\r\n".encode())
        if answer_bytes := client.recv(4096):
            raise CannotRun(f"expected no answer to a message, got {answer_bytes[:60]!r}")
    return Captured(0, "", 0)


def _expect(response: http.client.HTTPResponse, status: int, body: bytes, content_type: str | None) -> Captured:
    got = response.read()
    head = f"HTTP/1.{response.version - 10} {response.status} {response.reason}\n{response.headers}".strip()
    if response.status != status:
        raise CannotRun(f"wrong answer: status {response.status}, expected {status}")
    if got != body:
        raise CannotRun(f"wrong answer: body {got[:60]!r}, expected {body[:60]!r}")
    if content_type and not (response.getheader("content-type") or "").startswith(content_type):
        raise CannotRun(f"wrong answer: content type {response.getheader('content-type')!r}")
    return Captured(response.status, head, len(got))

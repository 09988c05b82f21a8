"""The registry of `penstock sql`: which one nobody has named, and what its silence ends in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.cli.commands.sql.app import is_registry
from penstock.cli.commands.sql.statements import explained
from penstock.cli.errors import ExitCode
from penstock.client.registry import RegistryAnswerError, RegistryUnreachableError
from penstock.pipelines.errors import SqlError


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        pytest.param(200, b'["JSON", "PROTOBUF", "AVRO"]', True, id="a registry"),
        pytest.param(401, b'{"error_code": 401, "message": "who?"}', True, id="a registry with logins"),
        pytest.param(200, b"<html>", False, id="a page"),
        pytest.param(200, b"[1]", False, id="other JSON"),
        pytest.param(404, b'{"error_code": 404}', False, id="nothing of the kind"),
        pytest.param(401, b"[]", False, id="another service with logins"),
    ],
)
def test_only_what_answers_like_a_registry_is_taken_for_one(status: int, body: bytes, expected: bool) -> None:
    with answering(status, body) as address:
        assert is_registry(address) is expected


def test_nothing_is_taken_for_a_registry_when_nobody_listens() -> None:
    assert not is_registry("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (RegistryUnreachableError("nobody there"), ExitCode.UNREACHABLE),
        (RegistryAnswerError(401, 401, "who?"), ExitCode.UNREACHABLE),
        (RegistryAnswerError(409, 409, "does not fit"), ExitCode.FAILURE),
        (RuntimeError("Traceback ...\npenstock.client.RegistryUnreachableError: nobody"), ExitCode.UNREACHABLE),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), ExitCode.UNREACHABLE),
        (KeyError("x"), ExitCode.FAILURE),
    ],
)
def test_exit_code_is_that_of_other_commands_when_nobody_answers(cause: Exception, code: ExitCode) -> None:
    error = SqlError("the topic cannot be read")
    error.__cause__ = cause
    assert explained(error).exit_code is code

"""Which ZooKeeper is too old to be trusted."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest

from penstock.cluster.store.zookeeper.server_version import Server, Version, ask_version, is_too_old, parse_version

ANSWER = (
    b"Zookeeper version: 3.7.1-a2fb57c55f8e59cdd76c34b357ad5181df1258d5, built on 2022-05-07\nLatency min/avg: 0/0\n"
)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((3, 4, 14), True),
        ((3, 8, 3), True),
        ((3, 8, 4), False),
        ((3, 9, 0), True),
        ((3, 9, 1), True),
        ((3, 9, 2), False),
        ((3, 10, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_version_is_too_old_when_its_holes_were_mended_later(version: Version, expected: bool) -> None:
    assert is_too_old(version) is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ANSWER, (3, 7, 1)),
        (b"Zookeeper version: 3.10.0-SNAPSHOT", (3, 10, 0)),
        (b"srvr is not executed because it is not in the whitelist.\n", None),
        (b"", None),
    ],
)
def test_version_is_read_when_the_server_tells_it(answer: bytes, expected: Version | None) -> None:
    assert parse_version(answer) == expected


def test_server_is_asked_and_silence_is_no_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener.getsockname(), None)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(4) == b"srvr"
                connection.sendall(ANSWER)

        thread = threading.Thread(target=answer)
        thread.start()
        assert ask_version(server, None) == (3, 7, 1)
        thread.join()
    assert ask_version(server, None) is None


@pytest.mark.parametrize("encrypted", [False, True])
def test_question_ends_when_the_server_sends_a_byte_now_and_then(encrypted: bool) -> None:
    tls = ssl.create_default_context() if encrypted else None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"\x16\x03\x03\x40\x00" if encrypted else b"")  # a record of 16 KiB begins
                while not is_over.wait(0.02):
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        assert ask_version(Server(listener.getsockname(), "localhost"), tls, patience_s=0.2) is None
        assert not is_over.is_set()
        is_over.set()
        thread.join()


def test_nothing_is_known_when_the_certificate_has_to_have_a_name_and_the_server_has_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert ask_version(Server(listener.getsockname(), None), ssl.create_default_context()) is None

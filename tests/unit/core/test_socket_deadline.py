"""Questions over sockets that end in time. The names are looked up in this machine's own list."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from penstock.core.sockets.socket_deadline import SocketDeadline, _shut_down


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """A port whose queue is full: nobody who connects hears anything."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_connection_is_made_when_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        deadline = SocketDeadline(30)
        with deadline.connect("localhost", listener.getsockname()[1]) as sock, deadline.guarding(sock):
            assert 0 < (sock.gettimeout() or 0) <= 30


def test_connecting_fails_when_nobody_answers_until_the_time_is_over() -> None:
    with full_port() as port:
        deadline = SocketDeadline(0.2)
        with pytest.raises(TimeoutError):
            deadline.connect("127.0.0.1", port)
        with pytest.raises(TimeoutError, match="over"):
            deadline.connect("127.0.0.1", port)  # as the next address of a name
        with pytest.raises(TimeoutError, match="over"):
            deadline.left_s()


def test_connecting_fails_with_the_reason_when_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        SocketDeadline(30).connect("127.0.0.1", port)


@pytest.mark.parametrize("host", ["kafka..example", f"{'a' * 64}.example"])
def test_name_is_unknown_when_no_host_can_have_it(host: str) -> None:
    with pytest.raises(socket.gaierror, match="not known"):
        SocketDeadline(30).connect(host, 9092)


def test_wait_ends_when_the_time_is_over() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, SocketDeadline(0.05).guarding(ours):
        assert ours.recv(1) == b""


def test_end_of_the_time_is_no_error_when_the_other_side_was_quicker() -> None:
    with socket.socket() as unconnected:  # to shut it down is an error
        _shut_down(unconnected)
        assert unconnected.fileno() >= 0, "whoever reads still owns it"

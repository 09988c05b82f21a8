"""A listener, files and a wire without sockets: what the tests of a connection share."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from typing import Any

from penstock.broker.session import Outcome, Reply, Session
from penstock.core.metrics.counters import SocketMetrics
from penstock.protocol.message import Buffer
from penstock.server.net import limits
from penstock.server.net.backlog import Backlog
from penstock.server.net.connection import Connection
from penstock.testing.transports import FakeTransport

MAX_FRAME_SIZE = 8 << 20
Answer = Callable[[bytes], Outcome | Awaitable[Outcome]]


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def echo(payload: bytes) -> Reply:
    return [bytearray(frame(payload))]


class FakeListener:
    """Answers frames as `answer` says and notes what connections tell it."""

    def __init__(self, answer: Answer = echo, *, has_room: bool = True) -> None:
        self.receive_buffer = memoryview(bytearray(limits.RECEIVE_BUFFER_SIZE))
        self.max_frame_size = MAX_FRAME_SIZE
        self.metrics = SocketMetrics()
        self.backlog = Backlog()
        self.answer = answer
        self.has_room = has_room
        self.frames: list[bytes] = []
        self.unreadable: list[Exception] = []
        self.refusals: list[tuple[str, str]] = []
        self.closed_count = 0

    def backlog_of(self, connection: Connection) -> Backlog:
        return self.backlog

    def handle(self, session: Session, frame: Buffer) -> Outcome | Awaitable[Outcome]:
        self.frames.append(bytes(frame))
        return self.answer(self.frames[-1])

    def opened(self, connection: Connection, transport: asyncio.BaseTransport) -> Session | None:
        return Session("1", "10.0.0.1", "PLAINTEXT") if self.has_room else None

    def closed(self, connection: Connection) -> None:
        self.closed_count += 1

    def malformed(self, connection: Connection, kind: str, reason: str) -> None:
        self.refusals.append((kind, reason))

    def failed_reading(self, connection: Connection, error: Exception) -> None:
        self.unreadable.append(error)


class FakeSlice:
    """A file that is never larger in memory than what is asked of it."""

    def __init__(self, size: int, fails_at: int | None = None, takes: list[int] | None = None) -> None:
        """`takes`: how much the socket takes each time it is offered the file; nothing when the list is used up."""
        self.size = size
        self.fails_at = fails_at
        self.takes = takes or []
        self.reads: list[tuple[int, int]] = []
        self.sends: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self.size

    def read(self, start: int, size: int) -> bytes:
        if self.fails_at is not None and start + size > self.fails_at:
            raise OSError(5, "Input/output error")
        self.reads.append((start, size))
        return bytes(size)

    def send(self, socket_fd: int, start: int) -> int:
        if not self.takes:
            raise BlockingIOError
        sent = min(self.takes.pop(0), self.size - start)
        self.sends.append((start, sent))
        return sent


class Wire:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, listener: FakeListener, *, takes_everything: bool = True) -> FakeTransport:
        transport = FakeTransport(Connection(listener), takes_everything=takes_everything)
        self._stack.callback(transport.release)
        transport.connect()
        return transport


def in_loop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())

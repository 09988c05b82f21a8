"""A TCP proxy whose connections can be held up or cut, without the knowledge of either side."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class TcpProxy:
    """Runs in the event loop that enters it. Bytes that are held up in one direction go on when it is let go."""

    def __init__(self, port: int) -> None:
        """`port` is the port of the server behind the proxy."""
        self._target = port
        self._links: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._requests = asyncio.Event()
        self._answers = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.port = 0
        self._is_closed = False
        self.heal()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self.carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self.refuse()
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lead_to(self, port: int) -> None:
        """For new connections: the server behind the proxy may have to know the proxy's port first."""
        self._target = port

    def hold_requests(self) -> None:
        self._requests.clear()

    def hold_answers(self) -> None:
        self._answers.clear()

    def cut(self) -> None:
        """No byte goes either way, and neither side learns of it."""
        self.hold_requests()
        self.hold_answers()

    def reset(self) -> None:
        """All connections end, with what was held up in them."""
        for link in self._links:
            link.transport.abort()
        self._links.clear()

    def refuse(self) -> None:
        """All connections end, and new ones at once."""
        self._is_closed = True
        self.reset()

    def heal(self) -> None:
        self._is_closed = False
        self._requests.set()
        self._answers.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b"") -> None:
        """One connection, also one that another server has accepted, and of which `first` was read already."""
        if self._is_closed:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._links = [link for link in self._links if not link.transport.is_closing()]
        self._links += [writer, server_writer]
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks += [
            asyncio.ensure_future(_pass_on(reader, server_writer, self._requests, first)),
            asyncio.ensure_future(_pass_on(server_reader, writer, self._answers)),
        ]


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_pass: asyncio.Event, first: bytes = b""
) -> None:
    with contextlib.suppress(OSError):
        while data := first or await reader.read(65_536):
            first = b""
            await may_pass.wait()
            if writer.transport.is_closing():
                break
            writer.write(data)
    writer.transport.abort()

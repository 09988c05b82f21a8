"""uvicorn's server inside a listener: it takes no signals, and it ends as soon as its connections have.

uvicorn itself checks ten times a second whether it has to end, and then sleeps for a tenth of a second before it checks
its connections: each stop of a listener waited for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator

import uvicorn

logger = logging.getLogger(__name__)

# The answers carry the date, in seconds.
_TICK_S = 1.0
_LOOK_S = 0.005


class PromptServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._is_stopping = asyncio.Event()

    def stop(self) -> None:
        self._is_stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals belong to the broker, or to the program it is embedded in."""
        yield

    async def main_loop(self) -> None:
        while not self._is_stopping.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._is_stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Idle connections end at once, and those with an answer in progress when it has gone out."""
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while True:
                    if not state.connections and not state.tasks:
                        return
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            logger.warning("answers under way end with their listener", extra={"count": len(state.tasks)})
            for task in state.tasks:
                task.cancel()

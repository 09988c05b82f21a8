"""Threads for parsing and comparing: a hostile schema takes seconds, and the loop has others to serve."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from penstock.core.daemon_threads import DaemonThreads
from penstock.registry.errors import RegistryError, invalid_schema
from penstock.schemas.schema import InvalidSchemaError

_Result = TypeVar("_Result")

# Parsing holds Python's lock, so more threads do not do more work. Some, so that a quick schema need not wait for a
# slow one.
_THREADS = 4
# A thread takes some hundred quick schemas in a second. Whoever comes behind so many is told to come again.
_MOST_WAITING = 512


class Workers:
    """Work waits for a thread in the order in which it came."""

    def __init__(self, threads: int = _THREADS, most_waiting: int = _MOST_WAITING) -> None:
        self._threads = DaemonThreads(threads, "registry-schemas")
        self._most = threads + most_waiting
        self._count = 0  # jobs in a thread or before one, also those that nobody waits for any more

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """The result; what the schemas' package refuses is an invalid schema (42201). RegistryError 503
        where too much waits already."""
        if self._count >= self._most:
            raise RegistryError(503, "too many schemas wait to be looked at: try again")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Result] = loop.create_future()

        def job() -> None:
            try:
                result = None if done.cancelled() else work()
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the work
                self._tell(loop, done, error=error)
            else:
                self._tell(loop, done, result=result)

        self._count += 1
        self._threads.run(job)
        try:
            return await done
        except InvalidSchemaError as error:
            raise invalid_schema(str(error)) from None

    def close(self) -> None:
        self._threads.close()

    def _tell(
        self,
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[_Result],
        *,
        result: _Result | None = None,
        error: BaseException | None = None,
    ) -> None:
        def tell() -> None:
            self._count -= 1
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        # The loop may be gone before the work is done.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell)

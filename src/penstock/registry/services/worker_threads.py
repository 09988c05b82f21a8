"""Threads for parsing and comparing: a hostile schema takes seconds, and the loop has other requests to serve."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from penstock.core.daemon_threads import DaemonThreads
from penstock.registry.errors import RegistryError, invalid_schema
from penstock.schemas.schema import InvalidSchemaError

_Result = TypeVar("_Result")

# Parsing holds Python's lock, so more threads do not do more work. Several, so that a quick schema need not wait for a
# slow one.
_THREADS = 4
# A thread handles some hundred quick schemas in a second. Requests beyond this number get an error to try again.
_MOST_WAITING = 512


class Workers:
    """Jobs wait for a thread in the order of their arrival."""

    def __init__(self, threads: int = _THREADS, most_waiting: int = _MOST_WAITING) -> None:
        self._threads = DaemonThreads(threads, "registry-schemas")
        self._most = threads + most_waiting
        self._count = 0  # jobs in a thread or before one, also abandoned ones

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """The result; an error of the schemas' package is an invalid schema (42201). RegistryError 503 where too many
        jobs wait already.
        """
        if self._count >= self._most:
            raise RegistryError(503, "too many schemas wait to be looked at: try again")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Result] = loop.create_future()

        def job() -> None:
            try:
                result = None if done.cancelled() else work()
            except InvalidSchemaError as error:
                # Another error: this error holds everything that its reader had made of the text, in a circle with
                # `done`.
                self._tell(loop, done, error=invalid_schema(str(error)))
            except BaseException as error:  # noqa: BLE001 - the waiting caller gets it
                self._tell(loop, done, error=error)
            else:
                self._tell(loop, done, result=result)

        self._count += 1
        self._threads.run(job)
        return await done

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

        # The loop may be gone before the end of the work.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell)

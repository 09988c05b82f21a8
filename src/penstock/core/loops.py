"""Event loops: uvloop where there is one, the standard library's elsewhere; a loop on a thread of its own; and the
number of files that a process may open.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from penstock.core.logs import Limiter

Result = TypeVar("Result")

_STANDARD_DESCRIPTORS = (0, 1, 2)
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REPORT_INTERVAL_MS = 60_000


def new_event_loop() -> asyncio.AbstractEventLoop:
    _occupy_standard_descriptors()
    try:
        import uvloop
    except ImportError:  # not built for this platform
        plain = asyncio.new_event_loop()
        plain.set_exception_handler(ExhaustionReports())
        return plain
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _occupy_standard_descriptors() -> None:
    """Opens the standard streams that are closed. Otherwise a file or a socket of ours would get the number of one, and
    libuv aborts the process when it closes such a number.
    """
    for descriptor in _STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


class ExhaustionReports:
    """Writes one of these lines in a minute. When the process has no descriptor for a client, asyncio's servers stop
    for a second and log that each time, with a traceback. uvloop closes such clients at once and logs nothing.
    """

    def __init__(self) -> None:
        self._limiter = Limiter(_REPORT_INTERVAL_MS)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        is_exhausted = isinstance(error, OSError) and error.errno in _EXHAUSTED and "socket" in context
        if not is_exhausted or self._limiter.allow("accept", int(loop.time() * 1000)) is not None:
            loop.default_exception_handler(context)


class LoopThread:
    """A loop beside the caller's code. `stop` ends it, and it cannot be started again. Threads that wait for work when
    the loop ends get CancelledError of `concurrent.futures`.

    A fork copies no threads: in a child of the process that made it nothing can begin, and there is nothing to stop.
    """

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        # Work that begins is on the loop before the loop ends, or does not begin.
        self._turn = threading.Lock()
        self._is_stopped = False
        self._process_id = os.getpid()
        self._thread.start()

    @property
    def is_elsewhere(self) -> bool:
        """Whether the thread is in the process that forked this one."""
        return os.getpid() != self._process_id

    def begin(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """RuntimeError after `stop`, and in another process."""
        if self.is_elsewhere:  # its lock may have been taken when the process was copied
            work.close()
            raise RuntimeError("its loop is in the process that forked this one")
        with self._turn:
            if not self._is_stopped:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise RuntimeError("its loop has been stopped")

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.begin(work).result()

    def stop(self) -> None:
        if not self.is_elsewhere:
            self.stop_soon()
            self._thread.join()

    def stop_soon(self) -> None:
        """Without waiting, so also from the thread itself."""
        with self._turn:
            self._is_stopped = True
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._end_tasks())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _end_tasks(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class OfALoop(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class OnAThread:
    """A service that lives on a loop, on a thread of its own beside the caller's code. Errors call it `name`."""

    def __init__(self, name: str, service: OfALoop) -> None:
        self._name = name
        self._service = service
        self._running: LoopThread | None = None

    def start(self) -> None:
        assert self._running is None, f"the {self._name} is running already"
        self._running = LoopThread(f"penstock-{self._name}")
        try:
            self._running.call(self._service.start())
        except BaseException:
            self._end_loop()
            raise

    def stop(self) -> None:
        if self._running is None:
            return
        if self._running.is_elsewhere:
            self._running = None
            return
        try:
            self._running.call(self._service.stop())
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        thread, self._running = self._running, None
        if thread is not None:
            thread.stop()

    @property
    def _thread(self) -> LoopThread:
        assert self._running is not None, f"the {self._name} is not running"
        return self._running

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def raise_file_limit() -> None:
    """Connections and segments are files; the soft limit is often 1,024 where the hard limit allows many more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

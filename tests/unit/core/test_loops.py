from __future__ import annotations

import asyncio
import errno
import logging
from concurrent.futures import CancelledError

import pytest

from penstock.core.loops import ExhaustionReports, LoopThread, OnAThread
from tests.forking import in_a_fork


class Counted:
    def __init__(self) -> None:
        self.starts = self.stops = 0

    async def start(self) -> None:
        self.starts += 1

    async def stop(self) -> None:
        self.stops += 1


def test_one_line_is_written_when_nobody_can_be_accepted_for_many_seconds(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        reports, loop = ExhaustionReports(), asyncio.get_running_loop()
        error = OSError(errno.EMFILE, "Too many open files")
        for _ in range(5):
            reports(loop, {"message": "socket.accept() out of system resource", "exception": error, "socket": None})
        for _ in range(2):
            reports(loop, {"message": "another failure", "exception": error})

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        asyncio.run(fail())
    heads = [record.getMessage().splitlines()[0] for record in caplog.records]
    assert heads == ["socket.accept() out of system resource", "another failure", "another failure"]


def test_nobody_waits_for_ever_when_a_loop_is_stopped() -> None:
    thread = LoopThread("stopped")
    waiting = thread.begin(asyncio.Event().wait())
    thread.stop()
    with pytest.raises(CancelledError):
        waiting.result(10)
    with pytest.raises(RuntimeError, match="stopped"):
        thread.begin(asyncio.sleep(0))


def test_child_fails_at_once_and_stops_nothing_when_the_loop_is_in_its_parent() -> None:
    thread, service = LoopThread("of the parent"), Counted()
    running = OnAThread("counted", service)
    running.start()

    def use_it() -> bool:
        try:
            thread.call(service.start())
        except RuntimeError as error:
            thread.stop()
            running.stop()
            return "forked" in str(error)
        return False

    assert in_a_fork(use_it)
    thread.call(service.start())
    thread.stop()
    running.stop()
    assert (service.starts, service.stops) == (2, 1)

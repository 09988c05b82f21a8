from __future__ import annotations

import asyncio
import errno
import logging
from concurrent.futures import CancelledError

import pytest

from penstock.core.loops import ExhaustionReports, LoopThread


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

"""A broker in this process on files that a test controls: failing, full, or forgetting what was not synced."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.loops import new_event_loop
from penstock.log.storage.files import Files
from penstock.server.broker_server import BrokerServer

START_TIMEOUT_S = 30.0


@contextmanager
def served(
    directories: Sequence[Path], files: Files, config: Mapping[str, str] | None = None
) -> Iterator[BrokerServer]:
    properties = {
        "log.dirs": ",".join(map(str, directories)),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "group.initial.rebalance.delay.ms": "0",
        **(config or {}),
    }
    loop = new_event_loop()
    thread = threading.Thread(target=_run, args=(loop,), daemon=True)
    thread.start()
    try:
        start = BrokerServer.start(BrokerConfig.parse(properties), files=files)
        server = asyncio.run_coroutine_threadsafe(start, loop).result(START_TIMEOUT_S)
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(START_TIMEOUT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()

"""The broker of the disk rounds: in this process, on files that fail, its chores run only when they are told to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from penstock.broker.upkeep.housekeeping import Housekeeping
from penstock.cluster.store.interface import StoreError
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.loops import new_event_loop
from penstock.log.directories.log_directories import LogDirectoryError
from penstock.log.storage.files import Files
from penstock.server.broker_server import BrokerServer
from penstock.testing.history import Where

Result = TypeVar("Result")

_CALL_TIMEOUT_S = 30.0
_HOUR_MS = "3600000"
# Chores run when a round says so.
_BROKER_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.retention.check.interval.ms": _HOUR_MS,
    "log.cleaner.backoff.ms": _HOUR_MS,
    "replica.high.watermark.checkpoint.interval.ms": _HOUR_MS,
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.dedupe.buffer.size": "1048576",
    "log.segment.delete.delay.ms": "0",
    "penstock.segment.least.ms": "0",  # rounds are short
}


class LocalBroker:
    """Started and stopped any number of times, on one thread with one event loop."""

    def __init__(self, files: Files, note: Callable[[str], None]) -> None:
        self._files = files
        self._note = note
        self._loop = new_event_loop()
        self._loop.set_exception_handler(lambda _, context: note(f"the loop caught {context}"))
        self._thread = threading.Thread(target=self._loop.run_forever, name="disk-broker", daemon=True)
        self._thread.start()
        self._server: BrokerServer | None = None
        self._housekeeping: Housekeeping | None = None

    @property
    def server(self) -> BrokerServer:
        assert self._server is not None, "the broker is not running"
        return self._server

    def start(self, directories: list[Path]) -> bool:
        """False when it says that it cannot, which it may as long as the disk fails."""
        properties = {
            "log.dirs": ",".join(map(str, directories)),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            **_BROKER_CONFIG,
        }
        server, error = self._call(BrokerServer.start(BrokerConfig.parse(properties), files=self._files))
        if server is None:
            if not isinstance(error, OSError | LogDirectoryError | StoreError):
                self._note(f"starting failed: {error!r}")
            return False
        self._server, self._housekeeping = server, Housekeeping(server.broker)
        return True

    def run_chore(self, name: str) -> None:
        assert self._housekeeping is not None
        (chore,) = [each for each in self._housekeeping.chores if each.name == name]

        async def run() -> None:
            await chore.run()

        _, error = self._call(run())
        if error is not None:
            self._note(f"the chore {name} failed: {error!r}")

    def stop(self) -> None:
        if self._server is None:
            return
        server, self._server = self._server, None
        if self._housekeeping is not None:
            self._housekeeping.compaction.close()
        _, error = self._call(server.stop())
        if error is not None:
            self._note(f"stopping failed: {error!r}")

    def close(self) -> None:
        self.stop()
        self._call(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def is_online(self, topic_partition: Where) -> bool:
        return self._server is not None and self._server.broker.partitions.is_online(*topic_partition)

    def offline_places(self) -> set[str]:
        """Directories that are offline, and partitions that are so on their own."""
        broker = self.server.broker
        directories = broker.directories.offline
        places = {str(path) for path in directories}
        places |= {
            str(topic_partition)
            for topic_partition, log in broker.directories.logs.items()
            if log.offline_reason is not None and log.directory.parent not in directories
        }
        return places

    def _call(self, work: Coroutine[Any, Any, Result]) -> tuple[Result | None, BaseException | None]:
        """What it returned, or what it raised."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        error = future.exception(_CALL_TIMEOUT_S)
        return (future.result(), None) if error is None else (None, error)

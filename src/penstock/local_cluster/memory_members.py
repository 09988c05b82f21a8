"""Brokers on one event loop of this process, with a store in memory: quick to start, and gone without a trace."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future

from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.loops import LoopThread
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.members import PlacedBroker
from penstock.local_cluster.settings import BrokerPlace, broker_properties
from penstock.server.broker_server import BrokerServer

_NEEDS_PROCESSES = 'Take store="zookeeper", where each broker is a process.'


class MemoryBroker(PlacedBroker):
    def __init__(self, place: BrokerPlace, properties: dict[str, str], tree: MemoryTree, thread: LoopThread) -> None:
        super().__init__(place, properties)
        self._tree = tree
        self._thread = thread
        self._starting: Future[BrokerServer] | None = None

    @property
    def pid(self) -> None:
        return None

    @property
    def log_path(self) -> None:
        return None

    @property
    def is_running(self) -> bool:
        return self._starting is not None and self._starting.done()

    @property
    def is_paused(self) -> bool:
        return False

    @property
    def unasked_end(self) -> str:
        return ""

    def spawn(self) -> None:
        if self._starting is not None:
            raise ClusterError(f"broker {self.node_id} is running already")
        self._starting = self._thread.begin(self._start())

    async def _start(self) -> BrokerServer:
        store = MemoryStore(self._tree)
        try:
            return await BrokerServer.start(BrokerConfig.parse(self._properties), store=store)
        except BaseException:
            await store.close()
            raise

    def wait_until_ready(self) -> None:
        assert self._starting is not None, "the broker was not started"
        try:
            self._starting.result()
        except BaseException:
            self._starting = None
            raise

    def stop(self) -> None:
        starting, self._starting = self._starting, None
        if starting is None:
            return
        with contextlib.suppress(CancelledError):
            self._thread.call(starting.result().stop())

    def take_over(self) -> None:
        """No other program can have started it."""

    def kill(self) -> None:
        raise ClusterError("a broker inside this process cannot be killed", _NEEDS_PROCESSES)

    def pause(self) -> None:
        raise ClusterError("a broker inside this process cannot be paused", _NEEDS_PROCESSES)

    def resume(self) -> None:
        raise ClusterError("a broker inside this process cannot be paused", _NEEDS_PROCESSES)


class MemoryMembers:
    def __init__(self, places: Sequence[BrokerPlace], shared: dict[str, str]) -> None:
        self._thread = LoopThread("penstock-cluster")
        tree = MemoryTree()
        self._brokers = [
            MemoryBroker(place, broker_properties(place, shared, None), tree, self._thread) for place in places
        ]

    @property
    def brokers(self) -> Sequence[MemoryBroker]:
        return self._brokers

    def start(self) -> None:
        for broker in self._brokers:
            broker.spawn()
        for broker in self._brokers:
            broker.wait_until_ready()

    def stop_store(self) -> None:
        return None

    def end(self) -> None:
        for broker in self._brokers:
            with contextlib.suppress(Exception):  # what failed to start is reported by the start
                broker.stop()
        self._thread.stop()

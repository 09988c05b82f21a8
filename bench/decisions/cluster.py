"""Ten brokers without logs on one store in memory that has ZooKeeper's limits. Two of them run: the controller, and one
that follows. The others are registered and do nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from bench.errors import BenchError
from penstock.cluster.controller.registration import register
from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.decisions.topics import Choices
from penstock.cluster.image import BrokerRegistration, MetadataImage
from penstock.cluster.levels import FIRST_LEVEL, SNAPSHOT_LEVEL, LevelRange
from penstock.cluster.metadata import Metadata
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Create, Operation, Result, TransactionLimit, transaction_size
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.core.clock import SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.limits import MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS
from penstock.core.listeners import Endpoint
from penstock.protocol.errors import ErrorCode

NODE_IDS = range(1, 11)
PARTITIONS_OF_A_TOPIC = 2_000
REPLICAS = 3
_LIMIT = TransactionLimit(MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS)
_SESSION_MS = 600_000  # nobody is silent here, however long a turn of the loop takes
_POLL_S = 0.002
_PATIENCE_S = 300.0


class Written:
    """What went into the store."""

    def __init__(self) -> None:
        self.transactions = self.size = self.delta_size = 0

    def note(self, operations: Sequence[Operation]) -> None:
        self.transactions += 1
        self.size += transaction_size(operations)
        deltas = (each for each in operations if isinstance(each, Create) and each.path.startswith(f"{znodes.LOG}/"))
        self.delta_size += sum(len(each.data) for each in deltas)


class MeteredStore(MemoryStore):
    def __init__(self, tree: MemoryTree, written: Written) -> None:
        super().__init__(tree, session_timeout_ms=_SESSION_MS, transaction_limit=_LIMIT)
        self._written = written

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        self._written.note(operations)
        return await super().transaction(operations)


class LargeCluster:
    def __init__(self, level: int) -> None:
        self.written = Written()
        self._levels = LevelRange(FIRST_LEVEL, level)
        self._tree = MemoryTree()
        self._stores: dict[int, MeteredStore] = {}
        self._running: dict[int, Metadata] = {}
        self._random = Random(level)
        self._image: MetadataImage | None = None

    @property
    def image(self) -> MetadataImage:
        """The newest, also while nobody runs."""
        for metadata in self._running.values():
            if self._image is None or metadata.image.number > self._image.number:
                self._image = metadata.image
        assert self._image is not None, "after the first start"
        return self._image

    async def start(self) -> None:
        """Returns when both have an image with all brokers. They are elected and counted when all are registered."""
        gate = self._open_store(0)
        if await gate.read(znodes.CONTROLLER_EPOCH) is not None:
            await gate.transaction([Create(znodes.CONTROLLER, b"{}", ephemeral=True)])
            await self._register_others()
        running = [asyncio.ensure_future(self._run(node_id)) for node_id in NODE_IDS[:2]]
        if NODE_IDS[-1] not in self._stores:  # a new cluster
            await self._until(self._is_founded)
            await self._register_others()
        await self._until(lambda: self._are_all_registered(gate))
        self._end(0)
        await asyncio.gather(*running)
        await self._until_agreed(set(NODE_IDS))

    async def create(self, count: int) -> None:
        for number in range(count // PARTITIONS_OF_A_TOPIC):
            topic = NewTopic(f"topic-{number}", PARTITIONS_OF_A_TOPIC, REPLICAS)
            (result,) = await self._controller().create_topics([topic])
            if result.code is not ErrorCode.NONE:
                raise BenchError(f"a topic of {PARTITIONS_OF_A_TOPIC} partitions is refused: {result.message}")
        await self._until_agreed(set(NODE_IDS))

    async def lose(self, node_id: int) -> None:
        """Returns when those that run agree about what is left."""
        here = set(self.image.brokers) - {node_id}
        self._end(node_id)
        await self._until_agreed(here)

    async def lose_controller(self) -> None:
        await self.lose(self._controller().config.identity.node_id)

    def lose_all(self) -> None:
        for node_id in list(self._stores):
            self._end(node_id)

    async def until_drawn(self) -> None:
        """Until Kafka's nodes show the newest image, which they do at once below `SNAPSHOT_LEVEL`."""
        if self._levels.highest < SNAPSHOT_LEVEL:
            return
        store = self._stores[next(iter(self._running))]
        await self._until(lambda: self._is_drawn(store))

    # -------------------------------------------------------------------------------------------- brokers

    def _controller(self) -> Metadata:
        return next(each for each in self._running.values() if each.is_controller)

    def _open_store(self, node_id: int) -> MeteredStore:
        store = self._stores[node_id] = MeteredStore(self._tree, self.written)
        return store

    async def _run(self, node_id: int) -> None:
        store = self._open_store(node_id)
        config = BrokerConfig.parse({"node.id": str(node_id), "auto.leader.rebalance.enable": "false"})
        choices = Choices(self._random, lambda: self._random.randbytes(16))
        self._running[node_id] = await Metadata.load(store, config, choices=choices, levels=self._levels)
        await self._running[node_id].join(_endpoints(node_id), SystemClock())

    async def _register_others(self) -> None:
        for node_id in NODE_IDS[2:]:
            broker = BrokerRegistration(node_id, _endpoints(node_id), levels=self._levels)
            await register(self._open_store(node_id), broker, (), 0)

    def _end(self, node_id: int) -> None:
        """As a kill does: the broker says nothing and writes nothing from here on."""
        store = self._stores.pop(node_id)
        store.session.cut()
        self._tree.end_session(store.session_id)
        if node_id in self._running:
            del self._running[node_id]  # not closed, which would wait for a store that does not answer

    async def _until_agreed(self, here: set[int]) -> None:
        async def is_agreed() -> bool:
            images = [each.image for each in self._running.values()]
            return (
                all(set(image.brokers) == here and image.number == images[0].number for image in images)
                and images[0].controller_id in self._running
            )

        await self._until(is_agreed)

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            while not await condition():  # noqa: ASYNC110  # what is awaited has no event
                await asyncio.sleep(_POLL_S)

    async def _is_founded(self) -> bool:
        return NODE_IDS[0] in self._running and self._running[NODE_IDS[0]].is_controller

    async def _are_all_registered(self, store: MeteredStore) -> bool:
        return len(await store.children(znodes.BROKER_IDS)) == len(NODE_IDS)

    async def _is_drawn(self, store: MeteredStore) -> bool:
        node = await store.read(znodes.PICTURE)
        return node is not None and znodes.decode_picture(node.data) == self.image.number


def _endpoints(node_id: int) -> tuple[Endpoint, ...]:
    return (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + node_id, "PLAINTEXT"),)

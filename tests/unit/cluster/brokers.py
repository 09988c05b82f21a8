"""Several brokers without logs on one store in memory: what they know, and what a test does to them."""

from __future__ import annotations

from penstock.cluster.controller.upkeep import INSPECTION_S, Upkeep
from penstock.cluster.levels import FIRST_LEVEL, SECURITY_LEVEL, SUPPORTED, LevelRange
from penstock.cluster.metadata import NO_DISKS, Disks, Metadata
from penstock.cluster.store.interface import Store, TransactionLimit
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, choices, config
from tests.waiting import eventually, until

TIMEOUT_MS = 300
# Of a version that loads Kafka's nodes.
WITH_NODES = LevelRange(FIRST_LEVEL, SECURITY_LEVEL)


class TestBroker:
    __test__ = False

    def __init__(
        self,
        tree: MemoryTree,
        node_id: int,
        limit: TransactionLimit | None = None,
        levels: LevelRange = SUPPORTED,
    ) -> None:
        self.node_id = node_id
        self._levels = levels
        self.store = MemoryStore(tree, session_timeout_ms=TIMEOUT_MS, transaction_limit=limit)
        self.metadata: Metadata

    async def start(
        self,
        *,
        previous_epoch: int | None = None,
        takeover_s: float = 0.0,
        disks: Disks = NO_DISKS,
        inspection_s: float = INSPECTION_S,
    ) -> TestBroker:
        broker = config(node_id=str(self.node_id))
        self.metadata = await Metadata.load(self.store, broker, choices=choices(self.node_id), levels=self._levels)
        await self.metadata.join(
            ENDPOINTS,
            FixedClock(),
            previous_epoch=previous_epoch,
            takeover_s=takeover_s,
            disks=disks,
            inspection_s=inspection_s,
        )
        return self

    async def stop(self) -> None:
        await self.metadata.close()
        await self.store.close()


async def started(
    tree: MemoryTree, *node_ids: int, limit: TransactionLimit | None = None, levels: LevelRange = SUPPORTED
) -> list[TestBroker]:
    """The first of them is the controller."""
    return [await TestBroker(tree, node_id, limit, levels).start() for node_id in node_ids]


async def opened_with_nodes(store: Store) -> Metadata:
    """Of broker 1."""
    metadata = await Metadata.load(store, config(), choices=choices(), levels=WITH_NODES)
    await metadata.join(ENDPOINTS, FixedClock())
    return metadata


async def emptied(store: Store, *paths: str) -> None:
    """Until nothing is below the nodes: from `SNAPSHOT_LEVEL` on they follow behind a change."""

    async def is_empty() -> bool:
        return not any([await store.children(path) for path in paths])

    await eventually(is_empty)


async def agreed(*brokers: TestBroker) -> None:
    """Until all have the same image, which has all of them with their present epochs."""

    def is_agreed() -> bool:
        image = brokers[0].metadata.image
        epochs = {node_id: broker.epoch for node_id, broker in image.brokers.items()}
        return all(
            each.metadata.image == image and epochs.get(each.node_id) == each.metadata.broker_epoch for each in brokers
        )

    await until(is_agreed)


def controller(*brokers: TestBroker) -> TestBroker:
    (found,) = [each for each in brokers if each.metadata.is_controller]
    return found


async def rested(broker: TestBroker) -> None:
    """Until the controller writes nothing by itself."""

    def is_at_rest() -> bool:
        member = broker.metadata._member
        chores = [] if member is None else [each for each in member._chores if isinstance(each, Upkeep)]
        return any(each._task is None for each in chores)

    await until(is_at_rest)

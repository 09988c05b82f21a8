"""A stranger deletes or overwrites the nodes of a cluster whose store nobody guards, one at a time."""

from __future__ import annotations

import asyncio
import json
import zlib

import pytest

from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Delete, StoreError, StoreErrorKind
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.cluster.store.tree_walk import walk
from penstock.core.clock import Clock
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.brokers import TestBroker, agreed
from tests.unit.cluster.harness import FixedClock, run
from tests.unit.cluster.test_foreign_nodes import CONTENTS
from tests.waiting import eventually, until

NODES = (
    "/cluster",
    znodes.CLUSTER_ID,
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.BROKER_IDS,
    znodes.broker_path(1),
    znodes.broker_path(2),
    znodes.BROKER_SEQUENCE,
    znodes.GROUP_CONFIGS,
    znodes.FEATURES,
    "/penstock",
    znodes.LOG,
    znodes.delta_path(2),
    znodes.SNAPSHOTS,
    znodes.snapshot_part_path(0, 0),
    znodes.PRODUCER_ID_BLOCK,
)
# The log goes on without them: a snapshot of what the controller remembers takes their place.
NOT_WRITTEN_AGAIN = (znodes.PRODUCER_ID_BLOCK, znodes.delta_path(2), znodes.snapshot_part_path(0, 0))
LEAVES = tuple(path for path in NODES if path not in ("/cluster", "/penstock", znodes.GROUP_CONFIGS, znodes.SNAPSHOTS))
# What stands in them means nothing: of the one there are only children, of the other only versions.
WITHOUT_CONTENT = (znodes.BROKER_IDS, znodes.BROKER_SEQUENCE)
INSPECTION_S = 0.05


async def delete(tree: MemoryTree, path: str) -> None:
    """With all that is below."""
    stranger = MemoryStore(tree)
    await stranger.transaction([Delete(each) for each in reversed(list(await walk(stranger, path)))])


async def overwrite(tree: MemoryTree, path: str, data: bytes) -> None:
    await MemoryStore(tree).compare_and_set(path, data, None)


async def create_topic(brokers: list[TestBroker], name: str) -> None:
    """As a client does it: who is told that another broker is the controller asks again."""

    async def is_created() -> bool:
        for broker in brokers:
            if not broker.metadata.is_controller:
                continue
            try:
                (result,) = await broker.metadata.create_topics([NewTopic(name, 1, 1)])
            except ApiError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
            else:
                assert result.code is ErrorCode.NONE
                return True
        return False

    await eventually(is_created)


async def agreed_with_store(store: MemoryStore, broker: TestBroker) -> MetadataImage:
    """What a broker finds that starts, as soon as it is what this one knows."""

    async def is_agreed() -> bool:
        try:
            return await load_image(store) == broker.metadata.image
        except StoreError as error:
            if error.kind is not StoreErrorKind.CORRUPT:
                raise
            return False

    await eventually(is_agreed)
    return broker.metadata.image


class Remembered:
    """What must never go back, and what must never come twice."""

    def __init__(self, brokers: list[TestBroker]) -> None:
        images = [broker.metadata.image for broker in brokers]
        self.controller_epoch = max(image.controller_epoch for image in images)
        self.number = max(image.number for image in images)
        self.broker_epoch = max(broker.metadata.broker_epoch for broker in brokers)
        self.cluster_id = images[0].cluster_id


async def check_survival(
    tree: MemoryTree, brokers: list[TestBroker], before: Remembered, path: str, strangers: bytes | None = None
) -> None:
    await create_topic(brokers, "after")
    await until(lambda: all("after" in broker.metadata.image.topics for broker in brokers))
    await agreed(*brokers)
    store = MemoryStore(tree)
    await until(lambda: path in NOT_WRITTEN_AGAIN or (path in tree.entries and tree.entries[path].data != strangers))
    image = await agreed_with_store(store, brokers[0])
    assert image.topics.keys() == {"before", "after"}
    assert image.cluster_id == before.cluster_id
    assert image.controller_epoch >= before.controller_epoch
    assert image.number > before.number
    blocks = [await broker.metadata.allocate_producer_id_block() for broker in brokers]
    assert min(block.first_producer_id for block in blocks) >= 3_000
    assert len({block.first_producer_id for block in blocks}) == 3
    # Whoever comes new has an epoch of its own, and so has the next controller.
    newcomer = await TestBroker(tree, 4).start()
    assert newcomer.metadata.broker_epoch > before.broker_epoch
    controller = next(broker for broker in brokers if broker.metadata.is_controller)
    epoch = controller.metadata.image.controller_epoch
    await asyncio.wait_for(controller.metadata.leave(), 5)
    rest = [broker for broker in (*brokers, newcomer) if broker is not controller]
    await until(lambda: any(broker.metadata.is_controller for broker in rest))
    await create_topic(rest, "later")
    await until(lambda: all("later" in broker.metadata.image.topics for broker in rest))
    assert rest[0].metadata.image.controller_epoch > epoch
    for broker in (*rest, controller):
        await asyncio.wait_for(broker.stop(), 5)


async def three(tree: MemoryTree) -> tuple[list[TestBroker], Remembered]:
    brokers = [await TestBroker(tree, node_id).start(inspection_s=INSPECTION_S) for node_id in (1, 2, 3)]
    await create_topic(brokers, "before")
    for broker in brokers:
        await broker.metadata.allocate_producer_id_block()
    await agreed(*brokers)
    return brokers, Remembered(brokers)


@pytest.mark.parametrize("path", NODES)
def test_cluster_goes_on_when_a_stranger_deletes_a_node(path: str) -> None:
    async def main() -> None:
        tree = MemoryTree()
        brokers, before = await three(tree)
        await delete(tree, path)
        await check_survival(tree, brokers, before, path)

    run(main())


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("path", LEAVES)
def test_cluster_goes_on_when_a_stranger_overwrites_a_node(path: str, content: str) -> None:
    async def main() -> None:
        tree = MemoryTree()
        brokers, before = await three(tree)
        await overwrite(tree, path, CONTENTS[content])
        strangers = None if path in WITHOUT_CONTENT else CONTENTS[content]
        await check_survival(tree, brokers, before, path, strangers)

    run(main())


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (znodes.CONTROLLER_EPOCH, b"0"),
        (znodes.CONTROLLER_EPOCH, b"2147483647"),
        (znodes.CLUSTER_ID, znodes.encode_cluster_id("another")),
        (znodes.FEATURES, znodes.encode_features(1)),
        (znodes.BROKERS, b""),
        (znodes.LOG, b""),
        (znodes.broker_path(3), json.dumps({"endpoints": []}).encode()),
        (znodes.LOG, json.dumps({"format": 99, "number": 2}).encode()),
        (znodes.delta_path(2), zlib.compress(json.dumps({"format": 99, "number": 2}).encode())),
        (znodes.snapshot_part_path(0, 0), zlib.compress(json.dumps({"format": 99, "number": 0}).encode())),
    ],
)
def test_cluster_goes_on_when_a_stranger_writes_what_could_stand_there(path: str, data: bytes) -> None:
    async def main() -> None:
        tree = MemoryTree()
        brokers, before = await three(tree)
        await overwrite(tree, path, data)
        await check_survival(tree, brokers, before, path)

    run(main())


@pytest.mark.parametrize("path", [znodes.CONTROLLER, znodes.broker_path(2)])
def test_cluster_goes_on_when_a_strangers_node_stands_where_a_brokers_should(path: str) -> None:
    """The node stays when the stranger goes, so nobody would ever take its place."""

    async def main() -> None:
        tree = MemoryTree()
        brokers, before = await three(tree)
        stranger = MemoryStore(tree)
        await stranger.delete(path)
        await stranger.create(path, b"{}")
        await check_survival(tree, brokers, before, path)

    run(main())


def test_cluster_goes_on_when_epoch_and_controller_are_deleted_together() -> None:
    async def main() -> None:
        tree = MemoryTree()
        brokers, before = await three(tree)
        await MemoryStore(tree).transaction([Delete(znodes.CONTROLLER_EPOCH), Delete(znodes.CONTROLLER)])
        await check_survival(tree, brokers, before, znodes.CONTROLLER_EPOCH)

    run(main())


def test_controller_from_before_is_fenced_when_its_epoch_was_lost_and_written_again() -> None:
    """The node's version is the fence, and a new node counts from 0."""

    async def main() -> None:
        tree = MemoryTree()
        brokers, _ = await three(tree)
        first, second, _third = brokers
        version = tree.entries[znodes.CONTROLLER_EPOCH].version
        first.store.session.cut()  # it hears of nothing
        await delete(tree, znodes.CONTROLLER_EPOCH)
        await until(lambda: znodes.CONTROLLER_EPOCH in tree.entries)
        assert tree.entries[znodes.CONTROLLER_EPOCH].version > version
        await until(lambda: any(broker.metadata.is_controller for broker in brokers[1:]))
        await create_topic(brokers[1:], "b")
        first.store.session.heal()
        await agreed(*brokers)
        assert second.metadata.image.topics.keys() == {"before", "b"}

    run(main())


# ---------------------------------------------------------------------------------------------- with no broker alive


async def stopped() -> MemoryTree:
    tree = MemoryTree()
    brokers, _ = await three(tree)
    for broker in brokers:
        await broker.stop()
    return tree


@pytest.mark.parametrize("path", [znodes.CONTROLLER_EPOCH, znodes.BROKER_SEQUENCE, znodes.FEATURES, znodes.BROKERS])
def test_nothing_goes_back_when_a_node_was_deleted_while_no_broker_ran(path: str) -> None:
    async def main() -> None:
        tree = await stopped()
        before = await load_image(MemoryStore(tree))
        await delete(tree, path)
        broker = await TestBroker(tree, 2).start()
        image = broker.metadata.image
        assert image.controller_epoch > before.controller_epoch
        assert image.metadata_level == before.metadata_level
        known = max(each.epoch for each in before.registered.values())
        assert broker.metadata.broker_epoch > known or path == znodes.BROKERS
        await broker.stop()

    run(main())


def test_producer_ids_do_not_begin_anew_when_their_node_was_deleted_while_no_broker_ran() -> None:
    async def main() -> None:
        tree = await stopped()
        await delete(tree, znodes.PRODUCER_ID_BLOCK)
        broker = await TestBroker(tree, 2).start()
        clock: Clock = FixedClock()
        assert (await broker.metadata.allocate_producer_id_block()).first_producer_id == clock.now_ms() * 1_000
        await broker.stop()

    run(main())


def test_position_of_the_log_is_found_in_its_deltas_when_it_was_overwritten_while_no_broker_ran() -> None:
    async def main() -> None:
        tree = await stopped()
        before = await load_image(MemoryStore(tree))
        await overwrite(tree, znodes.LOG, b"nothing")
        broker = await TestBroker(tree, 2).start()
        assert broker.metadata.image.topics == before.topics
        assert broker.metadata.image.number > before.number
        await broker.stop()

    run(main())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (znodes.LOG, "the log of the metadata is missing, and no broker that runs knows where it stood: stop the"),
        (znodes.CLUSTER_ID, "start one broker with penstock.cluster.id"),
    ],
)
def test_start_says_what_is_missing_and_what_to_do_when_nobody_can_know_it(path: str, words: str) -> None:
    async def main() -> None:
        tree = await stopped()
        await delete(tree, path)
        with pytest.raises(StoreError, match=words) as error:
            await TestBroker(tree, 2).start()
        assert error.value.kind is StoreErrorKind.CORRUPT

    run(main())


def test_brokers_write_nothing_when_the_store_has_lost_everything(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tree = MemoryTree()
        brokers, _ = await three(tree)
        for broker in brokers:
            broker.store.session.cut()
        for path in [path for path, entry in tree.entries.items() if entry.owner is None and path != "/"]:
            await delete(tree, path)
        for broker in brokers:
            broker.store.session.expire()
            broker.store.session.heal()
        await until(lambda: caplog.text.count("bring a snapshot back") >= 3)
        assert tree.entries.keys() == {"/"}
        for broker in brokers:
            await asyncio.wait_for(broker.stop(), 10)

    run(main())

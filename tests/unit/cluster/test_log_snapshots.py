"""Snapshots of the metadata next to the log: when they are written, who reads them, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from penstock.cluster.controller.registration import term_of
from penstock.cluster.controller.snapshots import is_due, write_snapshot
from penstock.cluster.controller.writer import Writer
from penstock.cluster.decisions.decision import FullChange, NewTopic, TopicSelector
from penstock.cluster.decisions.features import FeatureUpdate
from penstock.cluster.deltas.delta import Replay
from penstock.cluster.deltas.encoding import decode_delta
from penstock.cluster.deltas.picture import picture_operations
from penstock.cluster.deltas.position import DELTAS_KEPT, LogPosition, SnapshotMark, decode_position, next_position
from penstock.cluster.deltas.snapshot import snapshot_parts
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.image_loader import StoredPosition, load, load_image
from penstock.cluster.levels import FEATURE, SNAPSHOT_LEVEL, SUPPORTED
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Check, Node, StoreError
from penstock.cluster.store.memory import LostAnswer, MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.core.limits import MAX_STORE_TRANSACTION_BYTES
from penstock.protocol.errors import ApiError
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.unit.cluster.brokers import WITH_NODES, TestBroker, agreed, controller, rested, started
from tests.unit.cluster.harness import run
from tests.unit.cluster.test_metadata_log import ZOOKEEPER
from tests.waiting import eventually

EMPTY = MetadataImage("cluster", metadata_level=SNAPSHOT_LEVEL)
MARK = SnapshotMark(5, 1, 100)
TOPIC = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)


def writer_of(image: MetadataImage) -> Writer:
    """That of a controller with ZooKeeper."""
    position = StoredPosition(LogPosition(image.number, snapshot=SnapshotMark(0, 1, 0)), 0)
    return Writer(MemoryStore(transaction_limit=ZOOKEEPER), Check(znodes.CONTROLLER_EPOCH, 0), position, lambda: "id")


def rules(count: int, first: int = 0) -> tuple[AclEntry, ...]:
    """Names that hardly compress."""
    random = Random(first)
    names = (f"User:{random.randbytes(20).hex()}" for _ in range(count))
    return tuple(AclEntry(name, "*", Operation.READ, Permission.ALLOW) for name in names)


def replayed(image: MetadataImage) -> MetadataImage:
    """From the parts of a snapshot, each of which fits."""
    follower = Replay(MetadataImage(image.cluster_id))
    for part in snapshot_parts(image):
        assert len(part) < MAX_STORE_TRANSACTION_BYTES
        follower.follow(decode_delta("/", part))
    return follower.image


def followed(old: MetadataImage, new: MetadataImage) -> MetadataImage:
    """By the deltas of the change, each of which fits."""
    follower, image = Replay(old), old
    for change in writer_of(old).plan(old, new):
        assert len(change.data) < MAX_STORE_TRANSACTION_BYTES
        follower.follow(decode_delta("/", change.data))
        image = change.image
    assert follower.image == image
    return image


def secured(acls: dict[ResourcePattern, tuple[AclEntry, ...]], number: int = 0) -> MetadataImage:
    return MetadataImage("cluster", metadata_level=SNAPSHOT_LEVEL, security=SecurityImage(acls=acls), number=number)


# ------------------------------------------------------------------------------------------------ how large


def test_twenty_thousand_rules_are_held_when_all_are_on_one_resource() -> None:
    many = secured({TOPIC: rules(20_000)})
    grown = followed(EMPTY, many)
    assert len(grown.security.acls[TOPIC]) == 20_000
    assert replayed(grown) == grown
    added = secured({TOPIC: (*rules(20_000), *rules(1, first=1))}, number=grown.number)
    (change,) = writer_of(grown).plan(grown, added)
    assert len(change.data) < 1_000, "a rule more costs a rule"
    without = secured({TOPIC: rules(20_000)[1:]}, number=grown.number)
    assert len(writer_of(grown).plan(grown, without)[0].data) < 1_000
    assert picture_operations(EMPTY, grown).left_out.keys() == {"/kafka-acl/Topic/orders"}


def test_hundred_thousand_rules_are_held_when_they_are_on_many_resources() -> None:
    entries = rules(10)
    resources = (
        ResourcePattern(ResourceType.TOPIC, f"topic-{number}", PatternType.LITERAL) for number in range(10_000)
    )
    image = secured(dict.fromkeys(resources, entries))
    assert followed(EMPTY, image).security == image.security
    assert replayed(image).security == image.security


def test_topic_grows_to_a_hundred_thousand_partitions_when_its_node_cannot_tell_of_them_any_more() -> None:
    states = tuple(PartitionState(index, (1, 2, 3), (1, 2, 3), 1) for index in range(100_000))
    topic = TopicImage("large", b"l" * 16, states)
    before = EMPTY.with_topics({"large": topic._replace(partitions=states[:10_000])})
    after = EMPTY.with_topics({"large": topic})
    assert followed(before, after).topics == after.topics
    assert replayed(after).topics == after.topics
    almost = EMPTY.with_topics({"large": topic._replace(partitions=states[:-1])})
    assert "/brokers/topics/large" in picture_operations(almost, after).left_out


# ------------------------------------------------------------------------------------------------ when, and for whom


@pytest.mark.parametrize(
    ("number", "size", "expected"),
    [(5, 0, False), (5 + DELTAS_KEPT - 1, 4_000_000, False), (5 + DELTAS_KEPT, 0, True), (6, 4_000_001, True)],
)
def test_snapshot_is_due_when_enough_came_since_the_last(number: int, size: int, expected: bool) -> None:
    assert is_due(LogPosition(number, snapshot=MARK, size=size)) is expected
    assert not is_due(LogPosition(number, size=size)), "below the level there are none"
    assert not is_due(LogPosition(6, snapshot=MARK._replace(size=9_000_000), size=8_000_000))


def test_delta_stays_when_no_snapshot_contains_it() -> None:
    position = LogPosition(5 + 2 * DELTAS_KEPT, 1, snapshot=MARK)
    for _ in range(10):
        position = next_position(position, 1, 1, size=10)
    assert (position.first, position.size) == (6, 100)


async def _alter(broker: TestBroker, count: int) -> None:
    for number in range(count):
        change = FullChange(4, "", (("log.retention.ms", str(1000 + number)),))
        await broker.metadata.alter_configs([change])


async def _position(store: MemoryStore) -> LogPosition:
    node = await store.read(znodes.LOG)
    assert node is not None
    return decode_position(node.data)


def test_log_goes_on_from_a_snapshot_when_a_thousand_deltas_have_come() -> None:
    async def main() -> None:
        tree = MemoryTree()
        (only,) = await started(tree, 1)
        await only.metadata.create_topics([NewTopic("t", 3, 1)])
        # What a controller has left that died while it wrote one.
        left = znodes.snapshot_path(7)
        await only.store.ensure_path(f"{left}/0000")
        await _alter(only, DELTAS_KEPT)

        async def is_named() -> bool:
            await _alter(only, 1)
            mark = (await _position(only.store)).snapshot
            names = await only.store.children(znodes.SNAPSHOTS)
            return mark is not None and mark.number > 0 and names == [f"{mark.number:010d}"]

        await eventually(is_named)
        await _alter(only, 100)
        position = await _position(only.store)
        assert position.first > DELTAS_KEPT // 100, "the log is trimmed"
        assert await load_image(MemoryStore(tree)) == only.metadata.image
        await only.stop()
        again = await TestBroker(tree, 1).start()
        assert again.metadata.image.topics.keys() == {"t"}

    run(main())


class ReplacingStore(MemoryStore):
    """The snapshot is replaced while its parts are read."""

    writer: Writer
    image: MetadataImage
    fence: Check

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        if any(path.startswith(f"{znodes.SNAPSHOTS}/0000000000/") for path in paths):
            position = self.writer.position
            mark = await write_snapshot(self, self.fence, self.image, position.snapshot)
            self.writer.offer_snapshot(mark, position.size)
            wanted = self.image.without_topics({"t"})
            (change,) = self.writer.plan(self.image, wanted)
            await self.writer.write(change)
            self.image = change.image
            await write_snapshot(self, self.fence, change.image, mark)  # removes the first
        return await super().read_many(paths)


def test_image_is_read_again_when_the_snapshot_was_replaced_meanwhile() -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1)
        await first.metadata.create_topics([NewTopic("t", 1, 1)])
        await first.stop()
        store = ReplacingStore(tree)
        store.image, stored = await load(MemoryStore(tree))
        store.fence = term_of(await store.read(znodes.CONTROLLER_EPOCH)).fence
        store.writer = Writer(store, store.fence, stored, lambda: "id")
        loaded = await load_image(store)
        assert loaded == store.image
        assert loaded.topics == {}

    run(main())


@pytest.mark.parametrize("when", LostAnswer)
def test_snapshot_is_named_once_when_the_answer_to_the_change_was_lost(when: LostAnswer) -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1)
        await first.metadata.create_topics([NewTopic("t", 1, 1)])
        await rested(first)
        active_controller = first.metadata._active_controller()
        assert active_controller is not None
        position = active_controller.writer.position
        mark = await write_snapshot(first.store, active_controller.term.fence, first.metadata.image, position.snapshot)
        active_controller.writer.offer_snapshot(mark, position.size)
        first.store.session.lose_answer(when)
        await first.metadata.delete_topics([TopicSelector("t")])
        assert (await _position(first.store)).snapshot == mark
        assert active_controller.writer.offered is None
        assert await load_image(MemoryStore(tree)) == first.metadata.image
        await _alter(first, 3)
        assert await load_image(MemoryStore(tree)) == first.metadata.image

    run(main())


def test_change_fails_and_nothing_is_lost_when_the_snapshot_that_it_names_was_removed() -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1)
        await first.metadata.create_topics([NewTopic("t", 1, 1)])
        active_controller = first.metadata._active_controller()
        assert active_controller is not None
        active_controller.writer.offer_snapshot(SnapshotMark(first.metadata.image.number, 1, 1), 0)
        with pytest.raises(ApiError):
            await _alter(first, 1)
        assert await load_image(MemoryStore(tree)) == first.metadata.image
        await _alter(first, 1)
        assert await load_image(MemoryStore(tree)) == first.metadata.image

    run(main())


# ------------------------------------------------------------------------------------------------ the rise


def test_brokers_go_on_when_the_level_rises_to_snapshots_under_them() -> None:
    async def main() -> None:
        tree = MemoryTree()
        brokers = await started(tree, 1, 2, 3, levels=WITH_NODES)
        await brokers[0].metadata.create_topics([NewTopic("t", 3, 2)])
        for place, node_id in enumerate((1, 2, 3)):
            await brokers[place].stop()
            brokers[place] = await TestBroker(tree, node_id).start()
            await agreed(*brokers)
        leader = controller(*brokers)
        assert (await _position(leader.store)).snapshot is None
        await leader.metadata.update_features([FeatureUpdate(FEATURE, SUPPORTED.highest)], {})
        await agreed(*brokers)
        mark = (await _position(leader.store)).snapshot
        assert mark is not None
        assert mark.number == leader.metadata.image.number - 1
        assert await load_image(MemoryStore(tree)) == leader.metadata.image
        await leader.metadata.create_topics([NewTopic("after", 3, 2)])
        await agreed(*brokers)

        async def is_drawn() -> bool:
            node, level = await leader.store.read_many(["/brokers/topics/after/partitions/2/state", znodes.FEATURES])
            return node is not None and level is not None and znodes.decode_features(level.data) == SUPPORTED.highest

        await eventually(is_drawn)
        await leader.stop()
        rest = [each for each in brokers if each is not leader]
        await eventually(lambda: _is_led(rest))
        await controller(*rest).metadata.delete_topics([TopicSelector("after")])
        await agreed(*rest)
        with pytest.raises(StoreError, match=r"format 3, .* reads format 2: update this broker"):
            await TestBroker(tree, 9, levels=WITH_NODES).start()

    run(main())


async def _is_led(brokers: Sequence[TestBroker]) -> bool:
    return any(each.metadata.is_controller for each in brokers)

"""Snapshots of a cluster's metadata: the text, the decisions of a restore, and the steps against a store."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cluster.controller.registration import register
from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.decisions.restore_decisions import (
    EPOCH_MARGIN,
    LogEnd,
    ReplicaPlace,
    decide_leaders,
    decide_restored,
    find_leaderless,
    find_unled,
)
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.image_loader import load, load_image
from penstock.cluster.metadata import Metadata
from penstock.cluster.producer_ids import allocate_producer_id_block
from penstock.cluster.snapshots.capture import take_snapshot
from penstock.cluster.snapshots.document import (
    Snapshot,
    SnapshotError,
    checksum_of,
    decode_snapshot,
    encode_snapshot,
)
from penstock.cluster.snapshots.restoration import (
    Restoration,
    RestorationState,
    encode_restoration,
    read_restoration,
)
from penstock.cluster.snapshots.restore import begin_restore, try_finish
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Delete, Node, Operation, Result, Store, StoreError
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.types import TopicPartition
from tests.unit.cluster import images
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, broker, choices, cluster, config, run

NOW_MS = 1_700_000_000_000


@given(images.histories())
def test_snapshot_is_the_same_when_it_was_written_and_read(history: list[MetadataImage]) -> None:
    image = history[-1]
    snapshot = Snapshot(image, 7, 12, znodes.ProducerIdBlock(1000, 1000), {"/somebody": b"x", "/odd": b"\xff\x00"})
    read = decode_snapshot(encode_snapshot(snapshot))
    assert read.image.topics == _without_partition_epochs(image)
    assert (read.image.group_configs, read.image.directories) == (image.group_configs, image.directories)
    assert read.image.security == image.security
    assert (read.controller_epoch, read.broker_sequence) == (7, 12)
    assert (read.producer_ids, read.other_nodes) == (snapshot.producer_ids, snapshot.other_nodes)
    assert checksum_of(read) == checksum_of(decode_snapshot(encode_snapshot(read)))


def _without_partition_epochs(image: MetadataImage) -> dict[str, TopicImage]:
    return {
        name: topic._replace(partitions=tuple(state._replace(partition_epoch=0) for state in topic.partitions))
        for name, topic in image.topics.items()
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "no whole snapshot"),
        (lambda text: text.replace('"cluster_id": "cluster"', '"cluster_id": "cluste2"'), "checksum"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "format 9"),
        (lambda text: text.replace("penstock cluster snapshot", "shopping list"), "shopping list"),
        (lambda _: "[]", "no snapshot of a cluster"),
    ],
)
def test_file_is_refused_when_it_is_not_what_was_written(change, message: str) -> None:  # type: ignore[no-untyped-def]
    text = encode_snapshot(Snapshot(cluster(), 1, 1)).decode()
    with pytest.raises(SnapshotError, match=message):
        decode_snapshot(change(text).encode())


# ---------------------------------------------------------------------------------------- who leads


def restored(*replicas: int, leader_epoch: int = 5) -> MetadataImage:
    state = PartitionState(0, replicas, replicas, replicas[0], leader_epoch, 9)
    image = replace(cluster(1, 2, 3), topics={"t": TopicImage("t", b"t" * 16, (state,))})
    return replace(decide_restored(image, 1), brokers=image.brokers)


def ends(**by_node: tuple[int, int]) -> dict[ReplicaPlace, LogEnd]:
    return {("t", 0, int(node[1:])): end for node, end in by_node.items()}


def test_epochs_go_up_and_in_sync_sets_are_forgotten_when_a_snapshot_is_restored() -> None:
    (state,) = restored(1, 2, 3).topics["t"].partitions
    assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (-1, (), 5 + EPOCH_MARGIN, 0)
    (alone,) = restored(2).topics["t"].partitions
    assert (alone.leader, alone.isr) == (-1, (2,))
    assert find_leaderless(restored(2)) == []
    assert find_unled(restored(2)) == {("t", 0): (2,)}


@pytest.mark.parametrize(
    ("told", "leader", "isr"),
    [
        (ends(n1=(5, 10), n2=(5, 10), n3=(5, 10)), 1, (1, 2, 3)),
        (ends(n1=(5, 10), n2=(5, 12), n3=(5, 12)), 2, (2, 3)),
        (ends(n1=(5, 99), n2=(6, 12), n3=(6, 11)), 2, (2,)),  # a longer log of an older epoch is behind
        (ends(n2=(5, 1), n3=(5, 2)), 3, (3,)),  # two of three have what two had to acknowledge
    ],
)
def test_replica_with_the_newest_log_leads_when_enough_have_told(
    told: dict[ReplicaPlace, LogEnd], leader: int, isr: tuple[int, ...]
) -> None:
    elected = decide_leaders(restored(1, 2, 3), told, {"t": 2})
    (state,) = elected.image.topics["t"].partitions
    assert (state.leader, state.isr, elected.waiting) == (leader, isr, {})
    assert (state.leader_epoch, state.partition_epoch) == (6 + EPOCH_MARGIN, 1)


def test_nobody_leads_when_too_few_replicas_have_told_unless_loss_is_accepted() -> None:
    image, told = restored(1, 2, 3), ends(n2=(5, 1))
    elected = decide_leaders(image, told, {"t": 2})
    assert elected.waiting == {("t", 0): (1, 3)}
    assert elected.image is image
    assert decide_leaders(image, {**told, **ends(n1=(5, 1))}, {}).waiting == {("t", 0): (3,)}
    (state,) = decide_leaders(image, told, {"t": 2}, accepts_loss=True).image.topics["t"].partitions
    assert state.leader == 2
    assert decide_leaders(image, {}, {"t": 2}, accepts_loss=True).waiting == {("t", 0): (1, 2, 3)}


def test_nobody_leads_when_an_empty_replica_has_told_and_another_has_not() -> None:
    image, told = restored(1, 2, 3), ends(n1=(-1, 0), n2=(-1, 0))
    elected = decide_leaders(image, told, {"t": 2})
    assert (elected.waiting, elected.image) == ({("t", 0): (3,)}, image)
    assert decide_leaders(image, ends(n1=(-1, 0), n2=(5, 1)), {"t": 2}).waiting == {("t", 0): (3,)}
    (state,) = decide_leaders(image, {**told, **ends(n3=(5, 9))}, {"t": 2}).image.topics["t"].partitions
    assert (state.leader, state.isr) == (3, (3,))
    (state,) = decide_leaders(image, {**told, **ends(n3=(-1, 0))}, {"t": 2}).image.topics["t"].partitions
    assert state.isr == (1, 2, 3)
    (state,) = decide_leaders(image, told, {"t": 2}, accepts_loss=True).image.topics["t"].partitions
    assert state.isr == (1, 2)


def test_term_is_above_every_log_when_logs_are_newer_than_the_margin() -> None:
    elected = decide_leaders(restored(1, 2), ends(n1=(9 * EPOCH_MARGIN, 4), n2=(3, 4)), {"t": 1})
    (state,) = elected.image.topics["t"].partitions
    assert (state.leader, state.leader_epoch) == (1, 9 * EPOCH_MARGIN + 1)


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, dict[int, list[int]], set[int], int]:
    """Replicas of a partition after terms of leaders that were elected in sync: (minimum, log of each as the epochs of
    its records, those that answer, offset up to which everything is acknowledged).
    """
    nodes = [1, 2, 3]
    minimum = draw(st.integers(1, 3))
    logs: dict[int, list[int]] = {node: [] for node in nodes}
    isr, acknowledged = set(nodes), 0
    for epoch in range(draw(st.integers(1, 5))):
        leader = draw(st.sampled_from(sorted(isr)))
        followers = draw(st.sets(st.sampled_from(nodes))) - {leader}
        for node in followers:  # truncation by epochs: what the leader does not have goes
            common = 0
            while common < min(len(logs[node]), len(logs[leader])) and logs[node][common] == logs[leader][common]:
                common += 1
            logs[node] = logs[leader][: max(common, draw(st.integers(common, max(common, len(logs[leader])))))]
        for _ in range(draw(st.integers(0, 3))):
            logs[leader].append(epoch)
        for node in followers:
            reached = draw(st.integers(len(logs[node]), max(len(logs[node]), len(logs[leader]))))
            if logs[node] == logs[leader][: len(logs[node])]:
                logs[node] = logs[leader][:reached]
        isr = {
            node for node in (isr & followers) | {leader} if logs[node][:acknowledged] == logs[leader][:acknowledged]
        }
        caught_up = {node for node in followers if logs[node] == logs[leader]}
        isr |= caught_up
        if len(isr) >= minimum:
            acknowledged = max(acknowledged, min(len(logs[node]) for node in isr))
    # Disks that were lost and are empty again; a record that was acknowledged is still on one of the others.
    for node in draw(st.sets(st.sampled_from(nodes), max_size=minimum - 1)):
        logs[node] = []
    answering = draw(st.sets(st.sampled_from(nodes), min_size=3 - minimum + 1))
    return minimum, logs, answering, acknowledged


@given(histories())
@example((3, {1: [], 2: [], 3: [0]}, {1, 2}, 1))
def test_leader_has_every_acknowledged_record_when_enough_replicas_have_told(
    history: tuple[int, dict[int, list[int]], set[int], int],
) -> None:
    minimum, logs, answering, acknowledged = history
    holders = [node for node in logs if len(logs[node]) >= acknowledged]
    told = {("t", 0, node): (logs[node][-1] if logs[node] else -1, len(logs[node])) for node in answering}
    elected = decide_leaders(restored(1, 2, 3), told, {"t": minimum})
    if elected.waiting:
        assert elected.waiting == {("t", 0): tuple(node for node in logs if node not in answering)}
        assert not all(logs[node] for node in answering)
        return
    (state,) = elected.image.topics["t"].partitions
    assert len(logs[state.leader]) >= acknowledged, (holders, logs)
    newest = max(logs.values(), key=lambda log: (log[-1] if log else -1, len(log)))
    assert logs[state.leader][:acknowledged] == newest[:acknowledged]
    for node in state.isr:
        assert logs[node] == logs[state.leader]


# ---------------------------------------------------------------------------------------- against a store


async def living_cluster(store: MemoryStore) -> Metadata:
    metadata = await Metadata.open(store, config(broker_id="1"), ENDPOINTS, FixedClock(), choices=choices())
    await metadata.create_topics([NewTopic("a", 2, 1), NewTopic("b", 1, 1, configs=(("retention.ms", "5"),))])
    await allocate_producer_id_block(store, 1, 0)
    await store.ensure_path("/somebody/elses/node")
    return metadata


async def restore(store: Store, snapshot: Snapshot, force: str | None = None, name: str = "r1") -> bool:
    return (await begin_restore(store, snapshot, checksum_of(snapshot), force, lambda: name)).was_there


def test_everything_is_there_again_when_a_snapshot_is_restored_into_an_empty_store() -> None:
    async def main() -> None:
        metadata = await living_cluster(MemoryStore(MemoryTree()))
        old, before = metadata._store, metadata.image
        snapshot = decode_snapshot(encode_snapshot(await take_snapshot(old, NOW_MS)))
        store = MemoryStore(MemoryTree())
        assert not await restore(store, snapshot)
        loaded = await load(store)
        assert loaded.image == decide_restored(snapshot.image, snapshot.controller_epoch)
        assert loaded.image.topics.keys() == before.topics.keys()
        assert loaded.image.number > before.number
        assert loaded.image.controller_epoch > before.controller_epoch
        block = await allocate_producer_id_block(store, 1, 0)
        assert block.first_producer_id > 1_000_000
        assert await store.read("/somebody/elses/node") is not None
        later = await Metadata.open(store, config(broker_id="1"), ENDPOINTS, FixedClock(), cluster_id="other")
        assert (later.restoration_id, later.image.cluster_id) == ("r1", before.cluster_id)
        assert later.broker_epoch > metadata.broker_epoch
        assert later.image.topics["b"].configs == {"retention.ms": "5"}
        assert {state.leader for topic in later.image.topics.values() for state in topic.partitions} == {1}
        await later.create_topics([NewTopic("c", 1, 1)])
        await later.close()
        await metadata.close()

    run(main())


def test_restore_is_refused_when_there_is_a_cluster_already() -> None:
    async def main() -> None:
        metadata = await living_cluster(MemoryStore(MemoryTree()))
        store, cluster_id = metadata._store, metadata.image.cluster_id
        snapshot = await take_snapshot(store, NOW_MS)
        with pytest.raises(SnapshotError, match=f"has cluster {cluster_id} already"):
            await restore(store, snapshot)
        with pytest.raises(SnapshotError, match="not another"):
            await restore(store, snapshot, "another")
        with pytest.raises(SnapshotError, match="brokers are registered"):
            await restore(store, snapshot, cluster_id)
        await metadata.leave()
        await metadata.close()
        await store.ensure_path("/config/topics/a/left")
        assert not await restore(store, snapshot, cluster_id)
        assert (await load_image(store)).topics.keys() == {"a", "b"}

    run(main())


def test_restore_goes_on_when_it_was_interrupted() -> None:
    async def main() -> None:
        snapshot = await take_snapshot((await living_cluster(MemoryStore(MemoryTree())))._store, NOW_MS)
        store = MemoryStore(MemoryTree())
        await store.ensure_path("/penstock")
        await store.ensure_path("/brokers/topics/half")
        await store.create(znodes.RESTORATION, encode_restoration(Restoration("r0", RestorationState.WRITING, "x")))
        with pytest.raises(StoreError, match="is under way"):
            await Metadata.load(store, config(broker_id="1", zookeeper_connection_timeout_ms="1"))
        assert not await restore(store, snapshot)
        assert await restore(store, snapshot)
        mark = await read_restoration(store)
        assert mark is not None
        assert (mark.restoration_id, mark.state) == ("r1", RestorationState.WAITING)

    run(main())


class Observant(MemoryStore):
    """`first` runs before the transaction that writes the mark; `marks` are those that were there at each removal."""

    def __init__(self, tree: MemoryTree, first: Callable[[], Awaitable[object]] | None = None) -> None:
        super().__init__(tree)
        self._first = first
        self.marks: list[Restoration | None] = []

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        if self._first is not None and operations[0].path == znodes.RESTORATION:
            first, self._first = self._first, None
            await first()
        if any(isinstance(each, Delete) for each in operations):
            self.marks.append(await read_restoration(self))
        return await super().transaction(operations)


def test_mark_is_there_when_the_first_node_is_removed() -> None:
    async def main() -> None:
        metadata = await living_cluster(MemoryStore(MemoryTree()))
        store, cluster_id = metadata._store, metadata.image.cluster_id
        assert isinstance(store, MemoryStore)
        snapshot = await take_snapshot(store, NOW_MS)
        await metadata.leave()
        observant = Observant(store._tree)
        assert not await restore(observant, snapshot, cluster_id)
        assert {mark.state for mark in observant.marks if mark is not None} == {RestorationState.WRITING}
        assert None not in observant.marks
        await metadata.close()

    run(main())


def test_restore_leaves_all_as_it_was_when_a_broker_comes_before_the_mark() -> None:
    async def main() -> None:
        metadata = await living_cluster(MemoryStore(MemoryTree()))
        store, image = metadata._store, metadata.image
        assert isinstance(store, MemoryStore)
        snapshot = await take_snapshot(store, NOW_MS)
        await metadata.leave()
        await metadata.close()
        other = MemoryStore(store._tree)
        observant = Observant(store._tree, lambda: register(other, broker(2), (), NOW_MS))
        with pytest.raises(SnapshotError, match="brokers are registered"):
            await restore(observant, snapshot, image.cluster_id)
        assert await read_restoration(observant) is None
        assert (await load_image(observant)).topics == image.topics

    run(main())


class Overtaken(MemoryStore):
    """A restore begins right after the mark was read for the first time."""

    async def read(self, path: str) -> Node | None:
        node = await super().read(path)
        if path == znodes.RESTORATION and node is None:
            await self.ensure_path("/penstock")
            await self.create(path, encode_restoration(Restoration("r0", RestorationState.WRITING, "x")))
        return node


def test_broker_does_not_trust_what_it_loaded_when_a_restore_began_meanwhile() -> None:
    async def main() -> None:
        with pytest.raises(StoreError, match="is under way"):
            await Metadata.load(Overtaken(MemoryTree()), config(broker_id="1", zookeeper_connection_timeout_ms="1"))

    run(main())


def test_producer_ids_begin_above_a_margin_when_the_snapshot_has_none() -> None:
    async def main() -> None:
        store = MemoryStore(MemoryTree())
        await restore(store, Snapshot(cluster(), 1, 1))
        assert (await allocate_producer_id_block(store, 1, 0)).first_producer_id > 1_000_000

    run(main())


def test_snapshot_is_refused_when_a_restore_writes() -> None:
    async def main() -> None:
        metadata = await living_cluster(MemoryStore(MemoryTree()))
        mark = Restoration("r0", RestorationState.WRITING, "x")
        await metadata._store.create(znodes.RESTORATION, encode_restoration(mark))
        with pytest.raises(StoreError, match="is under way"):
            await take_snapshot(metadata._store, NOW_MS)
        await metadata.close()

    run(main())


def test_broker_that_ran_through_a_restore_does_not_register() -> None:
    async def main() -> None:
        snapshot = await take_snapshot((await living_cluster(MemoryStore(MemoryTree())))._store, NOW_MS)
        store = MemoryStore(MemoryTree())
        await restore(store, snapshot)
        with pytest.raises(StoreError, match="restart the broker"):
            await register(store, broker(1), (), NOW_MS)
        registered = await register(store, broker(1), (), NOW_MS, "r1")
        assert registered.broker.epoch > snapshot.broker_sequence

    run(main())


def test_restore_is_finished_when_every_partition_has_a_leader() -> None:
    async def main() -> None:
        states = (PartitionState(0, (1, 2), (2,), 2, 3, 8), PartitionState(1, (1, 3), (1, 3), 1))
        image = replace(cluster(), topics={"t": TopicImage("t", b"t" * 16, states)})
        store = MemoryStore(MemoryTree())
        await restore(store, Snapshot(image, 1, 1))
        members = [await join(store, node_id) for node_id in (1, 2)]
        assert {member.find_leader(TopicPartition("t", 0)) for member in members} == {-1}
        elected = await try_finish(store, ends(n1=(3, 5)), {"t": 1}, NOW_MS)
        assert elected.waiting == {("t", 0): (2,), ("t", 1): (1, 3)}
        elected = await try_finish(store, ends(n1=(3, 5), n2=(3, 9)), {"t": 1}, NOW_MS)
        assert elected.waiting == {("t", 1): (1, 3)}
        (after, _) = elected.image.topics["t"].partitions
        assert (after.leader, after.isr) == (2, (2,))
        members.append(await join(store, 3))  # a controller is there, and counts it
        told = {("t", 1, 1): (0, 4), ("t", 1, 3): (0, 4)}
        elected = await try_finish(store, told, {"t": 1}, NOW_MS)
        assert elected.waiting == {}
        first, second = (await load_image(store)).topics["t"].partitions
        assert (first, second.leader, second.isr) == (after, 1, (1, 3))
        mark = await read_restoration(store)
        assert mark is not None
        assert mark.state is RestorationState.FINISHED
        assert find_unled(elected.image) == {}
        assert await restore(store, Snapshot(image, 1, 1))  # it is done, and nothing is written again
        assert await read_restoration(store) == mark
        await store.close()
        for member in reversed(members):
            await member.close()

    run(main())


async def join(store: MemoryStore, node_id: int) -> Metadata:
    return await Metadata.open(MemoryStore(store._tree), config(broker_id=str(node_id)), ENDPOINTS, FixedClock())


def test_person_can_read_the_snapshot() -> None:
    document = json.loads(encode_snapshot(Snapshot(restored(1, 2), 1, 1, taken_at="2026-01-01T00:00:00+00:00")))
    assert document["cluster"]["topics"]["t"]["partitions"][0]["replicas"] == [1, 2]
    assert document["taken_at"].startswith("2026")


def test_snapshot_knows_every_part_of_the_metadata() -> None:
    """Whoever adds one decides what becomes of it in a snapshot, and adds it here and in `snapshots.document`."""
    assert {field.name for field in fields(MetadataImage)} == {
        *("cluster_id", "controller_id", "controller_epoch", "brokers", "topics", "broker_configs"),
        *("default_broker_config", "group_configs", "directories", "away", "security", "metadata_level", "number"),
    }
    assert TopicImage._fields == ("name", "topic_id", "partitions", "configs")
    assert PartitionState._fields == (
        *("partition", "replicas", "isr", "leader", "leader_epoch", "partition_epoch", "adding", "removing"),
    )

"""Damage to the log and its snapshot that an election, a change or a start would meet much later."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from penstock.cluster.controller.lost_log import mend_log
from penstock.cluster.controller.registration import ensure_cluster
from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.deltas.position import decode_position, encode_position
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.patience import load_patiently
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Check, CompareAndSet, Node, StoreError, StoreErrorKind
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.protocol.errors import ApiError, ErrorCode
from tests.own_time import pass_time, run_in_own_time
from tests.unit.cluster.brokers import TestBroker, agreed
from tests.unit.cluster.harness import config
from tests.waiting import eventually, until

HASTY_S = 0.05


async def make_topics(broker: TestBroker, *names: str) -> None:
    for name in names:
        (result,) = await broker.metadata.create_topics([NewTopic(name, 1, 1)])
        assert not result.code


async def until_made(broker: TestBroker, name: str) -> None:
    async def is_made() -> bool:
        with contextlib.suppress(ApiError, StoreError):
            await broker.metadata.create_topics([NewTopic(name, 1, 1)])
        return name in broker.metadata.image.topics

    await eventually(is_made)


async def fence_of(store: MemoryStore) -> Check:
    node = await store.read(znodes.CONTROLLER_EPOCH)
    assert node is not None
    return Check(znodes.CONTROLLER_EPOCH, node.version)


@pytest.mark.parametrize("damage", ["nonsense", "another delta", "a child below it"])
def test_changes_go_on_and_a_broker_starts_when_somebody_was_among_the_deltas(damage: str) -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start(inspection_s=HASTY_S)
        await make_topics(broker, "a", "b")
        stranger, path = MemoryStore(tree), znodes.delta_path(2)
        if damage == "a child below it":
            await stranger.create(f"{path}/child")
        else:
            data = tree.entries[znodes.delta_path(3)].data if damage == "another delta" else b"nothing"
            await stranger.delete(path)
            await stranger.create(path, data)
            await until(lambda: broker.metadata.image.number > 1_000)
        await until(lambda: broker.metadata.is_controller)
        await make_topics(broker, "c")
        newcomer = await TestBroker(tree, 2).start()
        assert newcomer.metadata.image.topics.keys() == {"a", "b", "c"}
        await newcomer.stop()
        await broker.stop()

    run_in_own_time(main())


def test_acknowledged_changes_stay_when_the_elected_broker_is_behind_and_the_position_is_unreadable() -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        await make_topics(broker, "old")
        behind = broker.metadata.image
        await make_topics(broker, "acknowledged")
        await broker.stop()
        store = MemoryStore(tree)
        await store.transaction([CompareAndSet(znodes.LOG, b"nonsense")])
        await mend_log(store, await fence_of(store), behind, 3)
        assert (await load_image(store)).topics.keys() == {"old", "acknowledged"}

    run_in_own_time(main())


def test_nothing_is_written_when_the_elected_broker_is_behind_and_a_delta_is_missing() -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        await make_topics(broker, "old")
        behind = broker.metadata.image
        await make_topics(broker, "acknowledged", "later")
        await broker.stop()
        store = MemoryStore(tree)
        await store.delete(znodes.delta_path(behind.number + 1))
        for is_readable in (True, False):
            if not is_readable:
                await store.transaction([CompareAndSet(znodes.LOG, b"nonsense")])
            before = tree.entries[znodes.LOG].data
            with pytest.raises(StoreError, match="which this broker has not seen") as raised:
                await mend_log(store, await fence_of(store), behind, 3)
            assert raised.value.kind is StoreErrorKind.CORRUPT
            assert tree.entries[znodes.LOG].data == before

    run_in_own_time(main())


def test_another_broker_is_elected_when_the_first_one_does_not_know_what_is_missing() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, knowing, behind = [await TestBroker(tree, node_id).start() for node_id in (1, 2, 3)]
        await agreed(first, knowing, behind)
        async with behind.metadata.publisher.turn:  # it does not follow
            await make_topics(first, "t")
            await until(lambda: "t" in knowing.metadata.image.topics)
            await MemoryStore(tree).delete(znodes.delta_path(first.metadata.image.number))
            async with knowing.metadata.publisher.turn:  # it takes no office
                await first.metadata.leave()
                await pass_time(1)
        await until(lambda: knowing.metadata.is_controller)
        await until(lambda: "t" in behind.metadata.image.topics)
        for broker in (knowing, behind):
            await broker.stop()

    run_in_own_time(main())


@pytest.mark.parametrize("damage", ["the next delta is there", "the position was set back"])
def test_changes_go_on_when_somebody_has_written_to_the_log(damage: str) -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        await make_topics(broker, "a", "b")
        stranger, number = MemoryStore(tree), broker.metadata.image.number
        if damage == "the next delta is there":
            await stranger.create(znodes.delta_path(number + 1), b"nothing")
        else:
            position = decode_position(tree.entries[znodes.LOG].data)
            data = encode_position(position._replace(number=number - 1), broker.metadata.image.metadata_level)
            await stranger.transaction([CompareAndSet(znodes.LOG, data)])
        await until_made(broker, "c")
        newcomer = await TestBroker(tree, 2).start()
        assert newcomer.metadata.image.topics.keys() == {"a", "b", "c"}
        await newcomer.stop()
        await broker.stop()

    run_in_own_time(main())


class Founded(MemoryStore):
    """Another broker founds the cluster after the first question of this one."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.other = MemoryStore(tree)
        self.is_founded = False

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        answer = await super().read_many(paths)
        if not self.is_founded:
            self.is_founded = True
            await ensure_cluster(self.other, config().identity, "another")
        return answer


def test_client_is_sent_to_the_next_controller_when_a_strangers_node_is_in_the_way_of_a_change() -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        await make_topics(broker, "a")
        await MemoryStore(tree).create(znodes.delta_path(broker.metadata.image.number + 1), b"nothing")
        with pytest.raises(ApiError) as caught:
            await make_topics(broker, "b")
        assert caught.value.code is ErrorCode.NOT_CONTROLLER  # clients, and brokers that pass requests on, ask again
        assert "b" not in broker.metadata.image.topics
        await until(lambda: broker.metadata.is_controller)
        await make_topics(broker, "b")
        await broker.stop()

    run_in_own_time(main())


def test_a_broker_starts_when_another_one_founds_the_cluster_meanwhile() -> None:
    async def main() -> None:
        tree = MemoryTree()
        store = Founded(tree)
        await ensure_cluster(store, config().identity, "own")
        assert (await load_image(store)).cluster_id == "another"

    run_in_own_time(main())


async def lose_snapshot(tree: MemoryTree) -> str:
    mark = decode_position(tree.entries[znodes.LOG].data).snapshot
    assert mark is not None
    path = znodes.snapshot_part_path(mark.number, 0)
    await MemoryStore(tree).delete(path)
    return path


def test_broker_that_starts_waits_when_the_controller_is_about_to_mend_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start(inspection_s=HASTY_S)
        await make_topics(broker, "a")
        path = await lose_snapshot(tree)
        newcomer = await TestBroker(tree, 2).start()
        assert newcomer.metadata.image.topics.keys() == {"a"}
        (told,) = [record.getMessage() for record in caplog.records if "waiting up to" in record.getMessage()]
        assert "the controller" in told
        assert path in told
        for each in (newcomer, broker):
            await each.stop()

    run_in_own_time(main())


@pytest.mark.parametrize("is_anybody_there", [True, False])
def test_start_ends_with_what_is_missing_when_nobody_mends_the_log(is_anybody_there: bool) -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        path = await lose_snapshot(tree)
        if not is_anybody_there:
            await broker.stop()
        store = MemoryStore(tree, session_timeout_ms=300)
        loads = 0

        async def load() -> MetadataImage:
            nonlocal loads
            loads += 1
            return await load_image(store)

        with pytest.raises(StoreError, match="the log needs it") as caught:
            await load_patiently(load, store, 0.0, mending_s=0.01)
        assert caught.value.path == path
        assert loads == (2 if is_anybody_there else 1)
        if is_anybody_there:
            await broker.stop()

    run_in_own_time(main())


class LateLoop(asyncio.SelectorEventLoop):
    """Its clock can be put forward."""

    late_s = 0.0

    def time(self) -> float:
        return super().time() + self.late_s


def test_start_goes_on_when_the_store_is_away_for_a_moment_while_the_log_is_mended() -> None:
    patience_s = 60.0
    loop = LateLoop()

    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        store = MemoryStore(tree)
        lost = StoreError(StoreErrorKind.UNAVAILABLE, "", "the connection was lost")
        missing = StoreError(StoreErrorKind.CORRUPT, f"{znodes.SNAPSHOTS}/1", "the node is missing")
        answers = iter([missing, lost])

        async def load() -> str:
            await asyncio.sleep(0)
            error = next(answers, None)
            if error is missing:
                loop.late_s += patience_s  # the patience of the beginning is over when the log is found damaged
            if error is not None:
                raise error
            return "the metadata"

        assert await load_patiently(load, store, patience_s, mending_s=patience_s) == "the metadata"
        await broker.stop()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from penstock.cluster.decisions.decision import (
    FullChange,
    IncrementalChange,
    NewPartitions,
    NewTopic,
    RequestedChange,
    TopicSelector,
)
from penstock.cluster.decisions.internal_topics import internal_topic
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.interface import Operation, Result, Store, StoreError, StoreErrorKind
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.cluster.store.sqlite import SqliteStore
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, choices, config, run


async def opened(store: Store, broker: BrokerConfig | None = None, *, clean: bool = True) -> Metadata:
    metadata = await Metadata.load(store, broker or config(), choices=choices())
    before = metadata.image.brokers.get(metadata.config.identity.node_id)
    await metadata.join(ENDPOINTS, FixedClock(), previous_epoch=before.epoch if before and clean else None)
    return metadata


def with_metadata(test: Callable[[Metadata, Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = MemoryStore()
        metadata = await opened(store)
        await test(metadata, store)
        assert await load_image(store) == metadata.image, "memory and store agree after every test"
        await metadata.close()
        await store.close()

    run(main())


class FailingStore(MemoryStore):
    """Refuses transactions with `error` while it is set; waits for `gate` where there is one."""

    error: StoreError | None = None
    gate: asyncio.Event | None = None

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await super().transaction(operations)


def test_broker_is_registered_and_controller_when_the_cluster_is_new() -> None:
    async def test(metadata: Metadata, store: Store) -> None:
        image = metadata.image
        assert metadata.is_controller
        assert (image.controller_id, image.controller_epoch) == (1, 1)
        assert image.brokers[1].endpoints == ENDPOINTS
        assert len(image.cluster_id) == 22
        assert await store.children("/brokers") == ["ids", "seqid", "topics"]

    with_metadata(test)


def test_cluster_id_is_the_given_one_when_the_cluster_is_new() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first = MemoryStore(tree)
        metadata = await Metadata.open(first, config(), ENDPOINTS, FixedClock(), cluster_id="from-meta-properties")
        assert metadata.image.cluster_id == "from-meta-properties"
        await first.close()
        again = await opened(MemoryStore(tree), config(penstock_cluster_id="another"))
        assert again.image.cluster_id == "from-meta-properties"
        other = await Metadata.open(
            MemoryStore(), config(penstock_cluster_id="mine"), ENDPOINTS, FixedClock(), cluster_id="x"
        )
        assert other.image.cluster_id == "mine"

    run(main())


def test_everything_is_there_again_when_the_broker_restarts(tmp_path: Path) -> None:
    async def first_life() -> MetadataImage:
        store = await SqliteStore.open(tmp_path / "metadata.db")
        metadata = await opened(store)
        await metadata.create_topics([NewTopic("a", 3, 1, configs=(("retention.ms", "5"),)), NewTopic("b", 1, 1)])
        await metadata.create_partitions([NewPartitions("b", 2)])
        await metadata.delete_topics([TopicSelector("a")])
        await metadata.create_topics([NewTopic("a", 1, 1)])
        change = IncrementalChange(4, "", (RequestedChange("log.retention.ms", 0, "77"),))
        of_group = IncrementalChange(32, "a/group", (RequestedChange("consumer.session.timeout.ms", 0, "50000"),))
        await metadata.incremental_alter_configs([change, of_group])
        await metadata.close()
        await store.close()
        return metadata.image

    async def second_life() -> MetadataImage:
        store = await SqliteStore.open(tmp_path / "metadata.db")
        metadata = await opened(store)
        assert metadata.config.topic_config({})["retention.ms"] == 77
        await metadata.close()
        await store.close()
        return metadata.image

    before, after = run(first_life()), run(second_life())
    assert after.topics == before.topics
    assert after.default_broker_config == {"log.retention.ms": "77"}
    assert after.group_configs == {"a/group": {"consumer.session.timeout.ms": "50000"}}
    assert after.cluster_id == before.cluster_id
    assert after.controller_epoch == before.controller_epoch + 1
    assert after.brokers[1].epoch > before.brokers[1].epoch


@pytest.mark.parametrize(("clean", "leader_epoch"), [(True, 0), (False, 1)])
def test_leader_epochs_go_up_when_the_shutdown_was_not_clean(clean: bool, leader_epoch: int) -> None:
    async def main() -> None:
        tree = MemoryTree()
        store = MemoryStore(tree)
        metadata = await opened(store)
        await metadata.create_topics([NewTopic("a", 2, 1)])
        await store.close()
        again = MemoryStore(tree)
        metadata = await opened(again, clean=clean)
        assert {state.leader_epoch for state in metadata.image.topics["a"].partitions} == {leader_epoch}
        assert (await load_image(again)).topics == metadata.image.topics

    run(main())


def test_listener_sees_old_and_new_image_when_something_changes() -> None:
    async def test(metadata: Metadata, _store: Store) -> None:
        seen: list[tuple[set[str], set[str]]] = []
        stop = metadata.subscribe(lambda old, new: seen.append((set(old.topics), set(new.topics))))
        await metadata.create_topics([NewTopic("a", 1, 1)])
        await metadata.create_topics([NewTopic("a", 1, 1)])
        await metadata.create_topics([NewTopic("b", 1, 1)], validate_only=True)
        await metadata.delete_topics([TopicSelector("a")])
        assert seen == [(set(), {"a"}), ({"a"}, set())]
        stop()
        await metadata.create_topics([NewTopic("c", 1, 1)])
        assert len(seen) == 2

    with_metadata(test)


def test_the_next_change_waits_when_one_is_prepared_and_settled() -> None:
    async def test(metadata: Metadata, _store: Store) -> None:
        seen: list[str] = []

        async def prepare(_old: MetadataImage, new: MetadataImage) -> None:
            seen.append(f"prepare {sorted(new.topics)}, served {sorted(metadata.image.topics)}")
            await asyncio.sleep(0)
            seen.append("prepared")

        async def settle() -> None:
            await asyncio.sleep(0)
            seen.append("settled")

        metadata.subscribe(lambda _old, new: seen.append(f"apply {sorted(new.topics)}"), prepare, settle)
        await asyncio.gather(*(metadata.create_topics([NewTopic(name, 1, 1)]) for name in "ab"))
        assert seen == [
            *("prepare ['a'], served []", "prepared", "apply ['a']", "settled"),
            *("prepare ['a', 'b'], served ['a']", "prepared", "apply ['a', 'b']", "settled"),
        ]

    with_metadata(test)


async def fail() -> None:
    raise OSError("a fault of ours")


def test_others_abandon_and_the_client_is_told_why_when_abandoning_a_refused_change_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        store = FailingStore()
        metadata = await opened(store)
        seen: list[str] = []

        async def abandon() -> None:
            seen.append("abandoned")

        metadata.subscribe(lambda _old, _new: None, abandon=fail)
        metadata.subscribe(lambda _old, _new: None, abandon=abandon)
        store.error = StoreError(StoreErrorKind.TOO_LARGE, "/x")
        with pytest.raises(ApiError) as error:
            await metadata.create_topics([NewTopic("a", 1, 1)])
        assert error.value.code is ErrorCode.POLICY_VIOLATION
        assert seen == ["abandoned"]

    run(main())
    assert "abandoning a change failed" in caplog.text


def test_others_settle_and_the_client_is_told_of_the_change_when_settling_it_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(metadata: Metadata, _store: Store) -> None:
        seen: list[str] = []

        async def settle() -> None:
            seen.append("settled")

        metadata.subscribe(lambda _old, _new: None, settle=fail)
        metadata.subscribe(lambda _old, _new: None, settle=settle)
        (result,) = await metadata.create_topics([NewTopic("a", 1, 1)])
        assert result.code is ErrorCode.NONE
        assert seen == ["settled"]

    with_metadata(test)
    assert "settling a change failed" in caplog.text


def test_others_follow_and_the_client_is_told_of_the_change_when_a_listener_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def listen(_old: MetadataImage, _new: MetadataImage) -> None:
        raise OSError("a fault of ours")

    async def test(metadata: Metadata, _store: Store) -> None:
        seen: list[str] = []
        metadata.subscribe(listen)
        metadata.subscribe(lambda _old, new: seen.extend(new.topics))
        (result,) = await metadata.create_topics([NewTopic("a", 1, 1)])
        assert result.code is ErrorCode.NONE
        assert seen == ["a"]

    with_metadata(test)
    assert "following a change of the metadata failed" in caplog.text


def test_config_in_effect_follows_when_a_dynamic_setting_changes() -> None:
    async def test(metadata: Metadata, _store: Store) -> None:
        await metadata.create_topics([NewTopic("a", 1, 1, configs=(("segment.ms", "9"),))])
        heard: list[object] = []
        metadata.subscribe(lambda _old, _new: heard.append(metadata.config.get("message.max.bytes")))
        await metadata.alter_configs([FullChange(4, "1", (("message.max.bytes", "1000"),))])
        await metadata.alter_configs([FullChange(4, "", (("message.max.bytes", "2000"),))])
        assert heard == [1000, 1000]
        settings = metadata.log_settings("a")
        assert (settings.max_message_bytes, settings.segment_ms) == (1000, 9)
        assert metadata.log_settings("no-such-topic").max_message_bytes == 1000
        await metadata.alter_configs([FullChange(4, "1", ())])
        assert metadata.config.get("message.max.bytes") == 2000
        await metadata.alter_configs([FullChange(2, "a", ())])
        assert metadata.log_settings("a").segment_ms == 604_800_000

    with_metadata(test)


def test_broker_starts_when_a_stored_dynamic_setting_no_longer_fits(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tree = MemoryTree()
        store = MemoryStore(tree)
        metadata = await opened(store)
        settings = (("log.retention.ms", "5"), ("log.cleaner.min.compaction.lag.ms", "50"))
        await metadata.alter_configs([FullChange(4, "", settings)])
        await store.compare_and_set("/config/brokers/1", b'{"version":1,"config":{"message.max.bytes":"x"}}', None)
        await store.close()
        metadata = await opened(MemoryStore(tree))
        assert metadata.config.topic_config({})["retention.ms"] == 5
        await metadata._store.close()
        # A conflict of two keys names neither, so all dynamic settings go.
        conflicting = config(log_cleaner_max_compaction_lag_ms="10")
        assert (await opened(MemoryStore(tree), conflicting)).config.topic_config({})["retention.ms"] == 604_800_000

    run(main())
    assert "dynamic setting in the metadata store is ignored" in caplog.text


def test_only_one_wins_when_a_topic_is_created_many_times_at_once() -> None:
    async def test(metadata: Metadata, _store: Store) -> None:
        answers = await asyncio.gather(*(metadata.create_topics([NewTopic("a", 1, 1)]) for _ in range(10)))
        codes = sorted(int(result.code) for (result,) in answers)
        assert codes == [0] + [36] * 9

    with_metadata(test)


def test_change_is_completed_when_the_client_has_gone_away() -> None:
    async def main() -> None:
        store = FailingStore()
        metadata = await opened(store)
        store.gate = asyncio.Event()
        request = asyncio.ensure_future(metadata.create_topics([NewTopic("a", 1, 1)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        store.gate.set()
        await metadata.close()
        assert metadata.image.topics.keys() == {"a"}
        assert (await load_image(store)).topics == metadata.image.topics

    run(main())


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (StoreErrorKind.NOT_WRITABLE, ErrorCode.KAFKA_STORAGE_ERROR),
        (StoreErrorKind.UNAVAILABLE, ErrorCode.NOT_CONTROLLER),
        (StoreErrorKind.BAD_VERSION, ErrorCode.NOT_CONTROLLER),
        (StoreErrorKind.TOO_LARGE, ErrorCode.POLICY_VIOLATION),
        (StoreErrorKind.CORRUPT, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_image_stays_when_the_store_refuses_the_change(kind: StoreErrorKind, code: ErrorCode) -> None:
    async def main() -> None:
        store = FailingStore()
        metadata = await opened(store)
        heard: list[object] = []
        metadata.subscribe(lambda old, new: heard.append((old, new)))
        store.error = StoreError(kind, "/x")
        with pytest.raises(ApiError) as error:
            await metadata.create_topics([NewTopic("a", 1, 1)])
        assert error.value.code is code
        assert (dict(metadata.image.topics), heard) == ({}, [])
        store.error = None
        ((_, good, _, _),) = await metadata.create_topics([NewTopic("a", 1, 1)])
        assert good is ErrorCode.NONE

    run(main())


def test_changes_are_refused_when_another_broker_is_the_controller() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first = await opened(MemoryStore(tree))
        second = await opened(MemoryStore(tree), config(node_id="2"))
        assert (first.is_controller, second.is_controller) == (True, False)
        assert second.image.controller_id == 1
        assert second.image.brokers.keys() == {1, 2}
        with pytest.raises(ApiError) as error:
            await second.create_topics([NewTopic("a", 1, 1)])
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        assert (await second.allocate_producer_id_block()).first_producer_id == 0
        assert (await first.allocate_producer_id_block()).first_producer_id == 1000

    run(main())


def test_change_is_fenced_when_another_controller_was_elected_meanwhile() -> None:
    async def main() -> None:
        tree = MemoryTree()
        zombie = await opened(MemoryStore(tree))
        other = MemoryStore(tree)
        await other.compare_and_set("/controller_epoch", b"2", None)
        with pytest.raises(ApiError) as error:
            await zombie.create_topics([NewTopic("a", 1, 1)])
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        assert (await load_image(other)).topics == {}

    run(main())


def test_start_is_refused_when_the_node_id_is_taken() -> None:
    async def main() -> None:
        tree = MemoryTree()
        await opened(MemoryStore(tree))
        with pytest.raises(StoreError, match=r"node\.id 1 is already running"):
            await opened(MemoryStore(tree))

    run(main())


def test_start_is_refused_with_the_node_when_the_store_is_incomplete() -> None:
    async def main() -> None:
        tree = MemoryTree()
        store = MemoryStore(tree)
        metadata = await opened(store)
        await metadata.create_topics([NewTopic("a", 2, 1)])
        await store.delete("/penstock/snapshots/0000000000/0000")
        await store.close()
        with pytest.raises(StoreError, match="/penstock/snapshots/0000000000/0000: the node is missing"):
            await opened(MemoryStore(tree))

    run(main())


def test_internal_topics_have_no_more_replicas_than_brokers_when_created() -> None:
    async def test(metadata: Metadata, _store: Store) -> None:
        wanted = [internal_topic(name, metadata.config, 1) for name in (CONSUMER_OFFSETS, TRANSACTION_STATE)]
        results = await metadata.create_topics(wanted)
        assert [result.code for result in results] == [ErrorCode.NONE, ErrorCode.NONE]
        offsets = metadata.image.topics[CONSUMER_OFFSETS]
        assert (len(offsets.partitions), offsets.replication_factor, offsets.is_internal) == (50, 1, True)
        assert offsets.configs["cleanup.policy"] == "compact"
        assert metadata.image.topics[TRANSACTION_STATE].configs["min.insync.replicas"] == "1"

    with_metadata(test)


def test_internal_topics_are_as_configured_when_there_are_enough_brokers() -> None:
    broker = config(offsets_topic_segment_bytes="100", offsets_topic_num_partitions="7")
    offsets = internal_topic(CONSUMER_OFFSETS, broker, 5)
    assert (offsets.partition_count, offsets.replication_factor) == (7, 3)
    assert dict(offsets.configs)["segment.bytes"] == "1048576"
    assert dict(internal_topic(TRANSACTION_STATE, broker, 5).configs)["min.insync.replicas"] == "2"

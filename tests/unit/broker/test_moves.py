"""AlterReplicaLogDirs in a broker with several data directories."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

from penstock.broker.authorizer import AllowEverything, Operation, ResourceType
from penstock.broker.partitions.moves import Moves, throttled
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.session import RequestContext
from penstock.broker.topic_creation import delete_topic
from penstock.cluster.image import PartitionState
from penstock.cluster.store.sqlite import SqliteStore
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import TopicCounters
from penstock.core.types import TopicPartition
from penstock.log.directories.checkpoint_write import CheckpointCapture
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.testing.clock import ManualClock
from penstock.testing.disks.faulty_files import FaultyFiles
from proof.simulation.loop_guard import BLOCKING
from tests.own_time import pass_time, run_in_own_time
from tests.unit.broker.harness import EMPTY, NODE, image, topic_image
from tests.unit.broker.served import Served, serving
from tests.unit.log.support import NOW, SMALL, append, batch, read_all
from tests.unit.log.test_log_directories import opened
from tests.waiting import eventually, until

VERSION = 2


class Disks:
    """Three data directories of one broker."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.all = [path / name for name in "abc"]
        self.properties = {"log.dirs": ",".join(map(str, self.all))}

    def of(self, name: str) -> list[str]:
        return [path.name for path in self.all if (path / name).is_dir()]


async def alter(served: Served, path: Path | str, *partitions: tuple[str, int]) -> list[int]:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=[index]) for name, index in partitions]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=topics)])
    response = await served.ask(request, VERSION)
    return [each.error_code for result in response.results for each in result.partitions]


async def described(served: Served) -> dict[str, list[tuple[str, int, bool]]]:
    response = await served.ask(DescribeLogDirsRequest(topics=None), 4)
    return {
        Path(result.log_dir).name: [
            (topic.name, each.partition_index, each.is_future_key)
            for topic in result.topics
            for each in topic.partitions
        ]
        for result in response.results
    }


async def settled(served: Served) -> None:
    """All moves come to their end; the checkpoints that they wait for are written."""
    while len(served.broker.moves):
        await pass_time(0.01)
        served.broker.directories.write_checkpoints()


def fill(served: Served, name: str, count: int = 20) -> None:
    partition = served.broker.partitions.find(name, 0)
    assert partition is not None
    append(partition.log, *(batch(f"{number}", timestamp=NOW) for number in range(count)))


def values_of(served: Served, name: str) -> list[str]:
    partition = served.broker.partitions.find(name, 0)
    assert partition is not None
    return [value for _, value in read_all(partition.log)]


def rest_after_a_step(served: Served, rest_ms: int, then_ms: int = 0) -> asyncio.Event:
    """Moves rest for so long after each step that copied something, and then for so long. The event: one rests."""
    resting = asyncio.Event()

    def pace(size: int) -> int:
        if size:
            resting.set()
        return rest_ms if size else then_ms

    served.broker.moves.pace = pace
    return resting


def test_replica_is_shown_as_future_and_then_in_its_new_directory_when_a_client_moves_it(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders")
            assert disks.of("orders-0") == ["a"]
            assert await alter(served, disks.all[1], ("orders", 0)) == [ErrorCode.NONE]
            shown = await described(served)
            assert shown == {"a": [("orders", 0, False)], "b": [("orders", 0, True)], "c": []}
            await settled(served)
            assert await described(served) == {"a": [], "b": [("orders", 0, False)], "c": []}
            assert disks.of("orders-0") == ["b"]
            assert len(values_of(served, "orders")) == 20

    run_in_own_time(scenario())


def test_lag_of_a_future_replica_is_what_its_copy_misses_when_it_is_described(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders")
            await alter(served, disks.all[1], ("orders", 0))
            lags = []
            for _ in range(2):
                response = await served.ask(DescribeLogDirsRequest(topics=None), 4)
                (copy,) = response.results[1].topics[0].partitions
                lags.append((copy.offset_lag, copy.partition_size > 0))
                await until(lambda: next(iter(served.broker.moves)).offset_lag == 0)
            assert lags == [(20, False), (0, True)]

    run_in_own_time(scenario())


def test_errors_are_those_of_kafka_when_a_replica_cannot_move(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            await served.create("o" * 230)
            a, b, c = disks.all
            assert await alter(served, tmp_path / "d", ("orders", 0)) == [ErrorCode.LOG_DIR_NOT_FOUND]
            assert await alter(served, b, ("orders", 1)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert await alter(served, b, ("unknown", 0)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert await alter(served, b, ("o" * 230, 0)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
            served.broker.directories.take_directory_offline(c, "for a test")
            assert await alter(served, c, ("orders", 0)) == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert await alter(served, b, ("orders", 0)) == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert await alter(served, a, ("orders", 0)) == [ErrorCode.NONE]

    run_in_own_time(scenario())


class AllowNothing(AllowEverything):
    def is_allowed(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        return False


def test_every_partition_is_refused_when_the_client_may_not_alter_the_cluster(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            served.broker.authorizer = AllowNothing()
            codes = await alter(served, disks.all[1], ("orders", 0), ("other", 3))
            assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
            assert len(served.broker.moves) == 0

    run_in_own_time(scenario())


def test_second_request_replaces_the_first_when_it_names_another_directory(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders")
            for path in (disks.all[1], disks.all[2]):
                assert await alter(served, path, ("orders", 0)) == [ErrorCode.NONE]
            await settled(served)
            assert disks.of("orders-0") == ["c"]
            assert [path.name for path in disks.all[1].glob("*-future")] == []
            assert len(values_of(served, "orders")) == 20

    run_in_own_time(scenario())


def test_move_is_cancelled_when_the_directory_of_the_replica_is_asked_for(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders")
            await alter(served, disks.all[1], ("orders", 0))
            assert await alter(served, disks.all[0], ("orders", 0)) == [ErrorCode.NONE]
            await settled(served)
            assert disks.of("orders-0") == ["a"]
            assert (await described(served))["b"] == []

    run_in_own_time(scenario())


def test_copy_goes_with_the_topic_when_it_is_deleted_while_it_moves(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders")
            await alter(served, disks.all[1], ("orders", 0))
            await pass_time(0.01)
            await delete_topic(served.broker.metadata, "orders")
            await settled(served)
            assert [path.name for path in disks.all[1].iterdir() if path.name.endswith("-future")] == []
            await served.create("orders")
            assert len(served.broker.moves) == 0
            assert values_of(served, "orders") == []

    run_in_own_time(scenario())


def test_move_begins_anew_when_the_broker_was_stopped_in_the_middle(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties, store=await SqliteStore.open(tmp_path / "store")) as served:
            await served.create("orders")
            fill(served, "orders")
            await alter(served, disks.all[1], ("orders", 0))
            await until(lambda: any(disks.all[1].glob("*-future")))
        assert disks.of("orders-0") == ["a"]
        assert len(list(disks.all[1].glob("*-future"))) == 1
        async with serving(tmp_path, disks.properties, store=await SqliteStore.open(tmp_path / "store")) as served:
            await settled(served)
            assert disks.of("orders-0") == ["b"]
            assert len(values_of(served, "orders")) == 20

    run_in_own_time(scenario())


def test_rate_is_asked_for_the_bytes_of_each_step_when_a_replica_moves(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    copied: list[int] = []
    rests: Iterator[int] = iter([5, 0] * 100)

    def pace(size: int) -> int:
        copied.append(size)
        return next(rests)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders", 50)
            partition = served.broker.partitions.find("orders", 0)
            assert partition is not None
            served.broker.moves.pace = pace
            await alter(served, disks.all[1], ("orders", 0))
            await settled(served)
            assert sum(copied) == partition.log.size
            assert disks.of("orders-0") == ["b"]

    run_in_own_time(scenario())


def test_move_ends_with_its_topic_when_a_throttle_would_let_it_rest_for_days(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with asyncio.timeout(30), serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders")
            resting = rest_after_a_step(served, 10**9, 10**9)
            await alter(served, disks.all[1], ("orders", 0))
            await resting.wait()
            await delete_topic(served.broker.metadata, "orders")
            await settled(served)
            assert disks.of("orders-0") == []

    run_in_own_time(scenario())


def test_replica_is_made_where_it_was_asked_for_when_it_comes_later(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    directories = opened(a, b)
    partitions = Partitions(NODE, directories, lambda topic: SMALL, TopicCounters(), ManualClock())
    moves = Moves(directories, partitions, Files(), ManualClock())
    elsewhere = topic_image("orders")._replace(partitions=(PartitionState(0, (2,), (2,), 2),))
    here = elsewhere._replace(partitions=(PartitionState(0, (2, NODE), (2,), 2, partition_epoch=1),))
    partitions.apply(EMPTY, image(elsewhere))
    name = TopicPartition("orders", 0)
    assert moves.request(name, str(b)) == ErrorCode.REPLICA_NOT_AVAILABLE
    assert moves.request(TopicPartition("gone", 0), str(b)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions.apply(image(elsewhere), image(here))
    assert directories.logs[name].directory.parent == b
    assert directories.preferred == {}
    directories.close()


def test_remembered_directory_is_forgotten_when_the_topic_is_gone_and_room_is_needed(tmp_path: Path) -> None:
    directories = opened(tmp_path / "a", tmp_path / "b")
    partitions = Partitions(NODE, directories, lambda topic: SMALL, TopicCounters(), ManualClock())
    moves = Moves(directories, partitions, Files(), ManualClock())
    elsewhere = (PartitionState(0, (2,), (2,), 2),)
    first, second = (topic_image(name)._replace(partitions=elsewhere) for name in ("first", "second"))
    partitions.apply(EMPTY, image(first, second))
    moves.request(TopicPartition("first", 0), str(tmp_path / "b"))
    directories.preferred |= {TopicPartition("gone", index): tmp_path / "b" for index in range(10_000)}
    partitions.apply(image(first, second), image(second))
    moves.request(TopicPartition("second", 0), str(tmp_path / "a"))
    assert directories.preferred == {TopicPartition("second", 0): tmp_path / "a"}
    directories.close()


def test_replica_of_a_new_topic_moves_when_the_move_of_its_namesake_is_not_over(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders")
            resting = rest_after_a_step(served, 1_000)
            await alter(served, disks.all[1], ("orders", 0))
            await resting.wait()
            await delete_topic(served.broker.metadata, "orders")
            await served.create("orders")
            assert len(served.broker.moves) == 1
            partition = served.broker.partitions.find("orders", 0)
            assert partition is not None
            target = next(path for path in disks.all[1:] if path != partition.directory)
            assert await alter(served, target, ("orders", 0)) == [ErrorCode.NONE]
            await settled(served)
            assert disks.of("orders-0") == [target.name]

    run_in_own_time(scenario())


def test_replica_can_be_cut_and_moved_again_when_its_move_has_met_an_error_that_nobody_foresaw(tmp_path: Path) -> None:
    disks = Disks(tmp_path)

    def broken(size: int) -> int:
        raise ZeroDivisionError

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties) as served:
            await served.create("orders")
            fill(served, "orders")
            served.broker.moves.pace = broken
            await alter(served, disks.all[1], ("orders", 0))
            await until(lambda: not len(served.broker.moves))
            directories = served.broker.directories
            assert (directories.standbys, directories.log_counts[disks.all[1]]) == ({}, 0)
            served.broker.moves.pace = lambda size: 0
            await alter(served, disks.all[1], ("orders", 0))
            await settled(served)
            assert disks.of("orders-0") == ["b"]

    run_in_own_time(scenario())


def test_loop_asks_nothing_of_the_disk_that_may_block_when_a_replica_moves(tmp_path: Path) -> None:
    disks, files = Disks(tmp_path), FaultyFiles()

    async def scenario() -> None:
        async with serving(tmp_path, disks.properties, files=files) as served:
            await served.create("orders")
            fill(served, "orders", 50)
            files.operations.clear()
            await alter(served, disks.all[1], ("orders", 0))

            async def has_moved() -> bool:
                capture = CheckpointCapture()
                capture.add(served.broker.directories.logs[TopicPartition("orders", 0)])
                await asyncio.to_thread(served.broker.directories.begin_checkpoints(capture).run)
                return not len(served.broker.moves)

            await eventually(has_moved)
            on_the_loop = [each for each in files.operations if each.thread_id == threading.get_ident()]
            assert {each.name for each in on_the_loop}.isdisjoint(BLOCKING)
            assert {each.name for each in files.operations} > {"make_directory", "sync"}
            assert disks.of("orders-0") == ["b"]

    asyncio.run(scenario())


def test_copies_rest_as_long_as_the_throttle_says_also_when_it_is_changed_meanwhile() -> None:
    clock = ManualClock()
    limits = [1_000]
    settings = BrokerConfig.parse({}).throttles
    pace = throttled(lambda: settings._replace(replica_alter_log_dirs_io_max_bytes_per_second=limits[0]), clock)
    assert pace(500) == 0
    rest_ms = pace(4_500)
    assert 3_000 < rest_ms <= 5_000
    clock.advance(rest_ms)
    assert pace(0) == 0
    assert pace(100_000) > 0
    limits[0] = 2**40
    assert pace(0) == 0

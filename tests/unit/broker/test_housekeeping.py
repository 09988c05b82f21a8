from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.authorizer import AllowEverything
from penstock.broker.broker import Broker
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.moves import Moves
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.transaction_admission import TransactionAdmission
from penstock.broker.runtimes.transaction_markers import Leaders, MarkerWriter
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.broker.schema_checks.checks import SchemaChecks
from penstock.broker.slices import Slices
from penstock.broker.topic_creation import TopicCreation
from penstock.broker.upkeep.housekeeping import FLUSHED_PER_TURN, Chore, Housekeeping
from penstock.broker.upkeep.retention import SEGMENTS_PER_TURN
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.memory import MemoryStore
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.limits import WRITE_BACK_BYTES
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import BrokerMetrics
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.settings import GroupSettings
from penstock.log.storage.files import Files
from penstock.testing.disks.faulty_files import DiskOperation, Fault, FaultyFiles
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.settings import TransactionSettings
from tests.unit.broker.harness import NODE, GatedFiles, Host, topic_image
from tests.unit.cluster.harness import ENDPOINTS
from tests.unit.log.support import NOW, batch, sequenced
from tests.waiting import until

SMALL = LogSettings(segment_bytes=1000, retention_ms=1_000, file_delete_delay_ms=100)


class Rig:
    """A broker without sockets, and its chores by name."""

    def __init__(self, path: Path, files: Files | None = None, **config: str) -> None:
        self.host = Host(path, files)
        self.config = BrokerConfig.parse({"node.id": str(NODE), **{k.replace("_", "."): v for k, v in config.items()}})
        self.metrics = BrokerMetrics()
        self.flusher = Flusher(self.metrics.logs, self.host.clock)

    async def assemble(self) -> None:
        metadata = await Metadata.open(MemoryStore(), self.config, ENDPOINTS, self.host.clock)
        coordinator = GroupCoordinator(GroupSettings(), 1)
        partitions, clock = self.host.partitions, self.host.clock
        slices = Slices(lambda: 0.0)
        groups = GroupRuntime(coordinator, partitions, self.flusher, clock, self.metrics.groups, slices)
        producer_ids = ProducerIds(metadata.allocate_producer_id_block)
        transactions = TransactionRuntime(
            TransactionCoordinator(TransactionSettings(), 1, producer_ids.take),
            partitions,
            MarkerWriter(partitions, Leaders(1, lambda _: 1), groups, clock, random.Random(1).random),
            self.flusher,
            clock,
            slices,
        )
        self.broker = Broker(
            node_id=NODE,
            config=self.config,
            clock=self.host.clock,
            metrics=self.metrics,
            authorizer=AllowEverything(),
            quotas=ClientQuotas(self.host.clock, self.config.quotas, self.metrics.quotas),
            served_versions=(),
            slices=slices,
            metadata=metadata,
            directories=self.host.directories,
            partitions=self.host.partitions,
            flusher=self.flusher,
            fetch_sessions=FetchSessions(1, 1, self.metrics.purgatory, random.Random(1)),
            producer_ids=producer_ids,
            groups=groups,
            transactions=transactions,
            admission=TransactionAdmission(NODE, partitions, transactions, metadata),
            topic_creation=TopicCreation(metadata),
            schema_checks=SchemaChecks(self.config.schema_registry, clock, self.metrics.schemas),
            moves=Moves(self.host.directories, partitions, self.host.files, clock),
            chance=random.Random(1),
        )
        self.housekeeping = Housekeeping(self.broker)

    def chore(self, name: str) -> Chore:
        return next(chore for chore in self.housekeeping.chores if chore.name == name)

    def fill(self, topic: str, count: int = 60) -> None:
        now_ms = self.host.clock.now_ms()
        for _ in range(count):
            self.host.partition(topic).append(batch("value", timestamp=now_ms), 1, now_ms)

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            await self.assemble()
            await self.broker.metadata.close()  # its upkeep is none of the tasks that are counted here
            await asyncio.sleep(0)
            try:
                await scenario()
            finally:
                await self.flusher.close()
                assert len(asyncio.all_tasks()) == 1

        asyncio.run(whole())
        self.host.directories.close()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


class TestChores:
    def test_others_get_turns_when_many_logs_are_to_be_flushed_at_once(self, rig: Rig) -> None:
        """4,000 logs held the loop for 310 ms."""

        async def scenario() -> None:
            topics = [f"t{number}" for number in range(3 * FLUSHED_PER_TURN)]
            rig.host.settings |= dict.fromkeys(topics, LogSettings(flush_ms=1))
            rig.host.apply(*map(topic_image, topics))
            for topic in topics:
                rig.fill(topic, 1)
            rig.host.clock.advance(1_000)
            flushing = asyncio.ensure_future(rig.chore("flush").run())
            tasks = 0
            while not flushing.done():
                await asyncio.sleep(0)
                tasks = max(tasks, len(asyncio.all_tasks()))
            assert tasks <= FLUSHED_PER_TURN + 2
            assert {rig.host.partition(topic).log.recovery_point for topic in topics} == {1}

        rig.run(scenario)

    def test_others_get_turns_when_many_segments_are_too_old_at_once(self, rig: Rig) -> None:
        """1,000 segments held the loop for 140 ms."""

        async def scenario() -> None:
            rig.host.settings["orders"] = replace(SMALL, segment_bytes=100)
            rig.host.apply(topic_image("orders"))
            rig.fill("orders", 4 * SEGMENTS_PER_TURN)
            rig.host.clock.advance(2_000)
            counts = [len(rig.host.partition("orders").log.segments)]
            retaining = asyncio.ensure_future(rig.chore("retention").run())
            while not retaining.done():
                await asyncio.sleep(0)
                counts.append(len(rig.host.partition("orders").log.segments))
            assert counts[0] == 4 * SEGMENTS_PER_TURN
            assert counts[-1] == 1
            assert max(before - after for before, after in pairwise(counts)) <= SEGMENTS_PER_TURN
            assert rig.metrics.logs.segments_deleted == counts[0]

        rig.run(scenario)

    def test_old_segments_and_then_their_files_go_when_retention_runs(self, rig: Rig) -> None:
        async def scenario() -> None:
            rig.host.settings["orders"] = SMALL
            rig.host.apply(topic_image("orders"))
            rig.fill("orders")
            log = rig.host.partition("orders").log
            assert len(log.segments) > 3
            await rig.chore("retention").run()
            assert log.log_start_offset == 0
            rig.host.clock.advance(2_000)
            await rig.chore("retention").run()
            assert log.log_start_offset == log.log_end_offset
            assert rig.metrics.logs.segments_deleted > 3
            rig.host.clock.advance(200)
            await rig.chore("file removal").run()
            assert len(list(log.directory.glob("*.log*"))) == 1

        rig.run(scenario)

    def test_index_files_follow_the_log_when_it_is_written_to(self, rig: Rig) -> None:
        async def scenario() -> None:
            rig.host.settings["orders"] = LogSettings(index_interval_bytes=100)
            rig.host.apply(topic_image("orders"))
            rig.fill("orders")
            directory = rig.host.partition("orders").log.directory
            before = {path.name: path.stat().st_size for path in directory.glob("*index")}
            assert before == {f"{0:020d}.index": 0, f"{0:020d}.timeindex": 0}
            await rig.chore("index entries").run()
            assert all(path.stat().st_size > 0 for path in directory.glob("*index"))

        rig.run(scenario)

    def test_write_back_begins_in_another_thread_when_much_was_received(self, tmp_path: Path) -> None:
        """Where the kernel has too much to write it makes the writer wait, and that is the event loop."""
        files = FaultyFiles()
        rig = Rig(tmp_path, files)

        async def scenario() -> None:
            rig.host.apply(topic_image("a"), topic_image("b"))
            for _ in range(10):
                rig.host.partition("a").append(batch("x" * 900_000), 1, NOW)
            rig.host.partition("b").append(batch("x"), 1, NOW)
            await rig.chore("write-back").run()
            assert begun() == []
            rig.metrics.sockets.bytes_in += WRITE_BACK_BYTES
            await rig.chore("write-back").run()
            (only,) = begun()
            assert "/a-0/" in only.path
            assert only.thread_id != threading.get_ident()
            rig.metrics.sockets.bytes_in += WRITE_BACK_BYTES
            await rig.chore("write-back").run()
            assert len(begun()) == 1

        def begun() -> list[DiskOperation]:
            return [each for each in files.operations if each.name == "write_back"]

        rig.run(scenario)

    def test_checkpoints_are_written_in_another_thread_and_others_get_a_turn_when_logs_are_many(
        self, tmp_path: Path
    ) -> None:
        """The offsets of 10,000 logs, taken and encoded in one turn, held the loop for 70 ms."""
        files = FaultyFiles(is_synced=False)
        rig = Rig(tmp_path, files)

        async def scenario() -> None:
            rig.host.apply(topic_image("a", partitions=600))
            files.operations.clear()
            chore = asyncio.ensure_future(rig.chore("checkpoints").run())
            await asyncio.sleep(0)
            assert files.operations == [], "the logs are too many for one turn"
            await chore
            writers = {each.thread_id for each in files.operations}
            assert writers
            assert threading.get_ident() not in writers

        rig.run(scenario)
        assert (tmp_path / "replication-offset-checkpoint").read_text().count("\n") == 602

    def test_files_go_in_another_thread_when_their_time_is_over(self, tmp_path: Path) -> None:
        """A client waited 315 ms while the files of another topic were removed on the loop."""
        files = FaultyFiles()
        rig = Rig(tmp_path, files)

        async def scenario() -> None:
            rig.host.settings = {"a": SMALL, "b": SMALL}
            rig.host.apply(topic_image("a"), topic_image("b"))
            rig.fill("a")
            rig.fill("b")
            rig.host.clock.advance(2_000)
            await rig.chore("retention").run()
            rig.host.apply(topic_image("a"))
            rig.host.clock.advance(SMALL.file_delete_delay_ms)
            files.operations.clear()
            await rig.chore("file removal").run()
            removing = [each for each in files.operations if each.name in ("unlink", "remove_tree", "list")]
            assert {each.name for each in removing} == {"unlink", "remove_tree", "list"}
            assert threading.get_ident() not in {each.thread_id for each in removing}

        rig.run(scenario)
        assert not list(tmp_path.glob("**/*.deleted"))
        assert not list(tmp_path.glob("*-delete"))

    def test_others_are_looked_after_when_one_partition_fails(self, tmp_path: Path) -> None:
        files = FaultyFiles()
        rig = Rig(tmp_path, files)

        async def scenario() -> None:
            rig.host.settings = {"a": SMALL, "b": SMALL, "c": SMALL}
            rig.host.apply(*(topic_image(name) for name in "abc"))
            for name in "abc":
                rig.fill(name)
            rig.host.partition("a").log.go_offline("for the test")
            files.fail(Fault.on("rename", "b-0"))
            rig.host.clock.advance(2_000)
            await rig.chore("retention").run()
            assert rig.host.partition("b").log.offline_reason is not None
            log = rig.host.partition("c").log
            assert log.log_start_offset == log.log_end_offset

        rig.run(scenario)

    def test_topic_may_go_when_retention_is_under_way(self, rig: Rig) -> None:
        async def scenario() -> None:
            rig.host.settings["orders"] = SMALL
            rig.host.apply(topic_image("orders", 200))
            work = asyncio.ensure_future(rig.chore("retention").run())
            await asyncio.sleep(0)
            rig.host.apply()
            await work

        rig.run(scenario)

    def test_producers_are_forgotten_when_they_were_silent_for_too_long(self, rig: Rig) -> None:
        async def scenario() -> None:
            rig.host.settings["orders"] = LogSettings(producer_id_expiration_ms=1_000)
            rig.host.apply(topic_image("orders"))
            now_ms = rig.host.clock.now_ms()
            rig.host.partition("orders").append(sequenced(0, timestamp=now_ms), 1, now_ms)
            await rig.chore("producer expiry").run()
            assert len(rig.host.partition("orders").log.producers.active()) == 1
            rig.host.clock.advance(1_001)
            await rig.chore("producer expiry").run()
            assert rig.host.partition("orders").log.producers.active() == []

        rig.run(scenario)

    def test_records_become_durable_when_flush_ms_is_over(self, rig: Rig) -> None:
        async def scenario() -> None:
            rig.host.settings["orders"] = LogSettings(flush_ms=1_000)
            rig.host.apply(topic_image("orders"))
            rig.fill("orders", 3)
            log = rig.host.partition("orders").log
            await rig.chore("flush").run()
            assert log.recovery_point == 0
            rig.host.clock.advance(1_000)
            await rig.chore("flush").run()
            assert log.recovery_point == 3

        rig.run(scenario)

    @pytest.mark.parametrize(("flush_ms", "interval_ms"), [(1, 100), (500, 250), (2**63 - 1, 1_000)])
    def test_flushes_are_looked_for_often_enough_when_a_topic_asks_for_them(
        self, rig: Rig, flush_ms: int, interval_ms: int
    ) -> None:
        async def scenario() -> None:
            rig.host.settings["orders"] = LogSettings(flush_ms=flush_ms)
            rig.host.apply(topic_image("orders"), topic_image("other"))
            assert rig.chore("flush").interval_ms() == interval_ms

        rig.run(scenario)

    def test_checkpoints_are_on_disk_when_the_chore_has_run(self, rig: Rig) -> None:
        async def scenario() -> None:
            rig.host.apply(topic_image("orders"))
            rig.fill("orders", 3)
            await rig.chore("checkpoints").run()
            assert "orders 0 3" in (rig.host.path / "replication-offset-checkpoint").read_text()

        rig.run(scenario)


class TestSupervision:
    def test_chores_repeat_when_they_are_started(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path, log_retention_check_interval_ms="1")

        async def scenario() -> None:
            rig.host.settings["orders"] = SMALL
            rig.host.apply(topic_image("orders"))
            rig.housekeeping.start()
            log = rig.host.partition("orders").log
            for _ in range(3):
                rig.fill("orders", 1)
                rig.host.clock.advance(2_000)
                await until(lambda: log.log_start_offset == log.log_end_offset)
            await rig.housekeeping.stop()

        rig.run(scenario)

    def test_chore_is_tried_again_when_it_failed(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        rig = Rig(tmp_path)

        async def scenario() -> None:
            attempts: list[int] = []

            async def work() -> None:
                attempts.append(1)
                if len(attempts) < 3:
                    raise RuntimeError("a bug")

            rig.housekeeping.chores = (Chore("nonsense", lambda: 1, work),)
            rig.housekeeping.start()
            await until(lambda: len(attempts) >= 4)
            await rig.housekeeping.stop()

        with caplog.at_level(logging.ERROR):
            rig.run(scenario)
        assert [record.getMessage() for record in caplog.records] == ["nonsense failed and will be tried again"] * 2

    def test_stopping_is_prompt_when_all_chores_sleep(self, rig: Rig) -> None:
        async def scenario() -> None:
            rig.housekeeping.start()
            await asyncio.sleep(0)
            async with asyncio.timeout(1):
                await rig.housekeeping.stop()

        rig.run(scenario)

    def test_stopping_waits_when_a_chore_writes_in_another_thread(self, tmp_path: Path) -> None:
        """Else shutdown and chore would write the same checkpoint at once."""
        files = GatedFiles()
        rig = Rig(tmp_path, files)

        async def scenario() -> None:
            rig.host.settings["orders"] = LogSettings(flush_ms=1)
            rig.host.apply(topic_image("orders"))
            rig.fill("orders", 1)
            rig.host.clock.advance(10)
            rig.housekeeping.start()
            assert await asyncio.to_thread(files.arrived.acquire, timeout=30)
            stopping = asyncio.create_task(rig.housekeeping.stop())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not stopping.done()
            files.let_pass()
            await stopping
            assert rig.host.partition("orders").log.recovery_point == 1

        rig.run(scenario)

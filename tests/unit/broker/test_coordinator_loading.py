"""A coordinator's partition is loaded and unloaded in slices, and never left half loaded."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from penstock.broker.slices import Slices
from penstock.coordinators.routing import ShardKind, Shards
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.types import NO_OFFSET, NO_PRODUCER_ID
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.outcome import GroupOutcome
from penstock.groups.requests import JoinRequest, Protocol
from penstock.groups.shard import GroupShard
from penstock.protocol.errors import ErrorCode
from tests.unit.broker.group_rig import PARTITIONS, SETTINGS, Rig
from tests.unit.broker.harness import lead_all
from tests.waiting import until


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


class _ShardWithABug(GroupShard):
    def replay(
        self, key: bytes, value: bytes | None, record_offset: int = NO_OFFSET, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        if self.partition == 0:
            raise KeyError(key)
        super().replay(key, value, record_offset, producer_id)


def _shard_with_a_bug(partition: int, _leader_epoch: int) -> GroupShard:
    return _ShardWithABug(partition, SETTINGS)


def test_partition_is_not_loading_for_ever_when_a_record_brings_out_a_bug(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        for number in range(20):
            await rig.commit(number, group=f"group-{number}")
        broken = GroupCoordinator(SETTINGS, PARTITIONS)
        broken.shards = Shards(
            ShardKind(GroupOutcome, _shard_with_a_bug, GroupShard.on_loaded, GroupShard.on_timer),
            SETTINGS,
            PARTITIONS,
        )
        rig.new_runtime(broken)
        lead_all(rig.runtime, PARTITIONS)
        await until(lambda: rig.runtime.shards.active_partitions() == [1])
        assert not rig.runtime.shards.is_loading
        assert rig.committed("group-0") == ErrorCode.NOT_COORDINATOR or rig.partition_of("group-0") == 1

    rig.run(scenario)
    (line,) = [each for each in caplog.records if each.message == "a coordinator's state cannot be loaded"]
    assert line.exc_info is not None


def test_nothing_of_a_deleted_topic_is_loaded_when_another_of_the_name_comes_between_two_slices(
    rig: Rig,
) -> None:
    async def scenario() -> None:
        for number in range(20):
            await rig.commit(number, group=f"group-{number}")
        ticks = itertools.count()
        rig.new_runtime(slices=Slices(lambda: next(ticks)))  # each slice is one record
        lead_all(rig.runtime, PARTITIONS)
        for _ in range(6):
            await asyncio.sleep(0)
        assert rig.runtime.shards.is_loading
        rig.runtime.unload()
        rig.host.apply()
        rig.create_topic()
        lead_all(rig.runtime, PARTITIONS)
        await rig.loaded()
        for _ in range(100):
            await asyncio.sleep(0)
        assert {rig.committed(f"group-{number}") for number in range(20)} == {-1}

    rig.run(scenario)


def test_waiting_members_are_sent_away_in_slices_when_their_partitions_are_unloaded(rig: Rig) -> None:
    async def scenario() -> None:
        ticks = itertools.count()
        rig.new_runtime(slices=Slices(lambda: next(ticks)))
        lead_all(rig.runtime, PARTITIONS)
        await rig.loaded()
        requests = [
            JoinRequest(
                f"group-{number}",
                "",
                "consumer",
                (Protocol("range", b""),),
                10_000,
                10_000,
                accepts_member_id_required=False,
            )
            for number in range(20)
        ]
        joining = [asyncio.ensure_future(rig.submit(request)) for request in requests]
        await asyncio.sleep(0)
        rig.runtime.unload()
        assert not all(each.done() for each in joining)
        lead_all(rig.runtime, PARTITIONS)
        results = await asyncio.gather(*joining)
        assert {result.error for result in results} == {ErrorCode.NOT_COORDINATOR}

    rig.run(scenario)


def test_operator_is_told_what_was_loaded_and_how_little_of_it_was_replayed_when_a_group_commits_often(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        for number in range(500):
            await rig.commit(number)
        ticks = itertools.count()
        # Each slice is one step, so the load cannot end in its first turn.
        rig.new_runtime(slices=Slices(lambda: next(ticks)))
        lead_all(rig.runtime, PARTITIONS)
        await asyncio.sleep(0)
        rig.host.clock.advance(70)
        await rig.loaded()
        assert rig.committed() == 499

    with caplog.at_level("INFO", "penstock.broker.coordinators"):
        rig.run(scenario)
    (line,) = [each for each in caplog.records if each.message == "a coordinator's state is loaded"]
    fields = vars(line)
    assert (fields["topic"], fields["partition"]) == (CONSUMER_OFFSETS, rig.partition_of("g"))
    assert (fields["batches"], fields["records"]) == (500, 1)
    assert fields["bytes"] > 500 * 61
    assert fields["ms"] == 70

"""However the leadership of a coordinator's partition moves: what a client was told stays true."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.types import TopicPartition
from penstock.groups.operations.table import COMMIT_OFFSETS, FETCH_OFFSETS
from penstock.groups.requests import OffsetCommitRequest, OffsetFetchRequest, OffsetToCommit
from penstock.protocol.errors import ErrorCode
from tests.unit.broker.two_brokers import BOTH, ONE, TWO, TwoBrokers, led, two_brokers

OTHER = {ONE: TWO, TWO: ONE}
STEPS = st.lists(st.sampled_from(["commit", "copy", "replicate", "fail over", "stay"]), max_size=25)


async def commit(groups: GroupRuntime, offset: int) -> ErrorCode:
    request = OffsetCommitRequest("g", [OffsetToCommit("orders", 0, offset)])
    (entry,) = (await groups.submit(COMMIT_OFFSETS, request)).partitions
    return entry.error


def committed(groups: GroupRuntime) -> int | ErrorCode:
    result = groups.shards.read(FETCH_OFFSETS, OffsetFetchRequest("g", [TopicPartition("orders", 0)]))
    return result.error or result.partitions[0].offset


class Scenario:
    def __init__(self, brokers: TwoBrokers) -> None:
        self.brokers = brokers
        self.leader, self.epoch = ONE, 0
        self.newest = 0  # offset that somebody tried to commit
        self.acknowledged = -1
        self.waiting: dict[int, asyncio.Future[ErrorCode]] = {}
        brokers.show(led("orders", ONE), led(CONSUMER_OFFSETS, ONE, 0, BOTH))

    def groups(self, node_id: int) -> GroupRuntime:
        return self.brokers.served[node_id].broker.groups

    async def take(self, step: str) -> None:
        if step == "commit":
            self.newest += 1
            self.waiting[self.newest] = asyncio.ensure_future(commit(self.groups(self.leader), self.newest))
        elif step == "copy":
            self.brokers.copy(CONSUMER_OFFSETS, self.leader)
        elif step == "replicate":
            self.brokers.replicate(CONSUMER_OFFSETS, self.leader)
        else:
            self.lead(OTHER[self.leader] if step == "fail over" else self.leader)
        await self.brokers.settled()
        for _ in range(8):
            await asyncio.sleep(0)
        self.check(step)

    def lead(self, target: int) -> None:
        former = self.brokers.partition(CONSUMER_OFFSETS, OTHER[target]).log
        self.leader, self.epoch = target, self.epoch + 1
        self.brokers.show(led(CONSUMER_OFFSETS, target, self.epoch, BOTH))
        former.truncate_to(self.brokers.partition(CONSUMER_OFFSETS, target).log.log_end_offset)

    def check(self, step: str) -> None:
        for offset, future in list(self.waiting.items()):
            if future.done():
                del self.waiting[offset]
                if future.result() is ErrorCode.NONE:
                    self.acknowledged = max(self.acknowledged, offset)
                else:
                    assert future.result() is ErrorCode.NOT_COORDINATOR
        assert committed(self.groups(OTHER[self.leader])) == ErrorCode.NOT_COORDINATOR
        here = committed(self.groups(self.leader))
        assert not isinstance(here, ErrorCode)
        assert self.acknowledged <= here <= self.newest
        if step == "replicate":
            assert not self.waiting
        if step in ("fail over", "stay"):
            assert not self.waiting, "the former coordinator still waits"


@settings(max_examples=25)
@given(steps=STEPS)
def test_acknowledged_offset_is_never_lost_when_leadership_moves(steps: list[str]) -> None:
    async def whole(directory: str) -> None:
        async with two_brokers(Path(directory)) as brokers:
            scenario = Scenario(brokers)
            for step in steps:
                await scenario.take(step)
            await scenario.take("replicate")

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(whole(directory))

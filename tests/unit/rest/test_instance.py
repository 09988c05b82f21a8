"""One consumer instance before brokers that answer when they are let."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self, cast

import pytest

from penstock.client.brokers import Brokers
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from penstock.rest.consumers.group_member import GroupMember
from penstock.rest.consumers.instance import Instance
from penstock.rest.consumers.positions import Positions
from penstock.rest.consumers.settings import InstanceSettings, Reset
from penstock.rest.consumers.subscription import InstanceSubscription
from penstock.rest.errors import RestError
from penstock.rest.formats.formats import Format

SETTINGS = InstanceSettings(Format.JSON, Reset.EARLIEST, True, 1, 1000, 1_000_000, 10_000)
PARTITION = TopicPartition("t", 0)


class FakeBrokers:
    """`failure` is the answer of the group's coordinator."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.may_answer = asyncio.Event()
        self.committed: list[int] = []
        self.joins = 0
        self.open: set[FakeBrokers] = set()
        self._root = self

    def dedicated(self) -> Self:
        other = type(self)(self.failure)
        other._root = self._root
        self._root.open.add(other)
        return other

    async def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse:
        await self.may_answer.wait()
        return MetadataResponse()

    async def ask_coordinator(self, kind: Any, key: str, message: Any, **_: Any) -> Any:
        root = self._root
        if isinstance(message, OffsetCommitRequest):
            if root.failure is not None:
                raise root.failure
            root.committed.append(message.topics[0].partitions[0].committed_offset)
            return OffsetCommitResponse()
        root.joins += 1
        if root.failure is not None:
            raise root.failure
        return await asyncio.Event().wait()

    async def close(self) -> None:
        self._root.open.discard(self)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_no_member_is_left_in_the_group_when_an_instance_is_deleted_while_it_subscribes() -> None:
    async def run() -> None:
        brokers = FakeBrokers()
        instance = Instance("g", SETTINGS, cast("Brokers", brokers))
        subscribing = asyncio.create_task(instance.subscribe(["t"]))
        await settle()
        await instance.close()
        brokers.may_answer.set()
        with pytest.raises(RestError) as raised:
            await subscribing
        await settle()
        assert (raised.value.code, brokers.joins, brokers.open) == (40403, 0, set())

    asyncio.run(run())


def test_connections_do_not_pile_up_when_a_caller_without_rights_subscribes_again_and_again() -> None:
    async def run() -> None:
        brokers = FakeBrokers(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        member = GroupMember("g", SETTINGS, cast("Brokers", brokers), Positions())
        for turn in range(1, 4):
            member.join(InstanceSubscription(("t",)))
            await settle()
            assert (brokers.joins, brokers.open, type(member.failure)) == (turn, set(), ApiError)
        await member.leave()

    asyncio.run(run())


def test_offsets_are_committed_later_when_the_first_commit_fails() -> None:
    async def run() -> None:
        brokers, positions = FakeBrokers(OSError()), Positions()
        member = GroupMember("g", SETTINGS, cast("Brokers", brokers), positions)
        member.take([PARTITION])
        positions.seek(PARTITION, 7)
        await member.commit_given(member.as_member())
        brokers.failure = None
        await member.commit_given(member.as_member())
        await member.commit_given(member.as_member())
        assert brokers.committed == [7]

    asyncio.run(run())

"""Steps of moves that are ready at about the same time are one change of the metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.decisions.reassignments import ReassignmentRequest
from penstock.cluster.image import PartitionState
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import AlterPartitionResult, InSyncChange
from tests.unit.cluster.brokers import TestBroker, agreed, started
from tests.unit.cluster.harness import run

NODES = (1, 2, 3)


class Moving:
    """Three brokers, each of which leads two partitions of a topic. All of these get a replica on another broker."""

    def __init__(self, brokers: list[TestBroker]) -> None:
        self.brokers = brokers
        self.controller = brokers[0]

    @classmethod
    async def begin(cls) -> Moving:
        brokers = await started(MemoryTree(), *NODES)
        moving = cls(brokers)
        assignments = tuple((index, (node_id,)) for index, node_id in enumerate(NODES * 2))
        await brokers[0].metadata.create_topics([NewTopic("a", -1, -1, assignments)])
        wanted = [
            ReassignmentRequest("a", state.partition, (*state.replicas, state.leader % len(NODES) + 1))
            for state in moving.states
        ]
        await brokers[0].metadata.duties.reassign_partitions(wanted)
        await agreed(*brokers)
        return moving

    @property
    def states(self) -> tuple[PartitionState, ...]:
        return self.controller.metadata.image.topics["a"].partitions

    @property
    def number(self) -> int:
        return self.controller.metadata.image.number

    def join(self, *partitions: int) -> Awaitable[tuple[AlterPartitionResult, ...]]:
        """The leader of the partitions asks for all of their replicas."""
        return self.ask(
            self.states[partitions[0]].leader, [(index, self.states[index].replicas) for index in partitions]
        )

    def ask(
        self, asker: int, wanted: list[tuple[int, tuple[int, ...]]], asker_epoch: int | None = None
    ) -> Awaitable[tuple[AlterPartitionResult, ...]]:
        topic_id = self.controller.metadata.image.topics["a"].topic_id
        changes = [
            InSyncChange(
                topic_id,
                index,
                self.states[index].leader_epoch,
                self.states[index].partition_epoch,
                tuple((node_id, -1) for node_id in isr),
            )
            for index, isr in wanted
        ]
        epoch = self.brokers[asker - 1].metadata.broker_epoch if asker_epoch is None else asker_epoch
        return self.controller.metadata.duties.alter_partition(asker, epoch, changes)


def test_leaders_share_one_change_when_their_moves_are_ready_together() -> None:
    async def main() -> None:
        moving = await Moving.begin()
        before = moving.number
        results = await asyncio.gather(*(moving.join(index) for index in (0, 1, 2)))
        assert [each.code for (each,) in results] == [ErrorCode.NONE] * 3
        assert moving.number == before + 1
        later = []
        for index in (3, 4, 5):
            later.append(asyncio.ensure_future(moving.join(index)))
            await asyncio.sleep(0.001)
        assert [each.code for (each,) in await asyncio.gather(*later)] == [ErrorCode.NONE] * 3
        assert moving.number == before + 2
        assert all(len(state.isr) == 2 and not state.adding for state in moving.states)
        await agreed(*moving.brokers)

    run(main())


def test_a_set_that_shrinks_does_not_wait_for_moves() -> None:
    async def main() -> None:
        moving = await Moving.begin()
        await moving.join(0)
        waiting = asyncio.ensure_future(moving.join(3))
        (result,) = await moving.ask(1, [(0, (1,))])
        assert result.code is ErrorCode.NONE
        assert not waiting.done()
        assert moving.states[0].isr == (1,)
        # The replica is back. That the topic moved before is no reason to wait.
        await moving.join(0)
        assert not waiting.done()
        assert [each.code for each in await waiting] == [ErrorCode.NONE]

    run(main())


def test_a_leader_that_is_registered_anew_is_refused_alone_when_it_shares_a_change() -> None:
    async def main() -> None:
        moving = await Moving.begin()
        outdated = moving.ask(2, [(1, moving.states[1].replicas)], asker_epoch=0)
        first, second, third = await asyncio.gather(moving.join(0), outdated, moving.join(2), return_exceptions=True)
        assert isinstance(second, ApiError)
        assert second.code is ErrorCode.STALE_BROKER_EPOCH
        assert not isinstance(first, BaseException)
        assert not isinstance(third, BaseException)
        assert [len(moving.states[index].isr) for index in (0, 1, 2)] == [2, 1, 2]

    run(main())


def test_a_leader_that_waits_is_told_when_the_change_cannot_be_made() -> None:
    async def main() -> None:
        moving = await Moving.begin()
        await moving.join(0)
        waiting = asyncio.ensure_future(moving.join(3))
        moving.controller.store.session.cut()
        with pytest.raises(ApiError):
            await waiting
        moving.controller.store.session.heal()

    run(main())


def test_nobody_waits_any_more_when_the_metadata_are_closed() -> None:
    async def main() -> None:
        moving = await Moving.begin()
        await moving.join(0)
        given_up, waiting = asyncio.ensure_future(moving.join(3)), asyncio.ensure_future(moving.join(4))
        await asyncio.sleep(0)
        given_up.cancel()  # its connection is gone
        await moving.controller.stop()
        with pytest.raises(ApiError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    run(main())

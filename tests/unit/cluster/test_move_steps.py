"""Steps of moves that are ready at about the same time are one change of the metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

import pytest

from penstock.cluster.controller.active_controller import Decide
from penstock.cluster.controller.move_steps import MoveSteps
from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.decisions.partitions import Alteration, Outcome
from penstock.cluster.decisions.reassignments import ReassignmentRequest
from penstock.cluster.image import PartitionState
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Node
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import AlterPartitionResult, InSyncChange
from tests.own_time import pass_time, run_in_own_time
from tests.unit.cluster.brokers import TestBroker, agreed, started

NODES = (1, 2, 3)


class Moving:
    """Three brokers, each of which leads two partitions of a topic. All of these get a replica on another broker."""

    def __init__(self, brokers: list[TestBroker]) -> None:
        self.brokers = brokers
        self.controller = brokers[0]

    @classmethod
    async def begin(cls, configs: Mapping[str, str] = {}) -> Moving:
        brokers = await started(MemoryTree(), *NODES)
        moving = cls(brokers)
        assignments = tuple((index, (node_id,)) for index, node_id in enumerate(NODES * 2))
        await brokers[0].metadata.create_topics([NewTopic("a", -1, -1, assignments, tuple(configs.items()))])
        wanted = [
            ReassignmentRequest("a", state.partition, (*state.replicas, state.leader % len(NODES) + 1))
            for state in moving.states
        ]
        await brokers[0].metadata.controller_api.reassign_partitions(wanted)
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
        return self.controller.metadata.controller_api.alter_partition(asker, epoch, changes)


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
            await pass_time(0.001)
        assert [each.code for (each,) in await asyncio.gather(*later)] == [ErrorCode.NONE] * 3
        assert moving.number == before + 2
        assert all(len(state.isr) == 2 and not state.adding for state in moving.states)
        await agreed(*moving.brokers)

    run_in_own_time(main())


def test_a_set_that_shrinks_does_not_wait_for_moves() -> None:
    async def main() -> None:
        moving = await Moving.begin()
        moving.controller.metadata.controller_api.move_steps.interval_s = 3_600
        await moving.join(0)
        waiting = asyncio.ensure_future(moving.join(3))
        (result,) = await moving.ask(1, [(0, (1,))])
        assert result.code is ErrorCode.NONE
        assert not waiting.done()
        assert moving.states[0].isr == (1,)
        # The replica is back. That the topic moved before is no reason to wait.
        await moving.join(0)
        assert not waiting.done()
        waiting.cancel()

    run_in_own_time(main())


def test_a_replica_that_writers_wait_for_joins_at_once() -> None:
    async def main() -> None:
        moving = await Moving.begin({"min.insync.replicas": "2"})
        moving.controller.metadata.controller_api.move_steps.interval_s = 3_600
        for index in (0, 1, 2):
            (result,) = await moving.join(index)
            assert result.code is ErrorCode.NONE

    run_in_own_time(main())


def test_steps_are_answered_when_a_change_before_them_is_not() -> None:
    async def main() -> None:
        hanging, answers = asyncio.Event(), iter([True, False])

        async def change(decide: Decide[Outcome]) -> tuple[Outcome, ...]:
            if next(answers):
                await hanging.wait()
            raise ApiError(ErrorCode.NOT_CONTROLLER)

        steps = MoveSteps(change)
        steps.interval_s = 0.001
        first = asyncio.ensure_future(steps.make(Alteration(1, 1, ())))
        await pass_time(0.01)
        with pytest.raises(ApiError):
            await steps.make(Alteration(2, 1, ()))
        assert not first.done()
        await steps.close()
        with pytest.raises(ApiError):
            await first

    run_in_own_time(main())


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

    run_in_own_time(main())


def test_a_leader_that_waits_is_told_when_the_change_cannot_be_made() -> None:
    async def main() -> None:
        moving = await Moving.begin()
        await moving.join(0)
        waiting = asyncio.ensure_future(moving.join(3))
        moving.controller.store.session.expire()
        with pytest.raises(ApiError):
            await waiting

    run_in_own_time(main())


def test_a_broker_reads_the_log_alone_when_nothing_else_has_changed() -> None:
    async def main() -> None:
        moving = await Moving.begin()
        await moving.join(0)
        await agreed(*moving.brokers)  # the look that followed on the brokers' start is over
        follower = moving.brokers[1].store
        read: list[str] = []
        real = follower.read

        async def noted(path: str) -> Node | None:
            read.append(path)
            return await real(path)

        follower.read = noted  # type: ignore[method-assign]
        await moving.join(1)
        await agreed(*moving.brokers)
        assert read
        assert not [path for path in read if not path.startswith(znodes.LOG)]

    run_in_own_time(main())


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

    run_in_own_time(main())

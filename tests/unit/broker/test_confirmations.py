"""A leader that the store cannot tell that it leads asks its in-sync followers before it answers from memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.partitions.durability_wait import Question, ask_followers
from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.cluster.image import PartitionState
from penstock.protocol.errors import ErrorCode
from tests.unit.broker.in_sync_rig import ALL, Following, close, driven
from tests.unit.broker.replication_rig import Node, ReplicaCluster, replicating
from tests.unit.log.support import batch
from tests.waiting import until

_PATIENT = dict.fromkeys(("replica.fetch.wait.max.ms", "replica.socket.timeout.ms", "replica.lag.time.max.ms"), "60000")

Scenario = Callable[["Doubting"], Awaitable[None]]


def ask(leader: Node) -> list[Question]:
    return ask_followers(leader.partitions.context, [leader.partition()])


class Doubting:
    """A leader whose session is not sure, and two followers."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.cluster = cluster
        self.leader = cluster.nodes[1]
        self.leader.session_is_sure = False
        self.second, self.third = Following(self.leader, 2), Following(self.leader, 3)

    def ask(self) -> Question:
        (question,) = ask(self.leader)
        return question

    async def begin(self) -> None:
        """Both followers have a session."""
        assert await self.second.fetch() == ErrorCode.NONE
        assert await self.third.fetch() == ErrorCode.NONE


def is_confirmed(question: Question) -> bool:
    """As far as is known."""
    return question.leading.have_followed_since(question.number)


def run(path: Path, scenario: Scenario, isr: tuple[int, ...] = ALL) -> None:
    async def whole() -> None:
        cluster = driven(path, PartitionState(0, ALL, isr, 1))
        await scenario(Doubting(cluster))
        await close(cluster)

    asyncio.run(whole())


def test_a_fetch_confirms_when_the_answer_before_it_was_made_after_the_question(tmp_path: Path) -> None:
    """The first one may have been sent before the question, and a successor may have been elected since."""

    async def scenario(doubting: Doubting) -> None:
        second, third = doubting.second, doubting.third
        await doubting.begin()
        question = doubting.ask()
        for follower in (second, third):
            await follower.fetch_nothing_new()
        assert not is_confirmed(question)
        await second.fetch_nothing_new()
        assert not is_confirmed(question)
        await third.fetch_nothing_new()
        assert is_confirmed(question)
        assert not is_confirmed(doubting.ask())

    run(tmp_path, scenario)


def test_nothing_is_confirmed_when_a_follower_begins_a_session(tmp_path: Path) -> None:
    async def scenario(doubting: Doubting) -> None:
        await doubting.begin()
        question = doubting.ask()
        for _ in range(2):
            await doubting.third.fetch_nothing_new()
            assert await Following(doubting.leader, 2).fetch() == ErrorCode.NONE
        assert not is_confirmed(question)

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_named", [True, False])
def test_nothing_is_confirmed_when_a_follower_knows_of_another_term(tmp_path: Path, is_named: bool) -> None:
    """It names the partition at another epoch, or follows no more."""

    async def scenario(doubting: Doubting) -> None:
        second, third = doubting.second, doubting.third
        await doubting.begin()
        question = doubting.ask()
        for _ in range(2):
            await third.fetch_nothing_new()
        await second.fetch_nothing_new()
        if is_named:
            assert await second.fetch(epoch=1) == ErrorCode.UNKNOWN_LEADER_EPOCH
            await second.fetch_nothing_new()
        else:
            await second.forget()
        assert not is_confirmed(question)

    run(tmp_path, scenario)


def test_those_are_asked_who_are_in_sync_or_may_be(tmp_path: Path) -> None:
    async def scenario(doubting: Doubting) -> None:
        assert await doubting.second.fetch() == ErrorCode.NONE
        question = doubting.ask()
        for _ in range(2):
            await doubting.second.fetch_nothing_new()
        assert is_confirmed(question)
        question.leading.propose(ALL)  # it may be in force by now
        assert not is_confirmed(question)

    run(tmp_path, scenario, isr=(1, 2))


def test_nobody_is_asked_when_the_session_is_sure_or_nobody_else_is_in_sync(tmp_path: Path) -> None:
    async def scenario(doubting: Doubting) -> None:
        assert await doubting.ask().is_confirmed()
        doubting.leader.session_is_sure = True
        assert ask(doubting.leader) == []

    run(tmp_path, scenario, isr=(1,))


def test_an_asker_hears_at_once_that_the_lease_is_over(tmp_path: Path) -> None:
    async def scenario(doubting: Doubting) -> None:
        asking = asyncio.ensure_future(doubting.ask().is_confirmed())
        await asyncio.sleep(0)
        partition = doubting.leader.partition()
        partition.allow_leading(False)
        partition.allow_leading(True)
        async with asyncio.timeout(1):
            assert not await asking

    run(tmp_path, scenario)


def test_fetches_do_not_wait_for_news_when_their_leader_asks(tmp_path: Path) -> None:
    """Else the lease would be over first: a fetch without news waits for a minute here."""

    async def scenario() -> None:
        async with replicating(tmp_path, properties=_PATIENT) as cluster:
            leader: Node = cluster.nodes[1]
            await leader.produce(batch("a"))
            await cluster.until_equal()
            leader.session_is_sure = False
            leading = leader.partition().leading
            assert leading is not None
            await until(lambda: all(isinstance(watch, FollowerWatch) and watch.waiters for watch in leading.watches))
            fetch_count = cluster.fetch_count
            questions = [question for _ in range(20) for question in ask(leader)]
            assert all(await asyncio.gather(*(question.is_confirmed() for question in questions)))
            assert cluster.fetch_count <= fetch_count + 4  # all of them share the answers

    asyncio.run(scenario())

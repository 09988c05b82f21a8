"""A coordinator whose partition may have another leader tells nothing of it, and decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.broker.slices import Work
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.groups.operations.table import FETCH_OFFSETS
from penstock.groups.requests import OffsetFetchRequest as FetchOffsets
from penstock.groups.results import OffsetFetchResult
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.test_replicated_answers import ORDERS, Producer, begin, begun, commit, fetch, run
from tests.unit.broker.two_brokers import ONE, TWO, TwoBrokers
from tests.waiting import until

_GROUPS: list[tuple[Message, int]] = [
    (JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer"), 3),
    (SyncGroupRequest(group_id="g", member_id="m"), 3),
    (HeartbeatRequest(group_id="g", member_id="m"), 3),
    (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 4),
    (
        OffsetCommitRequest(
            group_id="g",
            topics=[OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition()])],
        ),
        8,
    ),
    (
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
                )
            ]
        ),
        8,
    ),
    (
        OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition()])],
        ),
        0,
    ),
    (DescribeGroupsRequest(groups=["g"]), 5),
    (DeleteGroupsRequest(groups_names=["g"]), 2),
    (ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), 0),
    (ConsumerGroupDescribeRequest(group_ids=["g"]), 0),
    (
        TxnOffsetCommitRequest(
            transactional_id="mine",
            group_id="g",
            producer_id=1,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[TxnOffsetCommitRequestPartition()])],
        ),
        3,
    ),
]
_ADDED = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
_TRANSACTIONS: list[tuple[Message, int]] = [
    (InitProducerIdRequest(transactional_id="mine", transaction_timeout_ms=60_000), 4),
    (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="mine", v3_and_below_producer_id=1, v3_and_below_topics=_ADDED
        ),
        3,
    ),
    (
        AddPartitionsToTxnRequest(
            transactions=[AddPartitionsToTxnTransaction(transactional_id="mine", verify_only=True, topics=_ADDED)]
        ),
        4,
    ),
    (AddOffsetsToTxnRequest(transactional_id="mine", producer_id=1, group_id="g"), 3),
    (EndTxnRequest(transactional_id="mine", producer_id=1, committed=True), 3),
    (DescribeTransactionsRequest(transactional_ids=["mine"]), 0),
]
_SUSPENDED = [
    *((CONSUMER_OFFSETS, *each) for each in _GROUPS),
    *((TRANSACTION_STATE, *each) for each in _TRANSACTIONS),
]


def error_codes(answer: Message) -> set[int]:
    found: set[int] = set()
    for field in answer.FIELDS:
        value = getattr(answer, field.attribute)
        if field.attribute.endswith("error_code"):
            found.add(value)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Message):
                found |= error_codes(each)
    return found


def suspend(brokers: TwoBrokers, topic: str) -> None:
    """What the round does that looks at leases."""
    brokers.partition(topic, ONE).allow_leading(False)


def stand_still(brokers: TwoBrokers, topic: str) -> None:
    """What a process finds that goes on, before that round."""
    brokers.one.broker.partitions.context.is_sure = lambda topic_partition: topic_partition.topic != topic


@pytest.mark.parametrize("end_of_lease", [suspend, stand_still])
@pytest.mark.parametrize(
    ("topic", "request_", "version"), _SUSPENDED, ids=[f"{type(each).__name__}-{v}" for _, each, v in _SUSPENDED]
)
def test_clients_are_sent_away_at_once_when_another_broker_may_lead(
    tmp_path: Path, topic: str, request_: Message, version: int, end_of_lease: Callable[[TwoBrokers, str], None]
) -> None:
    """The replicas do not have everything, so whatever tells of the coordinator's state would have to wait."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.one.broker.producer_ids.ensure()
        committing = await begun(commit(brokers.one.broker.groups, 7))
        beginning = await begun(Producer(brokers.one.broker.transactions).init())
        log = brokers.partition(topic, ONE).log
        end_offset = log.log_end_offset
        assert log.high_watermark < end_offset
        end_of_lease(brokers, topic)
        asking = await begun(brokers.one.ask(request_, version))
        assert asking.done()
        answer = await asking
        assert ErrorCode.NOT_COORDINATOR in error_codes(answer), answer
        assert log.log_end_offset == end_offset
        for each in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            suspend(brokers, each)
        await asyncio.gather(committing, beginning)

    run(tmp_path, scenario)


# The second from a group's coordinator, where the transaction's is away.
_SENT_AWAY = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def be_in_doubt(brokers: TwoBrokers) -> None:
    """The store is away, and the lease is not over."""
    brokers.one.broker.partitions.context.is_session_sure = lambda: False


class Follower:
    """The second broker's fetch session with the first. Each fetch is answered at once."""

    def __init__(self, brokers: TwoBrokers) -> None:
        self._brokers = brokers
        self._session_id = self._session_epoch = 0

    async def fetch(self) -> None:
        topics = []
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            topic, log = self._brokers.topics[name], self._brokers.partition(name, TWO).log
            partition = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=log.log_end_offset)
            topics.append(FetchTopic(topic_id=topic.topic_id, partitions=[partition]))
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=TWO, replica_epoch=0),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=topics,
        )
        response = await self._brokers.one.ask(request, 18)
        assert error_codes(response) == {ErrorCode.NONE}
        self._session_id = response.session_id
        self._session_epoch += 1


@pytest.mark.parametrize(
    ("request_", "version"),
    [(each, version) for _, each, version in _SUSPENDED],
    ids=[f"{type(each).__name__}-{v}" for _, each, v in _SUSPENDED],
)
def test_nothing_is_told_when_another_broker_may_lead_until_the_followers_have_shown_that_none_does(
    tmp_path: Path, request_: Message, version: int
) -> None:
    """The replicas have everything, and have fetched just now. A broker without the store told an old offset."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.one.broker.producer_ids.ensure()
        follower = Follower(brokers)
        await follower.fetch()
        be_in_doubt(brokers)
        asking = await begun(brokers.one.ask(request_, version))
        await follower.fetch()  # it may have been sent before the question
        assert not asking.done()
        for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            suspend(brokers, topic)
        assert error_codes(await asking) & _SENT_AWAY

    run(tmp_path, scenario)


def test_groups_go_on_when_the_store_is_away_and_all_in_sync_replicas_follow(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        groups, follower = brokers.one.broker.groups, Follower(brokers)
        await follower.fetch()
        be_in_doubt(brokers)
        committing = await begun(commit(groups, 7))
        await follower.fetch()
        assert not committing.done()
        brokers.copy(CONSUMER_OFFSETS, ONE)
        await follower.fetch()  # it has the offset, and so has followed since: this is enough
        assert await committing is ErrorCode.NONE
        fetching, listing = await begun(fetch(groups)), await begun(brokers.one.ask(ListGroupsRequest(), 4))
        for _ in range(2):
            assert not fetching.done()
            assert not listing.done()
            await follower.fetch()
        assert await fetching == 7
        assert len((await listing).groups) == 1

    run(tmp_path, scenario)


def test_what_was_seen_is_not_told_when_the_process_stands_still_during_a_look(tmp_path: Path) -> None:
    """The replicas do not have it, and may never have it."""

    async def scenario(brokers: TwoBrokers) -> None:
        groups = brokers.one.broker.groups
        committing = await begun(commit(groups, 7))

        def look() -> Work[OffsetFetchResult]:
            seen = groups.shards.read(FETCH_OFFSETS, FetchOffsets("g", [ORDERS]))
            stand_still(brokers, CONSUMER_OFFSETS)
            yield
            return seen

        looking = await begun(groups.read_in_slices(["g"], look))
        assert not looking.done()
        suspend(brokers, CONSUMER_OFFSETS)
        assert (await looking).error is ErrorCode.NOT_COORDINATOR
        await committing

    run(tmp_path, scenario)


def test_what_was_decided_is_not_told_when_the_process_stands_still_before_the_answer(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        until_now = iter([True])  # while the request is decided, and not after that
        brokers.one.broker.partitions.context.is_sure = lambda _: next(until_now, False)
        committing = await begun(commit(brokers.one.broker.groups, 7))
        assert not committing.done()
        assert brokers.partition(CONSUMER_OFFSETS, ONE).log.log_end_offset == 1
        suspend(brokers, CONSUMER_OFFSETS)
        assert await committing is ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario)


def test_whoever_waits_is_sent_away_when_the_lease_ends(tmp_path: Path) -> None:
    """A commit that waits for replicas, a question behind it, and a member that waits for others to join."""

    async def scenario(brokers: TwoBrokers) -> None:
        groups = brokers.one.broker.groups
        protocols = [JoinGroupRequestProtocol(name="range")]
        join = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)
        joining = await begun(brokers.one.ask(join, 3))
        committing, fetching = await begun(commit(groups, 7)), await begun(fetch(groups))
        brokers.partition(CONSUMER_OFFSETS, ONE).allow_leading(False)
        assert await committing is ErrorCode.NOT_COORDINATOR
        assert await fetching == ErrorCode.NOT_COORDINATOR
        assert (await joining).error_code == ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario)


def test_nothing_is_listed_of_a_partition_when_another_broker_may_lead_it(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        await begin(brokers)
        committing = await begun(commit(brokers.one.broker.groups, 7))
        brokers.replicate(CONSUMER_OFFSETS, ONE)
        await committing
        assert len((await brokers.one.ask(ListGroupsRequest(), 4)).groups) == 1
        assert len((await brokers.one.ask(ListTransactionsRequest(), 0)).transaction_states) == 1
        for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            brokers.partition(topic, ONE).allow_leading(False)
        assert not (await brokers.one.ask(ListGroupsRequest(), 4)).groups
        assert not (await brokers.one.ask(ListTransactionsRequest(), 0)).transaction_states

    run(tmp_path, scenario)


def test_a_coordinator_has_what_its_log_has_when_it_leads_again_in_the_same_epoch(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        groups, partition = brokers.one.broker.groups, brokers.partition(CONSUMER_OFFSETS, ONE)
        committing = await begun(commit(groups, 7))
        partition.allow_leading(False)
        assert await committing is ErrorCode.NOT_COORDINATOR
        brokers.show()  # an image that says nothing new
        assert await fetch(groups) == ErrorCode.NOT_COORDINATOR
        partition.allow_leading(True)
        await brokers.settled(ONE)
        fetching = await begun(fetch(groups))
        assert not fetching.done()  # the followers do not have it yet
        brokers.replicate(CONSUMER_OFFSETS, ONE)
        assert await fetching == 7

    run(tmp_path, scenario)


def test_a_decision_is_carried_out_when_its_coordinator_leads_again_in_the_same_epoch(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = await begin(brokers)
        ending = await begun(producer.end())
        partition = brokers.partition(TRANSACTION_STATE, ONE)
        partition.allow_leading(False)
        assert await ending is ErrorCode.NOT_COORDINATOR
        brokers.replicate(TRANSACTION_STATE, ONE)
        partition.allow_leading(True)
        await brokers.settled(ONE)
        await until(lambda: brokers.partition("orders", ONE).log.log_end_offset == 1)  # the marker
        assert producer.state == "CompleteCommit"

    run(tmp_path, scenario)

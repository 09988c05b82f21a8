"""Handlers of administration: what a client is told that may not ask, and requests that name many things."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.apis import APIS
from penstock.broker.session import RequestContext, Session
from penstock.broker.slices import Slices
from penstock.cluster.decisions.elections import ElectionResult, ElectionType, decide_elections
from penstock.cluster.image import BrokerRegistration, MetadataImage, PartitionState, TopicImage
from penstock.core.types import TopicPartition
from penstock.protocol.codec import encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls import DescribeAclsRequest
from penstock.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from penstock.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
LONGEST_NAME = "x" * 32_767


class Answering:
    """An authorizer with one answer."""

    has_rules = False

    def __init__(self, is_allowed: bool) -> None:
        self._is_allowed = is_allowed

    def is_allowed(self, *_: object) -> bool:
        return self._is_allowed

    would_allow = is_allowed


class Deciding:
    """Metadata that decides on its image, and keeps it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.controller_api = self

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election_type: ElectionType
    ) -> tuple[ElectionResult, ...]:
        return decide_elections(self.image, partitions, election_type).results


def ask(
    request: Message,
    *,
    is_allowed: bool = True,
    version: int | None = None,
    image: MetadataImage | None = None,
    is_session_sure: bool = True,
) -> Any:
    slices = Slices(lambda: 0.0)
    metadata = Deciding(image or MetadataImage("cluster"))
    partitions = SimpleNamespace(context=SimpleNamespace(is_session_sure=lambda: is_session_sure))
    broker: Any = SimpleNamespace(
        authorizer=Answering(is_allowed), metadata=metadata, partitions=partitions, forwarding=None, slices=slices
    )
    chosen = request.MAX_VERSION if version is None else version
    context = RequestContext(Session("1", "10.0.0.1", "PLAINTEXT"), request.API_KEY, chosen, "me")
    response: Any = APIS[request.API_KEY].handler(broker, context, request)
    if isinstance(response, Generator):
        response = asyncio.run(slices.run(response))
    elif isinstance(response, Coroutine):
        response = asyncio.run(response)
    encode(response, chosen)
    return response


@pytest.mark.parametrize(
    "request_class",
    [DescribeClientQuotasRequest, DescribeUserScramCredentialsRequest],
)
def test_request_fails_as_a_whole_when_the_client_may_not_ask(request_class: type[Message]) -> None:
    with pytest.raises(ApiError) as caught:
        ask(request_class(), is_allowed=False)
    assert caught.value.code is FAILED


def test_what_was_named_is_told_again_when_the_client_may_not_ask() -> None:
    partition = ReassignablePartition(partition_index=3)
    moves = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[partition])])
    answer = ask(moves, is_allowed=False)
    (topic,) = answer.responses
    assert (answer.error_code, topic.name, topic.partitions[0].error_code) == (FAILED, "t", FAILED)
    named = ListPartitionReassignmentsTopics(name="t", partition_indexes=[3])
    answer = ask(ListPartitionReassignmentsRequest(topics=[named]), is_allowed=False)
    assert (answer.error_code, answer.topics[0].name) == (FAILED, "t")
    assert ask(ListPartitionReassignmentsRequest(topics=None), is_allowed=False).topics == []


def test_each_item_is_refused_when_the_client_may_not_ask_and_the_response_has_no_other_place() -> None:
    assert ask(DescribeAclsRequest(), is_allowed=False).error_code is FAILED
    (created,) = ask(CreateAclsRequest(creations=[AclCreation()]), is_allowed=False).results
    (deleted,) = ask(DeleteAclsRequest(filters=[DeleteAclsFilter()]), is_allowed=False).filter_results
    assert (created.error_code, deleted.error_code) == (FAILED, FAILED)
    named = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    for version in range(3):
        answer = ask(named, is_allowed=False, version=version)
        assert answer.error_code is FAILED
        assert answer.replica_election_results[0].partition_result[0].error_code is FAILED


@pytest.mark.parametrize(
    "request_",
    [
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=LONGEST_NAME, partitions=[0] * 1000)]),
        DescribeUserScramCredentialsRequest(users=[UserName(name=LONGEST_NAME)]),
    ],
)
def test_answer_stays_small_when_a_name_is_as_long_as_can_be(request_: Message) -> None:
    """A text for each partition that repeats the name would make 32 MB of a request of 37 kB, or not fit the wire."""
    assert len(encode(ask(request_), request_.MAX_VERSION)) < 200_000


def test_quota_filter_is_refused_with_a_short_text_when_its_entity_type_is_long() -> None:
    component = ComponentData(entity_type=LONGEST_NAME, match_type=2, match=None)
    with pytest.raises(ApiError) as caught:
        ask(DescribeClientQuotasRequest(components=[component]))
    assert len(caught.value.message) < 100


@pytest.mark.parametrize(
    "topics",
    [
        None,
        [
            ListPartitionReassignmentsTopics(name="other", partition_indexes=[0]),
            ListPartitionReassignmentsTopics(name="t", partition_indexes=[7, 1, 0]),
        ],
    ],
)
def test_only_reassignments_under_way_are_listed_when_asked_for(
    topics: list[ListPartitionReassignmentsTopics] | None,
) -> None:
    steady = PartitionState(0, (1, 2), (1, 2), 1)
    moving = PartitionState(1, (3, 2, 1), (1, 2), 1, adding=(3,), removing=(1,))
    image = MetadataImage("cluster", topics={"t": TopicImage("t", bytes(16), (steady, moving))})
    answer = ask(ListPartitionReassignmentsRequest(topics=topics), image=image)
    ((topic, (partition,)),) = [(topic.name, topic.partitions) for topic in answer.topics]
    assert (topic, partition.partition_index, partition.replicas) == ("t", 1, [3, 2, 1])
    assert (partition.adding_replicas, partition.removing_replicas) == ([3], [1])


def test_nobody_answers_as_the_controller_when_the_session_may_have_ended() -> None:
    answer = ask(ListPartitionReassignmentsRequest(topics=None), is_session_sure=False)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert "may not be the controller" in answer.error_message


def test_partitions_that_need_no_election_are_left_out_when_all_are_asked_for() -> None:
    led = PartitionState(0, (1, 2), (1, 2), 1)
    moved = PartitionState(1, (1, 2), (1, 2), 2)
    image = MetadataImage(
        "cluster",
        brokers={1: BrokerRegistration(1, ())},
        topics={
            "even": TopicImage("even", bytes(16), (led,)),
            "odd": TopicImage("odd", bytes(16), (led, moved)),
        },
    )
    answer = ask(ElectLeadersRequest(topic_partitions=None), image=image)
    assert [
        (topic.topic, [(each.partition_id, each.error_code) for each in topic.partition_result])
        for topic in answer.replica_election_results
    ] == [("even", []), ("odd", [(1, ErrorCode.NONE)])]
    named = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="odd", partitions=[1, 0, 5])])
    ((topic, results),) = [
        (each.topic, each.partition_result) for each in ask(named, image=image).replica_election_results
    ]
    assert topic == "odd"
    assert [(each.partition_id, each.error_code) for each in results] == [
        (1, ErrorCode.NONE),
        (0, ErrorCode.ELECTION_NOT_NEEDED),
        (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]

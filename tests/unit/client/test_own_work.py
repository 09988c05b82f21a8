"""Which errors are the traces of our own work, and which are not."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.own_work import TopicThere, find_doubts, settle, settle_by_asking
from penstock.client.sendings import Sendings
from penstock.core.config.resources import ConfigOperation
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_configs
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
)
from penstock.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

EXISTS, UNKNOWN = ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ID, OTHER_ID = b"i" * 16, b"o" * 16
THERE = TopicThere(ID, [(1, 2), (2, 3)], {"retention.ms": "5", "segment.ms": "9"})


class TestSendings:
    def test_nothing_is_done_when_nothing_was_lost(self) -> None:
        sendings = Sendings()
        sendings.refused([ErrorCode.NONE, EXISTS])
        assert not sendings.may_be_done

    def test_request_may_be_done_when_its_answer_was_lost(self) -> None:
        sendings = Sendings()
        sendings.lost()
        sendings.refused([EXISTS])
        assert sendings.may_be_done

    @pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
    def test_request_may_be_done_when_the_controller_is_not_sure(self, code: ErrorCode) -> None:
        sendings = Sendings()
        sendings.refused([code])
        sendings.refused([ErrorCode.NONE])
        assert sendings.may_be_done


def wished(**changes: Any) -> CreatableTopic:
    fields = {"name": "t", "num_partitions": 2, "replication_factor": 2, **changes}
    return CreatableTopic(**fields)


def setting(name: str, value: str) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=name, value=value)]


def assigned(*replicas: list[int]) -> CreatableTopic:
    rows = [CreatableReplicaAssignment(partition_index=index, broker_ids=each) for index, each in enumerate(replicas)]
    return wished(num_partitions=-1, replication_factor=-1, assignments=rows[::-1])


def create(wish: CreatableTopic, code: ErrorCode = EXISTS, **changes: Any) -> tuple[Message, CreateTopicsResponse]:
    row = CreatableTopicResult(name="t", error_code=code, error_message="what was wrong")
    return CreateTopicsRequest(topics=[wish], **changes), CreateTopicsResponse(topics=[row])


@pytest.mark.parametrize(
    ("wish", "is_ours"),
    [
        (wished(), True),
        (wished(num_partitions=3), False),
        (wished(replication_factor=1), False),
        (wished(num_partitions=-1, replication_factor=-1), True),
        (wished(configs=setting("retention.ms", "5")), True),
        (wished(configs=setting("retention.ms", "6")), False),
        (wished(configs=setting("cleanup.policy", "compact")), False),
        (assigned([1, 2], [2, 3]), True),
        (assigned([1, 2], [3, 2]), False),
        (assigned([1, 2]), False),
    ],
)
def test_topic_is_ours_when_it_is_as_was_asked_for(wish: CreatableTopic, is_ours: bool) -> None:
    request, response = create(wish)
    settle(find_doubts(request, response), {"t": THERE})
    (row,) = response.topics
    assert row.error_code == (ErrorCode.NONE if is_ours else EXISTS)
    assert row.error_message == (None if is_ours else "what was wrong")
    assert (row.topic_id, row.num_partitions, row.replication_factor) == (
        (ID, 2, 2) if is_ours else (bytes(16), -1, -1)
    )


def test_settings_are_not_compared_when_they_are_not_known() -> None:
    request, response = create(wished(configs=setting("retention.ms", "6")))
    settle(find_doubts(request, response), {"t": THERE._replace(configs=None)})
    assert response.topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("before", "is_ours"), [({}, True), ({"t": THERE}, False), ({"t": THERE._replace(topic_id=OTHER_ID)}, False)]
)
def test_topic_is_not_ours_when_there_was_one_before(before: dict[str, TopicThere], is_ours: bool) -> None:
    request, response = create(wished())
    assert len(settle(find_doubts(request, response), {"t": THERE}, before)) == is_ours


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        create(wished(), ErrorCode.INVALID_REPLICATION_FACTOR),
        create(wished(), EXISTS, validate_only=True),
        create(wished(name="another")),
        (CreateAclsRequest(), CreateAclsResponse(results=[AclCreationResult(error_code=EXISTS)])),
    ],
)
def test_no_doubt_arises_when_our_own_work_does_not_explain_the_error(request_: Message, response: Message) -> None:
    assert find_doubts(request_, response) == []


def grow(count: int, *assignments: list[int]) -> tuple[Message, CreatePartitionsResponse]:
    rows = [CreatePartitionsAssignment(broker_ids=each) for each in assignments] or None
    wish = CreatePartitionsTopic(name="t", count=count, assignments=rows)
    row = CreatePartitionsTopicResult(name="t", error_code=ErrorCode.INVALID_PARTITIONS)
    return CreatePartitionsRequest(topics=[wish]), CreatePartitionsResponse(results=[row])


@pytest.mark.parametrize(
    ("asked", "is_ours"),
    [
        (grow(2), True),
        (grow(1), False),
        (grow(3), False),
        (grow(2, [2, 3]), True),
        (grow(2, [3, 1]), False),
    ],
)
def test_partitions_are_ours_when_there_are_as_many_as_were_asked_for(
    asked: tuple[Message, CreatePartitionsResponse], is_ours: bool
) -> None:
    small = THERE._replace(replicas=THERE.replicas[:1])
    assert len(settle(find_doubts(*asked), {"t": THERE}, {"t": small})) == is_ours
    assert settle(find_doubts(*asked), {"t": THERE}, {"t": THERE}) == []


def delete(**fields: Any) -> tuple[Message, DeleteTopicsResponse]:
    return DeleteTopicsRequest(), DeleteTopicsResponse(responses=[DeletableTopicResult(**fields)])


def test_topic_is_deleted_when_it_is_gone() -> None:
    assert len(settle(find_doubts(*delete(name="t", error_code=UNKNOWN)), {}, {"t": THERE})) == 1
    assert settle(find_doubts(*delete(name="t", error_code=UNKNOWN)), {"t": THERE}) == []
    assert len(settle(find_doubts(*delete(name=None, topic_id=ID, error_code=ErrorCode.UNKNOWN_TOPIC_ID)), {})) == 1
    assert find_doubts(*delete(name="t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)) == []


def change(*changes: tuple[str, int, str | None]) -> tuple[Message, Message]:
    configs = [
        AlterableConfig(name=name, config_operation=operation, value=value) for name, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=configs)
    row = AlterConfigsResourceResponse(resource_type=2, resource_name="t", error_code=UNKNOWN)
    return IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse(responses=[row])


def replace_all(*settings: tuple[str, str]) -> tuple[Message, Message]:
    configs = [alter_configs.AlterableConfig(name=name, value=value) for name, value in settings]
    resource = alter_configs.AlterConfigsResource(resource_type=2, resource_name="t", configs=configs)
    row = alter_configs.AlterConfigsResourceResponse(resource_type=2, resource_name="t", error_code=UNKNOWN)
    request = alter_configs.AlterConfigsRequest(resources=[resource])
    return request, alter_configs.AlterConfigsResponse(responses=[row])


@pytest.mark.parametrize(
    ("asked", "is_ours"),
    [
        (change(("penstock.tags", ConfigOperation.DELETE, None)), True),
        (change(("penstock.tags", ConfigOperation.SUBTRACT, "pii")), True),
        (change(("penstock.tags", ConfigOperation.SET, "")), True),
        (change(("penstock.tags", ConfigOperation.SET, "pii")), False),
        (change(("penstock.tags", ConfigOperation.APPEND, "pii")), False),
        (change(("retention.ms", ConfigOperation.DELETE, None)), False),
        (replace_all(), True),
        (replace_all(("penstock.tags", "")), True),
        (replace_all(("penstock.tags", "pii")), False),
        (replace_all(("retention.ms", "1")), False),
    ],
)
def test_tags_of_a_name_are_cleared_when_there_is_neither_a_topic_nor_a_tag(
    asked: tuple[Message, Any], is_ours: bool
) -> None:
    request, response = asked
    assert settle(find_doubts(request, response), {"t": THERE}) == []
    settle(find_doubts(request, response), {})
    assert response.responses[0].error_code == (ErrorCode.NONE if is_ours else UNKNOWN)


def test_moves_are_cancelled_when_there_is_nothing_to_cancel_any_more() -> None:
    asked = [
        ReassignablePartition(partition_index=0, replicas=None),
        ReassignablePartition(partition_index=1, replicas=[1]),
    ]
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    rows = [ReassignablePartitionResponse(partition_index=index, error_code=code) for index in (0, 1)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=asked)])
    response = AlterPartitionReassignmentsResponse(responses=[ReassignableTopicResponse(name="t", partitions=rows)])
    settle(find_doubts(request, response), {})
    assert [row.error_code for row in rows] == [ErrorCode.NONE, code]


def test_user_is_deleted_when_there_is_no_such_credential() -> None:
    code = ErrorCode.RESOURCE_NOT_FOUND
    rows = [AlterUserScramCredentialsResult(user=user, error_code=code) for user in ("gone", "another")]
    request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="gone")])
    settle(find_doubts(request, AlterUserScramCredentialsResponse(results=rows)), {})
    assert [row.error_code for row in rows] == [ErrorCode.NONE, code]


@pytest.mark.parametrize(("period_ms", "told"), [(-1, (ErrorCode.NONE, -1)), (5, (62, 0))])
def test_token_is_ended_when_there_is_no_such_token(period_ms: int, told: tuple[int, int]) -> None:
    response = ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    settle(find_doubts(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=period_ms), response), {})
    assert (response.error_code, response.expiry_timestamp_ms) == told


def test_broker_is_unregistered_when_there_is_no_such_broker() -> None:
    response = UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="unknown")
    settle(find_doubts(UnregisterBrokerRequest(broker_id=3), response), {})
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    refused = UnregisterBrokerResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert find_doubts(UnregisterBrokerRequest(broker_id=3), refused) == []


class TestAsking:
    def ask(self, wish: CreatableTopic, *answers: Message) -> tuple[list[type[Message]], CreateTopicsResponse]:
        """(what was asked, the response in the end)"""
        request, response = create(wish)
        steps, asked, left = settle_by_asking(request, response), [], list(answers)
        try:
            question = next(steps)
            while True:
                asked.append(type(question))
                question = steps.send(left.pop(0))
        except StopIteration:
            return asked, response

    def metadata(self, **fields: Any) -> MetadataResponse:
        rows = [
            MetadataResponsePartition(partition_index=1, replica_nodes=[2, 3]),
            MetadataResponsePartition(partition_index=0, replica_nodes=[1, 2]),
        ]
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=ID, partitions=rows, **fields)])

    def configs(self, code: ErrorCode = ErrorCode.NONE) -> DescribeConfigsResponse:
        rows = [DescribeConfigsResourceResult(name="retention.ms", value="5")] if code is ErrorCode.NONE else []
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(error_code=code, resource_name="t", configs=rows)]
        )

    def test_partitions_and_replicas_are_asked_for_when_there_is_a_doubt(self) -> None:
        asked, response = self.ask(assigned([1, 2], [2, 3]), self.metadata())
        assert (asked, response.topics[0].error_code) == ([MetadataRequest], ErrorCode.NONE)

    @pytest.mark.parametrize(("value", "code"), [("5", ErrorCode.NONE), ("6", EXISTS)])
    def test_settings_are_asked_for_when_some_were_wished(self, value: str, code: ErrorCode) -> None:
        wish = wished(configs=setting("retention.ms", value))
        asked, response = self.ask(wish, self.metadata(), self.configs())
        assert (asked, response.topics[0].error_code) == ([MetadataRequest, DescribeConfigsRequest], code)

    def test_partitions_decide_when_the_settings_may_not_be_seen(self) -> None:
        wish = wished(configs=setting("retention.ms", "6"))
        denied = self.configs(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert self.ask(wish, self.metadata(), denied)[1].topics[0].error_code == ErrorCode.NONE

    def test_topic_is_not_ours_when_it_may_not_be_seen(self) -> None:
        hidden = MetadataResponseTopic(name="t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert self.ask(wished(), MetadataResponse(topics=[hidden]))[1].topics[0].error_code == EXISTS

    def test_nothing_is_asked_when_there_is_no_doubt(self) -> None:
        assert list(settle_by_asking(*create(wished(), ErrorCode.NONE))) == []

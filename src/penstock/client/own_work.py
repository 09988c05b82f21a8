"""Answers that find what an earlier sending of the same request has done, turned into the answer that was lost.

To be used where `Sendings.may_be_done`, and nowhere else. An error is taken for the trace of our own work where it is
what a second sending meets, and where what is there now is what was asked for:

    CreateTopics                 exists already, with these partitions, replicas and settings
    CreatePartitions             has that many already
    DeleteTopics                 there is none
    IncrementalAlterConfigs,     no topic, and nothing but tags is taken off (a name without a topic may have some
    AlterConfigs                 until they are cleared)
    AlterPartitionReassignments  nothing to cancel
    AlterUserScramCredentials    no credential to delete
    ExpireDelegationToken        no token to end
    UnregisterBroker             no such broker

Whoever knows of topics that were there `before` the first sending (a broker does) rules out what the first sending met
already. A topic that was not known may have been there even so: images are late. Other changes are the same when they
are made twice, but for three that nobody can tell from a first sending: DeleteAcls names what it deleted the first time
alone, ElectLeaders says the second time that no election is needed, and a second CreateDelegationToken makes a second
token, which ends unused.

Questions to brokers are yielded (`settle_by_asking`), so that both kinds of client can ask them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from penstock.core.config.keys.authorization import TAGS_KEY
from penstock.core.config.resources import ConfigOperation
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

_TOPIC_RESOURCE = 2
_NO_ERROR = {"error_code": ErrorCode.NONE, "error_message": None}


class TopicThere(NamedTuple):
    topic_id: bytes
    replicas: Sequence[Sequence[int]]  # of each partition, in order
    configs: Mapping[str, str | None] | None = None  # None where they are not known


Topics = Mapping[str, TopicThere]


class Doubt(NamedTuple):
    """One thing of a request whose error our own work would explain."""

    row: Any  # of the response
    topic: str | None = None  # None where nothing has to be looked at
    is_met: Callable[[TopicThere | None], bool] = lambda _: True  # whether such a topic, or none, leads to the error
    is_done: Callable[[TopicThere | None], bool] = lambda _: True  # whether the topic is as was asked for
    fields: Mapping[str, Any] = MappingProxyType({})  # of the row, beside the error


def find_doubts(request: Message, response: Message) -> list[Doubt]:
    find = _RULES.get(type(request))
    return [] if find is None else list(find(request, response))


def settle(doubts: Sequence[Doubt], now: Topics, before: Topics | None = None) -> list[Doubt]:
    """Those that are our own work. Their rows of the response say so from here on."""
    done = []
    for doubt in doubts:
        if doubt.topic is not None:
            there = now.get(doubt.topic)
            known = None if before is None else before.get(doubt.topic)
            if not doubt.is_done(there) or (known is not None and doubt.is_met(known)):
                continue
            if isinstance(doubt.row, CreatableTopicResult) and there is not None:
                doubt.row.topic_id = there.topic_id
                doubt.row.num_partitions, doubt.row.replication_factor = len(there.replicas), len(there.replicas[0])
        for name, value in {**_NO_ERROR, **doubt.fields}.items():
            if name in doubt.row.__slots__:
                setattr(doubt.row, name, value)
        done.append(doubt)
    return done


def settle_by_asking(request: Message, response: Message) -> Generator[Message, Any, None]:
    """Yields questions for the broker that gave the response, and is sent its answers."""
    doubts = find_doubts(request, response)
    names = sorted({doubt.topic for doubt in doubts if doubt.topic is not None})
    now: dict[str, TopicThere] = {}
    if names:
        topics = [MetadataRequestTopic(name=name) for name in names]
        now = _read_topics((yield MetadataRequest(topics=topics, allow_auto_topic_creation=False)))
        wanted = _wanted_settings(request, now)
        if wanted:
            resources = [
                DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=keys)
                for name, keys in wanted.items()
            ]
            described: DescribeConfigsResponse = yield DescribeConfigsRequest(resources=resources)
            for result in described.results:
                if result.error_code == ErrorCode.NONE and result.resource_name in now:
                    configs = {each.name: each.value for each in result.configs}
                    now[result.resource_name] = now[result.resource_name]._replace(configs=configs)
    settle(doubts, now)


def _read_topics(metadata: MetadataResponse) -> dict[str, TopicThere]:
    """Without those that are not there. Of one that we may not see nothing is known, so it fits no wish."""
    return {
        topic.name or "": TopicThere(
            topic.topic_id,
            [row.replica_nodes for row in sorted(topic.partitions, key=lambda each: each.partition_index)],
        )
        for topic in metadata.topics
        if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


def _wanted_settings(request: Message, there: Topics) -> dict[str, list[str]]:
    if not isinstance(request, CreateTopicsRequest):
        return {}
    keys = {topic.name: [each.name for each in topic.configs] for topic in request.topics}
    return {name: wanted for name, wanted in keys.items() if wanted and name in there}


# ---------------------------------------------------------------------------------------------------- the rules


def _create_topics(request: CreateTopicsRequest, response: CreateTopicsResponse) -> Iterator[Doubt]:
    wanted = {topic.name: topic for topic in request.topics}
    for row in () if request.validate_only else response.topics:
        if row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and row.name in wanted:
            yield Doubt(row, row.name, _is_there, _is_created(wanted[row.name]))


def _is_there(there: TopicThere | None) -> bool:
    return there is not None


def _is_gone(there: TopicThere | None) -> bool:
    return there is None


def _is_created(wanted: CreatableTopic) -> Callable[[TopicThere | None], bool]:
    assigned = [each.broker_ids for each in sorted(wanted.assignments, key=lambda each: each.partition_index)]

    def is_done(there: TopicThere | None) -> bool:
        if there is None or not there.replicas:
            return False
        if assigned:
            fits = [list(nodes) for nodes in there.replicas] == assigned
        else:  # a number below 1 is the brokers' default
            fits = wanted.num_partitions in (len(there.replicas), -1)
            fits = fits and wanted.replication_factor in (len(there.replicas[0]), -1)
        configs = there.configs
        return fits and (configs is None or all(configs.get(each.name) == each.value for each in wanted.configs))

    return is_done


def _create_partitions(request: CreatePartitionsRequest, response: CreatePartitionsResponse) -> Iterator[Doubt]:
    wanted = {topic.name: topic for topic in request.topics}
    for row in () if request.validate_only else response.results:
        if row.error_code == ErrorCode.INVALID_PARTITIONS and row.name in wanted:
            yield Doubt(row, row.name, _is_large(wanted[row.name]), _is_grown(wanted[row.name]))


def _is_large(wanted: CreatePartitionsTopic) -> Callable[[TopicThere | None], bool]:
    return lambda there: there is not None and len(there.replicas) >= wanted.count


def _is_grown(wanted: CreatePartitionsTopic) -> Callable[[TopicThere | None], bool]:
    assigned = [each.broker_ids for each in wanted.assignments or ()]

    def is_done(there: TopicThere | None) -> bool:
        if there is None or len(there.replicas) != wanted.count:
            return False
        newest = there.replicas[len(there.replicas) - len(assigned) :]
        return [list(nodes) for nodes in newest] == assigned

    return is_done


def _delete_topics(_: DeleteTopicsRequest, response: DeleteTopicsResponse) -> Iterator[Doubt]:
    """An id is of a topic that was there once, and is never used again."""
    for row in response.responses:
        if row.error_code == ErrorCode.UNKNOWN_TOPIC_ID and row.topic_id != ZERO_UUID:
            yield Doubt(row)
        elif row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and row.name is not None:
            yield Doubt(row, row.name, _is_gone, _is_gone)


def _change_configs(
    request: IncrementalAlterConfigsRequest, response: IncrementalAlterConfigsResponse
) -> Iterator[Doubt]:
    taking = (ConfigOperation.DELETE, ConfigOperation.SUBTRACT)
    cleared = {
        resource.resource_name
        for resource in request.resources
        if resource.resource_type == _TOPIC_RESOURCE
        and resource.configs
        and all(
            each.name == TAGS_KEY and (each.config_operation in taking or not each.value) for each in resource.configs
        )
    }
    return _clear_tags(() if request.validate_only else response.responses, cleared)


def _replace_configs(request: AlterConfigsRequest, response: AlterConfigsResponse) -> Iterator[Doubt]:
    cleared = {
        resource.resource_name
        for resource in request.resources
        if resource.resource_type == _TOPIC_RESOURCE
        and all(each.name == TAGS_KEY and not each.value for each in resource.configs)
    }
    return _clear_tags(() if request.validate_only else response.responses, cleared)


def _clear_tags(rows: Iterable[Any], cleared: Collection[str]) -> Iterator[Doubt]:
    for row in rows:
        is_unknown = row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_unknown and row.resource_type == _TOPIC_RESOURCE and row.resource_name in cleared:
            yield Doubt(row, row.resource_name, _is_gone, _is_gone)


def _cancel_moves(
    request: AlterPartitionReassignmentsRequest, response: AlterPartitionReassignmentsResponse
) -> Iterator[Doubt]:
    cancelled = {
        (topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
        if each.replicas is None
    }
    for topic in response.responses:
        for row in topic.partitions:
            is_over = row.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            if is_over and (topic.name, row.partition_index) in cancelled:
                yield Doubt(row)


def _delete_users(
    request: AlterUserScramCredentialsRequest, response: AlterUserScramCredentialsResponse
) -> Iterator[Doubt]:
    deleted = {each.name for each in request.deletions}
    for row in response.results:
        if row.error_code == ErrorCode.RESOURCE_NOT_FOUND and row.user in deleted:
            yield Doubt(row)


def _end_token(request: ExpireDelegationTokenRequest, response: ExpireDelegationTokenResponse) -> Iterator[Doubt]:
    """A negative period ends the token at once, and is the expiry that is told."""
    if response.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND and request.expiry_time_period_ms < 0:
        yield Doubt(response, fields={"expiry_timestamp_ms": request.expiry_time_period_ms})


def _unregister_broker(_: UnregisterBrokerRequest, response: UnregisterBrokerResponse) -> Iterator[Doubt]:
    if response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED:
        yield Doubt(response)


# What each function takes is the key of its row.
_RULES: Mapping[type[Message], Callable[[Any, Any], Iterator[Doubt]]] = {
    CreateTopicsRequest: _create_topics,
    CreatePartitionsRequest: _create_partitions,
    DeleteTopicsRequest: _delete_topics,
    IncrementalAlterConfigsRequest: _change_configs,
    AlterConfigsRequest: _replace_configs,
    AlterPartitionReassignmentsRequest: _cancel_moves,
    AlterUserScramCredentialsRequest: _delete_users,
    ExpireDelegationTokenRequest: _end_token,
    UnregisterBrokerRequest: _unregister_broker,
}

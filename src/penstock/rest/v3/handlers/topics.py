"""Topics: listed, created, described, extended by partitions, deleted."""

from __future__ import annotations

import penstock.admin.changes.topics as changes
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsResponse
from penstock.protocol.messages.create_topics import CreatableTopicConfig, CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicsResponse
from penstock.protocol.messages.metadata import MetadataResponseTopic
from penstock.rest.errors import INVALID_PAYLOAD, RestError
from penstock.rest.v3.bodies import NewTopic, PartitionCount
from penstock.rest.v3.calls import Call, Done, check
from penstock.rest.v3.shapes import Topic, TopicList
from penstock.security.acls.types import Operation


def _topic(call: Call, name: str, *, is_internal: bool, replication_factor: int, partitions_count: int) -> Topic:
    place = call.cluster.under("topics", "topic", name)
    return Topic(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        topic_name=name,
        is_internal=is_internal,
        replication_factor=replication_factor,
        partitions_count=partitions_count,
        partitions=place.relating("partitions"),
        configs=place.relating("configs"),
        partition_reassignments=place.relating("partitions/-/reassignment"),
    )


def _described(call: Call, name: str, row: MetadataResponseTopic) -> Topic:
    return _topic(
        call,
        name,
        is_internal=row.is_internal,
        replication_factor=len(row.partitions[0].replica_nodes) if row.partitions else 0,
        partitions_count=len(row.partitions),
    )


async def list_topics(call: Call) -> TopicList:
    """The topics that the caller may describe."""
    data = [_described(call, name, row) for name, row in (await call.all_topics()).items()]
    return TopicList(metadata=call.cluster.listing("topics"), data=data)


async def get_topic(call: Call) -> Topic:
    with_rights = call.query.get("include_authorized_operations", "").lower() == "true"
    row = await call.one_topic(with_rights=with_rights)
    topic = _described(call, call.path["topic_name"], row)
    if with_rights:
        topic.authorized_operations = _operations(row.topic_authorized_operations)
    return topic


def _operations(bits: int) -> list[str]:
    """A bit for each operation. Brokers send the lowest number where a request did not ask."""
    return [] if bits < 0 else [each.name for each in Operation if each and bits & (1 << each)]


async def create_topic(call: Call) -> Done:
    body = call.read(NewTopic)
    request = changes.creation([_new_topic(body)], only_check=body.validate_only)
    # The broker judges a setting that is there twice: a mapping would have kept the last one.
    request.topics[0].configs = [CreatableTopicConfig(name=each.name, value=each.value) for each in body.configs]
    answer: CreateTopicsResponse = await call.brokers.ask_controller(request, retry=True)
    made = answer.topics[0]
    try:
        check(made.error_code, made.error_message)
    except ApiError as error:
        if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise RestError(INVALID_PAYLOAD, f"Payload error. {error.message}") from None
        raise
    topic = _created(call, body, made)
    return Done(topic, 200 if body.validate_only else 201, topic.metadata.link)


def _new_topic(body: NewTopic) -> changes.NewTopic:
    """Without its settings."""
    return changes.NewTopic(
        body.topic_name, body.partitions_count, body.replication_factor, replicas=body.replicas_assignments or {}
    )


def _created(call: Call, body: NewTopic, made: CreatableTopicResult) -> Topic:
    """A broker before version 5 of CreateTopics does not return the numbers."""
    assignments = body.replicas_assignments or {}
    factor = len(next(iter(assignments.values()), ())) or body.replication_factor or 0
    count = len(assignments) or body.partitions_count or 0
    return _topic(
        call,
        body.topic_name,
        is_internal=False,
        replication_factor=made.replication_factor if made.replication_factor > 0 else max(factor, 0),
        partitions_count=made.num_partitions if made.num_partitions > 0 else max(count, 0),
    )


async def add_partitions(call: Call) -> Topic:
    name, count = call.path["topic_name"], call.read(PartitionCount).partitions_count
    answer: CreatePartitionsResponse = await call.brokers.ask_controller(changes.growth({name: count}), retry=True)
    check(answer.results[0].error_code, answer.results[0].error_message)
    topic = _described(call, name, await call.one_topic())
    topic.partitions_count = max(count, topic.partitions_count)  # a broker may not know the new partitions yet
    return topic


async def delete_topic(call: Call) -> None:
    request = changes.deletion([call.path["topic_name"]])
    answer: DeleteTopicsResponse = await call.brokers.ask_controller(request)
    check(answer.responses[0].error_code, answer.responses[0].error_message)

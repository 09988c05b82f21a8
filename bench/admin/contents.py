"""What is in the cluster of which a picture is taken: topics, one record in each partition, groups with a member each.

The groups commit offsets of twenty partitions. Four of five are classic, the others those of KIP-848. Their members say
nothing while they are looked at, so their sessions are long.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from bench.errors import BenchError
from bench.loads import MANY_IN_FLIGHT, now_ms
from bench.rebalance import Member, form_groups, require
from bench.wire import RawConnection, produce_error, produce_request, record_batch
from penstock.admin import NewTopic, connect
from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.testing.processes import ServerProcess

PARTITIONS_OF_TOPIC = 10
OFFSETS_PARTITIONS = 50  # of __consumer_offsets, which counts
PARTITIONS_FOR_GROUP = 20  # of the cluster
TOPICS_OF_GROUP = 2
KIP_848_EVERY = 5
TOPICS_AT_ONCE = 200
SESSION_TIMEOUT_MS = 1_800_000
SESSIONS = {
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.max.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}
COMMIT_VERSION, HEARTBEAT_VERSION = 9, 1


def plan_topics(partitions: int) -> dict[str, int]:
    """Names and partitions. With the topic of the offsets there is a topic for ten partitions, as many as wanted."""
    count = partitions // PARTITIONS_OF_TOPIC - 1
    small = -(-(count * PARTITIONS_OF_TOPIC + OFFSETS_PARTITIONS - partitions) // (PARTITIONS_OF_TOPIC - 1))
    sizes = [PARTITIONS_OF_TOPIC] * (count - small) + [1] * small
    sizes[-1] += partitions - OFFSETS_PARTITIONS - sum(sizes)
    return {f"picture-{number:04}": size for number, size in enumerate(sizes)}


@contextmanager
def filled(server: ServerProcess, partitions: int) -> Iterator[None]:
    """The members stay while the block runs."""
    topics = plan_topics(partitions)
    names = list(topics)
    with connect([(server.host, server.port)], timeout_s=60) as admin:
        for start in range(0, len(names), TOPICS_AT_ONCE):
            some = names[start : start + TOPICS_AT_ONCE]
            if refused := admin.create_topics(NewTopic(name, topics[name], 1) for name in some):
                raise BenchError(f"topics were not created: {refused}")
    _write_everywhere(server, [(name, index) for name, size in topics.items() for index in range(size)])
    with ExitStack() as stack:
        groups = [
            Member(
                f"picture-{number:03}",
                stack.enter_context(BlockingConnection(server.host, server.port)),
                session_timeout_ms=SESSION_TIMEOUT_MS,
            )
            for number in range(partitions // PARTITIONS_FOR_GROUP)
        ]
        form_groups([[member] for number, member in enumerate(groups) if number % KIP_848_EVERY], names[0])
        for number, member in enumerate(groups):
            if number % KIP_848_EVERY == 0:
                _join_new_group(member, names[0])
            first = number * TOPICS_OF_GROUP % (len(names) - TOPICS_OF_GROUP)
            _commit(member, {name: topics[name] for name in names[first : first + TOPICS_OF_GROUP]})
        yield


def _join_new_group(member: Member, topic: str) -> None:
    member.member_id = str(uuid.uuid4())
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group,
        member_id=member.member_id,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    answer = member.connection.request(request, HEARTBEAT_VERSION)
    require(answer.error_code, "heartbeat")
    member.generation = answer.member_epoch


def _commit(member: Member, topics: Mapping[str, int]) -> None:
    request = OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(size)
                ],
            )
            for name, size in topics.items()
        ],
    )
    answer = member.connection.request(request, COMMIT_VERSION)
    for topic in answer.topics:
        for each in topic.partitions:
            require(each.error_code, "commit")


def _write_everywhere(server: ServerProcess, places: Sequence[tuple[str, int]]) -> None:
    batch = record_batch(b"one", now_ms())
    with RawConnection(server.host, server.port) as connection:
        for start in range(0, len(places), MANY_IN_FLIGHT):
            some = places[start : start + MANY_IN_FLIGHT]
            connection.send(b"".join(produce_request(topic, index, batch) for topic, index in some))
            answers: list[bytes] = []
            while len(answers) < len(some):
                answers += connection.receive()
            for (topic, index), answer in zip(some, answers, strict=True):
                if error := produce_error(answer, topic):
                    raise BenchError(f"a produce to {topic}-{index} was answered with {ErrorCode(error).name}")

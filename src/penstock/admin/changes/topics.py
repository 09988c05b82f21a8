"""Topics and their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.admin.changes.outcomes import TIMEOUT_MS
from penstock.admin.queries.refusals import Refusals, refusals
from penstock.client.brokers import Brokers
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

_DEFAULT = -1  # the broker's own number of partitions or replicas


class NewTopic(NamedTuple):
    """None leaves the number to the broker. `replicas` names the brokers of each partition, the preferred leader first;
    partitions and replication factor follow from it.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = {}  # never changed
    replicas: Sequence[Sequence[int]] = ()


async def create_topics(brokers: Brokers, topics: Iterable[NewTopic], *, only_check: bool = False) -> Refusals:
    rows = [_creatable(topic) for topic in topics]
    request = CreateTopicsRequest(topics=rows, timeout_ms=TIMEOUT_MS, validate_only=only_check)
    answer: CreateTopicsResponse = await brokers.ask_controller(request, retry=True)
    return refusals((row.name, row) for row in answer.topics)


def _creatable(topic: NewTopic) -> CreatableTopic:
    is_assigned = bool(topic.replicas)
    return CreatableTopic(
        name=topic.name,
        num_partitions=_DEFAULT if is_assigned or topic.partitions is None else topic.partitions,
        replication_factor=_DEFAULT if is_assigned or topic.replication_factor is None else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
            for index, nodes in enumerate(topic.replicas)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


async def delete_topics(brokers: Brokers, names: Iterable[str]) -> Refusals:
    wanted = list(names)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in wanted], topic_names=wanted, timeout_ms=TIMEOUT_MS
    )
    answer: DeleteTopicsResponse = await brokers.ask_controller(request, retry=True)
    return refusals((row.name or "", row) for row in answer.responses)


async def add_partitions(brokers: Brokers, counts: Mapping[str, int]) -> Refusals:
    """How many each topic is to have."""
    rows = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
    request = CreatePartitionsRequest(topics=rows, timeout_ms=TIMEOUT_MS)
    answer: CreatePartitionsResponse = await brokers.ask_controller(request, retry=True)
    return refusals((row.name, row) for row in answer.results)

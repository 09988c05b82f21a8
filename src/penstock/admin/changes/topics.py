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
    """None leaves the number to the broker. `replicas` names the brokers of each partition, in order or by its number,
    the preferred leader first; partitions and replication factor follow from it.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str | None] = {}  # never changed; brokers refuse None
    replicas: Sequence[Sequence[int]] | Mapping[int, Sequence[int]] = ()


async def create_topics(brokers: Brokers, topics: Iterable[NewTopic], *, only_check: bool = False) -> Refusals:
    answer: CreateTopicsResponse = await brokers.ask_controller(creation(topics, only_check=only_check), retry=True)
    return refusals((row.name, row) for row in answer.topics)


def creation(topics: Iterable[NewTopic], *, only_check: bool = False) -> CreateTopicsRequest:
    rows = [_creatable(topic) for topic in topics]
    return CreateTopicsRequest(topics=rows, timeout_ms=TIMEOUT_MS, validate_only=only_check)


def _creatable(topic: NewTopic) -> CreatableTopic:
    is_assigned = bool(topic.replicas)
    replicas = topic.replicas.items() if isinstance(topic.replicas, Mapping) else enumerate(topic.replicas)
    return CreatableTopic(
        name=topic.name,
        num_partitions=_DEFAULT if is_assigned or topic.partitions is None else topic.partitions,
        replication_factor=_DEFAULT if is_assigned or topic.replication_factor is None else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
            for index, nodes in sorted(replicas)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


async def delete_topics(brokers: Brokers, names: Iterable[str]) -> Refusals:
    answer: DeleteTopicsResponse = await brokers.ask_controller(deletion(names), retry=True)
    return refusals((row.name or "", row) for row in answer.responses)


def deletion(names: Iterable[str]) -> DeleteTopicsRequest:
    """In the form of both generations: a version has the fields that it knows."""
    wanted = list(names)
    topics = [DeleteTopicState(name=name) for name in wanted]
    return DeleteTopicsRequest(topics=topics, topic_names=wanted, timeout_ms=TIMEOUT_MS)


async def add_partitions(brokers: Brokers, counts: Mapping[str, int]) -> Refusals:
    """How many each topic is to have."""
    answer: CreatePartitionsResponse = await brokers.ask_controller(growth(counts), retry=True)
    return refusals((row.name, row) for row in answer.results)


def growth(counts: Mapping[str, int]) -> CreatePartitionsRequest:
    rows = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
    return CreatePartitionsRequest(topics=rows, timeout_ms=TIMEOUT_MS)

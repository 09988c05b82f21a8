"""How commands show topics: pure shapes between the client library's answers and the output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock.cli.output import Table


class PartitionView(NamedTuple):
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


class TopicView(NamedTuple):
    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    configs: dict[str, str]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


def select_partitions(topics: Iterable[TopicView], under_replicated: bool, unavailable: bool) -> list[TopicView]:
    """Keeps only the partitions in trouble, and the topics that have some, when asked to."""
    if not under_replicated and not unavailable:
        return list(topics)
    selected = []
    for topic in topics:
        kept = tuple(
            partition
            for partition in topic.partitions
            if (under_replicated and partition.is_under_replicated) or (unavailable and partition.leader is None)
        )
        if kept:
            selected.append(topic._replace(partitions=kept))
    return selected


def topic_document(topic: TopicView) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "configs": topic.configs,
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
            }
            for partition in topic.partitions
        ],
    }


def topic_fields(topic: TopicView) -> list[tuple[str, object]]:
    fields: list[tuple[str, object]] = [
        ("Topic", topic.name),
        ("Id", topic.topic_id),
        ("Partitions", len(topic.partitions)),
        ("Replication", topic.replication_factor),
    ]
    if topic.is_internal:
        fields.append(("Internal", "yes"))
    for index, (key, value) in enumerate(sorted(topic.configs.items())):
        fields.append(("Configs" if index == 0 else "", f"{key}={value}"))
    return fields


def partition_table(topic: TopicView) -> Table:
    table = Table((">PARTITION", ">LEADER", "REPLICAS", "ISR"))
    for partition in topic.partitions:
        leader = "none" if partition.leader is None else partition.leader
        table.add(partition.partition, leader, join_ids(partition.replicas), join_ids(partition.isr))
    return table


def topic_list_table(topics: Iterable[tuple[str, int, int]]) -> Table:
    table = Table(("NAME", ">PARTITIONS", ">REPLICATION"))
    for name, partitions, replication in topics:
        table.add(name, partitions, replication)
    return table


def join_ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"

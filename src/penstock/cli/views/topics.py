"""How commands show topics: pure shapes between the client library's answers and the output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock.cli.output import Table


class PartitionView(NamedTuple):
    """Nobody who is there leads it: None. While replicas move, `replicas` has those that come and those that go."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def factor(self) -> int:
        """Replicas that are only on their way do not count yet, as in Kafka."""
        return len(self.replicas) - len(self.adding)

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < self.factor

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


class TopicView(NamedTuple):
    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    configs: dict[str, str]  # those that somebody has set
    min_isr: int = 1  # in force, whether set or not

    @property
    def replication_factor(self) -> int:
        return max((partition.factor for partition in self.partitions), default=0)

    def minimum(self, partition: PartitionView) -> int:
        """How many in-sync replicas acks=all needs: never more than there are (KIP-966)."""
        return min(self.min_isr, len(partition.replicas))


class Troubles(NamedTuple):
    """Which partitions are looked for: those in any of these states. The rules are those of kafka-topics, but for
    a minimum above the number of replicas: brokers take acks=all, and kafka-topics says that they refuse it.
    """

    under_replicated: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    unavailable: bool = False

    def has(self, topic: TopicView, partition: PartitionView) -> bool:
        return (
            (self.under_replicated and partition.is_under_replicated)
            or (self.under_min_isr and (partition.leader is None or len(partition.isr) < topic.minimum(partition)))
            or (self.at_min_isr and len(partition.isr) == topic.minimum(partition))
            or (self.unavailable and partition.leader is None)
        )


def select_partitions(topics: Iterable[TopicView], troubles: Troubles) -> list[TopicView]:
    """Keeps only the partitions in trouble, and the topics that have some, when asked to."""
    if not any(troubles):
        return list(topics)
    selected = []
    for topic in topics:
        kept = tuple(partition for partition in topic.partitions if troubles.has(topic, partition))
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
        "partitions": [_partition_document(partition) for partition in topic.partitions],
    }


def _partition_document(partition: PartitionView) -> dict[str, Any]:
    document: dict[str, Any] = {
        "partition": partition.partition,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
    }
    if partition.is_moving:
        document |= {"adding": list(partition.adding), "removing": list(partition.removing)}
    return document


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
    """Two columns more where replicas move."""
    is_moving = any(partition.is_moving for partition in topic.partitions)
    table = Table((">PARTITION", ">LEADER", "REPLICAS", "ISR", *(("ADDING", "REMOVING") if is_moving else ())))
    for partition in topic.partitions:
        leader = "none" if partition.leader is None else partition.leader
        moves = (join_ids(partition.adding), join_ids(partition.removing)) if is_moving else ()
        table.add(partition.partition, leader, join_ids(partition.replicas), join_ids(partition.isr), *moves)
    return table


def topic_list_table(topics: Iterable[tuple[str, int, int]]) -> Table:
    table = Table(("NAME", ">PARTITIONS", ">REPLICATION"))
    for name, partitions, replication in topics:
        table.add(name, partitions, replication)
    return table


def join_ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"

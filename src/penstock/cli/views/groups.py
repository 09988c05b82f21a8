"""How commands show groups: members, states, and the lag of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.cli.output import Table
from penstock.core.types import TopicPartition


class MemberView(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class GroupView(NamedTuple):
    group_id: str
    state: str
    group_type: str
    assignor: str
    coordinator: str
    members: tuple[MemberView, ...]


class PartitionLag(NamedTuple):
    key: TopicPartition
    committed: int | None
    log_end_offset: int | None  # None: the partition is gone
    member: MemberView | None

    @property
    def lag(self) -> int | None:
        """Records after the committed offset; unknown before the first commit, as in Kafka's own tool."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - self.committed)


def compute_lags(
    group: GroupView, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[PartitionLag]:
    """One line for each partition that has a commit or a reader."""
    readers = {key: member for member in group.members for key in member.partitions}
    keys = sorted(set(committed) | set(readers))
    return [PartitionLag(key, committed.get(key), ends.get(key), readers.get(key)) for key in keys]


def lag_table(lags: Iterable[PartitionLag]) -> Table:
    table = Table(("TOPIC", ">PARTITION", ">COMMITTED", ">LOG-END", ">LAG", "MEMBER", "HOST", "CLIENT"))
    for lag in lags:
        member = (lag.member.member_id, lag.member.host, lag.member.client_id) if lag.member else (None, None, None)
        table.add(lag.key.topic, lag.key.partition, lag.committed, lag.log_end_offset, lag.lag, *member)
    return table


def lag_documents(lags: Iterable[PartitionLag]) -> list[dict[str, Any]]:
    return [
        {
            "topic": lag.key.topic,
            "partition": lag.key.partition,
            "committed_offset": lag.committed,
            "log_end_offset": lag.log_end_offset,
            "lag": lag.lag,
            "member_id": lag.member.member_id if lag.member else None,
            "host": lag.member.host if lag.member else None,
            "client_id": lag.member.client_id if lag.member else None,
        }
        for lag in lags
    ]


def member_table(group: GroupView) -> Table:
    table = Table(("MEMBER", "INSTANCE", "HOST", "CLIENT", ">PARTITIONS", "ASSIGNMENT"))
    for member in group.members:
        table.add(
            member.member_id, member.instance_id, member.host, member.client_id, len(member.partitions),
            format_assignment(member.partitions) or None,
        )  # fmt: skip
    return table


def format_assignment(partitions: Iterable[TopicPartition]) -> str:
    """`orders(0,1) payments(3)`."""
    by_topic: dict[str, list[int]] = {}
    for key in sorted(partitions):
        by_topic.setdefault(key.topic, []).append(key.partition)
    return " ".join(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in by_topic.items())


def group_document(group: GroupView, lags: list[PartitionLag]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.group_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [{"topic": key.topic, "partition": key.partition} for key in member.partitions],
            }
            for member in group.members
        ],
        "offsets": lag_documents(lags),
        "total_lag": sum(lag.lag or 0 for lag in lags),
    }


def group_fields(group: GroupView, lags: list[PartitionLag]) -> list[tuple[str, object]]:
    return [
        ("Group", group.group_id),
        ("State", group.state),
        ("Type", group.group_type),
        ("Assignor", group.assignor or None),
        ("Coordinator", group.coordinator),
        ("Members", len(group.members)),
        ("Total lag", f"{sum(lag.lag or 0 for lag in lags):,}"),
    ]


def state_words(name: str) -> str:
    """`PREPARING_REBALANCING` as Kafka writes it: `PreparingRebalancing`."""
    return "".join(part.capitalize() for part in name.split("_"))

"""Asking a cluster about groups, and telling it: the effects behind `penstock groups`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.cli.access.cluster_client import (
    REQUEST_TIMEOUT_SECONDS,
    ClusterClient,
    fetch_metadata,
    raise_failures,
    wait,
)
from penstock.cli.access.offsets import find_offsets
from penstock.cli.errors import CliError, explain
from penstock.cli.plans.offset_reset import PlannedOffset
from penstock.cli.views.groups import GroupView, MemberView, PartitionLag, compute_lags, state_words
from penstock.core.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

# States in which nobody reads, so that offsets may be moved from outside.
_INACTIVE_STATES = frozenset({"Empty", "Dead"})


def list_group_ids(admin: AdminClient) -> list[str]:
    listing = wait(lambda: admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_SECONDS))
    return sorted(group.group_id for group in listing.valid or ())


def read_group(admin: AdminClient, name: str) -> GroupView:
    """CliError when there is no such group; brokers before 4.0 describe it as dead instead."""
    group = wait(
        lambda: admin.describe_consumer_groups([name], request_timeout=REQUEST_TIMEOUT_SECONDS)[name], f"group {name}"
    )
    state = state_words(group.state.name)
    if state == "Dead" and not group.members:
        raise explain("GROUP_ID_NOT_FOUND", "", f"group {name}")
    members = tuple(
        MemberView(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.host.lstrip("/"),
            tuple(sorted(TopicPartition(key.topic, key.partition) for key in member.assignment.topic_partitions)),
        )
        for member in sorted(group.members, key=lambda member: str(member.member_id))
    )
    node = group.coordinator
    coordinator = f"{node.host}:{node.port} ({node.id})" if node is not None else "-"
    return GroupView(name, state, state_words(group.type.name), group.partition_assignor, coordinator, members)


def is_inactive(group: GroupView) -> bool:
    return group.state in _INACTIVE_STATES


def read_committed(admin: AdminClient, name: str) -> dict[TopicPartition, int]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    request = [ConsumerGroupTopicPartitions(name)]
    answer = wait(
        lambda: admin.list_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT_SECONDS)[name],
        f"group {name}",
    )
    return {
        TopicPartition(key.topic, key.partition): key.offset for key in answer.topic_partitions or () if key.offset >= 0
    }


def read_lags(admin: AdminClient, group: GroupView) -> list[PartitionLag]:
    committed = read_committed(admin, group.group_id)
    keys = set(committed) | {key for member in group.members for key in member.partitions}
    topics = fetch_metadata(admin).topics
    existing = [key for key in keys if key.topic in topics and key.partition in topics[key.topic].partitions]
    ends = find_offsets(admin, dict.fromkeys(existing, "latest"))
    return compute_lags(group, committed, {key: answer.offset for key, answer in ends.items()})


def commit_plan(admin: AdminClient, group: str, plan: Iterable[PlannedOffset]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka import TopicPartition as ClientPartition

    offsets = [ClientPartition(planned.key.topic, planned.key.partition, planned.new) for planned in plan]
    request = [ConsumerGroupTopicPartitions(group, offsets)]
    answer: Any = wait(
        lambda: admin.alter_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT_SECONDS)[group],
        f"group {group}",
    )
    raise_failures(
        explain(key.error.name(), key.error.str(), f"{key.topic}-{key.partition}")
        for key in answer.topic_partitions
        if key.error is not None
    )


def delete_offsets(cluster: ClusterClient, group: str, keys: list[TopicPartition]) -> dict[TopicPartition, CliError]:
    """OffsetDelete, which the client library does not offer. What could not be deleted, and why."""
    from penstock.admin.changes.groups import deletion_of_commits, read_refused_commits
    from penstock.cli.access.raw_client import check_error, find_group_coordinator, open_broker
    from penstock.protocol.messages.offset_delete import OffsetDeleteResponse

    with open_broker(cluster, find_group_coordinator(cluster, group)) as broker:
        response = broker.request(deletion_of_commits(group, keys), OffsetDeleteResponse)
    check_error(response.error_code, f"group {group}")
    return {place: explain(error.code.name, "", str(place)) for place, error in read_refused_commits(response).items()}


def read_group_if_any(admin: AdminClient, name: str) -> GroupView | None:
    """A group that was never used may still be given offsets to start from."""
    try:
        return read_group(admin, name)
    except CliError as error:
        if error.name == "GROUP_ID_NOT_FOUND":
            return None
        raise

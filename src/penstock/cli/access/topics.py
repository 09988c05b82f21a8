"""Asking a cluster about topics: partitions, replicas that move, and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.cli.access.cluster_client import (
    REQUEST_TIMEOUT_SECONDS,
    ClusterClient,
    fetch_metadata,
    raise_failures,
    wait_each,
)
from penstock.cli.access.cluster_now import try_list_moves
from penstock.cli.views.topics import PartitionView, TopicView
from penstock.client.move_requests import Moving
from penstock.core.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_MIN_ISR = "min.insync.replicas"

Moves = dict[TopicPartition, Moving]


def read_topics(cluster: ClusterClient, admin: AdminClient, names: list[str]) -> list[TopicView]:
    from confluent_kafka import TopicCollection

    from penstock.cli.access.admin_types import ConfigResource, ConfigSource, ResourceType

    if not names:
        return []
    described, failures = wait_each(
        admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_SECONDS)
    )
    raise_failures(failures.values())
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    configs, refused = wait_each(admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_SECONDS))
    raise_failures(refused.values())
    by_name = {resource.name: entries for resource, entries in configs.items()}
    moves = try_list_moves(cluster)
    live = fetch_metadata(admin).brokers
    views = []
    for name in names:
        entries = by_name[name]
        changed = {
            entry.name: entry.value or ""
            for entry in entries.values()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        min_isr = int(entries[_MIN_ISR].value or 1) if _MIN_ISR in entries else 1
        views.append(_topic_view(described[name], moves, live)._replace(configs=changed, min_isr=min_isr))
    return views


def _topic_view(topic: Any, moves: Moves, live: Any) -> TopicView:
    partitions = []
    for partition in sorted(topic.partitions, key=lambda partition: partition.id):
        leader = partition.leader.id if partition.leader is not None else None
        move = moves.get(TopicPartition(topic.name, partition.id))
        partitions.append(
            PartitionView(
                partition.id,
                leader if leader in live else None,
                tuple(node.id for node in partition.replicas),
                tuple(node.id for node in partition.isr),
                () if move is None else move.adding,
                () if move is None else move.removing,
            )
        )
    # The library prints the id in plain base64, Kafka everywhere in its file-name-safe form.
    topic_id = str(topic.topic_id).translate(str.maketrans("+/", "-_")) if topic.topic_id is not None else None
    return TopicView(topic.name, topic_id, topic.is_internal, tuple(partitions), {})

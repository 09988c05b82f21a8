"""How commands show brokers: addresses, APIs, features, directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.admin.state.partitions import PartitionState
from penstock.cli.errors import CliError
from penstock.cli.output import Table
from penstock.cli.text import format_size
from penstock.client.move_requests import Moving
from penstock.core.types import TopicPartition
from penstock.protocol.api_names import API_NAMES
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsResult

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata, PartitionMetadata

LogDirectories = Sequence[tuple[int, Sequence[DescribeLogDirsResult]]]  # broker id and its directories


class BrokerView(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None


class PartitionCounts(NamedTuple):
    topics: int
    partitions: int
    under_replicated: int  # they lack in-sync replicas, but for those that a move adds
    offline: int  # they have no leader that is there

    def __str__(self) -> str:
        return f"{self.partitions} ({self.under_replicated} under-replicated, {self.offline} offline)"


def partition_counts(metadata: ClusterMetadata, moves: Mapping[TopicPartition, Moving]) -> PartitionCounts:
    partitions = [
        _partition_state(TopicPartition(name, index), partition, moves)
        for name, topic in metadata.topics.items()
        for index, partition in topic.partitions.items()
    ]
    return PartitionCounts(
        len(metadata.topics),
        len(partitions),
        sum(each.is_under_replicated for each in partitions),
        sum(each.is_offline(metadata.brokers) for each in partitions),
    )


def _partition_state(
    place: TopicPartition, partition: PartitionMetadata, moves: Mapping[TopicPartition, Moving]
) -> PartitionState:
    move = moves.get(place)
    adding = () if move is None else move.adding
    return PartitionState(*place, partition.leader, tuple(partition.replicas), tuple(partition.isrs), adding)


def choose_brokers(brokers: Sequence[BrokerView], wanted: Sequence[int] | None) -> list[BrokerView]:
    by_id = {broker.id: broker for broker in brokers}
    for broker_id in wanted or ():
        if broker_id not in by_id:
            raise CliError(f"there is no broker {broker_id}", f"There are {', '.join(map(str, by_id))}.")
    return [by_id[broker_id] for broker_id in wanted or by_id]


def broker_table(brokers: Iterable[BrokerView], controller: int | None) -> Table:
    table = Table((">ID", "ADDRESS", "RACK", "CONTROLLER"))
    for broker in brokers:
        table.add(broker.id, f"{broker.host}:{broker.port}", broker.rack, "yes" if broker.id == controller else "")
    return table


def api_table(versions: ApiVersionsResponse) -> Table:
    table = Table((">KEY", "API", ">MIN", ">MAX"))
    for api in sorted(versions.api_keys, key=lambda api: api.api_key):
        table.add(api.api_key, API_NAMES.get(api.api_key, "?"), api.min_version, api.max_version)
    return table


def api_documents(versions: ApiVersionsResponse) -> list[dict[str, Any]]:
    return [
        {
            "key": api.api_key,
            "name": API_NAMES.get(api.api_key),
            "min_version": api.min_version,
            "max_version": api.max_version,
        }
        for api in sorted(versions.api_keys, key=lambda api: api.api_key)
    ]


def feature_documents(versions: ApiVersionsResponse) -> list[dict[str, Any]]:
    finalized = {feature.name: feature.max_version_level for feature in versions.finalized_features}
    return [
        {
            "name": feature.name,
            "min_version": feature.min_version,
            "max_version": feature.max_version,
            "finalized": finalized.get(feature.name),
        }
        for feature in sorted(versions.supported_features, key=lambda feature: feature.name)
    ]


class FeatureRise(NamedTuple):
    name: str
    before: int
    after: int


def feature_rises(versions: ApiVersionsResponse) -> list[FeatureRise]:
    """What is to be raised for the cluster to use all that the broker knows."""
    return [
        FeatureRise(feature["name"], feature["finalized"], feature["max_version"])
        for feature in feature_documents(versions)
        if feature["finalized"] is not None and feature["finalized"] < feature["max_version"]
    ]


def feature_table(versions: ApiVersionsResponse) -> Table:
    table = Table(("FEATURE", ">MIN", ">MAX", ">FINALIZED"))
    for feature in feature_documents(versions):
        table.add(*feature.values())
    return table


def log_directory_table(brokers: LogDirectories) -> Table:
    """Copies of partitions on their way to a directory are counted by themselves. Their bytes fill the disk, too."""
    table = Table((">BROKER", "DIRECTORY", ">PARTITIONS", ">ARRIVING", ">SIZE", ">FREE", ">TOTAL", "STATE"))
    for broker_id, directories in brokers:
        for directory in directories:
            partitions = [partition for topic in directory.topics for partition in topic.partitions]
            size = sum(partition.partition_size for partition in partitions)
            arriving = sum(partition.is_future_key for partition in partitions)
            table.add(
                broker_id, directory.log_dir, len(partitions) - arriving, arriving, format_size(size),
                _optional_size(directory.usable_bytes), _optional_size(directory.total_bytes), _state(directory),
            )  # fmt: skip
    return table


def partition_size_table(brokers: LogDirectories, topics: frozenset[str] | None) -> Table:
    table = Table((">BROKER", "DIRECTORY", "TOPIC", ">PARTITION", ">SIZE", ">LAG", "STATE"))
    for broker_id, directories in brokers:
        for directory in directories:
            for topic in sorted(directory.topics, key=lambda topic: topic.name):
                if topics is not None and topic.name not in topics:
                    continue
                for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
                    table.add(
                        broker_id, directory.log_dir, topic.name, partition.partition_index,
                        format_size(partition.partition_size), partition.offset_lag,
                        "arriving" if partition.is_future_key else "here",
                    )  # fmt: skip
    return table


def log_directory_documents(brokers: LogDirectories, topics: frozenset[str] | None) -> list[dict[str, Any]]:
    return [
        {
            "broker": broker_id,
            "directory": directory.log_dir,
            "error": None if directory.error_code == 0 else ErrorCode(directory.error_code).name,
            "total_bytes": directory.total_bytes if directory.total_bytes >= 0 else None,
            "usable_bytes": directory.usable_bytes if directory.usable_bytes >= 0 else None,
            "partitions": [
                {
                    "topic": topic.name,
                    "partition": partition.partition_index,
                    "size": partition.partition_size,
                    "offset_lag": partition.offset_lag,
                    "future": partition.is_future_key,
                }
                for topic in directory.topics
                if topics is None or topic.name in topics
                for partition in topic.partitions
            ],
        }
        for broker_id, directories in brokers
        for directory in directories
    ]


def _optional_size(size: int) -> str | None:
    return format_size(size) if size >= 0 else None


def _state(directory: DescribeLogDirsResult) -> str:
    return "online" if directory.error_code == 0 else ErrorCode(directory.error_code).name.lower()

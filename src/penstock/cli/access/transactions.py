"""Asking a cluster about transactions, and ending one: the effects behind `penstock transactions`."""

from __future__ import annotations

from typing import Any

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import check_error, find_coordinator, open_broker
from penstock.cli.errors import CliError
from penstock.client.addresses import Address
from penstock.core.types import TopicPartition
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_TRANSACTION_KEY = 1
_NOT_OPEN = -1
_UNKNOWN_COORDINATOR = -1


def list_transactions(cluster: ClusterClient, request: ListTransactionsRequest) -> list[tuple[int, Any]]:
    """(coordinator, transaction) from every broker, since each knows only those it coordinates."""
    with open_broker(cluster) as broker:
        brokers = broker.request(MetadataRequest(topics=[]), MetadataResponse).brokers
    transactions: list[tuple[int, Any]] = []
    for node in brokers:
        with open_broker(cluster, (node.host, node.port)) as broker:
            response = broker.request(request, ListTransactionsResponse)
        check_error(response.error_code, f"broker {node.node_id}")
        if response.unknown_state_filters:
            raise CliError(
                f"there is no state {', '.join(response.unknown_state_filters)}",
                "States: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.",
            )
        transactions += [(node.node_id, transaction) for transaction in response.transaction_states]
    return sorted(transactions, key=lambda entry: str(entry[1].transactional_id))


def describe_transaction(cluster: ClusterClient, transactional_id: str) -> tuple[str, Any]:
    """(coordinator, transaction)"""
    host, port = find_coordinator(cluster, _TRANSACTION_KEY, transactional_id)
    with open_broker(cluster, (host, port)) as broker:
        response = broker.request(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]), DescribeTransactionsResponse
        )
    (described,) = response.transaction_states
    check_error(described.error_code, transactional_id)
    return f"{host}:{port}", described


def find_leader(cluster: ClusterClient, topic_partition: TopicPartition) -> Address:
    with open_broker(cluster) as broker:
        response = broker.request(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic_partition.topic)], allow_auto_topic_creation=False),
            MetadataResponse,
        )
    (topic,) = response.topics
    check_error(topic.error_code, f"topic {topic_partition.topic}")
    addresses = {node.node_id: (node.host, node.port) for node in response.brokers}
    for partition in topic.partitions:
        if partition.partition_index == topic_partition.partition and partition.leader_id in addresses:
            host, port = addresses[partition.leader_id]
            return host, port
    raise CliError(f"{topic_partition} has no leader", f"See: penstock topics describe {topic_partition.topic}")


def open_transactions(cluster: ClusterClient, leader: Address, topic_partition: TopicPartition) -> list[ProducerState]:
    """What the partition itself knows to be open, whether or not a coordinator does."""
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic_partition.topic, partition_indexes=[topic_partition.partition])]
    )
    with open_broker(cluster, leader) as broker:
        response = broker.request(request, DescribeProducersResponse)
    (answer,) = response.topics[0].partitions
    check_error(answer.error_code, str(topic_partition), answer.error_message)
    return [producer for producer in answer.active_producers if producer.current_txn_start_offset != _NOT_OPEN]


def abort_transaction(
    cluster: ClusterClient, leader: Address, topic_partition: TopicPartition, producer: ProducerState
) -> None:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=max(producer.coordinator_epoch, _UNKNOWN_COORDINATOR + 1),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic_partition.topic, partition_indexes=[topic_partition.partition])],
    )
    with open_broker(cluster, leader) as broker:
        response = broker.request(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
    (answer,) = response.markers[0].topics[0].partitions
    check_error(answer.error_code, str(topic_partition))

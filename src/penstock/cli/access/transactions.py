"""Asking a cluster about transactions, and ending one: the effects behind `penstock transactions`."""

from __future__ import annotations

from typing import Any

from penstock.cli.access.cluster_client import Cluster
from penstock.cli.access.raw_client import check_error, find_coordinator, open_broker
from penstock.cli.errors import CliError
from penstock.core.types import TopicPartition
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_TRANSACTION_KEY = 1
_NOT_OPEN = -1
_UNKNOWN_COORDINATOR = -1


def list_transactions(cluster: Cluster, request: ListTransactionsRequest) -> list[tuple[int, Any]]:
    """(coordinator, transaction) from every broker, since each knows only those it coordinates."""
    with open_broker(cluster) as broker:
        brokers = broker.request(MetadataRequest(topics=[])).brokers
    found = []
    for node in brokers:
        with open_broker(cluster, (node.host, node.port)) as broker:
            response = broker.request(request)
        check_error(response.error_code, f"broker {node.node_id}")
        if response.unknown_state_filters:
            raise CliError(
                f"there is no state {', '.join(response.unknown_state_filters)}",
                "States: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.",
            )
        found += [(node.node_id, transaction) for transaction in response.transaction_states]
    return sorted(found, key=lambda entry: str(entry[1].transactional_id))


def describe_transaction(cluster: Cluster, transactional_id: str) -> tuple[str, Any]:
    """(coordinator, transaction)"""
    host, port = find_coordinator(cluster, _TRANSACTION_KEY, transactional_id)
    with open_broker(cluster, (host, port)) as broker:
        response = broker.request(DescribeTransactionsRequest(transactional_ids=[transactional_id]))
    (described,) = response.transaction_states
    check_error(described.error_code, transactional_id)
    return f"{host}:{port}", described


def find_leader(cluster: Cluster, where: TopicPartition) -> tuple[str, int]:
    with open_broker(cluster) as broker:
        response = broker.request(
            MetadataRequest(topics=[MetadataRequestTopic(name=where.topic)], allow_auto_topic_creation=False)
        )
    (topic,) = response.topics
    check_error(topic.error_code, f"topic {where.topic}")
    addresses = {node.node_id: (node.host, node.port) for node in response.brokers}
    for partition in topic.partitions:
        if partition.partition_index == where.partition and partition.leader_id in addresses:
            host, port = addresses[partition.leader_id]
            return host, port
    raise CliError(f"{where} has no leader", f"See: penstock topics describe {where.topic}")


def open_transactions(cluster: Cluster, leader: tuple[str, int], where: TopicPartition) -> list[ProducerState]:
    """What the partition itself knows to be open, whether or not a coordinator does."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=where.topic, partition_indexes=[where.partition])])
    with open_broker(cluster, leader) as broker:
        response = broker.request(request)
    (answer,) = response.topics[0].partitions
    check_error(answer.error_code, str(where), answer.error_message)
    return [producer for producer in answer.active_producers if producer.current_txn_start_offset != _NOT_OPEN]


def abort_transaction(
    cluster: Cluster, leader: tuple[str, int], where: TopicPartition, producer: ProducerState
) -> None:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=max(producer.coordinator_epoch, _UNKNOWN_COORDINATOR + 1),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
    )
    with open_broker(cluster, leader) as broker:
        response = broker.request(WriteTxnMarkersRequest(markers=[marker]))
    (answer,) = response.markers[0].topics[0].partitions
    check_error(answer.error_code, str(where))

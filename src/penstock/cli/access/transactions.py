"""Asking a cluster about transactions, and ending one: the effects behind `penstock transactions`."""

from __future__ import annotations

from penstock.admin.queries.topics import read_brokers, read_topic
from penstock.admin.queries.transactions import (
    abort_request,
    check_abort,
    explain_unknown_condition,
    producers_request,
    read_listed,
    read_open_transactions,
    read_transaction,
)
from penstock.admin.state.transactions import ListedTransaction, OpenTransaction, TransactionState
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import check_error, find_coordinator, open_broker, refusal
from penstock.cli.errors import CliError
from penstock.client.addresses import Address
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.describe_producers import DescribeProducersResponse
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.write_txn_markers import WriteTxnMarkersResponse

_TRANSACTION_KEY = 1


def list_transactions(cluster: ClusterClient, request: ListTransactionsRequest) -> list[ListedTransaction]:
    """From every broker, since each knows only those it coordinates."""
    with open_broker(cluster) as broker:
        brokers = read_brokers(broker.request(MetadataRequest(topics=[]), MetadataResponse))
    transactions: list[ListedTransaction] = []
    for node in brokers.values():
        with open_broker(cluster, (node.host, node.port)) as broker:
            unknown = explain_unknown_condition(request, broker.version_of(request))
            if unknown is not None:
                raise refusal(unknown, f"broker {node.node_id}")
            response = broker.request(request, ListTransactionsResponse)
        check_error(response.error_code, f"broker {node.node_id}")
        if response.unknown_state_filters:
            raise CliError(
                f"there is no state {', '.join(response.unknown_state_filters)}",
                "States: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.",
            )
        transactions += read_listed(response, node.node_id)
    return sorted(transactions, key=lambda each: each.transactional_id)


def describe_transaction(cluster: ClusterClient, transactional_id: str) -> tuple[str, TransactionState]:
    """With the address of its coordinator."""
    node_id, (host, port) = find_coordinator(cluster, _TRANSACTION_KEY, transactional_id)
    with open_broker(cluster, (host, port)) as broker:
        response = broker.request(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]), DescribeTransactionsResponse
        )
    (described,) = response.transaction_states
    check_error(described.error_code, transactional_id)
    return f"{host}:{port}", read_transaction(described, node_id)


def find_leader(cluster: ClusterClient, topic_partition: TopicPartition) -> Address:
    with open_broker(cluster) as broker:
        response = broker.request(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic_partition.topic)], allow_auto_topic_creation=False),
            MetadataResponse,
        )
    (topic,) = response.topics
    check_error(topic.error_code, f"topic {topic_partition.topic}")
    brokers = read_brokers(response)
    for partition in read_topic(topic).partitions:
        if partition.key == topic_partition and not partition.is_offline(brokers):
            leader = brokers[partition.leader]
            return leader.host, leader.port
    raise CliError(f"{topic_partition} has no leader", f"See: penstock topics describe {topic_partition.topic}")


def open_transactions(
    cluster: ClusterClient, leader: Address, topic_partition: TopicPartition
) -> list[OpenTransaction]:
    """What the partition itself knows to be open, whether or not a coordinator does."""
    with open_broker(cluster, leader) as broker:
        response = broker.request(producers_request(topic_partition), DescribeProducersResponse)
    try:
        return read_open_transactions(response)
    except ApiError as error:
        raise refusal(error, str(topic_partition)) from error


def abort_transaction(
    cluster: ClusterClient, leader: Address, topic_partition: TopicPartition, transaction: OpenTransaction
) -> None:
    with open_broker(cluster, leader) as broker:
        response = broker.request(abort_request(topic_partition, transaction), WriteTxnMarkersResponse)
    try:
        check_abort(response)
    except ApiError as error:
        raise refusal(error, str(topic_partition)) from error

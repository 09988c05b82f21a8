"""The API table: the APIs that this broker serves, their versions, and their handlers.

Dispatch, the ApiVersions answer, the metrics' labels and docs/reference/apis.md are all made from the table. Versions
are those of Kafka 4.3, as far as served. ApiVersions lists Produce from version 0 on although version 3 is the lowest
served: older librdkafka looks for version 0 and otherwise turns compression off (KAFKA-18659).
"""

from __future__ import annotations

from typing import cast

from penstock.broker.dispatch import Api, ApiTable, Handler, Request, Shortcut
from penstock.broker.handlers import (
    configs,
    consumer_groups,
    fetch,
    group_offsets,
    groups,
    log_dirs,
    metadata,
    metadata_single,
    offsets,
    produce,
    produce_single,
    producers,
    topics,
    transaction_offsets,
    transactions,
)
from penstock.broker.handlers.brokers import forwarding, replication
from penstock.broker.handlers.cluster import features, leaders, quorum, registrations
from penstock.broker.handlers.security import acls, credentials, logins, quotas, tokens
from penstock.protocol.message import Message
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from penstock.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from penstock.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from penstock.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.create_acls import CreateAclsRequest
from penstock.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsRequest
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.delete_records import DeleteRecordsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.describe_acls import DescribeAclsRequest
from penstock.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest
from penstock.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.protocol.messages.describe_producers import DescribeProducersRequest
from penstock.protocol.messages.describe_quorum import DescribeQuorumRequest
from penstock.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.envelope import EnvelopeRequest
from penstock.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.join_group import JoinGroupRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.list_offsets import ListOffsetsRequest
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.offset_delete import OffsetDeleteRequest
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest
from penstock.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from penstock.protocol.messages.produce import ProduceRequest
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest
from penstock.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.messages.update_features import UpdateFeaturesRequest
from penstock.protocol.messages.write_txn_markers import WriteTxnMarkersRequest


def _row(
    request: type[Request],
    handler: Handler[Request],
    max_version: int,
    advertised_min: int | None = None,
    shortcut: Shortcut | None = None,
    *,
    is_forwarded: bool = False,
    is_for_brokers: bool = False,
) -> tuple[int, Api[Message]]:
    low = request.MIN_VERSION
    advertised = low if advertised_min is None else advertised_min
    row = Api(request, handler, low, max_version, advertised, shortcut, is_forwarded, is_for_brokers)
    return request.API_KEY, cast("Api[Message]", row)  # the table forgets the type of the request; see `ApiTable`


def _forwarded_row(request: type[Request], handler: Handler[Request], max_version: int) -> tuple[int, Api[Message]]:
    return _row(request, forwarding.forwarded(handler), max_version, is_forwarded=True)


APIS: ApiTable = dict(
    (
        _row(ProduceRequest, produce.produce, 13, advertised_min=0, shortcut=produce_single.produce_single),
        _row(FetchRequest, fetch.fetch, 18),
        _row(ListOffsetsRequest, offsets.list_offsets, 11),
        _row(MetadataRequest, metadata.metadata, 13, shortcut=metadata_single.metadata_single),
        _row(OffsetCommitRequest, group_offsets.offset_commit, 10),
        _row(OffsetFetchRequest, group_offsets.offset_fetch, 10),
        _row(FindCoordinatorRequest, groups.find_coordinator, 6),
        _row(JoinGroupRequest, groups.join_group, 9),
        _row(HeartbeatRequest, groups.heartbeat, 4),
        _row(LeaveGroupRequest, groups.leave_group, 5),
        _row(SyncGroupRequest, groups.sync_group, 5),
        _row(DescribeGroupsRequest, groups.describe_groups, 6),
        _row(ListGroupsRequest, groups.list_groups, 5),
        _row(SaslHandshakeRequest, logins.sasl_handshake, 1),
        _row(ApiVersionsRequest, metadata.api_versions, 4),
        _forwarded_row(CreateTopicsRequest, topics.create_topics, 7),
        _forwarded_row(DeleteTopicsRequest, topics.delete_topics, 6),
        _row(DeleteRecordsRequest, offsets.delete_records, 2),
        _row(InitProducerIdRequest, producers.init_producer_id, 5),
        _row(OffsetForLeaderEpochRequest, offsets.offset_for_leader_epoch, 4),
        _row(AddPartitionsToTxnRequest, transactions.add_partitions_to_txn, 5),
        _row(AddOffsetsToTxnRequest, transactions.add_offsets_to_txn, 4),
        _row(EndTxnRequest, transactions.end_txn, 5),
        _row(WriteTxnMarkersRequest, transactions.write_txn_markers, 2),
        _row(TxnOffsetCommitRequest, transaction_offsets.txn_offset_commit, 5),
        _row(DescribeAclsRequest, acls.describe_acls, 3),
        _forwarded_row(CreateAclsRequest, acls.create_acls, 3),
        _forwarded_row(DeleteAclsRequest, acls.delete_acls, 3),
        _row(DescribeConfigsRequest, configs.describe_configs, 4),
        _row(AlterConfigsRequest, configs.alter_configs, 2, is_forwarded=True),
        _row(AlterReplicaLogDirsRequest, log_dirs.alter_replica_log_dirs, 2),
        _row(DescribeLogDirsRequest, log_dirs.describe_log_dirs, 5),
        _row(SaslAuthenticateRequest, logins.sasl_authenticate, 2),
        _forwarded_row(CreatePartitionsRequest, topics.create_partitions, 3),
        _row(CreateDelegationTokenRequest, tokens.create_delegation_token, 3, is_forwarded=True),
        _row(RenewDelegationTokenRequest, tokens.renew_delegation_token, 2, is_forwarded=True),
        _row(ExpireDelegationTokenRequest, tokens.expire_delegation_token, 2, is_forwarded=True),
        _row(DescribeDelegationTokenRequest, tokens.describe_delegation_token, 3),
        _row(DeleteGroupsRequest, groups.delete_groups, 2),
        _forwarded_row(ElectLeadersRequest, leaders.elect_leaders, 2),
        _row(IncrementalAlterConfigsRequest, configs.incremental_alter_configs, 1, is_forwarded=True),
        _forwarded_row(AlterPartitionReassignmentsRequest, leaders.alter_partition_reassignments, 1),
        _forwarded_row(ListPartitionReassignmentsRequest, leaders.list_partition_reassignments, 0),
        _row(OffsetDeleteRequest, group_offsets.offset_delete, 0),
        _row(DescribeClientQuotasRequest, quotas.describe_client_quotas, 1),
        _forwarded_row(AlterClientQuotasRequest, quotas.alter_client_quotas, 1),
        _row(DescribeUserScramCredentialsRequest, credentials.describe_user_scram_credentials, 0),
        _forwarded_row(AlterUserScramCredentialsRequest, credentials.alter_user_scram_credentials, 0),
        _row(AlterPartitionRequest, replication.alter_partition, 3, is_for_brokers=True),
        _row(DescribeQuorumRequest, quorum.describe_quorum, 2),
        _forwarded_row(UpdateFeaturesRequest, features.update_features, 2),
        _row(EnvelopeRequest, forwarding.envelope, 0, is_for_brokers=True),
        _row(DescribeClusterRequest, metadata.describe_cluster, 2),
        _row(DescribeProducersRequest, producers.describe_producers, 0),
        _row(BrokerHeartbeatRequest, replication.broker_heartbeat, 2, is_for_brokers=True),
        _forwarded_row(UnregisterBrokerRequest, registrations.unregister_broker, 0),
        _row(DescribeTransactionsRequest, transactions.describe_transactions, 0),
        _row(ListTransactionsRequest, transactions.list_transactions, 2),
        _row(AssignReplicasToDirsRequest, replication.assign_replicas_to_dirs, 0, is_for_brokers=True),
        _row(ConsumerGroupHeartbeatRequest, consumer_groups.consumer_group_heartbeat, 1),
        _row(ConsumerGroupDescribeRequest, consumer_groups.consumer_group_describe, 1),
        _row(ListConfigResourcesRequest, configs.list_config_resources, 1),
        _row(DescribeTopicPartitionsRequest, metadata.describe_topic_partitions, 0),
    )
)

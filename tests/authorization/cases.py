"""A request for each form of each API, as the table of rights has them: for a topic, a group, a transactional id.

None of them needs anything but the topic, and those that change something may be sent again: what they delete or create
is put back by `Scene.restore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from penstock.protocol.message import Message
from penstock.protocol.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    delete_acls,
    delete_records,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    list_partition_reassignments,
    metadata,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    update_features,
)
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_acls import DescribeAclsRequest
from penstock.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.authorization.requests import (
    GROUP,
    NEW_TOPIC,
    TOPIC,
    TRANSACTION,
    Named,
    acl_filter_request,
    acl_request,
    add_partitions_request,
    alter_config_request,
    change_config_request,
    create_topic_request,
    delete_topics_request,
    describe_config_request,
    fetch_request,
    leave_request,
    list_offsets_request,
    metadata_request,
    offset_commit_request,
    offset_fetch_several_request,
    produce_request,
    txn_offset_commit_request,
    write_markers_request,
)


class Case(NamedTuple):
    version: int
    build: Callable[[Named], Message]
    topic: str = TOPIC  # that the request is about
    is_known_to_kafka: bool = True


_AclFilter = DescribeAclsRequest(
    resource_type_filter=3,
    resource_name_filter="nobody",
    pattern_type_filter=3,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)

CASES: dict[tuple[int, str], Case] = {
    (0, "by name"): Case(9, produce_request),
    (0, "by id"): Case(13, lambda named: produce_request(named, by_id=True)),
    (0, "several partitions"): Case(9, lambda named: produce_request(named, count=2)),
    (0, "transactional"): Case(9, lambda named: produce_request(named, transactional=True)),
    (1, "by name"): Case(12, fetch_request),
    (1, "by id"): Case(17, lambda named: fetch_request(named, by_id=True)),
    (1, "in a session"): Case(12, lambda named: fetch_request(named, session=True)),
    (1, "as a follower"): Case(12, lambda named: fetch_request(named, follower=named.node_id)),
    (1, "as a follower with its state"): Case(
        17, lambda named: fetch_request(named, by_id=True, follower=named.node_id, state=True)
    ),
    (2, "by name"): Case(7, lambda _: list_offsets_request(1)),
    (2, "named twice"): Case(7, lambda _: list_offsets_request(2)),
    (3, "by name"): Case(9, lambda _: metadata_request(TOPIC)),
    (3, "by name, the short form"): Case(12, lambda _: metadata_request(TOPIC)),
    (3, "by id"): Case(12, lambda named: metadata_request(None, named.topic_id)),
    (3, "all topics"): Case(12, lambda _: metadata.MetadataRequest(topics=None)),
    (3, "creating"): Case(12, lambda _: metadata_request(NEW_TOPIC, creates=True), NEW_TOPIC),
    (8, "by name"): Case(8, offset_commit_request),
    (8, "by id"): Case(10, lambda named: offset_commit_request(named, by_id=True)),
    (9, "one group"): Case(
        7,
        lambda _: offset_fetch.OffsetFetchRequest(
            group_id=GROUP, topics=[offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
        ),
    ),
    (9, "several groups"): Case(
        8,
        lambda _: offset_fetch_several_request(
            [offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        ),
    ),
    (9, "all topics"): Case(8, lambda _: offset_fetch_several_request(None)),
    (10, "group"): Case(3, lambda _: FindCoordinatorRequest(key=GROUP, key_type=0)),
    (10, "transaction"): Case(3, lambda _: FindCoordinatorRequest(key=TRANSACTION, key_type=1)),
    (10, "several groups"): Case(4, lambda _: FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])),
    (11, "always"): Case(
        9,
        lambda _: JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
    ),
    (12, "always"): Case(4, lambda _: HeartbeatRequest(group_id=GROUP, generation_id=3, member_id="nobody")),
    (13, "one member"): Case(2, lambda _: leave_request(several=False)),
    (13, "several members"): Case(5, lambda _: leave_request(several=True)),
    (14, "always"): Case(
        5,
        lambda _: SyncGroupRequest(
            group_id=GROUP, generation_id=3, member_id="nobody", protocol_type="consumer", protocol_name="range"
        ),
    ),
    (15, "always"): Case(5, lambda _: DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)),
    (16, "all groups"): Case(5, lambda _: ListGroupsRequest()),
    (18, "always"): Case(3, lambda _: ApiVersionsRequest(client_software_name="test", client_software_version="1")),
    (19, "by name"): Case(7, lambda _: create_topic_request(validate_only=False), NEW_TOPIC),
    (19, "validate only"): Case(7, lambda _: create_topic_request(validate_only=True), NEW_TOPIC),
    (19, "with tags"): Case(7, lambda _: create_topic_request(validate_only=True, tags="pii"), NEW_TOPIC, False),
    (20, "by name"): Case(6, lambda named: delete_topics_request(named, by_id=False)),
    (20, "by id"): Case(6, lambda named: delete_topics_request(named, by_id=True)),
    (21, "by name"): Case(
        2,
        lambda _: delete_records.DeleteRecordsRequest(
            topics=[
                delete_records.DeleteRecordsTopic(
                    name=TOPIC, partitions=[delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
                )
            ],
            timeout_ms=5_000,
        ),
    ),
    (22, "transactional"): Case(
        4, lambda _: InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=1_000)
    ),
    (22, "idempotent"): Case(4, lambda _: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)),
    (23, "by name"): Case(
        4,
        lambda _: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic=TOPIC,
                    partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)],
                )
            ],
        ),
    ),
    (24, "of a client"): Case(3, lambda _: add_partitions_request(of_broker=False)),
    (24, "of a broker"): Case(4, lambda _: add_partitions_request(of_broker=True)),
    (25, "always"): Case(
        3,
        lambda _: AddOffsetsToTxnRequest(
            transactional_id=TRANSACTION, producer_id=4_000, producer_epoch=0, group_id=GROUP
        ),
    ),
    (26, "always"): Case(
        3, lambda _: EndTxnRequest(transactional_id=TRANSACTION, producer_id=4_000, producer_epoch=0, committed=False)
    ),
    (27, "always"): Case(1, lambda _: write_markers_request()),
    (28, "always"): Case(3, lambda _: txn_offset_commit_request()),
    (29, "always"): Case(2, lambda _: _AclFilter),
    (30, "always"): Case(2, lambda _: create_acls.CreateAclsRequest(creations=[acl_request()])),
    (31, "always"): Case(2, lambda _: delete_acls.DeleteAclsRequest(filters=[acl_filter_request()])),
    (32, "topic"): Case(4, lambda named: describe_config_request(named, "topic")),
    (32, "group"): Case(4, lambda named: describe_config_request(named, "group")),
    (32, "broker"): Case(4, lambda named: describe_config_request(named, "broker")),
    (32, "log levels"): Case(4, lambda named: describe_config_request(named, "log levels")),
    (32, "policy"): Case(4, lambda named: describe_config_request(named, "policy"), is_known_to_kafka=False),
    (33, "topic"): Case(2, lambda named: alter_config_request(named, "topic")),
    (33, "group"): Case(2, lambda named: alter_config_request(named, "group")),
    (33, "broker"): Case(2, lambda named: alter_config_request(named, "broker")),
    (34, "always"): Case(
        2,
        lambda _: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])],
                )
            ]
        ),
    ),
    (35, "all"): Case(4, lambda _: describe_log_dirs.DescribeLogDirsRequest(topics=None)),
    (35, "by name"): Case(
        4,
        lambda _: describe_log_dirs.DescribeLogDirsRequest(
            topics=[describe_log_dirs.DescribableLogDirTopic(topic=TOPIC, partitions=[0])]
        ),
    ),
    (37, "by name"): Case(
        3,
        lambda _: create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name=TOPIC, count=1, assignments=None)],
            timeout_ms=5_000,
            validate_only=True,
        ),
    ),
    (42, "several"): Case(2, lambda _: DeleteGroupsRequest(groups_names=[GROUP, GROUP + "-other"])),
    (43, "all"): Case(
        2, lambda _: elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=5_000)
    ),
    (43, "by name"): Case(
        2,
        lambda _: elect_leaders.ElectLeadersRequest(
            election_type=0,
            topic_partitions=[elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0])],
            timeout_ms=5_000,
        ),
    ),
    (44, "topic"): Case(1, lambda named: change_config_request(named, "topic", "retention.ms", "1000000")),
    (44, "group"): Case(1, lambda named: change_config_request(named, "group", "consumer.session.timeout.ms", "46000")),
    (44, "broker"): Case(1, lambda named: change_config_request(named, "broker", "log.retention.ms", "1000000")),
    (44, "log levels"): Case(1, lambda named: change_config_request(named, "log levels", "root", "INFO")),
    (44, "policy"): Case(
        1, lambda named: change_config_request(named, "policy", "tag", "pii"), is_known_to_kafka=False
    ),
    (44, "tags of a topic"): Case(
        1, lambda named: change_config_request(named, "topic", "penstock.tags", "pii"), is_known_to_kafka=False
    ),
    (45, "always"): Case(
        0,
        lambda _: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name=TOPIC,
                    partitions=[alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=None)],
                )
            ],
            timeout_ms=5_000,
        ),
    ),
    (46, "all"): Case(0, lambda _: list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)),
    (46, "by name"): Case(
        0,
        lambda _: list_partition_reassignments.ListPartitionReassignmentsRequest(
            topics=[list_partition_reassignments.ListPartitionReassignmentsTopics(name=TOPIC, partition_indexes=[0])]
        ),
    ),
    (47, "by name"): Case(
        0,
        lambda _: offset_delete.OffsetDeleteRequest(
            group_id=GROUP,
            topics=[
                offset_delete.OffsetDeleteRequestTopic(
                    name=TOPIC, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
                )
            ],
        ),
    ),
    (48, "always"): Case(1, lambda _: DescribeClientQuotasRequest(components=[], strict=False)),
    # Null means all as well; Kafka does not answer a null that it has to refuse.
    (49, "always"): Case(
        1,
        lambda _: alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.AlterClientQuotasRequestEntryData(
                    entity=[
                        alter_client_quotas.AlterClientQuotasRequestEntityData(entity_type="user", entity_name="nobody")
                    ],
                    ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1e9)],
                )
            ],
            validate_only=True,
        ),
    ),
    (50, "all"): Case(0, lambda _: DescribeUserScramCredentialsRequest(users=[])),
    (50, "by name"): Case(0, lambda _: DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")])),
    (51, "always"): Case(
        0,
        lambda _: AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)]),
    ),
    (55, "always"): Case(
        0,
        lambda _: describe_quorum.DescribeQuorumRequest(
            topics=[describe_quorum.DescribeQuorumRequestTopicData(topic_name="__cluster_metadata")]
        ),
    ),
    (57, "always"): Case(
        1,
        lambda _: update_features.UpdateFeaturesRequest(
            timeout_ms=5_000,
            feature_updates=[
                update_features.FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)
            ],
            validate_only=True,
        ),
    ),
    (60, "always"): Case(1, lambda _: DescribeClusterRequest(include_cluster_authorized_operations=True)),
    (61, "by name"): Case(
        0,
        lambda _: describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])]
        ),
    ),
    (64, "always"): Case(0, lambda _: UnregisterBrokerRequest(broker_id=99)),
    (65, "several"): Case(0, lambda _: DescribeTransactionsRequest(transactional_ids=[TRANSACTION])),
    (66, "all"): Case(1, lambda _: ListTransactionsRequest()),
    (68, "by name"): Case(
        1,
        lambda _: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=GROUP + "-consumer",
            member_id="nobody",
            member_epoch=5,
            subscribed_topic_names=[TOPIC],
        ),
    ),
    (69, "several"): Case(
        1, lambda _: ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=True)
    ),
    (74, "all"): Case(1, lambda _: ListConfigResourcesRequest(resource_types=[])),
    (75, "by name"): Case(
        0,
        lambda _: describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=TOPIC)], response_partition_limit=10
        ),
    ),
    (75, "all topics"): Case(
        0, lambda _: describe_topic_partitions.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1_000)
    ),
}


# ------------------------------------------------------------------------------------------------- what was answered


def walk(message: Message) -> Iterator[tuple[str, Any]]:
    """Every field of a message and of the messages in it."""
    for field in message.FIELDS:
        value = getattr(message, field.attribute)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Message):
                yield from walk(each)
            else:
                yield field.attribute, each


def codes_of(response: Message) -> list[int]:
    """All errors but that of the settings of a created topic, which need a right of their own."""
    return [
        value for name, value in walk(response) if name.endswith("error_code") and name != "topic_config_error_code"
    ]


def names(response: Message, name: str) -> bool:
    return any(value == name for _, value in walk(response))

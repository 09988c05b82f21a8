"""A request for each form of each API, as the table of rights has them: for a topic, a group, a transactional id.

None of them needs anything but the topic, and those that change something may be sent again: what they delete or create
is put back by `Scene.restore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from penstock.protocol.message import Message
from penstock.protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    leave_group,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
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
from tests.clients.raw.wire import build_batch

TOPIC, GROUP, TRANSACTION = "rights-topic", "rights-group", "rights-transaction"
NEW_TOPIC = "rights-new-topic"  # is there when somebody was allowed to create it
_TRANSACTIONAL = 1 << 4


class Named(NamedTuple):
    """The topic, which exists."""

    topic_id: bytes
    node_id: int = 1


class Case(NamedTuple):
    version: int
    build: Callable[[Named], Message]
    topic: str = TOPIC  # that the request is about
    is_known_to_kafka: bool = True


def _produce(named: Named, *, transactional: bool = False, count: int = 1, by_id: bool = False) -> Message:
    batch = build_batch()
    if transactional:
        batch = build_batch(attributes=_TRANSACTIONAL, producer_id=4_000, producer_epoch=0, sequence=0)
    return produce.ProduceRequest(
        transactional_id=TRANSACTION if transactional else None,
        acks=-1,
        timeout_ms=5_000,
        topic_data=[
            produce.TopicProduceData(
                name="" if by_id else TOPIC,
                topic_id=named.topic_id if by_id else bytes(16),
                partition_data=[produce.PartitionProduceData(index=index, records=batch) for index in range(count)],
            )
        ],
    )


def _fetch(
    named: Named, *, by_id: bool = False, session: bool = False, follower: int = -1, state: bool = False
) -> Message:
    return fetch.FetchRequest(
        replica_id=-1 if state else follower,
        replica_state=fetch.ReplicaState(replica_id=follower, replica_epoch=-1) if state else None,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000,
        session_id=0,
        session_epoch=0 if session else -1,
        topics=[
            fetch.FetchTopic(
                topic="" if by_id else TOPIC,
                topic_id=named.topic_id if by_id else bytes(16),
                partitions=[fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)],
            )
        ],
    )


def _list_offsets(count: int) -> Message:
    partitions = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)] * count
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=TOPIC, partitions=partitions)]
    )


def _metadata(name: str | None, topic_id: bytes = bytes(16), *, creates: bool = False) -> Message:
    topics = [metadata.MetadataRequestTopic(name=name, topic_id=topic_id)]
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=creates)


def _offset_commit(named: Named, *, by_id: bool = False) -> Message:
    return offset_commit.OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name="" if by_id else TOPIC,
                topic_id=named.topic_id if by_id else bytes(16),
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=0, committed_metadata=""
                    )
                ],
            )
        ],
    )


def _offset_fetch_several(topics: list[offset_fetch.OffsetFetchRequestTopics] | None) -> Message:
    group = offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, member_id=None, member_epoch=-1, topics=topics)
    return offset_fetch.OffsetFetchRequest(groups=[group])


def _create_topic(*, validate_only: bool, tags: str = "") -> Message:
    configs = [create_topics.CreatableTopicConfig(name="penstock.tags", value=tags)] if tags else []
    topic = create_topics.CreatableTopic(name=NEW_TOPIC, num_partitions=1, replication_factor=1, configs=configs)
    return create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=validate_only)


def _config_names(named: Named) -> dict[str, tuple[int, str]]:
    node = str(named.node_id)
    return {"topic": (2, TOPIC), "group": (32, GROUP), "broker": (4, ""), "log levels": (8, node), "policy": (120, "p")}


def _describe_config(named: Named, form: str) -> Message:
    kind, name = _config_names(named)[form]
    if form == "broker":
        name = str(named.node_id)
    resource = describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return describe_configs.DescribeConfigsRequest(resources=[resource])


def _alter_config(named: Named, form: str) -> Message:
    kind, name = _config_names(named)[form]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)


def _change_config(named: Named, form: str, key: str, value: str) -> Message:
    kind, name = _config_names(named)[form]
    configs = [incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def _acl() -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=3,
        resource_name="somebody",
        resource_pattern_type=3,
        principal="User:somebody",
        host="*",
        operation=3,
        permission_type=3,
    )


def _acl_filter() -> delete_acls.DeleteAclsFilter:
    return delete_acls.DeleteAclsFilter(
        resource_type_filter=3,
        resource_name_filter="nobody",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def _delete_topics(named: Named, *, by_id: bool) -> Message:
    state = delete_topics.DeleteTopicState(name=None, topic_id=named.topic_id)
    if not by_id:
        state = delete_topics.DeleteTopicState(name=TOPIC)
    return delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=5_000)


def _add_partitions(*, of_broker: bool) -> Message:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
    if not of_broker:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION,
            v3_and_below_producer_id=4_000,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=TRANSACTION, producer_id=4_000, producer_epoch=0, verify_only=True, topics=topics
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def _txn_offset_commit() -> Message:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=TRANSACTION,
        group_id=GROUP,
        producer_id=4_000,
        producer_epoch=0,
        topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )


def _write_markers() -> Message:
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=4_000,
        producer_epoch=0,
        transaction_result=False,
        coordinator_epoch=0,
        topics=[write_txn_markers.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[77])],
    )
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def _leave(*, several: bool) -> Message:
    if not several:
        return leave_group.LeaveGroupRequest(group_id=GROUP, member_id="nobody")
    return leave_group.LeaveGroupRequest(group_id=GROUP, members=[leave_group.MemberIdentity(member_id="nobody")])


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
    (0, "by name"): Case(9, _produce),
    (0, "by id"): Case(13, lambda named: _produce(named, by_id=True)),
    (0, "several partitions"): Case(9, lambda named: _produce(named, count=2)),
    (0, "transactional"): Case(9, lambda named: _produce(named, transactional=True)),
    (1, "by name"): Case(12, _fetch),
    (1, "by id"): Case(17, lambda named: _fetch(named, by_id=True)),
    (1, "in a session"): Case(12, lambda named: _fetch(named, session=True)),
    (1, "as a follower"): Case(12, lambda named: _fetch(named, follower=named.node_id)),
    (1, "as a follower with its state"): Case(
        17, lambda named: _fetch(named, by_id=True, follower=named.node_id, state=True)
    ),
    (2, "by name"): Case(7, lambda _: _list_offsets(1)),
    (2, "named twice"): Case(7, lambda _: _list_offsets(2)),
    (3, "by name"): Case(9, lambda _: _metadata(TOPIC)),
    (3, "by name, the short form"): Case(12, lambda _: _metadata(TOPIC)),
    (3, "by id"): Case(12, lambda named: _metadata(None, named.topic_id)),
    (3, "all topics"): Case(12, lambda _: metadata.MetadataRequest(topics=None)),
    (3, "creating"): Case(12, lambda _: _metadata(NEW_TOPIC, creates=True), NEW_TOPIC),
    (8, "by name"): Case(8, _offset_commit),
    (8, "by id"): Case(10, lambda named: _offset_commit(named, by_id=True)),
    (9, "one group"): Case(
        7,
        lambda _: offset_fetch.OffsetFetchRequest(
            group_id=GROUP, topics=[offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
        ),
    ),
    (9, "several groups"): Case(
        8,
        lambda _: _offset_fetch_several([offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]),
    ),
    (9, "all topics"): Case(8, lambda _: _offset_fetch_several(None)),
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
    (13, "one member"): Case(2, lambda _: _leave(several=False)),
    (13, "several members"): Case(5, lambda _: _leave(several=True)),
    (14, "always"): Case(
        5,
        lambda _: SyncGroupRequest(
            group_id=GROUP, generation_id=3, member_id="nobody", protocol_type="consumer", protocol_name="range"
        ),
    ),
    (15, "always"): Case(5, lambda _: DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)),
    (16, "all groups"): Case(5, lambda _: ListGroupsRequest()),
    (18, "always"): Case(3, lambda _: ApiVersionsRequest(client_software_name="test", client_software_version="1")),
    (19, "by name"): Case(7, lambda _: _create_topic(validate_only=False), NEW_TOPIC),
    (19, "validate only"): Case(7, lambda _: _create_topic(validate_only=True), NEW_TOPIC),
    (19, "with tags"): Case(7, lambda _: _create_topic(validate_only=True, tags="pii"), NEW_TOPIC, False),
    (20, "by name"): Case(6, lambda named: _delete_topics(named, by_id=False)),
    (20, "by id"): Case(6, lambda named: _delete_topics(named, by_id=True)),
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
    (24, "of a client"): Case(3, lambda _: _add_partitions(of_broker=False)),
    (24, "of a broker"): Case(4, lambda _: _add_partitions(of_broker=True)),
    (25, "always"): Case(
        3,
        lambda _: AddOffsetsToTxnRequest(
            transactional_id=TRANSACTION, producer_id=4_000, producer_epoch=0, group_id=GROUP
        ),
    ),
    (26, "always"): Case(
        3, lambda _: EndTxnRequest(transactional_id=TRANSACTION, producer_id=4_000, producer_epoch=0, committed=False)
    ),
    (27, "always"): Case(1, lambda _: _write_markers()),
    (28, "always"): Case(3, lambda _: _txn_offset_commit()),
    (29, "always"): Case(2, lambda _: _AclFilter),
    (30, "always"): Case(2, lambda _: create_acls.CreateAclsRequest(creations=[_acl()])),
    (31, "always"): Case(2, lambda _: delete_acls.DeleteAclsRequest(filters=[_acl_filter()])),
    (32, "topic"): Case(4, lambda named: _describe_config(named, "topic")),
    (32, "group"): Case(4, lambda named: _describe_config(named, "group")),
    (32, "broker"): Case(4, lambda named: _describe_config(named, "broker")),
    (32, "log levels"): Case(4, lambda named: _describe_config(named, "log levels")),
    (32, "policy"): Case(4, lambda named: _describe_config(named, "policy"), is_known_to_kafka=False),
    (33, "topic"): Case(2, lambda named: _alter_config(named, "topic")),
    (33, "group"): Case(2, lambda named: _alter_config(named, "group")),
    (33, "broker"): Case(2, lambda named: _alter_config(named, "broker")),
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
    (44, "topic"): Case(1, lambda named: _change_config(named, "topic", "retention.ms", "1000000")),
    (44, "group"): Case(1, lambda named: _change_config(named, "group", "consumer.session.timeout.ms", "46000")),
    (44, "broker"): Case(1, lambda named: _change_config(named, "broker", "log.retention.ms", "1000000")),
    (44, "log levels"): Case(1, lambda named: _change_config(named, "log levels", "root", "INFO")),
    (44, "policy"): Case(1, lambda named: _change_config(named, "policy", "tag", "pii"), is_known_to_kafka=False),
    (44, "tags of a topic"): Case(
        1, lambda named: _change_config(named, "topic", "penstock.tags", "pii"), is_known_to_kafka=False
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
    (50, "all"): Case(0, lambda _: DescribeUserScramCredentialsRequest(users=None)),
    (50, "by name"): Case(0, lambda _: DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")])),
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

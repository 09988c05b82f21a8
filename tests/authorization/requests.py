"""Requests for a topic, a group and a transactional id, as the cases of authorization need them."""

from __future__ import annotations

from typing import NamedTuple

from penstock.protocol.message import Message
from penstock.protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    create_acls,
    create_topics,
    delete_acls,
    delete_topics,
    describe_configs,
    fetch,
    incremental_alter_configs,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from tests.clients.raw.wire import build_batch

TOPIC, GROUP, TRANSACTION = "rights-topic", "rights-group", "rights-transaction"
NEW_TOPIC = "rights-new-topic"  # is there when somebody was allowed to create it
_TRANSACTIONAL = 1 << 4


class Named(NamedTuple):
    """The topic, which exists."""

    topic_id: bytes
    node_id: int = 1


def produce_request(named: Named, *, transactional: bool = False, count: int = 1, by_id: bool = False) -> Message:
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


def fetch_request(
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


def list_offsets_request(count: int) -> Message:
    partitions = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)] * count
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=TOPIC, partitions=partitions)]
    )


def metadata_request(name: str | None, topic_id: bytes = bytes(16), *, creates: bool = False) -> Message:
    topics = [metadata.MetadataRequestTopic(name=name, topic_id=topic_id)]
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=creates)


def offset_commit_request(named: Named, *, by_id: bool = False) -> Message:
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


def offset_fetch_several_request(topics: list[offset_fetch.OffsetFetchRequestTopics] | None) -> Message:
    group = offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, member_id=None, member_epoch=-1, topics=topics)
    return offset_fetch.OffsetFetchRequest(groups=[group])


def create_topic_request(*, validate_only: bool, tags: str = "") -> Message:
    configs = [create_topics.CreatableTopicConfig(name="penstock.tags", value=tags)] if tags else []
    topic = create_topics.CreatableTopic(name=NEW_TOPIC, num_partitions=1, replication_factor=1, configs=configs)
    return create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=validate_only)


def config_names(named: Named) -> dict[str, tuple[int, str]]:
    node = str(named.node_id)
    return {"topic": (2, TOPIC), "group": (32, GROUP), "broker": (4, ""), "log levels": (8, node), "policy": (120, "p")}


def describe_config_request(named: Named, form: str) -> Message:
    kind, name = config_names(named)[form]
    if form == "broker":
        name = str(named.node_id)
    resource = describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return describe_configs.DescribeConfigsRequest(resources=[resource])


def alter_config_request(named: Named, form: str) -> Message:
    kind, name = config_names(named)[form]
    if form == "broker":
        name = str(named.node_id)
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)


def change_config_request(named: Named, form: str, key: str, value: str) -> Message:
    kind, name = config_names(named)[form]
    configs = [incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def acl_request() -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=3,
        resource_name="somebody",
        resource_pattern_type=3,
        principal="User:somebody",
        host="*",
        operation=3,
        permission_type=3,
    )


def acl_filter_request() -> delete_acls.DeleteAclsFilter:
    return delete_acls.DeleteAclsFilter(
        resource_type_filter=3,
        resource_name_filter="nobody",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def delete_topics_request(named: Named, *, by_id: bool) -> Message:
    state = delete_topics.DeleteTopicState(name=None, topic_id=named.topic_id)
    if not by_id:
        state = delete_topics.DeleteTopicState(name=TOPIC)
    return delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=5_000)


def add_partitions_request(*, of_broker: bool) -> Message:
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


def txn_offset_commit_request() -> Message:
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


def write_markers_request() -> Message:
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=4_000,
        producer_epoch=0,
        transaction_result=False,
        coordinator_epoch=0,
        topics=[write_txn_markers.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[77])],
    )
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def leave_request(*, several: bool) -> Message:
    if not several:
        return leave_group.LeaveGroupRequest(group_id=GROUP, member_id="nobody")
    return leave_group.LeaveGroupRequest(group_id=GROUP, members=[leave_group.MemberIdentity(member_id="nobody")])

"""The table of v3's operations: routes, the OpenAPI document and the reference are made from it.

Names are Confluent's, where Confluent's description has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.http.operations import HttpOperation, Parameter
from penstock.rest.errors import (
    GROUP_NOT_FOUND,
    INVALID_PAYLOAD,
    KAFKA_BAD_REQUEST,
    PARTITION_NOT_FOUND,
    PRODUCE_BATCH,
    TOPIC_PARTITION_NOT_FOUND,
)
from penstock.rest.v3 import bodies, shapes
from penstock.rest.v3.calls import Call
from penstock.rest.v3.handlers import acls, clusters, configs, groups, partitions, topics
from penstock.rest.v3.records.endpoints import Records

Handler = Callable[[Call], Awaitable[Any]]
RecordsHandler = Callable[[Records, Request], Awaitable[Response]]


def _choice(name: str, words: tuple[str, ...], *, is_required: bool = False) -> Parameter:
    shape = {"type": "string", "enum": list(words)}
    return Parameter(name, f"One of {', '.join(words)}.", shape, is_required=is_required)


def _text(name: str) -> Parameter:
    return Parameter(name, "Anything where it is not given.", {"type": "string"})


_RESOURCE_TYPES = ("ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
_PATTERN_TYPES = ("ANY", "MATCH", "LITERAL", "PREFIXED")
_OPERATIONS = (
    "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
)  # fmt: skip
_PERMISSIONS = ("ANY", "DENY", "ALLOW")


def _acl_query(*, is_required: bool) -> tuple[Parameter, ...]:
    return (
        _choice("resource_type", _RESOURCE_TYPES, is_required=is_required),
        _text("resource_name"),
        _choice("pattern_type", _PATTERN_TYPES, is_required=is_required),
        _text("principal"),
        _text("host"),
        _choice("operation", _OPERATIONS, is_required=is_required),
        _choice("permission", _PERMISSIONS, is_required=is_required),
    )


_CLUSTERS = "/v3/clusters"
_CLUSTER = f"{_CLUSTERS}/{{cluster_id}}"
_RECORDS = f"{_CLUSTER}/topics/{{topic_name}}/records"
_GROUP = "/consumer-groups/{consumer_group_id}"
_CONSUMER = f"{_GROUP}/consumers/{{consumer_id}}"
_PARTITION = "/topics/{topic_name}/partitions/{partition_id}"

# Paths are below that of the cluster.
_OF_CLUSTER: Final[tuple[HttpOperation[Handler], ...]] = (
    HttpOperation("GET", "", "getKafkaCluster", "The cluster.", clusters.get_cluster, shapes.Cluster),
    # rights
    HttpOperation(
        "GET", "/acls", "getKafkaAcls", "The access rules that match.", acls.list_acls, shapes.AclList,
        query=_acl_query(is_required=False),
    ),
    HttpOperation(
        "POST", "/acls", "createKafkaAcls", "Makes an access rule.", acls.create_acl, body=bodies.NewAcl,
        statuses=(201,),
    ),
    HttpOperation(
        "DELETE", "/acls", "deleteKafkaAcls", "Deletes the access rules that match, and tells them.",
        acls.delete_acls, shapes.DeletedAcls, query=_acl_query(is_required=True),
    ),
    HttpOperation(
        "POST", "/acls:batch", "batchCreateKafkaAcls", "Makes several access rules.", acls.create_acls,
        body=bodies.NewAcls, statuses=(201,),
    ),
    # settings of all brokers
    HttpOperation(
        "GET", "/broker-configs", "listKafkaClusterConfigs", "The settings that all brokers are given.",
        configs.list_cluster_configs, shapes.ClusterConfigList,
    ),
    HttpOperation(
        "POST", "/broker-configs:alter", "updateKafkaClusterConfigs", "Changes settings of all brokers.",
        configs.alter_cluster_configs, body=bodies.ConfigChanges,
    ),
    HttpOperation(
        "GET", "/broker-configs/{name}", "getKafkaClusterConfig", "One setting that all brokers are given.",
        configs.get_cluster_config, shapes.ClusterConfig,
    ),
    HttpOperation(
        "PUT", "/broker-configs/{name}", "updateKafkaClusterConfig", "Sets one setting of all brokers.",
        configs.put_cluster_config, body=bodies.ConfigValue,
    ),
    HttpOperation(
        "DELETE", "/broker-configs/{name}", "deleteKafkaClusterConfig", "Takes one setting of all brokers back.",
        configs.delete_cluster_config,
    ),
    # brokers
    HttpOperation("GET", "/brokers", "listKafkaBrokers", "The brokers.", clusters.list_brokers, shapes.BrokerList),
    HttpOperation("GET", "/brokers/{broker_id}", "getKafkaBroker", "One broker.", clusters.get_broker, shapes.Broker),
    HttpOperation(
        "GET", "/brokers/-/configs", "listKafkaAllBrokerConfigs", "The settings of each broker.",
        configs.list_all_broker_configs, shapes.BrokerConfigList,
    ),
    HttpOperation(
        "GET", "/brokers/{broker_id}/configs", "listKafkaBrokerConfigs", "The settings of one broker.",
        configs.list_broker_configs, shapes.BrokerConfigList,
    ),
    HttpOperation(
        "POST", "/brokers/{broker_id}/configs:alter", "updateKafkaBrokerConfigs", "Changes settings of one broker.",
        configs.alter_broker_configs, body=bodies.ConfigChanges,
    ),
    HttpOperation(
        "GET", "/brokers/{broker_id}/configs/{name}", "getKafkaBrokerConfig", "One setting of one broker.",
        configs.get_broker_config, shapes.BrokerConfig,
    ),
    HttpOperation(
        "PUT", "/brokers/{broker_id}/configs/{name}", "updateKafkaBrokerConfig", "Sets one setting of one broker.",
        configs.put_broker_config, body=bodies.ConfigValue,
    ),
    HttpOperation(
        "DELETE", "/brokers/{broker_id}/configs/{name}", "deleteKafkaBrokerConfig",
        "Takes one setting of one broker back.", configs.delete_broker_config,
    ),
    HttpOperation(
        "GET", "/brokers/{broker_id}/partition-replicas", "listKafkaBrokerReplicas", "The replicas that a broker has.",
        clusters.list_replicas_of_broker, shapes.ReplicaList,
    ),
    # groups
    HttpOperation(
        "GET", "/consumer-groups", "listKafkaConsumerGroups", "The consumer groups.", groups.list_consumer_groups,
        shapes.ConsumerGroupList,
    ),
    HttpOperation(
        "GET", _GROUP, "getKafkaConsumerGroup", "One group.", groups.get_consumer_group, shapes.ConsumerGroup
    ),
    HttpOperation(
        "GET", f"{_GROUP}/consumers", "listKafkaConsumers", "The members of a group.", groups.list_consumers,
        shapes.ConsumerList,
    ),
    HttpOperation(
        "GET", f"{_GROUP}/lag-summary", "getKafkaConsumerGroupLagSummary", "How far behind a group is.",
        groups.get_lag_summary, shapes.ConsumerGroupLagSummary,
    ),
    HttpOperation(
        "GET", f"{_GROUP}/lags", "listKafkaConsumerLags", "How far behind a group is in each partition.",
        groups.list_lags, shapes.ConsumerLagList,
    ),
    HttpOperation(
        "GET", f"{_GROUP}/lags/{{topic_name}}/partitions/{{partition_id}}", "getKafkaConsumerLag",
        "How far behind a group is in one partition.", groups.get_lag, shapes.ConsumerLag,
    ),
    HttpOperation("GET", _CONSUMER, "getKafkaConsumer", "One member.", groups.get_consumer, shapes.Consumer),
    HttpOperation(
        "GET", f"{_CONSUMER}/assignments", "listKafkaConsumerAssignment", "The partitions that a member reads.",
        groups.list_assignments, shapes.ConsumerAssignmentList,
    ),
    HttpOperation(
        "GET", f"{_CONSUMER}/assignments/{{topic_name}}/partitions/{{partition_id}}", "getKafkaConsumerAssignment",
        "One partition that a member reads.", groups.get_assignment, shapes.ConsumerAssignment,
    ),
    # topics
    HttpOperation("GET", "/topics", "listKafkaTopics", "The topics.", topics.list_topics, shapes.TopicList),
    HttpOperation(
        "POST", "/topics", "createKafkaTopic", "Makes a topic; 200 where it was only checked.", topics.create_topic,
        shapes.Topic, bodies.NewTopic, statuses=(201, 200),
    ),
    HttpOperation(
        "GET", "/topics/{topic_name}", "getKafkaTopic", "One topic.", topics.get_topic, shapes.Topic,
        query=(_choice("include_authorized_operations", ("true", "false")),),
    ),
    HttpOperation(
        "PATCH", "/topics/{topic_name}", "updatePartitionCountKafkaTopic", "Gives a topic more partitions.",
        topics.add_partitions, shapes.Topic, bodies.PartitionCount,
    ),
    HttpOperation(
        "DELETE", "/topics/{topic_name}", "deleteKafkaTopic", "Deletes a topic.", topics.delete_topic
    ),
    HttpOperation(
        "GET", "/topics/-/configs", "listKafkaAllTopicConfigs", "The settings of each topic.",
        configs.list_all_topic_configs, shapes.TopicConfigList,
    ),
    HttpOperation(
        "GET", "/topics/{topic_name}/configs", "listKafkaTopicConfigs", "The settings of one topic.",
        configs.list_topic_configs, shapes.TopicConfigList,
    ),
    HttpOperation(
        "POST", "/topics/{topic_name}/configs:alter", "updateKafkaTopicConfigBatch", "Changes settings of one topic.",
        configs.alter_topic_configs, body=bodies.ConfigChanges,
    ),
    HttpOperation(
        "GET", "/topics/{topic_name}/configs/{name}", "getKafkaTopicConfig", "One setting of one topic.",
        configs.get_topic_config, shapes.TopicConfig,
    ),
    HttpOperation(
        "PUT", "/topics/{topic_name}/configs/{name}", "updateKafkaTopicConfig", "Sets one setting of one topic.",
        configs.put_topic_config, body=bodies.ConfigValue,
    ),
    HttpOperation(
        "DELETE", "/topics/{topic_name}/configs/{name}", "deleteKafkaTopicConfig",
        "Takes one setting of one topic back.", configs.delete_topic_config,
    ),
    # partitions
    HttpOperation(
        "GET", "/topics/{topic_name}/partitions", "listKafkaPartitions", "The partitions of a topic.",
        partitions.list_partitions, shapes.PartitionList,
    ),
    HttpOperation(
        "GET", _PARTITION, "getKafkaPartition", "One partition.", partitions.get_partition, shapes.Partition
    ),
    HttpOperation(
        "GET", f"{_PARTITION}/offset", "listKafkaPartitionOffsets", "Where a partition begins and ends.",
        partitions.get_offsets, shapes.PartitionOffsets, query=(_choice("offset_type", ("earliest_and_latest",)),),
    ),
    HttpOperation(
        "GET", f"{_PARTITION}/replicas", "listKafkaReplicas", "The replicas of a partition.",
        partitions.list_replicas, shapes.ReplicaList,
    ),
    HttpOperation(
        "GET", f"{_PARTITION}/replicas/{{broker_id}}", "getKafkaReplica", "One replica.", partitions.get_replica,
        shapes.Replica,
    ),
    HttpOperation(
        "GET", f"{_PARTITION}/reassignment", "getKafkaReassignment", "The move of a partition that is under way.",
        partitions.get_reassignment, shapes.Reassignment,
    ),
    HttpOperation(
        "GET", "/topics/{topic_name}/partitions/-/reassignment", "listKafkaTopicReassignments",
        "The moves of a topic's partitions.", partitions.list_reassignments, shapes.ReassignmentList,
    ),
    HttpOperation(
        "GET", "/topics/-/partitions/-/reassignment", "listKafkaAllReassignments", "All moves that are under way.",
        partitions.list_all_reassignments, shapes.ReassignmentList,
    ),
)  # fmt: skip
# The additional answers of a path with one of these names.
_CODES: Final = {
    "{consumer_group_id}": GROUP_NOT_FOUND,
    "/topics/{topic_name}": TOPIC_PARTITION_NOT_FOUND,
    "/topics/{topic_name}/partitions/{partition_id}": PARTITION_NOT_FOUND,
}


def _below_cluster(operation: HttpOperation[Handler]) -> HttpOperation[Handler]:
    codes = [code for name, code in _CODES.items() if name in operation.path]
    if operation.method != "GET":
        codes.append(KAFKA_BAD_REQUEST)
    if operation.body is not None:
        codes.append(INVALID_PAYLOAD)
    return replace(operation, path=_CLUSTER + operation.path, errors=tuple(sorted(codes)))


OPERATIONS: Final[tuple[HttpOperation[Handler], ...]] = (
    HttpOperation(
        "GET", _CLUSTERS, "listKafkaClusters", "The clusters: the one that the proxy speaks to.",
        clusters.list_clusters, shapes.ClusterList,
    ),
    *map(_below_cluster, _OF_CLUSTER),
)  # fmt: skip
PRODUCE_RECORD: Final[HttpOperation[RecordsHandler]] = HttpOperation(
    "POST",
    _RECORDS,
    "produceRecord",
    "Writes records: one, or as many as stream in. Each has an answer of its own, in their order.",
    Records.produce,
    shapes.Produced,
    bodies.NewRecordBody,
    errors=(INVALID_PAYLOAD,),
)
PRODUCE_RECORDS_BATCH: Final[HttpOperation[RecordsHandler]] = HttpOperation(
    "POST",
    f"{_RECORDS}:batch",
    "produceRecordsBatch",
    "Writes up to ten records, and tells which of them were written.",
    Records.produce_batch,
    shapes.BatchAnswer,
    bodies.Batch,
    errors=(PRODUCE_BATCH,),
    statuses=(207,),
)

"""The table of v3's operations: routes, the OpenAPI document and the reference are read from it.

Paths are below `/v3/clusters/{cluster_id}`. Names are Confluent's, where Confluent's description has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from penstock.rest.openapi import Parameter
from penstock.rest.v3 import bodies, shapes
from penstock.rest.v3.calls import Call
from penstock.rest.v3.handlers import acls, clusters, configs, groups, partitions, topics

Handler = Callable[[Call], Awaitable[Any]]


class Operation(NamedTuple):
    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    answer: type | None = None
    body: type | None = None
    status: int = 200
    query: tuple[Parameter, ...] = ()


def _choice(name: str, words: tuple[str, ...], *, is_required: bool = False) -> Parameter:
    return Parameter(name, f"One of {', '.join(words)}.", {"type": "string", "enum": list(words)}, is_required)


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


_GROUP = "/consumer-groups/{consumer_group_id}"
_CONSUMER = f"{_GROUP}/consumers/{{consumer_id}}"
_PARTITION = "/topics/{topic_name}/partitions/{partition_id}"

OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("GET", "", "getKafkaCluster", "The cluster.", clusters.get_cluster, shapes.Cluster),
    # rights
    Operation(
        "GET", "/acls", "getKafkaAcls", "The access rules that match.", acls.list_acls, shapes.AclList,
        query=_acl_query(is_required=False),
    ),
    Operation(
        "POST", "/acls", "createKafkaAcls", "Makes an access rule.", acls.create_acl, body=bodies.NewAcl, status=201
    ),
    Operation(
        "DELETE", "/acls", "deleteKafkaAcls", "Deletes the access rules that match, and tells them.",
        acls.delete_acls, shapes.DeletedAcls, query=_acl_query(is_required=True),
    ),
    Operation(
        "POST", "/acls:batch", "batchCreateKafkaAcls", "Makes several access rules.", acls.create_acls,
        body=bodies.NewAcls, status=201,
    ),
    # settings of all brokers
    Operation(
        "GET", "/broker-configs", "listKafkaClusterConfigs", "The settings that all brokers are given.",
        configs.list_cluster_configs, shapes.ClusterConfigList,
    ),
    Operation(
        "POST", "/broker-configs:alter", "updateKafkaClusterConfigs", "Changes settings of all brokers.",
        configs.alter_cluster_configs, body=bodies.ConfigChanges, status=204,
    ),
    Operation(
        "GET", "/broker-configs/{name}", "getKafkaClusterConfig", "One setting that all brokers are given.",
        configs.get_cluster_config, shapes.ClusterConfig,
    ),
    Operation(
        "PUT", "/broker-configs/{name}", "updateKafkaClusterConfig", "Sets one setting of all brokers.",
        configs.put_cluster_config, body=bodies.ConfigValue, status=204,
    ),
    Operation(
        "DELETE", "/broker-configs/{name}", "deleteKafkaClusterConfig", "Takes one setting of all brokers back.",
        configs.delete_cluster_config, status=204,
    ),
    # brokers
    Operation("GET", "/brokers", "listKafkaBrokers", "The brokers.", clusters.list_brokers, shapes.BrokerList),
    Operation("GET", "/brokers/{broker_id}", "getKafkaBroker", "One broker.", clusters.get_broker, shapes.Broker),
    Operation(
        "GET", "/brokers/-/configs", "listKafkaAllBrokerConfigs", "The settings of each broker.",
        configs.list_all_broker_configs, shapes.BrokerConfigList,
    ),
    Operation(
        "GET", "/brokers/{broker_id}/configs", "listKafkaBrokerConfigs", "The settings of one broker.",
        configs.list_broker_configs, shapes.BrokerConfigList,
    ),
    Operation(
        "POST", "/brokers/{broker_id}/configs:alter", "updateKafkaBrokerConfigs", "Changes settings of one broker.",
        configs.alter_broker_configs, body=bodies.ConfigChanges, status=204,
    ),
    Operation(
        "GET", "/brokers/{broker_id}/configs/{name}", "getKafkaBrokerConfig", "One setting of one broker.",
        configs.get_broker_config, shapes.BrokerConfig,
    ),
    Operation(
        "PUT", "/brokers/{broker_id}/configs/{name}", "updateKafkaBrokerConfig", "Sets one setting of one broker.",
        configs.put_broker_config, body=bodies.ConfigValue, status=204,
    ),
    Operation(
        "DELETE", "/brokers/{broker_id}/configs/{name}", "deleteKafkaBrokerConfig",
        "Takes one setting of one broker back.", configs.delete_broker_config, status=204,
    ),
    Operation(
        "GET", "/brokers/{broker_id}/partition-replicas", "listKafkaBrokerReplicas", "The replicas that a broker has.",
        clusters.list_replicas_of_broker, shapes.ReplicaList,
    ),
    # groups
    Operation(
        "GET", "/consumer-groups", "listKafkaConsumerGroups", "The consumer groups.", groups.list_consumer_groups,
        shapes.ConsumerGroupList,
    ),
    Operation("GET", _GROUP, "getKafkaConsumerGroup", "One group.", groups.get_consumer_group, shapes.ConsumerGroup),
    Operation(
        "GET", f"{_GROUP}/consumers", "listKafkaConsumers", "The members of a group.", groups.list_consumers,
        shapes.ConsumerList,
    ),
    Operation(
        "GET", f"{_GROUP}/lag-summary", "getKafkaConsumerGroupLagSummary", "How far behind a group is.",
        groups.get_lag_summary, shapes.ConsumerGroupLagSummary,
    ),
    Operation(
        "GET", f"{_GROUP}/lags", "listKafkaConsumerLags", "How far behind a group is in each partition.",
        groups.list_lags, shapes.ConsumerLagList,
    ),
    Operation(
        "GET", f"{_GROUP}/lags/{{topic_name}}/partitions/{{partition_id}}", "getKafkaConsumerLag",
        "How far behind a group is in one partition.", groups.get_lag, shapes.ConsumerLag,
    ),
    Operation("GET", _CONSUMER, "getKafkaConsumer", "One member.", groups.get_consumer, shapes.Consumer),
    Operation(
        "GET", f"{_CONSUMER}/assignments", "listKafkaConsumerAssignment", "The partitions that a member reads.",
        groups.list_assignments, shapes.ConsumerAssignmentList,
    ),
    Operation(
        "GET", f"{_CONSUMER}/assignments/{{topic_name}}/partitions/{{partition_id}}", "getKafkaConsumerAssignment",
        "One partition that a member reads.", groups.get_assignment, shapes.ConsumerAssignment,
    ),
    # topics
    Operation("GET", "/topics", "listKafkaTopics", "The topics.", topics.list_topics, shapes.TopicList),
    Operation(
        "POST", "/topics", "createKafkaTopic", "Makes a topic; 200 where it was only checked.", topics.create_topic,
        shapes.Topic, bodies.NewTopic, status=201,
    ),
    Operation(
        "GET", "/topics/{topic_name}", "getKafkaTopic", "One topic.", topics.get_topic, shapes.Topic,
        query=(_choice("include_authorized_operations", ("true", "false")),),
    ),
    Operation(
        "PATCH", "/topics/{topic_name}", "updatePartitionCountKafkaTopic", "Gives a topic more partitions.",
        topics.add_partitions, shapes.Topic, bodies.PartitionCount,
    ),
    Operation(
        "DELETE", "/topics/{topic_name}", "deleteKafkaTopic", "Deletes a topic.", topics.delete_topic, status=204
    ),
    Operation(
        "GET", "/topics/-/configs", "listKafkaAllTopicConfigs", "The settings of each topic.",
        configs.list_all_topic_configs, shapes.TopicConfigList,
    ),
    Operation(
        "GET", "/topics/{topic_name}/configs", "listKafkaTopicConfigs", "The settings of one topic.",
        configs.list_topic_configs, shapes.TopicConfigList,
    ),
    Operation(
        "POST", "/topics/{topic_name}/configs:alter", "updateKafkaTopicConfigBatch", "Changes settings of one topic.",
        configs.alter_topic_configs, body=bodies.ConfigChanges, status=204,
    ),
    Operation(
        "GET", "/topics/{topic_name}/configs/{name}", "getKafkaTopicConfig", "One setting of one topic.",
        configs.get_topic_config, shapes.TopicConfig,
    ),
    Operation(
        "PUT", "/topics/{topic_name}/configs/{name}", "updateKafkaTopicConfig", "Sets one setting of one topic.",
        configs.put_topic_config, body=bodies.ConfigValue, status=204,
    ),
    Operation(
        "DELETE", "/topics/{topic_name}/configs/{name}", "deleteKafkaTopicConfig",
        "Takes one setting of one topic back.", configs.delete_topic_config, status=204,
    ),
    # partitions
    Operation(
        "GET", "/topics/{topic_name}/partitions", "listKafkaPartitions", "The partitions of a topic.",
        partitions.list_partitions, shapes.PartitionList,
    ),
    Operation(
        "GET", _PARTITION, "getKafkaPartition", "One partition.", partitions.get_partition, shapes.Partition
    ),
    Operation(
        "GET", f"{_PARTITION}/offset", "listKafkaPartitionOffsets", "Where a partition begins and ends.",
        partitions.get_offsets, shapes.PartitionOffsets, query=(_choice("offset_type", ("earliest_and_latest",)),),
    ),
    Operation(
        "GET", f"{_PARTITION}/replicas", "listKafkaReplicas", "The replicas of a partition.",
        partitions.list_replicas, shapes.ReplicaList,
    ),
    Operation(
        "GET", f"{_PARTITION}/replicas/{{broker_id}}", "getKafkaReplica", "One replica.", partitions.get_replica,
        shapes.Replica,
    ),
    Operation(
        "GET", f"{_PARTITION}/reassignment", "getKafkaReassignment", "The move of a partition that is under way.",
        partitions.get_reassignment, shapes.Reassignment,
    ),
    Operation(
        "GET", "/topics/{topic_name}/partitions/-/reassignment", "listKafkaTopicReassignments",
        "The moves of a topic's partitions.", partitions.list_reassignments, shapes.ReassignmentList,
    ),
    Operation(
        "GET", "/topics/-/partitions/-/reassignment", "listKafkaAllReassignments", "All moves that are under way.",
        partitions.list_all_reassignments, shapes.ReassignmentList,
    ),
)  # fmt: skip

"""The answers of v3. The OpenAPI document is made from these classes, so every field of an answer is documented."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

Row = TypeVar("Row")


class Metadata(Struct, kw_only=True):
    link: str = field(name="self")
    resource_name: str | None


class ListMetadata(Struct, kw_only=True):
    link: str = field(name="self")
    next: str | None = None  # lists are answered whole


class Related(Struct):
    related: str


class Resource(Struct, kw_only=True):
    kind: str
    metadata: Metadata


class Listing(Struct, Generic[Row], kw_only=True):
    kind: str
    metadata: ListMetadata
    data: list[Row]


# ------------------------------------------------------------------------------------------------ clusters, brokers


class Cluster(Resource, kw_only=True):
    kind: str = "KafkaCluster"
    cluster_id: str
    controller: Related | None
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related


class ClusterList(Listing[Cluster], kw_only=True):
    kind: str = "KafkaClusterList"


class Broker(Resource, kw_only=True):
    kind: str = "KafkaBroker"
    cluster_id: str
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Related
    partition_replicas: Related


class BrokerList(Listing[Broker], kw_only=True):
    kind: str = "KafkaBrokerList"


# ------------------------------------------------------------------------------------------------ settings


class ConfigSynonym(Struct):
    name: str
    value: str | None
    source: str


class Config(Resource, kw_only=True):
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonym]


class ClusterConfig(Config, kw_only=True):
    kind: str = "KafkaClusterConfig"
    config_type: Literal["BROKER"] = "BROKER"


class ClusterConfigList(Listing[ClusterConfig], kw_only=True):
    kind: str = "KafkaClusterConfigList"


class BrokerConfig(Config, kw_only=True):
    kind: str = "KafkaBrokerConfig"
    broker_id: int


class BrokerConfigList(Listing[BrokerConfig], kw_only=True):
    kind: str = "KafkaBrokerConfigList"


class TopicConfig(Config, kw_only=True):
    kind: str = "KafkaTopicConfig"
    topic_name: str


class TopicConfigList(Listing[TopicConfig], kw_only=True):
    kind: str = "KafkaTopicConfigList"


# ------------------------------------------------------------------------------------------------ rights


class Acl(Resource, kw_only=True):
    kind: str = "KafkaAcl"
    cluster_id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclList(Listing[Acl], kw_only=True):
    kind: str = "KafkaAclList"


class DeletedAcls(Struct):
    data: list[Acl]


# ------------------------------------------------------------------------------------------------ topics


class Topic(Resource, kw_only=True):
    kind: str = "KafkaTopic"
    cluster_id: str
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related
    authorized_operations: list[str] | UnsetType = UNSET


class TopicList(Listing[Topic], kw_only=True):
    kind: str = "KafkaTopicList"


class Partition(Resource, kw_only=True):
    kind: str = "KafkaPartition"
    cluster_id: str
    topic_name: str
    partition_id: int
    leader: Related | None
    replicas: Related
    reassignment: Related


class PartitionList(Listing[Partition], kw_only=True):
    kind: str = "KafkaPartitionList"


class PartitionOffsets(Resource, kw_only=True):
    kind: str = "KafkaPartition"
    cluster_id: str
    topic_name: str
    partition_id: int
    earliest_offset: int | UnsetType = UNSET
    latest_offset: int | UnsetType = UNSET


class Replica(Resource, kw_only=True):
    kind: str = "KafkaReplica"
    cluster_id: str
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related


class ReplicaList(Listing[Replica], kw_only=True):
    kind: str = "KafkaReplicaList"


class Reassignment(Resource, kw_only=True):
    kind: str = "KafkaReassignment"
    cluster_id: str
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Related


class ReassignmentList(Listing[Reassignment], kw_only=True):
    kind: str = "KafkaReassignmentList"


# ------------------------------------------------------------------------------------------------ groups


class ConsumerGroup(Resource, kw_only=True):
    kind: str = "KafkaConsumerGroup"
    cluster_id: str
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: str
    type: str
    is_mixed_consumer_group: bool
    coordinator: Related | None
    consumers: Related
    lag_summary: Related


class ConsumerGroupList(Listing[ConsumerGroup], kw_only=True):
    kind: str = "KafkaConsumerGroupList"


class Consumer(Resource, kw_only=True):
    kind: str = "KafkaConsumer"
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Related


class ConsumerList(Listing[Consumer], kw_only=True):
    kind: str = "KafkaConsumerList"


class ConsumerAssignment(Resource, kw_only=True):
    kind: str = "KafkaConsumerAssignment"
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class ConsumerAssignmentList(Listing[ConsumerAssignment], kw_only=True):
    kind: str = "KafkaConsumerAssignmentList"


class ConsumerLag(Resource, kw_only=True):
    kind: str = "KafkaConsumerLag"
    cluster_id: str
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str
    instance_id: str | None
    client_id: str


class ConsumerLagList(Listing[ConsumerLag], kw_only=True):
    kind: str = "KafkaConsumerLagList"


class ConsumerGroupLagSummary(Resource, kw_only=True):
    kind: str = "KafkaConsumerGroupLagSummary"
    cluster_id: str
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Related
    max_lag_partition: Related


# ------------------------------------------------------------------------------------------------ records


class ProducedData(Struct, omit_defaults=True):
    type: str
    size: int
    subject: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None


class Produced(Struct, kw_only=True):
    """A written record, or its error: then with `error_code` and `message` alone."""

    error_code: int
    message: str | UnsetType = UNSET
    cluster_id: str | UnsetType = UNSET
    topic_name: str | UnsetType = UNSET
    partition_id: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    key: ProducedData | UnsetType = UNSET
    value: ProducedData | UnsetType = UNSET


class BatchSuccess(Struct, kw_only=True):
    id: str
    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str
    key: ProducedData | UnsetType = UNSET
    value: ProducedData | UnsetType = UNSET


class BatchFailure(Struct):
    id: str
    error_code: int
    message: str


class BatchAnswer(Struct):
    successes: list[BatchSuccess]
    failures: list[BatchFailure]

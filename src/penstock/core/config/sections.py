"""The broker's settings as typed values, one frozen section for each component that reads them.

A field is a key of the table with underscores for the dots, so `max_connections_per_ip` is `max.connections.per.ip`.
The type of a field follows from the kind of its key. The last line of this module compares all fields with the table:
a misspelt field, or a field of the wrong type, stops the import.

Keys that no section names are described, validated and stored like the others.

The sections are named tuples because every start pays for them: eleven frozen dataclasses took 10 ms, these take 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from penstock.core.config.table import BROKER_KEYS
from penstock.core.config.types import ConfigKey, ConfigKind, ConfigValue

Section = TypeVar("Section")


class IdentitySection(NamedTuple):
    """The broker's id, its cluster, and its rack."""

    node_id: int
    broker_rack: str | None
    penstock_cluster_id: str
    penstock_first_users_file: str


class ProcessSection(NamedTuple):
    """What an operator sees of the process: log lines and metrics."""

    penstock_log_format: str
    penstock_log_level: str
    penstock_metrics_listen: str


class NetworkSection(NamedTuple):
    """What a listener allows its connections."""

    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_connection_creation_rate: int
    connections_max_idle_ms: int
    queued_max_requests: int
    queued_max_request_bytes: int


class ShutdownSection(NamedTuple):
    """How a broker of a cluster stops."""

    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int


class RequestSection(NamedTuple):
    """How much a single request gets."""

    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int


class TopicSection(NamedTuple):
    """How topics come and go."""

    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool


class BalanceSection(NamedTuple):
    """The return to preferred leaders."""

    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int


class OffsetsTopicSection(NamedTuple):
    """The shape of `__consumer_offsets`."""

    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int


class TransactionTopicSection(NamedTuple):
    """The shape of `__transaction_state`."""

    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int


class GroupSection(NamedTuple):
    """What the group coordinator allows and for how long it remembers."""

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    penstock_group_max_metadata_bytes: int
    penstock_group_pending_joins_max: int
    penstock_group_pending_joins_max_per_group: int
    penstock_group_pending_joins_max_per_client: int
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_assignment_interval_ms: int
    group_consumer_regex_refresh_interval_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int


class TransactionSection(NamedTuple):
    """What the transaction coordinator allows, and how a partition's leader asks the coordinator."""

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int


class UpkeepSection(NamedTuple):
    """How often the logs are looked after, and by how many threads."""

    log_retention_check_interval_ms: int
    num_recovery_threads_per_data_dir: int
    replica_high_watermark_checkpoint_interval_ms: int


class ReplicationSection(NamedTuple):
    """How followers fetch, and how long a leader waits for them."""

    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replica_selector_class: str | None


class AuthorizationSection(NamedTuple):
    """How the broker decides what clients may do."""

    authorizer_class_name: str
    super_users: str
    allow_everyone_if_no_acl_found: bool


class ThrottleSection(NamedTuple):
    """The rates of replicas that are not in sync, and of moves between data directories."""

    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    replica_alter_log_dirs_io_max_bytes_per_second: int
    alter_log_dirs_replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_size_seconds: int


class QuotaSection(NamedTuple):
    """The windows in which the use of quotas is measured."""

    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    penstock_producer_id_quota_window_num: int
    penstock_producer_id_quota_window_size_seconds: int
    penstock_producer_ids_rate: float


class CleanerSection(NamedTuple):
    """How compaction runs."""

    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float


class ZooKeeperSection(NamedTuple):
    """Where the metadata of a cluster is kept, and how to get there. Without `zookeeper_connect` the rest is idle."""

    zookeeper_connect: str | None
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int | None
    zookeeper_max_in_flight_requests: int
    zookeeper_set_acl: bool
    penstock_zookeeper_digest: str | None
    penstock_zookeeper_sasl_mechanism: str
    penstock_zookeeper_sasl_username: str
    penstock_zookeeper_sasl_password: str | None
    penstock_zookeeper_sasl_keytab: str
    zookeeper_ssl_client_enable: bool
    zookeeper_ssl_keystore_location: str | None
    zookeeper_ssl_keystore_password: str | None
    zookeeper_ssl_truststore_location: str | None
    zookeeper_ssl_endpoint_identification_algorithm: str

    @property
    def connection_patience_ms(self) -> int:
        """How long the broker's start waits for a store that is out of reach."""
        return self.zookeeper_connection_timeout_ms or self.zookeeper_session_timeout_ms


class SchemaRegistrySection(NamedTuple):
    """Where the registry is that topics may be checked against, and how the broker logs in there."""

    confluent_schema_registry_url: str
    confluent_basic_auth_credentials_source: str
    confluent_basic_auth_user_info: str | None
    confluent_bearer_auth_token: str | None
    confluent_ssl_truststore_location: str | None
    confluent_ssl_truststore_type: str | None
    confluent_ssl_truststore_password: str | None
    confluent_ssl_keystore_location: str | None
    confluent_ssl_keystore_type: str | None
    confluent_ssl_keystore_password: str | None
    confluent_ssl_key_password: str | None


class MonitoringSection(NamedTuple):
    """The logins and the encryption of `/metrics`."""

    penstock_metrics_security_protocol: str
    penstock_metrics_users: str
    penstock_metrics_tokens: str
    penstock_metrics_cluster_users: bool
    penstock_metrics_insecure: bool


class AuditSection(NamedTuple):
    """What the audit trail keeps, and where. Without a file and without the topic there is none."""

    penstock_audit_file: str
    penstock_audit_topic_enable: bool
    penstock_audit_kinds: tuple[str, ...]
    penstock_audit_excluded_principals: tuple[str, ...]
    penstock_audit_file_max_bytes: int
    penstock_audit_file_count: int
    penstock_audit_queue_max_events: int
    penstock_audit_full: str
    penstock_audit_topic_partitions: int
    penstock_audit_topic_replication_factor: int
    penstock_audit_topic_retention_ms: int


SECTIONS: tuple[type[tuple[Any, ...]], ...] = (
    IdentitySection,
    ProcessSection,
    NetworkSection,
    RequestSection,
    TopicSection,
    BalanceSection,
    OffsetsTopicSection,
    TransactionTopicSection,
    GroupSection,
    TransactionSection,
    UpkeepSection,
    ReplicationSection,
    AuthorizationSection,
    ThrottleSection,
    QuotaSection,
    CleanerSection,
    ZooKeeperSection,
    AuditSection,
    MonitoringSection,
    SchemaRegistrySection,
)

# A field's annotation by the kind of its key.
_ANNOTATIONS = {
    ConfigKind.BOOLEAN: "bool",
    ConfigKind.STRING: "str",
    ConfigKind.INT: "int",
    ConfigKind.SHORT: "int",
    ConfigKind.LONG: "int",
    ConfigKind.DOUBLE: "float",
    ConfigKind.LIST: "tuple[str, ...]",
    ConfigKind.CLASS: "str",
    ConfigKind.PASSWORD: "str",
}


def read_section(section: type[Section], values: Mapping[str, ConfigValue]) -> Section:
    """The section with the values in effect, which are given by Kafka's names."""
    return section(**{field: values[_key_name(field)] for field in section.__annotations__})


def misfits(section: type[tuple[Any, ...]]) -> list[str]:
    """What is wrong with a section's fields, in words: names that no key has, and types that the key's values lack."""
    wrong = []
    for field, annotation in section.__annotations__.items():
        key = BROKER_KEYS.get(_key_name(field))
        if key is None:
            wrong.append(f"{section.__name__}.{field}: there is no key {_key_name(field)}")
        elif annotation.__forward_arg__ != _annotation(key):
            wrong.append(
                f"{section.__name__}.{field}: {key.name} is {_annotation(key)}, not {annotation.__forward_arg__}"
            )
    return wrong


def _key_name(field: str) -> str:
    return field.replace("_", ".")


def _annotation(key: ConfigKey) -> str:
    """Only a key whose default is None can be without a value: no text parses to None."""
    annotation = _ANNOTATIONS[key.kind]
    return annotation if key.default is not None else f"{annotation} | None"


_wrong = [line for section in SECTIONS for line in misfits(section)]
assert not _wrong, "; ".join(_wrong)

"""The settings of a log, from its topic's configuration. The defaults are Kafka's (4.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core.config.keys.schemas import TOPIC_NAME_STRATEGY

NO_LIMIT = 2**63 - 1  # Kafka writes "never" as the largest long


@dataclass(frozen=True, slots=True)
class LogSettings:
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1024 * 1024 + 12
    compression_type: str = "producer"  # or "uncompressed", "gzip", "snappy", "lz4", "zstd"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"  # or "LogAppendTime"
    message_timestamp_before_max_ms: int = NO_LIMIT
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    flush_messages: int = NO_LIMIT
    flush_ms: int = NO_LIMIT
    preallocate: bool = False
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LIMIT
    min_cleanable_dirty_ratio: float = 0.5
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    penstock_segment_least_ms: int = 1_000
    confluent_key_schema_validation: bool = False
    confluent_key_subject_name_strategy: str = TOPIC_NAME_STRATEGY
    confluent_value_schema_validation: bool = False
    confluent_value_subject_name_strategy: str = TOPIC_NAME_STRATEGY
    # Derived from the others once, because each append reads them.
    validates_schemas: bool = field(default=False, init=False)
    # For the check of its schemas, or to be on the disk before it is acknowledged.
    may_wait: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        validates = self.confluent_key_schema_validation or self.confluent_value_schema_validation
        object.__setattr__(self, "validates_schemas", validates)
        object.__setattr__(self, "may_wait", validates or self.flush_messages != NO_LIMIT)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """How old a segment may become: compaction leaves the active one alone."""
        is_compacted = "compact" in self.cleanup_policy  # the property would cost each append another call
        return min(self.segment_ms, self.max_compaction_lag_ms) if is_compacted else self.segment_ms

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

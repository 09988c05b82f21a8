"""The creation of the topics that the broker itself writes to."""

from __future__ import annotations

from collections.abc import Callable

from penstock.cluster.decisions.decision import NewTopic
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.sections import AuditSection, OffsetsTopicSection, TransactionTopicSection
from penstock.core.internal_topics import AUDIT, CONSUMER_OFFSETS, TRANSACTION_STATE

# The largest value of `segment.bytes`; the two keys below allow less, from before KIP-1030 raised it.
_LEAST_SEGMENT_BYTES = 1_048_576
# The limit of the wire's 16 bits, so any number of replicas that the settings name.
_MAX_REPLICATION_FACTOR = 32_767


def is_created_on_demand(name: str) -> bool:
    """Whether `internal_topic` knows the topic's settings. Any other name is created with the broker's defaults."""
    return name in _TOPICS


def internal_topic(name: str, config: BrokerConfig, broker_count: int, *, is_cluster: bool = False) -> NewTopic:
    """The topic with Kafka's settings. Raises KeyError for any other name.

    A standalone broker creates the topic with no more replicas than there are brokers: Kafka refuses to create
    `__consumer_offsets` on one broker unless offsets.topic.replication.factor is 1; then no group works, and the reason
    is hard to find. In a cluster the topic gets the replicas that its settings name, as in Kafka: the first broker that
    starts must not leave it without copies for ever. Until enough brokers have registered, its creation fails with
    INVALID_REPLICATION_FACTOR, and clients get COORDINATOR_NOT_AVAILABLE and try again.
    """
    return _TOPICS[name](config, _MAX_REPLICATION_FACTOR if is_cluster else broker_count)


def _consumer_offsets(section: OffsetsTopicSection, max_replicas: int) -> NewTopic:
    return NewTopic(
        CONSUMER_OFFSETS,
        section.offsets_topic_num_partitions,
        min(section.offsets_topic_replication_factor, max_replicas),
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(max(section.offsets_topic_segment_bytes, _LEAST_SEGMENT_BYTES))),
        ),
    )


def _transaction_state(section: TransactionTopicSection, max_replicas: int) -> NewTopic:
    replication_factor = min(section.transaction_state_log_replication_factor, max_replicas)
    return NewTopic(
        TRANSACTION_STATE,
        section.transaction_state_log_num_partitions,
        replication_factor,
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(min(section.transaction_state_log_min_isr, replication_factor))),
            ("segment.bytes", str(max(section.transaction_state_log_segment_bytes, _LEAST_SEGMENT_BYTES))),
            ("unclean.leader.election.enable", "false"),
        ),
    )


def _audit(section: AuditSection, max_replicas: int) -> NewTopic:
    return NewTopic(
        AUDIT,
        section.penstock_audit_topic_partitions,
        min(section.penstock_audit_topic_replication_factor, max_replicas),
        configs=(
            ("cleanup.policy", "delete"),
            ("retention.ms", str(section.penstock_audit_topic_retention_ms)),
            ("unclean.leader.election.enable", "false"),
        ),
    )


_TOPICS: dict[str, Callable[[BrokerConfig, int], NewTopic]] = {
    CONSUMER_OFFSETS: lambda config, max_replicas: _consumer_offsets(config.offsets_topic, max_replicas),
    TRANSACTION_STATE: lambda config, max_replicas: _transaction_state(config.transaction_topic, max_replicas),
    AUDIT: lambda config, max_replicas: _audit(config.audit, max_replicas),
}

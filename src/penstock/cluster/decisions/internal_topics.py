"""How the topics that the broker itself writes to are created."""

from __future__ import annotations

from collections.abc import Callable

from penstock.cluster.decisions.decision import NewTopic
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.sections import OffsetsTopicSection, TransactionTopicSection
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE

# What `segment.bytes` allows; the two keys below allow less, from before KIP-1030 raised it.
_LEAST_SEGMENT_BYTES = 1_048_576


def is_created_on_demand(name: str) -> bool:
    """Whether `internal_topic` knows the topic's settings. Any other name is created with the broker's defaults."""
    return name in _TOPICS


def internal_topic(name: str, config: BrokerConfig, broker_count: int) -> NewTopic:
    """The topic with Kafka's settings, with no more replicas than there are brokers.

    Kafka refuses to create `__consumer_offsets` on one broker unless offsets.topic.replication.factor says 1; then no
    group works, and the reason is hard to find. Raises KeyError for any other name.
    """
    return _TOPICS[name](config, broker_count)


def _consumer_offsets(section: OffsetsTopicSection, broker_count: int) -> NewTopic:
    return NewTopic(
        CONSUMER_OFFSETS,
        section.offsets_topic_num_partitions,
        min(section.offsets_topic_replication_factor, broker_count),
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(max(section.offsets_topic_segment_bytes, _LEAST_SEGMENT_BYTES))),
        ),
    )


def _transaction_state(section: TransactionTopicSection, broker_count: int) -> NewTopic:
    replication_factor = min(section.transaction_state_log_replication_factor, broker_count)
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


_TOPICS: dict[str, Callable[[BrokerConfig, int], NewTopic]] = {
    CONSUMER_OFFSETS: lambda config, broker_count: _consumer_offsets(config.offsets_topic, broker_count),
    TRANSACTION_STATE: lambda config, broker_count: _transaction_state(config.transaction_topic, broker_count),
}

"""The two topics: their names, their settings, and their creation on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

RUNS_TOPIC: Final = "_penstock_runs"
COMMANDS_TOPIC: Final = "_penstock_commands"

# Kafka's word for "as many as the broker makes by default"; brokers know it since 2.4.
_BROKERS_REPLICATION_FACTOR: Final = -1
# One partition each: a hundred runs write thirty small records a second, and readers see one order.
_PARTITIONS: Final = 1
_REQUEST_TIMEOUT_S: Final = 5.0

# A reader begins at the start of the topic, so the part that is not compacted yet is kept short: by size, by age, and
# by a cleaner that does not wait until half of the log is dirty.
_RUNS_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    "message.timestamp.type": "LogAppendTime",  # clocks of hosts differ: see `overview`
}
# Commands are valid for a minute or so. They are kept for an hour, for users who look for the cause of a change.
_COMMANDS_CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "3600000",
    "message.timestamp.type": "LogAppendTime",
}


@dataclass(frozen=True, slots=True)
class RunTopics:
    runs: str = RUNS_TOPIC
    commands: str = COMMANDS_TOPIC


def create_missing(admin: AdminClient, topics: RunTopics) -> None:
    """Topics that exist stay as they are. A refusal for want of rights is no error here: an administrator may have made
    the topics, and the first write shows whether they are there."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    tolerated = {
        KafkaError.TOPIC_ALREADY_EXISTS,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
    wanted = [
        NewTopic(name, _PARTITIONS, _BROKERS_REPLICATION_FACTOR, config=config)
        for name, config in ((topics.runs, _RUNS_CONFIG), (topics.commands, _COMMANDS_CONFIG))
    ]
    for answer in admin.create_topics(wanted, request_timeout=_REQUEST_TIMEOUT_S).values():
        try:
            answer.result(_REQUEST_TIMEOUT_S + 1)
        except KafkaException as error:
            if error.args[0].code() not in tolerated:
                raise

"""What a client knows of a cluster: who leads which partition, and who coordinates what.

The rules are those of Kafka's clients. Knowledge lasts until an answer is lost or says that somebody else is to be
asked. Leaders come with epochs, and what a broker says of an older epoch than the newest one heard of is not believed.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata import MetadataResponse
from proof.simulation.notebook import Partition

# Somebody else is to be asked.
_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
NO_EPOCH = -1


class Routes:
    def __init__(self) -> None:
        self.leaders: dict[Partition, int] = {}
        self.coordinators: dict[tuple[int, str], int] = {}
        self._epochs: dict[Partition, int] = {}

    def epoch(self, partition: Partition) -> int:
        return self._epochs.get(partition, NO_EPOCH)

    def learn(self, metadata: MetadataResponse) -> None:
        for topic in metadata.topics:
            for row in topic.partitions:
                partition = topic.name or "", row.partition_index
                if row.error_code or row.leader_id < 0 or row.leader_epoch < self.epoch(partition):
                    continue
                self.leaders[partition] = row.leader_id
                self._epochs[partition] = row.leader_epoch

    def forget(self) -> None:
        """Epochs stay: what is older than them is not believed."""
        self.leaders.clear()
        self.coordinators.clear()

    def heed(self, answer: Message) -> None:
        if any(code in _MOVED for code in _error_codes(answer)):
            self.forget()


def _error_codes(answer: Message) -> Iterator[int]:
    for field in answer.FIELDS:
        value = getattr(answer, field.attribute)
        if field.attribute.endswith("error_code"):
            yield value
        elif isinstance(value, Message):
            yield from _error_codes(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Message):
                    yield from _error_codes(each)

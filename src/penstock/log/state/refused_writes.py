"""Refused batches of idempotent producers that will be repeated, so that later batches do not fail as out of order.

A producer has several requests in flight. Where the first is refused because this broker does not lead for a moment,
the next may meet the moment in which the broker leads again. A sequence is missing before it then, and
OUT_OF_ORDER_SEQUENCE_NUMBER makes librdkafka begin a new producer epoch for all its partitions. Batches that are in a
log already and not acknowledged yet come a second time, under the new epoch. A producer that the log does not know is
worse off: the log would take its second batch for its first.

Rules:
- After a refusal that clients repeat, a batch of that producer, epoch and partition is refused with the same error as
  long as a sequence is missing before it. The log shows the missing sequences: a refused batch may be a copy of a batch
  that the log has, or may have come at another leader.
- The refusal is forgotten when its last sequence comes, or is found in the log, and when the producer begins a newer
  epoch. A batch that is refused once more is noted once more.
- It is also forgotten after a while. A client that has given the batch up gets the error for the gap, as from Kafka.
- The refusals belong to the connection on which they were sent. No client can hold up the producer of another client,
  or make a broker forget another client's refusals.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.limits import MAX_TOPIC_NAME_LENGTH
from penstock.core.types import TopicId
from penstock.log.state.producer_state import ProducerState, is_sequence_before, sequence_after
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer

# After these errors clients send the same batch again. CORRUPT_MESSAGE is not among them: its header is not credible.
REPEATED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
# Java's `delivery.timeout.ms`: a batch that was not repeated by then was given up. Requests in flight are read much
# sooner, also where they wait behind a write that waits for its replicas.
KEPT_MS = 120_000
# The number of partitions and producers of one connection. Twice as many took 84 KB, and 129 KB where all topics had
# the longest name (measured). A producer has five requests in flight; one of Java's may name each partition that the
# broker leads. When more are refused the oldest refusals are dropped, and their producers get Kafka's errors.
MOST_KEPT = 100

# The topic by id or by name, as the client names it, the partition and the producer.
_Key = tuple[TopicId | str, int, int]


class _Refusal(NamedTuple):
    producer_epoch: int
    first: int  # the lowest sequence that was refused
    last: int  # the highest one
    code: ErrorCode
    expires_ms: int


class RefusedWrites:
    """The refused writes of one connection. They cost nothing while nothing was refused: callers check `kept` first.
    Bench: produce.
    """

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: dict[_Key, _Refusal] = {}  # the oldest first

    def note(self, topic: TopicId | str, index: int, records: Buffer | None, code: int, now_ms: int) -> None:
        """Notes any refused batch."""
        if code not in REPEATED or records is None or len(records) < HEADER_SIZE:
            return
        header = read_header(records)
        if not header.has_producer or header.base_sequence < 0 or not _may_be_remembered(topic):
            return
        self._forget_old(now_ms)
        key = topic, index, header.producer_id
        first = last = header.base_sequence
        former = self.kept.get(key)
        if former is not None and former.producer_epoch == header.producer_epoch:
            if is_sequence_before(last, former.last):
                last = former.last
            if is_sequence_before(former.first, first):  # a batch behind the first does not make the refusal younger
                self.kept[key] = former._replace(last=last)
                return
        self.kept.pop(key, None)
        if len(self.kept) >= MOST_KEPT:
            del self.kept[next(iter(self.kept))]
        self.kept[key] = _Refusal(header.producer_epoch, first, last, ErrorCode(code), now_ms + KEPT_MS)

    def check(self, topic: TopicId | str, index: int, records: Buffer, producers: ProducerState, now_ms: int) -> None:
        """ApiError where a batch is missing before this batch because it was refused. `records` has a whole header."""
        self._forget_old(now_ms)
        header = read_header(records)
        key = topic, index, header.producer_id
        refusal = self.kept.get(key)
        if refusal is None or header.producer_epoch < refusal.producer_epoch:
            return
        epoch, first, last, code, _ = refusal
        missing = producers.next_sequence(header.producer_id, epoch)
        if missing is None:
            missing = first
        if header.producer_epoch != epoch or is_sequence_before(last, missing):
            del self.kept[key]
        elif is_sequence_before(missing, header.base_sequence):
            raise ApiError(code, f"sequence {missing} of this producer was refused and has not come again")
        elif not is_sequence_before(header.last_sequence, last):
            del self.kept[key]  # the log may be another when the next batch comes: its topic was recreated
        elif header.base_sequence == missing:
            self.kept[key] = refusal._replace(first=sequence_after(header.last_sequence))

    def _forget_old(self, now_ms: int) -> None:
        """Also where no batch comes for it any more, because another broker leads the partition."""
        while self.kept and self.kept[oldest := next(iter(self.kept))].expires_ms <= now_ms:
            del self.kept[oldest]


def _may_be_remembered(topic: TopicId | str) -> bool:
    """Remembers ids, and possible topic names: other names could cost more memory."""
    return isinstance(topic, bytes) or (len(topic) <= MAX_TOPIC_NAME_LENGTH and topic.isascii())

"""Batches of idempotent producers that were refused and will come again, so that nothing behind them is out of order.

A producer has several requests in flight. Where the first one is refused because this broker does not lead for a
moment, the next one may meet the moment in which the broker leads again. A sequence is missing before it then, and
OUT_OF_ORDER_SEQUENCE_NUMBER makes librdkafka begin a new producer epoch for all its partitions. Whatever is in a log
already and not acknowledged yet comes a second time, under the new epoch. A producer that the log does not know is
worse off: the log would take its second batch for its first one.

Rules:
- After a refusal that clients repeat, a batch of that producer, epoch and partition is refused with the same error as
  long as a sequence is missing before it. What is missing follows from the log: a refused batch may be a copy of one
  that the log has, or may have come at another leader.
- The refusal is forgotten when its last sequence comes, or is found in the log, and when the producer begins a newer
  epoch. If what came is refused once more, it is noted once more.
- It is also forgotten after a while. A client that has given the batch up hears of the gap, as Kafka would tell it.
- The refusals belong to the connection that they were told on. Nobody can hold up the producer of somebody else, or
  make a broker forget whom it has refused.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.limits import MAX_TOPIC_NAME_LENGTH
from penstock.core.types import TopicId
from penstock.log.state.producer_state import ProducerState, is_sequence_before, sequence_after
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer

# After these errors clients send the same batch again. CORRUPT_MESSAGE is not among them: its header is not to be
# believed.
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
# Java's `delivery.timeout.ms`: what was not repeated by then was given up. Requests in flight are read much sooner,
# also where they wait behind a write that waits for its replicas.
KEPT_MS = 120_000
# Partitions and producers of one connection. Twice as many took 84 KB, and 129 KB where all topics had the longest name
# (measured). A producer has five requests in flight; one of Java's may name each partition that the broker leads. When
# more are refused the oldest refusals go, and their producers hear what Kafka would tell them.
MOST_KEPT = 100

# The topic by id or by name, as the client calls it, the partition and the producer.
_Key = tuple[TopicId | str, int, int]


class _Refusal(NamedTuple):
    producer_epoch: int
    first: int  # the lowest sequence that was refused
    last: int  # the highest one
    code: ErrorCode
    expires_ms: int


class RefusedWrites:
    """Of one connection. It costs nothing while nothing was refused: callers look at `kept` first. Bench: produce."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: dict[_Key, _Refusal] = {}  # the oldest first

    def note(self, topic: TopicId | str, index: int, records: Buffer | None, code: int, now_ms: int) -> None:
        """The batch was refused, whatever it is."""
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
            if is_sequence_before(former.first, first):  # one behind the first does not make the refusal younger
                self.kept[key] = former._replace(last=last)
                return
        self.kept.pop(key, None)
        if len(self.kept) >= MOST_KEPT:
            del self.kept[next(iter(self.kept))]
        self.kept[key] = _Refusal(header.producer_epoch, first, last, ErrorCode(code), now_ms + KEPT_MS)

    def check(self, topic: TopicId | str, index: int, records: Buffer, producers: ProducerState, now_ms: int) -> None:
        """ApiError where a batch is missing before this one because it was refused. `records` has a whole header."""
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
            del self.kept[key]  # the log may be another one when the next batch comes: its topic was made anew
        elif header.base_sequence == missing:
            self.kept[key] = refusal._replace(first=sequence_after(header.last_sequence))

    def _forget_old(self, now_ms: int) -> None:
        """Also where nobody asks for it any more, because another broker leads the partition."""
        while self.kept and self.kept[oldest := next(iter(self.kept))].expires_ms <= now_ms:
            del self.kept[oldest]


def _may_be_remembered(topic: TopicId | str) -> bool:
    """Ids, and names that a topic can have: others cost more than a name may."""
    return isinstance(topic, bytes) or (len(topic) <= MAX_TOPIC_NAME_LENGTH and topic.isascii())

"""Batches of idempotent producers that were refused and will come again, so that nothing behind them is out of order.

A producer has several requests in flight. Where the first one is refused because this broker does not lead for a
moment, the next one may meet the moment in which it leads again. Its sequence has a gap before it then, and
OUT_OF_ORDER_SEQUENCE_NUMBER makes librdkafka begin a new producer epoch for all its partitions. Whatever is in a log
already and not acknowledged yet comes a second time, under the new epoch. A producer that the log does not know is
worse: its second batch would be taken for the first one.

Rules:
- After a refusal that clients repeat, later batches of that producer, epoch and partition on the same connection are
  refused with the same error, until the log has the refused sequence.
- A refusal is forgotten when its batch has come, here or at another leader, when the epoch is another one, and after a
  while: a client that has given its batch up is told of the gap, as by Kafka.
- A refusal concerns the connection that it was told on: nobody can hold up the producer of somebody else.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.clock import Clock
from penstock.core.limits import MAX_TOPIC_NAME_LENGTH
from penstock.core.types import TopicId
from penstock.log.state.producer_state import ProducerState, is_sequence_before
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.errors import ApiError, ErrorCode, is_retriable
from penstock.protocol.message import Buffer

# What was in flight behind a refused batch is read within milliseconds, and where a client is throttled within seconds.
KEPT_MS = 30_000
# About 400 bytes each, 650 where all topics have the longest name. When more are refused within KEPT_MS the oldest go,
# and their producers hear what Kafka would tell them.
MOST_KEPT = 10_000


class Place(NamedTuple):
    """Where a batch came from and goes to. Topics are known by id or by name, as the client calls them."""

    connection_id: str
    topic: TopicId | str
    partition: int


class _Refusal(NamedTuple):
    producer_epoch: int
    sequence: int
    code: ErrorCode
    expires_ms: int


class RefusedWrites:
    """Costs nothing while nobody was refused: callers look at `kept` first. Bench: produce."""

    __slots__ = ("_clock", "kept")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.kept: dict[tuple[Place, int], _Refusal] = {}  # by place and producer, the oldest first

    def note(self, place: Place, records: Buffer | None, code: ErrorCode) -> None:
        """The batch was refused, whatever it is."""
        if records is None or len(records) < HEADER_SIZE or not is_retriable(code):
            return
        header = read_header(records)
        if not header.has_producer or header.base_sequence < 0 or len(place.topic) > MAX_TOPIC_NAME_LENGTH:
            return
        key = place, header.producer_id
        former = self.kept.get(key)
        if (
            former is not None
            and former.producer_epoch == header.producer_epoch
            and is_sequence_before(former.sequence, header.base_sequence)
        ):
            return  # the first one that is missing counts
        self.kept.pop(key, None)
        now_ms = self._clock.monotonic_ms()
        self._forget_old(now_ms)
        if len(self.kept) >= MOST_KEPT:
            del self.kept[next(iter(self.kept))]
        self.kept[key] = _Refusal(header.producer_epoch, header.base_sequence, code, now_ms + KEPT_MS)

    def check(self, place: Place, records: Buffer, producers: ProducerState) -> None:
        """ApiError where a batch is missing before this one, because it was refused. The batch has a whole header."""
        self._forget_old(self._clock.monotonic_ms())
        header = read_header(records)
        key = place, header.producer_id
        refusal = self.kept.get(key)
        if refusal is None:
            return
        epoch, sequence, code, _ = refusal
        if header.producer_epoch != epoch or not producers.is_missing(header.producer_id, epoch, sequence):
            del self.kept[key]
        elif is_sequence_before(sequence, header.base_sequence):
            raise ApiError(code, f"sequence {sequence} of this producer was refused and has not come again")

    def _forget_old(self, now_ms: int) -> None:
        while self.kept and self.kept[oldest := next(iter(self.kept))].expires_ms <= now_ms:
            del self.kept[oldest]

"""When librdkafka sends what, and what it makes of answers: rdkafka_idempotence.c, _request.c, _partition.c, _broker.c.

- A batch that is sent again has the same sequence and the same records. It waits in front of its partition's queue
  until nothing of the partition is in flight (`rktp_eos.wait_drain`), as it does when the leader has changed.
- Five requests are in flight on a connection. Of one partition, five less its records in flight.
- OUT_OF_ORDER_SEQUENCE_NUMBER for the next batch to be acknowledged is fatal. For a later one it means that an earlier
  one failed: the epoch is bumped for all partitions ("skipped sequence numbers"). Nothing is sent until nothing is in
  flight (`RD_KAFKA_IDEMP_STATE_DRAIN_BUMP`). Then every partition begins with sequence 0 of the next epoch, at the
  first batch that is not acknowledged. What a broker has appended and not acknowledged comes twice then, so a broker
  must never lead a client there.
- A batch that is acknowledged behind one that is waiting to be sent again acknowledges that one, too.
- DUPLICATE_SEQUENCE_NUMBER is success.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.protocol.errors import ErrorCode
from penstock.testing.history import Outcome
from proof.simulation.notebook import Partition
from proof.simulation.pipelining.batches import (
    BACKOFF_MS,
    MOST_IN_FLIGHT,
    NO_ANSWER,
    Answer,
    Batch,
    Listener,
    Sending,
)

# `rd_kafka_err_action` and the table of `rd_kafka_handle_Produce_error`: those that mean "again".
_AGAIN = frozenset(
    {
        NO_ANSWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


class _Toppar:
    """One partition, named as in librdkafka."""

    __slots__ = ("acked_end", "base", "epoch", "in_flight", "next_ack", "next_error", "node", "queue", "waits")

    def __init__(self) -> None:
        self.queue: list[Batch] = []  # by number
        self.in_flight = 0  # records
        self.waits = False  # until nothing is in flight
        self.node = -1
        self.epoch = -1
        self.base = 0  # the record that has sequence 0
        self.next_ack = 0
        self.next_error = 0
        self.acked_end = 0

    def put_back(self, batch: Batch) -> None:
        self.queue.append(batch)
        self.queue.sort(key=lambda each: each.first)


class LibrdkafkaRules:
    def __init__(self, epoch: int, listener: Listener) -> None:
        self.epoch = epoch
        self._listener = listener
        self._toppars: dict[Partition, _Toppar] = {}
        self._is_draining = False
        self._is_dead = False

    def add(self, batch: Batch) -> None:
        self._toppars.setdefault(batch.partition, _Toppar()).queue.append(batch)

    @property
    def is_idle(self) -> bool:
        return self._is_dead or not any(each.queue or each.in_flight for each in self._toppars.values())

    # ---- sending

    def take(self, node: int, led: Collection[Partition], room: int, now_ms: float) -> list[list[Sending]]:
        taken: list[list[Sending]] = []
        if self._is_draining or self._is_dead:
            return taken
        for partition in led:
            toppar = self._toppars.get(partition)
            while toppar is not None and len(taken) < room and self._may_send(toppar, node, now_ms):
                batch = toppar.queue.pop(0)
                toppar.in_flight += batch.count
                batch.tries += 1
                taken.append([Sending(batch, toppar.epoch, batch.first - toppar.base)])
        return taken

    def _may_send(self, toppar: _Toppar, node: int, now_ms: float) -> bool:
        if toppar.node != node:
            toppar.node, toppar.waits = node, True
        if toppar.waits and toppar.in_flight:
            return False
        toppar.waits = False
        if not toppar.queue or toppar.in_flight >= MOST_IN_FLIGHT or toppar.queue[0].not_before_ms > now_ms:
            return False
        if toppar.epoch != self.epoch:
            if toppar.in_flight:
                return False
            toppar.epoch, toppar.base = self.epoch, toppar.queue[0].first
            toppar.next_ack = toppar.next_error = 0
        return True

    # ---- answers

    def settle(self, sending: Sending, answer: Answer, now_ms: float) -> None:
        toppar = self._toppars[sending.batch.partition]
        toppar.in_flight -= sending.batch.count
        if answer.code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._succeed(toppar, sending, answer)
        elif answer.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._meet_gap(toppar, sending)
        elif answer.code in _AGAIN:
            self._try_again(toppar, sending, now_ms)
        else:
            self._die(f"{sending} failed for good: {answer.name}", sending)
        self._bump_when_drained()

    def _succeed(self, toppar: _Toppar, sending: Sending, answer: Answer) -> None:
        batch, next_sequence = sending.batch, sending.sequence + sending.batch.count
        if answer.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            toppar.next_ack = toppar.next_error = next_sequence
        elif toppar.acked_end < batch.first:
            self._acknowledge_before(toppar, batch.end)
        elif sending.sequence != toppar.next_ack and sending.sequence == toppar.next_error:
            self._die(f"{sending} succeeded when a failure was expected, after {toppar.next_ack}", sending)
            return
        if toppar.next_error == toppar.next_ack:
            toppar.next_error = next_sequence
        toppar.next_ack = next_sequence
        toppar.acked_end = max(toppar.acked_end, batch.end)
        self._listener.done(batch, Outcome.OK, answer.offset if answer.code == ErrorCode.NONE else -1)

    def _acknowledge_before(self, toppar: _Toppar, end: int) -> None:
        """`rd_kafka_dr_implicit_ack`: a later batch is there, and so these are."""
        for batch in [each for each in toppar.queue if each.end <= end]:
            toppar.queue.remove(batch)
            self._listener.note(f"{batch.partition} record {batch.first}: acknowledged with a later one")
            self._listener.done(batch, Outcome.OK, -1)

    def _meet_gap(self, toppar: _Toppar, sending: Sending) -> None:
        if sending.sequence == toppar.next_ack:
            self._die(f"{sending} is the next to be acknowledged and out of order for the broker", sending)
            return
        if sending.sequence < toppar.next_ack:
            self._die(f"{sending} comes before {toppar.next_ack}, which is next, and is out of order", sending)
            return
        toppar.next_error = sending.sequence + sending.batch.count
        toppar.waits = True
        toppar.put_back(sending.batch)
        if not self._is_draining:
            self._listener.note(f"{sending}: skipped sequence numbers, {toppar.next_ack} is next; bumps the epoch")
        self._is_draining = True

    def _try_again(self, toppar: _Toppar, sending: Sending, now_ms: float) -> None:
        toppar.next_error = sending.sequence + sending.batch.count
        toppar.waits = True
        sending.batch.not_before_ms = now_ms + BACKOFF_MS
        toppar.put_back(sending.batch)

    def _bump_when_drained(self) -> None:
        if self._is_draining and not any(each.in_flight for each in self._toppars.values()):
            self._is_draining = False
            self.epoch += 1
            self._listener.note(f"all partitions are drained: epoch {self.epoch}")

    def _die(self, text: str, sending: Sending) -> None:
        self._is_dead = True
        self._listener.done(sending.batch, Outcome.UNKNOWN, -1)
        self._listener.fail(text)

"""A transactional producer, request by request: the older path (partitions are added by name) and the newer one
(transaction.version 2: partitions are added by writing to them, each transaction has an epoch of its own).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.clients.raw.wire import Topic, Wire, build_batch, new_name, produce_request, until_settled

TRANSACTIONAL = 0x10
# The highest versions of clients that do not know transaction.version 2.
OLD_PRODUCE, OLD_END, OLD_OFFSET_COMMIT, OLD_ADD = 10, 3, 3, 3
# Passing states of Kafka's coordinator: it loads, it still writes markers, it fetches a block of producer ids.
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_GROUP_KEY, _TRANSACTION_KEY = 0, 1


def find_coordinator(wire: Wire, key: str, key_type: int = _TRANSACTION_KEY) -> Any:
    """Whoever asks first makes the broker create the coordinators' topic."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    return until_settled(lambda: wire(request, 4).coordinators[0], *PASSING)


class _Added:
    def __init__(self, errors: list[ErrorCode]) -> None:
        self.errors = errors
        self.error_code = errors[0]


class RawProducer:
    def __init__(self, wire: Wire, transactional_id: str | None = None, *, is_new: bool = False) -> None:
        self.wire = wire
        self.transactional_id = transactional_id or new_name("txn")
        self.is_new = is_new
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}
        assert find_coordinator(wire, self.transactional_id).error_code == 0

    # ------------------------------------------------------------------------------------------- requests

    def try_init(self, version: int = 5, timeout_ms: int = 60_000, **bent: Any) -> Any:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **bent
        )
        return until_settled(lambda: self.wire(request, version), *PASSING)

    def init(self, timeout_ms: int = 60_000) -> RawProducer:
        answer = self.try_init(timeout_ms=timeout_ms)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self._adopt(answer.producer_id, answer.producer_epoch)
        return self

    def add(self, topic: Topic, partitions: Sequence[int] = (0,), version: int = OLD_ADD) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic.name, partitions=list(partitions))],
        )

        def ask() -> _Added:
            (found,) = self.wire(request, version).results_by_topic_v3_and_below
            results = sorted(found.results_by_partition, key=lambda result: int(result.partition_index))
            return _Added([ErrorCode(result.partition_error_code) for result in results])

        added: _Added = until_settled(ask, *PASSING)
        return added.errors

    def produce(
        self, topic: Topic, *values: bytes, partition: int = 0, version: int | None = None, **bent: Any
    ) -> ErrorCode:
        """One batch of this producer's transaction."""
        sequence = self.sequences.get((topic.name, partition), 0)
        fields = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "sequence": sequence}
        batch = build_batch(values or (b"value",), attributes=TRANSACTIONAL, **{**fields, **bent})
        request = produce_request(topic, {partition: batch})
        request.transactional_id = self.transactional_id
        chosen = version if version is not None else None if self.is_new else OLD_PRODUCE
        answer = until_settled(
            lambda: self.wire(request, chosen).responses[0].partition_responses[0], ErrorCode.CONCURRENT_TRANSACTIONS
        )
        if answer.error_code == 0:
            self.sequences[topic.name, partition] = sequence + len(values or (b"value",))
        return ErrorCode(answer.error_code)

    def add_offsets(self, group: str, version: int = 3) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return ErrorCode(until_settled(lambda: self.wire(request, version), *PASSING).error_code)

    def commit_offset(
        self, group: str, topic: Topic, offset: int, version: int | None = None, **member: Any
    ) -> ErrorCode:
        find_coordinator(self.wire, group, _GROUP_KEY)
        wanted = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic.name, partitions=[wanted])],
            **member,
        )
        chosen = version if version is not None else 5 if self.is_new else OLD_OFFSET_COMMIT
        return ErrorCode(until_settled(lambda: self.wire(request, chosen).topics[0].partitions[0], *PASSING).error_code)

    def try_end(self, is_commit: bool, version: int | None = None) -> Any:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        chosen = version if version is not None else 5 if self.is_new else OLD_END
        return until_settled(lambda: self.wire(request, chosen), *PASSING)

    def end(self, is_commit: bool) -> None:
        answer = self.try_end(is_commit)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        if self.is_new:
            self._adopt(answer.producer_id, answer.producer_epoch)

    def _adopt(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

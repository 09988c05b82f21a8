"""Clients that write: plain, idempotent, keyed, and in transactions of both kinds."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.protocol.records import Record, build_batch
from penstock.testing.history import Commit, Outcome, Send
from proof.simulation.client import (
    FOR_GROUP,
    FOR_TRANSACTION,
    TRANSIENT,
    UNCERTAIN,
    Call,
    Client,
    Script,
    Setting,
    ask,
)
from proof.simulation.notebook import Attempt, Partition
from proof.simulation.topics import (
    BRIEF,
    KEYED,
    KEYS,
    RECORDS,
    RECORDS_PARTITIONS,
    build_record,
    name_value,
)

_RETRY_MS = 30.0
_MOST_TRIES = 12
_TRANSACTION_TIMEOUT_MS = 3_000
_PLAIN_VERSION, _OLD_TRANSACTIONS_VERSION, _NEW_TRANSACTIONS_VERSION = 9, 11, 12
_OLD_END_VERSION, _NEW_END_VERSION = 4, 5
_OLD_COMMIT_VERSION, _NEW_COMMIT_VERSION = 4, 5


Steps = Generator[Call | float, Any, Any]


class Written(NamedTuple):
    outcome: Outcome
    offset: int | None = None
    error: int = 0


class Producer(Client):
    producer_id = -1
    producer_epoch = -1
    transactional_id: str | None = None
    version = _PLAIN_VERSION
    most_tries = 1

    def __init__(self, number: int, kind: str, setting: Setting, seed: int) -> None:
        super().__init__(number, kind, setting, seed)
        self.sequences: dict[Partition, int] = {}

    def may_double(self, call: Call) -> bool:
        """Sequences tell the second one. A transaction of the older kind could find it in the next."""
        is_numbered = isinstance(call.request, ProduceRequest) and self.producer_id >= 0
        return is_numbered and not self.is_alone and self.version != _OLD_TRANSACTIONS_VERSION

    def produce(self, topic_partition: Partition, records: list[Record]) -> Generator[Call | float, Any, Written]:
        """Tries until something definite is known, or until patience ends. One sequence for all tries."""
        log_name = f"{topic_partition[0]}-{topic_partition[1]}"
        is_numbered = self.producer_id >= 0
        sequence = self.sequences.get(topic_partition, 0) if is_numbered else -1
        batch = build_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=self.transactional_id is not None,
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[
                TopicProduceData(
                    name=topic_partition[0],
                    partition_data=[PartitionProduceData(index=topic_partition[1], records=batch)],
                )
            ],
        )
        may_be_there = False
        for _ in range(self.most_tries if self.most_tries == 1 else self.most_tries * self.setting.patience):
            node = yield from self.leader(topic_partition)
            response = yield from ask(Call(request, self.version, node=node), ProduceResponse)
            answer = _only(response)
            if answer is None:
                may_be_there = True
            elif answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self.note(f"{log_name} sequence {sequence} at {answer.base_offset}")
                if is_numbered:
                    self.sequences[topic_partition] = sequence + len(records)
                return Written(Outcome.OK, answer.base_offset if answer.error_code == 0 else None)
            else:
                self.note(f"{log_name} sequence {sequence}: {ErrorCode(answer.error_code).name}")
                may_be_there = may_be_there or answer.error_code in UNCERTAIN
                if answer.error_code not in TRANSIENT:
                    return Written(Outcome.UNKNOWN if may_be_there else Outcome.FAILED, error=answer.error_code)
            if self.most_tries > 1:
                yield _RETRY_MS
        return Written(Outcome.UNKNOWN if may_be_there else Outcome.FAILED, error=-1)

    def initialise(self) -> Steps:
        """A producer id, sooner or later; whether there is one."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        while self.goes_on:
            node = None
            if self.transactional_id is not None:
                node = yield from self.coordinator(self.transactional_id, FOR_TRANSACTION)
            response = yield from ask(Call(request, 4, node=node), InitProducerIdResponse)
            if response is not None and response.error_code == 0:
                self.note(f"is producer {response.producer_id} epoch {response.producer_epoch}")
                self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
                self.sequences.clear()
                return True
            if response is not None and response.error_code not in TRANSIENT:
                self.note(f"no producer id: {ErrorCode(response.error_code).name}")
            yield _RETRY_MS * 3
        return False

    def some_records(self, topic_partition: Partition, attempt: Attempt) -> list[Record]:
        """One to three new records; the attempt is told of them."""
        records = []
        for _ in range(self.chance.randint(1, 3)):
            value = self.unique()
            is_keyed = topic_partition[0] == KEYED
            key = self.chance.choice(KEYS) if is_keyed else None
            is_tombstone = is_keyed and self.chance.random() < 0.2
            attempt.actions.append(Send(*topic_partition, name_value(key, value), key=key, is_tombstone=is_tombstone))
            records.append(build_record(key, value, self.now_ms(), is_tombstone=is_tombstone))
        return records

    def write(self, topic_partition: Partition, attempt: Attempt) -> Generator[Call | float, Any, Outcome]:
        """Some new records; the attempt is told of them, and of their offsets."""
        records = self.some_records(topic_partition, attempt)
        written = yield from self.produce(topic_partition, records)
        if attempt.actions and written.offset is not None and written.offset >= 0:
            attempt.number_sends(len(records), written.offset)
        return written.outcome


class SimpleProducer(Producer):
    """One batch after the other: plain, or idempotent if it has a producer id."""

    is_idempotent = False

    def run(self) -> Script:
        if self.is_idempotent:
            self.most_tries = _MOST_TRIES
        while self.goes_on:
            if self.is_idempotent and self.producer_id < 0 and not (yield from self.initialise()):
                return
            topic_partition = self.choose_partition()
            attempt = self.notebook.begin(self.number)
            outcome = yield from self.write(topic_partition, attempt)
            self.notebook.end(attempt, outcome)
            if outcome is not Outcome.OK:
                self.producer_id = -1  # what has become of the sequence is not known
            yield self.pause()

    def choose_partition(self) -> Partition:
        return (RECORDS, self.chance.randrange(RECORDS_PARTITIONS))


class IdempotentProducer(SimpleProducer):
    is_idempotent = True


class KeyedProducer(SimpleProducer):
    is_idempotent = True

    def choose_partition(self) -> Partition:
        return (KEYED, 0)


class BriefProducer(SimpleProducer):
    """Writes where retention soon takes everything away; nobody compares."""

    def choose_partition(self) -> Partition:
        return (BRIEF, 0)

    def some_records(self, topic_partition: Partition, attempt: Attempt) -> list[Record]:
        return [Record(None, self.unique().encode(), timestamp=self.now_ms())]


class TransactionalProducer(Producer):
    """Transactions as older clients make them: partitions are added first. Some are aborted, some abandoned."""

    adds_partitions = True
    version = _OLD_TRANSACTIONS_VERSION
    end_version = _OLD_END_VERSION
    commit_version = _OLD_COMMIT_VERSION
    most_tries = _MOST_TRIES

    def __init__(self, number: int, kind: str, setting: Setting, seed: int) -> None:
        super().__init__(number, kind, setting, seed)
        self.transactional_id = kind if kind.startswith("shared") else self.name
        self._committed = 0

    def run(self) -> Script:
        yield from self.find_coordinator(self.transactional_id or "", FOR_TRANSACTION)
        while self.goes_on:
            if self.producer_id < 0 and not (yield from self.initialise()):
                return
            lost_before = self.lost_answers
            attempt = self.notebook.begin(self.number, transaction=True)
            outcome = yield from self._transaction(attempt)
            self.notebook.end(attempt, outcome)
            self.note(f"transaction {outcome.value}")
            if self.adds_partitions and self.lost_answers > lost_before:
                # A request that is still under way could end up in the next transaction: the hole in the older protocol
                # that an epoch for every transaction closes. Only a new epoch protects such a client.
                self.producer_id = -1
            yield self.pause()

    def _transaction(self, attempt: Attempt) -> Generator[Call | float, Any, Outcome]:
        everywhere: list[Partition] = [(RECORDS, index) for index in range(RECORDS_PARTITIONS)]
        targets = self.chance.sample([*everywhere, (KEYED, 0)], self.chance.randint(1, 3))
        if self.adds_partitions and not (yield from self._add_partitions(targets)):
            return self._start_over()
        for topic_partition in targets:
            if (yield from self.write(topic_partition, attempt)) is not Outcome.OK:
                return self._start_over()
            if self.chance.random() < 0.2:
                yield self.pause()
        if self.chance.random() < 0.4 and not (yield from self._commit_offset(attempt)):
            return self._start_over()
        choice = self.chance.random()
        if choice < 0.08:
            self.note("abandons its transaction")
            yield self.chance.choice((0.0, 100.0, 2.0 * _TRANSACTION_TIMEOUT_MS))
            return self._start_over()
        return (yield from self._end(attempt, is_commit=choice < 0.75))

    def _transaction_coordinator(self) -> Generator[Call | float, Any, int | None]:
        return (yield from self.coordinator(self.transactional_id or "", FOR_TRANSACTION))

    def _start_over(self) -> Outcome:
        """Ends the attempt as failed: the producer never asked for a commit, and with a new epoch it cannot."""
        self.producer_id = -1
        return Outcome.FAILED

    def _add_partitions(self, targets: list[Partition]) -> Steps:
        by_topic: dict[str, list[int]] = {}
        for topic, index in targets:
            by_topic.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=by_topic[name]) for name in by_topic],
        )
        for _ in range(self.most_tries * self.setting.patience):
            node = yield from self._transaction_coordinator()
            response = yield from ask(Call(request, 3, node=node), AddPartitionsToTxnResponse)
            codes = {0}
            if response is not None:
                results = [
                    row for topic in response.results_by_topic_v3_and_below for row in topic.results_by_partition
                ]
                codes = {row.partition_error_code for row in results}
                if codes == {0}:
                    return True
                self.note(f"adding partitions: {sorted(ErrorCode(code).name for code in codes)}")
            if not codes <= TRANSIENT | {0}:
                return False
            yield _RETRY_MS
        return False

    def _commit_offset(self, attempt: Attempt) -> Steps:
        group = f"group-of-{self.name}"
        if not self._committed:
            yield from self.find_coordinator(group, FOR_GROUP)
        if self.adds_partitions:
            add = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id or "",
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                group_id=group,
            )
            if not (yield from self._insist(Call(add, 3), AddOffsetsToTxnResponse)):
                return False
        self._committed += 1
        commit = Commit(group, RECORDS, 0, self._committed)
        attempt.actions.append(commit)
        return (yield from self._send_commit(group, commit))

    def _send_commit(self, group: str, commit: Commit) -> Steps:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=commit.offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id or "",
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=RECORDS, partitions=[partition])],
        )
        for _ in range(self.most_tries * self.setting.patience):
            node = yield from self.coordinator(group, FOR_GROUP)
            response = yield from ask(Call(request, self.commit_version, node=node), TxnOffsetCommitResponse)
            if response is not None:
                code = response.topics[0].partitions[0].error_code
                self.note(f"offset {commit.offset} in the transaction: {ErrorCode(code).name}")
                if code == 0 or code not in TRANSIENT:
                    return code == 0
            yield _RETRY_MS
        return False

    def _insist(self, call: Call, expected: type[AddOffsetsToTxnResponse]) -> Steps:
        for _ in range(self.most_tries * self.setting.patience):
            node = yield from self._transaction_coordinator()
            response = yield from ask(call._replace(node=node), expected)
            if response is not None:
                if response.error_code == 0:
                    return True
                self.note(f"adding offsets: {ErrorCode(response.error_code).name}")
                if response.error_code not in TRANSIENT:
                    return False
            yield _RETRY_MS
        return False

    def _end(self, attempt: Attempt, is_commit: bool) -> Generator[Call | float, Any, Outcome]:
        request = EndTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_commit,
        )
        if is_commit:
            attempt.committing = self.notebook.position()
        is_uncertain = False
        for _ in range(self.most_tries * self.setting.patience):
            node = yield from self._transaction_coordinator()
            response = yield from ask(Call(request, self.end_version, node=node), EndTxnResponse)
            if response is None:
                is_uncertain = True
            else:
                self.note(f"end of transaction, commit {is_commit}: {ErrorCode(response.error_code).name}")
                if response.error_code == 0:
                    self._continue_with(response)
                    return Outcome.OK if is_commit else Outcome.FAILED
                is_uncertain = is_uncertain or response.error_code in UNCERTAIN
                if response.error_code not in TRANSIENT:
                    break
            yield _RETRY_MS
        self.producer_id = -1
        return Outcome.UNKNOWN if is_commit and is_uncertain else Outcome.FAILED

    def _continue_with(self, response: EndTxnResponse) -> None:
        if self.end_version >= _NEW_END_VERSION:
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()


class NewTransactionalProducer(TransactionalProducer):
    """transaction.version 2: a write adds its partition, and every transaction has an epoch of its own."""

    adds_partitions = False
    version = _NEW_TRANSACTIONS_VERSION
    end_version = _NEW_END_VERSION
    commit_version = _NEW_COMMIT_VERSION


def _only(response: ProduceResponse | None) -> PartitionProduceResponse | None:
    return None if response is None else response.responses[0].partition_responses[0]

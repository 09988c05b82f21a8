"""Several producers and their zombies share transactional ids; whatever they do, and however often the coordinator
crashes, each transaction has one end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.transactions.operations import INIT_PRODUCER_ID, VERIFY_PARTITIONS
from penstock.transactions.outcome import Markers
from penstock.transactions.records import TransactionChange, decode_record
from penstock.transactions.requests import AddPartitionsRequest, EndTransactionRequest, InitProducerIdRequest
from penstock.transactions.results import EndTransactionResult
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.state import MAX_CLIENT_EPOCH, PREPARED, Transaction, TransactionState
from tests.unit.coordinators.tokens import NOBODY
from tests.unit.transactions.harness import TIMEOUT_MS, Runtime

IDS = ("a", "b")
PRODUCERS = range(4)
PARTITIONS = tuple(TopicPartition("orders", number) for number in range(3))
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE)
WEEK_MS = 7 * 24 * 3_600_000


@dataclass
class Producer:
    """A process that believes to own a transactional id. Many may believe that of one id."""

    transactional_id: str
    version: int
    producer_id: int = -1
    producer_epoch: int = -1
    # What it added since its last transaction ended, as far as it was told.
    added: set[TopicPartition] = field(default_factory=set)
    repeated: EndTransactionRequest | None = None

    @property
    def is_initialised(self) -> bool:
        return self.producer_id >= 0


class TransactionMachine(RuleBasedStateMachine):
    @initialize(
        transaction_version=st.sampled_from([0, 1, 2, 2, 2]),
        epochs_left=st.sampled_from([0, 1, 2, 5, 1_000]),
        history=st.lists(st.tuples(st.sampled_from(PRODUCERS), st.sampled_from(PRODUCERS), st.booleans()), max_size=3),
    )
    def start(self, transaction_version: int, epochs_left: int, history: list[tuple[int, int, bool]]) -> None:
        self.runtime = Runtime(TransactionSettings(transaction_version=transaction_version))
        versions = (2, 0) if transaction_version == 2 else (0, 0)
        self.producers = [Producer(IDS[number % 2], versions[number // 2]) for number in PRODUCERS]
        # The decision on the last transaction of a producer id and epoch.
        self.decisions: dict[tuple[int, int], bool] = {}
        # Whose each transactional id is, by the log.
        self.owners: dict[str, tuple[int, int]] = {}
        self.old_markers: list[Markers] = []
        self.read = 0
        for number in (0, 1):
            self.producer_starts(number)
            self.wear_out(IDS[number], epochs_left)
            self.producer_starts(number)
        for number, others, is_commit in history:
            self.whole_transaction(number, False, is_commit, others == number)
            self.producer_repeats_its_end(number, False)
            self.zombie_wakes_up(number, others, is_commit)
            self.coordinator_crashes()

    def wear_out(self, transactional_id: str, epochs_left: int) -> None:
        shard = self.runtime.transactions.shards.hosted(0)
        outcome = shard.outcome()
        worn = shard.transactions[transactional_id]._replace(producer_epoch=MAX_CLIENT_EPOCH - epochs_left)
        shard.stage(outcome, transactional_id, worn)
        self.runtime.run(outcome)

    # --------------------------------------------------------------------------------- what producers do

    @rule(number=st.sampled_from(PRODUCERS), is_recovery=st.booleans(), is_answer_lost=st.booleans())
    def producer_starts(self, number: int, is_recovery: bool = False, is_answer_lost: bool = False) -> None:
        producer = self.producers[number]
        expected = {}
        if is_recovery and producer.is_initialised:
            expected = {
                "expected_producer_id": producer.producer_id,
                "expected_producer_epoch": producer.producer_epoch,
            }
        self.follow_log()
        result = self.runtime.init(producer.transactional_id, TIMEOUT_MS, **expected)
        self.follow_log(is_fence=True)
        if result.error is ErrorCode.NONE:
            assert self.current(producer).state is TransactionState.EMPTY
            if not is_answer_lost:
                producer.producer_id, producer.producer_epoch = result[1:]
                producer.added.clear()
                producer.repeated = None

    @rule(
        number=st.sampled_from(PRODUCERS),
        partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1),
        is_answer_lost=st.booleans(),
    )
    def producer_adds(self, number: int, partitions: set[TopicPartition], is_answer_lost: bool) -> None:
        producer = self.producers[number]
        if not producer.is_initialised:
            return
        is_owner = self.owns(producer)
        error = self.runtime.add(
            producer.producer_id,
            producer.producer_epoch,
            *partitions,
            transactional_id=producer.transactional_id,
            version=producer.version,
        )
        assert error is not ErrorCode.NONE or is_owner, "a fenced producer added a partition"
        if error is ErrorCode.NONE and not is_answer_lost:
            producer.added |= partitions

    @rule(number=st.sampled_from(PRODUCERS), is_commit=st.booleans(), is_answer_lost=st.booleans())
    def producer_ends(self, number: int, is_commit: bool, is_answer_lost: bool) -> None:
        producer = self.producers[number]
        if producer.is_initialised:
            request = EndTransactionRequest(
                producer.transactional_id, producer.producer_id, producer.producer_epoch, is_commit, producer.version
            )
            self.send_end(producer, request, is_answer_lost)

    @rule(number=st.sampled_from(PRODUCERS), is_answer_lost=st.booleans())
    def producer_repeats_its_end(self, number: int, is_answer_lost: bool) -> None:
        producer = self.producers[number]
        if producer.repeated is not None:
            self.send_end(producer, producer.repeated, is_answer_lost)

    def send_end(self, producer: Producer, request: EndTransactionRequest, is_answer_lost: bool) -> None:
        is_owner, before = self.owns(producer), self.current(producer)
        result = self.runtime.end(*request[1:5], transactional_id=request.transactional_id)
        has_decided = result.error is ErrorCode.NONE and self.current(producer) != before
        assert not has_decided or is_owner, "a fenced producer ended a transaction"
        if result.error is ErrorCode.NONE:
            self.check_end_is_true(request, result)
        producer.repeated = request if is_answer_lost else None
        if result.error is ErrorCode.NONE and not is_answer_lost:
            producer.added.clear()
            if producer.version == 2:
                producer.producer_id, producer.producer_epoch = result[1:]

    def check_end_is_true(self, request: EndTransactionRequest, result: EndTransactionResult) -> None:
        """Whoever is told that its transaction was committed, or aborted, reads that in the log."""
        self.follow_log()
        assert self.decisions[request.producer_id, request.producer_epoch] is request.is_commit
        if request.client_transaction_version == 2:
            assert (result.producer_id, result.producer_epoch) > (request.producer_id, request.producer_epoch)
            assert result.producer_epoch <= MAX_CLIENT_EPOCH

    @rule(
        number=st.sampled_from(PRODUCERS),
        is_started=st.booleans(),
        is_commit=st.booleans(),
        is_answer_lost=st.booleans(),
    )
    def whole_transaction(self, number: int, is_started: bool, is_commit: bool, is_answer_lost: bool) -> None:
        """As it should be; chance alone seldom gets that far."""
        self.runtime.fail_next_append_with = None
        self.all_markers_are_written()
        if is_started:
            for _ in range(2):
                self.producer_starts(number)
                self.all_markers_are_written()
        self.producer_adds(number, {PARTITIONS[0]}, False)
        self.producer_ends(number, is_commit, is_answer_lost)
        self.all_markers_are_written()

    @rule(number=st.sampled_from(PRODUCERS), others=st.sampled_from(PRODUCERS), is_commit=st.booleans())
    def zombie_wakes_up(self, number: int, others: int, is_commit: bool) -> None:
        """Another producer took over while it slept within a transaction; now it wants to end that."""
        self.whole_transaction(number, True, True, False)
        self.producer_adds(number, {PARTITIONS[1]}, False)
        if others == number:
            self.time_passes(TIMEOUT_MS + 1)
        else:
            self.producer_starts(others)
        self.all_markers_are_written()
        self.producer_ends(number, is_commit, False)
        self.whole_transaction(others, others != number, True, False)
        self.producer_ends(number, is_commit, False)

    @rule(number=st.sampled_from(PRODUCERS), partition=st.sampled_from(PARTITIONS))
    def partition_leader_verifies(self, number: int, partition: TopicPartition) -> None:
        producer = self.producers[number]
        request = AddPartitionsRequest(
            producer.transactional_id, producer.producer_id, producer.producer_epoch, (partition,)
        )
        (answer,) = self.runtime.transactions.shards.read(VERIFY_PARTITIONS, request).partitions
        if answer.error is ErrorCode.NONE:
            assert self.owns(producer)
            assert self.current(producer).state is TransactionState.ONGOING
        elif self.owns(producer) and self.current(producer).state is TransactionState.ONGOING:
            assert partition not in self.current(producer).partitions

    # ---------------------------------------------------------------------------------- what else happens

    @rule(data=st.data())
    def markers_are_written(self, data: st.DataObject) -> None:
        """Some of them, in any order, perhaps reported twice."""
        if not self.runtime.markers:
            return
        asked = data.draw(st.sampled_from(self.runtime.markers))
        written = data.draw(st.sets(st.sampled_from(asked.partitions), min_size=1))
        report = asked._replace(partitions=tuple(written))
        self.old_markers.append(report)
        self.runtime.run(self.runtime.transactions.on_markers_written(report, self.runtime.now_ms))
        left = tuple(partition for partition in asked.partitions if partition not in written)
        self.runtime.markers.remove(asked)
        if left:
            self.runtime.markers.append(asked._replace(partitions=left))

    @rule(data=st.data())
    def report_is_repeated(self, data: st.DataObject) -> None:
        if self.old_markers:
            report = data.draw(st.sampled_from(self.old_markers))
            self.runtime.run(self.runtime.transactions.on_markers_written(report, self.runtime.now_ms))

    @rule()
    def all_markers_are_written(self) -> None:
        self.runtime.write_markers()

    @rule(milliseconds=st.sampled_from([1, 1_000, 10_000, TIMEOUT_MS + 1]))
    def time_passes(self, milliseconds: int) -> None:
        self.follow_log()
        self.runtime.advance(milliseconds)
        self.follow_log(is_fence=True)

    @rule(error=st.sampled_from(APPEND_ERRORS))
    def next_append_fails(self, error: ErrorCode) -> None:
        self.runtime.fail_next_append_with = error

    @rule(has_producer_ids=st.booleans())
    def producer_ids_run_out(self, has_producer_ids: bool) -> None:
        self.runtime.has_producer_ids = has_producer_ids

    @rule()
    def coordinator_crashes(self) -> None:
        """Answers and timers are lost, as are the markers that were asked for; the log stays."""
        before = self.runtime
        self.runtime = before.restarted()
        self.runtime.has_producer_ids = before.has_producer_ids

    @rule()
    def coordinator_crashes_before_it_answers(self) -> None:
        """What was being appended is not in the log."""
        request = InitProducerIdRequest(IDS[0], TIMEOUT_MS)
        self.runtime.transactions.shards.perform(INIT_PRODUCER_ID, NOBODY, request, self.runtime.now_ms)
        self.coordinator_crashes()

    @rule()
    def idle_ids_expire(self) -> None:
        self.runtime.write_markers()
        self.runtime.now_ms += WEEK_MS
        self.runtime.run(self.runtime.transactions.expire_transactional_ids(0, self.runtime.now_ms))

    # ------------------------------------------------------------------------------------------- promises

    @invariant()
    def one_decision_for_each_transaction(self) -> None:
        self.follow_log()

    def follow_log(self, is_fence: bool = False) -> None:
        """Every record that was ever written, in order. `is_fence`: no producer has asked for these."""
        for record in self.runtime.log[self.read :]:
            change = decode_record(*record)
            assert isinstance(change, TransactionChange)
            if change.transaction is not None:
                self.follow(change.transactional_id, change.transaction, is_fence)
        self.read = len(self.runtime.log)

    def follow(self, transactional_id: str, now: Transaction, is_fence: bool) -> None:
        """What is decided stays decided, and epochs never go back."""
        before = self.owners.get(transactional_id, (-1, NO_PRODUCER_EPOCH))
        owner = self.owners[transactional_id] = (now.producer_id, now.producer_epoch)
        assert owner >= before
        if now.state in PREPARED:
            assert not is_fence or owner > before, "the producer was not fenced"
            assert before not in self.decisions, "decided twice"
            self.decisions[before] = now.is_commit
        elif now.state in (TransactionState.EMPTY, TransactionState.ONGOING):
            assert now.producer_epoch <= MAX_CLIENT_EPOCH, "a producer has the epoch that is kept for fencing"
            if now.state is TransactionState.ONGOING:
                self.decisions.pop(owner, None)  # the next one, of a client that has one epoch for many

    @invariant()
    def log_tells_the_same(self) -> None:
        fresh = self.runtime.restarted()
        assert self.image(fresh) == self.image(self.runtime)

    @invariant()
    def everything_decided_is_under_way(self) -> None:
        """Markers are outstanding, or the completion is about to be tried again."""
        shard = self.runtime.transactions.shards.hosted(0)
        waiting = {key.transactional_id for key in self.runtime.timers}
        for transactional_id, transaction in shard.transactions.items():
            asked = {
                partition
                for markers in self.runtime.markers
                if markers.transactional_id == transactional_id
                and (markers.producer_id, markers.producer_epoch, markers.is_commit)
                == (transaction.producer_id, transaction.producer_epoch, transaction.is_commit)
                for partition in markers.partitions
            }
            if transaction.state in PREPARED:
                assert shard.unmarked[transactional_id] <= asked
                assert shard.unmarked[transactional_id] or transactional_id in waiting
            else:
                assert transactional_id not in shard.unmarked
                assert transaction.state is not TransactionState.ONGOING or transactional_id in waiting

    def teardown(self) -> None:
        if hasattr(self, "runtime"):
            self.runtime.fail_next_append_with = None
            self.runtime.has_producer_ids = True
            self.runtime.advance(2 * TIMEOUT_MS)
            self.runtime.write_markers()
            self.runtime.advance(2 * TIMEOUT_MS)
            self.follow_log()
            for transaction in self.runtime.transactions.shards.hosted(0).transactions.values():
                assert transaction.state not in PREPARED | {TransactionState.ONGOING}
                assert transaction.partitions == frozenset()
            assert self.runtime.timers == {}
            assert self.runtime.markers == []

    # ------------------------------------------------------------------------------------------------ aids

    def current(self, producer: Producer) -> Transaction:
        nobody = Transaction(-1)
        return self.runtime.transactions.shards.hosted(0).transactions.get(producer.transactional_id, nobody)

    def owns(self, producer: Producer) -> bool:
        """Not fenced: nobody has come after it."""
        now = self.current(producer)
        return (now.producer_id, now.producer_epoch) == (producer.producer_id, producer.producer_epoch)

    def image(self, runtime: Runtime) -> dict[str, Transaction]:
        """What the log keeps."""
        has_previous = runtime.transactions.shards.settings.transaction_version > 0
        return {
            transactional_id: transaction._replace(
                last_producer_epoch=NO_PRODUCER_EPOCH,
                previous_producer_id=transaction.previous_producer_id if has_previous else NO_PRODUCER_ID,
            )
            for transactional_id, transaction in runtime.transactions.shards.hosted(0).transactions.items()
        }


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)

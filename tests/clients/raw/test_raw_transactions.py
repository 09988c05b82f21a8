from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.clients.raw.transactional import RawProducer
from tests.clients.raw.wire import (
    Topic,
    Wire,
    build_batch,
    create_topic,
    eventually,
    fetch,
    new_name,
    produce,
    until_settled,
    view_batches,
)

CONTROL = 0x20
READ_COMMITTED = 1
NONE = ErrorCode.NONE


@pytest.fixture(params=[False, True], ids=["old", "new"])
def producer(request: pytest.FixtureRequest, wire: Wire) -> RawProducer:
    return RawProducer(wire, is_new=request.param).init()


def begin(producer: RawProducer, topic: Topic, *values: bytes) -> None:
    if not producer.is_new:
        assert producer.add(topic) == [NONE]
    assert producer.produce(topic, *values) is NONE


def committed_values(wire: Wire, topic: Topic) -> tuple[int, list[int]]:
    """(last stable offset, base offsets of the data batches that a reader of committed records keeps)"""
    answer = fetch(wire, topic, isolation_level=READ_COMMITTED)
    batches = view_batches(answer.records)
    aborted = {(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions or ()}
    open_aborts: set[int] = set()
    kept = []
    for batch in batches:
        open_aborts |= {producer_id for producer_id, first in aborted if first <= batch.base_offset}
        if batch.attributes & CONTROL:
            open_aborts.discard(batch.producer_id)
            aborted = {entry for entry in aborted if entry[0] != batch.producer_id or entry[1] > batch.base_offset}
        elif batch.producer_id not in open_aborts:
            kept.append(batch.base_offset)
    return answer.last_stable_offset, kept


def describe(wire: Wire, transactional_id: str) -> Any:
    (found,) = wire(DescribeTransactionsRequest(transactional_ids=[transactional_id])).transaction_states
    return found


def fetch_offset(wire: Wire, group: str, topic: Topic, require_stable: bool = True) -> tuple[int, ErrorCode]:
    wanted = OffsetFetchRequestTopics(name=topic.name, partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=require_stable
    )

    def ask() -> Any:
        return wire(request, 8).groups[0]

    (found,) = (
        until_settled(ask, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).topics[0].partitions
    )
    return found.committed_offset, ErrorCode(found.error_code)


# ------------------------------------------------------------------------------------------- visible and not


def test_records_are_stable_only_after_the_commit(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    begin(producer, topic, b"a", b"b")
    answer = fetch(wire, topic, isolation_level=READ_COMMITTED)
    assert (answer.last_stable_offset, answer.high_watermark, len(answer.records or b"")) == (0, 2, 0)
    assert len(view_batches(fetch(wire, topic).records)) == 1
    producer.end(is_commit=True)
    eventually(lambda: committed_values(wire, topic), (3, [0]))


def test_aborted_records_are_named_when_committed_ones_are_read(
    wire: Wire, topic: Topic, producer: RawProducer
) -> None:
    begin(producer, topic, b"a", b"b")
    producer.end(is_commit=False)
    begin(producer, topic, b"c")
    producer.end(is_commit=True)
    eventually(lambda: committed_values(wire, topic), (5, [3]))
    (aborted,) = fetch(wire, topic, isolation_level=READ_COMMITTED).aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (producer.producer_id, 0)
    assert fetch(wire, topic).aborted_transactions is None


def test_marker_carries_the_producer_and_no_sequence(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    begin(producer, topic)
    before = producer.epoch
    producer.end(is_commit=True)
    eventually(lambda: len(view_batches(fetch(wire, topic).records)), 2)
    marker = view_batches(fetch(wire, topic).records)[1]
    assert marker.attributes == 0x30
    assert (marker.producer_id, marker.sequence, marker.record_count) == (producer.producer_id, -1, 1)
    assert marker.producer_epoch == (before + 1 if producer.is_new else before)


def test_every_transaction_gets_an_epoch_when_the_client_knows_version_2(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire, is_new=True).init()
    epochs = [producer.epoch]
    for _ in range(3):
        begin(producer, topic)
        producer.end(is_commit=True)
        epochs.append(producer.epoch)
    assert epochs == [0, 1, 2, 3]
    old = RawProducer(wire).init()
    begin(old, topic)
    old.end(is_commit=True)
    begin(old, topic)
    assert old.epoch == 0


def test_readers_wait_for_the_marker_when_nothing_is_stable(
    wire: Wire, connect: Callable[[], Wire], topic: Topic, producer: RawProducer
) -> None:
    begin(producer, topic)
    reader = connect()
    answer = fetch(reader, topic, isolation_level=READ_COMMITTED, max_wait_ms=50, min_bytes=1)
    assert len(answer.records or b"") == 0
    producer.end(is_commit=True)
    eventually(lambda: committed_values(wire, topic), (2, [0]))


# ------------------------------------------------------------------------------------------- who may write


def test_write_is_refused_when_the_partition_was_not_added(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire).init()
    assert producer.produce(topic) is ErrorCode.INVALID_TXN_STATE
    assert producer.produce(topic, version=11) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.produce(topic, version=12) is NONE


def test_late_write_is_refused_when_its_transaction_has_ended(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    begin(producer, topic)
    epoch = producer.epoch
    producer.end(is_commit=True)
    eventually(lambda: describe(wire, producer.transactional_id).transaction_state, "CompleteCommit")
    late = producer.produce(topic, producer_epoch=epoch, sequence=1)
    assert late is (ErrorCode.INVALID_PRODUCER_EPOCH if producer.is_new else ErrorCode.INVALID_TXN_STATE)


def test_transactional_batch_is_refused_when_the_request_names_no_transaction(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire).init()
    batch = build_batch(attributes=0x10, producer_id=producer.producer_id, producer_epoch=0, sequence=0)
    assert produce(wire, topic, batch).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_plain_batch_is_refused_inside_an_open_transaction(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    begin(producer, topic)
    batch = build_batch(producer_id=producer.producer_id, producer_epoch=producer.epoch, sequence=1)
    assert produce(wire, topic, batch).error_code == ErrorCode.INVALID_TXN_STATE


def test_zombie_is_fenced_everywhere_when_a_successor_has_come(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    begin(producer, topic)
    successor = RawProducer(wire, producer.transactional_id, is_new=producer.is_new).init()
    assert successor.epoch > producer.epoch
    assert producer.produce(topic) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.try_end(True).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.try_end(True, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.add(topic) == [ErrorCode.PRODUCER_FENCED]
    assert producer.add(topic, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert producer.add_offsets("some-group") is ErrorCode.PRODUCER_FENCED
    assert producer.commit_offset(new_name("group"), topic, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    recovering = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert producer.try_init(**recovering).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.try_init(3, **recovering).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    eventually(lambda: committed_values(wire, topic), (2, []))


def test_transaction_is_aborted_when_its_time_is_up(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire).init(timeout_ms=100)
    begin(producer, topic)
    eventually(lambda: describe(wire, producer.transactional_id).transaction_state, "CompleteAbort")
    eventually(lambda: committed_values(wire, topic), (2, []))
    assert producer.try_end(True).error_code == ErrorCode.PRODUCER_FENCED


# ------------------------------------------------------------------------------------------- wrong requests


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_producer_is_refused_when_it_asks_for_the_impossible(
    wire: Wire, fields: dict[str, Any], error: ErrorCode
) -> None:
    assert RawProducer(wire).try_init(**fields).error_code == error


def test_producer_is_refused_when_its_transactional_id_is_empty(wire: Wire) -> None:
    producer = RawProducer(wire)
    producer.transactional_id = ""
    assert producer.try_init().error_code == ErrorCode.INVALID_REQUEST


def test_requests_are_refused_when_the_transactional_id_is_unknown(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire)
    producer.producer_id, producer.epoch = 4711, 0
    assert producer.try_end(True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.add(topic) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert producer.add_offsets("group") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.produce(topic) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.produce(topic, version=12) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_end_is_refused_when_nothing_was_begun(wire: Wire) -> None:
    producer = RawProducer(wire).init()
    assert producer.try_end(True).error_code == ErrorCode.INVALID_TXN_STATE
    assert producer.try_end(False).error_code == ErrorCode.INVALID_TXN_STATE


def test_abort_without_records_bumps_the_epoch_when_the_client_knows_version_2(wire: Wire) -> None:
    producer = RawProducer(wire, is_new=True).init()
    assert producer.try_end(True).error_code == ErrorCode.INVALID_TXN_STATE
    producer.end(is_commit=False)
    assert producer.epoch == 1


def test_end_is_answered_again_when_it_is_repeated(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    begin(producer, topic)
    first = producer.try_end(True)
    eventually(lambda: describe(wire, producer.transactional_id).transaction_state, "CompleteCommit")
    again = producer.try_end(True)
    assert (first.error_code, again.error_code) == (0, 0)
    assert (again.producer_id, again.producer_epoch) == (first.producer_id, first.producer_epoch)
    assert producer.try_end(False).error_code == ErrorCode.INVALID_TXN_STATE


def test_no_partition_is_added_when_one_of_them_is_unknown(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire).init()
    assert producer.add(topic, [0, 7]) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.add(Topic("__transaction_state", bytes(16))) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert describe(wire, producer.transactional_id).transaction_state == "Empty"


def test_partitions_are_only_looked_for_when_asked_to_verify(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire).init()

    def verify(version: int) -> ErrorCode:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=topic.name, partitions=[0])],
        )
        answer = wire(AddPartitionsToTxnRequest(transactions=[asked]), version)
        assert answer.error_code == 0
        (result,) = answer.results_by_transaction
        return ErrorCode(result.topic_results[0].results_by_partition[0].partition_error_code)

    assert verify(5) is ErrorCode.TRANSACTION_ABORTABLE
    assert describe(wire, producer.transactional_id).transaction_state == "Empty"
    assert producer.add(topic) == [NONE]
    assert verify(4) is NONE


def test_share_group_coordinator_is_refused_when_nobody_knows_its_key_type(wire: Wire) -> None:
    (answer,) = wire(FindCoordinatorRequest(key_type=9, coordinator_keys=["x"])).coordinators
    assert answer.error_code == ErrorCode.INVALID_REQUEST


# ------------------------------------------------------------------------------------------- offsets of groups


def test_offset_counts_only_after_the_commit(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    group = new_name("group")
    if not producer.is_new:
        assert producer.add_offsets(group) is NONE
    assert producer.commit_offset(group, topic, 7) is NONE
    assert fetch_offset(wire, group, topic) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetch_offset(wire, group, topic, require_stable=False) == (-1, NONE)
    producer.end(is_commit=True)
    eventually(lambda: fetch_offset(wire, group, topic), (7, NONE))


def test_offset_is_forgotten_when_the_transaction_is_aborted(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    group = new_name("group")
    if not producer.is_new:
        assert producer.add_offsets(group) is NONE
    assert producer.commit_offset(group, topic, 7) is NONE
    producer.end(is_commit=False)
    eventually(lambda: fetch_offset(wire, group, topic), (-1, NONE))


def test_offset_is_refused_when_the_group_was_not_added(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire).init()
    group = new_name("group")
    assert producer.commit_offset(group, topic, 7) is ErrorCode.INVALID_TXN_STATE
    assert producer.commit_offset(group, topic, 7, version=4) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.commit_offset(group, topic, 7, version=5) is NONE


def test_offset_is_refused_when_it_comes_from_no_member(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    group = new_name("group")
    if not producer.is_new:
        assert producer.add_offsets(group) is NONE
    assert producer.commit_offset(group, topic, 7, generation_id=1, member_id="nobody") is ErrorCode.ILLEGAL_GENERATION
    assert producer.commit_offset("", topic, 7) is ErrorCode.INVALID_GROUP_ID
    assert producer.commit_offset(group, Topic("no-such-topic", bytes(16)), 7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ------------------------------------------------------------------------------------------- looking at them


def test_open_transaction_is_described_and_listed(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    begin(producer, topic)
    found = describe(wire, producer.transactional_id)
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
    assert [(entry.topic, entry.partitions) for entry in found.topics] == [(topic.name, [0])]
    request = ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"])
    answer = wire(request)
    assert answer.unknown_state_filters == ["Sleeping"]
    listed = {one.transactional_id: one.producer_id for one in answer.transaction_states}
    assert listed[producer.transactional_id] == producer.producer_id
    producer.end(is_commit=True)
    eventually(lambda: describe(wire, producer.transactional_id).transaction_state, "CompleteCommit")
    assert describe(wire, producer.transactional_id).topics == []


def test_transactions_are_chosen_by_producer_duration_and_pattern(wire: Wire, topic: Topic) -> None:
    producer = RawProducer(wire).init()
    begin(producer, topic)

    def names(**fields: Any) -> set[str]:
        return {one.transactional_id for one in wire(ListTransactionsRequest(**fields)).transaction_states}

    assert names(producer_id_filters=[producer.producer_id]) == {producer.transactional_id}
    assert producer.transactional_id not in names(duration_filter=60_000)
    assert producer.transactional_id in names(duration_filter=0, transactional_id_pattern="txn-.*")
    assert names(transactional_id_pattern="no-such.*") == set()
    assert (
        wire(ListTransactionsRequest(transactional_id_pattern="(")).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    )


def test_description_is_refused_when_there_is_no_such_transaction(wire: Wire, producer: RawProducer) -> None:
    assert describe(wire, new_name("none")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_partition_knows_where_the_open_transaction_began(wire: Wire, topic: Topic, producer: RawProducer) -> None:
    begin(producer, topic)

    def start() -> int:
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=[0])])
        (found,) = wire(request).topics[0].partitions[0].active_producers
        return int(found.current_txn_start_offset)

    assert start() == 0
    producer.end(is_commit=True)
    eventually(start, -1)


def test_hanging_transaction_ends_when_a_marker_is_written(wire: Wire, producer: RawProducer) -> None:
    topic = create_topic(wire)
    begin(producer, topic)
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[
            WritableTxnMarkerTopic(name=topic.name, partition_indexes=[0]),
            WritableTxnMarkerTopic(name="no-such-topic", partition_indexes=[0]),
        ],
    )
    (answer,) = wire(WriteTxnMarkersRequest(markers=[marker]), 1).markers
    errors = {entry.name: entry.partitions[0].error_code for entry in answer.topics}
    assert errors == {topic.name: 0, "no-such-topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed_values(wire, topic) == (2, [])


def test_transaction_version_2_is_announced(wire: Wire) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    answer = wire(request, 4)
    supported = {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features}
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert supported["transaction.version"] == (0, 2)
    assert finalized["transaction.version"] == 2
    assert answer.finalized_features_epoch >= 0
    assert "transaction.version" not in {feature.name for feature in wire(request, 3).supported_features}

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.broker.peers.peer_requests import no_peers
from penstock.broker.runtimes.marker_delivery import MARKERS_PER_TURN, MarkerDelivery
from penstock.broker.runtimes.remote_markers import Errors, RemoteMarkers, Sent
from penstock.core.internal_topics import TRANSACTION_STATE
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from penstock.transactions.outcome import Markers
from tests.unit.broker.served import Served, serving
from tests.waiting import until

PARTITIONS = 4 * MARKERS_PER_TURN + 1
TRANSACTION = "copier"
MARKERS = Markers(0, TRANSACTION, 1, 0, 0, True, (TopicPartition("orders", 0),), 0)


async def begin_transaction(served: Served) -> tuple[int, int]:
    """(producer id, epoch) of a transaction in all partitions."""
    await served.create("orders", PARTITIONS)
    await served.broker.topic_creation.ensure(TRANSACTION_STATE)
    begun = await served.ask(InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000), 4)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTION,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=list(range(PARTITIONS)))],
    )
    (added,) = (await served.ask(request, 3)).results_by_topic_v3_and_below
    assert {each.partition_error_code for each in added.results_by_partition} == {ErrorCode.NONE}
    return begun.producer_id, begun.producer_epoch


def count_markers(served: Served) -> int:
    return sum(each.log.log_end_offset for each in served.broker.partitions if each.topic_partition.topic == "orders")


def test_others_get_turns_when_a_transaction_of_many_partitions_ends(tmp_path: Path) -> None:
    """4,000 markers held the loop for 230 ms."""

    async def scenario() -> list[int]:
        async with serving(tmp_path, {"transaction.state.log.num.partitions": "1"}) as served:
            producer_id, epoch = await begin_transaction(served)
            end = EndTxnRequest(
                transactional_id=TRANSACTION, producer_id=producer_id, producer_epoch=epoch, committed=True
            )
            ending = asyncio.ensure_future(served.ask(end, 3))
            counts = [count_markers(served)]
            for _ in range(100):
                await asyncio.sleep(0)
                counts.append(count_markers(served))
            assert (await ending).error_code == ErrorCode.NONE
            assert served.broker.transactions.waiting_markers == 0
            assert (await served.ask(end, 3)).error_code == ErrorCode.NONE, "the transaction is not complete"
            return counts

    counts = asyncio.run(scenario())
    assert counts[0] == 0
    assert counts[-1] == PARTITIONS
    assert max(after - before for before, after in pairwise(counts)) <= MARKERS_PER_TURN


def test_markers_are_not_written_any_more_when_the_broker_stops_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> int:
        async with serving(tmp_path, {"transaction.state.log.num.partitions": "1"}) as served:
            producer_id, epoch = await begin_transaction(served)
            end = EndTxnRequest(
                transactional_id=TRANSACTION, producer_id=producer_id, producer_epoch=epoch, committed=True
            )
            await served.ask(end, 3)
            waiting = served.broker.transactions.waiting_markers
            await served.broker.transactions.close()
            assert served.broker.transactions.waiting_markers == 0
            return waiting

    assert 0 < asyncio.run(scenario()) < PARTITIONS


def test_a_marker_is_tried_again_when_its_delivery_fails_in_a_way_that_nobody_foresaw(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The error ended the task, and the transaction hung."""
    reported: list[Markers] = []
    attempts = 0

    def report(markers: Markers) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ZeroDivisionError
        reported.append(markers)

    async def scenario() -> None:
        async with serving(tmp_path, {}) as served:
            await served.create("orders", 1)
            tasks: list[asyncio.Task[None]] = []
            delivery = MarkerDelivery(
                served.broker.transactions.markers,
                served.broker.flusher,
                lambda work: tasks.append(asyncio.ensure_future(work)),
                report,
                lambda _: True,
                no_peers,
            )
            delivery.deliver(MARKERS)
            await until(lambda: bool(reported))
            assert delivery.waiting_count == 0
            assert count_markers(served) == 3

    asyncio.run(scenario())
    assert reported == [MARKERS]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "markers of transactions could not be written, and are tried again"
    ]


def test_everything_that_waits_is_answered_when_another_broker_answers_nonsense() -> None:
    answered: list[tuple[Sent, Errors]] = []
    failures: list[Exception] = []

    async def answer(node_id: int, request: Message, *, timeout_s: float, channel: str) -> WriteTxnMarkersResponse:
        partition = WritableTxnMarkerPartitionResult(partition_index=0, error_code=9_999)
        topic = WritableTxnMarkerTopicResult(name="orders", partitions=[partition])
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=1, topics=[topic])])

    async def scenario() -> None:
        tasks: list[asyncio.Task[None]] = []
        remote = RemoteMarkers(
            answer,
            lambda work: tasks.append(asyncio.ensure_future(work)),
            lambda sent, errors: answered.append((sent, errors)),
            failures.append,
        )
        for failures_before in (1, 2):
            remote.send(2, Sent(MARKERS, failures_before))
        await asyncio.gather(*tasks)
        assert remote.waiting_count == 0

    asyncio.run(scenario())
    assert answered == [(Sent(MARKERS, 1), {}), (Sent(MARKERS, 2), {})]
    assert {type(each) for each in failures} == {ValueError}


def test_it_is_no_error_when_a_coordinator_does_not_lead_its_partition_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, {"transaction.state.log.num.partitions": "1"}) as served:
            await served.broker.topic_creation.ensure(TRANSACTION_STATE)
            partition = served.broker.partitions.find(TRANSACTION_STATE, 0)
            assert partition is not None
            partition.allow_leading(False)
            request = InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000)
            assert (await served.ask(request, 4)).error_code == ErrorCode.NOT_COORDINATOR

    with caplog.at_level("INFO", "penstock.broker.coordinators"):
        asyncio.run(scenario())
    assert not [each for each in caplog.records if each.message == "a coordinator's records cannot be written"]

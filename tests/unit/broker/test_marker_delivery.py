from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

from penstock.broker.runtimes.marker_delivery import MARKERS_PER_TURN
from penstock.core.internal_topics import TRANSACTION_STATE
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.unit.broker.served import Served, serving

PARTITIONS = 4 * MARKERS_PER_TURN + 1
TRANSACTION = "copier"


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

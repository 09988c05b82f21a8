"""Whatever goes wrong on the way, a batch that was confirmed is written once, and in the order of the calls."""

from __future__ import annotations

import asyncio
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.batch_producer import BatchProducer, PartOutcome
from penstock.client.batches.batch_builder import NewRecord, prepare_batch
from penstock.client.brokers import Brokers
from penstock.client.partition_writes.outcomes import Appended
from penstock.client.partition_writes.partition_writer import PartitionWriter, ProducerBatch
from penstock.protocol.errors import ApiError, ErrorCode
from tests.own_time import run_in_own_time
from tests.unit.client.partition_model import Fault, PartitionModel

# Others lose what the broker knew: no producer can be exact after these.
HARMLESS = [fault for fault in Fault if fault not in (Fault.FORGETS, Fault.LOSES_RECORDS)]
Outcome = Appended | BaseException


async def produce_all(
    partition: PartitionModel, batches: list[list[bytes]], patience_s: float, gaps: list[bool]
) -> list[Outcome]:
    writer = PartitionWriter(partition, "t", 0)
    loop = asyncio.get_running_loop()
    calls = []
    for index, values in enumerate(batches):
        prepared = prepare_batch([NewRecord(value=value) for value in values], 0)
        batch = ProducerBatch(loop.create_future(), loop.time() + patience_s, prepared)
        calls.append(batch.done)
        writer.add(batch)
        if gaps[index % len(gaps)]:
            await asyncio.sleep(0.01)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    await asyncio.sleep(60)  # what was written late is there by now
    await writer.close()
    return outcomes


@given(
    faults=st.lists(st.sampled_from([*HARMLESS, *[Fault.NONE] * 8]), max_size=25),
    sizes=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    patience_s=st.sampled_from([0.05, 2.0, 20.0, 120.0]),
    gaps=st.lists(st.booleans(), min_size=1, max_size=5),
)
def test_confirmed_batches_are_there_once_and_in_order_when_connections_and_brokers_fail(
    faults: list[Fault], sizes: list[int], patience_s: float, gaps: list[bool]
) -> None:
    """A size of 0 is a batch that the broker refuses."""
    batches = [[b"%d-%d" % (index, each) for each in range(size)] for index, size in enumerate(sizes)]
    batches = [values or [b"too large"] for values in batches]
    partition = PartitionModel(faults)
    outcomes = run_in_own_time(produce_all(partition, batches, patience_s, gaps))

    assert len(set(partition.log)) == len(partition.log), "a record is there twice"
    confirmed = []
    for values, outcome in zip(batches, outcomes, strict=True):
        if isinstance(outcome, Appended):
            confirmed += values
            assert partition.log[outcome.base_offset : outcome.base_offset + len(values)] == values
        elif values == [b"too large"]:
            assert isinstance(outcome, ApiError | OSError)
        else:
            assert isinstance(outcome, OSError) or (
                isinstance(outcome, ApiError) and outcome.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            )
    places = [partition.log.index(value) for value in confirmed]
    assert places == sorted(places), "the order is another"


def test_all_is_confirmed_when_there_is_time_enough() -> None:
    faults = [fault for fault in HARMLESS if fault is not Fault.FENCES] * 3
    batches = [[b"%d" % index] for index in range(40)]
    partition = PartitionModel(faults)
    outcomes = run_in_own_time(produce_all(partition, batches, 10_000.0, [False]))
    assert all(isinstance(outcome, Appended) for outcome in outcomes)
    assert partition.log == [values[0] for values in batches]


def test_batch_is_written_under_a_new_producer_id_when_the_broker_knows_nothing_of_the_old_one() -> None:
    partition = PartitionModel([Fault.NONE, Fault.NONE, Fault.FORGETS])
    outcomes = run_in_own_time(produce_all(partition, [[b"a"], [b"b"], [b"c"], [b"d"]], 10.0, [False]))
    assert [type(outcome) for outcome in outcomes] == [Appended] * 4
    assert partition.log == [b"a", b"b", b"c", b"d"]


def test_one_batch_fails_and_the_next_is_written_when_the_broker_has_lost_what_it_confirmed() -> None:
    partition = PartitionModel([Fault.NONE, Fault.NONE, Fault.LOSES_RECORDS])
    outcomes = run_in_own_time(produce_all(partition, [[b"a"], [b"b"], [b"c"], [b"d"]], 10.0, [True]))
    assert isinstance(outcomes[2], ApiError)
    assert outcomes[2].code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.log == [b"a", b"d"]


def test_one_batch_fails_and_the_next_is_written_when_the_producer_was_fenced() -> None:
    partition = PartitionModel([Fault.NONE, Fault.FENCES])
    outcomes = run_in_own_time(produce_all(partition, [[b"a"], [b"b"], [b"c"]], 10.0, [False]))
    assert isinstance(outcomes[1], ApiError)
    assert outcomes[1].code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.log == [b"a", b"c"]


async def produce_parts(
    partition: PartitionModel, calls: list[list[list[bytes]]], patience_s: float
) -> list[list[PartOutcome]]:
    producer = BatchProducer(cast("Brokers", partition), delivery_timeout_s=patience_s)
    tasks = [
        asyncio.create_task(
            producer.produce_parts("t", 0, [[(None, value, (), None) for value in part] for part in parts])
        )
        for parts in calls
    ]
    outcomes = await asyncio.gather(*tasks)
    await asyncio.sleep(60)
    await producer.close()
    return outcomes


BAD = b"too large"
PARTS = st.lists(st.integers(0, 3), min_size=1, max_size=9)


def name_parts(calls: list[list[int]]) -> list[list[list[bytes]]]:
    """A size of 0 is a part that the broker refuses."""
    return [
        [[b"%d-%d-%d" % (call, part, each) for each in range(size)] or [BAD] for part, size in enumerate(sizes)]
        for call, sizes in enumerate(calls)
    ]


@given(calls=st.lists(PARTS, min_size=1, max_size=12))
def test_all_but_the_bad_parts_are_there_in_the_order_of_the_calls_when_batches_are_refused(
    calls: list[list[int]],
) -> None:
    named = name_parts(calls)
    partition = PartitionModel()
    outcomes = run_in_own_time(produce_parts(partition, named, 10_000.0))
    assert partition.log == [value for parts in named for part in parts for value in part if value != BAD]
    for parts, found in zip(named, outcomes, strict=True):
        for part, outcome in zip(parts, found, strict=True):
            if part == [BAD]:
                assert isinstance(outcome, ApiError)
                assert outcome.code == ErrorCode.MESSAGE_TOO_LARGE
            else:
                assert isinstance(outcome, Appended)
                assert partition.log[outcome.base_offset : outcome.base_offset + len(part)] == part


@given(
    faults=st.lists(st.sampled_from([*HARMLESS, *[Fault.NONE] * 8]), max_size=25),
    calls=st.lists(PARTS, min_size=1, max_size=8),
    patience_s=st.sampled_from([0.05, 2.0, 120.0]),
)
def test_confirmed_parts_are_there_once_and_in_order_when_connections_and_brokers_fail(
    faults: list[Fault], calls: list[list[int]], patience_s: float
) -> None:
    named = name_parts(calls)
    partition = PartitionModel(faults)
    outcomes = run_in_own_time(produce_parts(partition, named, patience_s))
    assert len(set(partition.log)) == len(partition.log), "a record is there twice"
    confirmed = []
    for parts, found in zip(named, outcomes, strict=True):
        for part, outcome in zip(parts, found, strict=True):
            if isinstance(outcome, Appended):
                confirmed += part
                assert partition.log[outcome.base_offset : outcome.base_offset + len(part)] == part
    places = [partition.log.index(value) for value in confirmed]
    assert places == sorted(places), "the order is another"

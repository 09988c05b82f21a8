"""Nobody waits long for a broker that has many groups, members, offsets or transactions: neither behind a question
about all of them, nor behind a clean-up. `test_large_requests` does the same for requests that name much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.core.types import TopicPartition
from penstock.groups.operations.table import COMMIT_OFFSETS
from penstock.groups.requests import DeletedTopic, OffsetCommitRequest, OffsetToCommit
from penstock.protocol.message import Message
from penstock.protocol.messages import (
    delete_groups,
    describe_groups,
    describe_transactions,
    find_coordinator,
    list_groups,
    list_transactions,
    offset_fetch,
)
from penstock.transactions.operations import ADD_PARTITIONS, INIT_PRODUCER_ID
from penstock.transactions.requests import AddPartitionsRequest, InitProducerIdRequest
from tests.unit.broker.harness import lead_all
from tests.unit.broker.served import Served, serving
from tests.unit.broker.test_large_requests import ELEMENTS, MAX_HELD_MS, hold, hold_during, smallest_hold
from tests.waiting import until

RETENTION_MS = 7 * 24 * 60 * 60 * 1000
NAMES = [f"name-{number}" for number in range(ELEMENTS)]
CONFIG = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}

Step = Callable[[Served], Awaitable[float]]


async def ready(served: Served) -> None:
    for key_type in (0, 1):
        await served.ask(find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)


async def commit(served: Served, group_id: str, count: int) -> None:
    for start in range(0, count, 1_000):
        offsets = [OffsetToCommit("orders", index, 7) for index in range(start, min(start + 1_000, count))]
        await served.broker.groups.submit(COMMIT_OFFSETS, OffsetCommitRequest(group_id, offsets))


async def many_groups(served: Served) -> None:
    for name in NAMES:
        await commit(served, name, 1)


async def many_offsets(served: Served) -> None:
    await commit(served, "g", ELEMENTS)


async def many_transactions(served: Served) -> None:
    for name in NAMES:
        await served.broker.producer_ids.ensure()
        await served.broker.transactions.submit(INIT_PRODUCER_ID, InitProducerIdRequest(name, 60_000))


async def large_transaction(served: Served) -> None:
    await served.broker.producer_ids.ensure()
    producer = await served.broker.transactions.submit(INIT_PRODUCER_ID, InitProducerIdRequest("t", 60_000))
    partitions = tuple(TopicPartition("orders", index) for index in range(ELEMENTS))
    addition = AddPartitionsRequest("t", producer.producer_id, producer.producer_epoch, partitions)
    await served.broker.transactions.submit(ADD_PARTITIONS, addition)


def asked(request: Message, version: int) -> Step:
    return lambda served: hold(served, request, version)


async def expire_offsets(served: Served) -> float:
    served.clock.advance(RETENTION_MS + 1)
    held_ms = await hold_during(served.broker.groups.expire_offsets)
    assert served.broker.groups.coordinator.offset_count() == 0
    return held_ms


async def remove_topic(served: Served) -> float:
    coordinator = served.broker.groups.coordinator

    async def remove() -> None:
        served.broker.groups.remove_topics([DeletedTopic("orders")])
        await until(lambda: not coordinator.offset_count())

    return await hold_during(remove)


async def expire_ids(served: Served) -> float:
    served.clock.advance(RETENTION_MS + 1)
    held_ms = await hold_during(served.broker.transactions.expire)
    assert not served.broker.transactions.coordinator.transaction_counts()
    return held_ms


async def load(served: Served) -> float:
    groups = served.broker.groups
    groups.unload()

    async def load() -> None:
        lead_all(groups, 5)
        await until(lambda: len(groups.shards.active_partitions()) == 5)

    return await hold_during(load)


_all_of = offset_fetch.OffsetFetchRequestGroup
SCENARIOS: dict[str, tuple[Callable[[Served], Awaitable[None]], Step]] = {
    "ListGroups": (many_groups, asked(list_groups.ListGroupsRequest(), 4)),
    "DescribeGroups": (many_groups, asked(describe_groups.DescribeGroupsRequest(groups=NAMES), 5)),
    "DeleteGroups": (many_groups, asked(delete_groups.DeleteGroupsRequest(groups_names=NAMES), 2)),
    "OffsetFetch of many groups": (
        many_groups,
        asked(offset_fetch.OffsetFetchRequest(groups=[_all_of(group_id=name, topics=None) for name in NAMES]), 8),
    ),
    "OffsetFetch of all offsets": (
        many_offsets,
        asked(offset_fetch.OffsetFetchRequest(groups=[_all_of(group_id="g", topics=None)]), 8),
    ),
    "OffsetFetch of all offsets, for old clients": (
        many_offsets,
        asked(offset_fetch.OffsetFetchRequest(group_id="g", topics=None), 5),
    ),
    "expiry of many groups": (many_groups, expire_offsets),
    "expiry of many offsets": (many_offsets, expire_offsets),
    "a topic is deleted, many groups": (many_groups, remove_topic),
    "a topic is deleted, many offsets": (many_offsets, remove_topic),
    "loading of many groups": (many_groups, load),
    "loading of many offsets": (many_offsets, load),
    "ListTransactions": (many_transactions, asked(list_transactions.ListTransactionsRequest(), 0)),
    "DescribeTransactions": (
        many_transactions,
        asked(describe_transactions.DescribeTransactionsRequest(transactional_ids=NAMES), 0),
    ),
    "DescribeTransactions of a large one": (
        large_transaction,
        asked(describe_transactions.DescribeTransactionsRequest(transactional_ids=["t"]), 0),
    ),
    "expiry of many transactional ids": (many_transactions, expire_ids),
}


@pytest.mark.parametrize(("fill", "step"), SCENARIOS.values(), ids=SCENARIOS)
def test_loop_is_free_when_a_broker_has_much(
    tmp_path: Path, fill: Callable[[Served], Awaitable[None]], step: Step
) -> None:
    async def run(directory: Path) -> float:
        async with serving(directory, CONFIG) as served:
            await ready(served)
            await fill(served)
            return await step(served)

    assert smallest_hold(run, tmp_path) < MAX_HELD_MS

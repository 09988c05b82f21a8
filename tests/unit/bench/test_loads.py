"""The parts of the loads that need no broker."""

from __future__ import annotations

import pytest

from bench.catalogue import LOADS
from bench.compaction import REPETITIONS, keyed_batches, mean_rate
from bench.flood import BYTES_PER_SECOND, batches_due
from bench.loads import FULL, QUICK, percentile
from bench.rebalance import MEMBERS_PER_GROUP, PARTITIONS, assign, encode_subscription
from bench.rebalance import Member as RebalancingMember
from bench.steady import SENT_NS, VALUE_BYTES
from penstock.client.connection import BlockingConnection
from penstock.groups.subscription import decode_subscribed_topics
from penstock.protocol.batch import is_crc_valid, read_header
from penstock.protocol.codec import decode
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from penstock.protocol.records import iterate_records


def test_subscription_names_the_topic_when_decoded() -> None:
    assert decode_subscribed_topics(encode_subscription("topic", b"anything")) == frozenset({"topic"})


def test_each_partition_has_one_owner_when_a_leader_assigns() -> None:
    connection = BlockingConnection.__new__(BlockingConnection)  # never used
    members = [RebalancingMember("group", connection, f"member-{number}") for number in range(MEMBERS_PER_GROUP)]
    owned = []
    for assignment in assign("topic", members):
        decoded = decode(ConsumerProtocolAssignment, assignment.assignment, 0, 2)
        assert [each.topic for each in decoded.assigned_partitions] == ["topic"]
        owned += decoded.assigned_partitions[0].partitions
    assert sorted(owned) == list(range(PARTITIONS))


def test_batches_are_keyed_and_some_keys_repeat_when_a_log_is_to_be_compacted() -> None:
    batches = keyed_batches(1)
    assert all(is_crc_valid(batch, 0, read_header(batch)) for batch in batches)
    keys = [record.key for batch in batches for record in iterate_records(batch)]
    assert None not in keys
    assert len(keys) / 2 < len(set(keys)) < len(keys)
    assert sum(map(len, batches)) == pytest.approx(1_000_000, rel=0.1)


@pytest.mark.parametrize(("percent", "expected"), [(50, 6.0), (99, 10.0), (99.9, 10.0), (0, 1.0)])
def test_percentile_is_an_observed_value_when_few_were_observed(percent: float, expected: float) -> None:
    assert percentile(list(range(1, 11)), percent) == expected


def test_rate_is_that_of_the_whole_time_when_chunks_differ() -> None:
    assert mean_rate([1.0, 3.0]) == 0.5


def test_value_has_the_size_it_claims_when_it_begins_with_a_time() -> None:
    assert SENT_NS.size < VALUE_BYTES


def test_scales_divide_evenly_when_the_log_is_repeated() -> None:
    assert all(scale.megabytes_compacted % REPETITIONS == 0 for scale in (FULL, QUICK))


def test_every_load_has_a_name_of_its_own_when_chosen_by_name() -> None:
    assert len(set(LOADS.values())) == len(LOADS)


@pytest.mark.parametrize(("elapsed_s", "sent", "expected"), [(0.0, 0, 0), (1.0, 700, 100), (1.0, 900, -100)])
def test_batches_are_due_by_the_clock_when_a_client_floods(elapsed_s: float, sent: int, expected: int) -> None:
    assert batches_due(elapsed_s, sent, batch_bytes=BYTES_PER_SECOND // 800) == expected

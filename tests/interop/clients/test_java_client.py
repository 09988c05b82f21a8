"""The official Java client, run by the scenarios in java/ClientScenario.java."""

from __future__ import annotations

import pytest

from tests.interop.conftest import RunScenario


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_whole_when_the_producer_compresses(run_scenario: RunScenario, codec: str) -> None:
    assert run_scenario("produce-and-consume", codec, partitions=4) == {
        "last-offsets": "{0=249, 1=249, 2=249, 3=249}",
        "distinct": "1000",
    }


def test_position_is_found_when_the_consumer_seeks(run_scenario: RunScenario) -> None:
    assert run_scenario("seek", partitions=1) == {
        "at-42": "42",
        "by-time": "50",
        "past-the-end": "null",
        "end": "100",
        "beginning": "0",
        "out-of-range": "0",
        "lag": "true",
    }


def test_changed_partitions_are_fetched_when_the_session_is_incremental(run_scenario: RunScenario) -> None:
    assert run_scenario("fetch-sessions", partitions=50) == {"records": "20", "partitions": "20", "fetches": "true"}


@pytest.mark.parametrize(
    "assignor", ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"]
)
def test_partitions_move_without_loss_when_members_come_and_go(run_scenario: RunScenario, assignor: str) -> None:
    assert run_scenario("rebalance", f"org.apache.kafka.clients.consumer.{assignor}", partitions=4) == {
        "alone": "4",
        "first": "2",
        "second": "2",
        "disjoint": "true",
        "distinct": "800",
        "read": "800",
        "alone-again": "4",
        "group": "true",
        "revoked-from-first": "true",
        "lost": "0",
    }


def test_static_member_keeps_its_partitions_when_it_restarts(run_scenario: RunScenario) -> None:
    assert run_scenario("static-membership", partitions=2) == {
        "same-partitions": "true",
        "same-generation": "true",
        "other-kept-its-own": "true",
    }


def test_offset_and_metadata_come_back_when_committed(run_scenario: RunScenario) -> None:
    assert run_scenario("commit-metadata", partitions=1) == {"before": "null", "after": "7/seven", "next": "7"}


def test_partitions_are_shared_when_members_speak_the_consumer_protocol(run_scenario: RunScenario) -> None:
    assert run_scenario("consumer-protocol", partitions=4) == {
        "shared": "2+2",
        "alone-again": "4",
        "both-protocols": "2+2",
        "classic-again": "4",
    }

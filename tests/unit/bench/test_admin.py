"""The parts of the bench of administration that need no broker."""

from __future__ import annotations

import asyncio

import pytest

from bench.admin.contents import OFFSETS_PARTITIONS, plan_topics
from bench.admin.readers import Counts, RecordedWire, count_ours
from bench.admin.rows import ADMIN_ROWS
from bench.admin.run import BEGIN, END, count_requests
from bench.errors import BenchError
from bench.loads import FULL, QUICK
from bench.report import DOCUMENT
from penstock.admin.look import Look
from penstock.admin.picture import Wish, read_picture
from penstock.admin.state.cluster import ClusterState
from tests.unit.admin.fake_wire import FakeWire


@pytest.mark.parametrize("partitions", [FULL.partitions_asked_for, QUICK.partitions_asked_for])
def test_cluster_has_a_topic_for_ten_partitions_when_the_one_of_offsets_is_counted(partitions: int) -> None:
    topics = plan_topics(partitions)
    assert len(topics) + 1 == partitions // 10
    assert sum(topics.values()) + OFFSETS_PARTITIONS == partitions
    assert set(list(topics.values())[:-5]) == {10}


def test_every_request_of_a_picture_is_recorded_in_its_order() -> None:
    wire = FakeWire({"orders": 4}, {"classic": "classic", "new": "consumer"})
    recorded = RecordedWire(wire)
    state = asyncio.run(read_picture(Look(recorded, 5.0), Wish()))
    names = [type(message).__name__.removesuffix("Request") for message in recorded.asked]
    assert names[0] == "Metadata"
    assert {name: names.count(name) for name in names} == dict(wire.asked)
    assert count_ours(state) == Counts(1, 4, 4, 4, 2, 0, 2)


def test_a_picture_with_holes_is_not_counted() -> None:
    wire = FakeWire({"orders": 4}, brokers=(1, 2))
    wire.refusing = {2}
    state: ClusterState = asyncio.run(read_picture(Look(wire, 5.0), Wish()))
    with pytest.raises(BenchError, match="parts of the picture are missing"):
        count_ours(state)


def test_requests_of_all_kinds_are_counted_when_the_metrics_are_read() -> None:
    text = """# TYPE kafka_network_requestmetrics_requests_total counter
kafka_network_requestmetrics_requests_total{request="Metadata",version="12"} 3
kafka_network_requestmetrics_requests_total{request="Fetch",version="17"} 4.0
kafka_network_requestmetrics_errors_total{request="Fetch",error="NONE"} 9
"""
    assert count_requests(text) == 7


def test_rows_are_unique_and_the_page_has_a_place_for_them() -> None:
    assert len({row.key for row in ADMIN_ROWS}) == len(ADMIN_ROWS)
    text = DOCUMENT.read_text()
    assert text.index(BEGIN) < text.index(END)

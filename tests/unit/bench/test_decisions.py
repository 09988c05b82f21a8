"""The bench of large decisions, small."""

from __future__ import annotations

import asyncio

import pytest

from bench.decisions.cluster import PARTITIONS_OF_A_TOPIC
from bench.decisions.run import BEGIN, DECISION_ROWS, END, measure_level
from bench.report import DOCUMENT
from penstock.cluster.levels import SECURITY_LEVEL, SNAPSHOT_LEVEL


@pytest.mark.parametrize("level", [SECURITY_LEVEL, SNAPSHOT_LEVEL])
def test_each_event_is_one_change_when_there_is_one_topic(level: int) -> None:
    figures = asyncio.run(measure_level(level, PARTITIONS_OF_A_TOPIC))
    assert figures.keys() == {row.key for row in DECISION_ROWS}
    for event in ("creation", "broker", "controller", "start"):
        assert figures[f"decisions-{event}.deltas"] == 1
        assert figures[f"decisions-{event}.size"] * 1_000 > figures[f"decisions-{event}.delta-size"] > 1


def test_the_page_has_a_place_for_the_result_when_it_is_to_be_written() -> None:
    text = DOCUMENT.read_text()
    assert text.index(BEGIN) < text.index(END)

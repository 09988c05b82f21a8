from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from demo_view import Moment, Rate, TopAddresses, render, render_line
from penstock.pipelines.progress.query_progress import QueryProgress

MOMENT = Moment(
    phase="lines come in",
    elapsed_s=12.3,
    duration_s=60,
    produced=24_600,
    produced_rate=2000,
    processed=22_000,
    processed_rate=1950.4,
    lag=2600,
    fraud_share=0.0654,
    queries=(
        QueryProgress("ip-fraud/main", 4, batch_ms=1500, doing="writing to lake"),
        QueryProgress("ip-fraud/counts", doing="planning its first batch"),
    ),
    written={"lake": 21_800, "fraudip": 1430},
    top=(("203.0.113.9", 300, False), ("91.1.2.3", 150, True)),
)


def count(window: str, address: str, requests: int) -> bytes:
    return json.dumps({"window_start": window, "address": address, "requests": requests}).encode()


def shown(width: int, moment: Moment = MOMENT) -> str:
    console = Console(file=io.StringIO(), record=True, width=width)
    console.print(render(moment, width))
    return console.export_text()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_all_numbers_are_there_when_the_picture_is_drawn(width: int) -> None:
    text = shown(width)
    for part in ("24,600", "22,000", "2,600", "6.5%", "21,800", "203.0.113.9", "fraud", "12 of 60 s"):
        assert part in text
    assert "writing to lake" in text
    assert "planning its first batch" in text
    assert "\u2026" not in text  # nothing is cut
    assert {len(line) for line in text.splitlines()} == {width}


def test_the_picture_still_fits_when_the_terminal_is_narrow() -> None:
    assert max(len(line) for line in shown(60).splitlines()) <= 60


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_moves_when_the_first_batch_is_done(width: int) -> None:
    waiting = QueryProgress("ip-fraud/main", doing="planning its first batch")
    before = replace(MOMENT, queries=(waiting, MOMENT.queries[1]), written={"lake": 0, "fraudip": 0}, top=())
    first, later = shown(width, before).splitlines(), shown(width).splitlines()
    assert len(first) == len(later)
    assert [line.find("top addresses") for line in first] == [line.find("top addresses") for line in later]


def test_a_line_says_the_same_when_there_is_no_terminal() -> None:
    assert render_line(MOMENT) == (
        "12 of 60 s  lines come in: produced 24,600 (2,000/s), processed 22,000 (1,950/s), lag 2,600, fraud 6.5%, "
        "top 203.0.113.9 (300)"
    )


def test_the_rate_is_that_of_the_last_seconds_when_a_number_grows() -> None:
    rate = Rate(window_s=10)
    assert rate.note(0, 0) == 0
    assert rate.note(5, 100) == 20
    assert rate.note(10, 100) == 10
    assert rate.note(15, 100) == 0


def test_the_newest_count_of_an_address_counts_when_it_comes_again() -> None:
    top = TopAddresses(lambda address: address == "b")
    for value in (count("10:00", "a", 1), count("10:00", "a", 5), count("10:01", "a", 2), count("10:01", "b", 9)):
        top.note(value)
    assert top.top() == [("b", 9, True), ("a", 7, False)]


def test_old_windows_are_forgotten_when_newer_ones_come() -> None:
    top = TopAddresses(lambda _: False, windows=2)
    for value in (count("10:00", "a", 1), count("10:01", "b", 2), count("10:02", "c", 3), count("10:00", "a", 9)):
        top.note(value)
    assert top.top() == [("c", 3, False), ("b", 2, False)]

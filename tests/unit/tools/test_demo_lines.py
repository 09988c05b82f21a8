from __future__ import annotations

import ipaddress
import re
from datetime import UTC, datetime

from demo_feed import lines_due
from demo_lines import LATEST_S, Kind, LogLines, id_of

NOW = 1_800_000_000
BLOCKS = ("10", "91", "198.51.0.0/16")
# Written apart from the job's own expression, so that the one checks the other.
GOOD = re.compile(
    rb"(\d+\.\d+\.\d+\.\d+) - - \[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000)\] "
    rb'"[A-Z]+ /\S* HTTP/1\.1" \d{3} \d+ "-" ".+"'
)


def make(count: int, seed: int = 7) -> tuple[LogLines, list[bytes]]:
    lines = LogLines(BLOCKS, seed, now=lambda: NOW)
    return lines, lines.take(count)


def test_the_same_lines_come_when_seed_and_clock_are_the_same() -> None:
    one, first = make(2000)
    other, second = make(2000)
    assert first == second
    assert one.kinds == other.kinds
    assert make(2000, seed=8)[1] != first


def test_lines_do_not_depend_on_how_many_are_taken_at_a_time() -> None:
    piecewise = LogLines(BLOCKS, 7, now=lambda: NOW)
    assert [line for count in (1, 0, 999, 1000) for line in piecewise.take(count)] == make(2000)[1]


def test_each_line_can_be_told_by_its_number_when_it_is_met_again() -> None:
    assert [id_of(line) for line in make(5000)[1]] == list(range(5000))
    assert id_of(b"no number") == -1


def test_fraud_is_judged_by_the_given_blocks_when_lines_are_made() -> None:
    lines, made = make(20_000)
    networks = [ipaddress.ip_network(block) for block in ("10.0.0.0/8", "91.0.0.0/8", "198.51.0.0/16")]
    for line, kind in zip(made, lines.kinds, strict=True):
        if kind != Kind.MALFORMED:
            address = ipaddress.ip_address(line.split(b" ", 1)[0].decode())
            assert (kind == Kind.FRAUD) == any(address in network for network in networks)
    assert 50 < lines.kinds.count(Kind.FRAUD) < 1000


def test_some_lines_are_late_but_none_too_late_and_all_but_the_malformed_are_whole() -> None:
    lines, made = make(20_000)
    ages = []
    for line, kind in zip(made, lines.kinds, strict=True):
        found = GOOD.fullmatch(line)
        if kind == Kind.MALFORMED:
            assert found is None or b"Foo" in line
            continue
        assert found is not None, line
        at = datetime.strptime(found[2].decode(), "%d/%b/%Y:%H:%M:%S %z")
        ages.append(NOW - int(at.astimezone(UTC).timestamp()))
    assert 100 < lines.kinds.count(Kind.MALFORMED) < 400
    assert min(ages) == 0
    assert max(ages) < LATEST_S
    assert 500 < sum(age > 0 for age in ages) < 1500


def test_as_many_lines_are_due_as_the_rate_says_when_time_has_passed() -> None:
    assert lines_due(2000, 0.5, 0, 0) == 1000
    assert lines_due(2000, 0.5, 990, 0) == 10
    assert lines_due(2000, 0.5, 1200, 0) == 0
    assert lines_due(2000, 10, 0, 300) == 300
    assert lines_due(0, 0, 5000, 0) > 0
    assert lines_due(0, 0, 5000, 5000) == 0

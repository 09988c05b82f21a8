"""Which records a question reads that ends at a time, whatever clocks some producers have."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.pipelines.tables.ends import SAMPLE_RECORDS
from tests.unit.pipelines.tables.test_ends import Log

_LATENESS_MS = 5_000
# Clocks that are wrong by more than is allowed for, in either direction.
_WRONG_MS = st.one_of(st.integers(-(10**8), -_LATENESS_MS - 1), st.integers(_LATENESS_MS + 1, 10**8))


@st.composite
def _logs(draw: st.DrawFn) -> tuple[Log, set[int]]:
    """Records in the order of their arrival, each at most the allowance late; and the offsets of those with a wrong
    clock, which are few in a row and far apart."""
    random = draw(st.randoms(use_true_random=False))
    count = draw(st.integers(1, 6_000))
    step, gap = draw(st.integers(0, 3_000)), draw(st.sampled_from([0, 0, 1, 90]))
    records, arrival, offset = [], 10**9, -1
    for _ in range(count):
        arrival += random.randint(0, step)
        offset += 1 + random.randint(0, gap)
        records.append((offset, arrival - random.randint(0, _LATENESS_MS)))
    wrong = set()
    place = draw(st.integers(0, 100))
    while place < count:
        run = random.randint(1, SAMPLE_RECORDS // 10)
        amount = draw(_WRONG_MS)
        for number in range(place, min(count, place + run)):
            offset, time_ms = records[number]
            records[number] = offset, time_ms + amount
            wrong.add(offset)
        place += run + random.randint(SAMPLE_RECORDS, max(SAMPLE_RECORDS, count // 4))
    return Log(records, records[-1][0] + 1 + draw(st.integers(0, 100))), wrong


@settings(max_examples=12, deadline=None)
@given(_logs(), st.floats(0, 1))
def test_no_record_is_missed_but_those_that_came_too_late(drawn: tuple[Log, set[int]], share: float) -> None:
    log, wrong = drawn
    asked_ms = log.records[int(share * (len(log.records) - 1))][1]

    end = log.end(asked_ms, _LATENESS_MS)

    missed = {offset for offset, time in log.records if time < asked_ms and offset >= end}
    assert missed <= wrong
    assert log.looks <= 3 + (log.held_end // 2_048).bit_length() * 2

"""A record that stands twice in a log must be found, whatever its producer called the second copy."""

from __future__ import annotations

from penstock.protocol.records import EndMarker, Record, build_batch, build_end_marker
from penstock.testing.history import Anomaly
from proof.copies import find_copies, judge_copies
from proof.verdict import sort_anomalies

WHERE = ("orders", 1)
PRODUCER = 7


def batch(offset: int, *values: str, producer_id: int = PRODUCER, epoch: int = 0, sequence: int = 0) -> bytes:
    """As it stands in a log."""
    records = [Record(None, value.encode()) for value in values]
    numbered = producer_id >= 0
    return build_batch(
        records,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch if numbered else -1,
        base_sequence=sequence if numbered else -1,
    )


def name(record: Record) -> str:
    return (record.value or b"").decode()


def test_both_places_and_numbers_are_named_when_a_record_came_again_in_another_epoch() -> None:
    log = [batch(20, "a", "b", sequence=20), batch(22, "c", sequence=22), batch(23, "b", "c", epoch=1)]
    first, second = (str(each) for each in judge_copies(WHERE, find_copies(log, name)))
    assert first == (
        "duplicate: orders-1: 'b' stands at offset 21 as sequence 21 of epoch 0 of producer 7, "
        "and at offset 23 as sequence 0 of epoch 1 of producer 7"
    )
    assert second == (
        "duplicate: orders-1: 'c' stands at offset 22 as sequence 22 of epoch 0 of producer 7, "
        "and at offset 24 as sequence 1 of epoch 1 of producer 7"
    )


def test_a_copy_is_found_when_it_has_the_same_number_or_another_producer() -> None:
    log = [batch(0, "a"), batch(1, "a"), batch(2, "b", sequence=1), batch(3, "b", producer_id=8)]
    found = find_copies(log, name)
    assert {value: [copy.producer_id for copy in copies] for value, copies in found.items()} == {
        "a": [PRODUCER, PRODUCER],
        "b": [PRODUCER, 8],
    }


def test_nothing_is_found_when_records_differ_or_have_no_producer() -> None:
    marker = build_end_marker(EndMarker(1, 0), producer_id=PRODUCER, producer_epoch=0, timestamp=0)
    log = [batch(0, "a"), batch(1, "b", sequence=1), batch(2, "p", producer_id=-1), batch(3, "p", producer_id=-1)]
    assert find_copies([*log, marker, marker], name) == {}


def test_a_history_says_no_more_of_a_record_when_the_log_names_its_copies() -> None:
    log = [batch(0, "a"), batch(1, "a", epoch=1)]
    known = [Anomaly("duplicate", "'a' is at offsets 0, 1", value="a"), Anomaly("duplicate", "'x'", value="x")]
    judged = judge_copies(WHERE, find_copies(log, name), known)
    assert [each.value for each in judged] == ["x", "a"]
    assert len(sort_anomalies(judged)["duplicated"]) == 2

"""The exactly-once rounds must find a copy that is wrong."""

from __future__ import annotations

import pytest

from proof.crash.copier import OUTPUT
from proof.crash.exactly_once import ExactlyOnceReport, judge_copies

WRITTEN = [[b"0/0", b"0/1", b"0/2"], [b"1/0"]]


@pytest.mark.parametrize(
    ("read", "kinds"),
    [
        pytest.param([b"0/0", b"0/1", b"0/2"], {}, id="each once"),
        pytest.param([b"0/0", b"0/2"], {"unseen": 1}, id="lost"),
        pytest.param([b"0/0", b"0/1", b"0/1", b"0/2"], {"duplicate": 1}, id="doubled"),
        pytest.param([b"0/1", b"0/0", b"0/2"], {"reordered": 1}, id="reordered"),
        pytest.param([b"0/0", b"0/1", b"0/2", b"x"], {"garbage-read": 1}, id="strange"),
        pytest.param([b"0/0", b"0/1", b"0/2", b"1/0"], {"garbage-read": 1}, id="of another partition"),
    ],
)
def test_difference_is_found_when_a_copy_is_not_the_original(read: list[bytes], kinds: dict[str, int]) -> None:
    copies = {(OUTPUT, 0): list(enumerate(read)), (OUTPUT, 1): [(0, b"1/0")]}
    judged = judge_copies(WRITTEN, copies)
    assert judged.count_kinds() == kinds
    report = ExactlyOnceReport(7, 1, 4, (), judged)
    assert report.is_sound is (not kinds)
    assert str(report).endswith(": each record once") is (not kinds)


def test_everything_is_missed_when_a_partition_of_the_copy_is_empty() -> None:
    judged = judge_copies(WRITTEN, {(OUTPUT, 0): [], (OUTPUT, 1): [(0, b"1/0")]})
    assert judged.count_kinds() == {"unseen": 3}


def test_report_is_not_sound_when_the_feeder_failed() -> None:
    judged = judge_copies(WRITTEN, {(OUTPUT, 0): list(enumerate(WRITTEN[0])), (OUTPUT, 1): [(0, b"1/0")]})
    assert not ExactlyOnceReport(7, 1, 4, ("the feeder failed",), judged).is_sound

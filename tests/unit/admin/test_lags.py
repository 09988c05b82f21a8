"""How far a group is behind, and since when."""

from __future__ import annotations

import pytest

from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.groups import CommittedOffset, GroupState, MemberState
from penstock.admin.state.lags import EndPoint, estimate_time_lag, find_lags
from penstock.admin.state.parts import Part, PartRead
from penstock.core.types import TopicPartition

PLACE = TopicPartition("orders", 0)
READER = MemberState("m-1", None, "client", "/127.0.0.1", (PLACE,), is_classic=True)
GROUP = GroupState("g", "classic", "Stable", "consumer", 1, "range", (READER,), {PLACE: CommittedOffset(40)})


def picture(end: int, at_s: float, group: GroupState = GROUP) -> ClusterState:
    parts = {Part.LAST_OFFSETS: PartRead(at_s)}
    return ClusterState(last_offsets={PLACE: end}, groups={"g": group}, parts=parts)


@pytest.mark.parametrize(
    ("committed", "points", "expected"),
    [
        (100, [EndPoint(0, 0.0), EndPoint(100, 10.0)], 0.0),
        (50, [EndPoint(0, 0.0), EndPoint(100, 10.0)], 5.0),
        (50, [EndPoint(0, 0.0), EndPoint(100, 10.0), EndPoint(100, 20.0)], 15.0),  # nothing came since
        (50, [EndPoint(0, 0.0), EndPoint(50, 10.0), EndPoint(100, 20.0)], 10.0),
        (50, [EndPoint(60, 0.0), EndPoint(100, 10.0)], None),  # older than all that is known
        (50, [EndPoint(100, 10.0)], None),
        (50, [], None),
        (5, [EndPoint(10, 0.0), EndPoint(0, 10.0), EndPoint(10, 20.0)], 5.0),  # the topic was made anew
    ],
)
def test_time_lag_is_known_when_two_points_enclose_the_offset(
    committed: int, points: list[EndPoint], expected: float | None
) -> None:
    assert estimate_time_lag(committed, points) == expected


def test_lag_has_its_reader_and_its_time_when_earlier_pictures_are_given() -> None:
    (alone,) = find_lags(picture(100, 10.0), "g")
    assert (alone.offsets, alone.end, alone.reader, alone.time_s) == (60, 100, READER, None)
    (lag,) = find_lags(picture(100, 10.0), "g", [picture(0, 0.0)])
    assert lag.time_s == pytest.approx(6.0)


def test_lag_is_unknown_when_the_end_was_not_read() -> None:
    (lag,) = find_lags(ClusterState(groups={"g": GROUP}), "g")
    assert (lag.offsets, lag.time_s) == (None, None)


def test_group_has_no_lags_when_its_commits_are_not_known() -> None:
    assert find_lags(picture(100, 0.0, GROUP._replace(committed=None)), "g") == []
    assert find_lags(picture(100, 0.0), "unknown") == []


def test_lag_is_never_negative_when_the_topic_was_made_anew() -> None:
    (lag,) = find_lags(picture(3, 0.0), "g")
    assert lag.offsets == 0


def test_group_is_mixed_when_members_speak_both_protocols() -> None:
    newer = READER._replace(is_classic=False)
    assert GroupState("g", "consumer", "Stable", members=(READER, newer)).is_mixed
    assert not GROUP.is_mixed
    assert GroupState("g", "classic", "Empty").is_simple

"""Examples of the rules of replication, from Kafka's own cases."""

from __future__ import annotations

import pytest

from penstock.core.types import NO_OFFSET
from penstock.log.state.leader_epochs import EpochEntry, LeaderEpochs
from penstock.protocol.errors import ErrorCode
from penstock.replication.changes import LOST_DIRECTORY
from penstock.replication.in_sync import (
    ALL_REPLICAS,
    decide_acknowledgement,
    find_lagging,
    is_below_minimum,
    may_join,
    required_in_sync,
)
from penstock.replication.lease import may_lead
from penstock.replication.progress import NEVER_MS, FollowerProgress
from penstock.replication.read_replica import ReadCandidate, choose_read_replica
from penstock.replication.truncation import EpochEnd, decide_truncation, is_diverging

LAG_MS = 30_000


def test_a_follower_stays_in_sync_when_it_is_always_one_fetch_behind_a_busy_leader() -> None:
    progress = FollowerProgress(is_in_sync=True, now_ms=0)
    for second in range(100):
        progress.note_fetch(second * 10, 0, second * 10 + 10, second * 1_000, 5)
    assert progress.caught_up_ms == 98_000
    assert find_lagging((1, 2), {2: progress}, 1_000, 100_000, LAG_MS) == []


def test_a_follower_lags_when_it_has_not_reached_an_old_end_in_time() -> None:
    progress = FollowerProgress(is_in_sync=True, now_ms=0)
    progress.note_fetch(0, 0, 1_000, 1, 5)
    progress.note_fetch(10, 0, 2_000, 31_000, 5)
    assert find_lagging((1, 2), {2: progress}, 2_000, 31_000, LAG_MS) == [2]
    assert find_lagging((1, 2), {2: progress}, 10, 31_000, LAG_MS) == []


def test_a_new_epoch_counts_members_as_caught_up_and_others_as_never() -> None:
    progress = FollowerProgress(is_in_sync=False, now_ms=500)
    assert progress.caught_up_ms == NEVER_MS
    progress.note_fetch(7, 0, 10, 600, 5)
    progress.begin_epoch(True, 10, 900)
    assert (progress.caught_up_ms, progress.log_end_offset) == (900, 7)


def test_a_followers_end_is_forgotten_when_another_led_in_between() -> None:
    """That leader may have cut the follower's log."""
    progress = FollowerProgress(is_in_sync=True, now_ms=0)
    progress.note_fetch(7, 0, 10, 600, 5)
    progress.begin_epoch(True, 10, 900, has_led_on=False)
    assert progress.log_end_offset == NO_OFFSET


def test_a_followers_end_is_forgotten_when_it_may_have_left_the_assignment_in_between() -> None:
    """It would come back with an empty log."""
    progress = FollowerProgress(is_in_sync=True, now_ms=0)
    progress.note_fetch(10, 0, 10, 600, 5)
    progress.begin_epoch(False, 10, 900)
    assert progress.log_end_offset == NO_OFFSET


def test_members_count_as_heard_and_others_as_never_heard_when_an_epoch_begins() -> None:
    member, other = FollowerProgress(is_in_sync=True, now_ms=500), FollowerProgress(is_in_sync=False, now_ms=500)
    assert (member.last_fetch_ms, other.last_fetch_ms) == (500, NEVER_MS)
    member.begin_epoch(True, 10, 900)
    other.begin_epoch(False, 10, 900)
    assert (member.last_fetch_ms, other.last_fetch_ms) == (900, NEVER_MS)
    assert (member.last_fetch_leader_end, other.last_fetch_leader_end) == (10, 0)


def test_a_follower_without_news_was_caught_up_when_it_had_everything_and_is_a_member() -> None:
    progress = FollowerProgress(is_in_sync=True, now_ms=0)
    progress.note_fetch(0, 0, 0, 100, 5)
    progress.note_idle(600)
    assert (progress.caught_up_ms, progress.last_fetch_ms) == (600, 600)
    progress.note_fetch(0, 0, 7, 700, 5)
    progress.note_idle(900)
    assert (progress.caught_up_ms, progress.last_fetch_ms) == (600, 900)
    progress.note_fetch(0, 0, 0, 950, 5)
    progress.leave()
    progress.note_idle(1_000)
    assert (progress.caught_up_ms, progress.last_fetch_ms) == (NEVER_MS, 1_000)


def test_a_fetch_of_a_former_self_is_told_apart_when_epochs_are_sent() -> None:
    progress = FollowerProgress(is_in_sync=True, now_ms=0)
    progress.note_fetch(0, 0, 0, 1, 5)
    assert [progress.is_outdated(epoch) for epoch in (4, 5, 6, -1)] == [True, False, False, False]


@pytest.mark.parametrize(
    ("end", "expected"), [(9, False), (10, False), (12, True)], ids=["below both", "below the epoch", "has both"]
)
def test_a_follower_joins_when_it_has_the_watermark_and_the_epochs_start(end: int, expected: bool) -> None:
    assert may_join(end, high_watermark=10, epoch_start=12) is expected


def test_constants_of_the_protocol_are_kafkas() -> None:
    assert ALL_REPLICAS == -1
    assert bytes(15) + b"\1" == LOST_DIRECTORY  # KIP-858


def test_the_watermark_is_frozen_when_fewer_are_in_sync_than_there_could_be() -> None:
    assert is_below_minimum(1, 2, 3)
    assert not is_below_minimum(2, 2, 3)
    assert not is_below_minimum(1, 2, 1)
    assert (required_in_sync(2, 3), required_in_sync(3, 2)) == (2, 2)


def test_a_writer_hears_of_too_few_replicas_when_its_records_are_replicated_and_the_set_is_small() -> None:
    assert decide_acknowledgement(9, 10, 1, 2, 3) is None
    assert decide_acknowledgement(10, 10, 1, 2, 3) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert decide_acknowledgement(10, 10, 2, 2, 3) is ErrorCode.NONE
    assert decide_acknowledgement(11, 10, 2, 2, 3) is ErrorCode.NONE
    assert decide_acknowledgement(10, 10, 2, 3, 2) is ErrorCode.NONE


def _replicate(leader: LeaderEpochs, leader_end: int, follower: LeaderEpochs, follower_end: int) -> list[int]:
    """Where the follower cuts until its log is a prefix of the leader's."""
    cuts: list[int] = []
    while True:
        leaders = EpochEnd(*leader.end_offset_for(follower.latest, leader_end))
        if follower.latest == -1 or not is_diverging(leaders, follower.latest, follower_end):
            return cuts
        own = EpochEnd(*follower.end_offset_for(leaders.epoch, follower_end))
        follower_end = decide_truncation(leaders, own, follower_end)
        follower.truncate_from_end(follower_end)
        cuts.append(follower_end)
        assert len(cuts) < 20


def test_a_follower_cuts_what_only_it_has_when_the_leader_changed_once() -> None:
    """KIP-101: A led at epoch 0 up to 3 and B, which has 2 of them, leads at epoch 1."""
    leader = LeaderEpochs([EpochEntry(0, 0), EpochEntry(1, 2)])
    assert _replicate(leader, 5, LeaderEpochs([EpochEntry(0, 0)]), 3) == [2]


def test_a_follower_goes_back_epoch_by_epoch_when_leaders_changed_fast() -> None:
    """KIP-279: epochs that each knows alone lie between what both have."""
    leader = LeaderEpochs([EpochEntry(0, 0), EpochEntry(2, 10), EpochEntry(5, 20)])
    follower = LeaderEpochs([EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(3, 12), EpochEntry(4, 14)])
    assert _replicate(leader, 30, follower, 16) == [12, 10]


def test_a_leader_of_an_epoch_without_records_follows_again_when_another_was_elected() -> None:
    leader = LeaderEpochs([EpochEntry(3, 0), EpochEntry(6, 10)])
    follower = LeaderEpochs([EpochEntry(3, 0), EpochEntry(5, 10)])
    assert _replicate(leader, 10, follower, 10) == [10]


def test_a_consumer_reads_from_its_rack_when_an_in_sync_replica_there_has_the_offset() -> None:
    leader = ReadCandidate(1, "a", 0, 100, 0)
    near = [ReadCandidate(2, "b", 0, 90, 0), ReadCandidate(3, "b", 0, 95, 0), ReadCandidate(4, "c", 0, 100, 0)]
    assert choose_read_replica("b", leader, near, 50) == 3
    assert choose_read_replica("b", leader, near, 96) is None
    assert choose_read_replica("a", leader, near, 50) is None
    assert choose_read_replica("", leader, near, 50) is None


def test_a_consumer_stays_at_the_leader_when_the_leader_is_in_its_rack() -> None:
    near = [ReadCandidate(2, "a", 0, 100, 0)]
    assert choose_read_replica("a", ReadCandidate(1, "a", 0, 100, 0), near, 50) is None
    assert choose_read_replica("", ReadCandidate(1, "a", 0, 100, 0), [ReadCandidate(2, "", 0, 100, 0)], 50) is None


@pytest.mark.parametrize(("offset", "expected"), [(4, None), (5, 2), (90, 2), (91, None)])
def test_a_consumer_reads_from_a_follower_whose_log_has_the_offset(offset: int, expected: int | None) -> None:
    near = [ReadCandidate(2, "b", 5, 90, 0)]
    assert choose_read_replica("b", ReadCandidate(1, "a", 0, 100, 0), near, offset) == expected


def test_a_leader_gives_up_when_session_and_an_in_sync_follower_are_lost() -> None:
    fresh, stale = 9_500, 1_000
    assert may_lead(True, 2, [stale], True, 10_000, 2_000)
    assert may_lead(False, 2, [fresh, fresh], True, 10_000, 2_000)
    assert not may_lead(False, 2, [fresh, stale], False, 10_000, 2_000)
    assert may_lead(False, 1, [8_000], True, 10_000, 2_000)
    assert not may_lead(False, 1, [7_999], True, 10_000, 2_000)


def test_a_leader_stays_when_nobody_can_succeed_it() -> None:
    assert may_lead(False, 0, [], True, 10_000, 2_000)
    assert may_lead(False, 2, [], False, 10_000, 2_000)
    assert not may_lead(False, 2, [], True, 10_000, 2_000)

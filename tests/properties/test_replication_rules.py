"""Replication's pure rules, for any schedule: nothing committed is lost, and logs that meet become equal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.log.state.leader_epochs import LeaderEpochs
from penstock.replication.high_watermark import decide_high_watermark
from penstock.replication.progress import FollowerProgress
from penstock.replication.truncation import EpochEnd, decide_truncation, is_diverging

OFFSETS = st.integers(-1, 50)


@given(st.integers(0, 50), st.integers(0, 50), st.lists(OFFSETS, max_size=4))
def test_the_watermark_is_on_all_that_count_and_never_goes_back(current: int, end: int, followers: list[int]) -> None:
    decided = decide_high_watermark(current, end, followers)
    assert decided >= current
    assert decided == current or all(decided <= each for each in [end, *followers])
    assert decided == current or decided in (end, *followers)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 50)), max_size=30))
def test_a_follower_was_caught_up_only_at_times_when_it_had_all_that_the_leader_had(
    steps: list[tuple[int, int, int]],
) -> None:
    """Each step: the leader appends, the follower gets some more, and time passes."""
    progress = FollowerProgress(is_in_sync=False, now_ms=0)
    now_ms = follower_end = leader_end = 0
    ends: list[tuple[int, int]] = []  # (time, the leader's end then)
    for appended, fetched, passed in steps:
        now_ms += passed + 1
        leader_end += appended
        follower_end = min(follower_end + fetched, leader_end)
        ends.append((now_ms, leader_end))
        progress.note_fetch(follower_end, 0, leader_end, now_ms, 1)
        assert progress.caught_up_ms <= now_ms
        if progress.caught_up_ms >= 0:
            assert follower_end >= dict(ends)[progress.caught_up_ms]


History = list[tuple[int, int]]  # (epoch, value) of each record


def _epochs(records: History) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for offset, (epoch, _) in enumerate(records):
        if epoch > epochs.latest:
            epochs.assign(epoch, offset)
    return epochs


@st.composite
def diverging_logs(draw: st.DrawFn) -> tuple[History, History]:
    """Two logs as elections leave them: at each epoch one of them leads and appends; the other copies some of it."""
    logs: tuple[History, History] = ([], [])
    number = 0
    for epoch in range(draw(st.integers(1, 8))):
        leader = draw(st.integers(0, 1))
        ours, other = logs[leader], logs[1 - leader]
        for _ in range(draw(st.integers(0, 3))):
            ours.append((epoch, number))
            number += 1
        if draw(st.booleans()):  # the follower fetches: cut to what is shared, then copy some
            shared = _shared(ours, other)
            del other[shared:]
            other += ours[shared : shared + draw(st.integers(0, 5))]
    return logs


def _shared(one: History, other: History) -> int:
    return next(
        (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


@given(diverging_logs())
def test_a_follower_ends_as_a_prefix_of_its_leader_and_keeps_what_both_have(logs: tuple[History, History]) -> None:
    leader, follower = logs
    epochs, ours = _epochs(leader), _epochs(follower)
    epochs.assign(100, len(leader))  # the leader's new epoch
    shared, rounds = _shared(leader, follower), 0
    while ours.latest != -1:
        leaders = EpochEnd(*epochs.end_offset_for(ours.latest, len(leader)))
        if not is_diverging(leaders, ours.latest, len(follower)):
            break
        own = EpochEnd(*ours.end_offset_for(leaders.epoch, len(follower)))
        cut = decide_truncation(leaders, own, len(follower))
        assert cut < len(follower)
        del follower[cut:]
        ours.truncate_from_end(cut)
        rounds += 1
        assert rounds < 20
    assert follower == leader[: len(follower)]
    assert len(follower) >= shared

"""The state machine of a leader, driven by hand: a log and a view of the cluster that are plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.core.metrics.cluster_counters import ReplicaMetrics
from penstock.core.partition_state import PartitionState
from penstock.core.types import NO_OFFSET
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.leader_state import Effects, LeaderState
from penstock.replication.progress import NEVER_MS, NO_BROKER_EPOCH

ALL = (1, 2, 3)
LAG_MS = 1_000
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


@dataclass
class Settings:
    min_insync_replicas: int = 1


class Epochs:
    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []

    def begin(self, leader_epoch: int, end_offset: int, /) -> int:
        self.begun.append((leader_epoch, end_offset))
        return end_offset


@dataclass
class Log:
    log_end_offset: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    settings: Settings = field(default_factory=Settings)
    epoch_file: Epochs = field(default_factory=Epochs)

    def advance_high_watermark(self, offset: int, /) -> None:
        self.high_watermark = offset


@dataclass
class Registered:
    epoch: int


class View:
    def __init__(self) -> None:
        self.node_id = 1
        self.lag_max_ms = LAG_MS
        self.brokers = {node_id: Registered(node_id * 10) for node_id in ALL}
        self.metrics = ReplicaMetrics()
        self.is_throttling = False
        self.stopping: set[int] = set()

    def is_eligible(self, node_id: int, broker_epoch: int, /) -> bool:
        return node_id not in self.stopping and broker_epoch in (node_id * 10, NO_BROKER_EPOCH)


class Session:
    """A follower's fetch session."""

    def __init__(self, node_id: int, followed: int = 0, last_fetch_ms: int = 0) -> None:
        self.node_id = node_id
        self.followed = followed
        self.last_fetch_ms = last_fetch_ms
        self.news: list[int | str] = []

    def note(self, _leading: LeaderState, size: int, /) -> None:
        self.news.append(size)

    def note_high_watermark(self, _leading: LeaderState, /) -> None:
        self.news.append("high watermark")

    def hurry(self) -> None:
        self.news.append("hurry")


class Wait:
    def __init__(self) -> None:
        self.code: ErrorCode | None = None

    def done(self) -> bool:
        return self.code is not None

    def set_result(self, result: ErrorCode, /) -> None:
        self.code = result

    def cancel(self) -> None:
        pass


class Stage:
    """Broker 1 leads, and the time stands still unless the test moves it."""

    def __init__(self, isr: tuple[int, ...] = ALL, minimum: int = 1, end: int = 0, replicas: tuple[int, ...] = ALL):
        self.log, self.view = Log(end, settings=Settings(minimum)), View()
        self.woken: list[str] = []
        self.effects = Effects(lambda: self.woken.append("readers"), lambda: self.woken.append("deleters"))
        self.now_ms = 10_000
        self.state = PartitionState(0, replicas, isr, 1)
        self.leading = LeaderState(self.log, self.state, self.view, self.effects, self.now_ms)

    def fetch(self, node_id: int, offset: int, start: int = 0) -> bool:
        progress = self.leading.progress_of(node_id, node_id * 10, is_epoch_known=True)
        return self.leading.note_fetch(node_id, progress, offset, start, node_id * 10, self.now_ms)

    def follow(self, **changes: object) -> None:
        self.state = self.state._replace(partition_epoch=self.state.partition_epoch + 1, **changes)  # type: ignore[arg-type]
        self.leading.follow(self.state, self.now_ms)

    def append(self, count: int = 1) -> bool:
        self.log.log_end_offset += count
        return self.leading.appended(count * 100)

    def wait(self, *, ends_with_epoch: bool = False) -> Wait:
        wait = Wait()
        self.leading.acknowledgements.add(self.log.log_end_offset, wait, wait, ends_with_epoch=ends_with_epoch)
        return wait

    def again(self) -> LeaderState:
        """The same leader after a suspension."""
        return LeaderState(self.log, self.state, self.view, self.effects, self.now_ms, self.leading)


def sets(leading: LeaderState) -> list[object]:
    """The requested in-sync set, and the largest one that may be in force."""
    return [leading.pending_isr, leading.maximal_isr]


def test_the_watermark_is_the_least_end_of_the_in_sync_set() -> None:
    stage = Stage()
    session = Session(2)
    stage.leading.watches[session] = None
    assert not stage.append(3)
    wait = stage.wait()
    stage.fetch(2, 2)
    assert (stage.log.high_watermark, stage.woken) == (0, ["deleters"])
    stage.fetch(3, 1)
    assert (stage.log.high_watermark, stage.woken) == (1, ["deleters", "readers", "deleters"])
    stage.fetch(3, 3)
    assert stage.log.high_watermark == 2
    assert not wait.done()
    stage.fetch(2, 3)
    assert stage.log.high_watermark == 3
    assert wait.code is ErrorCode.NONE
    assert session.news == [300, "high watermark", "high watermark", "high watermark"]


def test_nobody_is_woken_when_a_follower_has_not_moved() -> None:
    stage = Stage()
    stage.fetch(2, 0)
    stage.fetch(3, 0)
    stage.woken.clear()
    stage.fetch(3, 0)
    assert stage.woken == []
    stage.fetch(3, 0, start=5)
    assert stage.woken == ["deleters"]


def test_an_append_raises_the_watermark_only_when_the_leader_is_alone_in_its_set() -> None:
    assert not Stage().append()
    alone = Stage(isr=(1,))
    assert alone.append()
    alone.leading.raise_high_watermark(alone.now_ms)
    assert alone.log.high_watermark == 1
    alone.leading.propose((1, 2))
    assert not alone.append()


def test_the_watermark_stands_still_when_too_few_replicas_are_in_sync() -> None:
    stage = Stage(isr=(1,), minimum=2)
    stage.append()
    wait = stage.wait()
    stage.leading.raise_high_watermark(stage.now_ms)
    assert stage.log.high_watermark == 0
    assert not wait.done()
    stage.log.settings.min_insync_replicas = 1
    stage.leading.raise_high_watermark(stage.now_ms)
    assert wait.code is ErrorCode.NONE


def test_a_writer_hears_of_too_few_replicas_when_its_records_are_replicated_already() -> None:
    stage = Stage(isr=(1, 2), minimum=2)
    stage.append()
    assert stage.leading.judge(1) is None
    stage.fetch(2, 1)
    assert stage.leading.judge(1) is ErrorCode.NONE
    stage.follow(isr=(1,))
    assert stage.leading.judge(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert stage.leading.judge(2) is None


def test_the_watermark_waits_for_a_follower_that_is_about_to_join_and_for_no_other() -> None:
    stage = Stage(isr=(1, 2))
    stage.append(2)
    stage.fetch(3, 2)  # it has everything, so it keeps up
    stage.append(2)
    stage.fetch(2, 4)
    progress = stage.leading.followers[3]
    assert stage.log.high_watermark == 2
    assert stage.leading.is_waited_for(3, progress, stage.now_ms)
    late_ms = stage.now_ms + LAG_MS + 1
    assert not stage.leading.is_waited_for(3, progress, late_ms)
    assert stage.leading.is_waited_for(2, stage.leading.followers[2], late_ms)
    stage.view.stopping = {3}
    assert not stage.leading.is_waited_for(3, progress, stage.now_ms)
    stage.leading.raise_high_watermark(stage.now_ms)
    assert stage.log.high_watermark == 4


def test_a_follower_joins_when_it_has_the_watermark_and_is_eligible() -> None:
    stage = Stage(isr=(1, 2), end=2)
    stage.fetch(2, 2)
    assert not stage.fetch(3, 1)
    assert stage.leading.candidates() == []
    assert stage.fetch(3, 2)
    assert stage.leading.candidates() == [3]
    assert not stage.fetch(2, 2)  # a member
    stage.view.stopping = {3}
    assert not stage.fetch(3, 2)
    assert stage.leading.candidates() == []
    stage.view.stopping = set()
    stage.leading.propose((1, 2, 3))
    assert not stage.fetch(3, 2)  # asked for already


def test_a_follower_lags_when_it_has_not_caught_up_in_time() -> None:
    stage = Stage()
    stage.append()
    stage.fetch(2, 1)
    assert stage.leading.lagging(stage.now_ms + LAG_MS) == []
    assert stage.leading.lagging(stage.now_ms + LAG_MS + 1) == [3]


def test_both_sets_count_when_the_controller_has_not_answered_yet() -> None:
    stage = Stage(isr=(1, 2))
    session = Session(3)
    stage.leading.watches[session] = None
    stage.leading.propose((1, 3))
    assert sets(stage.leading) == [(1, 3), {1, 2, 3}]
    assert session.news == []
    stage.leading.withdraw(stage.now_ms)
    assert sets(stage.leading) == [None, {1, 2}]
    stage.view.is_throttling = True
    stage.leading.propose((1, 2, 3))
    assert session.news == [0]  # it is not held back any more


def test_the_watermark_rises_when_the_controller_refuses_a_slow_member() -> None:
    stage = Stage(isr=(1, 2))
    stage.leading.propose((1, 2, 3))
    stage.append()
    stage.fetch(2, 1)
    assert stage.log.high_watermark == 0
    stage.leading.withdraw(stage.now_ms)
    assert stage.log.high_watermark == 1


@pytest.mark.parametrize(
    ("asked", "given", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), (1, 0)),
        ((1,), (1,), (0, 1)),
        ((1, 2, 3), (1, 2), (0, 0)),
        ((1,), (1, 2), (0, 0)),
        ((1, 3), (1, 3), (0, 0)),
    ],
)
def test_changes_count_when_the_leader_asked_for_them(
    asked: tuple[int, ...], given: tuple[int, ...], expected: tuple[int, int]
) -> None:
    stage = Stage(isr=(1, 2))
    stage.follow(isr=(1, 2))  # not asked for
    stage.leading.propose(asked)
    stage.follow(isr=given)
    assert (stage.view.metrics.isr_expands, stage.view.metrics.isr_shrinks) == expected
    assert sets(stage.leading) == [None, set(given)]


def test_only_waits_of_the_epoch_end_when_the_same_broker_leads_in_another() -> None:
    stage = Stage()
    session = Session(2)
    stage.append()
    producer, coordinator = stage.wait(), stage.wait(ends_with_epoch=True)
    stage.leading.watches[session] = None
    stage.follow(isr=(1, 2))
    assert (producer.code, coordinator.code) == (None, None)
    stage.follow(leader_epoch=1)
    assert (producer.code, coordinator.code) == (None, MOVED)
    assert stage.log.epoch_file.begun == [(0, 0), (1, 1)]
    assert stage.leading.epoch_start == 1
    assert session.news == [0, 0]
    stage.fetch(2, 1)
    assert producer.code is ErrorCode.NONE


def test_followers_positions_are_kept_when_no_other_broker_led_in_between() -> None:
    stage = Stage(isr=(1, 2), end=1)
    stage.fetch(2, 1)
    stage.fetch(3, 1)
    stage.now_ms += 500
    stage.follow(leader_epoch=1)
    two, three = stage.leading.followers[2], stage.leading.followers[3]
    assert (two.log_end_offset, two.caught_up_ms) == (1, stage.now_ms)
    assert (three.log_end_offset, three.caught_up_ms) == (NO_OFFSET, NEVER_MS)
    stage.follow(leader_epoch=3)
    assert two.log_end_offset == NO_OFFSET


def test_a_follower_that_left_the_set_counts_as_never_caught_up() -> None:
    stage = Stage(end=1)
    stage.fetch(2, 1)
    stage.fetch(3, 1)
    stage.follow(isr=(1, 2))
    assert stage.leading.followers[3].caught_up_ms == NEVER_MS
    assert stage.leading.followers[2].caught_up_ms == stage.now_ms


def test_followers_come_and_go_with_the_assignment() -> None:
    stage = Stage(replicas=(1, 2), isr=(1, 2))
    assert list(stage.leading.followers) == [2]
    assert stage.leading.followers[2].caught_up_ms == stage.now_ms
    stage.now_ms += 1
    stage.follow(replicas=(1, 3), isr=(1,))
    assert list(stage.leading.followers) == [3]
    assert stage.leading.followers[3].caught_up_ms == NEVER_MS


def test_producers_wait_on_and_others_end_when_the_leader_is_suspended() -> None:
    stage = Stage()
    session = Session(2)
    stage.append()
    producer, coordinator = stage.wait(), stage.wait(ends_with_epoch=True)
    stage.leading.watches[session] = None
    stage.leading.suspend()
    assert (producer.code, coordinator.code) == (None, MOVED)
    assert stage.woken == ["deleters"]
    assert session.news == [0]
    again = stage.again()
    assert again.acknowledgements is stage.leading.acknowledgements
    stage.leading = again
    stage.fetch(2, 1)
    stage.fetch(3, 1)
    assert producer.code is ErrorCode.NONE


def test_all_waits_end_when_another_broker_leads() -> None:
    stage = Stage()
    stage.append()
    waits = stage.wait(), stage.wait(ends_with_epoch=True)
    stage.leading.resign()
    assert [wait.code for wait in waits] == [MOVED, MOVED]
    assert stage.woken == ["deleters"]


def test_producers_are_acknowledged_when_the_leader_becomes_the_only_replica() -> None:
    stage = Stage()
    stage.append()
    producer, coordinator = stage.wait(), stage.wait(ends_with_epoch=True)
    stage.log.high_watermark = 1
    stage.append()
    late = stage.wait()
    stage.leading.lose_followers()
    assert [wait.code for wait in (producer, coordinator, late)] == [ErrorCode.NONE, MOVED, MOVED]


def test_a_requested_set_may_be_in_force_when_a_suspended_leader_leads_again_in_the_same_state() -> None:
    stage = Stage(isr=(1, 2))
    stage.leading.propose(ALL)
    again = stage.again()
    assert sets(again) == [ALL, set(ALL)]
    stage.state = stage.state._replace(partition_epoch=1)
    other = stage.again()
    assert sets(other) == [None, {1, 2}]


@pytest.mark.parametrize(
    ("node_id", "broker_epoch", "is_epoch_known", "code"),
    [
        (2, 20, True, None),
        (2, NO_BROKER_EPOCH, True, None),
        (2, 21, True, MOVED),
        (2, 19, True, MOVED),
        (4, 40, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (4, 40, False, MOVED),
        (3, 30, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
    ids=["itself", "an old version", "made up", "former process", "newer image", "stranger", "away"],
)
def test_a_fetch_counts_when_it_comes_from_the_registered_process_of_a_replica(
    node_id: int, broker_epoch: int, is_epoch_known: bool, code: ErrorCode | None
) -> None:
    stage = Stage()
    stage.fetch(2, 0)
    del stage.view.brokers[3]
    if code is None:
        progress = stage.leading.progress_of(node_id, broker_epoch, is_epoch_known)
        assert progress is stage.leading.followers[node_id]
        return
    with pytest.raises(ApiError) as refused:
        stage.leading.progress_of(node_id, broker_epoch, is_epoch_known)
    assert refused.value.code is code


def test_the_low_watermark_is_the_least_start_of_live_replicas() -> None:
    stage = Stage(end=9)
    stage.log.log_start_offset = 5
    assert stage.leading.low_watermark() == NO_OFFSET
    stage.fetch(2, 9, start=4)
    stage.fetch(3, 9, start=3)
    assert stage.leading.low_watermark() == 3
    del stage.view.brokers[3]
    assert stage.leading.low_watermark() == 4
    stage.fetch(2, 9, start=7)
    assert stage.leading.low_watermark() == 5


def test_all_members_have_followed_when_each_has_a_session_that_followed_since() -> None:
    stage = Stage(isr=(1, 2))
    stage.leading.watches[Session(2, followed=4)] = None
    assert stage.leading.have_followed_since(4)
    assert not stage.leading.have_followed_since(5)
    stage.leading.propose(ALL)
    assert not stage.leading.have_followed_since(4)
    stage.leading.watches[Session(3, followed=5)] = None
    assert stage.leading.have_followed_since(4)


def test_the_newest_fetch_of_each_member_counts_also_when_it_did_not_name_the_partition() -> None:
    stage = Stage(isr=(1, 2))
    stage.fetch(2, 0)
    stage.fetch(3, 0)
    assert stage.leading.last_fetches_ms() == [10_000]
    stage.leading.watches[Session(2, last_fetch_ms=9_000)] = None
    stage.leading.watches[Session(3, last_fetch_ms=12_000)] = None
    assert stage.leading.last_fetches_ms() == [10_000]
    stage.leading.watches[Session(2, last_fetch_ms=11_000)] = None
    stage.leading.propose(ALL)
    assert stage.leading.last_fetches_ms() == [11_000, 12_000]

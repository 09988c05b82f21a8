from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from penstock.broker.fetch_sessions import FetchPlan, FetchSession, FetchSessions, FetchTarget, PartitionKey
from penstock.core.metrics.counters import PurgatoryMetrics
from penstock.protocol.errors import ApiError, ErrorCode

EVICTION_MS = 120_000
LAST_EPOCH = 2**31 - 1


def target(topic: str, partition: int = 0, offset: int = 0) -> FetchTarget:
    return FetchTarget(topic, partition, offset, 1 << 20)


class Cache:
    """Sessions, asked as a broker would ask."""

    def __init__(self, slots: int = 2, max_partitions: int = 100) -> None:
        self.metrics = PurgatoryMetrics()
        self.sessions = FetchSessions(slots, EVICTION_MS, self.metrics, random.Random(1), max_partitions)
        self.now_ms = 1_000

    def plan(
        self,
        session_id: int,
        epoch: int,
        targets: Iterable[FetchTarget] = (),
        forgotten: Iterable[PartitionKey] = (),
        *,
        uses_topic_ids: bool = False,
        follower: int | None = None,
    ) -> FetchPlan:
        return self.sessions.plan(
            session_id, epoch, list(targets), list(forgotten), uses_topic_ids, self.now_ms, follower
        )

    def open(self, *targets: FetchTarget) -> FetchSession:
        plan = self.plan(0, 0, targets or [target("a"), target("b")])
        assert plan.session is not None
        return plan.session


def error_of(plan: object) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        plan()  # type: ignore[operator]
    return caught.value.code


@pytest.fixture
def cache() -> Cache:
    return Cache()


class TestFullFetches:
    def test_session_begins_when_the_epoch_is_initial(self, cache: Cache) -> None:
        plan = cache.plan(0, 0, [target("a"), target("b")])
        assert plan.session is not None
        assert plan.session.id > 0
        assert not plan.is_incremental
        assert plan.targets == [target("a"), target("b")]
        assert (len(cache.sessions), cache.sessions.partition_count) == (1, 2)

    def test_session_begins_when_nothing_is_named_yet(self, cache: Cache) -> None:
        assert cache.plan(0, 0).session is not None

    def test_no_session_begins_when_the_epoch_is_final(self, cache: Cache) -> None:
        plan = cache.plan(0, -1, [target("a")])
        assert (plan.session, plan.targets) == (None, [target("a")])
        assert len(cache.sessions) == 0

    @pytest.mark.parametrize("epoch", [0, -1])
    def test_old_session_ends_when_a_full_fetch_names_it(self, cache: Cache, epoch: int) -> None:
        old = cache.open()
        cache.plan(old.id, epoch, [target("a")])
        assert error_of(lambda: cache.plan(old.id, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert cache.sessions.partition_count == (1 if epoch == 0 else 0)

    def test_nothing_happens_when_a_full_fetch_names_an_unknown_session(self, cache: Cache) -> None:
        kept = cache.open()
        cache.plan(12345, -1, [target("a")])
        assert cache.plan(kept.id, 1).session is kept


class TestIncrementalFetches:
    def test_session_begins_anew_when_its_follower_was_not_registered_at_its_first_fetch(self, cache: Cache) -> None:
        """Without a watch no append would wake the follower's fetches."""
        session = cache.open()
        go_on = lambda: cache.sessions.plan(session.id, 1, [], [], False, 0, follower=2)  # noqa: E731
        assert error_of(go_on) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert len(cache.sessions) == 0

    def test_everything_known_is_read_when_nothing_changed(self, cache: Cache) -> None:
        session = cache.open()
        plan = cache.plan(session.id, 1)
        assert plan.is_incremental
        assert plan.targets == [target("a"), target("b")]

    def test_changes_apply_when_partitions_are_named_and_forgotten(self, cache: Cache) -> None:
        session = cache.open()
        plan = cache.plan(session.id, 1, [target("a", offset=7), target("c")], [("b", 0), ("unknown", 3)])
        assert plan.targets == [target("a", offset=7), target("c")]
        assert cache.sessions.partition_count == 2

    def test_partition_stays_when_it_is_forgotten_and_named_at_once(self, cache: Cache) -> None:
        session = cache.open(target("a"))
        assert cache.plan(session.id, 1, [target("a", offset=3)], [("a", 0)]).targets == [target("a", offset=3)]

    def test_epochs_count_up_when_requests_follow_one_another(self, cache: Cache) -> None:
        session = cache.open()
        for epoch in range(1, 5):
            assert cache.plan(session.id, epoch).session is session

    @pytest.mark.parametrize("epoch", [2, LAST_EPOCH, -2])
    def test_epoch_is_refused_when_it_does_not_follow(self, cache: Cache, epoch: int) -> None:
        session = cache.open()
        assert error_of(lambda: cache.plan(session.id, epoch)) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert cache.plan(session.id, 1).session is session

    def test_epoch_is_refused_when_it_is_repeated(self, cache: Cache) -> None:
        session = cache.open()
        cache.plan(session.id, 1)
        assert error_of(lambda: cache.plan(session.id, 1)) == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    def test_epoch_1_follows_when_the_last_epoch_is_reached(self, cache: Cache) -> None:
        session = cache.open()
        session.epoch = LAST_EPOCH
        cache.plan(session.id, LAST_EPOCH)
        assert cache.plan(session.id, 1).session is session

    @pytest.mark.parametrize("session_id", [0, 1, -1])
    def test_session_is_not_found_when_nobody_opened_it(self, cache: Cache, session_id: int) -> None:
        assert error_of(lambda: cache.plan(session_id, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_session_is_refused_when_names_and_ids_are_mixed(self, cache: Cache) -> None:
        session = cache.open()
        refusal = error_of(lambda: cache.plan(session.id, 1, uses_topic_ids=True))
        assert refusal == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        assert cache.plan(session.id, 1).session is session

    def test_session_ends_when_no_partition_is_left(self, cache: Cache) -> None:
        session = cache.open(target("a"))
        plan = cache.plan(session.id, 1, [], [("a", 0)])
        assert (plan.session, plan.targets, plan.is_incremental) == (None, [], False)
        assert (len(cache.sessions), cache.sessions.partition_count) == (0, 0)


class TestAnswers:
    A = ("a", 0)

    def test_partition_is_named_once_when_nothing_moves(self, cache: Cache) -> None:
        session = cache.open()
        assert session.must_answer(self.A, 0, 5, 0, 0)
        assert not session.must_answer(self.A, 0, 5, 0, 0)

    @pytest.mark.parametrize(("high_watermark", "log_start_offset", "size"), [(6, 0, 0), (5, 1, 0), (5, 0, 100)])
    def test_partition_is_named_when_something_moved(
        self, cache: Cache, high_watermark: int, log_start_offset: int, size: int
    ) -> None:
        session = cache.open()
        session.must_answer(self.A, 0, 5, 0, 0)
        assert session.must_answer(self.A, 0, high_watermark, log_start_offset, size)

    def test_partition_is_named_every_time_when_it_has_an_error(self, cache: Cache) -> None:
        session = cache.open()
        session.must_answer(self.A, 0, 5, 0, 0)
        assert session.must_answer(self.A, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, 0)
        assert session.must_answer(self.A, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, 0)

    def test_partition_is_named_when_it_has_recovered(self, cache: Cache) -> None:
        session = cache.open()
        session.must_answer(self.A, 0, 5, 0, 0)
        session.must_answer(self.A, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, 0)
        assert session.must_answer(self.A, 0, 5, 0, 0)

    def test_partition_is_named_every_time_when_the_reader_has_diverged(self, cache: Cache) -> None:
        session = cache.open()
        session.must_answer(self.A, 0, 5, 0, 0)
        assert session.must_answer(self.A, 0, 5, 0, 0, is_urgent=True)
        assert session.must_answer(self.A, 0, 5, 0, 0, is_urgent=True)

    def test_partition_goes_to_the_end_when_it_gave_records(self, cache: Cache) -> None:
        session = cache.open(target("a"), target("b"), target("c"))
        session.must_answer(self.A, 0, 5, 0, 100)
        assert [each.topic for each in cache.plan(session.id, 1).targets] == ["b", "c", "a"]

    def test_answer_is_given_when_the_partition_was_dropped_while_it_waited(self, cache: Cache) -> None:
        """Two connections that share a session: nonsense, but no reason to fail."""
        session = cache.open()
        cache.plan(session.id, 1, [], [self.A])
        assert session.must_answer(self.A, 0, 5, 0, 100)


class TestRoom:
    def test_no_session_begins_when_all_slots_are_in_use(self, cache: Cache) -> None:
        cache.open()
        cache.open()
        plan = cache.plan(0, 0, [target("a")])
        assert (plan.session, plan.targets) == (None, [target("a")])
        assert len(cache.sessions) == 2

    def test_unused_session_makes_room_when_it_is_old_enough(self, cache: Cache) -> None:
        old, used = cache.open(), cache.open()
        cache.now_ms += EVICTION_MS - 1
        cache.plan(used.id, 1)
        assert cache.plan(0, 0, [target("a")]).session is None
        cache.now_ms += 1
        assert cache.plan(0, 0, [target("a")]).session is not None
        assert cache.metrics.session_evictions == 1
        assert error_of(lambda: cache.plan(old.id, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert cache.plan(used.id, 2).session is used

    def test_no_session_begins_when_no_slots_are_configured(self) -> None:
        assert Cache(slots=0).plan(0, 0, [target("a")]).session is None

    def test_no_session_begins_when_it_would_name_too_many_partitions(self) -> None:
        cache = Cache(max_partitions=10)
        cache.open(*(target("a", index) for index in range(8)))
        assert cache.plan(0, 0, [target("b", index) for index in range(3)]).session is None
        assert cache.plan(0, 0, [target("b", index) for index in range(2)]).session is not None
        assert cache.sessions.partition_count == 10

    @pytest.mark.parametrize("name", ["x" * 250, "x" * 32_767, "é"])
    def test_nothing_is_remembered_when_no_topic_can_have_the_name(self, name: str) -> None:
        cache = Cache()
        assert cache.plan(0, 0, [target("a"), target(name)]).session is None
        session = cache.open(target("a"))
        assert error_of(lambda: cache.plan(session.id, 1, [target(name)])) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert (len(cache.sessions), cache.sessions.partition_count) == (0, 0)

    def test_session_ends_when_it_grows_too_large(self) -> None:
        cache = Cache(max_partitions=10)
        session = cache.open(target("a"))
        more = [target("b", index) for index in range(10)]
        assert error_of(lambda: cache.plan(session.id, 1, more)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert (len(cache.sessions), cache.sessions.partition_count) == (0, 0)

    def test_count_stays_right_when_sessions_come_and_go(self) -> None:
        dice = random.Random(7)
        cache = Cache(slots=5, max_partitions=40)
        epochs: dict[int, int] = {}
        for _ in range(2_000):
            cache.now_ms += dice.choice((0, 0, 50_000))
            named = [target(dice.choice("abcd"), dice.randrange(6)) for _ in range(dice.randrange(5))]
            forgotten: list[PartitionKey] = [(dice.choice("abcd"), dice.randrange(6)) for _ in range(dice.randrange(4))]
            session_id = dice.choice([0, *epochs])
            epoch = dice.choice([0, -1, epochs.get(session_id, 1), epochs.get(session_id, 1)])
            try:
                plan = cache.plan(session_id, epoch, named, forgotten)
            except ApiError:
                epochs.pop(session_id, None)
                continue
            if plan.session is not None:
                epochs[plan.session.id] = plan.session.epoch
            held = cache.sessions._sessions.values()
            assert cache.sessions.partition_count == sum(len(session.targets) for session in held) <= 40
            assert len(cache.sessions) <= 5


class TestRequestsPlannedInSeveralTurns:
    def test_partitions_are_not_counted_for_ever_when_the_session_ends_between_two_turns(self, cache: Cache) -> None:
        """Each such request took room from all clients until the broker was restarted."""
        session = cache.open()
        plan = cache.plan(session.id, 1, [target("c")])
        cache.plan(session.id, -1)
        code = error_of(lambda: cache.sessions.extend(plan, [target(f"d{index}") for index in range(50)], []))
        assert code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert cache.sessions.partition_count == 0

    def test_a_full_fetch_is_served_without_session_when_its_session_ends_between_two_turns(self, cache: Cache) -> None:
        session = cache.open(target("a"))
        plan = FetchPlan([target("a")], session)
        cache.plan(session.id, -1)
        cache.sessions.extend(plan, [target("b")], [])
        assert plan == FetchPlan([target("a"), target("b")], None)
        assert cache.sessions.partition_count == 0


class TestFollowers:
    def open(self, cache: Cache, follower: int, *targets: FetchTarget) -> FetchSession:
        session = cache.plan(0, 0, targets or [target("a"), target("b")], follower=follower).session
        assert session is not None
        return session

    def test_followers_session_stays_when_clients_open_as_many_as_they_like(self, cache: Cache) -> None:
        session = self.open(cache, 2)
        cache.now_ms += 2 * EVICTION_MS
        for _ in range(3 * 2):
            cache.open()
            cache.now_ms += 2 * EVICTION_MS
        assert len(cache.sessions) == 1 + 2
        assert cache.plan(session.id, 1, follower=2).session is session

    def test_clients_have_all_slots_when_followers_have_sessions(self) -> None:
        cache = Cache(slots=1)
        for follower in (2, 3):
            self.open(cache, follower)
        cache.open()
        assert cache.plan(0, 0, [target("a")]).session is None

    def test_follower_names_more_when_clients_have_used_up_the_partitions(self) -> None:
        cache = Cache(max_partitions=3)
        session = self.open(cache, 2, target("a"))
        cache.open(target("a"), target("b"), target("c"))
        more = cache.plan(session.id, 1, [target("b"), target("c")], follower=2)
        assert more.session is session
        assert cache.sessions.partition_count == 6
        too_many = lambda: cache.plan(session.id, 2, [target("d")], follower=2)  # noqa: E731
        assert error_of(too_many) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert cache.sessions.partition_count == 3

    @pytest.mark.parametrize("stranger", [None, 3])
    def test_nobody_else_ends_or_continues_a_followers_session_when_its_id_is_guessed(
        self, cache: Cache, stranger: int | None
    ) -> None:
        session = self.open(cache, 2)
        assert error_of(lambda: cache.plan(session.id, 1, follower=stranger)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        for epoch in (0, -1):
            cache.plan(session.id, epoch, [target("a")], follower=stranger)
        assert cache.plan(session.id, 1, follower=2).session is session

    def test_one_session_is_kept_when_a_follower_begins_anew(self, cache: Cache) -> None:
        first, second = self.open(cache, 2), self.open(cache, 2)
        assert error_of(lambda: cache.plan(first.id, 1, follower=2)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        cache.plan(second.id, -1, [target("a")], follower=2)
        assert (len(cache.sessions), cache.sessions.partition_count) == (0, 0)

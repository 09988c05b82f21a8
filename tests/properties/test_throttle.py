"""The limiter of replication, for any course of moves: never faster than the rate, and never stuck."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.log_settings import NO_LIMIT
from penstock.replication.throttle import RateLimiter, throttled_partitions

LIMITS = st.one_of(st.integers(0, 50), st.integers(100, 1_000_000))
SIZES = st.integers(1, 100_000)
WINDOWS = st.tuples(st.integers(1, 12), st.sampled_from([100, 1_000, 3_000]))
COURSE = st.lists(st.tuples(st.integers(0, 20_000), SIZES), max_size=30)


@given(LIMITS, WINDOWS, st.lists(SIZES, min_size=1, max_size=40))
def test_a_mover_that_asks_first_is_no_faster_than_the_rate_but_by_one_move_a_span(
    limit: int, windows: tuple[int, int], sizes: list[int]
) -> None:
    """It moves as soon as it may."""
    count, window_ms = windows
    limiter = RateLimiter(limit, count, window_ms)
    span_ms = count * window_ms
    now_ms = 0
    moves: list[tuple[int, int]] = []
    for size in sizes:
        now_ms = limiter.free_at_ms(now_ms)
        limiter.note(size, now_ms)
        moves.append((now_ms, size))
    for first, (begin_ms, _) in enumerate(moves):
        moved = 0
        for at_ms, size in moves[first:]:
            spans = (at_ms - begin_ms) // span_ms + 1
            allowed = limit * (at_ms - begin_ms + 2 * window_ms * spans) / 1000
            assert moved <= allowed + spans * max(sizes)
            moved += size


@given(LIMITS, WINDOWS, COURSE)
def test_the_time_of_freedom_is_the_first_at_which_the_limit_is_not_exceeded(
    limit: int, windows: tuple[int, int], course: list[tuple[int, int]]
) -> None:
    limiter, copy = RateLimiter(limit, *windows), RateLimiter(limit, *windows)
    now_ms = 0
    for passed_ms, size in course:
        now_ms += passed_ms
        limiter.note(size, now_ms)
        copy.note(size, now_ms)
        free_ms = limiter.free_at_ms(now_ms)
        assert (free_ms == now_ms) is not limiter.is_exceeded(now_ms)
        assert free_ms <= now_ms + windows[0] * windows[1]
    free_ms = limiter.free_at_ms(now_ms)
    if free_ms > now_ms:
        assert limiter.is_exceeded(free_ms - 1)
    assert not copy.is_exceeded(free_ms)


@given(LIMITS, WINDOWS, COURSE)
def test_what_fits_into_the_room_does_not_exceed_the_limit(
    limit: int, windows: tuple[int, int], course: list[tuple[int, int]]
) -> None:
    limiter = RateLimiter(limit, *windows)
    now_ms = 0
    for passed_ms, size in course:
        now_ms += passed_ms
        limiter.note(size, now_ms)
        room = limiter.room(now_ms)
        assert room == 0 or not limiter.is_exceeded(now_ms)
        limiter.note(room, now_ms)
        assert room == 0 or not limiter.is_exceeded(now_ms)
        assert limiter.room(now_ms) <= 1


@given(COURSE)
def test_nothing_is_exceeded_and_there_is_always_room_when_there_is_no_limit(course: list[tuple[int, int]]) -> None:
    limiter = RateLimiter()
    now_ms = 0
    for passed_ms, size in course:
        now_ms += passed_ms
        limiter.note(size, now_ms)
        assert not limiter.is_exceeded(now_ms)
        assert limiter.room(now_ms) == NO_LIMIT
        assert limiter.free_at_ms(now_ms) == now_ms


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=20),
    st.integers(0, 12),
    st.sampled_from(["", " "]),
)
def test_a_broker_finds_its_own_replicas_in_a_list(pairs: list[tuple[int, int]], node_id: int, space: str) -> None:
    text = f"{space},{space}".join(f"{partition}:{broker}" for partition, broker in pairs)
    found = throttled_partitions(f"{space}{text}{space}", node_id)
    assert set(found) == {partition for partition, broker in pairs if broker == node_id}

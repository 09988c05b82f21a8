"""The limiter of replication, by example: Kafka's windows."""

from __future__ import annotations

import pytest

from penstock.core.log_settings import NO_LIMIT
from penstock.replication.throttle import RateLimiter, throttled_partitions


def test_a_second_of_the_rate_is_there_at_once_when_nothing_was_moved() -> None:
    limiter = RateLimiter(1_000)
    assert limiter.room(5_000) == 1_000
    limiter.note(1_000, 5_000)
    assert not limiter.is_exceeded(5_000)
    assert limiter.room(5_000) == 0
    limiter.note(1, 5_000)
    assert limiter.is_exceeded(5_000)


def test_there_is_room_again_when_enough_time_has_passed() -> None:
    limiter = RateLimiter(1_000)
    limiter.note(3_500, 0)
    assert limiter.free_at_ms(0) == 3_500
    assert limiter.is_exceeded(3_499)
    assert not limiter.is_exceeded(3_500)
    assert limiter.room(4_500) == 1_000


def test_a_move_is_forgotten_when_all_windows_are_over() -> None:
    """A limit below one batch lets one batch pass in eleven seconds, and so does a limit of nothing."""
    for limit in (0, 1):
        limiter = RateLimiter(limit)
        limiter.note(1_000_000, 100)
        assert limiter.free_at_ms(200) == 11_100
        assert not limiter.is_exceeded(11_100)


def test_what_was_moved_counts_when_the_limit_is_changed() -> None:
    limiter = RateLimiter(10_000)
    limiter.note(9_000, 0)
    limiter.limit = 1_000
    assert limiter.is_exceeded(1_000)
    limiter.limit = 100_000
    assert limiter.room(1_000) == 91_000
    limiter.limit = NO_LIMIT
    assert limiter.room(1_000) == NO_LIMIT


def test_the_rate_is_over_the_time_since_the_oldest_window_when_it_is_measured() -> None:
    limiter = RateLimiter()
    assert limiter.rate(0) == 0
    limiter.note(1_000, 0)
    assert limiter.rate(500) == 1_000
    limiter.note(1_000, 2_000)
    assert limiter.rate(4_000) == 500
    assert limiter.rate(11_500) == pytest.approx(1_000 / 9.5)  # the first window is over
    assert limiter.rate(60_000) == 0


@pytest.mark.parametrize(("second_ms", "left"), [(900, 0), (1_499, 0), (1_500, 5), (1_600, 5)])
def test_bytes_join_the_window_before_when_it_is_not_over(second_ms: int, left: int) -> None:
    """The window is forgotten eleven seconds after its begin, with all that joined it."""
    limiter = RateLimiter()
    limiter.note(5_000, 500)
    limiter.note(5, second_ms)
    assert limiter.rate(11_499) == pytest.approx(5_005 * 1_000 / 10_999)
    assert limiter.rate(11_500) == pytest.approx(left * 1_000 / (11_500 - second_ms))


def test_nothing_is_exceeded_when_there_is_no_limit() -> None:
    limiter = RateLimiter()
    limiter.note(1_000_000, 0)
    assert not limiter.is_exceeded(0)
    assert limiter.free_at_ms(0) == 0


def test_windows_are_compared_by_count_and_length() -> None:
    limiter = RateLimiter(window_count=4, window_ms=500)
    assert limiter.has_windows(4, 500)
    assert not limiter.has_windows(2, 1_000)
    assert not limiter.has_windows(5, 500)


def test_there_is_room_when_the_oldest_of_several_windows_is_forgotten() -> None:
    limiter = RateLimiter(1_000)
    limiter.note(20_000, 0)
    limiter.note(5_000, 1_000)
    assert limiter.free_at_ms(1_000) == 11_000
    assert limiter.is_exceeded(10_999)
    assert not limiter.is_exceeded(11_000)
    limiter.note(20_000, 11_000)
    assert limiter.free_at_ms(11_000) == 12_000 + 10_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", set()), ("1:1,2:2,3:1", {1, 3}), ("1:11,2:21,1:12", set()), (" 4:1 , 5:01 ", {4, 5}), ("x:1,7:1", {7})],
)
def test_only_the_own_replicas_are_found_when_the_list_names_pairs(text: str, expected: set[int]) -> None:
    assert set(throttled_partitions(text, 1)) == expected


def test_every_partition_is_found_when_the_list_is_a_star() -> None:
    found = throttled_partitions("*", 1)
    assert 0 in found
    assert 2**31 - 1 in found
    assert 2**31 not in found

"""A cache holds so many entries, so large in all, for so long."""

from __future__ import annotations

from penstock.core.bounded_cache import BoundedCache


def test_the_least_recently_used_goes_when_there_are_too_many() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_entries_go_when_they_are_too_large_together() -> None:
    cache: BoundedCache[str, int] = BoundedCache(100, 40)
    for number in range(10):
        cache.put(str(number), number, 10)
    assert [cache.get(str(number)) for number in range(10)] == [None] * 6 + [6, 7, 8, 9]
    cache.put("9", 99, 1)
    cache.put("large", 1, 11)
    assert (cache.get("9"), cache.get("large"), len(cache)) == (99, None, 4)


def test_entries_go_when_their_time_is_over() -> None:
    now = [0.0]
    cache: BoundedCache[str, int] = BoundedCache(2, keep_s=5, clock=lambda: now[0])
    cache.put("a", 1)
    now[0] = 4.9
    assert cache.get("a") == 1
    now[0] = 5.0
    assert cache.get("a") is None
    assert len(cache) == 0

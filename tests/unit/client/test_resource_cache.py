from __future__ import annotations

import gc
import subprocess
import sys
import threading
from functools import partial

from penstock.client.resource_cache import ResourceCache


def test_the_same_value_is_given_when_its_key_comes_again() -> None:
    cache: ResourceCache[str, list[int]] = ResourceCache(2, list.clear)
    first = cache.get("a", lambda: [1])
    assert cache.get("a", lambda: [2]) is first


def test_the_value_in_use_stays_open_when_two_threads_open_the_same_key() -> None:
    closed: list[str] = []
    cache: ResourceCache[str, str] = ResourceCache(2, closed.append)

    def open_slowly() -> str:
        assert cache.get("a", lambda: "quicker") == "quicker"  # as another thread would meanwhile
        return "slower"

    assert cache.get("a", open_slowly) == "quicker"
    assert closed == ["slower"]


def test_the_longest_unused_is_closed_when_there_are_too_many() -> None:
    closed: list[str] = []
    cache: ResourceCache[str, str] = ResourceCache(2, closed.append)
    for name in ("a", "b", "a", "c"):
        cache.get(name, partial(str, name))
    assert closed == ["b"]
    assert len(cache) == 2


def test_a_taken_value_is_its_takers_when_others_are_closed() -> None:
    closed: list[str] = []
    cache: ResourceCache[str, str] = ResourceCache(1, closed.append)
    cache.give_back("a", "first")
    assert (cache.take("a"), cache.take("a")) == ("first", None)
    cache.give_back("b", "second")
    cache.close()
    assert closed == ["second"]


def test_the_former_value_is_closed_when_another_one_takes_its_place() -> None:
    closed: list[str] = []
    cache: ResourceCache[str, str] = ResourceCache(2, closed.append)
    cache.give_back("a", "first")
    cache.give_back("a", "second")
    cache.give_back("a", "second")
    assert closed == ["first"]


def test_values_are_closed_when_their_thread_ends() -> None:
    closed: list[str] = []

    class OfThread(threading.local):
        def __init__(self) -> None:
            self.cache: ResourceCache[str, str] = ResourceCache(2, closed.append)

    local = OfThread()
    thread = threading.Thread(target=lambda: local.cache.give_back("a", "value"))
    thread.start()
    thread.join()
    gc.collect()
    assert closed == ["value"]


def test_values_are_closed_when_the_process_ends() -> None:
    begin = "from penstock.client.resource_cache import ResourceCache"
    code = f"{begin}; cache = ResourceCache(2, print); cache.give_back('a', 'closed')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "closed\n"

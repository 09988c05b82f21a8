from __future__ import annotations

import gc
import subprocess
import sys
import threading
from functools import partial

from penstock.client.kept import Kept


def test_the_same_value_is_given_when_its_key_comes_again() -> None:
    kept: Kept[str, list[int]] = Kept(2, list.clear)
    first = kept.get("a", lambda: [1])
    assert kept.get("a", lambda: [2]) is first


def test_the_value_in_use_stays_open_when_two_threads_open_the_same_key() -> None:
    closed: list[str] = []
    kept: Kept[str, str] = Kept(2, closed.append)

    def open_slowly() -> str:
        assert kept.get("a", lambda: "quicker") == "quicker"  # as another thread would meanwhile
        return "slower"

    assert kept.get("a", open_slowly) == "quicker"
    assert closed == ["slower"]


def test_the_longest_unused_is_closed_when_there_are_too_many() -> None:
    closed: list[str] = []
    kept: Kept[str, str] = Kept(2, closed.append)
    for name in ("a", "b", "a", "c"):
        kept.get(name, partial(str, name))
    assert closed == ["b"]
    assert len(kept) == 2


def test_a_taken_value_is_its_takers_when_others_are_closed() -> None:
    closed: list[str] = []
    kept: Kept[str, str] = Kept(1, closed.append)
    kept.give_back("a", "first")
    assert (kept.take("a"), kept.take("a")) == ("first", None)
    kept.give_back("b", "second")
    kept.close()
    assert closed == ["second"]


def test_the_former_value_is_closed_when_another_one_takes_its_place() -> None:
    closed: list[str] = []
    kept: Kept[str, str] = Kept(2, closed.append)
    kept.give_back("a", "first")
    kept.give_back("a", "second")
    kept.give_back("a", "second")
    assert closed == ["first"]


def test_values_are_closed_when_their_thread_ends() -> None:
    closed: list[str] = []

    class OfThread(threading.local):
        def __init__(self) -> None:
            self.kept: Kept[str, str] = Kept(2, closed.append)

    local = OfThread()
    thread = threading.Thread(target=lambda: local.kept.give_back("a", "value"))
    thread.start()
    thread.join()
    gc.collect()
    assert closed == ["value"]


def test_values_are_closed_when_the_process_ends() -> None:
    code = "from penstock.client.kept import Kept; kept = Kept(2, print); kept.give_back('a', 'closed')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "closed\n"

"""Sinks that write at once: nothing that was not done may pass for done."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.pipelines.runtime.side_by_side import Failure, NotBegunError, run_side_by_side


def plain(work: Callable[[], object]) -> threading.Thread:
    return threading.Thread(target=work)


class NeverCalls(threading.Thread):
    """As Spark's thread when Java cannot be reached: it ends before it calls its target."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(target=lambda: None)


class NeverStarts(threading.Thread):
    def start(self) -> None:
        raise OSError("too many open files")


def test_nothing_has_failed_when_every_work_came_to_its_end() -> None:
    done: set[str] = set()
    assert run_side_by_side({name: lambda name=name: done.add(name) for name in "abc"}, plain) == []  # type: ignore[misc]
    assert done == {*"abc"}


def test_a_work_has_failed_when_its_thread_ends_without_calling_it() -> None:
    (failure,) = run_side_by_side({"orders": lambda: None}, NeverCalls)
    assert failure.name == "orders"
    assert isinstance(failure.error, NotBegunError)


def test_what_was_begun_is_waited_for_when_another_thread_does_not_start() -> None:
    ended = threading.Event()
    may_end = threading.Event()

    def make(work: Callable[[], object]) -> threading.Thread:
        made.append(NeverStarts(target=work) if made else plain(work))
        if len(made) == 2:
            may_end.set()
        return made[-1]

    def slow() -> None:
        may_end.wait()
        ended.set()

    made: list[threading.Thread] = []
    failures = run_side_by_side({"first": slow, "second": lambda: None, "third": lambda: None}, make)
    assert ended.is_set()
    assert [failure.name for failure in failures] == ["second", "third"]
    assert isinstance(failures[0].error, OSError)


def test_the_first_failure_comes_first_when_several_works_fail() -> None:
    first, second = ValueError("first"), ValueError("second")
    first_failed = threading.Event()

    def fail_first() -> None:
        raise first

    def fail_second() -> None:
        first_failed.wait()
        raise second

    def make(work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            work()
            first_failed.set()

        return threading.Thread(target=run)

    failures = run_side_by_side({"b": fail_second, "a": fail_first}, make)
    assert failures == [Failure("a", first), Failure("b", second)]

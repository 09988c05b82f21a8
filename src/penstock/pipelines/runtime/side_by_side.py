"""Several pieces of work at once, each on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

Work: TypeAlias = Callable[[], object]


class Failure(NamedTuple):
    name: str
    error: BaseException


class NotBegunError(RuntimeError):
    """A thread ended before its work began."""


def run_side_by_side(works: Mapping[str, Work], make_thread: Callable[[Work], threading.Thread]) -> list[Failure]:
    """Returns when no thread is at work any more, with the failures, the first one first.

    A work counts as done only where it has come to its end. Spark's threads speak to Java before they call their
    target, and a failure there is not reported: then the work was not done, and has not failed either."""
    done: set[str] = set()
    failed: list[Failure] = []

    def noted(name: str, work: Work) -> Work:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
                failed.append(Failure(name, error))
            else:
                done.add(name)

        return run

    started: list[threading.Thread] = []
    try:
        for name, work in works.items():
            try:
                thread = make_thread(noted(name, work))
                thread.start()
            except Exception as error:  # noqa: BLE001 - as above; the others are not begun
                failed.append(Failure(name, error))
                break
            started.append(thread)
    finally:
        for thread in started:
            thread.join()
    told = done | {failure.name for failure in failed}
    missing = [name for name in works if name not in told]
    return failed + [Failure(name, NotBegunError(f"no thread came to write to {name}")) for name in missing]

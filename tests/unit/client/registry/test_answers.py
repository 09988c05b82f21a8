"""Threads that need the same answer ask once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client.registry.answers import KeptAnswers
from penstock.client.registry.errors import RegistryUnreachableError
from penstock.core.bounded_cache import BoundedCache


class Question:
    """Waits until it may be answered."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.count = 0
        self._failure = failure

    def __call__(self) -> str:
        self.count += 1
        self.begun.set()
        assert self.may_end.wait(30)
        if self._failure is not None:
            raise self._failure
        return "answer"


def answers() -> KeptAnswers[str]:
    return KeptAnswers(BoundedCache(10), BoundedCache(10))


def test_one_question_is_asked_when_several_threads_need_its_answer() -> None:
    kept, question = answers(), Question()
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(kept.ask, "key", question)
        assert question.begun.wait(30)
        others = [threads.submit(kept.ask, "key", question) for _ in range(3)]
        question.may_end.set()
        assert [each.result(30) for each in (first, *others)] == ["answer"] * 4
    assert question.count == 1


def test_the_next_one_asks_again_when_a_question_has_failed() -> None:
    kept, question = answers(), Question(RegistryUnreachableError("away"))
    question.may_end.set()
    for expected in (1, 2):
        with pytest.raises(RegistryUnreachableError, match="away"):
            kept.ask("key", question)
        assert question.count == expected

"""What is said while an answer is waited for."""

from __future__ import annotations

import threading

from penstock.cli.commands.sql.answer_watch import watched


def test_trouble_is_told_once_when_an_answer_takes_long() -> None:
    told: list[str] = []
    is_told = threading.Event()

    def tell(said: str) -> None:
        told.append(said)
        is_told.set()

    with watched(lambda: "no broker answers at a:9092", tell, silence_s=0.01):
        assert is_told.wait(10)
    assert told == ["no broker answers at a:9092; the question waits for it"]


def test_nothing_is_told_when_there_is_no_trouble() -> None:
    told: list[str] = []
    asked = threading.Semaphore(0)

    def trouble() -> str:
        asked.release()
        return ""

    with watched(trouble, told.append, silence_s=0.01):
        assert all(asked.acquire(timeout=10) for _ in range(3))
    assert told == []
